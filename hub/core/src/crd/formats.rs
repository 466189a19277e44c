//! Formats of texts and numbers that a schema may name (source: kube-openapi `strfmt`). A format that is not known is
//! no condition.

use super::pattern::Pattern;
use base64::Engine as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

/// A format with its name as the schema writes it.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// As in messages.
    pub name: &'static str,
    test: fn(&str) -> bool,
}

impl PartialEq for Format {
    fn eq(&self, other: &Format) -> bool {
        self.name == other.name
    }
}

impl Eq for Format {}

/// Names as schemas write them, without dashes, and their tests; the first name is that of messages.
const FORMATS: [Format; 28] = [
    of("bsonobjectid", |t| is(&BSON, t)),
    of("uri", is_uri),
    of("email", is_email),
    of("hostname", |t| t.len() < 255 && is(&HOSTNAME, t)),
    of("ipv4", |t| t.parse::<Ipv4Addr>().is_ok()),
    of("ipv6", |t| t.parse::<Ipv6Addr>().is_ok()),
    of("cidr", is_cidr),
    of("mac", is_mac),
    of("uuid", |t| is(&UUID, t)),
    of("uuid3", |t| is_uuid(t, '3', false)),
    of("uuid4", |t| is_uuid(t, '4', true)),
    of("uuid5", |t| is_uuid(t, '5', true)),
    of("isbn", |t| is_isbn10(t) || is_isbn13(t)),
    of("isbn10", is_isbn10),
    of("isbn13", is_isbn13),
    of("creditcard", is_credit_card),
    of("ssn", |t| is(&SSN, t)),
    of("hexcolor", |t| is(&HEX_COLOR, t)),
    of("rgbcolor", |t| is(&RGB_COLOR, t)),
    of("byte", |t| {
        base64::engine::general_purpose::STANDARD.decode(t).is_ok()
    }),
    of("password", |_| true),
    of("date", is_date),
    of("duration", is_duration),
    of("datetime", |t| {
        t.len() >= 4 && crate::timestamp::parse(&t.to_uppercase()).is_some()
    }),
    of("k8s-short-name", |t| crate::names::dns_label(t).is_ok()),
    of("k8s-long-name", |t| crate::names::dns_subdomain(t).is_ok()),
    // The same formats as the schema may also write them.
    of("date-time", |t| {
        t.len() >= 4 && crate::timestamp::parse(&t.to_uppercase()).is_some()
    }),
    of("bson-object-id", |t| is(&BSON, t)),
];

const fn of(name: &'static str, test: fn(&str) -> bool) -> Format {
    Format { name, test }
}

/// Formats of numbers that count; their ranges are checked with the number.
const NUMBERS: [(&str, Format); 4] = [
    ("integer", of("int32", |_| true)),
    ("integer", of("int64", |_| true)),
    ("number", of("float", |_| true)),
    ("number", of("double", |_| true)),
];

static BSON: LazyLock<Pattern> = LazyLock::new(|| Pattern::new("^[0-9a-fA-F]{24}$"));
static HOSTNAME: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(
        "^([a-zA-Z0-9\u{a0}-\u{d7ff}]([a-zA-Z0-9\u{a0}-\u{d7ff}-]{0,61}[a-zA-Z0-9\u{a0}-\u{d7ff}])?)(\\.[a-zA-Z0-9\u{a0}-\u{d7ff}]([a-zA-Z0-9\u{a0}-\u{d7ff}-]{0,61}[a-zA-Z0-9\u{a0}-\u{d7ff}])?)*\\.?$",
    )
});
static UUID: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::new("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"));
static SSN: LazyLock<Pattern> = LazyLock::new(|| Pattern::new("^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"));
static HEX_COLOR: LazyLock<Pattern> = LazyLock::new(|| Pattern::new("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"));
static RGB_COLOR: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(
        "^rgb\\(\\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\\s*,\\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\\s*,\\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\\s*\\)$",
    )
});
static CARD: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(
        "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$",
    )
});
static EMAIL: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new("^[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]+@[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$")
});
static URI: LazyLock<Pattern> = LazyLock::new(|| Pattern::new("^([A-Za-z][A-Za-z0-9+.-]*:\\S+|/\\S*)$"));
static SCALA: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(
        "^[0-9]+\\s*(d|days?|h|hours?|m|min|mins|minutes?|s|sec|secs|seconds?|ms|millis|milliseconds?|us|micros|microseconds?|ns|nanos|nanoseconds?|w|weeks?)$",
    )
});

fn is(pattern: &Pattern, text: &str) -> bool {
    pattern.is_in(text) == Ok(true)
}

impl Format {
    /// The format of that name, if it is a condition on values of the type.
    pub fn of(name: &str, of_type: Option<&str>) -> Option<Format> {
        match of_type {
            Some("integer" | "number") => {
                let of_type = of_type?;
                let found = NUMBERS.iter().find(|(t, f)| *t == of_type && f.name == name);
                found.map(|(_, format)| *format)
            }
            None | Some("string") => {
                let bare = name.replace('-', "");
                let exact = FORMATS.iter().find(|f| f.name == name);
                exact
                    .or_else(|| FORMATS.iter().find(|f| f.name.replace('-', "") == bare))
                    .copied()
            }
            Some(_) => None,
        }
    }

    /// Whether a text is of the format; numbers always are.
    pub fn holds(self, text: &str) -> bool {
        (self.test)(text)
    }
}

fn is_uri(text: &str) -> bool {
    is(&URI, text) && !text.chars().any(char::is_control)
}

fn is_email(text: &str) -> bool {
    // A name in front, as in `Name <a@b>`, is part of an address too.
    let bare = match text.strip_suffix('>').and_then(|t| t.rsplit_once('<')) {
        Some((_, address)) => address,
        None => text,
    };
    let local = bare.split('@').next().unwrap_or_default();
    is(&EMAIL, bare) && !local.starts_with('.') && !local.ends_with('.') && !local.contains("..")
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let most = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    !bits.is_empty()
        && bits.bytes().all(|b| b.is_ascii_digit())
        && bits.parse::<u8>().is_ok_and(|n| n <= most)
}

fn is_mac(text: &str) -> bool {
    let hex = |part: &str, digits: usize| part.len() == digits && part.bytes().all(|b| b.is_ascii_hexdigit());
    for separator in [':', '-'] {
        let parts: Vec<&str> = text.split(separator).collect();
        if matches!(parts.len(), 6 | 8 | 20) && parts.iter().all(|p| hex(p, 2)) {
            return true;
        }
    }
    let parts: Vec<&str> = text.split('.').collect();
    matches!(parts.len(), 3 | 4 | 10) && parts.iter().all(|p| hex(p, 4))
}

fn is_uuid(text: &str, version: char, has_variant: bool) -> bool {
    let digits: Vec<char> = text.chars().filter(|c| *c != '-').collect();
    let variant = digits.get(16).map(char::to_ascii_lowercase);
    is(&UUID, text)
        && digits.get(12) == Some(&version)
        && (!has_variant || matches!(variant, Some('8' | '9' | 'a' | 'b')))
}

fn is_isbn10(text: &str) -> bool {
    let digits: Vec<char> = text.chars().filter(|c| !matches!(c, '-' | ' ')).collect();
    if digits.len() != 10 {
        return false;
    }
    let mut sum = 0;
    for (at, c) in digits.iter().enumerate() {
        let value = match c {
            'X' if at == 9 => 10,
            c => match c.to_digit(10) {
                Some(value) => value,
                None => return false,
            },
        };
        sum += value * u32::try_from(at + 1).unwrap_or(0);
    }
    sum.is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let digits: Option<Vec<u32>> = text
        .chars()
        .filter(|c| !matches!(c, '-' | ' '))
        .map(|c| c.to_digit(10))
        .collect();
    let Some(digits) = digits.filter(|d| d.len() == 13) else {
        return false;
    };
    let sum: u32 = digits
        .iter()
        .enumerate()
        .map(|(at, d)| if at % 2 == 0 { *d } else { 3 * d })
        .sum();
    sum.is_multiple_of(10)
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if !is(&CARD, &digits) {
        return false;
    }
    let sum: u32 = digits
        .chars()
        .rev()
        .filter_map(|c| c.to_digit(10))
        .enumerate()
        .map(|(at, d)| match at % 2 {
            0 => d,
            _ if d > 4 => 2 * d - 9,
            _ => 2 * d,
        })
        .sum();
    sum.is_multiple_of(10)
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && crate::timestamp::parse(&format!("{text}T00:00:00Z")).is_some()
}

/// Go's durations (`1h30m`), and those of Scala (`5 minutes`).
fn is_duration(text: &str) -> bool {
    if is(&SCALA, text) {
        return true;
    }
    let rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut rest = rest;
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        if !number.bytes().any(|b| b.is_ascii_digit()) || number.matches('.').count() > 1 {
            return false;
        }
        let units = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
        let Some(unit) = units
            .iter()
            .filter(|u| after.starts_with(**u))
            .max_by_key(|u| u.len())
        else {
            return false;
        };
        rest = &after[unit.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_each_format() {
        let table = [
            ("date-time", "2014-12-15T19:30:20.000Z", "2014-12-15"),
            ("datetime", "2014-12-15T19:30:20Z", "now"),
            ("date", "2006-01-02", "2006-13-02"),
            ("duration", "1h30m", "1 fortnight"),
            ("duration", "22 ns", ""),
            ("ipv4", "10.0.0.1", "10.0.0.256"),
            ("ipv6", "::1", "10.0.0.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("mac", "01:02:03:04:05:06", "01:02"),
            ("uuid", "a8098c1a-f86e-11da-bd1a-00112444be1e", "a8098c1a"),
            (
                "uuid4",
                "025b0d74-00a2-4048-bf57-227c5111bb34",
                "a8098c1a-f86e-11da-bd1a-00112444be1e",
            ),
            ("hostname", "a-b.example.com", "-a"),
            ("email", "a@example.com", "a"),
            ("uri", "https://example.com/x", "example com"),
            ("byte", "aGVsbG8=", "?"),
            ("isbn10", "0321751043", "0321751044"),
            ("isbn13", "978-0321751041", "978-0321751042"),
            ("creditcard", "4111 1111 1111 1111", "4111 1111 1111 1112"),
            ("ssn", "111-11-1111", "1"),
            ("hexcolor", "#FFFFFF", "#FFFF"),
            ("rgbcolor", "rgb(255, 0, 10)", "rgb(256,0,0)"),
            ("k8s-short-name", "a-b", "A"),
            ("k8s-long-name", "a.b", "a..b"),
        ];
        for (name, right, wrong) in table {
            let format = Format::of(name, Some("string")).expect(name);
            assert!(format.holds(right), "{name} {right}");
            assert!(!format.holds(wrong), "{name} {wrong}");
        }
        assert_eq!(Format::of("unheard-of", Some("string")), None);
        assert_eq!(Format::of("date", Some("object")), None);
        assert_eq!(
            Format::of("int32", Some("integer")).map(|f| f.name),
            Some("int32")
        );
        assert_eq!(Format::of("int32", Some("string")), None);
    }
}
