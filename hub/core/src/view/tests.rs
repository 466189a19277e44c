use serde_json::json;
use shared::wire::Capacity;

use super::*;

const T0: UnixSeconds = UnixSeconds(1_700_000_000);

fn row(cluster: &str, report: Option<WorkReport>) -> WorkRow {
    WorkRow {
        template_uid: "uid".to_owned(),
        template_generation: 1,
        overwrites: false,
        cluster: cluster.into(),
        work: "web-5bbdc6bf4d".into(),
        uid: "u".into(),
        key: ObjectKey::new("apps", "Deployment", "prod", "web"),
        binding_namespace: "prod".into(),
        binding: "web-deployment".into(),
        labels: BTreeMap::from([("l".into(), "v".into())]),
        suspended: false,
        preserved: false,
        created: T0,
        report,
    }
}

fn report(applied: ApplyState, at: i64) -> WorkReport {
    WorkReport {
        applied,
        health: Health::Healthy,
        reason: "Conflict".into(),
        message: "owned by kubectl".into(),
        status: Some(json!({"readyReplicas": 2})),
        observed: T0.plus(at),
    }
}

fn condition<'a>(view: &'a Value, of_type: &str) -> &'a Value {
    let conditions = view["status"]["conditions"].as_array().unwrap();
    conditions
        .iter()
        .find(|condition| condition["type"] == of_type)
        .unwrap_or(&Value::Null)
}

fn stored_binding() -> Value {
    json!({"metadata": {"name": "web-deployment", "creationTimestamp": T0.rfc3339()},
        "spec": {"clusters": [{"name": "a", "replicas": 2}, {"name": "b", "replicas": 1}]}})
}

#[test]
fn a_binding_is_applied_when_every_cluster_is() {
    let rows = [
        row("a", Some(report(ApplyState::Applied, 10))),
        row("b", Some(report(ApplyState::Failed, 20))),
    ];
    let view = binding(&stored_binding(), &rows);
    assert_eq!(condition(&view, "Scheduled")["status"], "True");
    let applied = condition(&view, "FullyApplied");
    assert_eq!(
        (&applied["status"], &applied["reason"]),
        (&json!("False"), &json!("FullyAppliedFailed"))
    );
    assert_eq!(applied["lastTransitionTime"], T0.plus(20).rfc3339());
    assert_eq!(
        view["status"]["aggregatedStatus"],
        json!([
            {"clusterName": "a", "status": {"readyReplicas": 2}, "applied": true, "health": "Healthy"},
            {"clusterName": "b", "appliedMessage": "Conflict: owned by kubectl", "health": "Unknown"},
        ])
    );
    let rows = [
        row("a", Some(report(ApplyState::Applied, 10))),
        row("b", Some(report(ApplyState::Applied, 30))),
    ];
    let view = binding(&stored_binding(), &rows);
    let applied = condition(&view, "FullyApplied");
    assert_eq!(
        (&applied["status"], &applied["reason"]),
        (&json!("True"), &json!("FullyAppliedSuccess"))
    );
    assert_eq!(applied["lastTransitionTime"], T0.plus(30).rfc3339());
    assert_eq!(binding(&view, &rows), view, "reading changes nothing");
}

#[test]
fn what_the_planner_stored_of_a_binding_stays() {
    let mut stored = stored_binding();
    stored["spec"]["clusters"] = json!([]);
    stored["status"] = json!({"schedulerObservedGeneration": 3, "conditions": [
        {"type": "Scheduled", "status": "False", "reason": "NoClusterFit", "message": "0/3 clusters",
         "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    let view = binding(&stored, &[]);
    assert_eq!(condition(&view, "Scheduled")["message"], "0/3 clusters");
    assert_eq!(view["status"]["schedulerObservedGeneration"], 3);
    assert_eq!(condition(&view, "FullyApplied")["status"], "False");
    assert_eq!(view["status"].get("aggregatedStatus"), None);
}

#[test]
fn a_work_shows_manifest_conditions_and_status() {
    let manifest = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
    let view = work(&row("a", Some(report(ApplyState::Applied, 10))), &manifest);
    assert_eq!(view["metadata"]["namespace"], "karmada-es-a");
    assert_eq!(
        view["metadata"]["annotations"]["resourcebinding.karmada.io/name"],
        "web-deployment"
    );
    assert_eq!(view["spec"]["workload"]["manifests"], json!([manifest]));
    assert_eq!(condition(&view, "Applied")["reason"], "AppliedSuccessful");
    let item = &view["status"]["manifestStatuses"][0];
    assert_eq!(
        (&item["identifier"]["group"], &item["identifier"]["version"]),
        (&json!("apps"), &json!("v1"))
    );
    assert_eq!(
        (&item["health"], &item["status"]["readyReplicas"]),
        (&json!("Healthy"), &json!(2))
    );

    let failed = work(&row("a", Some(report(ApplyState::Failed, 10))), &manifest);
    assert_eq!(
        condition(&failed, "Applied")["message"],
        "Conflict: owned by kubectl"
    );
    assert_eq!(failed["status"].get("manifestStatuses"), None);
    let waiting = work(&row("a", None), &manifest);
    assert_eq!(
        condition(&waiting, "Applied"),
        &Value::Null,
        "nothing is claimed before the agent spoke"
    );
    let held = work(
        &WorkRow {
            suspended: true,
            preserved: true,
            ..row("a", None)
        },
        &manifest,
    );
    assert_eq!(condition(&held, "Dispatching")["status"], "False");
    assert_eq!(held["spec"]["suspendDispatching"], true);
    assert_eq!(held["spec"]["preserveResourcesOnDeletion"], true);
    assert_eq!(work_gone(&row("a", None))["metadata"], waiting["metadata"]);
}

#[test]
fn a_cluster_shows_facts_and_keeps_foreign_conditions() {
    let stored = json!({"metadata": {"name": "a", "creationTimestamp": T0.rfc3339()}, "spec": {},
        "status": {"conditions": [{"type": "NetworkReady", "status": "True"}]}});
    let fresh = cluster(&stored, None);
    assert_eq!(condition(&fresh, "Ready")["reason"], "ClusterStatusNeverUpdated");
    let facts = ClusterRow {
        kubernetes_version: "v1.36.0".into(),
        ready: Some(("True".into(), "ClusterReady".into(), "ok".into(), T0)),
        capacity: Some(Capacity {
            nodes_total: 3,
            nodes_ready: 2,
            allocatable: BTreeMap::from([("cpu".into(), "12".into())]),
            ..Capacity::default()
        }),
        last_seen: Some(T0.plus(9)),
        behind: Some(41),
        held: vec![],
    };
    let view = cluster(&stored, Some(&facts));
    assert_eq!(view["status"]["kubernetesVersion"], "v1.36.0");
    assert_eq!(
        view["status"]["nodeSummary"],
        json!({"totalNum": 3, "readyNum": 2})
    );
    assert_eq!(
        view["status"]["resourceSummary"],
        json!({"allocatable": {"cpu": "12"}})
    );
    assert_eq!(condition(&view, "NetworkReady")["status"], "True");
    assert_eq!(condition(&view, "Ready")["lastTransitionTime"], T0.rfc3339());
    assert_eq!(condition(&view, "HubBehind")["status"], "True");
    assert_eq!(view["metadata"]["annotations"][LAST_SEEN], T0.plus(9).rfc3339());
    assert_eq!(cluster(&view, Some(&facts)), view, "reading changes nothing");
}

#[test]
fn uids_look_like_uuids_and_differ() {
    let fleet = FleetId([7; 16]);
    let one = uid(fleet, "work", "1");
    assert_eq!(one.len(), 36);
    assert_eq!(one.as_bytes()[14], b'8');
    assert_ne!(one, uid(fleet, "work", "2"));
    assert_ne!(one, uid(fleet, "namespace", "1"));
    let namespace = execution_namespace(fleet, &json!({"metadata": {"name": "a", "uid": "x"}})).unwrap();
    assert_eq!(namespace["metadata"]["name"], "karmada-es-a");
    assert_eq!(namespace["metadata"]["labels"]["karmada.io/system"], "true");
}
