//! The part of JSONPath that printer columns use: members, indices, `[*]` and `[?(@.key=="text")]`.

use serde_json::Value;

/// All values at a path such as `.status.conditions[?(@.type=="Ready")].status`. A path that is not of this grammar
/// finds nothing.
pub(crate) fn find<'v>(value: &'v Value, path: &str) -> Vec<&'v Value> {
    let mut found = vec![value];
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let Some(end) = closing(after) else {
                return Vec::new();
            };
            found = found.into_iter().flat_map(|v| pick(v, &after[..end])).collect();
            rest = &after[end + 1..];
        } else {
            let after = rest.strip_prefix('.').unwrap_or(rest);
            let end = after.find(['.', '[']).unwrap_or(after.len());
            let key = &after[..end];
            if key.is_empty() {
                return Vec::new();
            }
            found = found.into_iter().filter_map(|v| v.get(key)).collect();
            rest = &after[end..];
        }
    }
    found
}

/// Place of the bracket that closes, brackets in quotes left out.
fn closing(text: &str) -> Option<usize> {
    let mut quoted = false;
    text.char_indices().find_map(|(at, c)| {
        if c == '"' || c == '\'' {
            quoted = !quoted;
        }
        (c == ']' && !quoted).then_some(at)
    })
}

fn pick<'v>(value: &'v Value, inside: &str) -> Vec<&'v Value> {
    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
    if inside == "*" {
        return items.iter().collect();
    }
    if let Ok(at) = inside.parse::<usize>() {
        return items.get(at).into_iter().collect();
    }
    let condition = inside
        .strip_prefix("?(@.")
        .and_then(|t| t.strip_suffix(')'))
        .and_then(|t| t.split_once("=="));
    match condition {
        Some((key, text)) => {
            let text = text.trim().trim_matches(['"', '\'']);
            items
                .iter()
                .filter(|i| i.get(key.trim()).and_then(Value::as_str) == Some(text))
                .collect()
        }
        None => {
            let key = inside.trim_matches(['"', '\'']);
            value.get(key).into_iter().collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths() {
        let value = json!({"a": {"b.c": 1, "l": [{"t": "x", "v": 1}, {"t": "y", "v": 2}]}});
        let table = [
            (".a.l[*].v", json!([1, 2])),
            (".a.l[1].v", json!([2])),
            (".a.l[?(@.t==\"x\")].v", json!([1])),
            (".a.l[?(@.t=='z')].v", json!([])),
            (".a['b.c']", json!([1])),
            (".none.x", json!([])),
            (".a.l[", json!([])),
        ];
        for (path, expected) in table {
            let found: Vec<Value> = find(&value, path).into_iter().cloned().collect();
            assert_eq!(Value::Array(found), expected, "{path}");
        }
    }
}
