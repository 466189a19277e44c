//! Views: objects of the Karmada groups that are not stored as such, built at read time from rows.
//!
//! Shapes and words are the reference's (karmada-api.md sections 1.3 to 1.5, 2.7, 2.8). Rows in, JSON out; equal
//! rows give equal JSON, times included, so a view does not change by being read.

mod held;

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value, json};
use shared::ids::{FleetId, ObjectKey};
use shared::time::UnixSeconds;
use shared::wire::{ApplyState, Capacity, Health};

use crate::aggregate::{self, Condition, Seen, Target};
use crate::naming;

pub use held::{HeldRow, words as held_words};

/// Label on what belongs to the system itself.
const SYSTEM_LABEL: &str = "karmada.io/system";
/// Annotation: when the agent of a cluster was last heard.
pub const LAST_SEEN: &str = "fleet.pinnace.dev/last-seen";

/// One work of one cluster, as its row and report say.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkRow {
    /// Name of the cluster.
    pub cluster: String,
    /// Name of the work.
    pub work: String,
    /// Uid of the view.
    pub uid: String,
    /// The object in the member.
    pub key: ObjectKey,
    /// Namespace of the binding; empty for a ClusterResourceBinding.
    pub binding_namespace: String,
    /// Name of the binding.
    pub binding: String,
    /// Work labels.
    pub labels: BTreeMap<String, String>,
    /// Uid of the template.
    pub template_uid: String,
    /// Generation of the template; 0 for kinds that have none.
    pub template_generation: u64,
    /// A foreign object of this name is taken over.
    pub overwrites: bool,
    /// Nothing is applied while true.
    pub suspended: bool,
    /// The object stays when the work goes.
    pub preserved: bool,
    /// When the row was made.
    pub created: UnixSeconds,
    /// What the agent last said.
    pub report: Option<WorkReport>,
}

/// What an agent last said of a work.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkReport {
    /// Whether it is in the member as wanted.
    pub applied: ApplyState,
    /// Its health.
    pub health: Health,
    /// Stable code.
    pub reason: String,
    /// For people.
    pub message: String,
    /// Reflected status.
    pub status: Option<Value>,
    /// Since when it is so.
    pub observed: UnixSeconds,
}

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

/// A uid that no other row of this fleet has or will have: SHA-256 of fleet, kind of row and row id, as a uuid.
pub fn uid(fleet: FleetId, kind: &str, row: &str) -> String {
    let mut bytes = fleet.0.to_vec();
    for part in ["pinnace view", kind, row] {
        bytes.extend_from_slice(part.as_bytes());
        bytes.push(0);
    }
    crate::uuid::derived(&bytes)
}

/// A stored ResourceBinding or ClusterResourceBinding with its status from rows. What the planner stored in the
/// status (`Scheduled`, observed generation) stays.
pub fn binding(stored: &Value, rows: &[WorkRow]) -> Value {
    let mut view = stored.clone();
    let created = stored["metadata"]["creationTimestamp"]
        .as_str()
        .unwrap_or_default();
    let mut status = stored["status"].as_object().cloned().unwrap_or_default();
    let clusters: Vec<&str> = names(&stored["spec"]["clusters"]);
    let mut assigned: HashMap<&str, i64> = HashMap::with_capacity(clusters.len());
    for entry in stored["spec"]["clusters"].as_array().into_iter().flatten() {
        if let Some(name) = entry["name"].as_str() {
            *assigned.entry(name).or_default() += entry["replicas"].as_i64().unwrap_or(0);
        }
    }
    let is_only_attached = stored["spec"]["placement"].is_null() && stored["spec"]["requiredBy"].is_array();
    if !has_condition(&status, "Scheduled") && !is_only_attached {
        aggregate::put_condition(&mut status, &scheduled(&clusters), created);
    }
    let targets: Vec<Target> = rows
        .iter()
        .map(|row| Target {
            cluster: row.cluster.clone(),
            replicas: assigned.get(row.cluster.as_str()).copied().unwrap_or(0),
            silent: false,
            seen: row.report.as_ref().map(seen),
        })
        .collect();
    let items = aggregate::items(&targets);
    let condition = aggregate::fully_applied(existing_clusters(&stored["spec"]).dispatch_to, &items);
    let at = transition(rows, condition.status).map_or_else(|| created.to_owned(), UnixSeconds::rfc3339);
    aggregate::put_condition(&mut status, &condition, &at);
    if !items.is_empty() {
        let items = serde_json::to_value(&items).unwrap_or(Value::Null);
        status.insert("aggregatedStatus".to_owned(), items);
    }
    view["status"] = Value::Object(status);
    view
}

/// Clusters that a binding means.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Existing<'a> {
    /// Those that have its object: assigned, needed there by other bindings, or left other than directly. Sorted.
    pub dispatch_to: Vec<&'a str>,
    /// Those it leaves at once. Sorted.
    pub purge_directly: Vec<&'a str>,
}

/// The clusters that the specification of a binding (JSON) means.
pub fn existing_clusters(spec: &Value) -> Existing<'_> {
    let mut existing = Existing {
        dispatch_to: names(&spec["clusters"]),
        purge_directly: Vec::new(),
    };
    for required in spec["requiredBy"].as_array().into_iter().flatten() {
        existing.dispatch_to.extend(names(&required["clusters"]));
    }
    for task in spec["gracefulEvictionTasks"].as_array().into_iter().flatten() {
        let list = match task["purgeMode"].as_str() {
            Some("Directly" | "Immediately") => &mut existing.purge_directly,
            _ => &mut existing.dispatch_to,
        };
        list.extend(task["fromCluster"].as_str());
    }
    for list in [&mut existing.dispatch_to, &mut existing.purge_directly] {
        list.sort_unstable();
        list.dedup();
    }
    existing
}

fn names(clusters: &Value) -> Vec<&str> {
    clusters
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|entry| entry["name"].as_str())
        .collect()
}

fn scheduled(clusters: &[&str]) -> Condition {
    let (status, reason, message) = if clusters.is_empty() {
        (false, "NoClusterFit", "No cluster is assigned".to_owned())
    } else {
        (
            true,
            "Success",
            "Binding has been scheduled successfully.".to_owned(),
        )
    };
    Condition {
        of_type: "Scheduled",
        status,
        reason,
        message,
    }
}

fn has_condition(status: &Map<String, Value>, of_type: &str) -> bool {
    status
        .get("conditions")
        .and_then(Value::as_array)
        .is_some_and(|conditions| conditions.iter().any(|condition| condition["type"] == of_type))
}

/// When the condition last turned: applied everywhere since the last cluster was; not since the latest that is not.
fn transition(rows: &[WorkRow], applied: bool) -> Option<UnixSeconds> {
    let counts = |row: &&WorkRow| {
        applied
            || row
                .report
                .as_ref()
                .is_none_or(|report| report.applied != ApplyState::Applied)
    };
    rows.iter()
        .filter(counts)
        .map(|row| {
            row.report
                .as_ref()
                .map_or(row.created, |report| report.observed.max(row.created))
        })
        .max()
}

fn seen(report: &WorkReport) -> Seen {
    let applied = report.applied == ApplyState::Applied;
    Seen {
        applied,
        message: if applied { String::new() } else { said(report) },
        health: Some(match report.health {
            Health::Unknown => interpreter::Health::Unknown,
            Health::Healthy => interpreter::Health::Healthy,
            Health::Unhealthy => interpreter::Health::Unhealthy,
        }),
        status: report.status.clone(),
    }
}

fn said(report: &WorkReport) -> String {
    if report.message.is_empty() {
        report.reason.clone()
    } else {
        format!("{}: {}", report.reason, report.message)
    }
}

/// A Work made by a binding, from its row and its content.
pub fn work(row: &WorkRow, manifest: &Value) -> Value {
    let mut annotations = Map::new();
    let prefix = if row.binding_namespace.is_empty() {
        "clusterresourcebinding"
    } else {
        "resourcebinding"
    };
    if !row.binding_namespace.is_empty() {
        annotations.insert(
            format!("{prefix}.karmada.io/namespace"),
            json!(row.binding_namespace),
        );
    }
    annotations.insert(format!("{prefix}.karmada.io/name"), json!(row.binding));
    let resolution = if row.overwrites { "overwrite" } else { "abort" };
    annotations.insert(CONFLICT_RESOLUTION.to_owned(), json!(resolution));
    let labels: Map<String, Value> = row
        .labels
        .iter()
        .map(|(key, value)| (key.clone(), json!(value)))
        .collect();
    let shown = WorkMeta {
        name: &row.work,
        namespace: &naming::execution_namespace(&row.cluster),
        labels: &labels,
        annotations: &annotations,
        template_uid: &row.template_uid,
        template_generation: row.template_generation,
    };
    let manifest = shown.manifest(manifest);
    let mut metadata = json!({
        "name": row.work,
        "namespace": naming::execution_namespace(&row.cluster),
        "uid": row.uid,
        "generation": 1,
        "creationTimestamp": row.created.rfc3339(),
        "annotations": annotations,
    });
    if !row.labels.is_empty() {
        metadata["labels"] = json!(row.labels);
    }
    let mut spec = json!({"workload": {"manifests": [manifest]}});
    if row.suspended {
        spec["suspendDispatching"] = json!(true);
    }
    if row.preserved {
        spec["preserveResourcesOnDeletion"] = json!(true);
    }
    json!({
        "apiVersion": "work.karmada.io/v1alpha1",
        "kind": "Work",
        "metadata": metadata,
        "spec": spec,
        "status": work_status(row, &manifest),
    })
}

/// Annotation: what happens to a foreign object of the same name.
const CONFLICT_RESOLUTION: &str = "work.karmada.io/conflict-resolution";

/// What a Work says of itself, as far as its manifest repeats it.
#[derive(Debug, Clone, Copy)]
pub struct WorkMeta<'a> {
    /// Name of the Work.
    pub name: &'a str,
    /// Its execution namespace.
    pub namespace: &'a str,
    /// Its labels.
    pub labels: &'a Map<String, Value>,
    /// Its annotations.
    pub annotations: &'a Map<String, Value>,
    /// Uid of the template.
    pub template_uid: &'a str,
    /// Generation of the template; 0: it has none.
    pub template_generation: u64,
}

impl WorkMeta<'_> {
    /// The manifest as the reference's Works show it: with the bookkeeping that the agent puts on the object in its own
    /// way, and the list of what is managed. What is sent to the cluster has none of it.
    pub fn manifest(&self, content: &Value) -> Value {
        let mut manifest = content.clone();
        if !manifest["metadata"].is_object() {
            return manifest;
        }
        let member = |manifest: &mut Value, key: &str| -> Map<String, Value> {
            manifest["metadata"][key].as_object().cloned().unwrap_or_default()
        };
        let mut labels = member(&mut manifest, "labels");
        labels.insert("karmada.io/managed".to_owned(), json!("true"));
        for (key, value) in self.labels.iter().filter(|(key, _)| key.ends_with(PERMANENT_ID)) {
            labels.insert(key.clone(), value.clone());
        }
        let mut annotations = member(&mut manifest, "annotations");
        let mut set = |key: &str, value: Value| annotations.insert(key.to_owned(), value);
        set("work.karmada.io/name", json!(self.name));
        set("work.karmada.io/namespace", json!(self.namespace));
        if self.template_generation > 0 {
            set(
                "resourcetemplate.karmada.io/generation",
                json!(self.template_generation.to_string()),
            );
        }
        set("resourcetemplate.karmada.io/uid", json!(self.template_uid));
        for key in [
            CONFLICT_RESOLUTION,
            "resourcebinding.karmada.io/namespace",
            "resourcebinding.karmada.io/name",
            "clusterresourcebinding.karmada.io/name",
        ] {
            if let Some(value) = self.annotations.get(key) {
                set(key, value.clone());
            }
        }
        let listed = |map: &Map<String, Value>, further: &[&str]| {
            let mut keys: Vec<&str> = map
                .keys()
                .map(String::as_str)
                .chain(further.iter().copied())
                .collect();
            keys.sort_unstable();
            keys.dedup();
            json!(keys.join(","))
        };
        let managed = [MANAGED_ANNOTATIONS, MANAGED_LABELS];
        let of_labels = listed(&labels, &[]);
        let of_annotations = listed(&annotations, &managed);
        annotations.insert(MANAGED_LABELS.to_owned(), of_labels);
        annotations.insert(MANAGED_ANNOTATIONS.to_owned(), of_annotations);
        manifest["metadata"]["labels"] = Value::Object(labels);
        manifest["metadata"]["annotations"] = Value::Object(annotations);
        manifest
    }
}

/// End of the labels that carry ids.
const PERMANENT_ID: &str = ".karmada.io/permanent-id";
/// Annotation on a manifest: the labels that are managed, as a sorted list.
const MANAGED_LABELS: &str = "resourcetemplate.karmada.io/managed-labels";
/// The same for annotations.
const MANAGED_ANNOTATIONS: &str = "resourcetemplate.karmada.io/managed-annotations";

fn work_status(row: &WorkRow, manifest: &Value) -> Value {
    let mut status = Map::new();
    let dispatching = if row.suspended {
        Condition {
            of_type: "Dispatching",
            status: false,
            reason: "SuspendDispatching",
            message: "Work dispatching is in a suspended state.".to_owned(),
        }
    } else {
        Condition {
            of_type: "Dispatching",
            status: true,
            reason: "Dispatching",
            message: "Work is being dispatched to member clusters.".to_owned(),
        }
    };
    aggregate::put_condition(&mut status, &dispatching, &row.created.rfc3339());
    let Some(report) = &row.report else {
        return Value::Object(status);
    };
    let applied = match report.applied {
        ApplyState::Applied => Some(Condition {
            of_type: "Applied",
            status: true,
            reason: "AppliedSuccessful",
            message: "Manifest has been successfully applied".to_owned(),
        }),
        ApplyState::Failed => Some(Condition {
            of_type: "Applied",
            status: false,
            reason: "AppliedFailed",
            message: said(report),
        }),
        // Not tried: nothing is claimed.
        ApplyState::Pending | ApplyState::Suspended => None,
    };
    if let Some(applied) = applied {
        aggregate::put_condition(&mut status, &applied, &report.observed.rfc3339());
    }
    if report.applied == ApplyState::Applied {
        let (group, version) = group_and_version(manifest["apiVersion"].as_str().unwrap_or_default());
        let health = match report.health {
            Health::Unknown => "Unknown",
            Health::Healthy => "Healthy",
            Health::Unhealthy => "Unhealthy",
        };
        let mut item = json!({
            "identifier": {"ordinal": 0, "group": group, "version": version, "kind": row.key.kind,
                "resource": "", "namespace": row.key.namespace, "name": row.key.name},
            "health": health,
        });
        if let Some(reflected) = &report.status {
            item["status"] = reflected.clone();
        }
        status.insert("manifestStatuses".to_owned(), json!([item]));
    }
    Value::Object(status)
}

fn group_and_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// What is left to say of a Work that is gone: its name, uid and labels.
pub fn work_gone(row: &WorkRow) -> Value {
    let mut gone = work(row, &Value::Null);
    gone["spec"] = json!({"workload": {}});
    gone
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

#[cfg(test)]
mod tests {
    use super::*;

    const T0: UnixSeconds = UnixSeconds(1_700_000_000);

    fn row(cluster: &str, report: Option<WorkReport>) -> WorkRow {
        WorkRow {
            template_uid: "uid".to_owned(),
            template_generation: 1,
            overwrites: false,
            cluster: cluster.into(),
            work: "web-5bbdc6bf4d".into(),
            uid: "u".into(),
            key: ObjectKey::new("apps", "Deployment", "prod", "web"),
            binding_namespace: "prod".into(),
            binding: "web-deployment".into(),
            labels: BTreeMap::from([("l".into(), "v".into())]),
            suspended: false,
            preserved: false,
            created: T0,
            report,
        }
    }

    fn report(applied: ApplyState, at: i64) -> WorkReport {
        WorkReport {
            applied,
            health: Health::Healthy,
            reason: "Conflict".into(),
            message: "owned by kubectl".into(),
            status: Some(json!({"readyReplicas": 2})),
            observed: T0.plus(at),
        }
    }

    fn condition<'a>(view: &'a Value, of_type: &str) -> &'a Value {
        let conditions = view["status"]["conditions"].as_array().unwrap();
        conditions
            .iter()
            .find(|condition| condition["type"] == of_type)
            .unwrap_or(&Value::Null)
    }

    fn stored_binding() -> Value {
        json!({"metadata": {"name": "web-deployment", "creationTimestamp": T0.rfc3339()},
            "spec": {"clusters": [{"name": "a", "replicas": 2}, {"name": "b", "replicas": 1}]}})
    }

    #[test]
    fn a_binding_is_applied_when_every_cluster_is() {
        let rows = [
            row("a", Some(report(ApplyState::Applied, 10))),
            row("b", Some(report(ApplyState::Failed, 20))),
        ];
        let view = binding(&stored_binding(), &rows);
        assert_eq!(condition(&view, "Scheduled")["status"], "True");
        let applied = condition(&view, "FullyApplied");
        assert_eq!(
            (&applied["status"], &applied["reason"]),
            (&json!("False"), &json!("FullyAppliedFailed"))
        );
        assert_eq!(applied["lastTransitionTime"], T0.plus(20).rfc3339());
        assert_eq!(
            view["status"]["aggregatedStatus"],
            json!([
                {"clusterName": "a", "status": {"readyReplicas": 2}, "applied": true, "health": "Healthy"},
                {"clusterName": "b", "appliedMessage": "Conflict: owned by kubectl", "health": "Unknown"},
            ])
        );
        let rows = [
            row("a", Some(report(ApplyState::Applied, 10))),
            row("b", Some(report(ApplyState::Applied, 30))),
        ];
        let view = binding(&stored_binding(), &rows);
        let applied = condition(&view, "FullyApplied");
        assert_eq!(
            (&applied["status"], &applied["reason"]),
            (&json!("True"), &json!("FullyAppliedSuccess"))
        );
        assert_eq!(applied["lastTransitionTime"], T0.plus(30).rfc3339());
        assert_eq!(binding(&view, &rows), view, "reading changes nothing");
    }

    #[test]
    fn what_the_planner_stored_of_a_binding_stays() {
        let mut stored = stored_binding();
        stored["spec"]["clusters"] = json!([]);
        stored["status"] = json!({"schedulerObservedGeneration": 3, "conditions": [
            {"type": "Scheduled", "status": "False", "reason": "NoClusterFit", "message": "0/3 clusters",
             "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
        let view = binding(&stored, &[]);
        assert_eq!(condition(&view, "Scheduled")["message"], "0/3 clusters");
        assert_eq!(view["status"]["schedulerObservedGeneration"], 3);
        assert_eq!(condition(&view, "FullyApplied")["status"], "False");
        assert_eq!(view["status"].get("aggregatedStatus"), None);
    }

    #[test]
    fn a_work_shows_manifest_conditions_and_status() {
        let manifest = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
        let view = work(&row("a", Some(report(ApplyState::Applied, 10))), &manifest);
        assert_eq!(view["metadata"]["namespace"], "karmada-es-a");
        assert_eq!(
            view["metadata"]["annotations"]["resourcebinding.karmada.io/name"],
            "web-deployment"
        );
        assert_eq!(view["spec"]["workload"]["manifests"], json!([manifest]));
        assert_eq!(condition(&view, "Applied")["reason"], "AppliedSuccessful");
        let item = &view["status"]["manifestStatuses"][0];
        assert_eq!(
            (&item["identifier"]["group"], &item["identifier"]["version"]),
            (&json!("apps"), &json!("v1"))
        );
        assert_eq!(
            (&item["health"], &item["status"]["readyReplicas"]),
            (&json!("Healthy"), &json!(2))
        );

        let failed = work(&row("a", Some(report(ApplyState::Failed, 10))), &manifest);
        assert_eq!(
            condition(&failed, "Applied")["message"],
            "Conflict: owned by kubectl"
        );
        assert_eq!(failed["status"].get("manifestStatuses"), None);
        let waiting = work(&row("a", None), &manifest);
        assert_eq!(
            condition(&waiting, "Applied"),
            &Value::Null,
            "nothing is claimed before the agent spoke"
        );
        let held = work(
            &WorkRow {
                suspended: true,
                preserved: true,
                ..row("a", None)
            },
            &manifest,
        );
        assert_eq!(condition(&held, "Dispatching")["status"], "False");
        assert_eq!(held["spec"]["suspendDispatching"], true);
        assert_eq!(held["spec"]["preserveResourcesOnDeletion"], true);
        assert_eq!(work_gone(&row("a", None))["metadata"], waiting["metadata"]);
    }

    #[test]
    fn a_cluster_shows_facts_and_keeps_foreign_conditions() {
        let stored = json!({"metadata": {"name": "a", "creationTimestamp": T0.rfc3339()}, "spec": {},
            "status": {"conditions": [{"type": "NetworkReady", "status": "True"}]}});
        let fresh = cluster(&stored, None);
        assert_eq!(condition(&fresh, "Ready")["reason"], "ClusterStatusNeverUpdated");
        let facts = ClusterRow {
            kubernetes_version: "v1.36.0".into(),
            ready: Some(("True".into(), "ClusterReady".into(), "ok".into(), T0)),
            capacity: Some(Capacity {
                nodes_total: 3,
                nodes_ready: 2,
                allocatable: BTreeMap::from([("cpu".into(), "12".into())]),
                ..Capacity::default()
            }),
            last_seen: Some(T0.plus(9)),
            behind: Some(41),
            held: vec![],
        };
        let view = cluster(&stored, Some(&facts));
        assert_eq!(view["status"]["kubernetesVersion"], "v1.36.0");
        assert_eq!(
            view["status"]["nodeSummary"],
            json!({"totalNum": 3, "readyNum": 2})
        );
        assert_eq!(
            view["status"]["resourceSummary"],
            json!({"allocatable": {"cpu": "12"}})
        );
        assert_eq!(condition(&view, "NetworkReady")["status"], "True");
        assert_eq!(condition(&view, "Ready")["lastTransitionTime"], T0.rfc3339());
        assert_eq!(condition(&view, "HubBehind")["status"], "True");
        assert_eq!(view["metadata"]["annotations"][LAST_SEEN], T0.plus(9).rfc3339());
        assert_eq!(cluster(&view, Some(&facts)), view, "reading changes nothing");
    }

    #[test]
    fn uids_look_like_uuids_and_differ() {
        let fleet = FleetId([7; 16]);
        let one = uid(fleet, "work", "1");
        assert_eq!(one.len(), 36);
        assert_eq!(one.as_bytes()[14], b'8');
        assert_ne!(one, uid(fleet, "work", "2"));
        assert_ne!(one, uid(fleet, "namespace", "1"));
        let namespace = execution_namespace(fleet, &json!({"metadata": {"name": "a", "uid": "x"}})).unwrap();
        assert_eq!(namespace["metadata"]["name"], "karmada-es-a");
        assert_eq!(namespace["metadata"]["labels"]["karmada.io/system"], "true");
    }
}
