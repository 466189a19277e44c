//! Kubernetes resource quantities (`100m`, `1.5Gi`, `2e3`), exact to a nano-unit.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Text that is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{0:?} is not a quantity: a number with an optional suffix of n, u, m, k, M, G, T, P, E, Ki to Ei, or an exponent"
)]
pub struct QuantityError(pub String);

/// A quantity in nano-units, the finest that Kubernetes keeps. Finer fractions are rounded up, as Kubernetes does;
/// values beyond the range stop at its ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity {
    nanos: i128,
}

const NANO: i128 = 1_000_000_000;

impl Quantity {
    /// From whole units.
    #[must_use]
    pub const fn from_units(units: i64) -> Self {
        Self {
            nanos: units as i128 * NANO,
        }
    }

    /// From thousandths (CPU).
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self {
            nanos: millis as i128 * (NANO / 1000),
        }
    }

    /// Whole units, rounded up.
    #[must_use]
    pub fn units_ceil(self) -> i64 {
        clamp(div_ceil(self.nanos, NANO))
    }

    /// Whole units, rounded down (towards negative infinity).
    #[must_use]
    pub fn units_floor(self) -> i64 {
        clamp(self.nanos.div_euclid(NANO))
    }

    /// Thousandths, rounded up.
    #[must_use]
    pub fn millis_ceil(self) -> i64 {
        clamp(div_ceil(self.nanos, NANO / 1000))
    }

    /// Sum, stopping at the ends of the range.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            nanos: self.nanos.saturating_add(other.nanos),
        }
    }

    /// Difference, stopping at the ends of the range.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self {
            nanos: self.nanos.saturating_sub(other.nanos),
        }
    }

    /// A multiple, stopping at the ends of the range.
    #[must_use]
    pub const fn times(self, factor: i64) -> Self {
        Self {
            nanos: self.nanos.saturating_mul(factor as i128),
        }
    }

    /// How often another quantity goes into this one, rounded down; `None` if that one is not above zero.
    #[must_use]
    pub fn divided_by(self, part: Self) -> Option<i64> {
        (part.nanos > 0).then(|| clamp(self.nanos.div_euclid(part.nanos)))
    }

    /// Whether it is zero.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.nanos == 0
    }
}

fn div_ceil(a: i128, b: i128) -> i128 {
    a.div_euclid(b) + i128::from(a.rem_euclid(b) != 0)
}

fn clamp(v: i128) -> i64 {
    i64::try_from(v).unwrap_or(if v < 0 { i64::MIN } else { i64::MAX })
}

/// Numerator, denominator of a suffix; `None` for an unknown one.
fn suffix(text: &str) -> Option<(i128, i128)> {
    Some(match text {
        "n" => (1, NANO),
        "u" => (1, 1_000_000),
        "m" => (1, 1000),
        "" => (1, 1),
        "k" => (1000, 1),
        "M" => (1_000_000, 1),
        "G" => (NANO, 1),
        "T" => (NANO * 1000, 1),
        "P" => (NANO * 1_000_000, 1),
        "E" => (NANO * NANO, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        "Ei" => (1 << 60, 1),
        exponent => {
            let digits = exponent.strip_prefix(['e', 'E'])?;
            let power: i32 = digits.parse().ok()?;
            match power {
                0..=18 => (10i128.pow(power.unsigned_abs()), 1),
                -18..=-1 => (1, 10i128.pow(power.unsigned_abs())),
                _ => return None,
            }
        }
    })
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(s: &str) -> Result<Self, QuantityError> {
        parse(s).ok_or_else(|| QuantityError(s.chars().take(64).collect()))
    }
}

fn parse(text: &str) -> Option<Quantity> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = unsigned
        .bytes()
        .take_while(|b| b.is_ascii_digit() || *b == b'.')
        .count();
    let (number, rest) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let (numerator, denominator) = suffix(rest)?;
    let mut nanos = if whole.is_empty() {
        0
    } else {
        whole.parse::<i128>().ok().unwrap_or(i128::MAX)
    }
    .saturating_mul(NANO)
    .saturating_mul(numerator);
    nanos = div_ceil(nanos, denominator);
    // Digits beyond 15 only matter for the rounding up.
    let (kept, dropped) = fraction.split_at(fraction.len().min(15));
    if !kept.is_empty() {
        let scale = 10i128.pow(u32::try_from(kept.len()).ok()?);
        let mut part = kept.parse::<i128>().ok()?;
        if dropped.bytes().any(|b| b != b'0') {
            part += 1;
        }
        nanos = nanos.saturating_add(div_ceil(
            part.saturating_mul(numerator).saturating_mul(NANO),
            scale.saturating_mul(denominator),
        ));
    }
    Some(Quantity {
        nanos: if negative { nanos.saturating_neg() } else { nanos },
    })
}

impl fmt::Display for Quantity {
    /// Whole units plain, else the largest of `m`, `u`, `n` that is exact.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, suffix) in [(NANO, ""), (NANO / 1000, "m"), (1000, "u")] {
            if self.nanos % unit == 0 {
                return write!(f, "{}{suffix}", self.nanos / unit);
            }
        }
        write!(f, "{}n", self.nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_like_kubernetes() {
        for (text, millis) in [
            ("0", 0),
            ("100m", 100),
            ("1", 1000),
            ("1.5", 1500),
            (".5", 500),
            ("5.", 5000),
            ("+2", 2000),
            ("-1500m", -1500),
            ("1k", 1_000_000),
            ("1Ki", 1_024_000),
            ("1.5Gi", 1_610_612_736_000),
            ("2e3", 2_000_000),
            ("2E3", 2_000_000),
            ("1e-2", 10),
            ("100u", 1),
            ("1n", 1),
        ] {
            assert_eq!(
                text.parse::<Quantity>().map(Quantity::millis_ceil),
                Ok(millis),
                "{text}"
            );
        }
        for bad in [
            "", "-", ".", "1.2.3", "1 Gi", "Gi", "1gi", "1K", "e3", "1e", "1e99", "abc", "1mm",
        ] {
            assert!(bad.parse::<Quantity>().is_err(), "{bad}");
        }
    }

    #[test]
    fn orders_adds_and_prints() {
        let q = |s: &str| s.parse::<Quantity>().unwrap();
        assert!(q("1") > q("999m"));
        assert_eq!(q("1Gi"), q("1073741824"));
        assert_eq!(q("600m").plus(q("400m")).to_string(), "1");
        assert_eq!(q("1").minus(q("1500m")).to_string(), "-500m");
        assert_eq!(q("1500m").units_ceil(), 2);
        assert_eq!(q("1500m").units_floor(), 1);
        assert_eq!(q("9999999999999999999Ei").units_floor(), i64::MAX);
        assert_eq!(q("3n").to_string(), "3n");
    }
}
