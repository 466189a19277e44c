//! RFC 3339 times as Kubernetes writes them, and ages as kubectl prints them. Seconds since 1970, no clock here.

/// `2026-11-30T12:00:00Z`.
pub fn format(seconds: i64) -> String {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

/// Reads an RFC 3339 time (fraction ignored); `None` if it is not one.
pub fn parse(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = bytes.get(from..to)?;
        if !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        std::str::from_utf8(digits).ok()?.parse().ok()
    };
    let separators = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    if separators.iter().any(|(at, c)| bytes.get(*at) != Some(c))
        || !matches!(bytes.get(10), Some(b'T' | b't'))
    {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut at = 19;
    if bytes.get(at) == Some(&b'.') {
        at += 1;
        let digits = bytes[at..].iter().take_while(|b| b.is_ascii_digit()).count();
        if digits == 0 {
            return None;
        }
        at += digits;
    }
    let offset = match bytes.get(at) {
        Some(b'Z' | b'z') if bytes.len() == at + 1 => 0,
        Some(sign @ (b'+' | b'-')) if bytes.len() == at + 6 && bytes[at + 3] == b':' => {
            let minutes = number(at + 1, at + 3)? * 60 + number(at + 4, at + 6)?;
            if *sign == b'-' { -minutes } else { minutes }
        }
        _ => return None,
    };
    Some(days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset * 60)
}

/// An age as kubectl prints it (`duration.HumanDuration` of apimachinery): two units at most, coarser with age.
pub fn age(seconds: i64) -> String {
    let s = seconds;
    if s < -1 {
        return "<invalid>".to_owned();
    }
    if s < 0 {
        return "0s".to_owned();
    }
    let two = |a: i64, unit_a: char, b: i64, unit_b: char| {
        if b == 0 {
            format!("{a}{unit_a}")
        } else {
            format!("{a}{unit_a}{b}{unit_b}")
        }
    };
    match s {
        0..120 => format!("{s}s"),
        120..600 => two(s / 60, 'm', s % 60, 's'),
        600..10_800 => format!("{}m", s / 60),
        10_800..28_800 => two(s / 3600, 'h', s / 60 % 60, 'm'),
        28_800..172_800 => format!("{}h", s / 3600),
        172_800..691_200 => two(s / 86_400, 'd', s / 3600 % 24, 'h'),
        691_200..63_072_000 => format!("{}d", s / 86_400),
        63_072_000..252_288_000 => two(s / 31_536_000, 'y', s / 86_400 % 365, 'd'),
        _ => format!("{}y", s / 31_536_000),
    }
}

/// Days since 1970 of a date in the proleptic Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years are counted from March, so that the leap day is the last day of a year.
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let of_era = y.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The inverse of [`days`].
fn civil(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let of_era = z.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_times() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_796_040_000, "2026-11-30T12:00:00Z"),
        ] {
            assert_eq!(format(seconds), text);
            assert_eq!(parse(text), Some(seconds));
        }
        assert_eq!(parse("2026-11-30T14:00:00.123456+02:00"), Some(1_796_040_000));
        for bad in [
            "",
            "2026-11-30",
            "2026-11-30T12:00:00",
            "2026-13-30T12:00:00Z",
            "2026-11-30T12:00:00.Z",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn ages_get_coarser() {
        let table = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (150, "2m30s"),
            (605, "10m"),
            (3 * 3600 + 120, "3h2m"),
            (9 * 3600, "9h"),
            (2 * 86_400 + 3600, "2d1h"),
            (9 * 86_400, "9d"),
            (800 * 86_400, "2y70d"),
            (-10, "<invalid>"),
        ];
        for (seconds, text) in table {
            assert_eq!(age(seconds), text);
        }
    }

    proptest! {
        #[test]
        fn every_time_reads_back(seconds in -60_000_000_000i64..250_000_000_000) {
            prop_assert_eq!(parse(&format(seconds)), Some(seconds));
        }
    }
}
