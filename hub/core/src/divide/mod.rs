//! Division of replicas over clusters: Duplicated and static weights, by the highest-averages method of Webster.

pub mod dynamic;
pub mod webster;

use std::collections::{BTreeMap, HashMap};

use crate::affinity::Matcher;
use crate::cluster::Cluster;
use crate::naming::fnv32a;
use crate::policy::{ClusterPreferences, StaticWeight};
use crate::schedule::Candidate;
use webster::Seats;

/// A cluster with its share.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share {
    /// Name of the cluster.
    pub cluster: String,
    /// Replicas it gets.
    pub replicas: i64,
}

/// How replicas were divided over clusters, written down by the code that does it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Division {
    /// Tier of the affinity group.
    pub tier: usize,
    /// What the weights are.
    pub by: By,
    /// Only as many clusters are used as are needed.
    pub aggregated: bool,
    /// Replicas that were divided: all of them, or those that were added.
    pub replicas: i64,
    /// The clusters that took part, by name, with their weights; empty if nothing was divided.
    pub weights: Vec<(String, i64)>,
}

impl Division {
    /// Nothing is written down yet.
    pub fn new(tier: usize) -> Self {
        Self {
            tier,
            by: By::Unchanged,
            aggregated: false,
            replicas: 0,
            weights: Vec::new(),
        }
    }

    pub(crate) fn note(&mut self, replicas: i64, weights: &[(&Candidate<'_>, i64)]) {
        self.replicas = replicas;
        self.weights = weights
            .iter()
            .map(|(candidate, weight)| (candidate.cluster.name.clone(), *weight))
            .collect();
    }
}

/// What replicas were divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Every cluster gets all.
    Duplicated,
    /// The weights of the policy.
    StaticWeights,
    /// No weight matches a candidate, so all weigh the same.
    EqualWeights,
    /// What each can hold in all, as if nothing had been placed: a new start was asked for.
    RoomInAll,
    /// The total is what it was: nothing moves.
    Unchanged,
    /// There are fewer than before: what each had.
    FormerShares,
    /// There are more than before: the further ones by what still fits.
    RoomForMore,
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

/// [`webster::allocate`] by names. Parties that only have seats stay in the result, without a claim to more. The result is
/// sorted by name.
pub fn allocate_seats(
    new_seats: i64,
    votes: &BTreeMap<String, i64>,
    initial: &BTreeMap<String, i64>,
    tie: TieRule,
) -> Vec<Party> {
    let mut parties: BTreeMap<&str, Seats> = BTreeMap::new();
    for (name, votes) in votes {
        parties.entry(name).or_default().votes = *votes;
    }
    for (name, seats) in initial {
        parties.entry(name).or_default().seats = *seats;
    }
    let (names, mut seats): (Vec<&str>, Vec<Seats>) = parties.into_iter().unzip();
    webster::allocate(new_seats, &mut seats, tie);
    names
        .into_iter()
        .zip(seats)
        .map(|(name, party)| Party {
            name: name.to_owned(),
            votes: party.votes,
            seats: party.seats,
        })
        .collect()
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

/// Divides `replicas` over candidates by their weights, from nothing. Sorted by name; those that get nothing are left out
/// unless `with_empty` says otherwise. What was divided by which weights is written down, if somebody asks for it.
pub(crate) fn by_weights(
    replicas: i64,
    mut weights: Vec<(&Candidate<'_>, i64)>,
    tie: TieRule,
    with_empty: bool,
    division: Option<&mut Division>,
) -> Vec<Share> {
    if weights.iter().all(|(_, weight)| *weight == 0) {
        return Vec::new();
    }
    weights.sort_unstable_by_key(|(candidate, _)| candidate.place);
    if let Some(division) = division {
        division.note(replicas, &weights);
    }
    let mut seats: Vec<Seats> = weights
        .iter()
        .map(|(_, weight)| Seats {
            votes: *weight,
            seats: 0,
        })
        .collect();
    webster::allocate(replicas, &mut seats, tie);
    weights
        .into_iter()
        .zip(seats)
        .filter(|(_, party)| with_empty || party.seats > 0)
        .map(|((candidate, _), party)| Share {
            cluster: candidate.cluster.name.clone(),
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

/// Static weights made ready for many clusters: rules that only name clusters become one table.
struct Weights<'a> {
    by_name: HashMap<&'a str, i64>,
    others: Vec<(Matcher<'a>, i64)>,
}

impl<'a> Weights<'a> {
    fn new(rules: &'a [StaticWeight]) -> Self {
        let mut weights = Self {
            by_name: HashMap::new(),
            others: Vec::new(),
        };
        for rule in rules {
            let target = &rule.target_cluster;
            let only_names = target.label_selector.is_none()
                && target.field_selector.is_none()
                && target.exclude.is_empty()
                && !target.cluster_names.is_empty();
            if !only_names {
                weights.others.push((Matcher::new(target), rule.weight));
                continue;
            }
            for name in &target.cluster_names {
                let known = weights.by_name.entry(name).or_insert(rule.weight);
                *known = rule.weight.max(*known);
            }
        }
        weights
    }

    /// The weight of a cluster: the largest of the rules that match it; 0 if none does.
    fn of(&self, cluster: &Cluster) -> i64 {
        let others = self.others.iter().filter(|(matcher, _)| matcher.matches(cluster));
        others
            .map(|(_, weight)| *weight)
            .chain(self.by_name.get(cluster.name.as_str()).copied())
            .max()
            .unwrap_or(0)
    }
}

/// Divides by fixed weights, from scratch. Clusters without a weight get nothing; if none has one, all weigh the same.
/// Free room and former shares do not matter. Sorted by name; those that get nothing are left out unless `with_empty`.
pub fn static_weights(
    replicas: i64,
    candidates: &[Candidate<'_>],
    preference: Option<&ClusterPreferences>,
    uid: &str,
    with_empty: bool,
    mut division: Option<&mut Division>,
) -> Vec<Share> {
    let rules = preference
        .map(|p| p.static_weight_list.as_slice())
        .unwrap_or_default();
    let known = Weights::new(rules);
    let mut weights: Vec<(&Candidate<'_>, i64)> = candidates
        .iter()
        .map(|one| (one, known.of(one.cluster)))
        .filter(|(_, weight)| *weight > 0)
        .collect();
    let by = if weights.is_empty() {
        weights = candidates.iter().map(|one| (one, 1)).collect();
        By::EqualWeights
    } else {
        By::StaticWeights
    };
    if let Some(division) = division.as_deref_mut() {
        division.by = by;
    }
    by_weights(replicas, weights, TieRule::for_uid(uid), with_empty, division)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Turns red with largest remainder or floor-and-fill in place of `webster::allocate`.
    #[test]
    fn field_report_13_two_replicas_with_weights_two_to_one() {
        let weights = [("a".to_owned(), 2), ("b".to_owned(), 1)];
        let shares: Vec<i64> = dispense(2, &weights, &[], "")
            .iter()
            .map(|share| share.replicas)
            .collect();
        assert_eq!(shares, [1, 1]);
    }

    /// Turns red with any rounding that is not house-monotone, such as the largest remainder.
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

    #[test]
    fn the_largest_matching_weight_counts() {
        let rule = |json: serde_json::Value| serde_json::from_value::<StaticWeight>(json).unwrap();
        let rules = [
            rule(serde_json::json!({"targetCluster": {"clusterNames": ["a", "b"]}, "weight": 2})),
            rule(serde_json::json!({"targetCluster": {"clusterNames": ["b"]}, "weight": 5})),
            rule(
                serde_json::json!({"targetCluster": {"labelSelector": {"matchLabels": {"x": "y"}}}, "weight": 7}),
            ),
        ];
        let weights = Weights::new(&rules);
        let cluster = |name: &str, labels: &[(&str, &str)]| Cluster {
            name: name.to_owned(),
            labels: labels
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
            ..Cluster::default()
        };
        let of = |name: &str, labels: &[(&str, &str)]| weights.of(&cluster(name, labels));
        assert_eq!(
            (of("a", &[]), of("b", &[]), of("b", &[("x", "y")]), of("c", &[])),
            (2, 5, 7, 0)
        );
    }
}
