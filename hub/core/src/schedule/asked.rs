//! A request made ready for many clusters.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::filter::group_in_use;
use super::{Request, Unmet};
use crate::affinity::{Matcher, Mismatch};
use crate::cluster::{Apis, Cluster, Enablement};

/// A request with what is looked up for every cluster.
pub struct Asked<'a> {
    /// The request.
    pub request: &'a Request<'a>,
    held: HashMap<&'a str, i64>,
    evicted: HashSet<&'a str>,
    affinity: Option<Matcher<'a>>,
    tiers: Vec<Matcher<'a>>,
    /// Does the list of APIs looked at last serve the kind? Most clusters of a fleet share one list.
    served: RefCell<Option<(Arc<Apis>, Enablement)>>,
}

impl<'a> Asked<'a> {
    /// Prepares a request.
    pub fn new(request: &'a Request<'a>) -> Self {
        let placement = request.placement;
        let (affinity, tiers) = match &placement.cluster_affinity {
            Some(affinity) => (Some(affinity), None),
            None => {
                let group = group_in_use(placement, request.observed_group);
                (
                    group.map(|group| &group.affinity),
                    group.and_then(|group| group.overflow_affinities.as_deref()),
                )
            }
        };
        Self {
            request,
            held: request
                .previous
                .iter()
                .map(|share| (share.cluster.as_str(), share.replicas))
                .collect(),
            evicted: request
                .evicted
                .iter()
                .chain(request.unavailable)
                .map(String::as_str)
                .collect(),
            affinity: affinity.map(Matcher::new),
            tiers: tiers
                .unwrap_or_default()
                .iter()
                .map(|tier| Matcher::new(&tier.affinity))
                .collect(),
            served: RefCell::new(None),
        }
    }

    /// Replicas of the former result in the cluster; `None`: it was no target.
    pub fn held(&self, cluster: &Cluster) -> Option<i64> {
        if self.held.is_empty() {
            return None;
        }
        self.held.get(cluster.name.as_str()).copied()
    }

    /// Is the object being moved away from the cluster?
    pub fn is_evicted(&self, cluster: &Cluster) -> bool {
        self.evicted.contains(cluster.name.as_str())
    }

    /// Does a cluster with this list serve the kind?
    pub fn enablement(&self, apis: &Arc<Apis>) -> Enablement {
        let mut served = self.served.borrow_mut();
        if let Some((known, enablement)) = &*served
            && Arc::ptr_eq(known, apis)
        {
            return *enablement;
        }
        let enablement = apis.enablement(self.request.api_version, self.request.kind);
        *served = Some((apis.clone(), enablement));
        enablement
    }

    /// Does the cluster satisfy the affinity, or a further tier of its group? Only what has replicas can flow over.
    ///
    /// # Errors
    /// The part of the affinity that does not hold.
    pub fn affine(&self, cluster: &Cluster) -> Result<(), Mismatch> {
        let Some(affinity) = &self.affinity else {
            return Ok(());
        };
        let flows_over = || self.request.workload && self.tiers.iter().any(|tier| tier.matches(cluster));
        match affinity.check(cluster) {
            Err(_) if flows_over() => Ok(()),
            other => other,
        }
    }

    /// [`Asked::affine`] as a yes or no.
    pub(super) fn is_affine(&self, cluster: &Cluster) -> bool {
        self.affinity
            .as_ref()
            .is_none_or(|affinity| affinity.matches(cluster))
            || (self.request.workload && self.tiers.iter().any(|tier| tier.matches(cluster)))
    }

    /// Is nothing asked of clusters beyond APIs, taints and affinity?
    pub(super) fn asks_little(&self) -> bool {
        self.evicted.is_empty()
            && self.request.peers.is_none()
            && self.request.placement.spread_constraints.is_empty()
    }

    /// The requirement of the affinity that the cluster does not satisfy, if it is one on labels or fields.
    pub fn unmet(&self, cluster: &Cluster) -> Option<Unmet> {
        self.affinity.as_ref()?.unmet(cluster)
    }

    /// The clusters that the affinity names.
    pub fn named(&self) -> &'a [String] {
        self.affinity.as_ref().map(Matcher::named).unwrap_or_default()
    }

    /// Tier of a cluster in the affinity group in use: 0 if it belongs to the group itself, then the overflow tiers from 1.
    pub fn tier(&self, cluster: &Cluster) -> usize {
        if self.tiers.is_empty() || self.affinity.as_ref().is_none_or(|first| first.matches(cluster)) {
            return 0;
        }
        let tier = self.tiers.iter().position(|tier| tier.matches(cluster));
        tier.map_or(self.tiers.len() + 1, |tier| tier + 1)
    }
}
