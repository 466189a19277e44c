//! AggregateStatus: which rule merges the members' statuses of a kind.

use serde_json::{Map, Value};

use super::{
    Builtin, aggregate_balancers as balancers, aggregate_phases as phases, aggregate_workloads as workloads,
};
use crate::fields::{get, map};
use crate::{InterpretError, MemberItem};

/// The template's status; `None`: it has none and gets none.
pub(super) fn status(
    kind: Builtin,
    template: &Value,
    items: Option<&[MemberItem]>,
    now: &str,
) -> Result<Option<Value>, InterpretError> {
    let known = items.unwrap_or_default();
    let merged = match kind {
        Builtin::Deployment => workloads::sums(
            template,
            known,
            &[],
            &[
                "replicas",
                "readyReplicas",
                "updatedReplicas",
                "availableReplicas",
                "unavailableReplicas",
            ],
        )?,
        Builtin::ReplicaSet => workloads::sums(
            template,
            known,
            &["replicas"],
            &["readyReplicas", "availableReplicas"],
        )?,
        Builtin::StatefulSet => workloads::sums(
            template,
            known,
            &["replicas", "availableReplicas"],
            &["readyReplicas", "currentReplicas", "updatedReplicas"],
        )?,
        Builtin::DaemonSet => workloads::sums(
            template,
            known,
            &[
                "currentNumberScheduled",
                "numberMisscheduled",
                "desiredNumberScheduled",
                "numberReady",
            ],
            &["updatedNumberScheduled", "numberAvailable", "numberUnavailable"],
        )?,
        Builtin::Job => workloads::job(template, known, now)?,
        Builtin::CronJob => workloads::cron_job(known)?,
        Builtin::Pod => match items {
            None => return Ok(get(template, "status")?.cloned()),
            Some(items) => phases::pod(items)?,
        },
        Builtin::Service => match balancers::service(template, known)? {
            None => return Ok(get(template, "status")?.cloned()),
            Some(status) => status,
        },
        Builtin::Ingress => balancers::ingress(known)?,
        Builtin::PersistentVolume => phases::volume(known)?,
        Builtin::PersistentVolumeClaim => phases::claim(known)?,
        Builtin::PodDisruptionBudget => workloads::disruption_budget(known)?,
        _ => workloads::plain_sums(known, &["currentReplicas", "desiredReplicas"])?,
    };
    // Nothing known and nothing there: no status appears out of thin air.
    if is_blank(&merged) && map(template, "status")?.is_none() {
        return Ok(None);
    }
    Ok(Some(Value::Object(merged)))
}

fn is_blank(status: &Map<String, Value>) -> bool {
    status.values().all(|value| match value {
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Object(inner) => is_blank(inner),
        Value::Array(list) => list.is_empty(),
        other => other.is_null(),
    })
}
