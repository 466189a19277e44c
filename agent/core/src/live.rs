//! What the agent reads off one object of the member: identity, our marks, and the fields our manager owns.
//!
//! Drift is found without comparing values: the API server takes a field out of our manager's set as soon as
//! another manager gives it another value or removes it, and it knows which values are equal ("1000m" and "1").
//! So "our set of fields is what it was after our apply" means "nobody touched what is ours".

use serde_json::Value;
use shared::ids::Digest;
use shared::owned::{self, Mark, Marker};

/// An object as it is in the member, reduced to what decisions need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Live {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// What our marks on it say.
    pub mark: Mark,
    /// Digest of the field set of our apply manager; none when it owns nothing.
    pub fields: Option<Digest>,
    /// A CustomResourceDefinition whose condition `Established` is true; true for every other kind.
    pub established: bool,
    /// A Job or Pod that has ended, well or badly.
    pub completed: bool,
    /// The manager other than ours, and not a status writer, that wrote last, if any.
    pub other_manager: Option<String>,
}

impl Live {
    /// Reads an object (or its metadata alone) as the member returned it. None when it has no uid, which no
    /// stored object lacks.
    #[must_use]
    pub fn read(object: &Value, marker: &Marker) -> Option<Self> {
        let metadata = object.get("metadata")?;
        let text = |name: &str| metadata.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            uid: text("uid").filter(|u| !u.is_empty())?,
            resource_version: text("resourceVersion").unwrap_or_default(),
            deleting: metadata.get("deletionTimestamp").is_some_and(|v| !v.is_null()),
            mark: owned::mark(object, marker),
            fields: own_fields(metadata),
            established: is_established(object),
            completed: is_completed(object),
            other_manager: other_manager(metadata),
        })
    }
}

fn managers(metadata: &Value) -> &[Value] {
    metadata
        .get("managedFields")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn field<'a>(entry: &'a Value, name: &str) -> &'a str {
    entry.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Digest of what our apply manager owns.
fn own_fields(metadata: &Value) -> Option<Digest> {
    let fields = managers(metadata)
        .iter()
        .find(|m| {
            field(m, "manager") == owned::FIELD_MANAGER
                && field(m, "operation") == "Apply"
                && field(m, "subresource").is_empty()
        })?
        .get("fieldsV1")?;
    // serde_json keeps maps sorted, so equal sets give equal bytes whatever the server's order.
    Some(Digest::of(fields.to_string().as_bytes()))
}

/// Who else wrote last. The time stamps are the member's own and are compared with each other only.
fn other_manager(metadata: &Value) -> Option<String> {
    managers(metadata)
        .iter()
        .filter(|m| field(m, "manager") != owned::FIELD_MANAGER && field(m, "subresource") != "status")
        .max_by(|a, b| field(a, "time").cmp(field(b, "time")))
        .map(|m| field(m, "manager").to_owned())
        .filter(|name| !name.is_empty())
}

fn condition_is_true(object: &Value, name: &str) -> bool {
    object
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .is_some_and(|all| {
            all.iter()
                .any(|c| field(c, "type") == name && field(c, "status") == "True")
        })
}

fn is_established(object: &Value) -> bool {
    field(object, "kind") != "CustomResourceDefinition" || condition_is_true(object, "Established")
}

fn is_completed(object: &Value) -> bool {
    match (field(object, "apiVersion"), field(object, "kind")) {
        ("batch/v1", "Job") => condition_is_true(object, "Complete") || condition_is_true(object, "Failed"),
        ("v1", "Pod") => matches!(
            object.pointer("/status/phase").and_then(Value::as_str),
            Some("Succeeded" | "Failed")
        ),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use shared::ids::{ClusterName, FleetId, Incarnation};

    fn marker() -> Marker {
        let shop = ClusterName::new("shop").expect("a name");
        Marker::new(FleetId([2; 16]), &shop, Incarnation([1; 16]))
    }

    fn with_fields(entries: Value) -> Live {
        Live::read(
            &json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "uid": "u", "resourceVersion": "7", "managedFields": entries}}),
            &marker(),
        )
        .expect("has a uid")
    }

    #[test]
    fn only_our_apply_entry_counts_as_ours() {
        let ours = json!({"manager": "pinnace", "operation": "Apply", "fieldsV1": {"f:data": {"f:a": {}, "f:b": {}}}});
        let status = json!({"manager": "pinnace", "operation": "Apply", "subresource": "status", "fieldsV1": {"f:status": {}}});
        let update = json!({"manager": "pinnace", "operation": "Update", "fieldsV1": {"f:x": {}}});
        let a = with_fields(json!([status, update, ours]));
        let b = with_fields(json!([ours]));
        assert!(a.fields.is_some());
        assert_eq!(a.fields, b.fields);
        assert_eq!(with_fields(json!([update])).fields, None);
    }

    #[test]
    fn a_lost_field_changes_the_digest_and_names_the_taker() {
        let before = with_fields(
            json!([{"manager": "pinnace", "operation": "Apply", "fieldsV1": {"f:data": {"f:a": {}, "f:b": {}}}}]),
        );
        let after = with_fields(json!([
            {"manager": "pinnace", "operation": "Apply", "time": "2026-01-01T00:00:09Z", "fieldsV1": {"f:data": {"f:a": {}}}},
            {"manager": "old", "operation": "Update", "time": "2026-01-01T00:00:00Z", "fieldsV1": {}},
            {"manager": "kcm", "operation": "Update", "subresource": "status", "time": "2026-01-01T00:00:10Z", "fieldsV1": {}},
            {"manager": "kubectl-edit", "operation": "Update", "time": "2026-01-01T00:00:05Z", "fieldsV1": {"f:data": {"f:b": {}}}}]));
        assert_ne!(before.fields, after.fields);
        assert_eq!(after.other_manager.as_deref(), Some("kubectl-edit"));
    }

    #[test]
    fn ends_of_jobs_and_pods_and_establishment() {
        let read = |v: Value| Live::read(&v, &marker()).expect("has a uid");
        let job = |c: &str| {
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"uid": "u"},
            "status": {"conditions": [{"type": c, "status": "True"}]}})
        };
        assert!(read(job("Complete")).completed);
        assert!(read(job("Failed")).completed);
        assert!(!read(job("Suspended")).completed);
        assert!(read(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"uid": "u"}, "status": {"phase": "Failed"}})).completed);
        let crd = |s: &str| {
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"uid": "u"}, "status": {"conditions": [{"type": "Established", "status": s}]}})
        };
        assert!(read(crd("True")).established);
        assert!(!read(crd("False")).established);
        assert!(read(job("Complete")).established);
        assert!(Live::read(&json!({"metadata": {"name": "x"}}), &marker()).is_none());
    }
}
