//! Where two states of an object differ, for people.

use serde_json::Value;

/// Places named in a message.
const PLACES_MAX: usize = 8;

/// A sentence that names where `wanted` differs from `found`, outside bookkeeping.
#[must_use]
pub fn differences(found: &Value, wanted: &Value) -> String {
    let mut places = Vec::new();
    walk(found, wanted, &mut String::new(), &mut places);
    match places.len() {
        0 => "its values are what is wanted".to_owned(),
        n if n > PLACES_MAX => {
            format!(
                "it differs in {} and {} more places",
                places[..PLACES_MAX].join(", "),
                n - PLACES_MAX
            )
        }
        _ => format!("it differs in {}", places.join(", ")),
    }
}

/// Metadata that the server keeps and our own marks say nothing about the user's object.
fn is_bookkeeping(path: &str) -> bool {
    matches!(
        path,
        "/status" | "/metadata/managedFields" | "/metadata/resourceVersion" | "/metadata/generation"
    ) || path.contains("/fleet.pinnace.dev")
        || path.contains("/resourcetemplate.karmada.io")
}

fn walk(found: &Value, wanted: &Value, path: &mut String, places: &mut Vec<String>) {
    if found == wanted || is_bookkeeping(path) {
        return;
    }
    match (found, wanted) {
        (Value::Object(a), Value::Object(b)) => {
            let names: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in names {
                step(path, name, |path| {
                    let (x, y) = (
                        a.get(name).unwrap_or(&Value::Null),
                        b.get(name).unwrap_or(&Value::Null),
                    );
                    walk(x, y, path, places);
                });
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (i, (x, y)) in a.iter().zip(b).enumerate() {
                step(path, &i.to_string(), |path| walk(x, y, path, places));
            }
        }
        // A map that exists only for our marks.
        (Value::Null, Value::Object(b)) if b.keys().all(|k| is_bookkeeping(&format!("{path}/{k}"))) => {}
        _ => places.push(path.trim_start_matches('/').replace('/', ".")),
    }
}

fn step(path: &mut String, name: &str, then: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push('/');
    path.push_str(name);
    then(path);
    path.truncate(length);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_the_users_fields_only() {
        let found = json!({"metadata": {"resourceVersion": "1"}, "data": {"a": "1", "b": "2"}});
        let wanted = json!({"metadata": {"resourceVersion": "1", "labels": {"fleet.pinnace.dev/managed-by": "x"}},
            "data": {"a": "1", "b": "3", "c": "4"}});
        assert_eq!(differences(&found, &wanted), "it differs in data.b, data.c");
        assert_eq!(differences(&found, &found), "its values are what is wanted");
    }
}
