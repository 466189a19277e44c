//! Entries of keyed lists that stand in each other's way. A list of ports is keyed by number: who edits the number of a
//! named port makes another entry of the same name, and an apply that wants the first one back would make two, which the
//! API refuses. The entry is set right in place instead, so that a workload rolls once and not twice.

use serde_json::{Value, json};

/// Fields that key an entry, where entries must also differ by name.
const KEYS: [&str; 2] = ["containerPort", "port"];

/// A guarded JSON patch that gives entries back the key that the desired object has under their name; none if no entry
/// is in the way.
#[must_use]
pub fn untangled(desired: &Value, observed: &Value) -> Option<Value> {
    let version = observed.pointer("/metadata/resourceVersion")?;
    let mut operations = vec![json!({"op": "test", "path": "/metadata/resourceVersion", "value": version})];
    walk(desired, observed, String::new(), &mut operations);
    (operations.len() > 1).then_some(Value::Array(operations))
}

fn walk(desired: &Value, observed: &Value, path: String, operations: &mut Vec<Value>) {
    match (desired, observed) {
        (Value::Object(want), Value::Object(have)) => {
            for (name, value) in want {
                if let Some(other) = have.get(name) {
                    let name = name.replace('~', "~0").replace('/', "~1");
                    walk(value, other, format!("{path}/{name}"), operations);
                }
            }
        }
        (Value::Array(want), Value::Array(have)) => {
            for (index, item) in have.iter().enumerate() {
                let same_name = |w: &&Value| item.get("name").is_some() && w.get("name") == item.get("name");
                let Some(wanted) = want.iter().find(same_name) else {
                    continue;
                };
                let path = format!("{path}/{index}");
                let tangled = KEYS.iter().find(|key| {
                    let (w, h) = (wanted.get(**key), item.get(**key));
                    w.is_some() && h.is_some() && w != h
                });
                match tangled {
                    // Where the wanted key is there under another name, moving it would make two of it.
                    Some(key) if have.iter().all(|other| other.get(*key) != wanted.get(*key)) => {
                        let value = wanted.get(*key).cloned();
                        operations
                            .push(json!({"op": "replace", "path": format!("{path}/{key}"), "value": value}));
                    }
                    Some(_) => {}
                    None => walk(wanted, item, path, operations),
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(ports: Value) -> Value {
        json!({"metadata": {"resourceVersion": "7"}, "spec": {"template": {"spec": {"containers": [
            {"name": "side"}, {"name": "web", "ports": ports}]}}}})
    }

    #[test]
    fn a_named_port_gets_its_number_back_in_place() {
        let want = pod(json!([{"name": "http", "containerPort": 80}]));
        let have =
            pod(json!([{"name": "extra", "containerPort": 9}, {"name": "http", "containerPort": 8080}]));
        assert_eq!(
            untangled(&want, &have),
            Some(
                json!([{"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
                {"op": "replace", "path": "/spec/template/spec/containers/1/ports/1/containerPort", "value": 80}])
            )
        );
    }

    #[test]
    fn what_is_in_nobodys_way_stays() {
        let want = pod(json!([{"name": "http", "containerPort": 80}]));
        for have in [
            json!([{"name": "http", "containerPort": 80}]),
            json!([{"name": "other", "containerPort": 8080}]),
            json!([{"containerPort": 8080}]),
            json!([{"name": "http", "containerPort": 8080}, {"name": "old", "containerPort": 80}]),
        ] {
            assert_eq!(untangled(&want, &pod(have.clone())), None, "{have}");
        }
        assert_eq!(untangled(&want, &json!({})), None);
    }
}
