//! Spread constraints: which of the feasible clusters are used.
//!
//! By `cluster` and by `region`, as the reference does it, with one difference: a constraint without `maxGroups` has no
//! upper bound (the reference takes the missing number for zero and places nothing). With `zone` or `provider` among the
//! constraints see [`spread_groups`].

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

pub use super::spread_groups::group_counts;
use super::{Candidate, Strategy, spread_groups, strategy};
use crate::policy::{DivisionPreference, Placement, SpreadConstraint};

/// Why the constraints cannot be met.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpreadError {
    /// Fewer clusters than asked for.
    #[error("{found} clusters fit, but {wanted} are asked for")]
    TooFewClusters {
        /// Clusters that fit.
        found: usize,
        /// `minGroups` of the constraint.
        wanted: i64,
    },
    /// Fewer regions than asked for.
    #[error("the clusters that fit lie in {found} regions, but {wanted} are asked for")]
    TooFewRegions {
        /// Regions of the clusters that fit.
        found: usize,
        /// `minGroups` of the constraint.
        wanted: i64,
    },
    /// No choice of regions has enough clusters.
    #[error("no choice of regions has enough clusters")]
    NoRegionCombination,
    /// The clusters that may be used have too little room.
    #[error("{wanted} replicas do not fit into the clusters that may be used")]
    NotEnoughCapacity {
        /// Replicas wanted.
        wanted: i64,
    },
    /// Fewer zones or providers than asked for.
    #[error("{found} groups by {field} can be used together, but {wanted} are asked for")]
    TooFewGroups {
        /// The field.
        field: String,
        /// Groups of the best choice.
        found: usize,
        /// `minGroups` of the constraint.
        wanted: usize,
    },
    /// Grouping by this is not supported.
    #[error("spreading by {0} is not supported")]
    UnsupportedField(String),
}

/// Score of a region per cluster or replica that fits, so that they weigh more than any sum of scores.
const UNIT: i64 = 1000;

fn constraint<'a>(placement: &'a Placement, field: &str) -> Option<&'a SpreadConstraint> {
    placement
        .spread_constraints
        .iter()
        .rev()
        .find(|constraint| constraint.spread_by_field == field)
}

/// No upper bound is given by 0.
fn upper(constraint: Option<&SpreadConstraint>) -> usize {
    match constraint.map_or(0, |constraint| constraint.max_groups) {
        0 => usize::MAX,
        max => usize::try_from(max).unwrap_or(0),
    }
}

fn lower(constraint: Option<&SpreadConstraint>) -> i64 {
    constraint.map_or(0, |constraint| constraint.min_groups)
}

/// Static weights look at nothing but the weights, so constraints do not apply to them. A list of weights that is there
/// but empty counts as none: the constraints apply.
fn ignored(placement: &Placement) -> bool {
    let Some(scheduling) = &placement.replica_scheduling else {
        return false;
    };
    let weights = scheduling.weight_preference.as_ref();
    strategy(Some(scheduling)) == Strategy::StaticWeight
        && scheduling.replica_division_preference == Some(DivisionPreference::Weighted)
        && weights.is_none_or(|weights| !weights.static_weight_list.is_empty())
}

/// Picks the clusters that are used from candidates in rank order. `replicas` is what they must have room for.
///
/// # Errors
/// The constraint that cannot be met.
pub fn select<'a>(
    placement: &Placement,
    candidates: Vec<Candidate<'a>>,
    replicas: i64,
) -> Result<Vec<Candidate<'a>>, SpreadError> {
    if placement.spread_constraints.is_empty() || ignored(placement) {
        return Ok(candidates);
    }
    let by = |field: &str| constraint(placement, field).is_some();
    let duplicated = strategy(placement.replica_scheduling.as_ref()) == Strategy::Duplicated;
    let need = (!duplicated).then_some(replicas);
    let by_label = placement
        .spread_constraints
        .iter()
        .find(|one| one.spread_by_field.is_empty());
    if let Some(constraint) = by_label {
        return Err(SpreadError::UnsupportedField(constraint.spread_by_label.clone()));
    }
    if by("zone") || by("provider") {
        return spread_groups::select(&placement.spread_constraints, &candidates, need);
    }
    if by("region") {
        let regions = regions(placement, &candidates, replicas);
        return by_region(placement, &regions);
    }
    by_cluster(placement, candidates, need)
}

fn by_cluster<'a>(
    placement: &Placement,
    mut candidates: Vec<Candidate<'a>>,
    need: Option<i64>,
) -> Result<Vec<Candidate<'a>>, SpreadError> {
    let rule = constraint(placement, "cluster");
    let total = candidates.len();
    if (total as i64) < lower(rule) {
        return Err(SpreadError::TooFewClusters {
            found: total,
            wanted: lower(rule),
        });
    }
    let used = total.min(upper(rule));
    if let Some(wanted) = need {
        let mut room: i64 = candidates[..used]
            .iter()
            .map(|one| one.available)
            .fold(0_i64, i64::saturating_add);
        // From the lowest rank up, each gives way to the roomiest of those left out, until the replicas fit.
        let mut rest: BinaryHeap<(i64, Reverse<usize>)> = (used..total)
            .map(|other| (candidates[other].available, Reverse(other)))
            .collect();
        for position in (0..used).rev() {
            if room >= wanted {
                break;
            }
            let mine = candidates[position].available;
            let Some((roomiest, Reverse(other))) =
                rest.peek().copied().filter(|(roomiest, _)| *roomiest > mine)
            else {
                continue;
            };
            rest.pop();
            rest.push((mine, Reverse(other)));
            candidates.swap(position, other);
            room = room.saturating_sub(mine).saturating_add(roomiest);
        }
        if used == 0 || room < wanted {
            return Err(SpreadError::NotEnoughCapacity { wanted });
        }
    }
    candidates.truncate(used);
    Ok(candidates)
}

/// The clusters of one region, in rank order, and how good the region is.
#[derive(Clone, Debug)]
pub struct Region<'a> {
    /// Name.
    pub name: String,
    /// Its score.
    pub score: i64,
    /// Its clusters.
    pub members: Vec<Candidate<'a>>,
}

/// The regions of candidates, each with its members in rank order, in the order of their best member.
pub fn regions<'a>(placement: &Placement, candidates: &[Candidate<'a>], replicas: i64) -> Vec<Region<'a>> {
    let mut regions: Vec<Region<'a>> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    // The place of the region by what clusters have in common; zero is nobody's.
    let mut of_kin: Vec<Option<usize>> = Vec::new();
    for candidate in candidates {
        let kin = candidate.cluster.kin as usize;
        if let Some(place) = of_kin.get(kin).copied().flatten() {
            regions[place].members.push(*candidate);
            continue;
        }
        let name = candidate.cluster.region.as_str();
        if name.is_empty() {
            continue;
        }
        let place = *places.entry(name).or_insert_with(|| {
            regions.push(Region {
                name: name.to_owned(),
                score: 0,
                members: Vec::new(),
            });
            regions.len() - 1
        });
        if kin > 0 {
            if of_kin.len() <= kin {
                of_kin.resize(kin + 1, None);
            }
            of_kin[kin] = Some(place);
        }
        regions[place].members.push(*candidate);
    }
    let (of_regions, of_clusters) = (constraint(placement, "region"), constraint(placement, "cluster"));
    for region in &mut regions {
        let members: Vec<(i64, i64)> = region
            .members
            .iter()
            .map(|one| (one.score, one.available))
            .collect();
        let duplicated = strategy(placement.replica_scheduling.as_ref()) == Strategy::Duplicated;
        region.score = group_score(
            &members,
            duplicated,
            replicas,
            lower(of_regions),
            lower(of_clusters),
        );
    }
    regions
}

/// Score of a group of clusters, given as (score, available) in rank order: how many could run everything if each must, or
/// how much of the group's part fits; then the average score.
pub fn group_score(
    members: &[(i64, i64)],
    duplicated: bool,
    replicas: i64,
    groups: i64,
    clusters: i64,
) -> i64 {
    let count = members.len() as i64;
    if duplicated {
        let able: Vec<i64> = members
            .iter()
            .filter(|(_, room)| *room >= replicas)
            .map(|(score, _)| *score)
            .collect();
        let number = able.len() as i64;
        return if number == 0 {
            0
        } else {
            UNIT * number + able.iter().sum::<i64>() / number
        };
    }
    let part = if groups > 0 {
        (replicas + groups - 1) / groups
    } else {
        replicas
    };
    let (mut room, mut scores, mut used) = (0_i64, 0, 0);
    for (score, available) in members {
        room = room.saturating_add(*available);
        scores += score;
        used += 1;
        if used >= groups.max(clusters) && room >= part {
            break;
        }
    }
    if room < part {
        UNIT.saturating_mul(room) + if count == 0 { 0 } else { scores / count }
    } else {
        UNIT * part + if used == 0 { 0 } else { scores / used }
    }
}

/// Picks the clusters of the best choice of regions.
///
/// # Errors
/// There is no such choice.
pub fn by_region<'a>(
    placement: &Placement,
    regions: &[Region<'a>],
) -> Result<Vec<Candidate<'a>>, SpreadError> {
    let (of_regions, of_clusters) = (constraint(placement, "region"), constraint(placement, "cluster"));
    if (regions.len() as i64) < lower(of_regions) {
        return Err(SpreadError::TooFewRegions {
            found: regions.len(),
            wanted: lower(of_regions),
        });
    }
    let groups: Vec<Group> = regions
        .iter()
        .map(|region| Group {
            name: region.name.clone(),
            size: region.members.len() as i64,
            weight: region.score,
        })
        .collect();
    let chosen = select_groups(&groups, lower(of_regions), upper(of_regions), lower(of_clusters));
    if chosen.is_empty() {
        return Err(SpreadError::NoRegionCombination);
    }
    let members = chosen
        .iter()
        .filter_map(|name| Some(&regions.iter().find(|region| region.name == *name)?.members));
    let mut used: Vec<Candidate<'a>> = Vec::new();
    let mut rest: Vec<Candidate<'a>> = Vec::new();
    for members in members {
        used.extend(members.first());
        rest.extend(members.iter().skip(1));
    }
    rest.sort_by(Candidate::by_rank);
    let room = upper(of_clusters).saturating_sub(used.len());
    used.extend(rest.into_iter().take(room));
    Ok(used)
}

/// A group to choose from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Name.
    pub name: String,
    /// Clusters in it.
    pub size: i64,
    /// How good it is.
    pub weight: i64,
}

/// Most combinations that are looked at; beyond, the best of those found so far is taken.
const COMBINATIONS_MAX: usize = 20_000;

/// The best combination of `min` to `max` groups that together have at least `target` clusters: highest weight, then most
/// clusters, then the one found first. A shorter one that is the beginning of the best replaces it.
pub fn select_groups(groups: &[Group], min: i64, max: usize, target: i64) -> Vec<String> {
    let min = usize::try_from(min).unwrap_or(0).max(1);
    if groups.is_empty() || groups.len() < min {
        return Vec::new();
    }
    let mut sorted: Vec<&Group> = groups.iter().collect();
    sorted.sort_by(|a, b| {
        a.size
            .cmp(&b.size)
            .then(b.weight.cmp(&a.weight))
            .then(a.name.cmp(&b.name))
    });
    let mut search = Search {
        sorted: &sorted,
        min,
        max,
        target,
        found: Vec::new(),
        only_first: sorted.len() == min,
    };
    search.extend(&mut Vec::new(), 0, 0);
    let mut paths: Vec<Path> = search.found;
    for path in &mut paths {
        path.groups.sort_by(|a, b| {
            sorted[*b]
                .weight
                .cmp(&sorted[*a].weight)
                .then(sorted[*a].name.cmp(&sorted[*b].name))
        });
    }
    paths.sort_by(|a, b| b.weight.cmp(&a.weight).then(b.size.cmp(&a.size)));
    let mut ranked = paths.iter();
    let Some(mut best) = ranked.next() else {
        return Vec::new();
    };
    for other in ranked {
        if other.groups.len() < best.groups.len() && best.groups.starts_with(&other.groups) {
            best = other;
        }
    }
    best.groups
        .iter()
        .map(|index| sorted[*index].name.clone())
        .collect()
}

struct Path {
    groups: Vec<usize>,
    size: i64,
    weight: i64,
}

struct Search<'a> {
    sorted: &'a [&'a Group],
    min: usize,
    max: usize,
    target: i64,
    found: Vec<Path>,
    only_first: bool,
}

impl Search<'_> {
    fn extend(&mut self, chosen: &mut Vec<usize>, size: i64, from: usize) {
        if self.found.len() >= COMBINATIONS_MAX {
            return;
        }
        if size >= self.target && (self.min..=self.max).contains(&chosen.len()) {
            let weight = chosen.iter().map(|index| self.sorted[*index].weight).sum();
            self.found.push(Path {
                groups: chosen.clone(),
                size,
                weight,
            });
            return;
        }
        if chosen.len() >= self.max {
            return;
        }
        for next in from..self.sorted.len() {
            chosen.push(next);
            self.extend(chosen, size + self.sorted[next].size, next + 1);
            chosen.pop();
            // With no more groups than needed there is only one combination.
            if self.only_first {
                return;
            }
        }
    }
}
