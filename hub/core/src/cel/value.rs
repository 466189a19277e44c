//! Values between JSON and expressions.

use super::eval::EvalError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube_cel::cel::Value;
use kube_cel::cel::objects::{Key, Map, Opaque, OptionalValue};
use serde_json::Value as Json;
use std::collections::HashMap;
use std::sync::Arc;

/// A type as a value: what `type(x)` gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TypeValue(pub(super) String);

impl Opaque for TypeValue {
    fn runtime_type_name(&self) -> &str {
        "type"
    }
}

/// A text as a value.
pub(super) fn text(text: impl Into<String>) -> Value {
    Value::String(Arc::new(text.into()))
}

/// A list as a value.
pub(super) fn list(items: Vec<Value>) -> Value {
    Value::List(Arc::new(items))
}

/// A map as a value.
pub(super) fn map(members: HashMap<Key, Value>) -> Value {
    Value::Map(Map {
        map: Arc::new(members),
    })
}

/// A value that may be none.
pub(super) fn optional(value: Option<Value>) -> Value {
    let value = value.map_or_else(OptionalValue::none, OptionalValue::of);
    Value::Opaque(Arc::new(value))
}

/// The optional that a value is.
pub(super) fn as_optional(value: &Value) -> Option<Option<&Value>> {
    match value {
        Value::Opaque(opaque) => opaque.downcast_ref::<OptionalValue>().map(OptionalValue::value),
        _ => None,
    }
}

/// A JSON document as expressions see it without a schema: members by their names.
pub fn from_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(b) => Value::Bool(*b),
        Json::Number(n) => match (n.as_i64(), n.as_u64(), n.as_f64()) {
            (Some(n), _, _) => Value::Int(n),
            (None, Some(n), _) => Value::UInt(n),
            (None, None, n) => Value::Float(n.unwrap_or(f64::NAN)),
        },
        Json::String(s) => text(s.as_str()),
        Json::Array(items) => list(items.iter().map(from_json).collect()),
        Json::Object(members) => {
            let members = members
                .iter()
                .map(|(name, value)| (Key::String(Arc::new(name.clone())), from_json(value)));
            map(members.collect())
        }
    }
}

/// A value as JSON.
///
/// # Errors
/// A value that JSON has no form for.
pub fn to_json(value: &Value) -> Result<Json, EvalError> {
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(b) => Json::Bool(*b),
        Value::Int(n) => Json::from(*n),
        Value::UInt(n) => Json::from(*n),
        Value::Float(n) => Json::from(*n),
        Value::String(s) => Json::from(s.as_str()),
        Value::Bytes(bytes) => Json::from(STANDARD.encode(bytes.as_slice())),
        Value::List(items) => Json::Array(items.iter().map(to_json).collect::<Result<_, _>>()?),
        Value::Map(members) => {
            let mut out = serde_json::Map::new();
            for (key, value) in members.map.iter() {
                let Key::String(name) = key else {
                    return Err(EvalError::new(format!("key {key} is no string")));
                };
                out.insert(name.to_string(), to_json(value)?);
            }
            Json::Object(out)
        }
        Value::Duration(_) | Value::Timestamp(_) => Json::from(shown(value)),
        Value::Opaque(_) | Value::Function(..) => match as_optional(value) {
            Some(Some(value)) => to_json(value)?,
            Some(None) => Json::Null,
            None => return Err(EvalError::new(format!("{} has no JSON form", type_name(value)))),
        },
    })
}

/// A plain value as text; empty for what has no text.
fn shown(value: &Value) -> String {
    match value {
        Value::Timestamp(time) => {
            let text = time.to_rfc3339();
            text.strip_suffix("+00:00")
                .map_or(text.clone(), |t| format!("{t}Z"))
        }
        Value::Duration(duration) => format!("{}s", duration.num_seconds()),
        _ => String::new(),
    }
}

/// A text of a schema's `format` as the value that it means; the text itself if it does not fit.
pub(super) fn of_format(format: &str, given: &str) -> Value {
    let plain = || text(given);
    match format {
        "byte" => STANDARD
            .decode(given)
            .map_or_else(|_| plain(), |bytes| Value::Bytes(Arc::new(bytes))),
        "date-time" => super::functions::timestamp(given).unwrap_or_else(|_| plain()),
        "date" => super::functions::timestamp(&format!("{given}T00:00:00Z")).unwrap_or_else(|_| plain()),
        "duration" => super::functions::duration(given).unwrap_or_else(|_| plain()),
        _ => plain(),
    }
}

/// Name of a value's type, as in messages.
pub(super) fn type_name(value: &Value) -> &str {
    match value {
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Function(..) => "function",
        Value::Int(_) => "int",
        Value::UInt(_) => "uint",
        Value::Float(_) => "double",
        Value::String(_) => "string",
        Value::Bytes(_) => "bytes",
        Value::Bool(_) => "bool",
        Value::Duration(_) => "google.protobuf.Duration",
        Value::Timestamp(_) => "google.protobuf.Timestamp",
        Value::Opaque(opaque) => opaque.runtime_type_name(),
        Value::Null => "null_type",
    }
}

/// How much work it is to look at a whole value: one for each plain value and each ten bytes of text.
pub(super) fn weight(value: &Value, most: u64) -> u64 {
    let mut sum: u64 = 1;
    match value {
        Value::String(s) => sum += s.len() as u64 / 10,
        Value::Bytes(b) => sum += b.len() as u64 / 10,
        Value::List(items) => {
            for item in items.iter() {
                sum += weight(item, most);
                if sum > most {
                    break;
                }
            }
        }
        Value::Map(members) => {
            for item in members.map.values() {
                sum += 1 + weight(item, most);
                if sum > most {
                    break;
                }
            }
        }
        _ => {}
    }
    sum
}
