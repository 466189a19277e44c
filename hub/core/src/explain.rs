//! `pinnace why KIND/NAME`: facts in, an ordered explanation out.
//!
//! Every target has one state with a stable reason code, a message and an age; the worst come first. How clusters were
//! judged is what the planner wrote down while it decided.

mod judged;
mod state;

use shared::reason::Code;

pub use judged::{GroupVerdict, PolicyVerdict, Unit, Verdict, groups, lines, occasion, verdicts};
pub use state::{ClusterState, ReportFacts, TargetFacts, sort, state};

/// Everything known about one template.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// API version of the template.
    pub api_version: String,
    /// Kind of the template.
    pub kind: String,
    /// Namespace; empty for cluster-scoped ones.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Its generation on the hub.
    pub generation: i64,
    /// Who decides where it goes.
    pub claim: Claim,
    /// Name of the binding, once there is one.
    pub binding: Option<String>,
    /// What holds for the template as a whole, such as a failed override.
    pub notes: Vec<Note>,
    /// Policies in reach, and why each holds it or not.
    pub policies: Vec<PolicyVerdict>,
    /// Affinity groups: which one is used, and why others are not.
    pub groups: Vec<GroupVerdict>,
    /// How every cluster was judged, by name; empty if no policy holds it.
    pub placement: Vec<Verdict>,
    /// One per target cluster, and one per cluster from which it is being removed.
    pub clusters: Vec<ClusterState>,
}

/// Who decides where a template goes.
#[derive(Debug, Clone, PartialEq)]
pub enum Claim {
    /// A policy claimed it.
    Policy {
        /// `PropagationPolicy prod/web` or `ClusterPropagationPolicy web`.
        policy: String,
        /// Why this one, in words.
        why: String,
        /// Others that match too and lost, or that held it, with the rule that decided.
        others: Vec<String>,
    },
    /// It is a policy itself.
    Holds {
        /// What it holds, sorted.
        objects: Vec<String>,
    },
    /// None did.
    Nobody {
        /// Why.
        reason: Code,
        /// For people.
        message: String,
    },
}

/// A reason with its message.
#[derive(Debug, Clone, PartialEq)]
pub struct Note {
    /// Stable code.
    pub reason: Code,
    /// The cluster it is about, if it is about one.
    pub cluster: Option<String>,
    /// For people.
    pub message: String,
}

/// Seconds in the short form kubectl uses.
pub fn duration(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds}s"),
        120..=7_199 => format!("{}m", seconds / 60),
        7_200..=172_799 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}
