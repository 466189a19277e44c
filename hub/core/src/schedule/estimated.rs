//! What fits into each cluster, for one request.

use super::{Request, component};
use crate::cluster::Cluster;
use crate::estimate::quotas;
use crate::estimate::{self, Component, Demand, Limit, NO_LIMIT, Promise};
use crate::fleet::Fleet;

/// What the number of replicas that fit goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Nothing is asked for, so nothing is counted.
    Nothing,
    /// What the cluster reported in all.
    Reported(Limit),
    /// Whole sets of components.
    Sets,
    /// A ResourceQuota of the namespace there is tighter than what the cluster has free.
    Quota,
}

impl Basis {
    /// In words; empty if nothing is counted.
    pub fn words(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Reported(limit) => limit.words(),
            Self::Sets => "whole sets packed by what it reported free",
            Self::Quota => "a ResourceQuota of the namespace there",
        }
    }
}

/// How the room for a request is estimated.
pub(super) struct Estimate<'a> {
    fleet: &'a Fleet,
    request: &'a Request<'a>,
    how: How<'a>,
}

enum How<'a> {
    /// There is nothing to estimate: every cluster has room.
    Nothing,
    /// In replicas, or in pod slots.
    Replicas(Demand<'a>),
    /// In whole sets of components.
    Sets,
}

impl<'a> Estimate<'a> {
    pub(super) fn new(fleet: &'a Fleet, request: &'a Request<'a>) -> Self {
        let how = if request.replicas == 0 && request.components.is_empty() {
            How::Nothing
        } else if component::are_whole_sets(request.components, request.placement) {
            How::Sets
        } else {
            How::Replicas(fleet.demand(request.requests, request.claim))
        };
        Self { fleet, request, how }
    }

    /// What still fits into the cluster at a place.
    pub(super) fn of(&self, place: usize, cluster: &Cluster) -> i64 {
        let fits = match &self.how {
            How::Nothing => return 0,
            How::Replicas(demand) => self.fleet.room(place).map_or(0, |room| room.replicas(demand)),
            How::Sets => estimate::sets(cluster, self.request.components, self.fleet.promised(place)),
        };
        if cluster.quotas.is_empty() || fits == 0 {
            return fits;
        }
        fits.min(self.by_quotas(cluster, self.fleet.promised(place)))
    }

    /// What [`Estimate::of`] goes by for the cluster at a place.
    pub(super) fn basis(&self, place: usize, cluster: &Cluster) -> Basis {
        let (fits, basis) = match &self.how {
            How::Nothing => return Basis::Nothing,
            How::Replicas(demand) => {
                let judged = self.fleet.room(place).map(|room| room.judged(demand));
                let (fits, limit) = judged.unwrap_or((0, Limit::NeverReported));
                (fits, Basis::Reported(limit))
            }
            How::Sets => (
                estimate::sets(cluster, self.request.components, self.fleet.promised(place)),
                Basis::Sets,
            ),
        };
        match self.of(place, cluster) < fits {
            true => Basis::Quota,
            false => basis,
        }
    }

    fn by_quotas(&self, cluster: &Cluster, promised: &[Promise]) -> i64 {
        let (namespace, quotas) = (self.request.namespace, &cluster.quotas);
        match &self.how {
            How::Nothing => NO_LIMIT,
            How::Sets => quotas::sets(quotas, namespace, self.request.components, promised),
            How::Replicas(_) => {
                let one = Component {
                    replicas: 1,
                    requests: self.request.requests.cloned().unwrap_or_default(),
                    priority_class: self.request.priority_class.to_owned(),
                    ..Component::default()
                };
                quotas::sets(quotas, namespace, &[one], promised)
            }
        }
    }
}
