//! Which clusters run an object and with how many replicas: filter, estimate, rank, select, divide.
//!
//! A pure function of binding, clusters and the former result; the order of the clusters does not matter.

mod asked;
mod assign;
pub mod component;
mod estimated;
mod filter;
pub mod outcome;
pub mod peers;
mod record;
pub mod spread;
mod spread_groups;
pub mod trigger;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use interpreter::NodeClaim;

pub use asked::Asked;
pub use assign::{Strategy, assign, strategy};
pub use filter::{FILTERS, Filter, Refusal, filter};
pub use record::{Record, Try, Unmet};

use crate::cluster::Cluster;
use crate::divide::Share;
use crate::divide::dynamic::NotEnoughRoom;
use crate::estimate::{Component, Resources};
use crate::fleet::Fleet;
use crate::policy::Placement;
pub use estimated::Basis;
use estimated::Estimate;
use peers::Peers;
use spread::SpreadError;

/// What is to be placed.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Group and version of the object.
    pub api_version: &'a str,
    /// Kind of the object.
    pub kind: &'a str,
    /// Namespace of the object; quotas in members are by namespace.
    pub namespace: &'a str,
    /// Its uid; decides the direction of ties.
    pub uid: &'a str,
    /// Wanted replicas.
    pub replicas: i64,
    /// Has it replicas that can be divided? Objects without go to every candidate.
    pub workload: bool,
    /// What one replica requests; `None`: nothing but a pod slot.
    pub requests: Option<&'a Resources>,
    /// Which nodes a replica can run on.
    pub claim: Option<&'a NodeClaim>,
    /// Priority class of its pods; quotas in members can be for some classes only.
    pub priority_class: &'a str,
    /// The kinds of pods of a workload with several of them; empty: it has only one kind.
    pub components: &'a [Component],
    /// Where it may go and how replicas are divided.
    pub placement: &'a Placement,
    /// The former result.
    pub previous: &'a [Share],
    /// The affinity group the former result came from.
    pub observed_group: Option<&'a str>,
    /// Somebody asked for a new start: with the first affinity group, and without regard to former shares.
    pub fresh: bool,
    /// Clusters the object is being moved away from.
    pub evicted: &'a [String],
    /// Clusters that nothing is moved to.
    pub unavailable: &'a [String],
    /// What workloads it belongs together with, or apart from, allow; `None`: it belongs to no group.
    pub peers: Option<&'a Peers>,
    /// What becomes of clusters whose share is zero.
    pub empty_shares: EmptyShares,
}

/// What becomes of clusters whose share of a workload is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EmptyShares {
    /// They are no targets, also if the whole workload is scaled to zero (the reference's default).
    Drop,
    /// They are no targets, unless the whole workload is scaled to zero: then it stays where it was divided to, so that
    /// scaling to zero deletes nothing.
    #[default]
    KeepAtZero,
    /// Every candidate is a target (the reference's `--enable-empty-workload-propagation`).
    Keep,
}

/// Where the object goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// The clusters, with their replicas.
    pub targets: Vec<Share>,
    /// The affinity group that was used.
    pub group: Option<String>,
    /// Each target gets one whole set of the components, and the binding says so.
    pub whole_sets: bool,
}

/// What was found about one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assessment {
    /// Its name.
    pub cluster: String,
    /// The filter that refused it; `None`: it is a candidate.
    pub refusal: Option<Refusal>,
    /// The refusal in full, in words; empty for a candidate.
    pub words: String,
    /// The requirement that it does not meet, if it is refused for one.
    pub unmet: Option<Unmet>,
    /// [`LOCALITY_SCORE`] if it holds the object already, else 0.
    pub score: i64,
    /// Replicas, or whole sets, that still fit.
    pub allocatable: i64,
    /// What the estimate goes by.
    pub basis: Basis,
    /// Replicas it holds; `None`: it was no target.
    pub held: Option<i64>,
    /// Which tier of its affinity group it belongs to.
    pub tier: usize,
}

/// Why nothing could be placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// No cluster passed the filters. The former result is dropped.
    #[error("0/{total} clusters fit: {}", summary(refused))]
    NoClusterFit {
        /// How many clusters there are.
        total: usize,
        /// Why each was refused. Sorted by name.
        refused: Vec<(String, Refusal)>,
    },
    /// No cluster was left to divide over.
    #[error("no cluster was selected")]
    NoClusterSelected,
    /// The spread constraints cannot be met. The former result stays.
    #[error(transparent)]
    Spread(#[from] SpreadError),
    /// There is not room enough. The former result stays.
    #[error(transparent)]
    Unschedulable(#[from] NotEnoughRoom),
    /// A quota on the hub does not allow the result. The former result stays.
    #[error("{0}")]
    QuotaExceeded(String),
}

/// A cluster that passed the filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// Its place among all clusters, by name.
    pub place: usize,
    /// [`LOCALITY_SCORE`] if it holds the object already, else 0.
    pub score: i64,
    /// Replicas it can hold in all: what it holds and what still fits.
    pub available: i64,
    /// Replicas that still fit.
    pub allocatable: i64,
    /// Which tier of its affinity group it belongs to: 0 the first, then the overflow tiers.
    pub overflow: usize,
}

/// Score of a cluster that holds the object already.
pub const LOCALITY_SCORE: i64 = 100;

impl Candidate<'_> {
    /// Rank: earlier tier, higher score, more room, smaller name.
    pub fn by_rank(a: &Self, b: &Self) -> Ordering {
        (a.overflow.cmp(&b.overflow))
            .then(b.score.cmp(&a.score))
            .then(b.available.cmp(&a.available))
            .then(a.place.cmp(&b.place))
    }
}

/// Refusals counted by reason, most frequent first, then by text.
fn summary(refused: &[(String, Refusal)]) -> String {
    if refused.is_empty() {
        return "none is enrolled".to_owned();
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (_, refusal) in refused {
        *counts.entry(refusal.to_string()).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    counts
        .iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Index of the affinity group to start with: the one in use, or the first.
pub fn first_group(placement: &Placement, observed: Option<&str>) -> usize {
    let terms = placement.cluster_affinities.as_deref().unwrap_or_default();
    terms
        .iter()
        .position(|term| Some(term.affinity_name.as_str()) == observed)
        .unwrap_or(0)
}

/// Tries affinity groups one after another, beginning at `start`, until one works. Answers the names that were tried and
/// the result of the first that worked, else the error of the first that was tried: only that one says whether the former
/// result is dropped.
///
/// # Errors
/// Of the first group that was tried, if none worked.
pub fn try_groups<'g, T, E>(
    groups: impl IntoIterator<Item = &'g str>,
    start: usize,
    mut attempt: impl FnMut(&str) -> Result<T, E>,
) -> (Vec<&'g str>, Option<Result<T, E>>) {
    let mut tried = Vec::new();
    let mut first_error = None;
    for name in groups.into_iter().skip(start) {
        tried.push(name);
        match attempt(name) {
            Ok(result) => return (tried, Some(Ok(result))),
            Err(error) => {
                first_error.get_or_insert(error);
            }
        }
    }
    (tried, first_error.map(Err))
}

/// Index of the affinity group to begin with: the one in use, or the first after somebody asked for a new start.
fn start_of(request: &Request<'_>) -> usize {
    if request.fresh {
        0
    } else {
        first_group(request.placement, request.observed_group)
    }
}

/// Places an object. Affinity groups are tried in order, starting with the one in use; groups before it are not tried
/// again by themselves. What is found on the way is written into the record, if there is one.
///
/// # Errors
/// Of the first group that was tried, if none worked.
pub fn schedule(
    fleet: &Fleet,
    request: &Request<'_>,
    mut record: Option<&mut Record>,
) -> Result<Placed, ScheduleError> {
    let groups = match &request.placement.cluster_affinities {
        Some(groups) if request.placement.cluster_affinity.is_none() && !groups.is_empty() => groups,
        _ => return recorded(fleet, request, None, record),
    };
    let names = || groups.iter().map(|group| group.affinity_name.as_str());
    let start = start_of(request);
    if let Some(record) = record.as_deref_mut() {
        record.passed_over = names().take(start).map(str::to_owned).collect();
    }
    let (_, outcome) = try_groups(names(), start, |name| {
        let of_group = Request {
            observed_group: Some(name),
            ..*request
        };
        Ok(Placed {
            group: Some(name.to_owned()),
            ..recorded(fleet, &of_group, Some(name), record.as_deref_mut())?
        })
    });
    outcome.unwrap_or(Err(ScheduleError::NoClusterSelected))
}

/// [`attempt`], written down if there is a record.
fn recorded(
    fleet: &Fleet,
    request: &Request<'_>,
    group: Option<&str>,
    record: Option<&mut Record>,
) -> Result<Placed, ScheduleError> {
    let Some(record) = record else {
        return attempt(fleet, request, None);
    };
    let mut noted = Try::of(group);
    let outcome = attempt(fleet, request, Some(&mut noted));
    noted.outcome = match &outcome {
        Ok(placed) => Ok(placed.targets.clone()),
        Err(error) => Err(error.clone()),
    };
    record.tries.push(noted);
    outcome
}

/// The request as the affinity group in use sees it, or the first; unchanged without groups.
fn of_first_group<'a>(request: &Request<'a>) -> Request<'a> {
    let groups = request.placement.cluster_affinities.as_deref();
    let group = groups.unwrap_or_default().get(start_of(request));
    Request {
        observed_group: group.map(|group| group.affinity_name.as_str()),
        ..*request
    }
}

/// Clusters that pass the filters. With affinity groups, of the one in use, or the first.
pub fn candidates(fleet: &Fleet, request: &Request<'_>) -> BTreeSet<String> {
    let request = of_first_group(request);
    let asked = Asked::new(&request);
    let passed = fleet.clusters().iter();
    passed
        .filter(|cluster| filter::all(cluster, &asked).is_ok())
        .map(|cluster| cluster.name.clone())
        .collect()
}

/// What filters and estimates say about every cluster, by name: for explanations of what stays where it is. With affinity
/// groups, as the one in use sees it, or the first.
pub fn assess(fleet: &Fleet, request: &Request<'_>) -> Vec<Assessment> {
    let request = of_first_group(request);
    let asked = Asked::new(&request);
    let room = Estimate::new(fleet, &request);
    judged(fleet, &asked, &room)
}

fn judged(fleet: &Fleet, asked: &Asked<'_>, room: &Estimate<'_>) -> Vec<Assessment> {
    let of_one = |(place, cluster)| {
        let refusal = filter::all(cluster, asked).err();
        assessment(place, cluster, asked, room, refusal)
    };
    fleet.clusters().iter().enumerate().map(of_one).collect()
}

/// What there is to say of one cluster whose filters answered so.
fn assessment(
    place: usize,
    cluster: &Cluster,
    asked: &Asked<'_>,
    room: &Estimate<'_>,
    refusal: Option<Refusal>,
) -> Assessment {
    let candidate = candidate(place, cluster, asked, room);
    let (unmet, words) = refusal.as_ref().map_or((None, String::new()), |refusal| {
        record::detail(refusal, cluster, asked)
    });
    Assessment {
        cluster: cluster.name.clone(),
        refusal,
        words,
        unmet,
        score: candidate.score,
        allocatable: candidate.allocatable,
        basis: room.basis(place, cluster),
        held: asked.held(cluster),
        tier: candidate.overflow,
    }
}

fn attempt(
    fleet: &Fleet,
    request: &Request<'_>,
    mut noted: Option<&mut Try>,
) -> Result<Placed, ScheduleError> {
    let asked = Asked::new(request);
    let room = Estimate::new(fleet, request);
    if let Some(noted) = noted.as_deref_mut() {
        noted.judged = judged(fleet, &asked, &room);
    }
    let mut candidates: Vec<Candidate<'_>> = Vec::with_capacity(fleet.clusters().len());
    for (place, cluster) in fleet.clusters().iter().enumerate() {
        if filter::passes(cluster, &asked) {
            candidates.push(candidate(place, cluster, &asked, &room));
        }
    }
    if candidates.is_empty() {
        let refused = fleet
            .clusters()
            .iter()
            .filter_map(|cluster| Some((cluster.name.clone(), filter::all(cluster, &asked).err()?)));
        return Err(ScheduleError::NoClusterFit {
            total: fleet.clusters().len(),
            refused: refused.collect(),
        });
    }
    if rank_matters(request) {
        candidates = ranked(candidates);
    }
    let whole_sets = component::are_whole_sets(request.components, request.placement);
    let need = if whole_sets { 1 } else { request.replicas };
    let selected = spread::select(request.placement, candidates, need)?;
    let divisions = noted.map(|noted| {
        noted.selected = selected.iter().map(|one| one.cluster.name.clone()).collect();
        &mut noted.divisions
    });
    Ok(Placed {
        targets: assign(&selected, request, divisions)?,
        group: None,
        whole_sets: component::are_counted(request.components.len(), request.placement),
    })
}

/// Brings candidates, given in the order of their places, into rank order. Rank and number of each are one integer, so that
/// the sort moves 16 bytes for each and looks at nothing else.
fn ranked(mut candidates: Vec<Candidate<'_>>) -> Vec<Candidate<'_>> {
    let key = |(number, one): (usize, &Candidate<'_>)| {
        let tier = u128::from(u16::try_from(one.overflow).ok()?);
        let score = u128::from(u8::try_from(LOCALITY_SCORE.checked_sub(one.score)?).ok()?);
        let room = u128::from(i64::MAX.abs_diff(one.available));
        let number = u128::from(u32::try_from(number).ok()?);
        Some(tier << 104 | score << 96 | room << 32 | number)
    };
    let keys: Option<Vec<u128>> = candidates.iter().enumerate().map(key).collect();
    let Some(mut keys) = keys else {
        // More tiers than fit, or a score that nothing gives.
        candidates.sort_unstable_by(Candidate::by_rank);
        return candidates;
    };
    keys.sort_unstable();
    // The lowest 32 bits are the number.
    keys.into_iter()
        .filter_map(|key| candidates.get(key as u32 as usize).copied())
        .collect()
}

/// Does the order of the candidates matter? Weights alone give the same whatever the order, over all candidates.
fn rank_matters(request: &Request<'_>) -> bool {
    let placement = request.placement;
    let by_weight = matches!(
        strategy(placement.replica_scheduling.as_ref()),
        Strategy::DynamicWeight | Strategy::StaticWeight
    );
    !(by_weight && request.workload && placement.spread_constraints.is_empty())
        || request.empty_shares == EmptyShares::Keep
}

/// The score of a cluster: one that holds the object already is preferred.
pub fn locality(asked: &Asked<'_>, cluster: &Cluster) -> i64 {
    if asked.held(cluster).is_some() {
        LOCALITY_SCORE
    } else {
        0
    }
}

fn candidate<'a>(
    place: usize,
    cluster: &'a Cluster,
    asked: &Asked<'_>,
    room: &Estimate<'_>,
) -> Candidate<'a> {
    let allocatable = room.of(place, cluster);
    Candidate {
        cluster,
        place,
        score: locality(asked, cluster),
        available: allocatable.saturating_add(asked.held(cluster).unwrap_or(0)),
        allocatable,
        overflow: asked.tier(cluster),
    }
}

#[cfg(test)]
mod tests;
