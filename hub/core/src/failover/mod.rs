//! Failover as pure decisions: which copies are moved away, when, and what becomes of the old ones.
//!
//! Nothing here acts. Moving away means: the cluster leaves the assignment of a binding and an eviction task takes its
//! place ([`tasks`]); the filter `ClusterEviction` keeps the scheduler from choosing it again, and the old copy stays until
//! the task ends. What starts it is a taint that is not tolerated ([`taints`]) or a copy that stays unhealthy
//! ([`application`]). Taints come from people, from conditions ([`taint_rules`]) and from taint policies.
//! Source of rules, numbers and words: the reference's failover controllers.

pub mod application;
pub mod preserve;
pub mod step;
pub mod taint_rules;
pub mod taints;
pub mod tasks;

use serde::{Deserialize, Serialize};

pub use tasks::EvictionTask;

/// What becomes of the old copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PurgeMode {
    /// It goes before the new one starts.
    #[serde(alias = "Immediately")]
    Directly,
    /// It goes when the new one is healthy, or after the grace period.
    #[default]
    #[serde(alias = "Graciously")]
    Gracefully,
    /// It stays until a person decides.
    Never,
}

impl PurgeMode {
    /// Reads the word of the API; `Immediately` and `Graciously` are other words for the first two, since articles use
    /// them. Anything else, also nothing, is none.
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "Directly" | "Immediately" => Self::Directly,
            "Gracefully" | "Graciously" => Self::Gracefully,
            "Never" => Self::Never,
            _ => return None,
        })
    }
}

/// `spec.failover` of a policy or binding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Failover {
    /// Moves copies that stay unhealthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<ApplicationFailover>,
    /// Says how copies leave a cluster with a taint that is not tolerated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterFailover>,
}

/// `spec.failover.application`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationFailover {
    /// When a copy is given up.
    #[serde(default)]
    pub decision_conditions: DecisionConditions,
    /// What becomes of the old copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purge_mode: Option<PurgeMode>,
    /// How long the old copy may stay, in seconds; only with Gracefully.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i64>,
    /// What is carried over to the new copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_preservation: Option<StatePreservation>,
}

/// `spec.failover.application.decisionConditions`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionConditions {
    /// How long a copy may be unhealthy, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

/// `spec.failover.cluster`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterFailover {
    /// What becomes of the old copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purge_mode: Option<PurgeMode>,
    /// What is carried over to the new copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_preservation: Option<StatePreservation>,
}

/// What of the old copy's status becomes labels of the new one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatePreservation {
    /// One label each.
    #[serde(default)]
    pub rules: Vec<PreservationRule>,
}

/// A label made from the old copy's status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PreservationRule {
    /// Key of the label.
    pub alias_label_name: String,
    /// Where in the status the value is, as a JSONPath template.
    pub json_path: String,
}

/// What one cluster reported of its copy, as far as failover looks at it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CopyState<'a> {
    /// The cluster.
    pub cluster: &'a str,
    /// `Healthy`, `Unhealthy`, `Unknown` or nothing.
    pub health: &'a str,
    /// Reflected status; `None`: none collected yet.
    pub status: Option<&'a serde_json::Value>,
}

/// How copies leave a cluster with a taint that is not tolerated: what the policy says, else the hub's own setting, else
/// Gracefully. A policy that names cluster failover without a mode means Gracefully.
pub fn purge_mode(failover: Option<&Failover>, global: Option<PurgeMode>) -> PurgeMode {
    match failover.and_then(|failover| failover.cluster.as_ref()) {
        Some(cluster) => cluster.purge_mode.unwrap_or_default(),
        None => global.unwrap_or_default(),
    }
}

/// Copies that taints drive away per second, if nobody says otherwise (the reference's `--resource-eviction-rate`).
pub const EVICTION_RATE: f64 = 0.5;

/// Milliseconds between two evictions at a rate per second. A rate of 0 is nearly a standstill: one in half an hour.
pub fn eviction_delay(rate_per_second: f64) -> u64 {
    const STANDSTILL: u64 = 1_800_000;
    if rate_per_second > 0.0 {
        ((1_000.0 / rate_per_second) as u64).min(STANDSTILL)
    } else {
        STANDSTILL
    }
}
