//! A Cluster with what its agent says, and its execution namespace.

use serde_json::{Map, Value, json};
use shared::ids::FleetId;
use shared::time::UnixSeconds;
use shared::wire::Capacity;

use super::{HeldRow, held, uid};
use crate::naming;

/// Label on what belongs to the system itself.
const SYSTEM_LABEL: &str = "karmada.io/system";
/// Annotation: when the agent of a cluster was last heard.
pub const LAST_SEEN: &str = "fleet.pinnace.dev/last-seen";

/// What is known of a cluster beyond its stored object.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClusterRow {
    /// `gitVersion` of the member.
    pub kubernetes_version: String,
    /// Status, reason, message and last transition of the condition Ready; none before the first hello.
    pub ready: Option<(String, String, String, UnixSeconds)>,
    /// Last capacity reported.
    pub capacity: Option<Capacity>,
    /// When the agent was last heard.
    pub last_seen: Option<UnixSeconds>,
    /// The agent holds a set that this hub does not know: its head's sequence.
    pub behind: Option<u64>,
    /// Ordered deletions that the agent has not carried out, by key.
    pub held: Vec<HeldRow>,
}

/// A stored Cluster with its status from facts. Conditions of other types that others wrote stay.
pub fn cluster(stored: &Value, row: Option<&ClusterRow>) -> Value {
    let mut view = stored.clone();
    let mut status = stored["status"].as_object().cloned().unwrap_or_default();
    let created = stored["metadata"]["creationTimestamp"]
        .as_str()
        .unwrap_or_default();
    let unknown = ClusterRow::default();
    let facts = row.unwrap_or(&unknown);
    if !facts.kubernetes_version.is_empty() {
        status.insert("kubernetesVersion".to_owned(), json!(facts.kubernetes_version));
    }
    if let Some(capacity) = &facts.capacity {
        put_capacity(&mut status, capacity);
    }
    let (ready, reason, message, since) = match &facts.ready {
        Some((ready, reason, message, since)) => {
            (ready.as_str(), reason.as_str(), message.as_str(), since.rfc3339())
        }
        None => {
            let message = "the agent of this cluster has not been heard of yet";
            (
                "Unknown",
                "ClusterStatusNeverUpdated",
                message,
                created.to_owned(),
            )
        }
    };
    let condition = |of_type: &str, status: &str, reason: &str, message: &str, since: &str| {
        json!({"type": of_type, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": since})
    };
    put_raw(&mut status, condition("Ready", ready, reason, message, &since));
    if let Some(sequence) = facts.behind {
        let message = format!(
            "the agent holds set {sequence}, which this hub does not know; nothing is shipped until \
             `pinnace cluster reconcile`"
        );
        put_raw(
            &mut status,
            condition("HubBehind", "True", "HubBehind", &message, &since),
        );
    }
    if let Some(condition) = held::condition(&facts.held) {
        put_raw(&mut status, condition);
    }
    view["status"] = Value::Object(status);
    if let Some(seen) = facts.last_seen
        && let Some(metadata) = view["metadata"].as_object_mut()
        && let Some(annotations) = metadata
            .entry("annotations")
            .or_insert_with(|| json!({}))
            .as_object_mut()
    {
        annotations.insert(LAST_SEEN.to_owned(), json!(seen.rfc3339()));
    }
    view
}

fn put_raw(status: &mut Map<String, Value>, condition: Value) {
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(list) = conditions.as_array_mut() else {
        return;
    };
    match list.iter_mut().find(|other| other["type"] == condition["type"]) {
        Some(old) => *old = condition,
        None => list.push(condition),
    }
}

fn put_capacity(status: &mut Map<String, Value>, capacity: &Capacity) {
    status.insert(
        "nodeSummary".to_owned(),
        json!({"totalNum": capacity.nodes_total, "readyNum": capacity.nodes_ready}),
    );
    let mut summary = Map::new();
    for (name, quantities) in [
        ("allocatable", &capacity.allocatable),
        ("allocating", &capacity.allocating),
        ("allocated", &capacity.allocated),
    ] {
        if !quantities.is_empty() {
            summary.insert(name.to_owned(), json!(quantities));
        }
    }
    if !capacity.models.is_empty() {
        let models: Vec<Value> = capacity
            .models
            .iter()
            .map(|model| json!({"grade": model.grade, "count": model.count}))
            .collect();
        summary.insert("allocatableModelings".to_owned(), json!(models));
    }
    if !summary.is_empty() {
        status.insert("resourceSummary".to_owned(), Value::Object(summary));
    }
    if !capacity.apis.is_empty() {
        let apis: Vec<Value> = capacity
            .apis
            .iter()
            .map(|api| {
                let resources: Vec<Value> = api
                    .resources
                    .iter()
                    .map(|(kind, plural)| json!({"name": plural, "kind": kind}))
                    .collect();
                json!({"groupVersion": api.group_version, "resources": resources})
            })
            .collect();
        status.insert("apiEnablements".to_owned(), json!(apis));
    }
}

/// The execution namespace of a stored Cluster.
pub fn execution_namespace(fleet: FleetId, cluster: &Value) -> Option<Value> {
    let metadata = cluster["metadata"].as_object()?;
    let name = metadata.get("name")?.as_str()?;
    let cluster_uid = metadata.get("uid").and_then(Value::as_str).unwrap_or(name);
    let namespace = naming::execution_namespace(name);
    Some(json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": namespace,
            "uid": uid(fleet, "execution namespace", cluster_uid),
            "creationTimestamp": metadata.get("creationTimestamp").cloned().unwrap_or(Value::Null),
            "labels": {SYSTEM_LABEL: "true", "kubernetes.io/metadata.name": namespace},
        },
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }))
}
