//! Which clusters run an object and with how many replicas: filter, rank, divide.
//!
//! A pure function of binding, clusters and the former result; the order of the clusters does not matter.

use std::collections::BTreeMap;
use std::fmt;

use crate::affinity::{self, Mismatch};
use crate::cluster::Cluster;
use crate::divide::{self, Share};
use crate::policy::{ClusterAffinity, DivisionPreference, Placement, ReplicaScheduling, SchedulingType};

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
    /// Where it may go and how replicas are divided.
    pub placement: &'a Placement,
    /// The former result.
    pub previous: &'a [Share],
    /// The affinity group the former result came from.
    pub observed_group: Option<&'a str>,
    /// Start with the first affinity group again.
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

/// The rule that refused a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is being removed.
    Deleting,
    /// It does not serve the kind.
    ApiNotServed,
    /// It has a taint that is not tolerated.
    Taint {
        /// Key of the taint.
        key: String,
        /// Value of the taint.
        value: String,
        /// Effect of the taint.
        effect: String,
    },
    /// It does not satisfy the cluster affinity.
    Affinity(Mismatch),
    /// A spread constraint groups by a field the cluster does not have.
    SpreadField(&'static str),
    /// The object is being moved away from it.
    Evicted,
}

impl Refusal {
    /// The reference's name of the filter, as its metrics and documents use it.
    pub fn filter(&self) -> &'static str {
        match self {
            Self::Deleting => "Deleting",
            Self::ApiNotServed => "APIEnablement",
            Self::Taint { .. } => "TaintToleration",
            Self::Affinity(_) => "ClusterAffinity",
            Self::SpreadField(_) => "SpreadConstraint",
            Self::Evicted => "ClusterEviction",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deleting => write!(f, "being removed"),
            Self::ApiNotServed => write!(f, "does not serve the kind"),
            Self::Taint { key, value, effect } => write!(f, "taint {key}={value}:{effect} is not tolerated"),
            Self::Affinity(mismatch) => write!(f, "{mismatch}"),
            Self::SpreadField(field) => write!(f, "has no {field} to spread by"),
            Self::Evicted => write!(f, "the object is being moved away from it"),
        }
    }
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
    /// The placement asks for a division that is not known.
    #[error("the replica scheduling of the placement is not supported")]
    UnsupportedStrategy,
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

/// One of the filters a cluster has to pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// The cluster serves the kind.
    ApiEnablement,
    /// Its taints are tolerated.
    TaintToleration,
    /// It satisfies the affinity.
    ClusterAffinity,
    /// It has the fields that spread constraints group by.
    SpreadConstraint,
    /// The object is not being moved away from it.
    ClusterEviction,
}

/// All filters, in the order in which the first refusal is reported.
pub const FILTERS: [Filter; 5] = [
    Filter::ApiEnablement,
    Filter::TaintToleration,
    Filter::ClusterAffinity,
    Filter::SpreadConstraint,
    Filter::ClusterEviction,
];

/// Asks one filter about one cluster. Clusters that hold the object already pass the first two: a new taint moves nothing.
///
/// # Errors
/// The refusal.
pub fn filter(filter: Filter, cluster: &Cluster, request: &Request<'_>) -> Result<(), Refusal> {
    let holds_it = || request.previous.iter().any(|share| share.cluster == cluster.name);
    match filter {
        Filter::ApiEnablement => match &cluster.apis {
            Some(apis) if !holds_it() && !serves(apis, request) => Err(Refusal::ApiNotServed),
            _ => Ok(()),
        },
        Filter::TaintToleration => match cluster.untolerated(&request.placement.cluster_tolerations) {
            Some(taint) if !holds_it() => Err(Refusal::Taint {
                key: taint.key.clone(),
                value: taint.value.clone(),
                effect: taint.effect.clone(),
            }),
            _ => Ok(()),
        },
        Filter::ClusterAffinity => match affinity_of(request.placement, request.observed_group) {
            Some(affinity) => affinity::check(cluster, affinity).map_err(Refusal::Affinity),
            None => Ok(()),
        },
        Filter::SpreadConstraint => {
            let missing = request
                .placement
                .spread_constraints
                .iter()
                .find_map(|constraint| match constraint.spread_by_field.as_str() {
                    "provider" if cluster.provider.is_empty() => Some("provider"),
                    "region" if cluster.region.is_empty() => Some("region"),
                    "zone" if cluster.zones.is_empty() => Some("zone"),
                    _ => None,
                });
            missing.map_or(Ok(()), |field| Err(Refusal::SpreadField(field)))
        }
        Filter::ClusterEviction if request.evicted.contains(&cluster.name) => Err(Refusal::Evicted),
        Filter::ClusterEviction => Ok(()),
    }
}

fn serves(apis: &std::collections::BTreeSet<(String, String)>, request: &Request<'_>) -> bool {
    apis.iter()
        .any(|(group_version, kind)| group_version == request.api_version && kind == request.kind)
}

/// The affinity that counts: the single one, or that of the group in use. `None`: every cluster is a candidate.
fn affinity_of<'a>(placement: &'a Placement, group: Option<&str>) -> Option<&'a ClusterAffinity> {
    if placement.cluster_affinity.is_some() {
        return placement.cluster_affinity.as_ref();
    }
    let terms = placement.cluster_affinities.as_deref()?;
    terms
        .iter()
        .find(|term| Some(term.affinity_name.as_str()) == group)
        .map(|term| &term.affinity)
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
            Ok(()) => candidates.push(cluster),
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
    rank(&mut candidates, request);
    let targets = assign(&candidates, request)?;
    Ok(Placed {
        targets,
        group: None,
        refused,
    })
}

/// Clusters that hold the object already go first, then by name.
fn rank(candidates: &mut [&Cluster], request: &Request<'_>) {
    let holds_it = |cluster: &Cluster| request.previous.iter().any(|share| share.cluster == cluster.name);
    candidates.sort_by_cached_key(|cluster| (!holds_it(cluster), cluster.name.clone()));
}

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
    match scheduling.replica_division_preference {
        Some(DivisionPreference::Aggregated) => Strategy::Aggregated,
        _ if scheduling
            .weight_preference
            .as_ref()
            .is_some_and(|weights| !weights.dynamic_weight.is_empty()) =>
        {
            Strategy::DynamicWeight
        }
        _ => Strategy::StaticWeight,
    }
}

/// Divides over selected clusters, given in rank order.
///
/// # Errors
/// There is no cluster, or the strategy is not supported.
pub fn assign(selected: &[&Cluster], request: &Request<'_>) -> Result<Vec<Share>, ScheduleError> {
    if selected.is_empty() {
        return Err(ScheduleError::NoClusterSelected);
    }
    let everywhere = || divide::duplicated(0, selected.iter().copied());
    if !request.workload {
        return Ok(everywhere());
    }
    let scheduling = request.placement.replica_scheduling.as_ref();
    let mut shares = match strategy(scheduling) {
        Strategy::Duplicated => divide::duplicated(request.replicas, selected.iter().copied()),
        Strategy::StaticWeight => {
            let preference = scheduling.and_then(|scheduling| scheduling.weight_preference.as_ref());
            divide::static_weights(request.replicas, selected, preference, request.uid)
        }
        Strategy::DynamicWeight | Strategy::Aggregated => return Err(ScheduleError::UnsupportedStrategy),
    };
    let keep = match request.empty_shares {
        EmptyShares::Drop | EmptyShares::Keep => false,
        EmptyShares::KeepAtZero => request.replicas == 0,
    };
    if !keep {
        shares.retain(|share| share.replicas > 0);
    }
    if request.empty_shares == EmptyShares::Keep {
        let missing: Vec<Share> = everywhere()
            .into_iter()
            .filter(|zero| shares.iter().all(|s| s.cluster != zero.cluster))
            .collect();
        shares.extend(missing);
    }
    Ok(shares)
}
