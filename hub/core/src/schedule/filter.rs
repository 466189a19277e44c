//! The filters a cluster has to pass, and why it did not.

use std::fmt;

use super::asked::Asked;
use crate::affinity::Mismatch;
use crate::cluster::{Cluster, Enablement};
use crate::policy::{ClusterAffinityTerm, Placement};

/// The rule that refused a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is being removed.
    Deleting,
    /// Its enrolment was revoked.
    Revoked,
    /// It does not serve the kind.
    ApiNotServed,
    /// The kind is not on the list of what it serves, and the list is not complete.
    ApiUnknown,
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
    /// Not every workload of its affinity group is there.
    PeersElsewhere,
    /// A workload that it keeps apart from is there.
    PeerThere,
}

impl Refusal {
    /// The reference's name of the filter, as its metrics and documents use it.
    pub fn filter(&self) -> &'static str {
        match self {
            Self::Deleting => "Deleting",
            Self::Revoked => "Revoked",
            Self::ApiNotServed | Self::ApiUnknown => "APIEnablement",
            Self::Taint { .. } => "TaintToleration",
            Self::Affinity(_) => "ClusterAffinity",
            Self::SpreadField(_) => "SpreadConstraint",
            Self::Evicted => "ClusterEviction",
            Self::PeersElsewhere => "WorkloadAffinity",
            Self::PeerThere => "WorkloadAntiAffinity",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deleting => write!(f, "being removed"),
            Self::Revoked => write!(f, "its enrolment was revoked"),
            Self::ApiNotServed => write!(f, "does not serve the kind"),
            Self::ApiUnknown => write!(
                f,
                "does not say whether it serves the kind: its discovery is incomplete"
            ),
            Self::Taint { key, value, effect } => write!(f, "taint {key}={value}:{effect} is not tolerated"),
            Self::Affinity(mismatch) => write!(f, "{mismatch}"),
            Self::SpreadField(field) => write!(f, "has no {field} to spread by"),
            Self::Evicted => write!(f, "the object is being moved away from it"),
            Self::PeersElsewhere => write!(f, "not every workload of its affinity group is there"),
            Self::PeerThere => write!(f, "a workload of its anti-affinity group is there"),
        }
    }
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
    /// No workload that it keeps apart from is there.
    WorkloadAntiAffinity,
    /// Every workload of its affinity group is there.
    WorkloadAffinity,
}

/// All filters, in the order in which the first refusal is reported.
pub const FILTERS: [Filter; 7] = [
    Filter::ApiEnablement,
    Filter::TaintToleration,
    Filter::ClusterAffinity,
    Filter::SpreadConstraint,
    Filter::ClusterEviction,
    Filter::WorkloadAntiAffinity,
    Filter::WorkloadAffinity,
];

/// Asks one filter about one cluster. Clusters that hold the object already pass those about APIs, taints and other
/// workloads: a change there moves nothing.
///
/// # Errors
/// The refusal.
pub fn filter(filter: Filter, cluster: &Cluster, asked: &Asked<'_>) -> Result<(), Refusal> {
    let request = asked.request;
    let holds_it = || asked.held(cluster).is_some();
    match filter {
        Filter::ApiEnablement => {
            let enablement = match &cluster.apis {
                Some(apis) => asked.enablement(apis),
                None => Enablement::Enabled,
            };
            match enablement {
                Enablement::Disabled if !holds_it() => Err(Refusal::ApiNotServed),
                Enablement::Unknown if !holds_it() => Err(Refusal::ApiUnknown),
                _ => Ok(()),
            }
        }
        Filter::TaintToleration => match cluster.untolerated(&request.placement.cluster_tolerations) {
            Some(taint) if !holds_it() => Err(Refusal::Taint {
                key: taint.key.clone(),
                value: taint.value.clone(),
                effect: taint.effect.clone(),
            }),
            _ => Ok(()),
        },
        Filter::ClusterAffinity => asked.affine(cluster).map_err(Refusal::Affinity),
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
        Filter::ClusterEviction if asked.is_evicted(cluster) => Err(Refusal::Evicted),
        Filter::ClusterEviction => Ok(()),
        Filter::WorkloadAffinity => match request.peers {
            Some(peers) if !peers.are_in(&cluster.name) && !holds_it() => Err(Refusal::PeersElsewhere),
            _ => Ok(()),
        },
        Filter::WorkloadAntiAffinity => match request.peers {
            Some(peers) if peers.keep_away_from(&cluster.name) && !holds_it() => Err(Refusal::PeerThere),
            _ => Ok(()),
        },
    }
}

/// Asks all filters.
///
/// # Errors
/// The first refusal.
pub(super) fn all(cluster: &Cluster, asked: &Asked<'_>) -> Result<(), Refusal> {
    if cluster.deleting {
        return Err(Refusal::Deleting);
    }
    if cluster.revoked && asked.held(cluster).is_none() {
        return Err(Refusal::Revoked);
    }
    FILTERS.iter().try_for_each(|one| filter(*one, cluster, asked))
}

/// Whether a cluster passes all filters: [`all`] without the reason. Most clusters have nothing that keeps anything away,
/// and are done after a look at few things.
pub(super) fn passes(cluster: &Cluster, asked: &Asked<'_>) -> bool {
    let serves = || {
        let apis = cluster.apis.as_ref();
        apis.is_none_or(|apis| asked.enablement(apis) == Enablement::Enabled)
    };
    if asked.asks_little() && !cluster.deleting && !cluster.revoked && cluster.taints.is_empty() && serves() {
        return asked.is_affine(cluster);
    }
    all(cluster, asked).is_ok()
}

/// The affinity group in use; `None`: there are no groups, or none of this name, and every cluster is a candidate.
pub(super) fn group_in_use<'a>(
    placement: &'a Placement,
    observed: Option<&str>,
) -> Option<&'a ClusterAffinityTerm> {
    let terms = placement.cluster_affinities.as_deref()?;
    terms
        .iter()
        .find(|term| Some(term.affinity_name.as_str()) == observed)
}
