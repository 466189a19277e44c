//! YAML, written: for clients that want to read it.

use serde_json::Value;
use std::fmt::Write as _;

/// Spaces by which a block stands in.
const MARGIN: usize = 2;

/// A value as YAML in blocks. Whatever a reader could take for something else than a text is put in quotes.
pub fn write(value: &Value) -> String {
    let mut out = String::new();
    if is_block(value) {
        block(value, 0, &mut out);
    } else {
        out.push_str(&flow(value));
        out.push('\n');
    }
    out
}

fn is_block(value: &Value) -> bool {
    match value {
        Value::Object(members) => !members.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    }
}

/// Writes members or items, each on its line; the first without its margin, which stands there already.
fn block(value: &Value, margin: usize, out: &mut String) {
    let mut is_first = true;
    let mut start = |out: &mut String| {
        if !std::mem::take(&mut is_first) {
            out.extend(std::iter::repeat_n(' ', margin));
        }
    };
    match value {
        Value::Object(members) => {
            for (name, inner) in members {
                start(out);
                out.push_str(&word(name));
                out.push(':');
                if is_block(inner) {
                    let margin = margin + if inner.is_array() { 0 } else { MARGIN };
                    out.push('\n');
                    out.extend(std::iter::repeat_n(' ', margin));
                    block(inner, margin, out);
                } else {
                    out.push(' ');
                    out.push_str(&flow(inner));
                    out.push('\n');
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                start(out);
                out.push_str("- ");
                if is_block(item) {
                    block(item, margin + MARGIN, out);
                } else {
                    out.push_str(&flow(item));
                    out.push('\n');
                }
            }
        }
        _ => {}
    }
}

fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => word(text),
        other => other.to_string(),
    }
}

/// A text, in quotes unless it can only be a text.
fn word(text: &str) -> String {
    /// What some reader of YAML takes for a truth value, a number or nothing.
    const TAKEN: [&str; 12] = [
        "y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf", "infinity",
    ];
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '/' | '-' | '_'))
        && !TAKEN.contains(&text.to_ascii_lowercase().as_str());
    if is_plain {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            // Breaks of lines and marks of order that a reader would not keep.
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                // Writing to a String does not fail.
                let _always_ok = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_written_in_blocks() {
        let value = json!({"apiVersion": "v1", "empty": {}, "items": [{"a": 1, "b": [true, null]}, [["x"], []], "y"],
            "text": "two\nlines", "when": "2026-01-01T00:00:00Z"});
        let expected = "apiVersion: v1\nempty: {}\nitems:\n- a: 1\n  b:\n  - true\n  - null\n- - - x\n  - []\n- \"y\"\n\
                        text: \"two\\nlines\"\nwhen: \"2026-01-01T00:00:00Z\"\n";
        assert_eq!(write(&value), expected);
        assert_eq!(write(&json!([])), "[]\n");
    }
}
