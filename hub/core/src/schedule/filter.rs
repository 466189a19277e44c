//! The filters a cluster has to pass, and why it did not.

use std::collections::BTreeSet;
use std::fmt;

use super::Request;
use crate::affinity::{self, Mismatch};
use crate::cluster::Cluster;
use crate::policy::{ClusterAffinityTerm, Placement};

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
        Filter::ClusterAffinity => affine(cluster, request).map_err(Refusal::Affinity),
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

fn serves(apis: &BTreeSet<(String, String)>, request: &Request<'_>) -> bool {
    apis.iter()
        .any(|(group_version, kind)| group_version == request.api_version && kind == request.kind)
}

fn affine(cluster: &Cluster, request: &Request<'_>) -> Result<(), Mismatch> {
    if let Some(affinity) = &request.placement.cluster_affinity {
        return affinity::check(cluster, affinity);
    }
    let Some(group) = group_in_use(request.placement, request.observed_group) else {
        return Ok(());
    };
    let first = affinity::check(cluster, &group.affinity);
    let tiers = group.overflow_affinities.as_deref().unwrap_or_default();
    match first {
        // Only what has replicas can flow over into further tiers.
        Err(_)
            if request.workload
                && tiers
                    .iter()
                    .any(|tier| affinity::matches(cluster, &tier.affinity)) =>
        {
            Ok(())
        }
        other => other,
    }
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

/// Tier of a cluster in the affinity group in use: 0 if it belongs to the group itself, then the overflow tiers from 1.
pub(super) fn tier_of(cluster: &Cluster, request: &Request<'_>) -> usize {
    let placement = request.placement;
    if placement.cluster_affinity.is_some() {
        return 0;
    }
    let Some(group) = group_in_use(placement, request.observed_group) else {
        return 0;
    };
    if affinity::matches(cluster, &group.affinity) {
        return 0;
    }
    let tiers = group.overflow_affinities.as_deref().unwrap_or_default();
    tiers
        .iter()
        .position(|tier| affinity::matches(cluster, &tier.affinity))
        .map_or(tiers.len() + 1, |tier| tier + 1)
}
