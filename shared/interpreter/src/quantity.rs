//! Resource quantities of Kubernetes: exact reading, adding, comparing and canonical printing.

use std::fmt;

use thiserror::Error;

const NANO: i128 = 1_000_000_000;
/// Longest text taken; the API server prints far shorter ones.
const LONGEST_TEXT: usize = 64;

/// An amount of a resource, exact to a billionth (finer is rounded up, as the API does).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Quantity {
    nano: i128,
}

/// How a quantity is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuantityForm {
    /// `Ki`, `Mi`, ...: memory and storage.
    Binary,
    /// `m`, `k`, `M`, ...: everything else.
    Decimal,
}

/// The text is no quantity.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is no quantity: digits, then one of n u m k M G T P E Ki Mi Gi Ti Pi Ei or an exponent")]
pub struct QuantityError(pub String);

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self { nano: 0 };

    /// Reads the text form.
    ///
    /// # Errors
    /// [`QuantityError`] when the text is none or does not fit.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        Self::read(text).ok_or_else(|| QuantityError(text.chars().take(LONGEST_TEXT).collect()))
    }

    fn read(text: &str) -> Option<Self> {
        if text.len() > LONGEST_TEXT {
            return None;
        }
        let (sign, rest) = match text.as_bytes().first()? {
            b'-' => (-1, &text[1..]),
            b'+' => (1, &text[1..]),
            _ => (1, text),
        };
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (digits, suffix) = rest.split_at(end);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (base, power): (i128, i32) = match suffix {
            "" => (10, 0),
            "n" => (10, -9),
            "u" => (10, -6),
            "m" => (10, -3),
            "k" => (10, 3),
            "M" => (10, 6),
            "G" => (10, 9),
            "T" => (10, 12),
            "P" => (10, 15),
            "E" => (10, 18),
            "Ki" => (2, 10),
            "Mi" => (2, 20),
            "Gi" => (2, 30),
            "Ti" => (2, 40),
            "Pi" => (2, 50),
            "Ei" => (2, 60),
            _ => (
                10,
                suffix
                    .strip_prefix(['e', 'E'])?
                    .parse::<i32>()
                    .ok()
                    .filter(|e| e.abs() <= 27)?,
            ),
        };
        // mantissa × 10^-fraction × base^power, in billionths, rounded away from zero.
        let mut mantissa: i128 = 0;
        for digit in whole.bytes().chain(fraction.bytes()) {
            mantissa = mantissa.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
        }
        let mut top = mantissa;
        let mut bottom: i128 = 1;
        let mut scale10 = 9 - i32::try_from(fraction.len()).ok()?;
        if base == 10 {
            scale10 += power;
        } else {
            top = top.checked_mul(1i128 << power)?;
        }
        for _ in 0..scale10.abs() {
            if scale10 > 0 {
                top = top.checked_mul(10)?;
            } else {
                // Beyond 38 digits the divisor exceeds any mantissa that fits: the result is below one billionth.
                bottom = bottom.checked_mul(10).unwrap_or(i128::MAX);
            }
        }
        let nano = top / bottom + i128::from(top % bottom != 0);
        Some(Self { nano: sign * nano })
    }

    /// A quantity of whole units.
    pub fn units(units: i64) -> Self {
        Self {
            nano: i128::from(units) * NANO,
        }
    }

    /// Whole units, rounded up.
    pub fn ceil_units(self) -> i128 {
        self.ceil_div(NANO)
    }

    /// Thousandths, rounded up.
    pub fn ceil_milli(self) -> i128 {
        self.ceil_div(NANO / 1000)
    }

    fn ceil_div(self, by: i128) -> i128 {
        self.nano.div_euclid(by) + i128::from(self.nano.rem_euclid(by) != 0)
    }

    /// The sum; saturates.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            nano: self.nano.saturating_add(other.nano),
        }
    }

    /// More than nothing?
    pub fn is_positive(self) -> bool {
        self.nano > 0
    }

    /// The canonical text: no fraction, the largest exact suffix. Binary form rounds up to whole units,
    /// decimal form to thousandths.
    pub fn print(self, form: QuantityForm) -> String {
        let (mut number, step, suffixes): (i128, i128, &[&str]) = match form {
            QuantityForm::Binary => (self.ceil_units(), 1024, &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]),
            QuantityForm::Decimal => (self.ceil_milli(), 1000, &["m", "", "k", "M", "G", "T", "P", "E"]),
        };
        if number == 0 {
            return "0".to_owned();
        }
        let mut index = 0;
        while number % step == 0 && index + 1 < suffixes.len() {
            number /= step;
            index += 1;
        }
        format!("{number}{}", suffixes[index])
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.print(QuantityForm::Decimal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_suffix_exactly() {
        let same = [
            ("1", "1000m"),
            ("1G", "1000M"),
            ("1Ki", "1024"),
            ("1.5Gi", "1536Mi"),
            ("1e3", "1k"),
            ("1E3", "1k"),
            ("1E", "1000P"),
            ("0.1", "100m"),
            (".5", "500m"),
            ("5.", "5"),
            ("100u", "100000n"),
            ("-1", "-1000m"),
        ];
        for (a, b) in same {
            assert_eq!(Quantity::parse(a), Quantity::parse(b), "{a} = {b}");
        }
    }

    #[test]
    fn refuses_what_is_none() {
        for text in [
            "",
            "-",
            "x",
            "1x",
            "1.2.3",
            "1 ",
            "m",
            "1ki",
            "1e",
            "99999999999999999999999999999999Ei",
        ] {
            assert!(Quantity::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn prints_canonically_and_rounds_up() {
        let cases = [
            ("1G", QuantityForm::Binary, "1000000000"),
            ("1Gi", QuantityForm::Binary, "1Gi"),
            ("1500m", QuantityForm::Binary, "2"),
            ("350m", QuantityForm::Decimal, "350m"),
            ("1000m", QuantityForm::Decimal, "1"),
            ("1000", QuantityForm::Decimal, "1k"),
            ("1n", QuantityForm::Decimal, "1m"),
            ("0", QuantityForm::Decimal, "0"),
        ];
        for (text, form, printed) in cases {
            assert_eq!(
                Quantity::parse(text).expect("a quantity").print(form),
                printed,
                "{text}"
            );
        }
    }
}
