//! Names as Kubernetes allows them (source: apimachinery `validation`): object names, label keys and values.

use std::net::IpAddr;

const DNS_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
     end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const DNS_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start \
     and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start \
     and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
     '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

fn is_label(text: &str) -> bool {
    let inner = text
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    !text.is_empty() && inner && !text.starts_with('-') && !text.ends_with('-')
}

fn is_word(text: &str) -> bool {
    let inner = text
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    let ends = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    inner && ends(text.bytes().next()) && ends(text.bytes().next_back())
}

/// RFC 1123 label: names of namespaces and services.
///
/// # Errors
/// What a name must be.
pub fn dns_label(text: &str) -> Result<(), String> {
    if text.len() > 63 {
        return Err("must be no more than 63 bytes".to_owned());
    }
    if is_label(text) {
        Ok(())
    } else {
        Err(DNS_LABEL.to_owned())
    }
}

const DNS_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and \
     end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is \
     '[a-z]([-a-z0-9]*[a-z0-9])?')";

/// RFC 1035 label: names in definitions of custom resources.
///
/// # Errors
/// What a name must be.
pub fn dns_1035_label(text: &str) -> Result<(), String> {
    if text.len() > 63 {
        return Err("must be no more than 63 bytes".to_owned());
    }
    if is_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase()) {
        Ok(())
    } else {
        Err(DNS_1035.to_owned())
    }
}

/// RFC 1123 subdomain: most object names.
///
/// # Errors
/// What a name must be.
pub fn dns_subdomain(text: &str) -> Result<(), String> {
    if text.len() > 253 {
        return Err("must be no more than 253 characters".to_owned());
    }
    if text.split('.').all(is_label) {
        Ok(())
    } else {
        Err(DNS_SUBDOMAIN.to_owned())
    }
}

/// A name that can be one segment of a path: RBAC objects.
///
/// # Errors
/// What a name must be.
pub fn path_segment(text: &str) -> Result<(), String> {
    match text {
        "." | ".." => Err(format!("may not be '{text}'")),
        _ => match text.chars().find(|c| matches!(c, '/' | '%')) {
            Some(c) => Err(format!("may not contain '{c}'")),
            None => Ok(()),
        },
    }
}

/// Key of a label or annotation: an optional DNS prefix and a name of at most 63 bytes.
///
/// # Errors
/// What a key must be.
pub fn label_key(text: &str) -> Result<(), String> {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    if let Some(prefix) = prefix {
        if prefix.is_empty() {
            return Err("prefix part must be non-empty".to_owned());
        }
        dns_subdomain(prefix).map_err(|why| format!("prefix part {why}"))?;
    }
    if name.is_empty() {
        return Err("name part must be non-empty".to_owned());
    }
    if name.len() > 63 {
        return Err("name part must be no more than 63 bytes".to_owned());
    }
    if is_word(name) {
        Ok(())
    } else {
        Err(QUALIFIED.to_owned())
    }
}

/// Value of a label.
///
/// # Errors
/// What a value must be.
pub fn label_value(text: &str) -> Result<(), String> {
    if text.len() > 63 {
        return Err("must be no more than 63 bytes".to_owned());
    }
    if text.is_empty() || is_word(text) {
        Ok(())
    } else {
        Err(LABEL_VALUE.to_owned())
    }
}

/// The rule for names of a resource.
///
/// # Errors
/// What a name must be.
pub fn object_name(group: &str, plural: &str, name: &str) -> Result<(), String> {
    match (group, plural) {
        ("", "namespaces" | "services") => dns_label(name),
        ("rbac.authorization.k8s.io", _) => path_segment(name),
        ("networking.k8s.io", "ipaddresses") => canonical_address(name),
        _ => dns_subdomain(name),
    }
}

/// An IP address as it is written once: an IPAddress has it as its name (source: networking validation).
fn canonical_address(text: &str) -> Result<(), String> {
    match text.parse::<IpAddr>() {
        Ok(address) if address.to_string() == text => Ok(()),
        Ok(address) => Err(format!("must be in canonical form (\"{address}\")")),
        Err(_) => Err("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["a", "a-b", "1a"] {
            assert_eq!(dns_label(good), Ok(()), "{good}");
        }
        for bad in ["", "A", "-a", "a-", "a.b", "a_b"] {
            assert!(dns_label(bad).is_err(), "{bad}");
        }
        assert_eq!(dns_subdomain("a.b-c.d"), Ok(()));
        assert!(dns_subdomain("a..b").is_err());
        assert_eq!(
            object_name("rbac.authorization.k8s.io", "roles", "system:a"),
            Ok(())
        );
        assert!(object_name("", "configmaps", "system:a").is_err());
        for (name, good) in [
            ("fe80::1", true),
            ("10.0.0.1", true),
            ("fe80:0::1", false),
            ("a.b", false),
        ] {
            let named = object_name("networking.k8s.io", "ipaddresses", name);
            assert_eq!(named.is_ok(), good, "{name}");
        }
    }

    #[test]
    fn keys_and_values_of_labels() {
        for good in ["a", "example.com/A_b.c", "x/y"] {
            assert_eq!(label_key(good), Ok(()), "{good}");
        }
        for bad in ["", "/a", "A.com/a", "a/", "a/b/c", "-a", "a b"] {
            assert!(label_key(bad).is_err(), "{bad}");
        }
        assert_eq!(label_value(""), Ok(()));
        assert!(label_value("-a").is_err());
        assert!(label_value(&"a".repeat(64)).is_err());
    }
}
