//! Elements of a path to a field, and their text in `fieldsV1` and in messages.

use serde_json::{Map, Value};
use std::cmp::Ordering;
use std::fmt;

/// A plain value inside a path: a key of a list item or an item of a set.
#[derive(Debug, Clone)]
pub struct Plain(Value);

impl Plain {
    /// Takes a value as it is.
    pub fn new(value: Value) -> Plain {
        Plain(value)
    }

    fn rank(&self) -> u8 {
        match self.0 {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        }
    }
}

impl Ord for Plain {
    fn cmp(&self, other: &Plain) -> Ordering {
        match (&self.0, &other.0) {
            (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
                (Some(a), Some(b)) => a.cmp(&b),
                _ => a
                    .as_f64()
                    .unwrap_or_default()
                    .total_cmp(&b.as_f64().unwrap_or_default()),
            },
            (Value::String(a), Value::String(b)) => a.cmp(b),
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::Array(_) | Value::Object(_), Value::Array(_) | Value::Object(_)) => {
                self.0.to_string().cmp(&other.0.to_string())
            }
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Plain {
    fn partial_cmp(&self, other: &Plain) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Plain {
    fn eq(&self, other: &Plain) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Plain {}

/// One step of a path. The order is that of structured-merge-diff, which messages follow.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Element {
    /// A member of a struct or map.
    Field(Box<str>),
    /// An item of a list with keys, by them, sorted by name.
    Key(Vec<(Box<str>, Plain)>),
    /// An item of a set.
    Value(Plain),
    /// An item by its place; only ever read, never made here.
    Index(i64),
}

impl Element {
    /// A member.
    pub fn field(name: &str) -> Element {
        Element::Field(name.into())
    }

    /// The text in `fieldsV1`.
    pub fn encode(&self) -> String {
        match self {
            Element::Field(name) => format!("f:{name}"),
            Element::Key(keys) => {
                let map: Map<String, Value> =
                    keys.iter().map(|(k, v)| (k.to_string(), v.0.clone())).collect();
                format!("k:{}", Value::Object(map))
            }
            Element::Value(value) => format!("v:{}", value.0),
            Element::Index(at) => format!("i:{at}"),
        }
    }

    /// Reads the text of `fieldsV1`; `None` if it is not one.
    pub fn decode(text: &str) -> Option<Element> {
        let (kind, rest) = text.split_once(':')?;
        match kind {
            "f" => Some(Element::field(rest)),
            "v" => serde_json::from_str(rest)
                .ok()
                .map(|value| Element::Value(Plain(value))),
            "i" => rest.parse().ok().map(Element::Index),
            "k" => {
                let map: Map<String, Value> = serde_json::from_str(rest).ok()?;
                let keys = map.into_iter().map(|(k, v)| (k.into_boxed_str(), Plain(v)));
                Some(Element::Key(keys.collect()))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Field(name) => write!(f, ".{name}"),
            Element::Key(keys) => {
                f.write_str("[")?;
                for (at, (name, value)) in keys.iter().enumerate() {
                    let comma = if at > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={}", value.0)?;
                }
                f.write_str("]")
            }
            Element::Value(value) => write!(f, "[={}]", value.0),
            Element::Index(at) => write!(f, "[{at}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn elements_keep_their_text() {
        let key = Element::Key(vec![
            ("port".into(), Plain(json!(80))),
            ("protocol".into(), Plain(json!("TCP"))),
        ]);
        for (element, encoded, shown) in [
            (Element::field("a.b/c"), "f:a.b/c", ".a.b/c"),
            (
                key,
                "k:{\"port\":80,\"protocol\":\"TCP\"}",
                "[port=80,protocol=\"TCP\"]",
            ),
            (Element::Value(Plain(json!("x"))), "v:\"x\"", "[=\"x\"]"),
            (Element::Index(3), "i:3", "[3]"),
        ] {
            assert_eq!(
                (element.encode().as_str(), element.to_string().as_str()),
                (encoded, shown)
            );
            assert_eq!(Element::decode(encoded), Some(element));
        }
        for bad in ["", "f", "x:1", "k:[]", "v:", "i:a"] {
            assert_eq!(Element::decode(bad), None, "{bad}");
        }
    }
}
