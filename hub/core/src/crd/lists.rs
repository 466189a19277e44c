//! Uniqueness in lists that are sets or maps (source: the `listtype` package of the apiextensions API server).

use super::schema::{Schema, member_path};
use crate::ownership::ListKind;
use crate::status_error::Cause;
use serde_json::{Map, Value};
use std::collections::HashMap;

/// All items that stand twice in a list where each may stand once.
pub(super) fn check(schema: &Schema, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    walk(schema, object, "", &mut causes);
    causes
}

fn walk(schema: &Schema, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    match value {
        Value::Object(members) => {
            for (name, inner) in members {
                let Some(of) = schema.member(name) else { continue };
                let at = if schema.properties.contains_key(name.as_str()) {
                    member_path(path, name)
                } else {
                    format!("{path}[{name}]")
                };
                walk(of, inner, &at, causes);
            }
        }
        Value::Array(items) => {
            match schema.list_kind {
                Some(ListKind::Set) => duplicates(items.iter().cloned(), path, causes),
                Some(ListKind::Keyed) => keyed(schema, items, path, causes),
                Some(ListKind::Atomic) | None => {}
            }
            if let Some(of) = &schema.items {
                for (at, item) in items.iter().enumerate() {
                    walk(of, item, &format!("{path}[{at}]"), causes);
                }
            }
        }
        _ => {}
    }
}

fn keyed(schema: &Schema, items: &[Value], path: &str, causes: &mut Vec<Cause>) {
    for (at, item) in items.iter().enumerate() {
        if !item.is_object() && !item.is_null() {
            let why = "must be an object for an array of list-type map";
            causes.push(Cause::invalid(format!("{path}[{at}]"), item, why));
            return;
        }
    }
    let keys = items.iter().map(|item| {
        let known = schema.list_keys.iter();
        let pairs = known.filter_map(|key| Some((key.to_string(), item.get(&**key)?.clone())));
        Value::Object(pairs.collect::<Map<String, Value>>())
    });
    duplicates(keys, path, causes);
}

/// Names the second of equal items; a third is not told again.
fn duplicates(items: impl Iterator<Item = Value>, path: &str, causes: &mut Vec<Cause>) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (at, item) in items.enumerate() {
        let times = seen.entry(item.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            causes.push(Cause {
                reason: "FieldValueDuplicate",
                message: format!("Duplicate value: {item}"),
                field: format!("{path}[{at}]"),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_stands_twice_is_named() {
        let schema = Schema::read(&super::super::shape::tests::rich());
        let table = [
            (
                json!({"spec": {"tags": ["a", "b", "a", "a"]}}),
                vec!["spec.tags[2]: Duplicate value: \"a\""],
            ),
            (
                json!({"spec": {"ports": [{"port": 1}, {"port": 1, "protocol": "UDP"}, {"port": 2}]}}),
                vec!["spec.ports[1]: Duplicate value: {\"port\":1}"],
            ),
            (
                json!({"spec": {"ports": [{"port": 1}, {"port": 2}], "tags": []}}),
                vec![],
            ),
        ];
        for (object, expected) in table {
            let found: Vec<String> = check(&schema, &object)
                .iter()
                .map(|c| format!("{}: {}", c.field, c.message))
                .collect();
            assert_eq!(found, expected);
        }
    }
}
