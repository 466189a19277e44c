//! `scheduler/*`: when a binding is scheduled and what the attempt means, `hub_core::schedule::{trigger, outcome}`.

use hub_core::divide::dynamic::NotEnoughRoom;
use hub_core::failover::taints::{self, Eviction};
use hub_core::policy::{self, Operation, Placement, ReplicaScheduling, Toleration};
use hub_core::schedule::outcome::{self, Attempt, NotStored};
use hub_core::schedule::peers::{AffinityGroups, WorkloadAffinity};
use hub_core::schedule::{self, ScheduleError, component, trigger};
use serde_json::{Value, json};
use shared::time::UnixSeconds;

use super::super::{Answer, Case};
use super::compact::{cluster, components, items, number, read, shares, string_map, strings, text};

pub(super) fn answer(case: &Case) -> Answer {
    let input = &case.input;
    match case.op.as_str() {
        "placementChanged" => placement_changed(input),
        "replicasChanged" => replicas_changed(input),
        "rescheduleRequired" => {
            let time = |key: &str| input[key].as_str();
            let required =
                trigger::reschedule_required(time("rescheduleTriggeredAt"), time("lastScheduledTime"));
            Answer::Result(json!({"required": required}))
        }
        "isWorkload" => {
            let spec = &input["spec"];
            let is_workload = component::is_workload(
                number(&spec["replicas"]),
                !spec["replicaRequirements"].is_null(),
                items(&spec["components"]).count(),
            );
            Answer::Result(json!({"isWorkload": is_workload}))
        }
        "isComponentSchedulingApplicable" => {
            let spec = &input["spec"];
            match read::<Placement>(&spec["placement"]) {
                Some(placement) => {
                    let whole = component::are_whole_sets(&components(&spec["components"]), &placement);
                    Answer::Result(json!({"applicable": whole}))
                }
                None => Answer::error(),
            }
        }
        "clusterUpdated" => {
            let state = |key: &str| (cluster(&input[key]), number(&input[key]["generation"]));
            let ((old, old_generation), (new, new_generation)) = (state("old"), state("new"));
            let concerns = trigger::cluster_changed((&old, old_generation), (&new, new_generation));
            Answer::Result(json!({"reconcileCount": u8::from(concerns.old) + u8::from(concerns.new)}))
        }
        "apiEnablement" => {
            let apis = cluster(&input["cluster"]).apis.unwrap_or_default();
            let enablement = apis.enablement(&text(&input["groupVersion"]), &text(&input["kind"]));
            Answer::Result(json!({"status": enablement.as_str()}))
        }
        "iterateAffinityGroups" => iterate(input),
        "affinityGroups" => match read::<WorkloadAffinity>(&input["workloadAffinity"]) {
            Some(rules) => {
                let groups = AffinityGroups::of(&rules, &string_map(&input["labels"]));
                Answer::Result(json!({"groups": groups}))
            }
            None => Answer::error(),
        },
        "conditionForError" => condition(input),
        "scheduleEvent" => event(input),
        "patchCondition" => patch(input),
        "formatTargets" => Answer::Result(json!({"text": outcome::words(&shares(&input["targets"]))})),
        "gracefulEvict" => super::failover::graceful_evict(input),
        "matchingTolerations" => matching_tolerations(input),
        "minTolerationTime" => min_toleration_time(input),
        "defaultSpreadConstraints" => {
            let policy = defaulted(json!({"spreadConstraints": input["spreadConstraints"]}));
            Answer::Result(json!({"spreadConstraints": policy["spreadConstraints"]}))
        }
        "defaultDivisionPreference" => {
            let policy = defaulted(json!({"replicaScheduling": input["strategy"]}));
            let preference = &policy["replicaScheduling"]["replicaDivisionPreference"];
            Answer::Result(json!({"isWeighted": *preference == "Weighted"}))
        }
        _ => Answer::Unsupported,
    }
}

/// A placement after the admission of its policy.
fn defaulted(placement: Value) -> Value {
    let mut object = json!({"metadata": {"name": "p"}, "spec": {"placement": placement}});
    let request = policy::Request {
        kind: "PropagationPolicy",
        operation: Operation::Create,
        namespace: "default",
        old: None,
        switches: policy::Switches::default(),
        stored: &super::validation::Existing(&Value::Null),
        now: 0,
    };
    policy::mutate(&request, &mut object, &mut || "id".to_owned());
    object["spec"]["placement"].clone()
}

fn placement_changed(input: &Value) -> Answer {
    let Some(placement) = read::<Placement>(&input["placement"]) else {
        return Answer::error();
    };
    let applied = Some(&input["applied"])
        .filter(|applied| !applied.is_null())
        .map(Value::to_string);
    let observed = input["observedAffinityName"].as_str();
    let changed = trigger::placement_changed(&placement, applied.as_deref(), observed);
    Answer::Result(json!({"changed": changed}))
}

fn replicas_changed(input: &Value) -> Answer {
    let spec = &input["spec"];
    let Ok(scheduling) = serde_json::from_value::<Option<ReplicaScheduling>>(input["strategy"].clone())
    else {
        return Answer::error();
    };
    let by_component = input["featureGates"]["MultiplePodTemplatesScheduling"] == true;
    let changed = trigger::replicas_changed(
        scheduling
            .as_ref()
            .map(|_| schedule::strategy(scheduling.as_ref())),
        number(&spec["replicas"]),
        items(&spec["components"]).filter(|_| by_component).count(),
        &shares(&spec["clusters"]),
    );
    Answer::Result(json!({"changed": changed}))
}

/// The results of the groups are given; which are asked for, and what comes of it, is what counts.
fn iterate(input: &Value) -> Answer {
    let groups = strings(&input["groups"]);
    let terms: Vec<Value> = groups.iter().map(|name| json!({"affinityName": name})).collect();
    let Some(placement) = read::<Placement>(&json!({"clusterAffinities": terms})) else {
        return Answer::error();
    };
    let observed = input["observed"].as_str();
    let time = |key: &str| input[key].as_str();
    let fresh = trigger::reschedule_required(time("rescheduleTriggeredAt"), time("lastScheduledTime"));
    let start = if fresh {
        0
    } else {
        schedule::first_group(&placement, observed)
    };
    let mut first_event = None;
    let (tried, result) = schedule::try_groups(groups.iter().map(String::as_str), start, |name| {
        let at = groups.iter().position(|group| group == name).unwrap_or(0);
        let given = &input["resultPerGroup"][at];
        let targets = shares(&given["targets"]);
        let outcome = if given["error"].is_null() {
            Ok(targets.as_slice())
        } else {
            Err("failed")
        };
        let told = outcome::event(outcome, "");
        first_event.get_or_insert((if told.warning { "Warning" } else { "Normal" }, told.reason));
        match outcome {
            Ok(_) => Ok((name.to_owned(), given["targets"].clone())),
            Err(_) => Err(()),
        }
    });
    let (event_type, reason) = first_event.unwrap_or_default();
    let event = json!({"type": event_type, "reason": reason});
    Answer::Result(match result {
        Some(Ok((name, targets))) => json!({
            "groupsTried": tried, "error": false, "targets": targets, "observedAffinityName": name,
            "statusPatched": observed != Some(name.as_str()), "firstEvent": event,
        }),
        _ => json!({
            "groupsTried": tried, "error": true, "targets": [], "observedAffinityName": observed,
            "statusPatched": false, "firstEvent": event,
        }),
    })
}

/// Collects what went wrong: placing, storing, or both.
fn collect(error: &Value, placing: &mut Option<ScheduleError>, storing: &mut Option<NotStored>) {
    let inside = error["of"].as_array().map(Vec::as_slice).unwrap_or_default();
    match error["kind"].as_str() {
        Some("NoFit") => {
            *placing = Some(ScheduleError::NoClusterFit {
                total: 0,
                refused: Vec::new(),
            });
        }
        Some("Unschedulable") => {
            *placing = Some(NotEnoughRoom { wanted: 1, free: 0 }.into());
        }
        Some("Status") if error["reason"] == "QuotaExceeded" => *storing = Some(NotStored::QuotaExceeded),
        Some("Status" | "Other") => *storing = Some(NotStored::Other),
        _ => inside.iter().for_each(|one| collect(one, placing, storing)),
    }
}

fn condition(input: &Value) -> Answer {
    let (mut placing, mut storing) = (None, None);
    collect(&input["error"], &mut placing, &mut storing);
    let verdict = Attempt {
        failed: placing.as_ref(),
        not_stored: storing,
    }
    .verdict();
    Answer::Result(json!({
        "type": outcome::CONDITION, "status": if verdict.scheduled { "True" } else { "False" },
        "reason": verdict.reason, "swallowed": !verdict.tried_again,
    }))
}

fn event(input: &Value) -> Answer {
    let targets = shares(&input["targets"]);
    let problem = input["error"].as_str();
    let told = outcome::event(problem.map_or(Ok(&targets), Err), "scheduled");
    let on: Vec<&str> = told.on.iter().map(|about| about.as_str()).collect();
    let mut result = json!({
        "events": on.len(), "type": if told.warning { "Warning" } else { "Normal" }, "reason": told.reason,
        "on": on,
    });
    let words = format!("{{{}}}", outcome::words(&targets));
    if problem.is_some() {
        result["textEquals"] = json!(told.message);
    } else if told.message.contains(&words) {
        result["textContains"] = json!(words);
    }
    Answer::Result(result)
}

fn patch(input: &Value) -> Answer {
    let new = &input["newCondition"];
    let (reason, old) = (
        text(&new["reason"]),
        json!({
            "conditions": input["conditions"], "schedulerObservedGeneration": input["observedGeneration"],
        }),
    );
    let noted = outcome::Noted {
        scheduled: new["status"] == "True",
        reason: &reason,
        message: "",
        moved: true,
    };
    let status = outcome::status(&old, number(&input["generation"]), &noted, "2026-01-01T00:00:00Z");
    let short = |condition: &Value| json!({"type": condition["type"], "status": condition["status"], "reason": condition["reason"]});
    let conditions: Vec<Value> = items(&status["conditions"]).map(short).collect();
    Answer::Result(json!({
        "conditions": conditions, "observedGeneration": status["schedulerObservedGeneration"],
        "lastScheduledTimeUpdated": !status["lastScheduledTime"].is_null(),
    }))
}

fn tolerations(value: &Value) -> Vec<Toleration> {
    items(value).filter_map(read::<Toleration>).collect()
}

fn matching_tolerations(input: &Value) -> Answer {
    let here = cluster(&json!({"taints": input["taints"]}));
    let tolerations = tolerations(&input["tolerations"]);
    let used = taints::matching_tolerations(&here.taints.iter().collect::<Vec<_>>(), &tolerations);
    Answer::Result(json!({"allTolerated": used.is_some(), "used": used.unwrap_or_default()}))
}

fn min_toleration_time(input: &Value) -> Answer {
    let here = cluster(&json!({"taints": input["taints"]}));
    let tolerations = tolerations(&input["tolerations"]);
    let Some(now) = UnixSeconds::parse_rfc3339(&text(&input["now"])) else {
        return Answer::error();
    };
    let until = taints::tolerated_until(
        &here.taints.iter().collect::<Vec<_>>(),
        &tolerations.iter().collect::<Vec<_>>(),
        now,
    );
    Answer::Result(json!({"seconds": match until {
        Eviction::Now => 0,
        Eviction::After(seconds) => seconds,
        Eviction::Never => -1,
    }}))
}
