//! `scheduler/*`: stage 6, `hub_core::{schedule, divide, estimate}`.

use std::collections::BTreeMap;

use hub_core::cluster::Cluster;
use hub_core::divide::dynamic::{self, ByRoom};
use hub_core::divide::{self, TieRule};
use hub_core::estimate::{self, Resources, resources};
use hub_core::policy::{ClusterPreferences, Placement, ReplicaScheduling};
use hub_core::schedule::spread::{self, Group, Region, SpreadError};
use hub_core::schedule::{self, Candidate, EmptyShares, Filter, Request, ScheduleError, Strategy};
use serde_json::{Value, json};

use super::super::{Answer, Case};
use super::compact::{Candidates, cluster, items, names, number, read, shares, summary, targets, text};

pub(super) fn answer(case: &Case) -> Answer {
    let input = &case.input;
    match case.op.as_str() {
        "assignStaticWeight" => static_weight(input),
        "assignDuplicated" => {
            let clusters: Vec<Cluster> = items(&input["candidates"])
                .map(|one| cluster(&one["cluster"]))
                .collect();
            Answer::Result(
                json!({"targets": targets(&divide::duplicated(number(&input["replicas"]), &clusters))}),
            )
        }
        "allocateSeats" => seats(input),
        "dispenseByWeight" => {
            let weight = |one: &Value| (text(&one["cluster"]), number(&one["weight"]));
            let weights: Vec<(String, i64)> = items(&input["weights"]).map(weight).collect();
            let (new, uid) = (number(&input["newReplicas"]), text(&input["uid"]));
            Answer::Result(targets(&divide::dispense(
                new,
                &weights,
                &shares(&input["initial"]),
                &uid,
            )))
        }
        "divideDynamic" => divide_dynamic(input),
        "assignDynamic" => assign_dynamic(input),
        "allowedPods" => {
            Answer::Result(json!({"pods": summary(&input["summary"]).unwrap_or_default().free_pods()}))
        }
        "estimateReplicasFromSummary" => {
            let fits = summary(&input["summary"])
                .unwrap_or_default()
                .fits(&requests(input).unwrap_or_default());
            Answer::Result(json!({"replicas": fits}))
        }
        "estimateReplicasFromModels" => {
            match estimate::fits_by_models(&cluster(&input["cluster"]), &requests(input).unwrap_or_default())
            {
                Some(fits) => Answer::Result(json!({"replicas": fits})),
                None => Answer::Error {
                    kind: "Other",
                    code: "",
                },
            }
        }
        "estimateReplicas" => estimate_replicas(input),
        "calcGroupScore" => group_score(input),
        "selectGroups" => select_groups(input),
        "selectBestClusters" => select_best(input),
        "selectBestClustersByRegion" => by_region(input),
        "selectClusters" => select_clusters(input),
        "filterCluster" => filter_cluster(input),
        "assignReplicas" => assign(input),
        "schedule" => whole(input),
        _ => Answer::Unsupported,
    }
}

fn requests(input: &Value) -> Option<Resources> {
    let requirements = &input["replicaRequirements"];
    (!requirements.is_null()).then(|| resources(&requirements["resourceRequest"]))
}

fn static_weight(input: &Value) -> Answer {
    let clusters: Vec<Cluster> = items(&input["candidates"])
        .map(|one| cluster(&one["cluster"]))
        .collect();
    let Ok(preference) =
        serde_json::from_value::<Option<ClusterPreferences>>(input["weightPreference"].clone())
    else {
        return Answer::error();
    };
    let all: Vec<&Cluster> = clusters.iter().collect();
    let mut result = divide::static_weights(
        number(&input["replicas"]),
        &all,
        preference.as_ref(),
        &text(&input["uid"]),
    );
    if input["dropZeroRows"] == true {
        result.retain(|share| share.replicas > 0);
    }
    Answer::Result(json!({"targets": targets(&result)}))
}

fn seats(input: &Value) -> Answer {
    let tie = match input["tieRule"].as_str() {
        Some("nameDescending") => TieRule::NameDescending,
        _ => TieRule::NameAscending,
    };
    let counts = |value: &Value| -> BTreeMap<String, i64> { read(value).unwrap_or_default() };
    let (votes, initial) = (counts(&input["votes"]), counts(&input["initialSeats"]));
    let parties: Vec<Value> = divide::allocate_seats(number(&input["newSeats"]), &votes, &initial, tie)
        .iter()
        .map(|party| json!({"name": party.name, "votes": party.votes, "seats": party.seats}))
        .collect();
    // The cases write "no parties" as null.
    Answer::Result(json!({"parties": if parties.is_empty() { Value::Null } else { parties.into() }}))
}

fn by_room(input: &Value) -> Option<ByRoom> {
    match input["strategy"].as_str() {
        Some("DynamicWeight") => Some(ByRoom::DynamicWeight),
        Some("Aggregated") => Some(ByRoom::Aggregated),
        _ => None,
    }
}

fn divide_dynamic(input: &Value) -> Answer {
    let Some(how) = by_room(input) else {
        return Answer::error();
    };
    let (wanted, uid) = (number(&input["targetReplicas"]), text(&input["uid"]));
    match dynamic::divide(
        how,
        wanted,
        shares(&input["available"]),
        &shares(&input["previous"]),
        &uid,
    ) {
        Ok(mut result) => {
            result.retain(|share| share.replicas > 0);
            Answer::Result(json!({"targets": targets(&result)}))
        }
        Err(error) => schedule_error(&error.into()),
    }
}

fn assign_dynamic(input: &Value) -> Answer {
    let Some(how) = by_room(input) else {
        return Answer::error();
    };
    let candidates = Candidates::read(&input["candidates"]);
    let fresh = input["mode"] == "Fresh";
    let (replicas, previous, uid) = (
        number(&input["replicas"]),
        shares(&input["previous"]),
        text(&input["uid"]),
    );
    match dynamic::by_room(how, replicas, &candidates.all(), &previous, fresh, &uid) {
        Ok(result) => Answer::Result(json!({"targets": targets(&result)})),
        Err(error) => schedule_error(&error.into()),
    }
}

fn estimate_replicas(input: &Value) -> Answer {
    if input["assumed"]
        .as_object()
        .is_some_and(|assumed| !assumed.is_empty())
    {
        return Answer::Unsupported;
    }
    let requests = requests(input);
    let estimate = |one: &Value| {
        let cluster = cluster(one);
        json!({"name": cluster.name, "replicas": estimate::replicas(&cluster, requests.as_ref())})
    };
    let targets: Vec<Value> = items(&input["clusters"]).map(estimate).collect();
    Answer::Result(json!({"targets": targets}))
}

fn group_score(input: &Value) -> Answer {
    let Ok(scheduling) =
        serde_json::from_value::<Option<ReplicaScheduling>>(input["replicaScheduling"].clone())
    else {
        return Answer::error();
    };
    let duplicated = schedule::strategy(scheduling.as_ref()) == Strategy::Duplicated;
    let score = |group: &Value| {
        let members: Vec<(i64, i64)> = items(group)
            .map(|one| (number(&one["score"]), number(&one["availableReplicas"])))
            .collect();
        spread::group_score(
            &members,
            duplicated,
            number(&input["replicas"]),
            number(&input["minGroups"]),
            0,
        )
    };
    let mut result = json!({"scoreA": score(&input["groupA"])});
    if input["groupB"].is_array() {
        let (a, b) = (score(&input["groupA"]), score(&input["groupB"]));
        result["scoreB"] = json!(b);
        result["aAtLeastB"] = json!(a >= b);
    }
    Answer::Result(result)
}

fn select_groups(input: &Value) -> Answer {
    let group = |one: &Value| Group {
        name: text(&one["name"]),
        size: number(&one["size"]),
        weight: number(&one["weight"]),
    };
    let groups: Vec<Group> = items(&input["groups"]).map(group).collect();
    let max = usize::try_from(number(&input["maxGroups"])).unwrap_or(0);
    let chosen = spread::select_groups(
        &groups,
        number(&input["minGroups"]),
        max,
        number(&input["targetSize"]),
    );
    Answer::Result(json!({"groups": chosen}))
}

fn selected(result: Result<Vec<Candidate<'_>>, SpreadError>) -> Answer {
    match result {
        Ok(chosen) => Answer::Result(json!({"clusters": names(&chosen)})),
        Err(error) => schedule_error(&error.into()),
    }
}

fn select_best(input: &Value) -> Answer {
    let candidates = Candidates::read(&input["clusters"]);
    match read::<Placement>(&input["placement"]) {
        Some(placement) => selected(spread::select(
            &placement,
            candidates.all(),
            number(&input["needReplicas"]),
        )),
        None => Answer::error(),
    }
}

fn by_region(input: &Value) -> Answer {
    let Some(placement) = read::<Placement>(&json!({"spreadConstraints": input["spreadConstraints"]})) else {
        return Answer::error();
    };
    let members: Vec<Candidates> = items(&input["regions"])
        .map(|one| Candidates::read(&one["clusters"]))
        .collect();
    let regions: Vec<Region<'_>> = items(&input["regions"])
        .zip(&members)
        .map(|(region, members)| Region {
            name: text(&region["name"]),
            score: number(&region["score"]),
            members: members.all(),
        })
        .collect();
    selected(spread::by_region(&placement, &regions))
}

fn select_clusters(input: &Value) -> Answer {
    let candidates = Candidates::read(&input["scored"]);
    let Some(placement) = read::<Placement>(&input["placement"]) else {
        return Answer::error();
    };
    let mut ranked = candidates.all();
    ranked.sort_by(Candidate::by_rank);
    selected(spread::select(
        &placement,
        ranked,
        number(&input["spec"]["replicas"]),
    ))
}

/// Calls `ask` with the request that a binding in the cases' form describes.
fn with_request<T>(input: &Value, ask: impl FnOnce(&Request<'_>) -> T) -> Option<T> {
    let (spec, status) = (&input["spec"], &input["status"]);
    let placement: Placement = read(&spec["placement"])?;
    let previous = shares(&spec["clusters"]);
    let evicted: Vec<String> = items(&spec["gracefulEvictionTasks"])
        .map(|task| text(&task["fromCluster"]))
        .collect();
    let resource = &spec["resource"];
    let (api_version, kind, uid) = (
        text(&resource["apiVersion"]),
        text(&resource["kind"]),
        text(&resource["uid"]),
    );
    let replicas = number(&spec["replicas"]);
    let requests = requests(spec);
    let components = items(&spec["components"]).count();
    // RFC 3339 in UTC: later is larger as text.
    let (triggered, last) = (
        spec["rescheduleTriggeredAt"].as_str(),
        status["lastScheduledTime"].as_str(),
    );
    Some(ask(&Request {
        api_version: &api_version,
        kind: &kind,
        uid: &uid,
        replicas,
        workload: (replicas > 0 || requests.is_some()) && components <= 1,
        requests: requests.as_ref(),
        placement: &placement,
        previous: &previous,
        observed_group: status["schedulerObservingAffinityName"].as_str(),
        fresh: triggered
            .zip(last)
            .is_some_and(|(triggered, last)| triggered > last),
        evicted: &evicted,
        empty_shares: if input["emptyWorkloadPropagation"] == true {
            EmptyShares::Keep
        } else {
            EmptyShares::Drop
        },
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
    match with_request(input, |request| schedule::filter(filter, &here, request)) {
        Some(Ok(())) => Answer::Result(json!({"result": "Success"})),
        Some(Err(schedule::Refusal::Taint { key, value, effect })) => Answer::Result(
            json!({"result": "Unschedulable", "untoleratedTaint": format!("{key}={value}:{effect}")}),
        ),
        Some(Err(_)) => Answer::Result(json!({"result": "Unschedulable"})),
        None => Answer::error(),
    }
}

fn assign(input: &Value) -> Answer {
    let candidates = Candidates::read(&input["candidates"]);
    match with_request(input, |request| schedule::assign(&candidates.all(), request)) {
        Some(Ok(result)) => Answer::Result(json!({"targets": targets(&result)})),
        Some(Err(error)) => schedule_error(&error),
        None => Answer::Error {
            kind: "Other",
            code: "UnsupportedStrategy",
        },
    }
}

fn whole(input: &Value) -> Answer {
    let spec = &input["spec"];
    let not_yet =
        input["featureGates"]["WorkloadAffinity"] == true || items(&spec["components"]).next().is_some();
    if not_yet {
        return Answer::Unsupported;
    }
    let clusters: Vec<Cluster> = items(&input["clusters"]).map(cluster).collect();
    match with_request(input, |request| schedule::schedule(&clusters, request)) {
        Some(Ok(placed)) => Answer::Result(json!({"targets": targets(&placed.targets)})),
        Some(Err(error)) => schedule_error(&error),
        None => Answer::error(),
    }
}

fn schedule_error(error: &ScheduleError) -> Answer {
    let (kind, code) = match error {
        ScheduleError::NoClusterFit { .. } => ("NoFit", "NoClusterFits"),
        ScheduleError::Unschedulable(_) => ("Unschedulable", "NotEnoughReplicas"),
        ScheduleError::NoClusterSelected => ("Other", "NoClusterSelected"),
        ScheduleError::Spread(spread) => match spread {
            SpreadError::TooFewClusters { .. } => ("Other", "TooFewClusters"),
            SpreadError::TooFewRegions { .. } => ("Other", "TooFewRegions"),
            SpreadError::NoRegionCombination => ("Other", "NoRegionCombination"),
            SpreadError::TooFewGroups { .. } => ("Other", ""),
            SpreadError::NotEnoughCapacity { .. } => ("Other", "NotEnoughCapacityForSpread"),
            SpreadError::UnsupportedField(_) => ("Other", "UnsupportedSpreadField"),
        },
    };
    Answer::Error { kind, code }
}
