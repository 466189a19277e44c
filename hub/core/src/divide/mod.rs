//! Division of replicas over clusters: Duplicated and static weights, by the highest-averages method of Webster.
//!
//! Webster's method hands out seats one by one, so a larger total never lowers anybody's share, and every share stays
//! within one of its exact quota for the totals people use.

pub mod dynamic;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

use crate::affinity;
use crate::cluster::Cluster;
use crate::naming::fnv32a;
use crate::policy::{ClusterPreferences, StaticWeight};

/// A cluster with its share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share {
    /// Name of the cluster.
    pub cluster: String,
    /// Replicas it gets.
    pub replicas: i64,
}

/// What decides between clusters with equal claims, once the one that has fewer is served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TieRule {
    /// Smaller names first.
    NameAscending,
    /// Larger names first.
    NameDescending,
}

impl TieRule {
    /// The rule for an object: half of them go the other way round, so that the first name does not win every tie.
    pub fn for_uid(uid: &str) -> Self {
        if !uid.is_empty() && fnv32a(uid.as_bytes()) % 2 == 1 {
            Self::NameDescending
        } else {
            Self::NameAscending
        }
    }
}

/// One party in [`allocate_seats`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Party {
    /// Its name.
    pub name: String,
    /// Its weight.
    pub votes: i64,
    /// What it has.
    pub seats: i64,
}

/// The claim of a party that has `seats` seats to the next one. Floating point on purpose: the reference compares these.
fn quotient(votes: i64, seats: i64) -> f64 {
    votes as f64 / (2 * seats + 1) as f64
}

struct Bid<'a> {
    quotient: f64,
    seats: i64,
    name: &'a str,
    index: usize,
    tie: TieRule,
}

impl Ord for Bid<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_name = match self.tie {
            TieRule::NameAscending => other.name.cmp(self.name),
            TieRule::NameDescending => self.name.cmp(other.name),
        };
        self.quotient
            .total_cmp(&other.quotient)
            .then(other.seats.cmp(&self.seats))
            .then(by_name)
    }
}

impl PartialOrd for Bid<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Bid<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Bid<'_> {}

/// Hands out `new_seats` one by one, each to the party with the highest quotient of votes and twice its seats plus one.
///
/// Parties that only have seats stay in the result, without a claim to more. The result is sorted by name. The cost does
/// not grow with the number of seats.
pub fn allocate_seats(
    new_seats: i64,
    votes: &BTreeMap<String, i64>,
    initial: &BTreeMap<String, i64>,
    tie: TieRule,
) -> Vec<Party> {
    let mut parties: BTreeMap<&str, Party> = BTreeMap::new();
    for name in votes.keys().chain(initial.keys()) {
        parties.entry(name).or_insert_with(|| Party {
            name: name.clone(),
            votes: votes.get(name).copied().unwrap_or(0),
            seats: initial.get(name).copied().unwrap_or(0),
        });
    }
    let mut parties: Vec<Party> = parties.into_values().collect();
    let given = give_what_is_certain(new_seats, &mut parties);
    let names: Vec<String> = parties.iter().map(|party| party.name.clone()).collect();
    let bid = |index: usize, party: &Party| Bid {
        quotient: quotient(party.votes, party.seats),
        seats: party.seats,
        name: &names[index],
        index,
        tie,
    };
    let mut bids: BinaryHeap<Bid<'_>> = parties
        .iter()
        .enumerate()
        .map(|(i, party)| bid(i, party))
        .collect();
    for _ in given..new_seats {
        let Some(best) = bids.pop() else { break };
        parties[best.index].seats += 1;
        bids.push(bid(best.index, &parties[best.index]));
    }
    parties
}

/// Gives every party the seats whose quotient lies above a bound that leaves fewer seats than there are. These are given
/// out first whatever the ties, so the rest can go on one by one. Returns how many were given.
fn give_what_is_certain(new_seats: i64, parties: &mut [Party]) -> i64 {
    let few = 4 * parties.len() as i64;
    if new_seats <= few {
        return 0;
    }
    let total = |bound: f64, parties: &[Party]| -> i64 {
        parties.iter().map(|party| seats_above(party, bound)).sum()
    };
    let (mut low, mut high) = (
        0.0_f64,
        parties.iter().map(|party| party.votes as f64).fold(0.0, f64::max),
    );
    // The bound moves until its neighbours differ by less than any two quotients that matter.
    for _ in 0..BISECTIONS {
        let middle = low + (high - low) / 2.0;
        let given = total(middle, parties);
        if given > new_seats {
            low = middle;
        } else {
            high = middle;
            if new_seats - given <= few {
                break;
            }
        }
    }
    let mut given = 0;
    for party in parties.iter_mut() {
        let more = seats_above(party, high);
        party.seats += more;
        given += more;
    }
    given
}

/// Halvings until a bound is as exact as a float can be.
const BISECTIONS: usize = 128;

/// How many further seats of a party have a quotient strictly above the bound.
fn seats_above(party: &Party, bound: f64) -> i64 {
    if bound <= 0.0 || party.votes <= 0 {
        return if party.votes <= 0 { 0 } else { i64::from(i32::MAX) };
    }
    let estimate = ((party.votes as f64 / bound - 1.0) / 2.0).ceil();
    let mut seats = (estimate.clamp(0.0, f64::from(i32::MAX)) as i64).max(party.seats);
    while seats > party.seats && quotient(party.votes, seats - 1) <= bound {
        seats -= 1;
    }
    while quotient(party.votes, seats) > bound && seats < i64::from(i32::MAX) {
        seats += 1;
    }
    seats - party.seats
}

/// Adds `new_replicas` to `initial`, in proportion to the weights. Sorted by name; clusters of `initial` without a weight
/// stay as they are.
///
/// Nothing is added if the weights sum up to nothing.
pub fn dispense(new_replicas: i64, weights: &[(String, i64)], initial: &[Share], uid: &str) -> Vec<Share> {
    let weight_sum: i64 = weights.iter().map(|(_, weight)| weight).sum();
    if weight_sum == 0 || (new_replicas == 0 && !initial.is_empty()) {
        return initial.to_vec();
    }
    let votes = weights.iter().cloned().collect();
    let seats = initial
        .iter()
        .map(|share| (share.cluster.clone(), share.replicas))
        .collect();
    allocate_seats(new_replicas, &votes, &seats, TieRule::for_uid(uid))
        .into_iter()
        .map(|party| Share {
            cluster: party.name,
            replicas: party.seats,
        })
        .collect()
}

/// Every cluster gets all replicas, in the order given.
pub fn duplicated<'a>(replicas: i64, clusters: impl IntoIterator<Item = &'a Cluster>) -> Vec<Share> {
    clusters
        .into_iter()
        .map(|cluster| Share {
            cluster: cluster.name.clone(),
            replicas,
        })
        .collect()
}

/// The weight of a cluster: the largest of the rules that match it; 0 if none does.
pub fn static_weight(cluster: &Cluster, rules: &[StaticWeight]) -> i64 {
    rules
        .iter()
        .filter(|rule| affinity::matches(cluster, &rule.target_cluster))
        .map(|rule| rule.weight)
        .max()
        .unwrap_or(0)
}

/// Divides by fixed weights, from scratch. Clusters without a weight get nothing; if none has one, all weigh the same.
/// Free room and former shares do not matter. Sorted by name.
pub fn static_weights(
    replicas: i64,
    clusters: &[&Cluster],
    preference: Option<&ClusterPreferences>,
    uid: &str,
) -> Vec<Share> {
    let rules = preference
        .map(|p| p.static_weight_list.as_slice())
        .unwrap_or_default();
    let mut weights: Vec<(String, i64)> = clusters
        .iter()
        .map(|c| (c.name.clone(), static_weight(c, rules)))
        .filter(|(_, weight)| *weight > 0)
        .collect();
    if weights.is_empty() {
        weights = clusters.iter().map(|cluster| (cluster.name.clone(), 1)).collect();
    }
    dispense(replicas, &weights, &[], uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Webster's method as it is defined: one seat at a time.
    fn one_by_one(
        seats: i64,
        votes: &BTreeMap<String, i64>,
        initial: &BTreeMap<String, i64>,
        tie: TieRule,
    ) -> Vec<i64> {
        let names: Vec<&String> = votes
            .keys()
            .chain(initial.keys())
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect();
        let mut have: Vec<i64> = names
            .iter()
            .map(|name| initial.get(*name).copied().unwrap_or(0))
            .collect();
        for _ in 0..seats {
            let bid = |index: usize| Bid {
                quotient: quotient(votes.get(names[index]).copied().unwrap_or(0), have[index]),
                seats: have[index],
                name: names[index],
                index,
                tie,
            };
            let Some(best) = (0..names.len()).max_by(|a, b| bid(*a).cmp(&bid(*b))) else {
                break;
            };
            have[best] += 1;
        }
        have
    }

    #[test]
    fn a_huge_count_is_divided_at_once() {
        let votes = BTreeMap::from([("a".to_owned(), 2), ("b".to_owned(), 1)]);
        let parties = allocate_seats(
            i64::from(i32::MAX),
            &votes,
            &BTreeMap::new(),
            TieRule::NameAscending,
        );
        assert_eq!(
            parties.iter().map(|party| party.seats).sum::<i64>(),
            i64::from(i32::MAX)
        );
        assert!((parties[0].seats - 2 * parties[1].seats).abs() <= 2);
    }

    #[test]
    fn field_report_13_two_replicas_with_weights_two_to_one() {
        let weights = [("a".to_owned(), 2), ("b".to_owned(), 1)];
        let shares: Vec<i64> = dispense(2, &weights, &[], "")
            .iter()
            .map(|share| share.replicas)
            .collect();
        assert_eq!(shares, [1, 1]);
    }

    #[test]
    fn field_report_11_shares_never_fall_as_the_total_grows() {
        let weights = [("a".to_owned(), 9), ("b".to_owned(), 5), ("c".to_owned(), 3)];
        let mut before = [0, 0, 0];
        for total in 1..=40 {
            let shares: Vec<i64> = dispense(total, &weights, &[], "")
                .iter()
                .map(|share| share.replicas)
                .collect();
            assert_eq!(shares.iter().sum::<i64>(), total);
            assert!(
                shares.iter().zip(before).all(|(now, then)| *now >= then),
                "{total}: {before:?} -> {shares:?}"
            );
            before.copy_from_slice(&shares);
        }
    }

    proptest! {
        #[test]
        fn the_shortcut_gives_what_one_by_one_gives(
            votes in prop::collection::btree_map("[a-f]", 0_i64..200, 0..6),
            initial in prop::collection::btree_map("[a-h]", 0_i64..40, 0..5),
            seats in 0_i64..400,
            descending in any::<bool>(),
        ) {
            let tie = if descending { TieRule::NameDescending } else { TieRule::NameAscending };
            let got: Vec<i64> = allocate_seats(seats, &votes, &initial, tie).iter().map(|party| party.seats).collect();
            prop_assert_eq!(got, one_by_one(seats, &votes, &initial, tie));
        }
    }
}
