//! Division by free room: dynamic weights and Aggregated.
//!
//! Steady: growth divides only what is added, shrinking divides by what each had, an unchanged total moves nothing. So
//! scaling up never lowers a share, and a capacity report alone moves nothing.

use std::collections::HashMap;

use super::{By, Division, Share, TieRule, by_weights};
use crate::schedule::Candidate;

/// How to divide by free room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByRoom {
    /// Over all clusters, in proportion to the room.
    DynamicWeight,
    /// Over the fewest clusters that have room enough, in proportion to the room.
    Aggregated,
}

/// There is not room enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{wanted} replicas are to be placed and {free} fit")]
pub struct NotEnoughRoom {
    /// Replicas to place.
    pub wanted: i64,
    /// Replicas that fit.
    pub free: i64,
}

/// Former shares, as far as they lie in candidates.
struct Held<'a> {
    /// By candidate.
    replicas: Vec<i64>,
    /// Shares in candidates, in their former order.
    shares: Vec<&'a Share>,
}

impl<'a> Held<'a> {
    fn of(candidates: &[Candidate<'_>], previous: &'a [Share]) -> Self {
        let mut held = Self {
            replicas: vec![0; candidates.len()],
            shares: Vec::new(),
        };
        if previous.is_empty() {
            return held;
        }
        let places: HashMap<&str, usize> = previous
            .iter()
            .enumerate()
            .map(|(place, share)| (share.cluster.as_str(), place))
            .collect();
        let mut stays = vec![false; previous.len()];
        for (candidate, replicas) in candidates.iter().zip(&mut held.replicas) {
            if let Some(place) = places.get(candidate.cluster.name.as_str()) {
                stays[*place] = true;
                *replicas = previous[*place].replicas;
            }
        }
        held.shares = previous
            .iter()
            .zip(stays)
            .filter_map(|(share, stays)| stays.then_some(share))
            .collect();
        held
    }
}

/// Divides all replicas over the candidates, given in rank order. `fresh` forgets the former shares. How it is done is
/// written down, if somebody asks for it.
///
/// # Errors
/// What is to be placed does not fit.
pub fn by_room(
    how: ByRoom,
    replicas: i64,
    candidates: &[Candidate<'_>],
    previous: &[Share],
    fresh: bool,
    uid: &str,
    division: Option<&mut Division>,
) -> Result<Vec<Share>, NotEnoughRoom> {
    let noted = move |by: By| {
        let division = division?;
        division.by = by;
        division.aggregated = how == ByRoom::Aggregated;
        Some(division)
    };
    let tie = TieRule::for_uid(uid);
    let held = Held::of(candidates, previous);
    let assigned: i64 = held.replicas.iter().sum();
    // What held something, or is scaled to nothing, keeps its row.
    let with_empty = !previous.is_empty() || replicas == 0;
    let holding = || candidates.iter().zip(&held.replicas);
    if fresh {
        let rooms = holding().map(|(one, had)| Room::new(one, one.allocatable.saturating_add(*had), false));
        return divide(
            how,
            replicas,
            rooms.collect(),
            tie,
            with_empty,
            noted(By::RoomInAll),
        );
    }
    if assigned == replicas {
        noted(By::Unchanged);
        return Ok(held.shares.into_iter().cloned().collect());
    }
    if assigned > replicas {
        let mut shares: HashMap<&str, &Candidate<'_>> = HashMap::with_capacity(held.shares.len());
        for one in candidates {
            shares.insert(&one.cluster.name, one);
        }
        // In their former order, which decides between equals.
        let rooms = held.shares.iter().filter_map(|share| {
            Some(Room::new(
                shares.get(share.cluster.as_str())?,
                share.replicas,
                false,
            ))
        });
        return divide(
            how,
            replicas,
            rooms.collect(),
            tie,
            with_empty,
            noted(By::FormerShares),
        );
    }
    let rooms = holding().map(|(one, had)| Room::new(one, one.allocatable, *had > 0));
    let added = divide(
        how,
        replicas - assigned,
        rooms.collect(),
        tie,
        with_empty,
        noted(By::RoomForMore),
    )?;
    Ok(merge(added, &held.shares))
}

/// What one candidate can take.
#[derive(Clone, Copy, Debug)]
pub struct Room<'a, 'c> {
    candidate: &'a Candidate<'c>,
    free: i64,
    /// It holds some already, so it goes first when few are to be used.
    holds: bool,
}

impl<'a, 'c> Room<'a, 'c> {
    /// The room of a candidate.
    pub fn new(candidate: &'a Candidate<'c>, free: i64, holds: bool) -> Self {
        Self {
            candidate,
            free,
            holds,
        }
    }
}

/// Divides `wanted` in proportion to `rooms`, from nothing. Those that get nothing are left out unless `with_empty`.
///
/// # Errors
/// It does not fit.
pub fn divide(
    how: ByRoom,
    wanted: i64,
    mut rooms: Vec<Room<'_, '_>>,
    tie: TieRule,
    with_empty: bool,
    division: Option<&mut Division>,
) -> Result<Vec<Share>, NotEnoughRoom> {
    let free = rooms
        .iter()
        .map(|room| room.free)
        .fold(0_i64, i64::saturating_add);
    if free < wanted {
        return Err(NotEnoughRoom { wanted, free });
    }
    if how == ByRoom::Aggregated {
        rooms.sort_by_key(|room| (!room.holds, std::cmp::Reverse(room.free)));
        let mut covered = 0_i64;
        let used = rooms.iter().take_while(|room| {
            let open = covered < wanted;
            covered = covered.saturating_add(room.free);
            open
        });
        let used = used.count();
        rooms.truncate(used);
    }
    let weights = rooms
        .into_iter()
        .map(|room| (room.candidate, room.free))
        .collect();
    Ok(by_weights(wanted, weights, tie, with_empty, division))
}

/// What clusters get on top of what they hold, added per cluster; clusters that only held something follow, by name.
pub fn merge(mut added: Vec<Share>, held: &[&Share]) -> Vec<Share> {
    let mut places: HashMap<&str, i64> = held
        .iter()
        .map(|share| (share.cluster.as_str(), share.replicas))
        .collect();
    for share in &mut added {
        if let Some(had) = places.remove(share.cluster.as_str()) {
            share.replicas += had;
        }
    }
    let mut rest: Vec<Share> = places
        .into_iter()
        .map(|(cluster, replicas)| Share {
            cluster: cluster.to_owned(),
            replicas,
        })
        .collect();
    rest.sort();
    added.extend(rest);
    added
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Cluster;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn shares_sum_up_fit_and_never_fall_when_growing(
            rooms in prop::collection::vec(0_i64..40, 1..6),
            first in 0_i64..60,
            more in 0_i64..60,
            aggregated in any::<bool>(),
        ) {
            let how = if aggregated { ByRoom::Aggregated } else { ByRoom::DynamicWeight };
            let clusters: Vec<Cluster> =
                (0..rooms.len()).map(|i| Cluster { name: format!("m{i}"), ..Cluster::default() }).collect();
            let candidates = |held: &[Share]| -> Vec<Candidate<'_>> {
                clusters.iter().zip(&rooms).enumerate().map(|(place, (cluster, room))| {
                    let has = held.iter().find(|s| s.cluster == cluster.name).map_or(0, |s| s.replicas);
                    Candidate { cluster, place, score: 0, available: *room, allocatable: room - has, overflow: 0 }
                }).collect()
            };
            let total: i64 = rooms.iter().sum();
            let before = by_room(how, first, &candidates(&[]), &[], false, "", None);
            prop_assert_eq!(before.is_ok(), first <= total);
            let Ok(before) = before else { return Ok(()) };
            prop_assert_eq!(before.iter().map(|s| s.replicas).sum::<i64>(), first);
            let after = by_room(how, first + more, &candidates(&before), &before, false, "", None);
            prop_assert_eq!(after.is_ok(), first + more <= total);
            let Ok(after) = after else { return Ok(()) };
            prop_assert_eq!(after.iter().map(|s| s.replicas).sum::<i64>(), first + more);
            for (index, cluster) in clusters.iter().enumerate() {
                let share = |list: &[Share]| list.iter().find(|s| s.cluster == cluster.name).map_or(0, |s| s.replicas);
                prop_assert!(share(&after) >= share(&before) && share(&after) <= rooms[index]);
            }
            // an unchanged total moves nothing, whatever the rooms are now
            prop_assert_eq!(by_room(how, first, &candidates(&[]), &before, false, "", None), Ok(before));
        }
    }
}
