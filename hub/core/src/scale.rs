//! The scale subresource: `autoscaling/v1` Scale read from and written into workloads.

use crate::types::Resource;
use serde_json::{Map, Value, json};

/// Where the replicas of a workload are.
pub fn replicas_path(resource: &Resource) -> Vec<&str> {
    match resource.custom.as_ref().and_then(|c| c.scale.as_ref()) {
        Some(paths) => paths.spec.iter().map(|key| &**key).collect(),
        None => vec!["spec", "replicas"],
    }
}

/// The Scale of a workload.
pub fn of(resource: &Resource, object: &Value) -> Value {
    let mut metadata = Map::new();
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.pointer("/metadata").and_then(|m| m.get(key)) {
            metadata.insert(key.to_owned(), value.clone());
        }
    }
    let paths = resource.custom.as_ref().and_then(|c| c.scale.as_ref());
    let at = |path: &[Box<str>]| path.iter().try_fold(object, |value, key| value.get(&**key));
    let (replicas, current, selector) = match paths {
        Some(paths) => {
            let count = |path: &[Box<str>]| at(path).and_then(Value::as_i64).unwrap_or(0);
            let selector = paths.selector.as_deref().and_then(at).and_then(Value::as_str);
            (
                count(&paths.spec),
                count(&paths.status),
                selector.unwrap_or_default().to_owned(),
            )
        }
        None => (
            object
                .pointer("/spec/replicas")
                .and_then(Value::as_i64)
                .unwrap_or(1),
            object
                .pointer("/status/replicas")
                .and_then(Value::as_i64)
                .unwrap_or(0),
            selector_text(object.pointer("/spec/selector").unwrap_or(&Value::Null)),
        ),
    };
    let mut status = json!({"replicas": current});
    if !selector.is_empty() {
        status["selector"] = json!(selector);
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": {"replicas": replicas}, "status": status})
}

/// Writes the replicas of a Scale into a workload; absent means 0, as in Go.
pub fn into(resource: &Resource, object: &mut Value, scale: &Value) {
    let replicas = scale
        .pointer("/spec/replicas")
        .cloned()
        .unwrap_or_else(|| json!(0));
    if let [parents @ .., last] = replicas_path(resource).as_slice() {
        let mut at = Some(&mut *object);
        for key in parents {
            let members = at.and_then(Value::as_object_mut);
            at = members.map(|m| m.entry(*key).or_insert_with(|| json!({})));
        }
        if let Some(members) = at.and_then(Value::as_object_mut) {
            members.insert((*last).to_owned(), replicas);
        }
    }
    let revision = scale.pointer("/metadata/resourceVersion");
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        match revision {
            Some(revision) => metadata.insert("resourceVersion".to_owned(), revision.clone()),
            None => metadata.remove("resourceVersion"),
        };
    }
}

/// A LabelSelector, or the plain labels of a ReplicationController, in the grammar of queries.
pub fn selector_text(selector: &Value) -> String {
    let pairs = |map: &Value| -> Vec<String> {
        let members = map.as_object().into_iter().flatten();
        members
            .filter_map(|(k, v)| Some(format!("{k}={}", v.as_str()?)))
            .collect()
    };
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    let mut parts = match selector.get("matchLabels") {
        Some(labels) => pairs(labels),
        None if expressions.is_none() => pairs(selector),
        None => Vec::new(),
    };
    for e in expressions.into_iter().flatten() {
        let key = e["key"].as_str().unwrap_or_default();
        let values: Vec<&str> = e["values"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        parts.push(match e["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => continue,
        });
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_read_and_written() {
        let deployments = crate::types::TypeTable::built_in()
            .preferred("apps", "deployments")
            .expect("deployments");
        let mut object = json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": "5", "labels": {}},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"},
                "matchExpressions": [{"key": "c", "operator": "In", "values": ["d", "e"]}]}},
            "status": {"replicas": 2}});
        let mut scale = of(deployments, &object);
        assert_eq!(
            scale["status"],
            json!({"replicas": 2, "selector": "a=b,c in (d,e)"})
        );
        assert_eq!(
            scale["metadata"],
            json!({"name": "a", "uid": "u", "resourceVersion": "5"})
        );
        scale["spec"]["replicas"] = json!(7);
        into(deployments, &mut object, &scale);
        assert_eq!(object["spec"]["replicas"], 7);
        assert_eq!(selector_text(&json!({"x": "y"})), "x=y");
    }
}
