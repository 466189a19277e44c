//! When a binding is scheduled again. What is placed stays where it is unless there is a reason: the policy changed what
//! it says about placement, the replicas changed, somebody asked for it, or a target is going away.
//!
//! Workloads that are divided are left alone otherwise; objects that go to every cluster are looked at each time, so that
//! a cluster that joins gets its copy.

use super::{Strategy, component, strategy};
use crate::cluster::Cluster;
use crate::divide::Share;
use crate::fleet::Fleet;
use crate::policy::Placement;

/// Why a binding is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// It was never scheduled, or its policy says something else now.
    PlacementChanged,
    /// What it wants in all is not what it has.
    ReplicasChanged,
    /// Somebody asked for a new start.
    Asked,
    /// Every candidate gets a copy, so it is looked at each time.
    Everywhere,
    /// A target is being removed, or is gone.
    TargetLeaves,
}

impl Trigger {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::PlacementChanged => "the placement is new",
            Self::ReplicasChanged => "the replicas changed",
            Self::Asked => "a new start was asked for",
            Self::Everywhere => "every fitting cluster gets a copy",
            Self::TargetLeaves => "a cluster it was assigned to is going away",
        }
    }
}

/// What a binding wants and what it has.
#[derive(Clone, Copy, Debug)]
pub struct State<'a> {
    /// The placement of its policy now.
    pub placement: &'a Placement,
    /// The placement it was scheduled by, as JSON; `None`: it never was.
    pub applied: Option<&'a str>,
    /// The affinity group in use.
    pub observed_group: Option<&'a str>,
    /// Wanted replicas.
    pub replicas: i64,
    /// Has it requirements for a replica?
    pub has_requirements: bool,
    /// How many kinds of pods it has, if it has several.
    pub components: usize,
    /// What it has.
    pub shares: &'a [Share],
    /// Somebody asked for a new start.
    pub fresh: bool,
}

/// Why the binding is to be scheduled; `None`: it stays as it is.
pub fn trigger(fleet: &Fleet, state: &State<'_>) -> Option<Trigger> {
    let scheduling = state.placement.replica_scheduling.as_ref();
    if placement_changed(state.placement, state.applied, state.observed_group) {
        return Some(Trigger::PlacementChanged);
    }
    if replicas_changed(
        scheduling.map(|_| strategy(scheduling)),
        state.replicas,
        state.components,
        state.shares,
    ) {
        return Some(Trigger::ReplicasChanged);
    }
    if state.fresh {
        return Some(Trigger::Asked);
    }
    let divided = component::is_workload(state.replicas, state.has_requirements, state.components)
        && strategy(scheduling) != Strategy::Duplicated;
    if !divided {
        return Some(Trigger::Everywhere);
    }
    let leaves = |share: &Share| fleet.get(&share.cluster).is_none_or(|cluster| cluster.deleting);
    state.shares.iter().any(leaves).then_some(Trigger::TargetLeaves)
}

/// Does the placement say something else than the one that was applied? Of affinity groups only the one in use counts:
/// the others are not looked at before it fails. A note that cannot be read changes nothing.
pub fn placement_changed(placement: &Placement, applied: Option<&str>, observed_group: Option<&str>) -> bool {
    let Some(applied) = applied else { return true };
    let Ok(applied) = serde_json::from_str::<Placement>(applied) else {
        return false;
    };
    if *placement == applied {
        return false;
    }
    let same = placement.cluster_affinity == applied.cluster_affinity
        && placement.cluster_tolerations == applied.cluster_tolerations
        && placement.spread_constraints == applied.spread_constraints
        && placement.replica_scheduling == applied.replica_scheduling;
    if !same {
        return true;
    }
    let in_use = |placement: &Placement| {
        let groups = placement.cluster_affinities.as_deref()?;
        groups
            .iter()
            .find(|group| Some(group.affinity_name.as_str()) == observed_group)
            .cloned()
    };
    match (in_use(placement), in_use(&applied)) {
        (Some(now), Some(then)) => now != then,
        _ => true,
    }
}

/// Does what the clusters have differ from what is wanted? Without a strategy nothing is counted; workloads of several
/// kinds of pods only need to have some cluster.
pub fn replicas_changed(
    strategy: Option<Strategy>,
    replicas: i64,
    components: usize,
    shares: &[Share],
) -> bool {
    let Some(strategy) = strategy else { return false };
    if components > 0 {
        return shares.is_empty();
    }
    match strategy {
        Strategy::Duplicated => shares.iter().any(|share| share.replicas != replicas),
        _ => shares.iter().map(|share| share.replicas).sum::<i64>() != replicas,
    }
}

/// Is a request for a new start still open? It must be later than the last scheduling. Both are RFC 3339 in UTC.
pub fn reschedule_required(triggered_at: Option<&str>, last_scheduled: Option<&str>) -> bool {
    let seconds = |text: Option<&str>| text.and_then(crate::timestamp::parse);
    matches!((seconds(triggered_at), seconds(last_scheduled)), (Some(asked), Some(last)) if asked > last)
}

/// Which states of a changed cluster bindings are compared with, to find those it concerns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Concerns {
    /// Those that selected it before.
    pub old: bool,
    /// Those that select it now.
    pub new: bool,
}

/// Does a change of a cluster concern bindings? Its labels or its specification changed, or its removal has begun.
pub fn cluster_changed(old: (&Cluster, i64), new: (&Cluster, i64)) -> Concerns {
    let ((old, old_generation), (new, new_generation)) = (old, new);
    if new.deleting {
        return Concerns {
            old: false,
            new: !old.deleting,
        };
    }
    let changed = old.labels != new.labels || old_generation != new_generation;
    Concerns {
        old: changed,
        new: changed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn placement(json: serde_json::Value) -> Placement {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_divided_workload_is_left_alone_until_there_is_a_reason() {
        let fleet = Fleet::new(vec![
            Cluster {
                name: "a".to_owned(),
                ..Cluster::default()
            },
            Cluster {
                name: "b".to_owned(),
                deleting: true,
                ..Cluster::default()
            },
        ]);
        let divided = placement(json!({"replicaScheduling": {"replicaSchedulingType": "Divided"}}));
        let applied = serde_json::to_string(&divided).unwrap();
        let share = |cluster: &str, replicas| Share {
            cluster: cluster.to_owned(),
            replicas,
        };
        let (in_a, in_b, in_c) = ([share("a", 2)], [share("b", 2)], [share("c", 2)]);
        let state = State {
            placement: &divided,
            applied: Some(&applied),
            observed_group: None,
            replicas: 2,
            has_requirements: false,
            components: 0,
            shares: &in_a,
            fresh: false,
        };
        assert_eq!(trigger(&fleet, &state), None);
        for (state, expected) in [
            (
                State {
                    applied: None,
                    ..state
                },
                Trigger::PlacementChanged,
            ),
            (State { replicas: 3, ..state }, Trigger::ReplicasChanged),
            (State { fresh: true, ..state }, Trigger::Asked),
            (
                State {
                    shares: &in_b,
                    ..state
                },
                Trigger::TargetLeaves,
            ),
            (
                State {
                    shares: &in_c,
                    ..state
                },
                Trigger::TargetLeaves,
            ),
        ] {
            assert_eq!(trigger(&fleet, &state), Some(expected));
        }
        let everywhere = placement(json!({}));
        let state = State {
            placement: &everywhere,
            applied: Some("{}"),
            ..state
        };
        assert_eq!(trigger(&fleet, &state), Some(Trigger::Everywhere));
    }
}
