//! Taints with effect NoExecute: which bindings they drive away, and when.

use shared::time::UnixSeconds;

use super::{CopyState, EvictionTask, Failover, PurgeMode, preserve, purge_mode};
use crate::cluster::Taint;
use crate::divide::Share;
use crate::policy::{Placement, Toleration};

/// Who evicts because of taints, as the reference names it.
pub const PRODUCER: &str = "TaintManager";
/// Why, as the reference names it.
pub const REASON: &str = "TaintUntolerated";

/// When a taint drives a binding away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// At once.
    Now,
    /// After so many seconds, more than 0.
    After(i64),
    /// Not at all.
    Never,
}

/// The placement noted on the binding is missing or cannot be read, so nobody knows what it tolerates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the binding names no readable placement that it was scheduled by; schedule it again")]
pub struct NoPlacement;

/// The tolerations that cover the taints, the first for each; `None`: one taint is covered by none.
pub fn matching_tolerations<'t>(
    taints: &[&Taint],
    tolerations: &'t [Toleration],
) -> Option<Vec<&'t Toleration>> {
    taints
        .iter()
        .map(|taint| tolerations.iter().find(|toleration| toleration.tolerates(taint)))
        .collect()
}

/// When taints that are all tolerated, by these tolerations, drive a binding away: the earliest end of a toleration with
/// an end. A taint that does not say since when it is there counts from now.
pub fn tolerated_until(taints: &[&Taint], used: &[&Toleration], now: UnixSeconds) -> Eviction {
    if taints.is_empty() {
        return Eviction::Never;
    }
    if used.is_empty() {
        return Eviction::Now;
    }
    let ends = taints.iter().flat_map(|taint| {
        used.iter()
            .filter(|toleration| toleration.tolerates(taint))
            .filter_map(|toleration| {
                Some(
                    taint
                        .added
                        .unwrap_or(now)
                        .0
                        .saturating_add(toleration.toleration_seconds?),
                )
            })
    });
    match ends.min().map(|end| end.saturating_sub(now.0)) {
        None => Eviction::Never,
        Some(seconds) if seconds > 0 => Eviction::After(seconds),
        Some(_) => Eviction::Now,
    }
}

/// When the taints of a cluster drive a binding away. `applied`: the placement noted on the binding, as JSON, since that is
/// what it was scheduled by.
///
/// # Errors
/// There are taints, and no placement that says what is tolerated.
pub fn eviction(taints: &[Taint], applied: Option<&str>, now: UnixSeconds) -> Result<Eviction, NoPlacement> {
    let driving: Vec<&Taint> = taints
        .iter()
        .filter(|taint| taint.effect == "NoExecute")
        .collect();
    if driving.is_empty() {
        return Ok(Eviction::Never);
    }
    let placement: Placement = serde_json::from_str(applied.ok_or(NoPlacement)?).map_err(|_| NoPlacement)?;
    Ok(
        match matching_tolerations(&driving, &placement.cluster_tolerations) {
            None => Eviction::Now,
            Some(used) => tolerated_until(&driving, &used, now),
        },
    )
}

/// When to look at a binding after its cluster got taints. One without a readable placement is looked at once: whoever
/// looks says what is wrong.
pub fn look_again(taints: &[Taint], applied: Option<&str>, now: UnixSeconds) -> Eviction {
    eviction(taints, applied, now).unwrap_or(Eviction::Now)
}

/// Moves a binding away from a cluster because of a taint. `global` is the hub's own purge mode. The state of the old copy
/// is carried over where the policy says so.
///
/// # Errors
/// The state that the policy names cannot be read; nothing is moved then.
pub fn evict(
    clusters: &mut Vec<Share>,
    tasks: &mut Vec<EvictionTask>,
    cluster: &str,
    failover: Option<&Failover>,
    global: Option<PurgeMode>,
    copies: &[CopyState<'_>],
) -> Result<(), preserve::StateUnreadable> {
    let rules = failover
        .and_then(|failover| failover.cluster.as_ref())
        .and_then(|cluster| cluster.state_preservation.as_ref());
    let preserved_label_state = match rules {
        Some(preservation) => preserve::of_copy(&preservation.rules, cluster, copies)?,
        None => Default::default(),
    };
    let task = EvictionTask {
        from_cluster: cluster.to_owned(),
        purge_mode: Some(purge_mode(failover, global)),
        reason: REASON.to_owned(),
        producer: PRODUCER.to_owned(),
        preserved_label_state,
        ..EvictionTask::default()
    };
    super::tasks::evict(clusters, tasks, task);
    Ok(())
}
