//! Differences of two manifests, one line for each value.

use std::collections::BTreeMap;

use serde_json::Value;

/// Every value by its path, in the manner of a JSON pointer.
fn flat(value: &Value) -> BTreeMap<String, String> {
    fn walk(value: &Value, path: &str, out: &mut BTreeMap<String, String>) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                for (key, value) in map {
                    let key = key.replace('~', "~0").replace('/', "~1");
                    walk(value, &format!("{path}/{key}"), out);
                }
            }
            Value::Array(list) if !list.is_empty() => {
                for (index, value) in list.iter().enumerate() {
                    // Five digits, so that the tenth sorts behind the ninth.
                    walk(value, &format!("{path}/{index:05}"), out);
                }
            }
            value => {
                out.insert(path.to_owned(), value.to_string());
            }
        }
    }
    let mut out = BTreeMap::new();
    walk(value, "", &mut out);
    out
}

/// A path as people read it.
fn shown(path: &str) -> String {
    let part = |part: &str| match part.parse::<usize>() {
        Ok(index) if part.len() == 5 => index.to_string(),
        _ => part.to_owned(),
    };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

/// Lines `- path: old`, `+ path: new` and `~ path: old -> new`, by path; none: they are alike.
pub(super) fn difference(old: &Value, new: &Value) -> Vec<String> {
    let (old, new) = (flat(old), flat(new));
    let mut lines = Vec::new();
    for path in old
        .keys()
        .chain(new.keys().filter(|path| !old.contains_key(*path)))
    {
        let name = shown(path);
        match (old.get(path), new.get(path)) {
            (Some(old), Some(new)) if old != new => lines.push((path, format!("~ {name}: {old} -> {new}"))),
            (Some(old), None) => lines.push((path, format!("- {name}: {old}"))),
            (None, Some(new)) => lines.push((path, format!("+ {name}: {new}"))),
            _ => {}
        }
    }
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_line_for_each_value() {
        let old = json!({"spec": {"replicas": 3, "list": [1, 2]}, "a/b": {}});
        let new = json!({"spec": {"replicas": 2, "list": [1], "image": "x"}, "a/b": {}});
        assert_eq!(
            difference(&old, &new),
            [
                "+ /spec/image: \"x\"",
                "- /spec/list/1: 2",
                "~ /spec/replicas: 3 -> 2"
            ]
        );
        assert!(difference(&old, &old).is_empty());
    }
}
