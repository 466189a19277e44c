//! Spread by zone or provider, alone or together with region and cluster.
//!
//! The reference only filters by these; here they are honoured. Clusters are taken in rank order: first those that bring a
//! group that is still missing, then whatever keeps within the upper bounds. If that misses a lower bound, the next best
//! cluster is tried as the first one. A cluster with several zones counts in each of them.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::Candidate;
use super::spread::SpreadError;
use crate::cluster::Cluster;
use crate::policy::SpreadConstraint;

/// Most clusters that are tried as the first one.
const FIRST_CHOICES_MAX: usize = 64;

/// One field to spread by, with its bounds.
struct Rule<'a> {
    field: &'a str,
    min: usize,
    max: usize,
}

impl<'a> Rule<'a> {
    fn read(constraint: &'a SpreadConstraint) -> Self {
        let bound = |value: i64| usize::try_from(value).unwrap_or(0);
        Self {
            field: &constraint.spread_by_field,
            min: bound(constraint.min_groups).max(1),
            // No upper bound is given by 0.
            max: if constraint.max_groups == 0 {
                usize::MAX
            } else {
                bound(constraint.max_groups)
            },
        }
    }

    fn groups_of<'c>(&self, cluster: &'c Cluster) -> Vec<&'c str> {
        groups_of(self.field, cluster)
    }
}

/// The groups a cluster lies in, by a field of spread constraints; what it does not say is no group.
fn groups_of<'c>(field: &str, cluster: &'c Cluster) -> Vec<&'c str> {
    let named = |name: &'c String| Some(name.as_str()).filter(|name| !name.is_empty());
    match field {
        "provider" => named(&cluster.provider).into_iter().collect(),
        "region" => named(&cluster.region).into_iter().collect(),
        "zone" => cluster.zones.iter().map(String::as_str).collect(),
        _ => vec![cluster.name.as_str()],
    }
}

/// How many groups by zone, region or provider candidates lie in, for the fields the constraints name.
pub fn group_counts(
    constraints: &[SpreadConstraint],
    candidates: &[Candidate<'_>],
) -> BTreeMap<String, usize> {
    constraints
        .iter()
        .map(|constraint| constraint.spread_by_field.as_str())
        .filter(|field| matches!(*field, "zone" | "region" | "provider"))
        .map(|field| {
            let groups: BTreeSet<&str> = candidates
                .iter()
                .flat_map(|candidate| groups_of(field, candidate.cluster))
                .collect();
            (field.to_owned(), groups.len())
        })
        .collect()
}

/// Clusters chosen so far, and the groups they lie in, per rule.
#[derive(Clone)]
struct Choice<'a> {
    chosen: Vec<Candidate<'a>>,
    places: HashSet<usize>,
    groups: Vec<BTreeSet<&'a str>>,
}

impl<'a> Choice<'a> {
    fn has(&self, candidate: &Candidate<'_>) -> bool {
        self.places.contains(&candidate.place)
    }

    /// Groups the candidate would add, per rule; `None`: it would break an upper bound.
    fn adds(&self, rules: &[Rule<'_>], candidate: &Candidate<'a>) -> Option<Vec<usize>> {
        rules
            .iter()
            .zip(&self.groups)
            .map(|(rule, known)| {
                let new = rule
                    .groups_of(candidate.cluster)
                    .into_iter()
                    .filter(|group| !known.contains(group))
                    .count();
                (known.len() + new <= rule.max).then_some(new)
            })
            .collect()
    }

    fn take(&mut self, rules: &[Rule<'_>], candidate: &Candidate<'a>) {
        for (rule, known) in rules.iter().zip(&mut self.groups) {
            known.extend(rule.groups_of(candidate.cluster));
        }
        self.places.insert(candidate.place);
        self.chosen.push(*candidate);
    }

    fn missing<'r>(&self, rules: &'r [Rule<'r>]) -> Option<(&'r Rule<'r>, usize)> {
        rules
            .iter()
            .zip(&self.groups)
            .find(|(rule, known)| known.len() < rule.min)
            .map(|(rule, known)| (rule, known.len()))
    }

    /// Adds clusters in rank order until nothing more may be added.
    fn complete(&mut self, rules: &[Rule<'_>], candidates: &[Candidate<'a>]) {
        for only_missing in [true, false] {
            for candidate in candidates {
                if self.has(candidate) {
                    continue;
                }
                let Some(adds) = self.adds(rules, candidate) else {
                    continue;
                };
                let helps = adds
                    .iter()
                    .zip(rules)
                    .zip(&self.groups)
                    .any(|((new, rule), known)| *new > 0 && known.len() < rule.min);
                if helps || !only_missing {
                    self.take(rules, candidate);
                }
            }
        }
    }
}

/// Picks from candidates in rank order. `need`: replicas they must have room for together.
///
/// # Errors
/// The constraint that the best choice misses.
pub(super) fn select<'a>(
    constraints: &[SpreadConstraint],
    candidates: &[Candidate<'a>],
    need: Option<i64>,
) -> Result<Vec<Candidate<'a>>, SpreadError> {
    let rules: Vec<Rule<'_>> = constraints.iter().map(Rule::read).collect();
    let counts = group_counts(constraints, candidates);
    for rule in &rules {
        if let Some(found) = counts.get(rule.field).filter(|found| **found < rule.min) {
            return Err(SpreadError::TooFewGroups {
                field: rule.field.to_owned(),
                found: *found,
                wanted: rule.min,
            });
        }
    }
    let mut first_error = None;
    for first in candidates.iter().take(FIRST_CHOICES_MAX) {
        let mut choice = Choice {
            chosen: Vec::new(),
            places: HashSet::new(),
            groups: vec![BTreeSet::new(); rules.len()],
        };
        if choice.adds(&rules, first).is_none() {
            continue;
        }
        choice.take(&rules, first);
        choice.complete(&rules, candidates);
        let room = choice
            .chosen
            .iter()
            .map(|one| one.available)
            .fold(0_i64, i64::saturating_add);
        let error = match (choice.missing(&rules), need) {
            (Some((rule, found)), _) => SpreadError::TooFewGroups {
                field: rule.field.to_owned(),
                found,
                wanted: rule.min,
            },
            (None, Some(wanted)) if room < wanted => SpreadError::NotEnoughCapacity { wanted },
            _ => {
                choice.chosen.sort_by(Candidate::by_rank);
                return Ok(choice.chosen);
            }
        };
        first_error.get_or_insert(error);
    }
    Err(first_error.unwrap_or(SpreadError::NoRegionCombination))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn by(field: &str, min: i64, max: i64) -> SpreadConstraint {
        SpreadConstraint {
            spread_by_field: field.to_owned(),
            min_groups: min,
            max_groups: max,
            ..SpreadConstraint::default()
        }
    }

    fn cluster(name: &str, provider: &str, region: &str, zones: &[&str]) -> Cluster {
        Cluster {
            name: name.to_owned(),
            provider: provider.to_owned(),
            region: region.to_owned(),
            zones: zones.iter().map(|zone| (*zone).to_owned()).collect(),
            ..Cluster::default()
        }
    }

    fn names(
        constraints: &[SpreadConstraint],
        clusters: &[Cluster],
        need: Option<i64>,
    ) -> Result<Vec<String>, SpreadError> {
        let candidates: Vec<Candidate<'_>> = clusters
            .iter()
            .enumerate()
            .map(|(place, cluster)| Candidate {
                cluster,
                place,
                score: 0,
                available: 2,
                allocatable: 2,
                overflow: 0,
            })
            .collect();
        Ok(select(constraints, &candidates, need)?
            .iter()
            .map(|one| one.cluster.name.clone())
            .collect())
    }

    #[test]
    fn regions_and_providers_together() {
        let clusters = [
            cluster("cn", "alibaba", "cn-hangzhou", &["a"]),
            cluster("eu", "gcp", "europe-west4", &["b"]),
            cluster("us", "aws", "us-west-2", &["c"]),
        ];
        let example = [by("region", 1, 2), by("provider", 2, 3)];
        assert_eq!(names(&example, &clusters, None).unwrap(), ["cn", "eu"]);
        let one_provider = [cluster("cn", "p", "r1", &["a"]), cluster("eu", "p", "r2", &["b"])];
        assert_eq!(
            names(&example, &one_provider, None),
            Err(SpreadError::TooFewGroups {
                field: "provider".to_owned(),
                found: 1,
                wanted: 2
            })
        );
    }

    #[test]
    fn a_bad_first_choice_is_given_up() {
        let clusters = [
            cluster("a", "p1", "r1", &["z"]),
            cluster("b", "p1", "r2", &["z"]),
            cluster("c", "p2", "r2", &["z"]),
        ];
        assert_eq!(
            names(&[by("region", 1, 1), by("provider", 2, 2)], &clusters, None).unwrap(),
            ["b", "c"]
        );
    }

    #[test]
    fn zones_alone_and_the_room_that_is_needed() {
        let clusters = [
            cluster("a", "", "", &["z1", "z2"]),
            cluster("b", "", "", &["z2"]),
            cluster("c", "", "", &["z3"]),
        ];
        assert_eq!(names(&[by("zone", 1, 2)], &clusters, None).unwrap(), ["a", "b"]);
        assert_eq!(
            names(&[by("zone", 3, 0)], &clusters, Some(6)).unwrap(),
            ["a", "b", "c"]
        );
        assert_eq!(
            names(&[by("zone", 1, 0)], &clusters, Some(7)),
            Err(SpreadError::NotEnoughCapacity { wanted: 7 })
        );
    }

    proptest! {
        #[test]
        fn bounds_hold_in_every_answer(
            places in prop::collection::vec((0_u8..3, 0_u8..3), 1..8),
            (rmin, rmax, pmin, pmax, cmax) in (1_i64..3, 0_i64..4, 1_i64..3, 0_i64..4, 0_i64..5),
        ) {
            let clusters: Vec<Cluster> = places
                .iter()
                .enumerate()
                .map(|(index, (p, r))| cluster(&format!("m{index}"), &format!("p{p}"), &format!("r{r}"), &[]))
                .collect();
            let rules = [by("region", rmin, rmax), by("provider", pmin, pmax), by("cluster", 1, cmax)];
            if let Ok(chosen) = names(&rules, &clusters, None) {
                let of = |field: fn(&Cluster) -> &String| {
                    let groups: BTreeSet<_> = clusters.iter().filter(|c| chosen.contains(&c.name)).map(field).collect();
                    groups.len() as i64
                };
                let within = |count: i64, min: i64, max: i64| count >= min && (max == 0 || count <= max);
                prop_assert!(within(of(|c| &c.region), rmin, rmax));
                prop_assert!(within(of(|c| &c.provider), pmin, pmax));
                prop_assert!(within(chosen.len() as i64, 1, cmax));
            }
        }
    }
}
