//! Division over the selected clusters, tier by tier.

use std::collections::HashSet;

use super::filter::group_in_use;
use super::{Candidate, EmptyShares, Request, ScheduleError};
use crate::divide::dynamic::{ByRoom, NotEnoughRoom, by_room};
use crate::divide::{self, By, Division, Share};
use crate::policy::{DivisionPreference, ReplicaScheduling, SchedulingType};

/// How replicas are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Every cluster gets all.
    Duplicated,
    /// By fixed weights.
    StaticWeight,
    /// By free room.
    DynamicWeight,
    /// Over as few clusters as possible.
    Aggregated,
}

/// The strategy a placement asks for. Without one it is Duplicated; a dynamic weight wins over fixed ones.
pub fn strategy(scheduling: Option<&ReplicaScheduling>) -> Strategy {
    let Some(scheduling) = scheduling else {
        return Strategy::Duplicated;
    };
    if scheduling.replica_scheduling_type == SchedulingType::Duplicated {
        return Strategy::Duplicated;
    }
    let weights = scheduling.weight_preference.as_ref();
    match scheduling.replica_division_preference {
        Some(DivisionPreference::Aggregated) => Strategy::Aggregated,
        _ if weights.is_some_and(|weights| !weights.dynamic_weight.is_empty()) => Strategy::DynamicWeight,
        _ => Strategy::StaticWeight,
    }
}

/// Divides over selected clusters, given in rank order. How each tier is divided is written down, if somebody asks for it.
///
/// # Errors
/// There is no cluster, or not room enough.
pub fn assign(
    selected: &[Candidate<'_>],
    request: &Request<'_>,
    mut divisions: Option<&mut Vec<Division>>,
) -> Result<Vec<Share>, ScheduleError> {
    if selected.is_empty() {
        return Err(ScheduleError::NoClusterSelected);
    }
    let everywhere = || divide::duplicated(0, selected.iter().map(|candidate| candidate.cluster));
    if !request.workload {
        return Ok(everywhere());
    }
    let mut shares = if flows_over(request) {
        tiers(selected, request, divisions)?
    } else {
        let mut division = divisions.is_some().then(|| Division::new(0));
        let shares = one_tier(selected, request.replicas, request, division.as_mut())?;
        divisions.iter_mut().for_each(|all| all.extend(division.take()));
        shares
    };
    if !(request.empty_shares == EmptyShares::KeepAtZero && request.replicas == 0) {
        shares.retain(|share| share.replicas > 0);
    }
    if request.empty_shares == EmptyShares::Keep {
        let known: HashSet<String> = shares.iter().map(|share| share.cluster.clone()).collect();
        shares.extend(
            everywhere()
                .into_iter()
                .filter(|zero| !known.contains(&zero.cluster)),
        );
    }
    Ok(shares)
}

fn one_tier(
    selected: &[Candidate<'_>],
    replicas: i64,
    request: &Request<'_>,
    division: Option<&mut Division>,
) -> Result<Vec<Share>, NotEnoughRoom> {
    let scheduling = request.placement.replica_scheduling.as_ref();
    let room = |how, division| {
        by_room(
            how,
            replicas,
            selected,
            request.previous,
            request.fresh,
            request.uid,
            division,
        )
    };
    match strategy(scheduling) {
        Strategy::Duplicated => {
            if let Some(division) = division {
                division.by = By::Duplicated;
                division.replicas = replicas;
            }
            let clusters = selected.iter().map(|candidate| candidate.cluster);
            Ok(divide::duplicated(replicas, clusters))
        }
        Strategy::StaticWeight => {
            let preference = scheduling.and_then(|scheduling| scheduling.weight_preference.as_ref());
            Ok(divide::static_weights(
                replicas,
                selected,
                preference,
                request.uid,
                // Empty rows matter only to what is scaled to nothing; a row for each of 10,000 clusters costs more than
                // the division.
                request.replicas == 0,
                division,
            ))
        }
        Strategy::DynamicWeight => room(ByRoom::DynamicWeight, division),
        Strategy::Aggregated => room(ByRoom::Aggregated, division),
    }
}

fn flows_over(request: &Request<'_>) -> bool {
    request.placement.cluster_affinity.is_none()
        && group_in_use(request.placement, request.observed_group)
            .is_some_and(|group| group.overflow_affinities.is_some())
}

/// Fills each tier to what it can hold before the next. Shrinking thus empties the last tier first.
fn tiers(
    selected: &[Candidate<'_>],
    request: &Request<'_>,
    mut divisions: Option<&mut Vec<Division>>,
) -> Result<Vec<Share>, NotEnoughRoom> {
    let mut remaining = request.replicas;
    let mut shares = Vec::new();
    let last = selected
        .iter()
        .map(|candidate| candidate.overflow)
        .max()
        .unwrap_or(0);
    for tier in 0..=last {
        let members: Vec<Candidate<'_>> = selected
            .iter()
            .copied()
            .filter(|candidate| candidate.overflow == tier)
            .collect();
        let room = members
            .iter()
            .map(|candidate| candidate.available)
            .fold(0_i64, i64::saturating_add);
        let here = remaining.min(room);
        if members.is_empty() || remaining == 0 {
            continue;
        }
        let mut division = divisions.is_some().then(|| Division::new(tier));
        shares.extend(one_tier(&members, here, request, division.as_mut())?);
        divisions.iter_mut().for_each(|all| all.extend(division.take()));
        remaining -= here;
    }
    if remaining > 0 {
        return Err(NotEnoughRoom {
            wanted: request.replicas,
            free: request.replicas - remaining,
        });
    }
    Ok(shares)
}
