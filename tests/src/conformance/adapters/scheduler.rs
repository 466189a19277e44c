//! `scheduler/*`: matching and affinity of stages 5 and 6, `hub_core::{matching, affinity}`; the rest is in
//! [`super::placing`], [`super::estimating`] and [`super::deciding`].

use std::collections::BTreeMap;

use hub_core::affinity;
use hub_core::matching::{self, Subject};
use hub_core::plan::merge_suspension;
use hub_core::policy::{
    AnyPropagationPolicy, ClusterAffinity, Placement, Requirement, ResourceSelector, Suspension,
};
use hub_core::schedule;
use serde_json::{Value, json};

use super::super::{Answer, Case};
use super::compact::{cluster, items, read, string_map, strings, text};

pub(super) fn answer(case: &Case) -> Answer {
    let input = &case.input;
    match case.op.as_str() {
        "clusterMatches" => cluster_matches(input),
        "extractClusterFields" => {
            let cluster = cluster(&input["cluster"]);
            let field = |key| Some((key, affinity::field_of(&cluster, key)?));
            let fields: BTreeMap<&str, &str> = ["provider", "region"].into_iter().filter_map(field).collect();
            Answer::Result(json!({"fields": fields}))
        }
        "matchZones" => match read::<Requirement>(&input["expression"]) {
            Some(requirement) => Answer::Result(
                json!({"matches": affinity::zones_match(&strings(&input["zones"]), &requirement)}),
            ),
            None => Answer::error(),
        },
        "selectPolicy" => select_policy(input),
        "resourceSelectorPriority" => selector_priority(input),
        "affinityIndex" => affinity_index(input),
        "mergeSuspension" => suspension(&input["binding"], &input["policy"]),
        _ => {
            let others = [
                super::placing::answer,
                super::estimating::answer,
                super::deciding::answer,
            ];
            let answers = others.into_iter().map(|answer| answer(case));
            answers
                .into_iter()
                .find(|answer| *answer != Answer::Unsupported)
                .unwrap_or(Answer::Unsupported)
        }
    }
}

/// The merged suspension; also asked by the naming cases.
pub(super) fn suspension(binding: &Value, policy: &Value) -> Answer {
    let read = |value: &Value| serde_json::from_value::<Option<Suspension>>(value.clone());
    match (read(binding), read(policy)) {
        (Ok(binding), Ok(policy)) => {
            Answer::Result(json!({"merged": merge_suspension(binding.as_ref(), policy.as_ref())}))
        }
        _ => Answer::error(),
    }
}

fn cluster_matches(input: &Value) -> Answer {
    match read::<ClusterAffinity>(&input["affinity"]) {
        Some(affinity) => {
            Answer::Result(json!({"matches": affinity::matches(&cluster(&input["cluster"]), &affinity)}))
        }
        None => Answer::error(),
    }
}

struct Resource {
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
    labels: BTreeMap<String, String>,
}

impl Resource {
    fn read(value: &Value) -> Self {
        Self {
            api_version: text(&value["apiVersion"]),
            kind: text(&value["kind"]),
            namespace: text(&value["namespace"]),
            name: text(&value["name"]),
            labels: string_map(&value["labels"]),
        }
    }

    fn subject(&self) -> Subject<'_> {
        Subject {
            api_version: &self.api_version,
            kind: &self.kind,
            namespace: &self.namespace,
            name: &self.name,
            labels: &self.labels,
        }
    }
}

fn select_policy(input: &Value) -> Answer {
    let resource = Resource::read(&input["resource"]);
    let policy = |policy: &Value| {
        AnyPropagationPolicy::read(&json!({
            "metadata": {"name": policy["name"]},
            "spec": {"priority": policy["priority"], "resourceSelectors": policy["selectors"]},
        }))
    };
    match items(&input["policies"])
        .map(policy)
        .collect::<Result<Vec<_>, _>>()
    {
        Ok(policies) => {
            let chosen = matching::select(&policies, &resource.subject());
            Answer::Result(json!({"policy": chosen.map(|(policy, _)| &policy.reference.name)}))
        }
        Err(_) => Answer::error(),
    }
}

fn selector_priority(input: &Value) -> Answer {
    let resource = Resource::read(&input["resource"]);
    let Ok(selectors) = serde_json::from_value::<Vec<ResourceSelector>>(input["selectors"].clone()) else {
        return Answer::error();
    };
    let word = match matching::best_fit(&selectors, &resource.subject()) {
        None => "Mismatch",
        Some(matching::Fit::Kind) => "MatchAll",
        Some(matching::Fit::Labels) => "MatchLabelSelector",
        Some(matching::Fit::Name) => "MatchName",
    };
    Answer::Result(json!({"priority": word}))
}

fn affinity_index(input: &Value) -> Answer {
    let groups: Vec<Value> = strings(&input["groups"])
        .iter()
        .map(|name| json!({"affinityName": name}))
        .collect();
    match read::<Placement>(&json!({"clusterAffinities": groups})) {
        Some(placement) => {
            Answer::Result(json!({"index": schedule::first_group(&placement, input["observed"].as_str())}))
        }
        None => Answer::error(),
    }
}
