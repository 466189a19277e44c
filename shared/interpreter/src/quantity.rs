//! The canonical text of a quantity, as requirements carry it.

use shared::object::{Quantity, QuantityError};

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

/// Printed as Kubernetes does: whole binary units if it was written so and is whole, else thousandths.
pub(crate) fn canonical(quantity: Quantity, binary: bool) -> String {
    if binary && quantity == Quantity::from_units(quantity.units_ceil()) {
        print(quantity, Form::Binary)
    } else {
        print(quantity, Form::Decimal)
    }
}

/// Sum of quantities; printed in the form of the first that is not zero.
///
/// # Errors
/// A text that is no quantity.
pub(crate) fn sum<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<String, QuantityError> {
    let mut total = Quantity::default();
    let mut binary = false;
    for text in texts {
        let amount: Quantity = text.parse()?;
        if total.is_zero() {
            binary = text.ends_with('i');
        }
        total = total.plus(amount);
    }
    Ok(canonical(total, binary))
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

    #[test]
    fn sums_keep_the_form_of_the_first() {
        assert_eq!(sum(["512Mi", "512Mi"]).as_deref(), Ok("1Gi"));
        assert_eq!(sum(["0", "1.5Gi", "1"]).as_deref(), Ok("1610612737"));
        assert_eq!(sum(["100M", "1.2G"]).as_deref(), Ok("1300M"));
        assert_eq!(sum([]).as_deref(), Ok("0"));
        assert!(sum(["abc"]).is_err());
    }
}
