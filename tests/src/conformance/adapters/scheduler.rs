//! `scheduler/*`: stages 5 and 6, `hub_core::{matching, affinity, divide, schedule}`.

use std::collections::BTreeMap;

use hub_core::affinity;
use hub_core::cluster::{Cluster, Taint};
use hub_core::divide::{self, Share, TieRule};
use hub_core::matching::{self, Subject};
use hub_core::policy::{
    AnyPropagationPolicy, ClusterAffinity, ClusterPreferences, Placement, Requirement, ResourceSelector,
};
use hub_core::schedule::{self, EmptyShares, Filter, Request, ScheduleError};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::super::{Answer, Case};

pub(super) fn answer(case: &Case) -> Answer {
    let input = &case.input;
    match case.op.as_str() {
        "assignStaticWeight" => static_weight(input),
        "assignDuplicated" => duplicated(input),
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
        "allocateSeats" => seats(input),
        "dispenseByWeight" => dispense(input),
        "selectPolicy" => select_policy(input),
        "resourceSelectorPriority" => selector_priority(input),
        "filterCluster" => filter_cluster(input),
        "affinityIndex" => affinity_index(input),
        "assignReplicas" => assign(input),
        _ => Answer::Unsupported,
    }
}

/// Reads a member of an input; absent and null mean the type's zero value.
pub(super) fn read<T: DeserializeOwned>(value: &Value) -> Option<T> {
    let value = if value.is_null() { json!({}) } else { value.clone() };
    serde_json::from_value(value).ok()
}

fn strings(value: &Value) -> Vec<String> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|item| Some(item.as_str()?.to_owned()))
        .collect()
}

pub(super) fn string_map(value: &Value) -> BTreeMap<String, String> {
    value
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())))
        .collect()
}

/// The cases' compact form of a cluster.
pub(super) fn cluster(compact: &Value) -> Cluster {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let taint = |taint: &Value| Taint {
        key: text(&taint["key"]),
        value: text(&taint["value"]),
        effect: text(&taint["effect"]),
    };
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    Cluster {
        name: text(&compact["name"]),
        labels: string_map(&compact["labels"]),
        provider: text(&compact["provider"]),
        region: text(&compact["region"]),
        zones: strings(&compact["zones"]),
        taints: list(&compact["taints"]).iter().map(taint).collect(),
        deleting: compact["deleting"] == true,
        apis: Some(
            list(&compact["apis"])
                .iter()
                .flat_map(|group| {
                    let group_version = text(&group["groupVersion"]);
                    strings(&group["kinds"])
                        .into_iter()
                        .map(move |kind| (group_version.clone(), kind))
                })
                .collect(),
        ),
    }
}

fn candidates(value: &Value) -> Vec<Cluster> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .map(|candidate| cluster(&candidate["cluster"]))
        .collect()
}

fn shares(value: &Value) -> Vec<Share> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .map(|target| Share {
            cluster: target["name"].as_str().unwrap_or_default().to_owned(),
            replicas: target["replicas"].as_i64().unwrap_or(0),
        })
        .collect()
}

fn targets(shares: &[Share]) -> Value {
    shares
        .iter()
        .map(|share| json!({"name": share.cluster, "replicas": share.replicas}))
        .collect()
}

fn static_weight(input: &Value) -> Answer {
    let clusters = candidates(&input["candidates"]);
    let preference = match &input["weightPreference"] {
        Value::Null => None,
        some => match read::<ClusterPreferences>(some) {
            Some(preference) => Some(preference),
            None => return Answer::error(),
        },
    };
    let all: Vec<&Cluster> = clusters.iter().collect();
    let replicas = input["replicas"].as_i64().unwrap_or(0);
    let uid = input["uid"].as_str().unwrap_or_default();
    let mut result = divide::static_weights(replicas, &all, preference.as_ref(), uid);
    if input["dropZeroRows"] == true {
        result.retain(|share| share.replicas > 0);
    }
    Answer::Result(json!({"targets": targets(&result)}))
}

fn duplicated(input: &Value) -> Answer {
    let clusters = candidates(&input["candidates"]);
    let result = divide::duplicated(input["replicas"].as_i64().unwrap_or(0), &clusters);
    Answer::Result(json!({"targets": targets(&result)}))
}

fn cluster_matches(input: &Value) -> Answer {
    match read::<ClusterAffinity>(&input["affinity"]) {
        Some(affinity) => {
            Answer::Result(json!({"matches": affinity::matches(&cluster(&input["cluster"]), &affinity)}))
        }
        None => Answer::error(),
    }
}

fn seats(input: &Value) -> Answer {
    let tie = match input["tieRule"].as_str() {
        Some("nameDescending") => TieRule::NameDescending,
        _ => TieRule::NameAscending,
    };
    let counts = |value: &Value| -> BTreeMap<String, i64> { read(value).unwrap_or_default() };
    let new_seats = input["newSeats"].as_i64().unwrap_or(0);
    let parties = divide::allocate_seats(
        new_seats,
        &counts(&input["votes"]),
        &counts(&input["initialSeats"]),
        tie,
    );
    let parties: Vec<Value> = parties
        .iter()
        .map(|party| json!({"name": party.name, "votes": party.votes, "seats": party.seats}))
        .collect();
    // The cases write "no parties" as null.
    Answer::Result(json!({"parties": if parties.is_empty() { Value::Null } else { parties.into() }}))
}

fn dispense(input: &Value) -> Answer {
    let weights: Vec<(String, i64)> = input["weights"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|w| {
            (
                w["cluster"].as_str().unwrap_or_default().to_owned(),
                w["weight"].as_i64().unwrap_or(0),
            )
        })
        .collect();
    let uid = input["uid"].as_str().unwrap_or_default();
    let new_replicas = input["newReplicas"].as_i64().unwrap_or(0);
    Answer::Result(targets(&divide::dispense(
        new_replicas,
        &weights,
        &shares(&input["initial"]),
        uid,
    )))
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
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        Self {
            api_version: text("apiVersion"),
            kind: text("kind"),
            namespace: text("namespace"),
            name: text("name"),
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
    let policies: Result<Vec<AnyPropagationPolicy>, _> = input["policies"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|policy| {
            AnyPropagationPolicy::read(&json!({
                "metadata": {"name": policy["name"]},
                "spec": {"priority": policy["priority"], "resourceSelectors": policy["selectors"]},
            }))
        })
        .collect();
    match policies {
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

/// Calls `ask` with the request that a binding in the cases' form describes.
fn with_request<T>(spec: &Value, status: &Value, ask: impl FnOnce(&Request<'_>) -> T) -> Option<T> {
    let placement: Placement = read(&spec["placement"])?;
    let previous = shares(&spec["clusters"]);
    let evicted: Vec<String> = spec["gracefulEvictionTasks"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|task| Some(task["fromCluster"].as_str()?.to_owned()))
        .collect();
    let text = |value: &'_ Value| value.as_str().unwrap_or_default().to_owned();
    let resource = &spec["resource"];
    let (api_version, kind, uid) = (
        text(&resource["apiVersion"]),
        text(&resource["kind"]),
        text(&resource["uid"]),
    );
    let replicas = spec["replicas"].as_i64().unwrap_or(0);
    Some(ask(&Request {
        api_version: &api_version,
        kind: &kind,
        uid: &uid,
        replicas,
        workload: replicas > 0 || !spec["replicaRequirements"].is_null(),
        placement: &placement,
        previous: &previous,
        observed_group: status["schedulerObservingAffinityName"].as_str(),
        fresh: false,
        evicted: &evicted,
        empty_shares: EmptyShares::Drop,
    }))
}

fn filter_cluster(input: &Value) -> Answer {
    let filter = match input["plugin"].as_str() {
        Some("APIEnablement") => Filter::ApiEnablement,
        Some("TaintToleration") => Filter::TaintToleration,
        Some("ClusterAffinity") => Filter::ClusterAffinity,
        Some("SpreadConstraint") => Filter::SpreadConstraint,
        Some("ClusterEviction") => Filter::ClusterEviction,
        _ => return Answer::Unsupported,
    };
    let here = cluster(&input["cluster"]);
    match with_request(&input["spec"], &input["status"], |request| {
        schedule::filter(filter, &here, request)
    }) {
        Some(Ok(())) => Answer::Result(json!({"result": "Success"})),
        Some(Err(_)) => Answer::Result(json!({"result": "Unschedulable"})),
        None => Answer::error(),
    }
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

fn assign(input: &Value) -> Answer {
    let clusters = candidates(&input["candidates"]);
    let selected: Vec<&Cluster> = clusters.iter().collect();
    match with_request(&input["spec"], &input["status"], |request| {
        schedule::assign(&selected, request)
    }) {
        Some(Ok(result)) => Answer::Result(json!({"targets": targets(&result)})),
        Some(Err(error)) => schedule_error(&error),
        None => Answer::Error {
            kind: "Other",
            code: "UnsupportedStrategy",
        },
    }
}

fn schedule_error(error: &ScheduleError) -> Answer {
    match error {
        ScheduleError::NoClusterFit { .. } => Answer::Error {
            kind: "NoFit",
            code: "NoClusterFits",
        },
        ScheduleError::NoClusterSelected => Answer::Error {
            kind: "Other",
            code: "NoClusterSelected",
        },
        ScheduleError::UnsupportedStrategy => Answer::Unsupported,
    }
}
