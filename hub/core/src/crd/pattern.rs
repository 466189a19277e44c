//! Patterns of schemas: Go's regular expressions, translated where Rust's mean something else.

use regex::{Regex, RegexBuilder};
use std::sync::{Arc, OnceLock};

/// Bytes that one compiled pattern may take.
const MAX_PROGRAM_BYTES: usize = 4 << 20;

/// A pattern, compiled when it is first needed.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// As written in the schema.
    pub text: Box<str>,
    compiled: Arc<OnceLock<Result<Regex, String>>>,
}

impl Pattern {
    /// A pattern of that text.
    pub fn new(text: &str) -> Pattern {
        Pattern {
            text: text.into(),
            compiled: Arc::default(),
        }
    }

    /// Whether the text holds a match.
    ///
    /// # Errors
    /// The pattern is no regular expression.
    pub fn is_in(&self, text: &str) -> Result<bool, &str> {
        match self.compiled.get_or_init(|| compile(&self.text)) {
            Ok(regex) => Ok(regex.is_match(text)),
            Err(why) => Err(why),
        }
    }
}

/// Compiles a pattern as Go would.
///
/// # Errors
/// What is wrong with it.
pub(super) fn compile(text: &str) -> Result<Regex, String> {
    RegexBuilder::new(&translated(text))
        .size_limit(MAX_PROGRAM_BYTES)
        .build()
        .map_err(|error| error.to_string().lines().last().unwrap_or_default().to_owned())
}

/// Go's `\d`, `\w`, `\s` and `\b` are of ASCII; in Go a bracket within brackets is itself.
fn translated(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    // Inside a class, and whether nothing of it was read yet: `]` stands for itself there.
    let (mut in_class, mut is_start) = (false, false);
    while let Some(c) = chars.next() {
        let was_start = std::mem::take(&mut is_start);
        match c {
            '\\' => match chars.next() {
                Some(class @ ('d' | 'w' | 's' | 'D' | 'W' | 'S')) => {
                    let members = match class.to_ascii_lowercase() {
                        'd' => "0-9",
                        'w' => "0-9A-Za-z_",
                        _ => "\\t\\n\\f\\r ",
                    };
                    match (class.is_ascii_uppercase(), in_class) {
                        (false, true) => out.push_str(members),
                        (false, false) => out.push_str(&format!("[{members}]")),
                        (true, _) => out.push_str(&format!("[^{members}]")),
                    }
                }
                Some(edge @ ('b' | 'B')) if !in_class => out.push_str(&format!("(?-u:\\{edge})")),
                Some(other) => {
                    out.push('\\');
                    out.push(other);
                }
                None => out.push('\\'),
            },
            '[' if !in_class => {
                (in_class, is_start) = (true, true);
                out.push('[');
                if chars.peek() == Some(&'^') {
                    out.extend(chars.next());
                }
            }
            '[' if chars.peek() == Some(&':') => out.push('['),
            '[' => out.push_str("\\["),
            ']' if in_class && was_start => out.push_str("\\]"),
            ']' if in_class => {
                // The end of `[:alpha:]` is not the end of the class.
                if out.ends_with(':') && out.rfind("[:").is_some() && chars.peek().is_some() {
                    let since = out.rfind("[:").map_or(0, |at| at + 2);
                    let name = &out[since..out.len() - 1];
                    if !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphabetic() || b == b'^') {
                        out.push(']');
                        continue;
                    }
                }
                in_class = false;
                out.push(']');
            }
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        let table = [
            ("^[a-z]+$", "abc", true),
            ("^\\d+$", "12", true),
            ("^\\d+$", "\u{663}", false),
            ("^[\\w.-]+$", "a_b.c-d", true),
            ("^[[]a$", "[a", true),
            ("^[]a]+$", "]a", true),
            ("^[[:alpha:]]+$", "abc", true),
            ("^[[:alpha:]x]+1$", "ax1", true),
            ("^[a&&b]+$", "a&b", true),
            ("b", "abc", true),
            ("^(?i)abc$", "ABC", true),
            ("^([a-z0-9]([-a-z0-9]*[a-z0-9])?)(\\.[a-z0-9]+)*$", "a-b.c", true),
        ];
        for (pattern, text, expected) in table {
            assert_eq!(
                Pattern::new(pattern).is_in(text),
                Ok(expected),
                "{pattern} {text}"
            );
        }
        assert!(compile("(").is_err());
        assert!(Pattern::new("a{1000}{1000}{1000}").is_in("a").is_err());
    }
}
