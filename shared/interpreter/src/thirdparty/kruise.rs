//! OpenKruise: workloads, broadcast and cron jobs, sidecars.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::general::{keep, pick, pick_with_generations, pod_dependencies, replicas, revise};
use super::merge::{self, clusters_with, joined, own, put, put_last, put_observed_generation, put_sums};
use super::{NONE, Read, Rules};
use crate::fields::{count, get, int, map, text};
use crate::native::{Names, pod_names};
use crate::{Dependency, InterpretError, MemberItem, Replicas};

const TEMPLATE: &str = "spec.template";

/// Rules of workloads with `spec.replicas`.
const WORKLOAD: Rules = Rules {
    replicas: Some(|template| replicas(template, "spec.replicas", None, TEMPLATE)),
    revise: Some(|template, count| revise(template, "spec.replicas", count)),
    health: Some(rolled_out),
    dependencies: Some(|template| pod_dependencies(template, &[TEMPLATE])),
    ..NONE
};

pub(super) static CLONE_SET: Rules = Rules {
    aggregate: Some(|template, items, _| sums(template, items, CLONES, CLONE_TEXTS)),
    reflect: Some(|object| pick_with_generations(object, &[CLONES, CLONE_TEXTS, OBSERVED].concat())),
    ..WORKLOAD
};

pub(super) static STATEFUL_SET: Rules = Rules {
    aggregate: Some(|template, items, _| sums(template, items, STATEFUL, REVISIONS)),
    reflect: Some(|object| pick_with_generations(object, &[STATEFUL, REVISIONS, OBSERVED].concat())),
    ..WORKLOAD
};

pub(super) static UNITED_DEPLOYMENT: Rules = Rules {
    health: Some(|object| match map(object, "status")? {
        Some(_) => rolled_out(object),
        None => Ok(false),
    }),
    aggregate: Some(united),
    reflect: Some(|object| pick_with_generations(object, &[UNITED, &["conditions"], OBSERVED].concat())),
    ..WORKLOAD
};

pub(super) static DAEMON_SET: Rules = Rules {
    aggregate: Some(daemons),
    reflect: Some(|object| pick_with_generations(object, &[DAEMONS, &["daemonSetHash"], OBSERVED].concat())),
    health: Some(|object| {
        let updated = count(object, "status.updatedNumberScheduled")?;
        Ok(observed(object)?
            && updated >= count(object, "status.desiredNumberScheduled")?
            && count(object, "status.numberAvailable")? >= updated)
    }),
    dependencies: Some(|template| pod_dependencies(template, &[TEMPLATE])),
    ..NONE
};

pub(super) static BROADCAST_JOB: Rules = Rules {
    replicas: Some(|template| replicas(template, "spec.parallelism", Some(1), TEMPLATE)),
    revise: Some(|template, count| revise(template, "spec.parallelism", count)),
    retain: Some(|desired, observed| keep(desired, observed, &["spec.template.metadata.labels"])),
    health: Some(|object| {
        let running = count(object, "status.active")? != 0 || count(object, "status.succeeded")? != 0;
        Ok(count(object, "status.desired")? != 0 && count(object, "status.failed")? == 0 && running)
    }),
    aggregate: Some(broadcast),
    reflect: Some(|object| {
        pick(
            object,
            &[
                "conditions",
                "startTime",
                "completionTime",
                "active",
                "succeeded",
                "failed",
                "desired",
                "phase",
            ],
        )
    }),
    dependencies: Some(|template| pod_dependencies(template, &[TEMPLATE])),
    ..NONE
};

pub(super) static SIDECAR_SET: Rules = Rules {
    replicas: Some(|_| Ok(Replicas::default())),
    retain: Some(|desired, _| Ok(desired.clone())),
    health: Some(|object| {
        let matched = count(object, "status.matchedPods")?;
        let known = map(object, "status")?.is_some();
        Ok(known && (matched == 0 || count(object, "status.updatedPods")? == matched))
    }),
    aggregate: Some(|_, items, _| {
        let mut status = merge::Status::new();
        put_sums(&mut status, items.unwrap_or_default(), SIDECARS)?;
        Ok(Some(status.into()))
    }),
    reflect: Some(|object| {
        let mut picked = pick(object, SIDECARS)?;
        if map(object, "status")?.is_some() {
            for name in SIDECARS {
                if picked[*name].is_null() {
                    picked[*name] = 0.into();
                }
            }
        }
        Ok(picked)
    }),
    dependencies: Some(sidecar_needs),
    ..NONE
};

pub(super) static ADVANCED_CRON_JOB: Rules = Rules {
    aggregate: Some(|template, items, _| {
        let Some(items) = items else {
            return Ok(get(template, "status")?.cloned());
        };
        let mut status = own(template)?;
        status.insert("active".to_owned(), joined(items, "active")?.into());
        for name in ["type", "lastScheduleTime"] {
            status.remove(name);
        }
        put_last(&mut status, items, &["type", "lastScheduleTime"])?;
        Ok(Some(status.into()))
    }),
    dependencies: Some(|template| {
        const BROADCAST: &str = "spec.template.broadcastJobTemplate";
        let job = if get(template, BROADCAST)?.is_some() {
            "spec.template.broadcastJobTemplate.spec.template"
        } else {
            "spec.template.jobTemplate.spec.template"
        };
        pod_dependencies(template, &[job])
    }),
    ..NONE
};

const OBSERVED: &[&str] = &["observedGeneration"];
const REVISIONS: &[&str] = &["updateRevision", "currentRevision"];
const CLONE_TEXTS: &[&str] = &["updateRevision", "currentRevision", "labelSelector"];
const CLONES: &[&str] = &[
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "updatedReadyReplicas",
    "expectedUpdatedReplicas",
];
const STATEFUL: &[&str] = &[
    "replicas",
    "readyReplicas",
    "currentReplicas",
    "updatedReplicas",
    "availableReplicas",
    "updatedReadyReplicas",
];
const UNITED: &[&str] = &[
    "replicas",
    "readyReplicas",
    "updatedReplicas",
    "availableReplicas",
    "unavailableReplicas",
];
const DAEMONS: &[&str] = &[
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
];
const SIDECARS: &[&str] = &["matchedPods", "updatedPods", "readyPods"];

fn observed(object: &Value) -> Read<bool> {
    Ok(int(object, "status.observedGeneration")? == int(object, "metadata.generation")?)
}

/// As a Deployment, but without a status nothing can be said.
fn rolled_out(object: &Value) -> Read<bool> {
    if map(object, "status")?.is_none() {
        return Err(InterpretError::Missing {
            path: "status".to_owned(),
            purpose: "judge the rollout",
        });
    }
    let updated = count(object, "status.updatedReplicas")?;
    let enough = int(object, "spec.replicas")?.is_none_or(|wanted| updated >= wanted);
    Ok(observed(object)? && enough && count(object, "status.availableReplicas")? >= updated)
}

/// Sums, texts of the last member, and whether all have caught up.
fn sums(
    template: &Value,
    items: Option<&[MemberItem]>,
    counters: &[&str],
    texts: &[&str],
) -> Read<Option<Value>> {
    let items = items.unwrap_or_default();
    let mut status = own(template)?;
    for name in texts {
        status.remove(*name);
    }
    put_sums(&mut status, items, counters)?;
    put_last(&mut status, items, texts)?;
    put_observed_generation(&mut status, template, items)?;
    Ok(Some(status.into()))
}

/// Of each type, the condition of the last member that has one.
fn united(template: &Value, items: Option<&[MemberItem]>, _now: &str) -> Read<Option<Value>> {
    let mut status = sums(template, items, UNITED, &[])?;
    let mut last = BTreeMap::new();
    for condition in joined(items.unwrap_or_default(), "conditions")? {
        last.insert(text(&condition, "type")?.to_owned(), condition);
    }
    if let Some(status) = status.as_mut().filter(|_| !last.is_empty()) {
        status["conditions"] = last.into_values().collect();
    }
    Ok(status)
}

fn daemons(template: &Value, items: Option<&[MemberItem]>, _now: &str) -> Read<Option<Value>> {
    let mut status = sums(template, items, DAEMONS, &["daemonSetHash"])?;
    if let Some(status) = status.as_mut().filter(|_| items.is_none()) {
        status["daemonSetHash"] = json!(0);
    }
    Ok(status)
}

/// Failed as soon as one member failed, completed once every member completed. Each member counts for itself; in the
/// reference one without conditions inherits the outcome of the one before it.
fn broadcast(template: &Value, items: Option<&[MemberItem]>, _now: &str) -> Read<Option<Value>> {
    let Some(items) = items else {
        return Ok(get(template, "status")?.cloned());
    };
    let mut status = own(template)?;
    put_sums(&mut status, items, &["active", "succeeded", "failed", "desired"])?;
    status.remove("phase");
    put_last(&mut status, items, &["phase"])?;
    let failed = clusters_with(items, "Failed")?;
    let completed = clusters_with(items, "Complete")?.len();
    let outcome = if !failed.is_empty() {
        let message = format!("Job failed in clusters {}", failed.join(", "));
        Some(json!({"type": "Failed", "status": "True", "reason": "JobFailed", "message": message}))
    } else if completed == items.len() && completed > 0 {
        let message = "Job completed in every cluster";
        Some(json!({"type": "Completed", "status": "True", "reason": "Completed", "message": message}))
    } else {
        None
    };
    put(&mut status, "conditions", outcome.map(|outcome| json!([outcome])));
    Ok(Some(status.into()))
}

fn sidecar_needs(template: &Value) -> Read<Vec<Dependency>> {
    let mut names = Names::new();
    if let Some(spec) = get(template, "spec")? {
        let pod = json!({"containers": spec["containers"], "volumes": spec["volumes"]});
        pod_names(&mut names, Some(&pod))?;
    }
    super::general::dependencies(template, names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(cluster: &str, status: Value) -> MemberItem {
        MemberItem {
            cluster: cluster.to_owned(),
            status: Some(status),
            silent: false,
        }
    }

    #[test]
    fn a_member_without_conditions_inherits_no_outcome() {
        let done = json!({"conditions": [{"type": "Complete", "status": "True"}]});
        let items = [item("a", done), item("b", json!({"active": 1}))];
        let status = broadcast(&json!({}), Some(&items), "now")
            .expect("readable")
            .expect("a status");
        assert!(status["conditions"].is_null(), "{status}");
    }
}
