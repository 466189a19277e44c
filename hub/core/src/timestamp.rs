//! RFC 3339 times as Kubernetes writes them, and ages as kubectl prints them. Seconds since 1970, no clock here.

use shared::time::UnixSeconds;

/// `2026-11-30T12:00:00Z`.
pub fn format(seconds: i64) -> String {
    UnixSeconds(seconds).rfc3339()
}

/// Reads an RFC 3339 time (fraction ignored); `None` if it is not one.
pub fn parse(text: &str) -> Option<i64> {
    UnixSeconds::parse_rfc3339(text).map(|t| t.0)
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
