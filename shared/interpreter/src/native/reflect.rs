//! ReflectStatus: the part of a member object's status worth carrying to the hub.

use serde_json::{Map, Value};
use shared::owned;

use super::Builtin;
use crate::fields::{annotation, count, get, int, list, map, text};
use crate::{InterpretError, TEMPLATE_GENERATION_ANNOTATION};

/// The reflected status; `None`: nothing collected.
pub(super) fn status(kind: Option<Builtin>, object: &Value) -> Result<Option<Value>, InterpretError> {
    // The whole status of a kind without a rule, whatever its type.
    let Some(kind) = kind else {
        return Ok(get(object, "status")?.cloned());
    };
    let picked = match kind {
        Builtin::Deployment => {
            let fields = [
                "replicas",
                "readyReplicas",
                "updatedReplicas",
                "availableReplicas",
                "unavailableReplicas",
            ];
            workload(object, &[], &fields)?.filter(|picked| !picked.is_empty())
        }
        Builtin::ReplicaSet => workload(object, &["replicas"], &["readyReplicas", "availableReplicas"])?,
        Builtin::StatefulSet => workload(
            object,
            &["replicas", "availableReplicas"],
            &["readyReplicas", "currentReplicas", "updatedReplicas"],
        )?,
        Builtin::DaemonSet => workload(
            object,
            &[
                "currentNumberScheduled",
                "numberMisscheduled",
                "desiredNumberScheduled",
                "numberReady",
            ],
            &["updatedNumberScheduled", "numberAvailable", "numberUnavailable"],
        )?,
        Builtin::Job => job(object)?,
        Builtin::Service => service(object)?,
        Builtin::PodDisruptionBudget => {
            let fields = [
                "disruptionsAllowed",
                "expectedPods",
                "desiredHealthy",
                "currentHealthy",
            ];
            let mut picked = counters(object, &fields, &[])?;
            if let (Some(picked), Some(pods)) = (picked.as_mut(), map(object, "status.disruptedPods")?) {
                picked.insert("disruptedPods".to_owned(), Value::Object(pods.clone()));
            }
            picked
        }
        Builtin::HorizontalPodAutoscaler => counters(object, &["currentReplicas", "desiredReplicas"], &[])?,
        _ => return Ok(get(object, "status")?.cloned()),
    };
    Ok(picked.map(Value::Object))
}

/// Counters of the status: `always` also when zero, `others` only when not.
fn counters(
    object: &Value,
    always: &[&str],
    others: &[&str],
) -> Result<Option<Map<String, Value>>, InterpretError> {
    if map(object, "status")?.is_none() {
        return Ok(None);
    }
    let mut picked = Map::new();
    for name in always {
        picked.insert(
            (*name).to_owned(),
            count(object, &format!("status.{name}"))?.into(),
        );
    }
    for name in others {
        put_count(&mut picked, name, count(object, &format!("status.{name}"))?);
    }
    Ok(Some(picked))
}

fn put_count(picked: &mut Map<String, Value>, name: &str, number: i64) {
    if number != 0 {
        picked.insert(name.to_owned(), number.into());
    }
}

/// Counters and the three generations that say whether the member has caught up with the template. All four
/// workload kinds report observedGeneration (the reference leaves it out for StatefulSets, which then never
/// catch up).
fn workload(
    object: &Value,
    always: &[&str],
    others: &[&str],
) -> Result<Option<Map<String, Value>>, InterpretError> {
    let Some(mut picked) = counters(object, always, others)? else {
        return Ok(None);
    };
    put_count(
        &mut picked,
        "observedGeneration",
        count(object, "status.observedGeneration")?,
    );
    put_count(
        &mut picked,
        "generation",
        int(object, "metadata.generation")?.unwrap_or(0),
    );
    put_count(
        &mut picked,
        "resourceTemplateGeneration",
        template_generation(object)?,
    );
    Ok(Some(picked))
}

/// Read off the object itself: it was written by the same apply as the content, so it never runs ahead of it.
fn template_generation(object: &Value) -> Result<i64, InterpretError> {
    let path = format!("metadata.annotations.{TEMPLATE_GENERATION_ANNOTATION}");
    let purpose = "tell which template the member runs";
    let text = annotation(object, owned::TEMPLATE_GENERATION)
        .or_else(|| annotation(object, TEMPLATE_GENERATION_ANNOTATION))
        .ok_or_else(|| InterpretError::Missing {
            path: path.clone(),
            purpose,
        })?;
    text.parse().map_err(|_| InterpretError::WrongType {
        path,
        expected: "an integer as text",
    })
}

fn job(object: &Value) -> Result<Option<Map<String, Value>>, InterpretError> {
    let Some(mut picked) = counters(object, &[], &["active", "succeeded", "failed"])? else {
        return Ok(None);
    };
    let conditions = list(object, "status.conditions")?;
    if !conditions.is_empty() {
        picked.insert("conditions".to_owned(), conditions.into());
    }
    for name in ["startTime", "completionTime"] {
        let time = text(object, &format!("status.{name}"))?;
        if !time.is_empty() {
            picked.insert(name.to_owned(), time.into());
        }
    }
    Ok(Some(picked))
}

fn service(object: &Value) -> Result<Option<Map<String, Value>>, InterpretError> {
    if text(object, "spec.type")? != "LoadBalancer" || map(object, "status")?.is_none() {
        return Ok(None);
    }
    let mut picked = Map::new();
    if let Some(balancer) = map(object, "status.loadBalancer")? {
        picked.insert("loadBalancer".to_owned(), Value::Object(balancer.clone()));
    }
    Ok(Some(picked))
}
