//! Which clusters run an object and with how many replicas: filter, estimate, rank, select, divide.
//!
//! A pure function of binding, clusters and the former result; the order of the clusters does not matter.

mod assign;
mod filter;
pub mod spread;
mod spread_groups;

use std::cmp::Ordering;
use std::collections::BTreeMap;

pub use assign::{Strategy, assign, strategy};
pub use filter::{FILTERS, Filter, Refusal, filter};

use crate::cluster::Cluster;
use crate::divide::Share;
use crate::divide::dynamic::NotEnoughRoom;
use crate::estimate::{self, Resources};
use crate::policy::Placement;
use filter::tier_of;
use spread::SpreadError;

/// What is to be placed.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Group and version of the object.
    pub api_version: &'a str,
    /// Kind of the object.
    pub kind: &'a str,
    /// Its uid; decides the direction of ties.
    pub uid: &'a str,
    /// Wanted replicas.
    pub replicas: i64,
    /// Has it replicas at all? Objects without go to every candidate.
    pub workload: bool,
    /// What one replica requests; `None`: nothing but a pod slot.
    pub requests: Option<&'a Resources>,
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
    /// Clusters that were refused, and why. Sorted by name.
    pub refused: Vec<(String, Refusal)>,
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
}

impl ScheduleError {
    /// Reason of the `Scheduled` condition, as the reference names it.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoClusterFit { .. } => "NoClusterFit",
            Self::Unschedulable(_) => "Unschedulable",
            Self::NoClusterSelected | Self::Spread(_) => "SchedulerError",
        }
    }
}

/// A cluster that passed the filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
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
            .then_with(|| a.cluster.name.cmp(&b.cluster.name))
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

/// Places an object. Affinity groups are tried in order, starting with the one in use; groups before it are not tried
/// again by themselves.
///
/// # Errors
/// Of the first group that was tried, if none worked.
pub fn schedule(clusters: &[Cluster], request: &Request<'_>) -> Result<Placed, ScheduleError> {
    let groups = match &request.placement.cluster_affinities {
        Some(groups) if request.placement.cluster_affinity.is_none() && !groups.is_empty() => groups,
        _ => return attempt(clusters, request),
    };
    let start = if request.fresh {
        0
    } else {
        first_group(request.placement, request.observed_group)
    };
    let mut first_error = None;
    for group in groups.iter().skip(start) {
        let name = group.affinity_name.as_str();
        match attempt(
            clusters,
            &Request {
                observed_group: Some(name),
                ..*request
            },
        ) {
            Ok(placed) => {
                return Ok(Placed {
                    group: Some(name.to_owned()),
                    ..placed
                });
            }
            Err(error) => {
                first_error.get_or_insert(error);
            }
        }
    }
    Err(first_error.unwrap_or(ScheduleError::NoClusterSelected))
}

fn attempt(clusters: &[Cluster], request: &Request<'_>) -> Result<Placed, ScheduleError> {
    let mut refused = Vec::new();
    let mut candidates = Vec::new();
    for cluster in clusters {
        let verdict = if cluster.deleting {
            Err(Refusal::Deleting)
        } else {
            FILTERS.iter().try_for_each(|one| filter(*one, cluster, request))
        };
        match verdict {
            Ok(()) => candidates.push(candidate(cluster, request)),
            Err(refusal) => refused.push((cluster.name.clone(), refusal)),
        }
    }
    refused.sort_by(|a, b| a.0.cmp(&b.0));
    if candidates.is_empty() {
        return Err(ScheduleError::NoClusterFit {
            total: clusters.len(),
            refused,
        });
    }
    candidates.sort_by(Candidate::by_rank);
    let selected = spread::select(request.placement, candidates, request.replicas)?;
    let targets = assign(&selected, request)?;
    Ok(Placed {
        targets,
        group: None,
        refused,
    })
}

fn candidate<'a>(cluster: &'a Cluster, request: &Request<'_>) -> Candidate<'a> {
    let held = request
        .previous
        .iter()
        .find(|share| share.cluster == cluster.name);
    // Without replicas there is nothing to estimate: every cluster has room.
    let allocatable = match request.replicas {
        0 => 0,
        _ => estimate::replicas(cluster, request.requests),
    };
    Candidate {
        cluster,
        score: if held.is_some() { LOCALITY_SCORE } else { 0 },
        available: allocatable.saturating_add(held.map_or(0, |share| share.replicas)),
        allocatable,
        overflow: tier_of(cluster, request),
    }
}
