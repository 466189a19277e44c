//! Plans that depend on the free room of clusters, on affinity groups and on spread constraints.

use serde_json::{Value, json};
use shared::reason::Reason;

use super::*;

fn roomy(name: &str, region: &str, cpu: i64) -> Value {
    json!({
        "metadata": {"name": name}, "spec": {"region": region},
        "status": {"resourceSummary": {"allocatable": {"cpu": cpu.to_string(), "pods": "100"}}},
    })
}

fn wants_a_core(replicas: i64) -> Value {
    let mut template = deployment("web", replicas);
    template["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
    template
}

fn dynamic() -> Value {
    json!({"replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"},
    }})
}

fn shares(plan: &TemplatePlan) -> Vec<(&str, i64)> {
    plan.targets
        .iter()
        .map(|share| (share.cluster.as_str(), share.replicas))
        .collect()
}

#[test]
fn shares_follow_the_room_and_a_report_alone_moves_nothing() {
    let mut hub = Hub {
        policies: vec![policy("p", dynamic())],
        ..Hub::default()
    };
    hub.clusters = vec![roomy("a", "r", 2), roomy("b", "r", 4), cluster("silent")];
    assert_eq!(shares(&hub.plan(&wants_a_core(3))), [("a", 1), ("b", 2)]);
    hub.clusters = vec![roomy("a", "r", 50), roomy("b", "r", 2), cluster("silent")];
    let plan = hub.plan(&wants_a_core(3));
    assert_eq!(
        (shares(&plan), &plan.binding),
        (vec![("a", 1), ("b", 2)], &BindingChange::Keep)
    );
    let plan = hub.plan(&wants_a_core(9));
    assert_eq!(
        shares(&plan),
        [("a", 7), ("b", 2)],
        "growth goes where the room is now"
    );
}

#[test]
fn what_does_not_fit_keeps_what_it_had_and_says_so() {
    let mut hub = Hub {
        policies: vec![policy("p", dynamic())],
        ..Hub::default()
    };
    hub.clusters = vec![roomy("a", "r", 3)];
    hub.plan(&wants_a_core(3));
    hub.clusters = vec![roomy("a", "r", 0)];
    let plan = hub.plan(&wants_a_core(5));
    let condition = plan.scheduled.clone().unwrap();
    assert_eq!((condition.status, condition.reason), (false, "Unschedulable"));
    assert_eq!((shares(&plan), plan.withdraw.len()), (vec![("a", 3)], 0));
    assert!(plan.notes.iter().any(|note| note.reason == Reason::Unschedulable));
    // asking for a new start is followed once
    hub.clusters = vec![roomy("a", "r", 0), roomy("b", "r", 9)];
    hub.binding.as_mut().unwrap()["spec"]["rescheduleTriggeredAt"] = json!("2026-01-01T00:00:00Z");
    let first = hub.plan(&wants_a_core(4));
    assert_eq!(shares(&first), [("a", 1), ("b", 3)]);
    assert_eq!(hub.plan(&wants_a_core(4)).binding, BindingChange::Keep);
}

/// Turns red when the base of shrinking counts shares in clusters that are no candidates (`Held::of`).
#[test]
fn field_report_12_shrinking_counts_candidates_only() {
    let mut hub = Hub {
        policies: vec![policy("p", dynamic())],
        ..Hub::default()
    };
    hub.clusters = ["m1", "m2", "m3"]
        .iter()
        .map(|name| roomy(name, "r", 9))
        .collect();
    hub.plan(&wants_a_core(6));
    let mut fewer = dynamic();
    fewer["clusterAffinity"] = json!({"clusterNames": ["m1", "m2"]});
    hub.policies = vec![policy("p", fewer)];
    let plan = hub.plan(&wants_a_core(3));
    assert!(plan.targets.iter().all(|share| share.cluster != "m3"));
    assert_eq!(plan.targets.iter().map(|share| share.replicas).sum::<i64>(), 3);
    assert_eq!(plan.withdraw.len(), 1);
}

#[test]
fn affinity_groups_are_tried_in_order_and_the_one_in_use_is_kept() {
    let groups = json!({"clusterAffinities": [
        {"affinityName": "primary", "clusterNames": ["us"]}, {"affinityName": "backup", "clusterNames": ["cn", "eu"]}]});
    let mut hub = Hub::with(&["cn", "eu"], vec![policy("p", groups)]);
    assert_eq!(clusters_of(&hub.plan(&deployment("web", 1))), ["cn", "eu"]);
    assert_eq!(
        hub.binding.as_ref().unwrap()["metadata"]["annotations"][AFFINITY_GROUP_ANNOTATION],
        "backup"
    );
    hub.clusters.push(cluster("us"));
    assert_eq!(
        clusters_of(&hub.plan(&deployment("web", 1))),
        ["cn", "eu"],
        "there is no automatic way back"
    );
    hub.binding.as_mut().unwrap()["spec"]["rescheduleTriggeredAt"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(clusters_of(&hub.plan(&deployment("web", 1))), ["us"]);
}

#[test]
fn taints_keep_new_work_away_and_move_nothing() {
    let mut hub = Hub::with(&["cn", "us"], vec![policy("p", named(&["cn", "us"]))]);
    hub.plan(&deployment("web", 1));
    hub.clusters[0]["spec"]["taints"] =
        json!([{"key": "maintenance", "value": "true", "effect": "NoSchedule"}]);
    assert_eq!(clusters_of(&hub.plan(&deployment("web", 1))), ["cn", "us"]);
    let (binding, held) = (hub.binding.take(), std::mem::take(&mut hub.held));
    assert_eq!(clusters_of(&hub.plan(&deployment("other", 1))), ["us"]);
    let mut tolerant = named(&["cn", "us"]);
    tolerant["clusterTolerations"] =
        json!([{"key": "maintenance", "operator": "Equal", "value": "true", "effect": "NoSchedule"}]);
    hub.policies = vec![policy("p", tolerant)];
    (hub.binding, hub.held) = (None, BTreeSet::new());
    assert_eq!(clusters_of(&hub.plan(&deployment("third", 1))), ["cn", "us"]);
    assert!(binding.is_some() && held.len() == 2);
}

#[test]
fn regions_are_spread_over_without_a_cluster_entry() {
    let spread = json!({"spreadConstraints": [{"spreadByField": "region", "minGroups": 2, "maxGroups": 2}]});
    let mut hub = Hub {
        policies: vec![policy("p", spread)],
        ..Hub::default()
    };
    hub.clusters = vec![
        roomy("e1", "east", 4),
        roomy("n1", "north", 1),
        roomy("w1", "west", 4),
        roomy("w2", "west", 4),
    ];
    let mut used = clusters_of(&hub.plan(&wants_a_core(2)));
    used.sort();
    assert_eq!(used, ["e1", "w1", "w2"]);
    hub.clusters.truncate(1);
    let plan = hub.plan(&wants_a_core(2));
    assert!(
        plan.notes
            .iter()
            .any(|note| note.reason == Reason::SpreadNotMet && note.message.contains("1 regions"))
    );
}
