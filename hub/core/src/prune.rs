//! Takes out of an object what is never sent to a member: what a server fills in, status, and per kind what belongs to the
//! place it ran in. Source of the list: the reference's pruning rules.

use serde_json::{Map, Value};

/// Members of metadata that a server fills in.
const SERVER_METADATA: [&str; 10] = [
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
    "ownerReferences",
    "finalizers",
];

/// Labels the Job controller puts on selector and pods.
const JOB_LABELS: [&str; 4] = [
    "controller-uid",
    "job-name",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
];

/// Prunes an object in place. Doing it again changes nothing.
pub fn prune(object: &mut Value) {
    let kind = (text(&object["apiVersion"]), text(&object["kind"]));
    if let Some(map) = object.as_object_mut() {
        map.remove("status");
        if let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut) {
            SERVER_METADATA.iter().for_each(|field| {
                metadata.remove(*field);
            });
        }
    }
    match (kind.0.as_str(), kind.1.as_str()) {
        ("apps/v1", "Deployment") => {
            remove_keys(
                object.pointer_mut("/metadata/annotations"),
                &[
                    "deployment.kubernetes.io/revision",
                    "deployment.kubernetes.io/revision-history",
                ],
            );
        }
        ("batch/v1", "Job") => job(object),
        ("v1", "Secret") if object["type"] == "kubernetes.io/service-account-token" => {
            remove_keys(Some(object), &["data"]);
            remove_keys(
                object.pointer_mut("/metadata/annotations"),
                &["kubernetes.io/service-account.uid"],
            );
        }
        ("v1", "ServiceAccount") => service_account(object),
        ("v1", "Service") => service(object),
        ("v1", "PersistentVolumeClaim") => {
            remove_keys(
                object.pointer_mut("/metadata/annotations"),
                &["volume.kubernetes.io/selected-node"],
            );
        }
        _ => {}
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn remove_keys(map: Option<&mut Value>, keys: &[&str]) {
    if let Some(map) = map.and_then(Value::as_object_mut) {
        keys.iter().for_each(|key| {
            map.remove(*key);
        });
    }
}

fn job(object: &mut Value) {
    // Counted down in the member, it would delete the Job there and have it made again; the hub's own clock decides.
    remove_keys(object.get_mut("spec"), &["ttlSecondsAfterFinished"]);
    if object.pointer("/spec/manualSelector") == Some(&Value::Bool(true)) {
        return;
    }
    remove_keys(object.pointer_mut("/spec/selector/matchLabels"), &JOB_LABELS);
    remove_keys(object.pointer_mut("/spec/template/metadata/labels"), &JOB_LABELS);
}

/// Token secrets that a controller made belong to the place they were made in.
fn service_account(object: &mut Value) {
    let prefix = format!(
        "{}-token-",
        object["metadata"]["name"].as_str().unwrap_or_default()
    );
    if let Some(secrets) = object.get_mut("secrets").and_then(Value::as_array_mut) {
        secrets.retain(|secret| {
            !secret["name"]
                .as_str()
                .is_some_and(|name| name.starts_with(&prefix))
        });
    }
}

/// A cluster address is given out by each member; `None` (headless) is the user's choice and stays.
fn service(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    let given_out = |spec: &Map<String, Value>| {
        spec.get("clusterIP")
            .and_then(Value::as_str)
            .is_some_and(|address| !address.is_empty() && address != "None")
    };
    if given_out(spec) {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Field report F39. Red if a field that a server fills in were missing from the lists above: a uid is refused by
    /// the member's API, an owner that is only on the hub makes its collector delete the object.
    #[test]
    fn pruning_twice_is_pruning_once() {
        let mut once = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "a", "uid": "u", "managedFields": [], "resourceVersion": "7", "generation": 3,
                "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-01T00:00:00Z",
                "finalizers": ["kubernetes"], "ownerReferences": [{"kind": "ConfigMap", "name": "o", "uid": "u2"}],
                "annotations": {"deployment.kubernetes.io/revision": "1"}},
            "status": {"replicas": 1}
        });
        prune(&mut once);
        let mut twice = once.clone();
        prune(&mut twice);
        assert_eq!(once, twice);
        assert_eq!(
            once,
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "annotations": {}}})
        );
    }
}
