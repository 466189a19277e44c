//! Taints that follow from conditions: those of the hub itself, and those of ClusterTaintPolicy objects.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use shared::time::UnixSeconds;

use crate::affinity;
use crate::cluster::{Cluster, Taint};
use crate::liveness::Ready;
use crate::policy::ClusterAffinity;

/// Taint of a cluster whose API is not healthy, or that was never heard of.
pub const NOT_READY: &str = "cluster.karmada.io/not-ready";
/// Taint of a cluster that is silent.
pub const UNREACHABLE: &str = "cluster.karmada.io/unreachable";

/// The taints of a cluster, by its condition Ready (`None`: it has none yet): nothing new goes to one that is not ready,
/// and what is there stays.
pub fn by_readiness(ready: Option<Ready>, taints: &[Taint], now: UnixSeconds) -> Vec<Taint> {
    let wanted = match ready {
        Some(Ready::True) => None,
        Some(Ready::Unknown) => Some(UNREACHABLE),
        Some(Ready::False) | None => Some(NOT_READY),
    };
    let ours =
        |taint: &Taint| taint.effect == "NoSchedule" && matches!(taint.key.as_str(), NOT_READY | UNREACHABLE);
    let mut result: Vec<Taint> = taints
        .iter()
        .filter(|taint| !ours(taint) || Some(taint.key.as_str()) == wanted)
        .cloned()
        .collect();
    if let Some(key) = wanted
        && !result.iter().any(ours)
    {
        result.push(Taint {
            key: key.to_owned(),
            effect: "NoSchedule".to_owned(),
            added: Some(now),
            ..Taint::default()
        });
    }
    result
}

/// A ClusterTaintPolicy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaintPolicy {
    /// Its name.
    pub name: String,
    /// When it was made, RFC 3339; older ones act first.
    pub created: String,
    /// What it says.
    pub spec: TaintPolicySpec,
}

/// Specification of a ClusterTaintPolicy.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaintPolicySpec {
    /// The clusters it is for; absent: all.
    pub target_clusters: Option<ClusterAffinity>,
    /// The taints it puts on and takes off.
    pub taints: Vec<PolicyTaint>,
    /// All must hold for the taints to be put on; none: never.
    pub add_on_conditions: Vec<MatchCondition>,
    /// All must hold for the taints to be taken off; none: never.
    pub remove_on_conditions: Vec<MatchCondition>,
}

/// A taint of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PolicyTaint {
    /// Key.
    pub key: String,
    /// Value.
    pub value: String,
    /// Effect.
    pub effect: String,
}

/// A condition of the cluster and the statuses it may have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MatchCondition {
    /// Type of the condition.
    pub condition_type: String,
    /// `In` or `NotIn`.
    pub operator: String,
    /// Statuses.
    pub status_values: Vec<String>,
}

impl TaintPolicy {
    /// Reads a stored object.
    ///
    /// # Errors
    /// It does not have the shape of the API.
    pub fn read(object: &Value) -> Result<Self, serde_json::Error> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(Self {
            name: text(&object["metadata"]["name"]),
            created: text(&object["metadata"]["creationTimestamp"]),
            spec: TaintPolicySpec::deserialize(&object["spec"])?,
        })
    }
}

/// The taints of a cluster after all policies acted on them, oldest first. A policy first adds, then removes; a taint is
/// the same if key and effect are.
pub fn by_policies(
    cluster: &Cluster,
    conditions: &BTreeMap<String, String>,
    policies: &[TaintPolicy],
    now: UnixSeconds,
) -> Vec<Taint> {
    let mut ordered: Vec<&TaintPolicy> = policies.iter().collect();
    ordered.sort_by(|a, b| (&a.created, &a.name).cmp(&(&b.created, &b.name)));
    let mut taints = cluster.taints.clone();
    for policy in ordered {
        let spec = &policy.spec;
        let concerned = spec
            .target_clusters
            .as_ref()
            .is_none_or(|target| affinity::matches(cluster, target));
        if !concerned {
            continue;
        }
        if all_hold(&spec.add_on_conditions, conditions) {
            for taint in &spec.taints {
                if !taints.iter().any(|known| is_same(known, taint)) {
                    taints.push(Taint {
                        key: taint.key.clone(),
                        value: taint.value.clone(),
                        effect: taint.effect.clone(),
                        added: Some(now),
                    });
                }
            }
        }
        if all_hold(&spec.remove_on_conditions, conditions) {
            taints.retain(|known| !spec.taints.iter().any(|taint| is_same(known, taint)));
        }
    }
    taints
}

fn is_same(known: &Taint, taint: &PolicyTaint) -> bool {
    known.key == taint.key && known.effect == taint.effect
}

/// An empty list never holds, nor does a condition the cluster does not have or an operator nobody knows.
fn all_hold(wanted: &[MatchCondition], conditions: &BTreeMap<String, String>) -> bool {
    let holds = |one: &MatchCondition| {
        let Some(status) = conditions.get(&one.condition_type) else {
            return false;
        };
        let listed = one.status_values.contains(status);
        match one.operator.as_str() {
            "In" => listed,
            "NotIn" => !listed,
            _ => false,
        }
    };
    !wanted.is_empty() && wanted.iter().all(holds)
}
