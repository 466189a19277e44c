//! Writes of a part of an object: its status, the verdict on a signing request, the finalizers of a namespace.

use super::keep;
use crate::timestamp;
use crate::types::Resource;
use serde_json::{Value, json};

/// Conditions that only the approval subresource sets (source: the certificates registry).
const VERDICTS: [&str; 2] = ["Approved", "Denied"];

/// The old object with the status of the new one.
pub(super) fn status(resource: &Resource, old: &Value, new: &Value) -> Value {
    let mut out = old.clone();
    if let Some(members) = out.as_object_mut() {
        keep(members, new.get("status"), "status");
        keep(members, new.get("apiVersion"), "apiVersion");
    }
    keep_fields(&mut out, new);
    if resource.is_built_in && !resource.group.starts_with("apiextensions") {
        let labels = &*resource.plural != "deployments";
        keep_marks(&mut out, new, labels);
    }
    if &*resource.group == "certificates.k8s.io" {
        let verdicts: Vec<Value> = conditions(old).filter(|c| is_verdict(c)).cloned().collect();
        let others = conditions(&out).filter(|c| !is_verdict(c)).cloned();
        let all: Vec<Value> = verdicts.into_iter().chain(others).collect();
        if out.pointer("/status/conditions").is_some() || !all.is_empty() {
            out["status"]["conditions"] = json!(all);
        }
    }
    out
}

fn conditions(object: &Value) -> impl Iterator<Item = &Value> {
    let list = object.pointer("/status/conditions").and_then(Value::as_array);
    list.into_iter().flatten()
}

fn is_verdict(condition: &Value) -> bool {
    let kind = condition.get("type").and_then(Value::as_str).unwrap_or_default();
    VERDICTS.contains(&kind)
}

/// Built-in kinds let their metadata be annotated and labelled along with their status, but for the labels of a
/// Deployment (source: their status strategies).
fn keep_marks(out: &mut Value, new: &Value, labels: bool) {
    if let Some(metadata) = out.get_mut("metadata").and_then(Value::as_object_mut) {
        keep(metadata, new.pointer("/metadata/annotations"), "annotations");
        if labels {
            keep(metadata, new.pointer("/metadata/labels"), "labels");
        }
    }
}

/// The old object with the conditions of the new one; new conditions get their times.
pub(super) fn approval(old: &Value, new: &Value, now: i64) -> Value {
    let mut out = old.clone();
    let now = timestamp::format(now);
    let all: Vec<Value> = conditions(new)
        .cloned()
        .map(|mut condition| {
            let known = conditions(old).find(|c| c.get("type") == condition.get("type"));
            for key in ["lastUpdateTime", "lastTransitionTime"] {
                if condition.get(key).is_none_or(Value::is_null) {
                    let time = known.and_then(|k| k.get(key)).cloned();
                    condition[key] = time.unwrap_or_else(|| json!(now));
                }
            }
            if condition.get("status").is_none() {
                condition["status"] = json!("True");
            }
            condition
        })
        .collect();
    if !out["status"].is_object() {
        out["status"] = json!({});
    }
    out["status"]["conditions"] = json!(all);
    keep_fields(&mut out, new);
    keep_marks(&mut out, new, true);
    out
}

/// Who owns which field comes with every write.
fn keep_fields(out: &mut Value, new: &Value) {
    if let Some(metadata) = out.get_mut("metadata").and_then(Value::as_object_mut) {
        keep(metadata, new.pointer("/metadata/managedFields"), "managedFields");
    }
}

/// The old object with the `spec.finalizers` of the new one.
pub(super) fn finalize(old: &Value, new: &Value) -> Value {
    let mut out = old.clone();
    if !out["spec"].is_object() {
        out["spec"] = json!({});
    }
    let finalizers = new
        .pointer("/spec/finalizers")
        .cloned()
        .unwrap_or_else(|| json!([]));
    out["spec"]["finalizers"] = finalizers;
    keep_fields(&mut out, new);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::TypeTable;

    #[test]
    fn a_verdict_is_given_by_approval_alone() {
        let table = TypeTable::built_in();
        let resource = table
            .resource("certificates.k8s.io", "v1", "certificatesigningrequests")
            .expect("signing requests");
        let old =
            json!({"metadata": {"name": "r"}, "spec": {"request": "x"}, "status": {"certificate": "c"}});
        let wish = json!({"metadata": {"annotations": {"by": "me"}}, "spec": {"request": "other"},
            "status": {"certificate": "mine", "conditions": [{"type": "Approved", "reason": "r"}]}});
        let approved = approval(&old, &wish, 0);
        assert_eq!(approved["status"]["certificate"], "c");
        assert_eq!(approved["spec"], old["spec"]);
        assert_eq!(
            approved["metadata"]["annotations"]["by"], "me",
            "marks come along"
        );
        assert_eq!(
            approved["status"]["conditions"][0]["lastUpdateTime"],
            "1970-01-01T00:00:00Z"
        );
        let status = status(resource, &old, &wish);
        assert_eq!(status["status"]["certificate"], "mine");
        assert_eq!(
            status["status"]["conditions"],
            json!([]),
            "a status write gives no verdict"
        );
        let kept = super::status(resource, &approved, &json!({"status": {"certificate": "n"}}));
        assert_eq!(kept["status"]["conditions"], approved["status"]["conditions"]);
    }

    #[test]
    fn finalize_changes_nothing_else() {
        let old = json!({"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
        let new = finalize(&old, &json!({"spec": {}, "status": {}}));
        assert_eq!(
            new,
            json!({"spec": {"finalizers": []}, "status": {"phase": "Active"}})
        );
    }
}
