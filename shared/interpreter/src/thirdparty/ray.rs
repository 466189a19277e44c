//! Ray: clusters, jobs and services. All three contain the spec of a cluster: one head and groups of workers.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use shared::object::Quantity;

use super::general::{component, number, of_template};
use super::merge::{Status, joined, latest, only, own, put, put_sums};
use super::{NONE, Read, Rules};
use crate::fields::{condition_true, get, list, map, set, text};
use crate::native::{Names, pod_names};
use crate::quantity;
use crate::types::reported;
use crate::{Component, Dependency, InterpretError, MemberItem, ReplicaRequirements, Replicas};

pub(super) static CLUSTER: Rules = Rules {
    components: Some(|template| components(template, "spec")),
    aggregate: Some(cluster_aggregate),
    health: Some(|object| {
        let conditions = list(object, "status.conditions")?;
        let is = |of_type| condition_true(conditions, of_type);
        Ok(is("HeadPodReady") && is("RayClusterProvisioned") && !is("RayClusterReplicaFailure"))
    }),
    ..NONE
};

pub(super) static JOB: Rules = Rules {
    components: Some(|template| components(template, "spec.rayClusterSpec")),
    aggregate: Some(job_aggregate),
    health: Some(|object| {
        Ok(match text(object, "status.jobDeploymentStatus")? {
            "Running" => true,
            "Complete" => text(object, "status.jobStatus")? == "SUCCEEDED",
            _ => false,
        })
    }),
    dependencies: Some(|template| {
        needs(
            template,
            "spec.rayClusterSpec",
            &["spec.submitterPodTemplate.spec"],
        )
    }),
    ..NONE
};

pub(super) static SERVICE: Rules = Rules {
    replicas: Some(service_replicas),
    revise: Some(service_revise),
    aggregate: Some(service_aggregate),
    health: Some(|object| Ok(condition_true(list(object, "status.conditions")?, "Ready"))),
    dependencies: Some(|template| needs(template, SERVED_BY, &[])),
    ..NONE
};

const SERVED_BY: &str = "spec.rayClusterConfig";

fn groups<'a>(template: &'a Value, cluster: &str) -> Read<&'a [Value]> {
    list(template, &format!("{cluster}.workerGroupSpecs"))
}

fn head<'a>(template: &'a Value, cluster: &str) -> Read<Option<&'a Value>> {
    get(template, &format!("{cluster}.headGroupSpec"))
}

/// The head and each group of workers.
fn components(template: &Value, cluster: &str) -> Read<Vec<Component>> {
    let mut found = Vec::new();
    if let Some(head) = head(template, cluster)?
        && get(head, "template")?.is_some()
    {
        let mut component = component("ray-head".to_owned(), head, 1)?;
        component.replicas = 1;
        found.push(component);
    }
    for (position, group) in groups(template, cluster)?.iter().enumerate() {
        let name = match text(group, "groupName")? {
            "" => format!("worker-{}", position + 1),
            name => name.to_owned(),
        };
        found.push(component(name, group, 0)?);
    }
    Ok(found)
}

fn needs(template: &Value, cluster: &str, others: &[&str]) -> Read<Vec<Dependency>> {
    let mut names = Names::new();
    if let Some(head) = head(template, cluster)? {
        pod_names(&mut names, get(head, "template.spec")?)?;
    }
    for group in groups(template, cluster)? {
        pod_names(&mut names, get(group, "template.spec")?)?;
    }
    for path in others {
        pod_names(&mut names, get(template, path)?)?;
    }
    super::general::dependencies(template, names)
}

/// One head and its workers; of each resource, what the hungriest pod asks for.
fn service_replicas(template: &Value) -> Read<Replicas> {
    let Some(head) = head(template, SERVED_BY)? else {
        return Ok(Replicas::default());
    };
    let mut count: i64 = 1;
    let mut most: Option<ReplicaRequirements> = of_template(get(head, "template")?)?;
    for group in groups(template, SERVED_BY)? {
        count = count.saturating_add(number(group, "replicas", 0)?);
        let Some(asked) = of_template(get(group, "template")?)? else {
            continue;
        };
        let known = most.get_or_insert_with(ReplicaRequirements::default);
        known.resource_request = larger(&known.resource_request, &asked.resource_request);
    }
    Ok(Replicas {
        replicas: count,
        requirements: most,
    })
}

fn larger(a: &BTreeMap<String, String>, b: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let amount = |text: &str| text.parse::<Quantity>().unwrap_or_default();
    let mut most = a.clone();
    for (name, text) in b {
        let known = most.entry(name.clone()).or_insert_with(|| text.clone());
        if amount(known) < amount(text) {
            known.clone_from(text);
        }
    }
    most
}

/// One replica is the head; the others go to the groups in proportion to what they had, the last takes the rest.
fn service_revise(template: &Value, replicas: i64) -> Read<Value> {
    let mut revised = template.clone();
    let mut counts = Vec::new();
    for group in groups(template, SERVED_BY)? {
        counts.push(number(group, "replicas", 0)?.max(0));
    }
    let Some(last) = counts.len().checked_sub(1) else {
        return Ok(revised);
    };
    let workers = replicas.saturating_sub(1).max(0);
    let total: i128 = counts.iter().copied().map(i128::from).sum();
    let many = i64::try_from(counts.len()).unwrap_or(i64::MAX);
    let mut left = workers;
    for (position, count) in counts.iter_mut().enumerate() {
        let share = if total == 0 {
            workers / many + i64::from((position as i64) < workers % many)
        } else if position == last {
            left
        } else {
            let share = i128::from(workers) * i128::from(*count) / total;
            i64::try_from(share).unwrap_or(left)
        };
        *count = share;
        left -= share;
    }
    let Some(groups) = revised
        .pointer_mut("/spec/rayClusterConfig/workerGroupSpecs")
        .and_then(Value::as_array_mut)
    else {
        return Ok(revised);
    };
    for (group, count) in groups.iter_mut().zip(counts) {
        set(group, "replicas", count.into());
    }
    Ok(revised)
}

fn first(items: &[MemberItem], name: &str) -> Option<Value> {
    reported(items).find_map(|(_, member)| member.get(name).filter(|value| !value.is_null()).cloned())
}

fn cluster_aggregate(template: &Value, items: Option<&[MemberItem]>, _now: &str) -> Read<Option<Value>> {
    let items = items.unwrap_or_default();
    if items.is_empty() {
        return Ok(get(template, "status")?.cloned());
    }
    if let Some(status) = only(items) {
        return Ok(status);
    }
    let mut status = Status::new();
    let counters = [
        "availableWorkerReplicas",
        "desiredWorkerReplicas",
        "maxWorkerReplicas",
        "minWorkerReplicas",
        "readyWorkerReplicas",
    ];
    put_sums(&mut status, items, &counters)?;
    for name in ["desiredCPU", "desiredMemory", "desiredGPU", "desiredTPU"] {
        let mut amounts = Vec::new();
        for (_, member) in reported(items) {
            amounts.extend(Some(text(member, name)?).filter(|amount| !amount.is_empty()));
        }
        let sum = quantity::sum(amounts).map_err(|_| InterpretError::WrongType {
            path: format!("status.{name}"),
            expected: "a resource quantity",
        })?;
        status.insert(name.to_owned(), sum.into());
    }
    for name in ["endpoints", "head", "state", "reason", "stateTransitionTimes"] {
        put(&mut status, name, first(items, name));
    }
    put(&mut status, "lastUpdateTime", latest(items, "lastUpdateTime")?);
    put_highest_generation(&mut status, items)?;
    status.insert("conditions".to_owned(), joined(items, "conditions")?.into());
    Ok(Some(status.into()))
}

fn put_highest_generation(status: &mut Status, items: &[MemberItem]) -> Read<()> {
    let mut highest = 0;
    for (_, member) in reported(items) {
        highest = highest.max(crate::fields::count(member, "observedGeneration")?);
    }
    put(
        status,
        "observedGeneration",
        (highest > 0).then(|| highest.into()),
    );
    Ok(())
}

/// From good to bad; what is not listed ranks lowest.
const DEPLOYMENTS: &[&[&str]] = &[
    &["Initializing"],
    &["Waiting"],
    &["Suspending", "Suspended"],
    &["Retrying"],
    &["Running"],
    &["Complete"],
    &["ValidationFailed"],
    &["Failed"],
];
const JOBS: &[&[&str]] = &[
    &["PENDING"],
    &["RUNNING"],
    &["SUCCEEDED"],
    &["STOPPED"],
    &["FAILED"],
];

fn rank(ranking: &[&[&str]], state: &str) -> usize {
    ranking
        .iter()
        .position(|states| states.contains(&state))
        .map_or(0, |position| position + 1)
}

/// The worst of all; how the deployment does and how the job does are ranked apart.
fn job_aggregate(template: &Value, items: Option<&[MemberItem]>, _now: &str) -> Read<Option<Value>> {
    let Some(items) = items else {
        return Ok(get(template, "status")?.cloned());
    };
    if let Some(status) = only(items) {
        return Ok(status);
    }
    let mut deployment: Option<(usize, &str, &Value)> = None;
    let mut job: Option<(usize, &str)> = None;
    for (_, member) in reported(items) {
        if get(member, "jobDeploymentStatus")?.is_some() {
            let state = text(member, "jobDeploymentStatus")?;
            let place = rank(DEPLOYMENTS, state);
            if deployment.is_none_or(|(worst, ..)| place > worst) {
                deployment = Some((place, state, member));
            }
        }
        let state = text(member, "jobStatus")?;
        let place = rank(JOBS, state);
        if !state.is_empty() && job.is_none_or(|(worst, _)| place > worst) {
            job = Some((place, state));
        }
    }
    let mut status = own(template)?;
    put(&mut status, "jobStatus", job.map(|(_, state)| state.into()));
    put(
        &mut status,
        "jobDeploymentStatus",
        deployment.map(|(_, state, _)| state.into()),
    );
    for name in ["reason", "message"] {
        let said = deployment.and_then(|(_, _, member)| member.get(name).filter(|value| !value.is_null()));
        put(&mut status, name, said.cloned());
    }
    Ok(Some(status.into()))
}

fn service_aggregate(template: &Value, items: Option<&[MemberItem]>, _now: &str) -> Read<Option<Value>> {
    let Some(items) = items else {
        return Ok(get(template, "status")?.cloned());
    };
    if let Some(status) = only(items) {
        return Ok(status);
    }
    let mut status = own(template)?;
    put_sums(&mut status, items, &["numServeEndpoints"])?;
    put(&mut status, "lastUpdateTime", latest(items, "lastUpdateTime")?);
    put_highest_generation(&mut status, items)?;
    status.insert("conditions".to_owned(), joined(items, "conditions")?.into());
    // Empty means that one of them serves nothing.
    let idle =
        reported(items).any(|(_, member)| member.get("serviceStatus").is_some_and(|state| *state == ""));
    status.insert(
        "serviceStatus".to_owned(),
        if idle { "" } else { "Running" }.into(),
    );
    for name in ["activeServiceStatus", "pendingServiceStatus"] {
        put(&mut status, name, first(items, name));
    }
    if let Some(active) = status
        .get_mut("activeServiceStatus")
        .and_then(Value::as_object_mut)
    {
        let worst = applications(items)?;
        if !worst.is_empty() {
            active.insert("applicationStatuses".to_owned(), worst.into());
        }
    }
    Ok(Some(status.into()))
}

/// Of each application the worst status that a member gives.
fn applications(items: &[MemberItem]) -> Read<Map<String, Value>> {
    let rank = |status: &Value| match status["status"].as_str() {
        Some("DEPLOY_FAILED" | "UNHEALTHY") => 2,
        Some("DEPLOYING") => 1,
        _ => 0,
    };
    let mut worst: Map<String, Value> = Map::new();
    for (_, member) in reported(items) {
        for (name, status) in map(member, "activeServiceStatus.applicationStatuses")?
            .into_iter()
            .flatten()
        {
            if worst.get(name).is_none_or(|known| rank(status) > rank(known)) {
                worst.insert(name.clone(), status.clone());
            }
        }
    }
    Ok(worst)
}
