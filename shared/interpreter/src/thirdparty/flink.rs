//! Flink deployments: one kind of job manager, one of task manager.

use serde_json::Value;
use shared::object::Quantity;

use super::general::{number, pick};
use super::merge::{Status, put};
use super::{NONE, Read, Rules};
use crate::fields::{get, text};
use crate::native::node_claim;
use crate::quantity::canonical;
use crate::types::reported;
use crate::{Component, InterpretError, MemberItem, ReplicaRequirements, Replicas};

pub(super) static DEPLOYMENT: Rules = Rules {
    replicas: Some(replicas),
    components: Some(components),
    aggregate: Some(aggregate),
    reflect: Some(|object| pick(object, FIELDS)),
    health: Some(healthy),
    ..NONE
};

const FIELDS: &[&str] = &[
    "clusterInfo",
    "error",
    "jobManagerDeploymentStatus",
    "jobStatus",
    "observedGeneration",
    "lifecycleState",
    "reconciliationStatus",
    "taskManager",
];

/// A job that never gets a container is the user's to repair: moving it elsewhere helps nobody.
const USERS_FAULT: [&str; 3] = ["ErrImagePull", "ImagePullBackOff", "CrashLoopBackOff"];

fn healthy(object: &Value) -> Read<bool> {
    Ok(match text(object, "status.jobStatus.state")? {
        "" => {
            text(object, "status.jobManagerDeploymentStatus")? == "READY"
                && text(object, "status.lifecycleState")? == "STABLE"
        }
        "CREATED" | "INITIALIZING" | "RECONCILING" => {
            let error = text(object, "status.error")?;
            USERS_FAULT.iter().any(|fault| error.contains(fault))
        }
        _ => true,
    })
}

/// Job managers, and task managers: as many as given, else enough slots for the parallelism.
fn counts(template: &Value) -> Read<(i64, i64)> {
    let managers = number(template, "spec.jobManager.replicas", 1)?;
    let given = number(template, "spec.taskManager.replicas", -1)?;
    if given >= 0 {
        return Ok((managers, given));
    }
    let parallelism = number(template, "spec.job.parallelism", 0)?;
    // The name of the setting has dots, so it is no path.
    let settings = get(template, "spec.flinkConfiguration")?;
    let slots = match settings.and_then(|settings| settings.get("taskmanager.numberOfTaskSlots")) {
        Some(Value::String(text)) => text.trim().parse().unwrap_or(0),
        Some(value) => value.as_i64().unwrap_or(0),
        None => 0,
    };
    let tasks = if parallelism > 0 && slots > 0 {
        (parallelism - 1) / slots + 1
    } else {
        1
    };
    Ok((managers, tasks))
}

/// An amount of a manager's resource, as number or text.
fn amount(template: &Value, manager: &str, name: &str) -> Read<Option<Quantity>> {
    let path = format!("spec.{manager}.resource.{name}");
    let text = match get(template, &path)? {
        None => return Ok(None),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    text.parse().map(Some).map_err(|_| InterpretError::WrongType {
        path,
        expected: "a resource quantity",
    })
}

/// Where the pods of the common template may run, and their priority.
fn common(template: &Value) -> Read<ReplicaRequirements> {
    let mut requirements = ReplicaRequirements::default();
    if let Some(spec) = get(template, "spec.podTemplate.spec")? {
        requirements.node_claim = node_claim(spec)?;
        let class = text(spec, "priorityClassName")?;
        requirements.priority_class_name = (!class.is_empty()).then(|| class.to_owned());
    }
    Ok(requirements)
}

fn put_amount(requirements: &mut ReplicaRequirements, name: &str, amount: Option<Quantity>) {
    if let Some(amount) = amount.filter(|amount| *amount > Quantity::default()) {
        requirements
            .resource_request
            .insert(name.to_owned(), canonical(amount, name == "memory"));
    }
}

const MANAGERS: [&str; 2] = ["jobManager", "taskManager"];

/// All managers as one kind of pod: of each resource what the hungrier one asks for.
fn replicas(template: &Value) -> Read<Replicas> {
    let (managers, tasks) = counts(template)?;
    let mut requirements = common(template)?;
    for name in ["cpu", "memory"] {
        let mut most = None;
        for manager in MANAGERS {
            most = most.max(amount(template, manager, name)?);
        }
        put_amount(&mut requirements, name, most);
    }
    let namespace = text(template, "metadata.namespace")?;
    requirements.namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
    Ok(Replicas {
        replicas: managers.saturating_add(tasks),
        requirements: Some(requirements),
    })
}

fn components(template: &Value) -> Read<Vec<Component>> {
    let (managers, tasks) = counts(template)?;
    let mut found = Vec::new();
    for (manager, replicas) in MANAGERS.into_iter().zip([managers, tasks]) {
        let mut requirements = common(template)?;
        for name in ["cpu", "memory"] {
            put_amount(&mut requirements, name, amount(template, manager, name)?);
        }
        found.push(Component {
            name: manager.to_lowercase(),
            replicas,
            replica_requirements: Some(requirements),
        });
    }
    Ok(found)
}

/// The last member that reports says everything.
fn aggregate(template: &Value, items: Option<&[MemberItem]>, _now: &str) -> Read<Option<Value>> {
    let mut status: Status = super::merge::own(template)?;
    let Some(items) = items else {
        return Ok(get(template, "status")?.cloned());
    };
    let last = reported(items).last().map(|(_, member)| member);
    for name in FIELDS {
        put(
            &mut status,
            name,
            last.and_then(|member| member.get(*name)).cloned(),
        );
    }
    Ok(Some(status.into()))
}
