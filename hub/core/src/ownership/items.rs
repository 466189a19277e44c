//! Items of associative lists: the path element by which each is known, and equality of values.

use super::path::{Element, Plain};
use super::types::{ListKind, TypeView, View};
use serde_json::Value;

/// The element of an item of a keyed list or a set.
///
/// # Errors
/// The item has no identity, as structured-merge-diff words it.
pub(super) fn element_of<'s, T: TypeView<'s>>(
    list: View<T>,
    kind: ListKind,
    item: &Value,
) -> Result<Element, String> {
    if kind == ListKind::Keyed {
        return keyed(list, item);
    }
    match item {
        Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
        Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
        Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
        plain => Ok(Element::Value(Plain::new(plain.clone()))),
    }
}

fn keyed<'s, T: TypeView<'s>>(list: View<T>, item: &Value) -> Result<Element, String> {
    let members = match item {
        Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
        Value::Object(members) => members,
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let mut keys = Vec::new();
    for name in list.keys() {
        let value = match members.get(name) {
            Some(value) => value.clone(),
            None => list.items().default_of(name).ok_or_else(|| {
                format!(
                    "associative list with keys has an element that omits key field {name:?} (and doesn't have default value)"
                )
            })?,
        };
        keys.push((Box::from(name), Plain::new(value)));
    }
    keys.sort();
    Ok(Element::Key(keys))
}

/// Equality that takes `1` and `1.0` for the same.
pub(super) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        _ => a == b,
    }
}
