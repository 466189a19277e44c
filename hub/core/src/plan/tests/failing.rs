//! Failover in plans: copies of silent clusters and of clusters with taints, over simulated time.

use shared::time::UnixSeconds;

use super::*;
use crate::failover::step::{OneCopy, Seen, Settings};

const START: i64 = 1_800_000_000;

/// The example `failover-application.yaml`: us-prod, then cn-prod.
fn groups(failover: Value) -> Value {
    let mut policy = policy(
        "ha",
        json!({"clusterAffinities": [
            {"affinityName": "primary", "clusterNames": ["us"]},
            {"affinityName": "backup", "clusterNames": ["cn"]}],
            "replicaScheduling": {"replicaSchedulingType": "Duplicated"}}),
    );
    policy["spec"]["failover"] = failover;
    policy
}

fn application(mode: &str) -> Value {
    json!({"application": {"decisionConditions": {"tolerationSeconds": 120}, "purgeMode": mode}})
}

/// Clusters with the health of their copy (empty: nothing reported) and their silence in seconds.
fn seen(at: i64, copies: &[(&str, &str, Option<i64>)]) -> Seen {
    Seen {
        copies: copies
            .iter()
            .map(|(cluster, health, silent_s)| OneCopy {
                cluster: (*cluster).to_owned(),
                health: (*health).to_owned(),
                silent_s: *silent_s,
                ..OneCopy::default()
            })
            .collect(),
        silent: copies
            .iter()
            .filter(|(_, _, silent)| silent.is_some())
            .map(|(cluster, ..)| (*cluster).to_owned())
            .collect(),
        now: UnixSeconds(START + at),
        taints_wait_s: 0,
        settings: Settings::default(),
    }
}

impl Hub {
    fn planned_at(&mut self, at: i64, copies: &[(&str, &str, Option<i64>)]) -> TemplatePlan {
        self.copies = Some(seen(at, copies));
        self.plan(&deployment("web", 3))
    }

    fn tasks(&self) -> Vec<String> {
        let tasks = self.binding.as_ref().unwrap()["spec"]["gracefulEvictionTasks"].clone();
        let tasks = tasks.as_array().cloned().unwrap_or_default();
        tasks
            .iter()
            .map(|task| task["fromCluster"].as_str().unwrap().to_owned())
            .collect()
    }

    fn holds(&self, cluster: &str) -> bool {
        self.held.iter().any(|held| held.as_str() == cluster)
    }
}

fn targets(plan: &TemplatePlan) -> Vec<(&str, i64)> {
    plan.targets
        .iter()
        .map(|share| (share.cluster.as_str(), share.replicas))
        .collect()
}

fn placed_in_us(failover: Value) -> Hub {
    let mut hub = Hub::with(&["us", "cn"], vec![groups(failover)]);
    assert_eq!(targets(&hub.plan(&deployment("web", 3))), [("us", 3)]);
    assert_eq!(
        hub.planned_at(0, &[("us", "Healthy", None)]).binding,
        BindingChange::Keep
    );
    hub
}

/// Turns red when silence moves anything before the policy's time, when a flap is counted on, or when the old copy is
/// withdrawn before the new one is healthy (field report 71).
#[test]
fn a_silent_cluster_is_left_after_the_time_of_the_policy() {
    let mut hub = placed_in_us(application("Graciously"));
    for (at, silence) in [
        (10, Some(10)),
        (60, Some(60)),
        (61, None),
        (100, Some(30)),
        (189, Some(119)),
    ] {
        let plan = hub.planned_at(at, &[("us", "Healthy", silence)]);
        assert_eq!(
            (targets(&plan), plan.withdraw.len()),
            (vec![("us", 3)], 0),
            "{at}"
        );
        assert_eq!(plan.look_again_s, silence.map(|silence| 120 - silence));
    }
    let plan = hub.planned_at(190, &[("us", "Healthy", Some(120))]);
    assert_eq!((targets(&plan), plan.withdraw.len()), (vec![("cn", 3)], 0));
    assert_eq!((hub.tasks(), hub.holds("us")), (vec!["us".to_owned()], true));
    assert!(plan.notes.iter().any(|note| note.reason == Reason::MovedAway));
    let plan = hub.planned_at(195, &[("us", "Healthy", Some(125)), ("cn", "Unknown", None)]);
    assert_eq!((plan.withdraw.len(), hub.tasks().len()), (0, 1));
    // cn runs: the old copy is ordered away; us takes notice when it is back
    let plan = hub.planned_at(200, &[("us", "Healthy", Some(130)), ("cn", "Healthy", None)]);
    assert_eq!(
        (targets(&plan), plan.withdraw[0].cluster.as_str()),
        (vec![("cn", 3)], "us")
    );
    assert_eq!(plan.withdraw[0].mode, DeleteMode::Delete);
    assert_eq!(hub.tasks().len(), 0);
    // us is back: nothing moves there again, since the group in use did not fail
    let plan = hub.planned_at(300, &[("cn", "Healthy", None)]);
    assert_eq!(
        (targets(&plan), plan.binding.clone()),
        (vec![("cn", 3)], BindingChange::Keep)
    );
}

/// Field reports 68, 69 and 72. Turns red when a copy is given up although nothing replaces it.
#[test]
fn the_last_copy_stays() {
    let mut hub = placed_in_us(application("Graciously"));
    hub.planned_at(190, &[("us", "Healthy", Some(120))]);
    hub.planned_at(200, &[("us", "Healthy", Some(130)), ("cn", "Healthy", None)]);
    hub.copies = Some(seen(500, &[("cn", "Healthy", Some(120))]));
    hub.copies.as_mut().unwrap().silent.insert("us".to_owned());
    let plan = hub.plan(&deployment("web", 3));
    assert_eq!(
        (targets(&plan), plan.withdraw.len(), hub.tasks().len()),
        (vec![("cn", 3)], 0, 0)
    );
    assert!(plan.scheduled.as_ref().unwrap().status, "it is placed as before");
    let held = plan
        .notes
        .iter()
        .find(|note| note.reason == Reason::NoReplacement)
        .unwrap();
    assert_eq!(held.cluster.as_deref(), Some("cn"));
    assert!(hub.holds("cn"));
}

#[test]
fn purge_modes_say_what_becomes_of_the_old_copy() {
    for (mode, at_once, later) in [
        ("Immediately", true, false),
        ("Directly", true, false),
        ("Never", false, false),
        ("Gracefully", false, true),
    ] {
        let mut hub = placed_in_us(application(mode));
        let plan = hub.planned_at(190, &[("us", "Healthy", Some(120))]);
        assert_eq!(targets(&plan), [("cn", 3)]);
        assert_eq!(plan.withdraw.len(), usize::from(at_once), "{mode}");
        let plan = hub.planned_at(5_000, &[("us", "Healthy", None), ("cn", "Healthy", None)]);
        assert_eq!(plan.withdraw.len(), usize::from(later), "{mode}");
        assert_eq!(hub.holds("us"), mode == "Never");
    }
}

/// Turns red when the decision of a person about a copy under `Never` is not followed.
#[test]
fn a_person_ends_a_task_that_is_never_purged() {
    let mut hub = placed_in_us(application("Never"));
    hub.planned_at(190, &[("us", "Healthy", Some(120))]);
    hub.binding.as_mut().unwrap()["spec"]["gracefulEvictionTasks"][0]["suppressDeletion"] = json!(false);
    let plan = hub.planned_at(9_000, &[("us", "Healthy", None), ("cn", "Healthy", None)]);
    assert_eq!(plan.withdraw.len(), 1);
}

/// Turns red when unhealthy copies are not moved, or when the state that the policy names is not carried over.
#[test]
fn the_state_of_an_unhealthy_copy_goes_along() {
    let mut hub = placed_in_us(json!({"application": {
        "decisionConditions": {"tolerationSeconds": 30}, "purgeMode": "Directly",
        "statePreservation": {"rules": [{"aliasLabelName": "was", "jsonPath": "{.readyReplicas}"}]}}}));
    let mut at = seen(40, &[("us", "Unhealthy", None)]);
    at.copies[0].unhealthy_s = Some(30);
    hub.copies = Some(at.clone());
    let plan = hub.plan(&deployment("web", 3));
    assert_eq!(
        targets(&plan),
        [("us", 3)],
        "without a status nothing can be carried over"
    );
    at.copies[0].status = Some(json!({"readyReplicas": 2}));
    hub.copies = Some(at);
    let plan = hub.plan(&deployment("web", 3));
    assert_eq!(targets(&plan), [("cn", 3)]);
    assert_eq!(manifest(&plan.works[0])["metadata"]["labels"]["was"], "2");
}

/// Field report 70. Turns red when silence moves something that no policy asks to move.
#[test]
fn field_report_70_silence_alone_withdraws_nothing() {
    let mut hub = Hub::with(&["a", "b"], vec![policy("p", weighted(&[("a", 1), ("b", 1)]))]);
    let shares = |plan: &TemplatePlan| {
        let of = |name| {
            plan.targets
                .iter()
                .find(|s| s.cluster == name)
                .map_or(0, |s| s.replicas)
        };
        (of("a"), of("b"))
    };
    assert_eq!(shares(&hub.plan(&deployment("web", 4))), (2, 2));
    hub.copies = Some(seen(
        1_000,
        &[("a", "Healthy", Some(1_000)), ("b", "Healthy", None)],
    ));
    let plan = hub.plan(&deployment("web", 8));
    assert!(shares(&plan).0 >= 2 && plan.withdraw.is_empty());
}

/// Turns red when a taint that is not tolerated moves nothing, or when one that is tolerated for a time moves at once.
#[test]
fn taints_drive_away_what_its_policy_lets_go() {
    let mut hub = placed_in_us(json!({"cluster": {"purgeMode": "Gracefully"}}));
    let since = UnixSeconds(START).rfc3339();
    hub.clusters[0]["spec"]["taints"] = json!([{"key": "fire", "effect": "NoExecute", "timeAdded": since}]);
    let plan = hub.planned_at(1, &[("us", "Healthy", None)]);
    assert_eq!(
        (targets(&plan), hub.tasks()),
        (vec![("cn", 3)], vec!["us".to_owned()])
    );
    // the taint goes before cn is healthy: what runs in us stays until then
    hub.clusters[0]["spec"].as_object_mut().unwrap().remove("taints");
    assert!(
        hub.planned_at(9_999, &[("us", "Healthy", None), ("cn", "Unhealthy", None)])
            .withdraw
            .is_empty()
    );

    let mut tolerant = groups(json!({"cluster": {}}));
    tolerant["spec"]["placement"]["clusterTolerations"] =
        json!([{"key": "fire", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 50}]);
    let mut hub = Hub::with(&["us", "cn"], vec![tolerant]);
    hub.plan(&deployment("web", 3));
    hub.clusters[0]["spec"]["taints"] = json!([{"key": "fire", "effect": "NoExecute", "timeAdded": since}]);
    let plan = hub.planned_at(20, &[("us", "Healthy", None)]);
    assert_eq!((targets(&plan), plan.look_again_s), (vec![("us", 3)], Some(30)));
    assert_eq!(
        targets(&hub.planned_at(50, &[("us", "Healthy", None)])),
        [("cn", 3)]
    );
}
