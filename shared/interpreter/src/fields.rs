//! Typed reading and writing of JSON fields by dotted path. `null` counts as absent everywhere.

use serde_json::{Map, Value};

use crate::InterpretError;

type Read<T> = Result<T, InterpretError>;

fn wrong(path: &str, expected: &'static str) -> InterpretError {
    InterpretError::WrongType {
        path: path.to_owned(),
        expected,
    }
}

/// The value at `path`; an error when something on the way is neither object nor absent.
pub(crate) fn get<'a>(value: &'a Value, path: &str) -> Read<Option<&'a Value>> {
    let mut at = value;
    for part in path.split('.') {
        match at {
            Value::Object(map) => match map.get(part) {
                Some(next) => at = next,
                None => return Ok(None),
            },
            Value::Null => return Ok(None),
            _ => return Err(wrong(path, "inside an object")),
        }
    }
    Ok(if at.is_null() { None } else { Some(at) })
}

/// The integer at `path`.
pub(crate) fn int(value: &Value, path: &str) -> Read<Option<i64>> {
    get(value, path)?
        .map(|v| v.as_i64().ok_or_else(|| wrong(path, "an integer")))
        .transpose()
}

/// The integer at `path`, 0 when absent.
pub(crate) fn count(value: &Value, path: &str) -> Read<i64> {
    Ok(int(value, path)?.unwrap_or(0))
}

/// The text at `path`, empty when absent.
pub(crate) fn text<'a>(value: &'a Value, path: &str) -> Read<&'a str> {
    match get(value, path)? {
        None => Ok(""),
        Some(v) => v.as_str().ok_or_else(|| wrong(path, "a string")),
    }
}

/// The list at `path`, empty when absent.
pub(crate) fn list<'a>(value: &'a Value, path: &str) -> Read<&'a [Value]> {
    match get(value, path)? {
        None => Ok(&[]),
        Some(v) => v
            .as_array()
            .map(Vec::as_slice)
            .ok_or_else(|| wrong(path, "a list")),
    }
}

/// The object at `path`.
pub(crate) fn map<'a>(value: &'a Value, path: &str) -> Read<Option<&'a Map<String, Value>>> {
    get(value, path)?
        .map(|v| v.as_object().ok_or_else(|| wrong(path, "an object")))
        .transpose()
}

/// The annotation of that name.
pub(crate) fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.get("metadata")?.get("annotations")?.get(name)?.as_str()
}

/// The label of that name.
pub(crate) fn label<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.get("metadata")?.get("labels")?.get(name)?.as_str()
}

/// Sets the value at `path`, making objects on the way (what is no object there is replaced).
pub(crate) fn set(value: &mut Value, path: &str, new: Value) {
    let mut at = value;
    for part in path.split('.') {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        at = &mut at[part];
    }
    *at = new;
}

/// Is there a condition of this type with status True?
pub(crate) fn condition_true(conditions: &[Value], of_type: &str) -> bool {
    conditions
        .iter()
        .any(|c| c["type"] == of_type && c["status"] == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn null_is_absent_and_a_scalar_on_the_way_is_an_error() {
        let v = json!({"a": {"b": null, "c": 3}, "s": "text"});
        assert_eq!(get(&v, "a.b"), Ok(None));
        assert_eq!(int(&v, "a.c"), Ok(Some(3)));
        assert!(get(&v, "s.x").is_err());
        assert!(text(&v, "a.c").is_err());
        assert_eq!(list(&v, "none"), Ok(&[][..]));
    }

    #[test]
    fn set_makes_the_way() {
        let mut v = json!({});
        set(&mut v, "a.b.c", json!(1));
        assert_eq!(v, json!({"a": {"b": {"c": 1}}}));
    }
}
