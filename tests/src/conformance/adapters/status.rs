//! The way back: health of a copy, liveness of a cluster, status of a binding. `interpreter::judged`,
//! `hub_core::liveness`, `hub_core::aggregate`, `hub_core::view::binding`.

use hub_core::aggregate::{self, Seen, Target};
use hub_core::liveness::{self, Ready, Saved, Thresholds};
use hub_core::naming;
use hub_core::view::{self, WorkReport, WorkRow};
use interpreter::{Health, Native, judged};
use serde_json::{Value, json};
use shared::object;
use shared::time::UnixSeconds;
use shared::wire::{ApplyState, Health as ReportedHealth};

use super::super::{Answer, Case};

pub(super) fn answer(case: &Case) -> Answer {
    let input = &case.input;
    match case.op.as_str() {
        "workHealth" => work_health(&input["object"]),
        "readyCondition" => {
            let (ready, reason) = liveness::probed(input["online"] == true, input["healthy"] == true);
            Answer::Result(json!({"type": "Ready", "status": ready.as_str(), "reason": reason}))
        }
        "readyThreshold" => ready_threshold(input),
        "works.aggregate" => works(input),
        "binding.fullyApplied" => fully_applied(input),
        _ => Answer::Unsupported,
    }
}

fn work_health(object: &Value) -> Answer {
    Answer::Result(json!(judged(&Native::default(), object, true).0.as_str()))
}

fn ready_threshold(input: &Value) -> Answer {
    let word = |key: &str| Ready::parse(input[key].as_str().unwrap_or_default());
    let milliseconds = |key: &str| input[key].as_u64().unwrap_or(0) * 1_000;
    let Some(observed) = word("observed") else {
        return Answer::error();
    };
    let saved = word("saved").map(|ready| Saved {
        ready,
        age_ms: milliseconds("savedSecondsAgo"),
    });
    let thresholds = Thresholds {
        success_ms: milliseconds("successThresholdSeconds"),
        failure_ms: milliseconds("failureThresholdSeconds"),
    };
    Answer::Result(json!(
        liveness::damped(saved, word("current"), observed, thresholds).as_str()
    ))
}

/// A Work is one row for us; what is being deleted has none.
fn works(input: &Value) -> Answer {
    let mut targets = Vec::new();
    for work in input["works"].as_array().into_iter().flatten() {
        if object::is_deleting(work) {
            continue;
        }
        let Some(cluster) = naming::cluster_of_execution_namespace(object::namespace(work)) else {
            return Answer::error();
        };
        let manifests = work["spec"]["workload"]["manifests"].as_array();
        let is_it = |manifest: &&Value| {
            manifest["kind"] == input["resource"]["kind"]
                && manifest["metadata"]["name"] == input["resource"]["name"]
        };
        if manifests.into_iter().flatten().find(is_it).is_none() {
            // Rows are found by the key of their object: this one is of another.
            continue;
        }
        targets.push(target(cluster, work, &input["resource"]));
    }
    Answer::Result(json!(aggregate::items(&targets)))
}

fn target(cluster: &str, work: &Value, resource: &Value) -> Target {
    let status = &work["status"];
    let applied = status["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|c| c["type"] == "Applied");
    let collected = status["manifestStatuses"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|item| {
            item["identifier"]["name"] == resource["name"] && item["identifier"]["kind"] == resource["kind"]
        });
    Target {
        cluster: cluster.to_owned(),
        replicas: 0,
        silent: false,
        seen: Some(Seen {
            applied: applied.is_some_and(|condition| condition["status"] == "True"),
            message: applied
                .and_then(|condition| condition["message"].as_str())
                .unwrap_or_default()
                .to_owned(),
            health: collected.and_then(|item| match item["health"].as_str() {
                Some("Healthy") => Some(Health::Healthy),
                Some("Unhealthy") => Some(Health::Unhealthy),
                _ => None,
            }),
            status: collected
                .map(|item| item["status"].clone())
                .filter(|status| !status.is_null()),
        }),
    }
}

fn fully_applied(input: &Value) -> Answer {
    let rows: Vec<WorkRow> = input["items"].as_array().into_iter().flatten().map(row).collect();
    let stored = json!({"metadata": {"name": "b"}, "spec": input["spec"]});
    let binding = view::binding(&stored, &rows);
    let conditions = binding["status"]["conditions"].as_array().into_iter().flatten();
    let Some(condition) = conditions
        .into_iter()
        .find(|condition| condition["type"] == "FullyApplied")
    else {
        return Answer::error();
    };
    Answer::Result(json!({
        "type": condition["type"], "status": condition["status"], "reason": condition["reason"],
    }))
}

fn row(item: &Value) -> WorkRow {
    let applied = if item["applied"] == true {
        ApplyState::Applied
    } else {
        ApplyState::Failed
    };
    WorkRow {
        template_uid: String::new(),
        template_generation: 0,
        overwrites: false,
        cluster: item["clusterName"].as_str().unwrap_or_default().to_owned(),
        work: "w".to_owned(),
        uid: String::new(),
        key: shared::ids::ObjectKey::new("apps", "Deployment", "demo", "web"),
        binding_namespace: "demo".to_owned(),
        binding: "b".to_owned(),
        labels: Default::default(),
        suspended: false,
        preserved: false,
        created: UnixSeconds(0),
        report: Some(WorkReport {
            applied,
            health: ReportedHealth::Unknown,
            reason: String::new(),
            message: String::new(),
            status: None,
            observed: UnixSeconds(0),
        }),
    }
}
