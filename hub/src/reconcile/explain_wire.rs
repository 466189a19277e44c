//! An explanation as it goes over the wire: decisions first, then the state of each cluster in one word.

use hub_core::explain::{Claim, Explanation};
use shared::ids::ObjectKey;
use shared::reason::{Code, Reason};

use crate::fleet::wire;

impl From<Explanation> for wire::Explanation {
    fn from(explained: Explanation) -> Self {
        let group = shared::object::split_api_version(&explained.api_version).0;
        let key = ObjectKey::new(group, &explained.kind, &explained.namespace, &explained.name);
        let mut decisions = Vec::new();
        let mut decide_in = |reason: &Code, cluster: Option<&String>, message: String| {
            decisions.push(wire::Decision {
                reason: reason.to_string(),
                cluster: cluster.cloned(),
                message,
            });
        };
        let mut decide = |reason: &Code, message: String| decide_in(reason, None, message);
        match &explained.claim {
            Claim::Policy { policy, why, others } => {
                decide(
                    &Reason::Scheduled.into(),
                    format!("{policy} decides where it goes: {why}"),
                );
                for other in others {
                    decide(&Reason::PolicyConflict.into(), format!("passed over: {other}"));
                }
            }
            Claim::Holds { objects } if objects.is_empty() => {
                decide(&Reason::MatchesNothing.into(), "it holds no object".to_owned());
            }
            Claim::Holds { objects } => decide(
                &Reason::Scheduled.into(),
                format!("it holds {} objects: {}", objects.len(), objects.join(", ")),
            ),
            Claim::Nobody { reason, message } => decide(reason, message.clone()),
        }
        for note in &explained.notes {
            decide_in(&note.reason, note.cluster.as_ref(), note.message.clone());
        }
        let clusters = explained.clusters.into_iter().map(|state| {
            let mut message = state.message;
            if let Some(replicas) = state.replicas {
                message = format!("{replicas} replicas; {message}");
            }
            wire::ClusterState {
                cluster: state.cluster,
                state: word(&state.reason, state.leaving).to_owned(),
                reason: state.reason.to_string(),
                message,
                age_seconds: state.age_s.and_then(|age| i64::try_from(age).ok()),
                at_least: state.age_is_lower_bound,
            }
        });
        Self {
            object: key.to_string(),
            decisions,
            clusters: clusters.collect(),
            policies: explained.policies,
            groups: explained.groups,
            placement: explained.placement,
        }
    }
}

/// The state in one word.
fn word(reason: &Code, leaving: bool) -> &'static str {
    match reason.known() {
        _ if leaving => "Leaving",
        Some(Reason::Applied | Reason::Healthy) => "Applied",
        Some(Reason::Unhealthy) => "Unhealthy",
        Some(Reason::Silent) => "Silent",
        Some(Reason::HubBehind) => "HubBehind",
        Some(Reason::Revoked) => "Revoked",
        Some(Reason::Suspended) => "Suspended",
        Some(Reason::Conflict) => "Conflict",
        Some(reason) if reason.retryable() => "Waiting",
        _ => "Failed",
    }
}
