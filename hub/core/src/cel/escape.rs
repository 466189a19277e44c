//! Names of members that are no names of the language, as Kubernetes writes them.
//! Source: apiserver `cel/escaping.go`.

/// Words of the language.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

const PARTS: [(&str, &str); 4] = [
    ("__underscores__", "__"),
    ("__dot__", "."),
    ("__dash__", "-"),
    ("__slash__", "/"),
];

/// A member's name as expressions write it; none if they cannot name it.
pub(super) fn escape(name: &str) -> Option<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_.-/".contains(c);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(is_name) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut out = name.replace("__", "__underscores__");
    for (escaped, plain) in &PARTS[1..] {
        out = out.replace(plain, escaped);
    }
    Some(out)
}

/// The member that an escaped name means.
pub(super) fn unescape(name: &str) -> String {
    if let Some(word) = name.strip_prefix("__").and_then(|n| n.strip_suffix("__"))
        && RESERVED.contains(&word)
    {
        return word.to_owned();
    }
    let mut out = String::new();
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        match PARTS.iter().find(|(escaped, _)| rest.starts_with(escaped)) {
            Some((escaped, plain)) => {
                out.push_str(plain);
                rest = &rest[escaped.len()..];
            }
            None => {
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_there_and_back() {
        for (name, escaped) in [
            ("a", "a"),
            ("my_field", "my_field"),
            ("a__b", "a__underscores__b"),
            ("x-y.z/w", "x__dash__y__dot__z__slash__w"),
            ("namespace", "__namespace__"),
        ] {
            assert_eq!(escape(name).as_deref(), Some(escaped));
            assert_eq!(unescape(escaped), name);
        }
        assert_eq!(escape("1a"), None);
        assert_eq!(escape("a b"), None);
    }
}
