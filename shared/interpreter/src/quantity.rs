//! The canonical text of a quantity, as requirements carry it.

use shared::object::Quantity;

/// How a quantity is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Whole units with `Ki`, `Mi`, ...: memory and storage.
    Binary,
    /// Thousandths with `m`, `k`, `M`, ...: everything else.
    Decimal,
}

/// No fraction, rounded up, the largest suffix that is exact.
pub(crate) fn print(quantity: Quantity, form: Form) -> String {
    let (mut number, step, suffixes): (i64, i64, &[&str]) = match form {
        Form::Binary => (
            quantity.units_ceil(),
            1024,
            &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"],
        ),
        Form::Decimal => (quantity.millis_ceil(), 1000, &["m", "", "k", "M", "G", "T", "P"]),
    };
    if number == 0 {
        return "0".to_owned();
    }
    let mut suffix = 0;
    while number % step == 0 && suffix + 1 < suffixes.len() {
        number /= step;
        suffix += 1;
    }
    format!("{number}{}", suffixes[suffix])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_canonically_and_rounds_up() {
        let cases = [
            ("1G", Form::Binary, "1000000000"),
            ("1Gi", Form::Binary, "1Gi"),
            ("1500m", Form::Binary, "2"),
            ("350m", Form::Decimal, "350m"),
            ("1000m", Form::Decimal, "1"),
            ("1000", Form::Decimal, "1k"),
            ("1n", Form::Decimal, "1m"),
            ("0", Form::Decimal, "0"),
        ];
        for (text, form, printed) in cases {
            assert_eq!(print(text.parse().expect("a quantity"), form), printed, "{text}");
        }
    }
}
