//! Mutations of JSON.

use super::Random;
use serde_json::{Value, json};

/// A value that few expect.
pub fn odd(random: &mut Random) -> Value {
    match random.index(16) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(i64::MAX),
        3 => json!(i64::MIN),
        4 => json!(u64::MAX),
        5 => json!(-0.5),
        6 => json!(1e300),
        7 => json!(""),
        8 => json!("99999999999999999999999999999E"),
        9 => json!("-1m"),
        10 => json!("\u{0}é\u{10ffff}%"),
        11 => json!([]),
        12 => json!({}),
        13 => json!([null, null, {}, [], "", 0]),
        14 => json!("2026-13-01T00:00:00Z"),
        _ => json!([[{"name": {"name": []}}], null, {"": ""}]),
    }
}

/// Changes one place somewhere in the tree: a value, a key, an item that goes or is there twice, a subtree elsewhere.
pub fn mutate_json(value: &mut Value, random: &mut Random) {
    let here = random.index(6) == 0;
    match value {
        Value::Object(map) if !map.is_empty() && !here => {
            let Some(key) = map.keys().nth(random.index(map.len())).cloned() else {
                return;
            };
            match random.index(10) {
                0 => drop(map.remove(&key)),
                1 => {
                    if let Some(taken) = map.remove(&key) {
                        map.insert(format!("{key}x"), taken);
                    }
                }
                2 => {
                    // What stands there takes another's place.
                    let other = map.keys().nth(random.index(map.len())).cloned();
                    if let (Some(other), Some(copy)) = (other, map.get(&key).cloned()) {
                        map.insert(other, copy);
                    }
                }
                _ => {
                    if let Some(inner) = map.get_mut(&key) {
                        mutate_json(inner, random);
                    }
                }
            }
        }
        Value::Array(list) if !list.is_empty() && !here => {
            let at = random.index(list.len());
            match random.index(6) {
                0 => drop(list.remove(at)),
                1 => {
                    let again = list[at].clone();
                    list.push(again);
                }
                _ => mutate_json(&mut list[at], random),
            }
        }
        other => *other = odd(random),
    }
}

/// How deep arrays and objects are nested.
#[must_use]
pub fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// How many values there are, and bytes in texts and names.
#[must_use]
pub fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Object(members) => 1 + members.iter().map(|(key, v)| key.len() + size(v)).sum::<usize>(),
        Value::String(text) => 1 + text.len(),
        _ => 1,
    }
}
