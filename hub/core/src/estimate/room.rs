//! Room of clusters in columns: what a fleet reports is brought into rows of numbers once, so that an estimate for a
//! thousand clusters is a few divisions each.

use std::collections::HashMap;

use interpreter::NodeClaim;
use shared::grading::amount;

use super::nodes::{self, Node};
use super::{NO_LIMIT, PODS_OF_MODELLED_NODE, Resources};
use crate::cluster::Cluster;

/// The resources that clusters report, each with its column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    names: HashMap<String, usize>,
}

/// What one replica requests, in columns.
#[derive(Clone, Debug)]
pub struct Demand<'a> {
    /// Nothing but a pod slot is asked for.
    only_a_slot: bool,
    /// Column (`None`: no cluster has the resource) and amount, each above zero.
    asks: Vec<(Option<usize>, i64)>,
    requests: Option<&'a Resources>,
    claim: Option<&'a NodeClaim>,
}

/// What one cluster has free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// It has reported.
    known: bool,
    pods: i64,
    /// By column, at least 0.
    free: Box<[i64]>,
    models: Option<Models>,
    nodes: Option<Vec<Node>>,
}

/// What bounds the room of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// It has never reported what it has.
    NeverReported,
    /// Free pod slots.
    PodSlots,
    /// The sums of what is free.
    Summary,
    /// Its resource models.
    Models,
    /// Its nodes, one by one.
    Nodes,
}

impl Limit {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::NeverReported => "it never reported what it has",
            Self::PodSlots => "its free pod slots",
            Self::Summary => "the sums of what is free there",
            Self::Models => "its resource models",
            Self::Nodes => "its nodes one by one",
        }
    }
}

/// Modelled nodes of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Models {
    /// Does any grade bound the column?
    named: Box<[bool]>,
    /// Nodes of one grade, told apart by what is promised to them.
    groups: Vec<Group>,
}

/// Modelled nodes that have the same free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Group {
    /// What each has at least, by column.
    least: Box<[i64]>,
    /// Pod slots of each.
    pods: i64,
    /// How many there are.
    count: i64,
}

/// Groups of modelled nodes that are told apart.
const GROUPS_MAX: usize = 128;

impl Columns {
    /// Columns for everything these clusters report.
    pub fn of<'c>(clusters: impl IntoIterator<Item = &'c Cluster>) -> Self {
        let mut columns = Self::default();
        for cluster in clusters {
            let reported = cluster
                .summary
                .iter()
                .flat_map(|summary| summary.allocatable.keys());
            let modelled = cluster.grades.iter().flat_map(|grade| grade.min.keys());
            for name in reported.chain(modelled) {
                if !columns.names.contains_key(name) {
                    columns.names.insert(name.clone(), columns.names.len());
                }
            }
        }
        columns
    }

    /// What one replica requests. `claim`: which nodes it can run on; it matters where nodes are reported.
    pub fn demand<'a>(&self, requests: Option<&'a Resources>, claim: Option<&'a NodeClaim>) -> Demand<'a> {
        let asks = requests.into_iter().flatten();
        Demand {
            only_a_slot: requests.is_none(),
            asks: asks
                .map(|(name, quantity)| (self.names.get(name).copied(), amount(name, *quantity)))
                .filter(|(_, amount)| *amount > 0)
                .collect(),
            requests,
            claim,
        }
    }

    /// What a cluster has free.
    pub fn room(&self, cluster: &Cluster) -> Room {
        let Some(summary) = &cluster.summary else {
            return Room::default();
        };
        let mut free = vec![0; self.names.len()];
        for name in summary.allocatable.keys() {
            if let Some(column) = self.names.get(name) {
                free[*column] = summary.free(name).max(0);
            }
        }
        Room {
            known: true,
            pods: summary.free_pods(),
            free: free.into(),
            models: self.models(cluster),
            nodes: cluster.nodes.clone(),
        }
    }

    fn models(&self, cluster: &Cluster) -> Option<Models> {
        let counts = &cluster.summary.as_ref()?.nodes;
        if counts.is_empty() || cluster.grades.is_empty() {
            return None;
        }
        let mut named = vec![false; self.names.len()];
        let mut least = |min: &Resources| -> Box<[i64]> {
            let mut row = vec![0; self.names.len()];
            for (name, quantity) in min {
                if let Some(column) = self.names.get(name) {
                    named[*column] = true;
                    row[*column] = amount(name, *quantity);
                }
            }
            row.into()
        };
        let rows: HashMap<i64, Box<[i64]>> = cluster
            .grades
            .iter()
            .map(|grade| (grade.grade, least(&grade.min)))
            .collect();
        let group = |(grade, count): &(i64, i64)| {
            Some(Group {
                least: rows.get(grade)?.clone(),
                pods: PODS_OF_MODELLED_NODE,
                count: *count,
            })
        };
        let counts = counts.iter().filter(|(_, count)| *count > 0);
        Some(Models {
            named: named.into(),
            groups: counts.filter_map(group).collect(),
        })
    }
}

impl Room {
    /// Replicas that still fit, by everything that is known.
    pub fn replicas(&self, demand: &Demand<'_>) -> i64 {
        self.judged(demand).0
    }

    /// [`Room::replicas`], with what it goes by: the tightest of all that is known.
    pub fn judged(&self, demand: &Demand<'_>) -> (i64, Limit) {
        if !self.known {
            return (0, Limit::NeverReported);
        }
        let mut tightest = (self.pods, Limit::PodSlots);
        if !demand.only_a_slot && self.pods > 0 {
            let found = match self.by_models(demand) {
                Some(fits) => (fits, Limit::Models),
                None => (self.by_sums(demand), Limit::Summary),
            };
            if found.0 < tightest.0 {
                tightest = found;
            }
        }
        if let (Some(nodes), Some(requests), true) = (&self.nodes, demand.requests, self.pods > 0) {
            let fits = nodes::replicas(nodes, requests, demand.claim);
            if fits < tightest.0 {
                tightest = (fits, Limit::Nodes);
            }
        }
        tightest
    }

    /// Replicas that fit into what is free in all.
    pub fn by_sums(&self, demand: &Demand<'_>) -> i64 {
        demand
            .asks
            .iter()
            .map(|(column, request)| {
                column
                    .and_then(|at| self.free.get(at))
                    .map_or(0, |free| free / request)
            })
            .min()
            .unwrap_or(NO_LIMIT)
    }

    /// Replicas that fit onto modelled nodes, each taken as having exactly the least of its grade. `None`: there are no
    /// models, or they do not name a resource that is requested, so that they cannot say (the reference counts that as
    /// zero).
    pub fn by_models(&self, demand: &Demand<'_>) -> Option<i64> {
        let models = self.models.as_ref()?;
        let named = |column: &Option<usize>| column.is_some_and(|at| models.named.get(at) == Some(&true));
        if !demand.asks.iter().all(|(column, _)| named(column)) {
            return None;
        }
        let on_one = |group: &Group| {
            demand
                .asks
                .iter()
                .map(|(column, request)| {
                    column
                        .and_then(|at| group.least.get(at))
                        .map_or(0, |has| has / request)
                })
                .min()
                .unwrap_or(group.pods)
                .min(group.pods)
        };
        let fits = models
            .groups
            .iter()
            .map(|group| on_one(group).saturating_mul(group.count));
        Some(fits.fold(0, i64::saturating_add))
    }

    /// Takes what replicas need, as far as it is there: they are promised and not in the cluster's report yet.
    pub fn take(&mut self, demand: &Demand<'_>, replicas: i64) {
        if !self.known || replicas <= 0 {
            return;
        }
        self.pods = self.pods.saturating_sub(replicas).max(0);
        for (column, request) in &demand.asks {
            if let Some(free) = column.and_then(|at| self.free.get_mut(at)) {
                *free = free.saturating_sub(request.saturating_mul(replicas)).max(0);
            }
        }
        if let Some(models) = &mut self.models {
            models.take(demand, replicas);
        }
        if let Some(nodes) = &mut self.nodes {
            let none = Resources::new();
            nodes::take(nodes, demand.requests.unwrap_or(&none), demand.claim, replicas);
        }
    }
}

impl Models {
    /// First fit over the groups; what fits nowhere is left out.
    fn take(&mut self, demand: &Demand<'_>, replicas: i64) {
        let named = |(column, request): &(Option<usize>, i64)| {
            let at = column.filter(|at| self.named.get(*at) == Some(&true))?;
            Some((at, *request))
        };
        let asks: Vec<(usize, i64)> = demand.asks.iter().filter_map(named).collect();
        let mut left = replicas;
        let mut after = Vec::with_capacity(self.groups.len() + 2);
        for group in std::mem::take(&mut self.groups) {
            let fits = asks
                .iter()
                .map(|(at, request)| group.least[*at] / request)
                .min()
                .unwrap_or(group.pods)
                .min(group.pods);
            if left <= 0 || fits <= 0 {
                after.push(group);
                continue;
            }
            let full = (left / fits).min(group.count);
            let part = if full < group.count { left - full * fits } else { 0 };
            left -= full * fits + part;
            let less = |taken: i64, count: i64| {
                let mut least = group.least.clone();
                for (at, request) in &asks {
                    least[*at] -= request * taken;
                }
                Group {
                    least,
                    pods: group.pods - taken,
                    count,
                }
            };
            let rest = group.count - full - i64::from(part > 0);
            let kinds = [(fits, full), (part, i64::from(part > 0)), (0, rest)];
            let kinds = kinds.into_iter().filter(|(_, count)| *count > 0);
            after.extend(kinds.map(|(taken, count)| less(taken, count)));
        }
        after.retain(|group| group.pods > 0);
        while after.len() > GROUPS_MAX {
            // Together they count as the smaller of both: less than there is, never more.
            let Some(last) = after.pop() else { break };
            if let Some(before) = after.last_mut() {
                for (has, also) in before.least.iter_mut().zip(&last.least) {
                    *has = (*has).min(*also);
                }
                before.pods = before.pods.min(last.pods);
                before.count += last.count;
            }
        }
        self.groups = after;
    }
}
