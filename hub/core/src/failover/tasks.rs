//! Eviction tasks: how a cluster leaves an assignment, and when its old copy may go.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use shared::time::UnixSeconds;

use super::{CopyState, PurgeMode};
use crate::divide::Share;

/// An entry of `spec.gracefulEvictionTasks`: the object is being moved away from a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvictionTask {
    /// The cluster it leaves.
    #[serde(default)]
    pub from_cluster: String,
    /// What becomes of the old copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purge_mode: Option<PurgeMode>,
    /// Replicas it had there, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
    /// Why, in one word.
    #[serde(default)]
    pub reason: String,
    /// Why, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Who decided.
    #[serde(default)]
    pub producer: String,
    /// How long the old copy may stay, in seconds; absent: the hub's own setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i64>,
    /// `true`: the old copy stays until a person decides; `false`: that person has decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppress_deletion: Option<bool>,
    /// Labels for the new copy, taken from the old one's status.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub preserved_label_state: BTreeMap<String, String>,
    /// When the clock of the task started, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<String>,
    /// Where the object was before it moved; only kept with preserved labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters_before_failover: Vec<String>,
}

/// Moves a cluster from the assignment to an eviction task, with the replicas it had. Nothing happens if it is not
/// assigned; a task that is already there stays as it was.
pub fn evict(clusters: &mut Vec<Share>, tasks: &mut Vec<EvictionTask>, task: EvictionTask) {
    let Some(at) = clusters
        .iter()
        .position(|share| share.cluster == task.from_cluster)
    else {
        return;
    };
    let held = clusters.remove(at);
    if tasks.iter().any(|known| known.from_cluster == task.from_cluster) {
        return;
    }
    tasks.push(EvictionTask {
        replicas: (held.replicas > 0).then_some(held.replicas),
        ..task
    });
}

/// What becomes of tasks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assessed {
    /// They go on; new ones have got their time of creation.
    pub kept: Vec<EvictionTask>,
    /// Clusters whose old copy may go now.
    pub evicted: Vec<String>,
}

/// Is the new result healthy? Every assigned cluster reports so, and the assignment is the newest one.
pub fn new_result_is_healthy(is_scheduled: bool, clusters: &[Share], copies: &[CopyState<'_>]) -> bool {
    let healthy = |share: &Share| {
        copies
            .iter()
            .any(|copy| copy.cluster == share.cluster && copy.health == "Healthy")
    };
    is_scheduled && clusters.iter().all(healthy)
}

/// Ends the tasks whose time is over, or whose replacement is healthy. A new task gets its time of creation and stays.
pub fn assess(tasks: &[EvictionTask], timeout_s: i64, replaced: bool, now: UnixSeconds) -> Assessed {
    let mut assessed = Assessed::default();
    for task in tasks {
        let Some(age) = age(task, now) else {
            assessed.kept.push(EvictionTask {
                creation_timestamp: Some(now.rfc3339()),
                ..task.clone()
            });
            continue;
        };
        let is_over = match task.suppress_deletion {
            Some(suppressed) => !suppressed,
            None => replaced || age >= task.grace_period_seconds.unwrap_or(timeout_s),
        };
        if is_over {
            assessed.evicted.push(task.from_cluster.clone());
        } else {
            assessed.kept.push(task.clone());
        }
    }
    assessed
}

/// Seconds until the first task ends by itself, negative if it is overdue; `None`: none does.
pub fn next_end(tasks: &[EvictionTask], timeout_s: i64, now: UnixSeconds) -> Option<i64> {
    tasks
        .iter()
        .filter(|task| task.suppress_deletion.is_none())
        .map(|task| {
            let lasts = task.grace_period_seconds.unwrap_or(timeout_s);
            lasts.saturating_sub(age(task, now).unwrap_or(0))
        })
        .min()
}

/// Seconds since the task was made; `None`: its clock has not started.
fn age(task: &EvictionTask, now: UnixSeconds) -> Option<i64> {
    let created = UnixSeconds::parse_rfc3339(task.creation_timestamp.as_deref()?)?;
    Some(now.0.saturating_sub(created.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_task_is_kept_or_ended_and_none_is_lost(
            tasks in prop::collection::vec((0_i64..900, prop::option::of(any::<bool>()), prop::option::of(0_i64..900)), 0..6),
            replaced in any::<bool>(),
        ) {
            let now = UnixSeconds(1_800_000_000);
            let tasks: Vec<EvictionTask> = tasks.into_iter().enumerate().map(|(at, (age, suppress_deletion, grace_period_seconds))| EvictionTask {
                from_cluster: format!("m{at}"), suppress_deletion, grace_period_seconds,
                creation_timestamp: Some(UnixSeconds(now.0 - age).rfc3339()), ..EvictionTask::default()
            }).collect();
            let assessed = assess(&tasks, 600, replaced, now);
            prop_assert_eq!(assessed.kept.len() + assessed.evicted.len(), tasks.len());
            // what a person holds back stays, whatever else is true
            prop_assert!(tasks.iter().filter(|task| task.suppress_deletion == Some(true)).all(|task| assessed.kept.contains(task)));
            // looking again at the time named finds at least one that ends
            if let Some(wait) = next_end(&assessed.kept, 600, now) {
                prop_assert!(wait > 0);
                prop_assert!(!assess(&assessed.kept, 600, false, UnixSeconds(now.0 + wait)).evicted.is_empty());
            }
        }
    }
}
