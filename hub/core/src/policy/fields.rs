//! Small rules for single values: nullable members, label keys and values, JSON pointers.

use serde::{Deserialize, Deserializer};

/// Reads a member whose `null` means the same as its absence, as the API server treats it.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

const LABEL_MAX: usize = 63;
const PREFIX_MAX: usize = 253;

fn is_name_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    text.len() <= LABEL_MAX
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

fn is_subdomain(text: &str) -> bool {
    let label = |part: &str| {
        let bytes = part.as_bytes();
        let edge = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        edge(bytes.first())
            && edge(bytes.last())
            && bytes
                .iter()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
    };
    text.len() <= PREFIX_MAX && text.split('.').all(label)
}

/// Is this a valid label or annotation key: an optional DNS subdomain and `/`, then a name of at most 63 characters?
pub(crate) fn is_qualified_name(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_name_part(name),
        None => is_name_part(key),
    }
}

/// Is this a valid label value: empty, or at most 63 characters that begin and end with a letter or digit?
pub(crate) fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_name_part(value)
}

/// Is this a JSON pointer (RFC 6901): empty, or segments each led by `/`, with `~` only as `~0` or `~1`?
pub(crate) fn is_json_pointer(text: &str) -> bool {
    if text.is_empty() {
        return true;
    }
    text.starts_with('/')
        && text
            .split('~')
            .skip(1)
            .all(|after_tilde| after_tilde.starts_with('0') || after_tilde.starts_with('1'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_keys_and_values() {
        for (key, valid) in [
            ("app", true),
            ("team.example/good", true),
            ("bad key!", false),
            ("-x", false),
            ("x-", false),
            ("a@b", false),
            ("TEAM.EXAMPLE/x", false),
            ("a/b/c", false),
            ("/x", false),
            ("", false),
        ] {
            assert_eq!(is_qualified_name(key), valid, "{key:?}");
        }
        assert!(is_qualified_name(&"a".repeat(63)) && !is_qualified_name(&"a".repeat(64)));
        assert!(is_label_value("") && is_label_value("v1.2_3-x") && !is_label_value("bad value!"));
    }

    #[test]
    fn json_pointers() {
        for (text, valid) in [
            ("", true),
            ("/a/0", true),
            ("/a~1b/~0", true),
            ("a", false),
            ("/a~2", false),
            ("/a~", false),
        ] {
            assert_eq!(is_json_pointer(text), valid, "{text:?}");
        }
    }
}
