//! `scheduler/*`: matching and affinity of stages 5 and 6, `hub_core::{matching, affinity}`; the rest is in
//! [`super::placing`], [`super::estimating`] and [`super::deciding`].

use std::collections::BTreeMap;

use hub_core::affinity;
use hub_core::matching::{self, Claim, PolicyIndex, Subject};
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
            Answer::Result(json!({"fields": affinity::fields_of(&cluster(&input["cluster"]))}))
        }
        "matchZones" => match read::<Requirement>(&input["expression"]) {
            Some(requirement) => Answer::Result(
                json!({"matches": affinity::zones_match(&strings(&input["zones"]), &requirement)}),
            ),
            None => Answer::error(),
        },
        "selectPolicy" => select_policy(input),
        "resourceSelectorPriority" => selector_priority(input),
        "policyNameTie" => name_tie(input),
        "policyDeprioritised" => deprioritised(input),
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

/// A policy for every ConfigMap.
fn plain_policy(name: &str, priority: &Value, preemption: &str) -> Option<AnyPropagationPolicy> {
    AnyPropagationPolicy::read(&json!({
        "metadata": {"name": name, "labels": {"clusterpropagationpolicy.karmada.io/permanent-id": name}},
        "spec": {"priority": priority, "preemption": preemption,
                 "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}]},
    }))
    .ok()
}

fn config_map() -> Resource {
    Resource::read(&json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "n", "name": "c"}))
}

fn name_tie(input: &Value) -> Answer {
    let policies: Option<Vec<_>> = ["a", "b"]
        .into_iter()
        .map(|side| plain_policy(&text(&input[side]), &json!(0), "Never"))
        .collect();
    let Some(policies) = policies else {
        return Answer::error();
    };
    let resource = config_map();
    let chosen = matching::select(&policies, &resource.subject());
    Answer::Result(json!({"winner": chosen.map(|(policy, _)| &policy.reference.name)}))
}

/// Nothing is queued here: every claim is decided anew when a policy changes. What the reference queues is what takes the
/// object over from a holder of the new priority and did not from one of the old.
fn deprioritised(input: &Value) -> Answer {
    let takes_over = |other: &Value, priority: &Value| -> Option<bool> {
        let holder = plain_policy("the-holder", priority, "Never")?;
        let other = plain_policy(
            &text(&other["name"]),
            &other["priority"],
            &text(&other["preemption"]),
        )?;
        let claim = Claim {
            policy: holder.reference.clone(),
            id: holder.id.clone(),
        };
        let resource = config_map();
        let name = other.reference.clone();
        let index = PolicyIndex::new([holder, other]);
        let decision = matching::decide(&index, &resource.subject(), Some(&claim));
        Some(decision.holder.is_some_and(|policy| policy.reference == name))
    };
    let concerned = items(&input["others"]).filter(|other| {
        takes_over(other, &input["newPriority"]) == Some(true)
            && takes_over(other, &input["oldPriority"]) == Some(false)
    });
    Answer::Result(json!({"requeued": concerned.count()}))
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
