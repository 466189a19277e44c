//! Fields that the API server of a member would fill in, for reading only: the stored template stays as sent.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::fields;

/// The template as a member's API server would default it, as far as planning reads it: replicas 1, a Job's
/// parallelism and completions, Service type and port protocol. A field of the wrong type is left alone.
pub fn effective(template: &Value) -> Cow<'_, Value> {
    let kind = (
        template["apiVersion"].as_str().unwrap_or(""),
        template["kind"].as_str().unwrap_or(""),
    );
    let absent = |path: &str| matches!(fields::get(template, path), Ok(None));
    let spec = template["spec"].is_object() || absent("spec");
    match kind {
        ("apps/v1", "Deployment" | "StatefulSet" | "ReplicaSet") if spec && absent("spec.replicas") => {
            let mut changed = template.clone();
            fields::set(&mut changed, "spec.replicas", json!(1));
            Cow::Owned(changed)
        }
        ("batch/v1", "Job") if spec && absent("spec.parallelism") => {
            let mut changed = template.clone();
            // Both absent: one pod that must complete. Only completions given: one at a time.
            if absent("spec.completions") {
                fields::set(&mut changed, "spec.completions", json!(1));
            }
            fields::set(&mut changed, "spec.parallelism", json!(1));
            Cow::Owned(changed)
        }
        ("v1", "Service") if spec => {
            let mut changed = template.clone();
            if absent("spec.type") {
                fields::set(&mut changed, "spec.type", json!("ClusterIP"));
            }
            for port in changed
                .pointer_mut("/spec/ports")
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
            {
                if port.is_object() && port["protocol"].is_null() {
                    port["protocol"] = json!("TCP");
                }
            }
            Cow::Owned(changed)
        }
        _ => Cow::Borrowed(template),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_what_a_member_would() {
        let cases = [
            (
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {}}),
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 1}}),
            ),
            (
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 0}}),
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 0}}),
            ),
            (
                json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {}}),
                json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"parallelism": 1, "completions": 1}}),
            ),
            (
                json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"parallelism": 3}}),
                json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"parallelism": 3}}),
            ),
            (
                json!({"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]}}),
                json!({"apiVersion": "v1", "kind": "Service",
                       "spec": {"type": "ClusterIP", "ports": [{"port": 80, "protocol": "TCP"}]}}),
            ),
            (
                json!({"apiVersion": "v1", "kind": "ConfigMap"}),
                json!({"apiVersion": "v1", "kind": "ConfigMap"}),
            ),
        ];
        for (template, want) in cases {
            assert_eq!(*effective(&template), want);
        }
    }
}
