//! Reading of one object for its cells.

use crate::scale::selector_text;
use crate::timestamp;
use serde_json::{Value, json};

/// One object and the time of the request.
pub struct Row<'a> {
    object: &'a Value,
    now: i64,
}

/// Text or number as a cell.
pub(super) trait Show {
    fn show(self) -> Value;
}

impl Show for &str {
    fn show(self) -> Value {
        json!(self)
    }
}

impl Show for String {
    fn show(self) -> Value {
        Value::String(self)
    }
}

impl Show for i64 {
    fn show(self) -> Value {
        json!(self)
    }
}

impl<'a> Row<'a> {
    /// `now` in seconds since 1970.
    pub fn new(object: &'a Value, now: i64) -> Row<'a> {
        Row { object, now }
    }

    pub(super) fn object(&self) -> &'a Value {
        self.object
    }

    pub(super) fn at(&self, pointer: &str) -> Option<&'a Value> {
        self.object.pointer(pointer).filter(|v| !v.is_null())
    }

    pub(super) fn text(&self, pointer: &str) -> &'a str {
        self.at(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// Text, or another one where the field is absent or empty.
    pub(super) fn text_or(&self, pointer: &str, absent: &str) -> Value {
        match self.at(pointer) {
            Some(Value::String(text)) if !text.is_empty() => text.clone().show(),
            Some(other) if !other.is_string() => other.to_string().show(),
            _ => absent.show(),
        }
    }

    pub(super) fn int(&self, pointer: &str) -> i64 {
        self.int_or(pointer, 0)
    }

    pub(super) fn int_or(&self, pointer: &str, absent: i64) -> i64 {
        self.at(pointer).and_then(Value::as_i64).unwrap_or(absent)
    }

    pub(super) fn list(&self, pointer: &str) -> &'a [Value] {
        self.at(pointer)
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    pub(super) fn name(&self) -> Value {
        self.text("/metadata/name").show()
    }

    pub(super) fn age(&self) -> Value {
        self.since("/metadata/creationTimestamp", "<unknown>")
    }

    /// Time since a timestamp field.
    pub(super) fn since(&self, pointer: &str, absent: &str) -> Value {
        match timestamp::parse(self.text(pointer)) {
            Some(then) => timestamp::age(self.now - then).show(),
            None => absent.show(),
        }
    }

    pub(super) fn now(&self) -> i64 {
        self.now
    }

    /// Whether the object is being deleted.
    pub(super) fn is_deleting(&self) -> bool {
        self.at("/metadata/deletionTimestamp").is_some()
    }

    /// Whether a status condition is True.
    pub(super) fn is_true(&self, condition: &str) -> bool {
        let conditions = self.list("/status/conditions");
        conditions
            .iter()
            .any(|c| c["type"] == condition && c["status"] == "True")
    }

    /// Names and images of containers, each joined.
    pub(super) fn joined(&self, containers: &str, key: &str) -> Value {
        let all: Vec<&str> = self
            .list(containers)
            .iter()
            .filter_map(|c| c.get(key)?.as_str())
            .collect();
        all.join(",").show()
    }

    /// A LabelSelector as text.
    pub(super) fn selector(&self, pointer: &str) -> Value {
        let text = selector_text(self.at(pointer).unwrap_or(&Value::Null));
        if text.is_empty() {
            "<none>".show()
        } else {
            text.show()
        }
    }

    /// A plain map of labels as text.
    pub(super) fn label_text(&self, pointer: &str) -> Value {
        let pairs = self.at(pointer).and_then(Value::as_object).into_iter().flatten();
        let parts: Vec<String> = pairs
            .map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default()))
            .collect();
        if parts.is_empty() {
            "<none>".show()
        } else {
            parts.join(",").show()
        }
    }
}
