//! Whose fields move to us when an object is taken over.
//!
//! An apply removes only fields that its own manager owned before. What `kubectl create`, `kubectl apply` or Helm
//! wrote as *updates* would therefore stay for ever, although the set no longer names it. So on adoption the fields of
//! such tools become ours first, and the apply that follows removes what the set does not want. Fields of controllers
//! (an autoscaler, the scheduler, cloud integrations) stay theirs.

use serde_json::{Value, json};
use shared::owned::FIELD_MANAGER;

/// Managers that stand for a person or a deployment tool, by the beginning of their name. What other field managers
/// are named after (`before-first-apply` holds the fields of objects older than field ownership) is in the upstream
/// documentation of server-side apply.
const TOOLS: [&str; 14] = [
    "kubectl",
    "helm",
    "Helm",
    "before-first-apply",
    "kustomize-controller",
    "helm-controller",
    "argocd",
    "fleetagent",
    "karmada",
    "work-agent",
    "Terraform",
    "HashiCorp",
    "pulumi",
    "oc",
];

/// `kubectl rollout restart` marks the pod template; taking the mark away would restart the pods once more.
const STAYS: &str = "kubectl-rollout";

fn text<'a>(entry: &'a Value, name: &str) -> &'a str {
    entry.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn is_moved(entry: &Value) -> bool {
    let name = text(entry, "manager");
    let tool = TOOLS.iter().any(|t| {
        name.strip_prefix(t)
            .is_some_and(|rest| rest.is_empty() || !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
    });
    text(entry, "operation") == "Update" && text(entry, "subresource").is_empty() && tool && name != STAYS
}

/// `metadata.managedFields` with the fields of earlier update-style tools moved to our apply manager; none when there
/// is nothing to move.
#[must_use]
pub fn moved_managers(object: &Value) -> Option<Value> {
    let managers = object.pointer("/metadata/managedFields")?.as_array()?;
    if !managers.iter().any(is_moved) {
        return None;
    }
    let mut fields = json!({});
    let mut api_version = Value::Null;
    let mut kept = Vec::new();
    for entry in managers {
        let ours = text(entry, "manager") == FIELD_MANAGER
            && text(entry, "operation") == "Apply"
            && text(entry, "subresource").is_empty();
        if !ours && !is_moved(entry) {
            kept.push(entry.clone());
            continue;
        }
        // Fields are named in the version of their entry; ours follow the object as it was read.
        if api_version.is_null() {
            api_version = object.get("apiVersion").cloned().unwrap_or_default();
        }
        if let Some(more) = entry.get("fieldsV1") {
            merge(&mut fields, more);
        }
    }
    kept.push(
        json!({"manager": FIELD_MANAGER, "operation": "Apply", "apiVersion": api_version,
        "fieldsType": "FieldsV1", "fieldsV1": fields}),
    );
    Some(Value::Array(kept))
}

/// The names of the managers whose fields move, each once.
#[must_use]
pub fn moved_names(object: &Value) -> Vec<String> {
    let managers = object
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array);
    let mut names: Vec<String> = managers
        .into_iter()
        .flatten()
        .filter(|e| is_moved(e))
        .map(|e| text(e, "manager").to_owned())
        .collect();
    names.sort();
    names.dedup();
    names
}

/// The union of two field sets.
fn merge(into: &mut Value, more: &Value) {
    let (Some(a), Some(b)) = (into.as_object_mut(), more.as_object()) else {
        return;
    };
    for (name, value) in b {
        match a.get_mut(name) {
            Some(slot) => merge(slot, value),
            None => {
                a.insert(name.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(managers: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "managedFields": managers}})
    }

    fn by(manager: &str, operation: &str, fields: &Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": fields})
    }

    #[test]
    fn tools_move_and_controllers_stay() {
        let scale = json!({"manager": "kubectl-scale", "operation": "Update", "subresource": "scale",
            "fieldsV1": {"f:spec": {"f:replicas": {}}}});
        let controller = by(
            "kube-controller-manager",
            "Update",
            &json!({"f:metadata": {"f:annotations": {"f:r": {}}}}),
        );
        let other = by("octopus", "Update", &json!({"f:x": {}}));
        let given = object(&json!([
            by(
                "kubectl-create",
                "Update",
                &json!({"f:spec": {"f:ports": {".": {}}}})
            ),
            scale,
            by("helm", "Update", &json!({"f:spec": {"f:type": {}}})),
            controller,
            other,
        ]));
        let moved = moved_managers(&given).expect("two tools wrote it");
        let ours = json!({"f:spec": {"f:ports": {".": {}}, "f:type": {}}});
        assert_eq!(
            moved,
            json!([scale, controller, other, by("pinnace", "Apply", &ours)])
        );
        assert_eq!(moved_names(&given), ["helm", "kubectl-create"]);
    }

    #[test]
    fn what_we_own_already_is_kept() {
        let given = object(&json!([
            by("pinnace", "Apply", &json!({"f:data": {"f:a": {}}})),
            by(
                "kubectl-client-side-apply",
                "Update",
                &json!({"f:data": {"f:b": {}}})
            ),
        ]));
        let moved = moved_managers(&given).expect("kubectl wrote it");
        let ours = json!({"f:data": {"f:a": {}, "f:b": {}}});
        assert_eq!(moved, json!([by("pinnace", "Apply", &ours)]));
    }

    #[test]
    fn nothing_moves_without_a_tool() {
        let applied = by("kubectl", "Apply", &json!({"f:data": {}}));
        assert_eq!(moved_managers(&object(&json!([applied]))), None);
        assert_eq!(moved_managers(&json!({"metadata": {}})), None);
    }
}
