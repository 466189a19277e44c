//! Tables of custom resources (source: the table converter of the apiextensions API server).

use super::kind::Custom;
use crate::table::path;
use crate::timestamp;
use serde_json::{Value, json};

/// `columnDefinitions`.
pub fn columns(custom: &Custom) -> Value {
    let column = |name: &str, kind: &str, format: &str, description: &str, priority: i32| json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority});
    let mut out = vec![column(
        "Name",
        "string",
        "name",
        "Name of the object, unique within its namespace.",
        0,
    )];
    if custom.columns.is_empty() {
        out.push(column("Age", "date", "", "Time since the object was created.", 0));
    }
    for c in &custom.columns {
        let by_path = format!(
            "Custom resource definition column (in JSONPath format): {}",
            c.column.path
        );
        let description = if c.description.is_empty() {
            &*by_path
        } else {
            &*c.description
        };
        out.push(column(
            &c.column.name,
            &c.column.kind,
            &c.format,
            description,
            c.column.priority,
        ));
    }
    Value::Array(out)
}

/// Cells of one object, one per column.
pub fn cells(custom: &Custom, object: &Value, now: i64) -> Vec<Value> {
    let mut out = vec![json!(crate::admission::name_of(object))];
    if custom.columns.is_empty() {
        out.push(cell("date", object.pointer("/metadata/creationTimestamp"), now));
    }
    for c in &custom.columns {
        let found = path::find(object, &c.column.path);
        out.push(cell(&c.column.kind, found.first().copied(), now));
    }
    out
}

fn cell(kind: &str, value: Option<&Value>, now: i64) -> Value {
    let Some(value) = value else {
        return Value::Null;
    };
    match kind {
        "string" => match value {
            Value::String(text) => json!(text),
            other => json!(other.to_string()),
        },
        "integer" => match value.as_i64() {
            Some(n) => json!(n),
            // Cut, as Go converts.
            None => value.as_f64().map_or(Value::Null, |n| json!(n.trunc() as i64)),
        },
        "number" => value.as_f64().map_or(
            Value::Null,
            |n| if value.is_f64() { json!(n) } else { value.clone() },
        ),
        "boolean" => value.as_bool().map_or(Value::Null, Value::Bool),
        "date" => match value.as_str() {
            None => Value::Null,
            Some(text) => match timestamp::parse(text) {
                Some(then) => json!(timestamp::age(now - then)),
                None => json!("<invalid>"),
            },
        },
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_of_their_columns_type() {
        let table = [
            ("string", json!("a"), json!("a")),
            ("string", json!({"a": [1]}), json!("{\"a\":[1]}")),
            ("string", json!(true), json!("true")),
            ("integer", json!(3), json!(3)),
            ("integer", json!("3"), Value::Null),
            ("integer", json!(3.9), json!(3)),
            ("number", json!(1.5), json!(1.5)),
            ("boolean", json!(true), json!(true)),
            ("boolean", json!("true"), Value::Null),
            ("date", json!("1970-01-01T00:00:00Z"), json!("60s")),
            ("date", json!("soon"), json!("<invalid>")),
        ];
        for (kind, value, expected) in table {
            assert_eq!(cell(kind, Some(&value), 60), expected, "{kind} {value}");
        }
        assert_eq!(cell("string", None, 0), Value::Null);
    }
}
