//! Division by free room: dynamic weights and Aggregated.
//!
//! Steady: growth divides only what is added, shrinking divides by what each had, an unchanged total moves nothing. So
//! scaling up never lowers a share, and a capacity report alone moves nothing.

use super::{Share, dispense};
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

/// Divides all replicas over the candidates, given in rank order. `fresh` forgets the former shares.
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
) -> Result<Vec<Share>, NotEnoughRoom> {
    let is_candidate = |name: &str| candidates.iter().any(|candidate| candidate.cluster.name == name);
    let held: Vec<Share> = previous
        .iter()
        .filter(|share| is_candidate(&share.cluster))
        .cloned()
        .collect();
    let assigned: i64 = held.iter().map(|share| share.replicas).sum();
    let room = |candidate: &Candidate<'_>, more: i64| Share {
        cluster: candidate.cluster.name.clone(),
        replicas: candidate.allocatable.saturating_add(more),
    };
    if fresh {
        let had = |name: &str| {
            held.iter()
                .find(|share| share.cluster == name)
                .map_or(0, |share| share.replicas)
        };
        let rooms = candidates
            .iter()
            .map(|candidate| room(candidate, had(&candidate.cluster.name)))
            .collect();
        return divide(how, replicas, rooms, &[], uid);
    }
    if assigned == replicas {
        return Ok(held);
    }
    if assigned > replicas {
        return divide(how, replicas, held, &[], uid);
    }
    let rooms = candidates.iter().map(|candidate| room(candidate, 0)).collect();
    let added = divide(how, replicas - assigned, rooms, &held, uid)?;
    Ok(merge(added, &held))
}

/// Divides `wanted` in proportion to `rooms`. Clusters in `held` go first when few are to be used.
///
/// # Errors
/// It does not fit.
pub fn divide(
    how: ByRoom,
    wanted: i64,
    mut rooms: Vec<Share>,
    held: &[Share],
    uid: &str,
) -> Result<Vec<Share>, NotEnoughRoom> {
    rooms.sort_by_key(|room| std::cmp::Reverse(room.replicas));
    let free = rooms
        .iter()
        .map(|room| room.replicas)
        .fold(0_i64, i64::saturating_add);
    if free < wanted {
        return Err(NotEnoughRoom { wanted, free });
    }
    if how == ByRoom::Aggregated {
        let holds = |room: &Share| {
            held.iter()
                .any(|share| share.cluster == room.cluster && share.replicas > 0)
        };
        rooms.sort_by_key(|room| !holds(room));
        let mut covered = 0_i64;
        let used = rooms.iter().take_while(|room| {
            let open = covered < wanted;
            covered = covered.saturating_add(room.replicas);
            open
        });
        let used = used.count();
        rooms.truncate(used);
    }
    let weights: Vec<(String, i64)> = rooms
        .into_iter()
        .map(|room| (room.cluster, room.replicas))
        .collect();
    Ok(dispense(wanted, &weights, &[], uid))
}

/// Adds per cluster; clusters that only had something before follow, by name.
fn merge(mut added: Vec<Share>, held: &[Share]) -> Vec<Share> {
    let mut rest = Vec::new();
    for share in held {
        match added.iter_mut().find(|more| more.cluster == share.cluster) {
            Some(more) => more.replicas += share.replicas,
            None => rest.push(share.clone()),
        }
    }
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
                clusters.iter().zip(&rooms).map(|(cluster, room)| {
                    let has = held.iter().find(|s| s.cluster == cluster.name).map_or(0, |s| s.replicas);
                    Candidate { cluster, score: 0, available: *room, allocatable: room - has, overflow: 0 }
                }).collect()
            };
            let total: i64 = rooms.iter().sum();
            let before = by_room(how, first, &candidates(&[]), &[], false, "");
            prop_assert_eq!(before.is_ok(), first <= total);
            let Ok(before) = before else { return Ok(()) };
            prop_assert_eq!(before.iter().map(|s| s.replicas).sum::<i64>(), first);
            let after = by_room(how, first + more, &candidates(&before), &before, false, "");
            prop_assert_eq!(after.is_ok(), first + more <= total);
            let Ok(after) = after else { return Ok(()) };
            prop_assert_eq!(after.iter().map(|s| s.replicas).sum::<i64>(), first + more);
            for (index, cluster) in clusters.iter().enumerate() {
                let share = |list: &[Share]| list.iter().find(|s| s.cluster == cluster.name).map_or(0, |s| s.replicas);
                prop_assert!(share(&after) >= share(&before) && share(&after) <= rooms[index]);
            }
            // an unchanged total moves nothing, whatever the rooms are now
            prop_assert_eq!(by_room(how, first, &candidates(&[]), &before, false, ""), Ok(before));
        }
    }
}
