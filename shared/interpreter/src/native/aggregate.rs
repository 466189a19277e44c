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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::{Interpreter, MemberItem, Native};

    fn item(cluster: &str, status: serde_json::Value) -> MemberItem {
        MemberItem {
            cluster: cluster.to_owned(),
            status: Some(status),
            silent: false,
        }
    }

    /// Field report F20. Red if a kind loses its rule in `Builtin::has` or its arm in `status`.
    #[test]
    fn f20_every_workload_shows_a_merged_status() {
        let balancer = json!({"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}]}});
        let cases = [
            (
                "apps/v1",
                "Deployment",
                json!({"readyReplicas": 1}),
                "/readyReplicas",
                json!(2),
            ),
            (
                "apps/v1",
                "StatefulSet",
                json!({"readyReplicas": 1}),
                "/readyReplicas",
                json!(2),
            ),
            (
                "apps/v1",
                "DaemonSet",
                json!({"numberReady": 1}),
                "/numberReady",
                json!(2),
            ),
            (
                "apps/v1",
                "ReplicaSet",
                json!({"readyReplicas": 1}),
                "/readyReplicas",
                json!(2),
            ),
            ("batch/v1", "Job", json!({"succeeded": 1}), "/succeeded", json!(2)),
            (
                "batch/v1",
                "CronJob",
                json!({"lastScheduleTime": "2026-01-01T00:00:00Z"}),
                "/lastScheduleTime",
                json!("2026-01-01T00:00:00Z"),
            ),
            (
                "v1",
                "Pod",
                json!({"phase": "Running"}),
                "/phase",
                json!("Running"),
            ),
            (
                "v1",
                "Service",
                balancer.clone(),
                "/loadBalancer/ingress/0/ip",
                json!("1.1.1.1"),
            ),
            (
                "networking.k8s.io/v1",
                "Ingress",
                balancer,
                "/loadBalancer/ingress/0/ip",
                json!("1.1.1.1"),
            ),
            (
                "v1",
                "PersistentVolumeClaim",
                json!({"phase": "Bound"}),
                "/phase",
                json!("Bound"),
            ),
            (
                "v1",
                "PersistentVolume",
                json!({"phase": "Bound"}),
                "/phase",
                json!("Bound"),
            ),
            (
                "policy/v1",
                "PodDisruptionBudget",
                json!({"expectedPods": 1}),
                "/expectedPods",
                json!(2),
            ),
            (
                "autoscaling/v2",
                "HorizontalPodAutoscaler",
                json!({"currentReplicas": 1}),
                "/currentReplicas",
                json!(2),
            ),
        ];
        for (api_version, kind, status, path, want) in cases {
            let template = json!({"apiVersion": api_version, "kind": kind, "metadata": {"generation": 1},
                                  "spec": {"type": "LoadBalancer"}});
            let items = [item("a", status.clone()), item("b", status)];
            let merged = Native::default().aggregate_status(&template, Some(&items), "2026-01-01T00:00:00Z");
            let merged = merged.expect("readable").expect("a status");
            assert_eq!(merged.pointer(path), Some(&want), "{kind}");
        }
    }

    /// Field report F23: a Job without completions is done when every part is; a part ends with the first success of
    /// its own. Documented in docs/interpreters.md. Red if one part's success completes the whole.
    #[test]
    fn f23_a_work_queue_job_is_complete_when_every_part_is() {
        let template = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"generation": 1}, "spec": {"parallelism": 4}});
        let done = json!({"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]});
        let complete = |items: &[MemberItem]| {
            let merged = Native::default().aggregate_status(&template, Some(items), "2026-01-01T00:00:00Z");
            let status = merged.expect("readable").expect("a status");
            crate::fields::condition_true(
                status["conditions"].as_array().map_or(&[][..], Vec::as_slice),
                "Complete",
            )
        };
        assert!(!complete(&[
            item("a", done.clone()),
            item("b", json!({"active": 2}))
        ]));
        assert!(complete(&[item("a", done.clone()), item("b", done)]));
    }
}
