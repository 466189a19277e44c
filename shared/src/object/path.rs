//! Access by a path of keys. Array indices are decimal text.

use serde_json::{Map, Value};

fn index(step: &str) -> Option<usize> {
    // "01" or "+1" would name the same item twice.
    (step == "0" || (!step.starts_with('0') && step.bytes().all(|b| b.is_ascii_digit())))
        .then(|| step.parse().ok())
        .flatten()
}

/// The value at a path.
#[must_use]
pub fn get<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |at, step| match at {
        Value::Object(map) => map.get(*step),
        Value::Array(items) => items.get(index(step)?),
        _ => None,
    })
}

/// The value at a path, making missing objects on the way and `null` at the end. `None` if something on the
/// way is neither an object nor an existing array item.
pub fn get_mut_or_insert<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Value> {
    let mut at = value;
    for step in path {
        if at.is_null() {
            *at = Value::Object(Map::new());
        }
        at = match at {
            Value::Object(map) => map.entry((*step).to_owned()).or_insert(Value::Null),
            Value::Array(items) => items.get_mut(index(step)?)?,
            _ => return None,
        };
    }
    Some(at)
}

/// Writes a value at a path, making missing objects on the way. `false` if something on the way is neither an
/// object nor an existing array item; then nothing below that point changed.
pub fn set(value: &mut Value, path: &[&str], new: Value) -> bool {
    get_mut_or_insert(value, path).map(|at| *at = new).is_some()
}

/// Removes what is at a path and returns it.
pub fn remove(value: &mut Value, path: &[&str]) -> Option<Value> {
    let (last, parents) = path.split_last()?;
    let parent = parents.iter().try_fold(value, |at, step| match at {
        Value::Object(map) => map.get_mut(*step),
        Value::Array(items) => items.get_mut(index(step)?),
        _ => None,
    })?;
    match parent {
        Value::Object(map) => map.remove(*last),
        Value::Array(items) => {
            let i = index(last).filter(|i| *i < items.len())?;
            Some(items.remove(i))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn get_set_remove() {
        let mut v = json!({"a": [{"b": 1}], "s": "x"});
        assert_eq!(get(&v, &["a", "0", "b"]), Some(&json!(1)));
        assert_eq!(get(&v, &["a", "00", "b"]), None);
        assert!(set(&mut v, &["a", "0", "c", "d"], json!(2)));
        assert!(!set(&mut v, &["a", "1", "c"], json!(2)));
        assert!(!set(&mut v, &["s", "c"], json!(2)));
        assert_eq!(remove(&mut v, &["a", "0", "b"]), Some(json!(1)));
        assert_eq!(remove(&mut v, &["a", "7"]), None);
        assert_eq!(remove(&mut v, &[]), None);
        assert_eq!(v, json!({"a": [{"c": {"d": 2}}], "s": "x"}));
    }
}
