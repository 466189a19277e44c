//! `failover/*`: the pure decisions of `hub_core::failover`.

use std::collections::BTreeMap;

use hub_core::cluster::{Cluster, Taint};
use hub_core::divide::Share;
use hub_core::failover::application;
use hub_core::failover::taint_rules::{self, TaintPolicy};
use hub_core::failover::taints::{self, Eviction};
use hub_core::failover::{
    self, ApplicationFailover, CopyState, EvictionTask, Failover, PurgeMode, preserve, tasks,
};
use hub_core::liveness::{Ready, Thresholds, Watched};
use interpreter::{Interpreter, Kind, Native, Operation};
use serde::Deserialize;
use serde_json::{Value, json};
use shared::time::{Millis, UnixSeconds};

use super::super::{Answer, Case};
use super::compact::{items, number, read, shares, string_map, strings, text};

/// The time at which every case is decided.
const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

pub(super) fn answer(case: &Case) -> Answer {
    let input = &case.input;
    match case.op.as_str() {
        "assessTasks" => assess(input),
        "nextRetry" => {
            let next = tasks::next_end(&tasks_of(&input["tasks"]), number(&input["timeoutSeconds"]), NOW);
            Answer::Result(json!(next.unwrap_or(0)))
        }
        "needEviction" => need_eviction(input),
        "enqueue" => enqueue(input),
        "syncEviction" => sync(input),
        "purgeMode" => {
            let failover = read_failover(&input["failover"]);
            let mode = failover::purge_mode(failover.as_ref(), PurgeMode::parse(&text(&input["global"])));
            Answer::Result(json!(mode))
        }
        "evictCluster" => evict_cluster(input),
        "appFailover.evict" => evict_application(input),
        "appFailover.unhealthy" => {
            let reported = items_of(&input["items"]);
            let (unhealthy, others) = application::unhealthy(
                &tasks_of(&input["spec"]["gracefulEvictionTasks"]),
                &copies(&reported),
            );
            Answer::Result(json!({"unhealthy": unhealthy, "others": others}))
        }
        "appFailover.detect" => detect(input),
        "appFailover.eligible" => {
            let native = Native::default();
            let known = |api_version: &str, kind: &str| {
                native.supports(&Kind { api_version, kind }, Operation::InterpretHealth)
            };
            Answer::Result(json!(application::is_watched(&input["object"], known)))
        }
        "preserveState" => match read_rules(&input["rules"]) {
            Some(rules) => match preserve::labels(&rules, &input["status"]) {
                Ok(labels) => Answer::Result(json!(labels)),
                Err(_) => Answer::error(),
            },
            None => Answer::error(),
        },
        "taintPolicies" => taint_policies(input),
        "conditionTaints" => {
            let ready = Ready::parse(&text(&input["ready"]));
            let taints = taint_rules::by_readiness(ready, &taints_of(&input["taints"]), NOW);
            Answer::Result(taints.iter().map(taint_without_time).collect())
        }
        "clusterHealth" => cluster_health(input),
        "evictionDelay" => Answer::Result(json!(failover::eviction_delay(
            input["ratePerSecond"].as_f64().unwrap_or(0.0)
        ))),
        _ => Answer::Unsupported,
    }
}

fn read_rules(value: &Value) -> Option<Vec<failover::PreservationRule>> {
    serde_json::from_value(value.clone()).ok()
}

fn read_failover(value: &Value) -> Option<Failover> {
    Failover::deserialize(value).ok()
}

fn ago(seconds: &Value) -> Option<UnixSeconds> {
    Some(UnixSeconds(NOW.0 - seconds.as_i64()?))
}

fn tasks_of(value: &Value) -> Vec<EvictionTask> {
    let task = |one: &Value| {
        let mut task = EvictionTask::deserialize(one).unwrap_or_default();
        task.creation_timestamp = ago(&one["createdSecondsAgo"]).map(UnixSeconds::rfc3339);
        task
    };
    items(value).map(task).collect()
}

fn items_of(value: &Value) -> Vec<(String, String, Option<Value>)> {
    items(value)
        .map(|item| {
            let status = Some(item["status"].clone()).filter(|status| !status.is_null());
            (text(&item["clusterName"]), text(&item["health"]), status)
        })
        .collect()
}

fn copies(items: &[(String, String, Option<Value>)]) -> Vec<CopyState<'_>> {
    items
        .iter()
        .map(|(cluster, health, status)| CopyState {
            cluster,
            health,
            status: status.as_ref(),
        })
        .collect()
}

fn assess(input: &Value) -> Answer {
    let reported = items_of(&input["items"]);
    let replaced = tasks::new_result_is_healthy(
        input["hasScheduled"] == true,
        &shares(&input["clusters"]),
        &copies(&reported),
    );
    let assessed = tasks::assess(
        &tasks_of(&input["tasks"]),
        number(&input["timeoutSeconds"]),
        replaced,
        NOW,
    );
    let kept = |task: &EvictionTask| {
        let created = task.creation_timestamp.as_deref();
        let created = created.and_then(UnixSeconds::parse_rfc3339);
        json!({"fromCluster": task.from_cluster, "createdSecondsAgo": created.map(|at| NOW.0 - at.0)})
    };
    let kept: Vec<Value> = assessed.kept.iter().map(kept).collect();
    Answer::Result(json!({"kept": kept, "evicted": assessed.evicted}))
}

fn taints_of(value: &Value) -> Vec<Taint> {
    items(value)
        .map(|taint| Taint {
            key: text(&taint["key"]),
            value: text(&taint["value"]),
            effect: text(&taint["effect"]),
            added: ago(&taint["addedSecondsAgo"]),
        })
        .collect()
}

/// The placement noted on the binding.
fn applied(input: &Value) -> Option<String> {
    if input["noPlacement"] == true {
        return None;
    }
    match input["placement"].as_str() {
        Some(text) => Some(text.to_owned()),
        None => Some(json!({"clusterTolerations": input["tolerations"]}).to_string()),
    }
}

fn need_eviction(input: &Value) -> Answer {
    // Switched off, or without a cluster, nobody asks.
    if input["enabled"] == false || input["clusterGone"] == true {
        return Answer::Result(json!({"evict": false, "waitSeconds": -1}));
    }
    match taints::eviction(&taints_of(&input["taints"]), applied(input).as_deref(), NOW) {
        Ok(Eviction::Now) => Answer::Result(json!({"evict": true})),
        Ok(Eviction::After(seconds)) => Answer::Result(json!({"evict": false, "waitSeconds": seconds})),
        Ok(Eviction::Never) => Answer::Result(json!({"evict": false, "waitSeconds": -1})),
        Err(_) => Answer::error(),
    }
}

fn enqueue(input: &Value) -> Answer {
    let when = taints::look_again(&taints_of(&input["taints"]), applied(input).as_deref(), NOW);
    Answer::Result(match when {
        Eviction::Now => json!({"enqueue": "immediately"}),
        Eviction::After(seconds) => json!({"enqueue": "after", "seconds": seconds}),
        Eviction::Never => json!({"enqueue": "never"}),
    })
}

fn result(clusters: &[Share], tasks: &[EvictionTask]) -> Answer {
    let clusters: Vec<Value> = clusters
        .iter()
        .map(|share| json!({"name": share.cluster, "replicas": share.replicas}))
        .collect();
    Answer::Result(json!({"clusters": clusters, "gracefulEvictionTasks": tasks}))
}

/// Failover of a case; without its gate the state is not carried over.
fn failover_of(spec: &Value, input: &Value) -> Option<Failover> {
    let mut failover = read_failover(&spec["failover"])?;
    if input["featureGates"]["StatefulFailoverInjection"] != true {
        if let Some(application) = &mut failover.application {
            application.state_preservation = None;
        }
        if let Some(cluster) = &mut failover.cluster {
            cluster.state_preservation = None;
        }
    }
    Some(failover)
}

fn sync(input: &Value) -> Answer {
    let binding = &input["binding"];
    let spec = &binding["spec"];
    let (mut clusters, mut tasks) = (
        shares(&spec["clusters"]),
        tasks_of(&spec["gracefulEvictionTasks"]),
    );
    match taints::eviction(&taints_of(&input["taints"]), applied(input).as_deref(), NOW) {
        Ok(Eviction::Now) => {}
        Ok(_) => return result(&clusters, &tasks),
        Err(_) => return Answer::error(),
    }
    let reported = items_of(&binding["status"]["aggregatedStatus"]);
    let moved = taints::evict(
        &mut clusters,
        &mut tasks,
        &text(&input["cluster"]),
        failover_of(spec, input).as_ref(),
        PurgeMode::parse(&text(&input["purgeMode"])),
        &copies(&reported),
    );
    match moved {
        Ok(()) => result(&clusters, &tasks),
        Err(_) => Answer::error(),
    }
}

fn evict_cluster(input: &Value) -> Answer {
    let spec = &input["spec"];
    let (mut clusters, mut tasks) = (
        shares(&spec["clusters"]),
        tasks_of(&spec["gracefulEvictionTasks"]),
    );
    let task = EvictionTask {
        from_cluster: text(&input["cluster"]),
        purge_mode: PurgeMode::parse(&text(&input["purgeMode"])),
        reason: text(&input["reason"]),
        message: text(&input["message"]),
        producer: text(&input["producer"]),
        ..EvictionTask::default()
    };
    tasks::evict(&mut clusters, &mut tasks, task);
    result(&clusters, &tasks)
}

/// `scheduler/graceful-evict-cluster`: the same move, with the task given as a whole.
pub(super) fn graceful_evict(input: &Value) -> Answer {
    let spec = &input["spec"];
    let (mut clusters, mut tasks) = (
        shares(&spec["clusters"]),
        tasks_of(&spec["gracefulEvictionTasks"]),
    );
    match read::<EvictionTask>(&input["task"]) {
        Some(task) => tasks::evict(&mut clusters, &mut tasks, task),
        None => return Answer::error(),
    }
    let row = |share: &Share| match share.replicas {
        0 => json!({"name": share.cluster}),
        replicas => json!({"name": share.cluster, "replicas": replicas}),
    };
    let mut result = json!({"clusters": clusters.iter().map(row).collect::<Vec<_>>()});
    if !tasks.is_empty() {
        let mut rows = json!(tasks);
        for row in rows
            .as_array_mut()
            .into_iter()
            .flatten()
            .filter_map(Value::as_object_mut)
        {
            row.retain(|_, value| *value != json!(""));
        }
        result["gracefulEvictionTasks"] = rows;
    }
    Answer::Result(json!({"spec": result}))
}

fn evict_application(input: &Value) -> Answer {
    let spec = &input["spec"];
    let (mut clusters, mut tasks) = (
        shares(&spec["clusters"]),
        tasks_of(&spec["gracefulEvictionTasks"]),
    );
    let failover: ApplicationFailover = failover_of(spec, input)
        .and_then(|failover| failover.application)
        .unwrap_or_default();
    let reported = items_of(&input["items"]);
    let moved = application::evict(
        &mut clusters,
        &mut tasks,
        &strings(&input["clusters"]),
        &failover,
        &copies(&reported),
        !text(&spec["resource"]["namespace"]).is_empty(),
    );
    match moved {
        Ok(()) => result(&clusters, &tasks),
        Err(_) => Answer::error(),
    }
}

fn detect(input: &Value) -> Answer {
    let names = strings(&input["unhealthyClusters"]);
    let unhealthy: Vec<&str> = names.iter().map(String::as_str).collect();
    let since: BTreeMap<String, i64> = read(&input["unhealthySecondsAgo"]).unwrap_or_default();
    let detected = application::detect(&unhealthy, &since, number(&input["tolerationSeconds"]));
    Answer::Result(json!({
        "evict": detected.evict, "retryAfterSeconds": detected.look_again_s.unwrap_or(0),
    }))
}

fn taint_without_time(taint: &Taint) -> Value {
    let mut row = json!({"key": taint.key, "effect": taint.effect});
    if !taint.value.is_empty() {
        row["value"] = json!(taint.value);
    }
    row
}

fn taint_policies(input: &Value) -> Answer {
    let compact = &input["cluster"];
    let here = Cluster {
        name: text(&compact["name"]),
        labels: string_map(&compact["labels"]),
        taints: taints_of(&compact["taints"]),
        ..Cluster::default()
    };
    let Ok(policies) = items(&input["policies"])
        .map(TaintPolicy::read)
        .collect::<Result<Vec<_>, _>>()
    else {
        return Answer::error();
    };
    let row = |taint: &Taint| {
        let mut row = taint_without_time(taint);
        row["timeAdded"] = json!(match taint.added {
            None => "unset",
            Some(NOW) => "now",
            Some(_) => "kept",
        });
        row
    };
    let taints = taint_rules::by_policies(&here, &string_map(&compact["conditions"]), &policies, NOW);
    Answer::Result(taints.iter().map(row).collect())
}

/// One look at a cluster by a hub that started just now. A cluster that the hub would have to probe itself does not exist
/// here: members dial in. A status that is recorded already keeps its reason, which the cases leave empty.
fn cluster_health(input: &Value) -> Answer {
    if input["syncMode"] != "Pull" {
        return Answer::Result(json!({"ready": null}));
    }
    let saved = Ready::parse(&text(&input["ready"]));
    let now = Millis(10_000_000);
    let mut watched = Watched::default();
    watched.presence.ever_heard = saved.is_some();
    if let Some(seconds) = input["leaseRenewSecondsAgo"].as_u64() {
        watched.presence.heard(Millis(now.0 - seconds * 1_000));
    }
    let thresholds = Thresholds {
        failure_ms: input["monitorGraceSeconds"].as_u64().unwrap_or(0) * 1_000,
        ..Thresholds::default()
    };
    Answer::Result(match (watched.turn(now, now, thresholds), saved) {
        (Some((ready, reason)), saved) if saved != Some(ready) => {
            json!({"ready": ready.as_str(), "reason": reason})
        }
        (_, Some(ready)) => json!({"ready": ready.as_str(), "reason": ""}),
        (_, None) => json!({"ready": null}),
    })
}
