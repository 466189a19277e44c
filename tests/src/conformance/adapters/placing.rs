//! `scheduler/*`: stage 6, `hub_core::{schedule, divide}`.

use std::collections::BTreeMap;

use hub_core::cluster::Cluster;
use hub_core::divide::dynamic::{self, ByRoom, Room};
use hub_core::divide::{self, Share, TieRule};
use hub_core::estimate::{Resources, resources};
use hub_core::fleet::Fleet;
use hub_core::naming;
use hub_core::policy::{ClusterPreferences, Placement, ReplicaScheduling};
use hub_core::schedule::peers::{AffinityGroups, Peer, Peers};
use hub_core::schedule::spread::{self, Group, Region, SpreadError};
use hub_core::schedule::{
    self, Asked, Candidate, EmptyShares, Filter, Request, ScheduleError, Strategy, component, trigger,
};
use serde_json::{Value, json};

use super::super::{Answer, Case};
use super::compact::{
    Candidates, cluster, components, items, names, number, read, shares, strings, targets, text,
};

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
        "calcGroupScore" => group_score(input),
        "selectGroups" => select_groups(input),
        "selectBestClusters" => select_best(input),
        "selectBestClustersByRegion" => by_region(input),
        "selectClusters" => select_clusters(input),
        "filterCluster" => filter_cluster(input),
        "groupClusters" => group_clusters(input),
        "sortClusters" => sort_clusters(input),
        "scoreCluster" => score_cluster(input),
        "assignReplicas" => assign(input),
        "schedule" => whole(input),
        _ => Answer::Unsupported,
    }
}

pub(super) fn requests(input: &Value) -> Option<Resources> {
    let requirements = &input["replicaRequirements"];
    (!requirements.is_null()).then(|| resources(&requirements["resourceRequest"]))
}

fn static_weight(input: &Value) -> Answer {
    let candidates = Candidates::read(&input["candidates"]);
    let Ok(preference) =
        serde_json::from_value::<Option<ClusterPreferences>>(input["weightPreference"].clone())
    else {
        return Answer::error();
    };
    let result = divide::static_weights(
        number(&input["replicas"]),
        &candidates.all(),
        preference.as_ref(),
        &text(&input["uid"]),
        input["dropZeroRows"] != true,
        None,
    );
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
    let candidates = Candidates::read(&Value::Array(
        items(&input["available"])
            .map(|one| json!({"cluster": {"name": one["name"]}, "allocatableReplicas": one["replicas"]}))
            .collect(),
    ));
    let held = shares(&input["previous"]);
    let holds = |name: &str| {
        held.iter()
            .any(|share| share.cluster == name && share.replicas > 0)
    };
    let all = candidates.all();
    let rooms = all
        .iter()
        .map(|one| Room::new(one, one.allocatable, holds(&one.cluster.name)));
    let tie = TieRule::for_uid(&text(&input["uid"]));
    match dynamic::divide(
        how,
        number(&input["targetReplicas"]),
        rooms.collect(),
        tie,
        true,
        None,
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
    match dynamic::by_room(how, replicas, &candidates.all(), &previous, fresh, &uid, None) {
        Ok(result) => Answer::Result(json!({"targets": targets(&result)})),
        Err(error) => schedule_error(&error.into()),
    }
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

/// Calls `ask` with the request that a binding in the cases' form describes. Components count only with their gate, as
/// peers do; without it nobody tells the scheduler of them.
fn with_request<T>(input: &Value, ask: impl FnOnce(&Request<'_>) -> T) -> Option<T> {
    let (spec, status, gates) = (&input["spec"], &input["status"], &input["featureGates"]);
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
    let listed = items(&spec["components"]).count();
    let by_component = gates["MultiplePodTemplatesScheduling"] == true || gates.is_null();
    let components = if by_component {
        components(&spec["components"])
    } else {
        Vec::new()
    };
    let peers = (gates["WorkloadAffinity"] == true)
        .then(|| peers(input))
        .flatten();
    Some(ask(&Request {
        api_version: &api_version,
        kind: &kind,
        namespace: resource["namespace"].as_str().unwrap_or_default(),
        uid: &uid,
        replicas,
        workload: (replicas > 0 || requests.is_some()) && listed <= 1,
        requests: requests.as_ref(),
        claim: None,
        priority_class: "",
        components: &components,
        placement: &placement,
        previous: &previous,
        observed_group: status["schedulerObservingAffinityName"].as_str(),
        fresh: trigger::reschedule_required(
            spec["rescheduleTriggeredAt"].as_str(),
            status["lastScheduledTime"].as_str(),
        ),
        evicted: &evicted,
        unavailable: &[],
        peers: peers.as_ref(),
        empty_shares: if input["emptyWorkloadPropagation"] == true {
            EmptyShares::Keep
        } else {
            EmptyShares::Drop
        },
    }))
}

/// What other bindings allow; of two copies of one the newer counts.
fn peers(input: &Value) -> Option<Peers> {
    let spec = &input["spec"];
    let groups: AffinityGroups = read(&spec["workloadAffinityGroups"])?;
    let resource = &spec["resource"];
    let own = naming::binding_name(&text(&resource["kind"]), &text(&resource["name"]));
    let group = |value: &Value| Some(text(value)).filter(|text| !text.is_empty());
    let mut known: BTreeMap<String, (i64, Peer)> = BTreeMap::new();
    for other in items(&input["otherBindings"]).chain(items(&input["inFlightBindings"])) {
        let name = text(&other["name"]);
        let version = text(&other["resourceVersion"]).parse().unwrap_or(0);
        let outdated = known.get(&name).is_some_and(|(known, _)| *known >= version);
        if other["namespace"] != resource["namespace"] || name == own || outdated {
            continue;
        }
        let peer = Peer {
            groups: AffinityGroups {
                affinity_group: group(&other["affinityGroup"]),
                anti_affinity_group: group(&other["antiAffinityGroup"]),
            },
            clusters: strings(&other["targets"]),
        };
        known.insert(name, (version, peer));
    }
    Some(Peers::of(&groups, known.values().map(|(_, peer)| peer)))
}

fn filter_cluster(input: &Value) -> Answer {
    let filter = match input["plugin"].as_str() {
        Some("APIEnablement") => Filter::ApiEnablement,
        Some("TaintToleration") => Filter::TaintToleration,
        Some("ClusterAffinity") => Filter::ClusterAffinity,
        Some("SpreadConstraint") => Filter::SpreadConstraint,
        Some("ClusterEviction") => Filter::ClusterEviction,
        Some("WorkloadAffinity") => Filter::WorkloadAffinity,
        Some("WorkloadAntiAffinity") => Filter::WorkloadAntiAffinity,
        _ => return Answer::Unsupported,
    };
    let here = cluster(&input["cluster"]);
    match with_request(input, |request| {
        schedule::filter(filter, &here, &Asked::new(request))
    }) {
        Some(Ok(())) => Answer::Result(json!({"result": "Success"})),
        Some(Err(schedule::Refusal::Taint { key, value, effect })) => Answer::Result(
            json!({"result": "Unschedulable", "untoleratedTaint": format!("{key}={value}:{effect}")}),
        ),
        Some(Err(_)) => Answer::Result(json!({"result": "Unschedulable"})),
        None => Answer::error(),
    }
}

fn group_clusters(input: &Value) -> Answer {
    let candidates = Candidates::read(&input["scored"]);
    let Some(placement) = read::<Placement>(&input["placement"]) else {
        return Answer::error();
    };
    let mut ranked = candidates.all();
    ranked.sort_by(Candidate::by_rank);
    let counts = spread::group_counts(&placement.spread_constraints, &ranked);
    let count = |field: &str| counts.get(field).copied().unwrap_or(0);
    Answer::Result(json!({
        "order": names(&ranked), "zoneGroups": count("zone"), "regionGroups": count("region"),
        "providerGroups": count("provider"),
    }))
}

/// Where capacity is not to be compared it is taken as equal.
fn sort_clusters(input: &Value) -> Answer {
    let with_capacity = input["compareCapacity"] == true;
    let rows = items(&input["clusters"]).map(|one| {
        let mut row = one.clone();
        row["cluster"] = json!({"name": one["name"]});
        if !with_capacity {
            row["availableReplicas"] = json!(0);
        }
        row
    });
    let candidates = Candidates::read(&Value::Array(rows.collect()));
    let mut ranked = candidates.all();
    ranked.sort_by(Candidate::by_rank);
    Answer::Result(json!({"order": names(&ranked)}))
}

/// There is one score, for holding the object already; the affinity of a cluster adds nothing to it.
fn score_cluster(input: &Value) -> Answer {
    let here = cluster(&input["cluster"]);
    let score = with_request(input, |request| schedule::locality(&Asked::new(request), &here));
    score.map_or(Answer::error(), |score| Answer::Result(json!({"score": score})))
}

fn assign(input: &Value) -> Answer {
    let candidates = Candidates::read(&input["candidates"]);
    let assigned = with_request(input, |request| {
        let counted = component::are_counted(request.components.len(), request.placement);
        schedule::assign(&candidates.all(), request, None).map(|shares| rows(&shares, request, counted))
    });
    match assigned {
        Some(Ok(rows)) => Answer::Result(json!({"targets": rows})),
        Some(Err(error)) => schedule_error(&error),
        None => Answer::Error {
            kind: "Other",
            code: "UnsupportedStrategy",
        },
    }
}

/// Targets in the cases' form, with the components of one set where they are counted.
fn rows(shares: &[Share], request: &Request<'_>, counted: bool) -> Value {
    let mut rows = targets(shares);
    if counted {
        let set: Value = request
            .components
            .iter()
            .map(|one| json!({"name": one.name, "replicas": one.replicas}))
            .collect();
        for row in rows.as_array_mut().into_iter().flatten() {
            row["components"] = set.clone();
        }
    }
    rows
}

fn whole(input: &Value) -> Answer {
    let fleet = Fleet::new(items(&input["clusters"]).map(cluster).collect());
    let placed = with_request(input, |request| {
        schedule::schedule(&fleet, request, None)
            .map(|placed| rows(&placed.targets, request, placed.whole_sets))
    });
    match placed {
        Some(Ok(rows)) => Answer::Result(json!({"targets": rows})),
        Some(Err(error)) => schedule_error(&error),
        None => Answer::error(),
    }
}

fn schedule_error(error: &ScheduleError) -> Answer {
    let (kind, code) = match error {
        ScheduleError::NoClusterFit { .. } => ("NoFit", "NoClusterFits"),
        ScheduleError::Unschedulable(_) => ("Unschedulable", "NotEnoughReplicas"),
        ScheduleError::NoClusterSelected => ("Other", "NoClusterSelected"),
        ScheduleError::QuotaExceeded(_) => ("Other", ""),
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
