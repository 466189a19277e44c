//! How much more fits into a cluster, by what it reported: single nodes where it names them, the resource models if there
//! are any, else the summary; and never more than quotas there allow.
//!
//! Source of the arithmetic: the reference's general and accurate estimators. CPU counts in thousandths, everything else in
//! whole units, both rounded up. Where the reference simulates replica by replica, this divides.
//!
//! [`room`] answers for plain replicas, prepared for many clusters; this file for whole sets of components.

pub mod first_fit;
pub mod nodes;
mod promise;
pub mod quotas;
pub mod room;

use std::collections::BTreeMap;

use interpreter::NodeClaim;
use serde_json::Value;
use shared::grading;
use shared::object::Quantity;

use crate::cluster::Cluster;
use first_fit::Scale;
pub use promise::{Footprint, Promise};
pub use room::{Columns, Demand, Limit, Room};

/// Quantities by name of the resource.
pub type Resources = BTreeMap<String, Quantity>;

/// What an estimate says when nothing bounds it.
pub const NO_LIMIT: i64 = i32::MAX as i64;

/// Pod slots of a node that is only known by its grade.
pub const PODS_OF_MODELLED_NODE: i64 = 110;

/// What a cluster has and uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Of all nodes.
    pub allocatable: Resources,
    /// Used by running pods.
    pub allocated: Resources,
    /// Of pods that wait for a node.
    pub allocating: Resources,
    /// Nodes by grade of the resource models.
    pub nodes: Vec<(i64, i64)>,
}

/// One grade of the resource models: what a node of this grade has at least.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grade {
    /// Number of the grade.
    pub grade: i64,
    /// The least a node has, by resource.
    pub min: Resources,
}

/// One kind of pods of a workload, with the replicas of one set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Component {
    /// Its name.
    pub name: String,
    /// Replicas in one set.
    pub replicas: i64,
    /// What one replica requests.
    pub requests: Resources,
    /// Which nodes a replica can run on.
    pub claim: Option<NodeClaim>,
    /// Priority class of its pods; quotas can be for some classes only.
    pub priority_class: String,
}

impl Component {
    /// A component with the requirements that the interpreter read.
    pub fn read(name: &str, replicas: i64, requirements: Option<&interpreter::ReplicaRequirements>) -> Self {
        let requests = requirements
            .into_iter()
            .flat_map(|required| &required.resource_request);
        Self {
            name: name.to_owned(),
            replicas,
            requests: requests
                .filter_map(|(name, text)| Some((name.clone(), text.parse().ok()?)))
                .collect(),
            claim: requirements.and_then(|required| required.node_claim.clone()),
            priority_class: requirements
                .and_then(|required| required.priority_class_name.clone())
                .unwrap_or_default(),
        }
    }
}

/// What one set of components requests in all.
pub fn sum(components: &[Component]) -> Resources {
    let mut sum = Resources::new();
    for one in components {
        for (name, quantity) in &one.requests {
            let total = sum.entry(name.clone()).or_default();
            *total = total.plus(quantity.times(one.replicas));
        }
    }
    sum
}

/// Reads quantities; a text that is none is left out.
pub fn resources(value: &Value) -> Resources {
    let quantity = |value: &Value| match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    };
    value
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| Some((name.clone(), quantity(value)?)))
        .collect()
}

impl Summary {
    /// Reads `status.resourceSummary` of a Cluster.
    pub fn read(summary: &Value) -> Self {
        let grades = summary["allocatableModelings"].as_array();
        Self {
            allocatable: resources(&summary["allocatable"]),
            allocated: resources(&summary["allocated"]),
            allocating: resources(&summary["allocating"]),
            nodes: grades
                .into_iter()
                .flatten()
                .filter_map(|count| Some((count["grade"].as_i64()?, count["count"].as_i64()?)))
                .collect(),
        }
    }

    /// What is left of a resource, in the units that count; negative if more is used than there is.
    pub fn free(&self, name: &str) -> i64 {
        let of = |resources: &Resources| {
            resources
                .get(name)
                .map_or(0, |quantity| grading::amount(name, *quantity))
        };
        of(&self.allocatable)
            .saturating_sub(of(&self.allocated))
            .saturating_sub(of(&self.allocating))
    }

    /// What is left of a resource, exactly.
    fn left(&self, name: &str) -> Quantity {
        let of = |resources: &Resources| resources.get(name).copied().unwrap_or_default();
        of(&self.allocatable)
            .minus(of(&self.allocated))
            .minus(of(&self.allocating))
    }

    /// Free pod slots.
    pub fn free_pods(&self) -> i64 {
        self.free("pods").max(0)
    }

    /// The summary with what is promised and not reported yet, as if its pods waited for a node.
    #[must_use]
    pub fn with(&self, promised: &[Promise]) -> Self {
        let mut summary = self.clone();
        for promise in promised {
            let pods: i64 = promise.of.components.iter().map(|one| one.replicas).sum();
            let mut taken = sum(&promise.of.components);
            taken.insert("pods".to_owned(), Quantity::from_units(pods));
            for (name, quantity) in taken {
                let waiting = summary.allocating.entry(name).or_default();
                *waiting = waiting.plus(quantity.times(promise.times));
            }
        }
        summary
    }
}

/// Reads `spec.resourceModels` of a Cluster.
pub fn grades(models: &Value) -> Vec<Grade> {
    let read = |model: &Value| {
        let ranges = model["ranges"].as_array().into_iter().flatten();
        let min = ranges.filter_map(|range| {
            let name = range["name"].as_str()?;
            Some((
                name.to_owned(),
                resources(&serde_json::json!({name: range["min"]})).remove(name)?,
            ))
        });
        Some(Grade {
            grade: model["grade"].as_i64()?,
            min: min.collect(),
        })
    };
    models.as_array().into_iter().flatten().filter_map(read).collect()
}

/// Replicas with these requests that still fit, by everything the cluster reported. Without a summary nothing is known to
/// fit; `None`: replicas require nothing but a pod slot.
pub fn replicas(cluster: &Cluster, requests: Option<&Resources>, promised: &[Promise]) -> i64 {
    if promised.is_empty() {
        let columns = Columns::of([cluster]);
        return columns.room(cluster).replicas(&columns.demand(requests, None));
    }
    let summary = cluster.summary.as_ref().map(|summary| summary.with(promised));
    let left = Cluster {
        summary: summary.clone(),
        // The models say nothing about what is left of a node that something was promised to; sets do.
        grades: Vec::new(),
        ..cluster.clone()
    };
    let by_summary = replicas(&left, requests, &[]);
    let one = [Component {
        replicas: 1,
        requests: requests.cloned().unwrap_or_default(),
        ..Component::default()
    }];
    let pods = summary.map_or(0, |summary| summary.free_pods());
    match sets_by_models(cluster, &one, pods, promised) {
        Some(by_models) => by_models.min(pods),
        None => by_summary,
    }
}

/// Complete sets of these components that still fit, by everything the cluster reported.
pub fn sets(cluster: &Cluster, components: &[Component], promised: &[Promise]) -> i64 {
    let Some(summary) = &cluster.summary else { return 0 };
    let summary = summary.with(promised);
    let most = sets_by_summary(&summary, components);
    if most == 0 {
        return 0;
    }
    let by_models = sets_by_models(cluster, components, most, promised).unwrap_or(most);
    let by_nodes = match &cluster.nodes {
        Some(nodes) => nodes::sets(nodes, components, by_models, promised),
        None => by_models,
    };
    by_models.min(by_nodes)
}

/// Sets that fit into what is free in all. Quantities are compared by value, whatever suffix they are written with.
fn sets_by_summary(summary: &Summary, components: &[Component]) -> i64 {
    let pods: i64 = components.iter().map(|one| one.replicas).sum();
    let by_pods = if pods > 0 {
        summary.free_pods() / pods
    } else {
        summary.free_pods()
    };
    sum(components)
        .iter()
        .filter_map(|(name, need)| summary.left(name).divided_by(*need))
        .fold(by_pods, i64::min)
        .max(0)
}

/// Sets that fit onto modelled nodes, each taken as having exactly the least of its grade, at most `most`. `None`: there
/// are no models, or they do not name a resource that is requested, so that they cannot say.
pub fn sets_by_models(
    cluster: &Cluster,
    components: &[Component],
    most: i64,
    promised: &[Promise],
) -> Option<i64> {
    let summary = cluster.summary.as_ref()?;
    if summary.nodes.is_empty() || cluster.grades.is_empty() {
        return None;
    }
    let named = |name: &String| cluster.grades.iter().any(|grade| grade.min.contains_key(name));
    let asked = |one: &Component| {
        let amounts = one.requests.iter();
        amounts
            .filter(|(name, quantity)| grading::amount(name, **quantity) > 0)
            .all(|(name, _)| named(name))
    };
    if !components.iter().all(asked) {
        return None;
    }
    let all = promised.iter().flat_map(|promise| &promise.of.components);
    let scale = Scale::of(components.iter().chain(all).map(|one| &one.requests));
    let mut counts = summary.nodes.clone();
    counts.sort_unstable();
    let mut bins = Vec::new();
    for (grade, count) in counts {
        let Some(least) = cluster.grades.iter().find(|known| known.grade == grade) else {
            continue;
        };
        let room = first_fit::NODES_MAX - bins.len();
        let count = usize::try_from(count).unwrap_or(0).min(room);
        bins.resize(bins.len() + count, scale.bin(&least.min, PODS_OF_MODELLED_NODE));
    }
    let items = |components: &[Component]| -> Vec<_> {
        components
            .iter()
            .map(|one| scale.item(one.replicas, &one.requests, None))
            .collect()
    };
    for promise in promised {
        // One that does not fit takes what it can.
        first_fit::pack(&mut bins, &items(&promise.of.components), promise.times);
    }
    let asks_nothing = components.iter().all(|one| {
        one.requests
            .iter()
            .all(|(name, quantity)| grading::amount(name, *quantity) <= 0)
    });
    if asks_nothing {
        return Some(most);
    }
    Some(first_fit::pack(&mut bins, &items(components), most))
}

#[cfg(test)]
mod tests;
