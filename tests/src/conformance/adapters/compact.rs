//! The cases' compact forms of clusters, candidates and targets, as the planner's types.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hub_core::cluster::{Apis, Cluster, Taint};
use hub_core::divide::Share;
use hub_core::estimate::Promise;
use hub_core::estimate::{Component, Grade, Summary, resources};
use hub_core::schedule::Candidate;
use interpreter::NodeClaim;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use shared::time::UnixSeconds;

/// Reads a member of an input; absent and null mean the type's zero value.
pub(super) fn read<T: DeserializeOwned>(value: &Value) -> Option<T> {
    let value = if value.is_null() { json!({}) } else { value.clone() };
    serde_json::from_value(value).ok()
}

pub(super) fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

pub(super) fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

pub(super) fn strings(value: &Value) -> Vec<String> {
    items(value).map(text).collect()
}

pub(super) fn string_map(value: &Value) -> BTreeMap<String, String> {
    value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.clone(), text(value)))
        .collect()
}

pub(super) fn cluster(compact: &Value) -> Cluster {
    let taint = |taint: &Value| Taint {
        key: text(&taint["key"]),
        value: text(&taint["value"]),
        effect: text(&taint["effect"]),
        added: taint["timeAdded"].as_str().and_then(UnixSeconds::parse_rfc3339),
    };
    let mut kinds: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for group in items(&compact["apis"]) {
        kinds
            .entry(text(&group["groupVersion"]))
            .or_default()
            .extend(strings(&group["kinds"]));
    }
    // Lists of the cases are complete unless a condition says otherwise.
    let partial = items(&compact["conditions"])
        .any(|one| one["type"] == "CompleteAPIEnablements" && one["status"] != "True");
    let grade = |grade: &Value| Grade {
        grade: number(&grade["grade"]),
        min: items(&grade["ranges"])
            .flat_map(|range| resources(&json!({text(&range["resource"]): range["min"]})))
            .collect(),
    };
    Cluster {
        name: text(&compact["name"]),
        labels: string_map(&compact["labels"]),
        provider: text(&compact["provider"]),
        region: text(&compact["region"]),
        zones: strings(&compact["zones"]),
        taints: items(&compact["taints"]).map(taint).collect(),
        deleting: compact["deleting"] == true,
        summary: summary(&compact["summary"]),
        grades: items(&compact["models"]).map(grade).collect(),
        apis: Some(Arc::new(Apis { kinds, partial })),
        ..Cluster::default()
    }
}

pub(super) fn summary(compact: &Value) -> Option<Summary> {
    compact.is_object().then(|| Summary {
        allocatable: resources(&compact["allocatable"]),
        allocated: resources(&compact["allocated"]),
        allocating: resources(&compact["allocating"]),
        nodes: items(&compact["modelCounts"])
            .map(|c| (number(&c["grade"]), number(&c["count"])))
            .collect(),
    })
}

/// Candidates of a case; the clusters are kept beside the numbers, since a candidate borrows its cluster.
pub(super) struct Candidates {
    clusters: Vec<Cluster>,
    numbers: Vec<Value>,
}

impl Candidates {
    pub(super) fn read(list: &Value) -> Self {
        Self {
            clusters: items(list).map(|one| cluster(&one["cluster"])).collect(),
            numbers: items(list).cloned().collect(),
        }
    }

    pub(super) fn all(&self) -> Vec<Candidate<'_>> {
        let mut names: Vec<&str> = self.clusters.iter().map(|one| one.name.as_str()).collect();
        names.sort_unstable();
        let place = |cluster: &Cluster| names.binary_search(&cluster.name.as_str()).unwrap_or(0);
        let candidate = |(cluster, numbers)| candidate(cluster, place(cluster), numbers);
        self.clusters.iter().zip(&self.numbers).map(candidate).collect()
    }
}

fn candidate<'c>(cluster: &'c Cluster, place: usize, numbers: &Value) -> Candidate<'c> {
    Candidate {
        cluster,
        place,
        score: number(&numbers["score"]),
        available: number(&numbers["availableReplicas"]),
        allocatable: number(&numbers["allocatableReplicas"]),
        overflow: usize::try_from(number(&numbers["overflowOrder"])).unwrap_or(0),
    }
}

pub(super) fn component(one: &Value) -> Component {
    let required = &one["replicaRequirements"];
    Component {
        name: text(&one["name"]),
        replicas: number(&one["replicas"]),
        requests: resources(&required["resourceRequest"]),
        claim: NodeClaim::deserialize(&required["nodeClaim"]).ok(),
        priority_class: text(&required["priorityClassName"]),
    }
}

pub(super) fn components(list: &Value) -> Vec<Component> {
    items(list).map(component).collect()
}

/// In-flight workloads of a case.
pub(super) fn promises(list: &Value) -> Vec<Promise> {
    items(list)
        .map(|one| Promise::once(&text(&one["namespace"]), components(&one["components"])))
        .collect()
}

pub(super) fn shares(value: &Value) -> Vec<Share> {
    items(value)
        .map(|one| Share {
            cluster: text(&one["name"]),
            replicas: number(&one["replicas"]),
        })
        .collect()
}

pub(super) fn targets(shares: &[Share]) -> Value {
    shares
        .iter()
        .map(|share| json!({"name": share.cluster, "replicas": share.replicas}))
        .collect()
}

pub(super) fn names(candidates: &[Candidate<'_>]) -> Value {
    candidates
        .iter()
        .map(|candidate| json!(candidate.cluster.name))
        .collect()
}
