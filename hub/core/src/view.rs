//! Views: objects of the Karmada groups that are not stored as such, built at read time from rows.
//!
//! Shapes and words are the reference's (karmada-api.md sections 1.3 to 1.5, 2.7, 2.8). Rows in, JSON out; equal
//! rows give equal JSON, times included, so a view does not change by being read.

mod cluster;
mod held;
mod work;

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};
use shared::ids::{FleetId, ObjectKey};
use shared::time::UnixSeconds;
use shared::wire::{ApplyState, Health};

use crate::aggregate::{self, Condition, Seen, Target};

pub use cluster::{ClusterRow, LAST_SEEN, cluster, execution_namespace};
pub use held::{HeldRow, words as held_words};
pub use work::{WorkMeta, work, work_gone};

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

#[cfg(test)]
mod tests;
