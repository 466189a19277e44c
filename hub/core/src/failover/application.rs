//! Copies that stay unhealthy, and moving them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::preserve::{self, StateUnreadable};
use super::{ApplicationFailover, CopyState, EvictionTask, PurgeMode};
use crate::divide::Share;

/// Why, as the reference names it.
pub const REASON: &str = "ApplicationFailure";
/// How long a copy may be unhealthy if the policy does not say, in seconds.
pub const TOLERATION_S: i64 = 300;

/// Who evicts, as the reference names it, for a binding in a namespace or without one.
pub fn producer(namespaced: bool) -> &'static str {
    if namespaced {
        "resource-binding-application-failover-controller"
    } else {
        "cluster-resource-binding-application-failover-controller"
    }
}

/// Is a binding watched? It names application failover, its dependencies travel with it, something was reported, and
/// health of its kind can be told (`health_is_known`). The hub itself writes `propagateDeps` on a binding whose policy
/// names application failover.
pub fn is_watched(binding: &Value, health_is_known: impl FnOnce(&str, &str) -> bool) -> bool {
    let spec = &binding["spec"];
    let reported = binding["status"]["aggregatedStatus"]
        .as_array()
        .is_some_and(|items| !items.is_empty());
    let text = |key: &str| spec["resource"][key].as_str().unwrap_or_default();
    let readable = text("apiVersion").matches('/').count() <= 1;
    spec["failover"]["application"].is_object()
        && spec["propagateDeps"] == true
        && reported
        && readable
        && health_is_known(text("apiVersion"), text("kind"))
}

/// Clusters whose copy is unhealthy, and the others. What is being moved away already counts as neither.
pub fn unhealthy<'a>(tasks: &[EvictionTask], copies: &[CopyState<'a>]) -> (Vec<&'a str>, Vec<&'a str>) {
    let (bad, rest): (Vec<_>, Vec<_>) = copies.iter().partition(|copy| copy.health == "Unhealthy");
    let leaving = |cluster: &str| tasks.iter().any(|task| task.from_cluster == cluster);
    let names = |copies: Vec<&CopyState<'a>>| copies.iter().map(|copy| copy.cluster).collect::<Vec<_>>();
    let bad = names(bad)
        .into_iter()
        .filter(|cluster| !leaving(cluster))
        .collect();
    (bad, names(rest))
}

/// Which unhealthy clusters are given up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detected {
    /// They were unhealthy for too long.
    pub evict: Vec<String>,
    /// Seconds until the next is; `None`: there is none.
    pub look_again_s: Option<i64>,
}

/// Compares how long clusters have been unhealthy (in seconds; absent: since now) with what is tolerated.
pub fn detect(unhealthy: &[&str], since_s: &BTreeMap<String, i64>, tolerated_s: i64) -> Detected {
    let mut detected = Detected::default();
    for cluster in unhealthy {
        let left = tolerated_s.saturating_sub(since_s.get(*cluster).copied().unwrap_or(0));
        if left <= 0 {
            detected.evict.push((*cluster).to_owned());
        } else {
            detected.look_again_s = Some(detected.look_again_s.map_or(left, |known| known.min(left)));
        }
    }
    detected
}

/// Moves a binding away from clusters whose copy was given up, as its policy says.
///
/// # Errors
/// The state that the policy names cannot be read; nothing is moved then, and the next look tries again.
pub fn evict(
    clusters: &mut Vec<Share>,
    tasks: &mut Vec<EvictionTask>,
    given_up: &[String],
    failover: &ApplicationFailover,
    copies: &[CopyState<'_>],
    namespaced: bool,
) -> Result<(), StateUnreadable> {
    let before: Vec<String> = clusters.iter().map(|share| share.cluster.clone()).collect();
    let mode = failover.purge_mode.unwrap_or_default();
    let mut new = Vec::new();
    for cluster in given_up {
        let mut task = EvictionTask {
            from_cluster: cluster.clone(),
            purge_mode: Some(mode),
            reason: REASON.to_owned(),
            producer: producer(namespaced).to_owned(),
            grace_period_seconds: failover
                .grace_period_seconds
                .filter(|_| mode == PurgeMode::Gracefully),
            suppress_deletion: (mode == PurgeMode::Never).then_some(true),
            ..EvictionTask::default()
        };
        if let Some(preservation) = &failover.state_preservation {
            task.preserved_label_state = preserve::of_copy(&preservation.rules, cluster, copies)?;
            task.clusters_before_failover.clone_from(&before);
        }
        new.push(task);
    }
    for task in new {
        super::tasks::evict(clusters, tasks, task);
    }
    Ok(())
}
