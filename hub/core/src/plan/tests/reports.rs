//! Field reports about placement, division and overrides. Each says which change of the code turns it red.

use super::*;

fn withdrawn(plan: &TemplatePlan) -> Vec<&str> {
    plan.withdraw.iter().map(|gone| gone.cluster.as_str()).collect()
}

fn placed(plan: &TemplatePlan) -> Vec<(&str, i64)> {
    let mut all: Vec<_> = plan
        .targets
        .iter()
        .map(|share| (share.cluster.as_str(), share.replicas))
        .collect();
    all.sort_unstable();
    all
}

/// Turns red when the works of the former placement are not withdrawn as the new ones are made, whether another policy takes
/// over or the same one says something else.
#[test]
fn field_report_4_another_placement_takes_the_old_copies_away() {
    let template = deployment("web", 2);
    let mut hub = Hub::with(&["m1", "m2"], vec![policy("p1", named(&["m1"]))]);
    assert_eq!(placed(&hub.plan(&template)), [("m1", 2)]);
    hub.policies = vec![policy("p2", named(&["m2"]))];
    let plan = hub.plan(&template);
    assert_eq!((placed(&plan), withdrawn(&plan)), (vec![("m2", 2)], vec!["m1"]));
    hub.policies = vec![policy("p2", named(&["m1"]))];
    let plan = hub.plan(&template);
    assert_eq!((placed(&plan), withdrawn(&plan)), (vec![("m1", 2)], vec!["m2"]));
}

/// Turns red when a cluster that lost the label keeps what goes to every matching cluster until somebody edits the policy.
#[test]
fn field_report_7_a_cluster_that_matches_no_more_leaves() {
    let by_label = json!({"matchLabels": {"tier": "edge"}});
    for placement in [
        json!({"clusterAffinity": {"labelSelector": by_label}}),
        json!({"clusterAffinities": [{"affinityName": "all", "labelSelector": by_label}]}),
    ] {
        let mut hub = Hub::with(&["c1", "c2"], vec![policy("p", placement)]);
        for cluster in &mut hub.clusters {
            cluster["metadata"]["labels"]["tier"] = json!("edge");
        }
        assert_eq!(placed(&hub.plan(&deployment("web", 1))), [("c1", 1), ("c2", 1)]);
        hub.clusters[1]["metadata"]["labels"]
            .as_object_mut()
            .unwrap()
            .remove("tier");
        let plan = hub.plan(&deployment("web", 1));
        assert_eq!((placed(&plan), withdrawn(&plan)), (vec![("c1", 1)], vec!["c2"]));
    }
}

/// Turns red when works are rendered from another reading of the replicas than the binding, or when scaling to zero and back
/// leaves a share behind.
#[test]
fn field_report_10_works_and_binding_have_the_same_figures() {
    let mut hub = Hub::with(
        &["c1", "c2"],
        vec![policy("p", weighted(&[("c1", 1), ("c2", 1)]))],
    );
    for replicas in [4, 0, 4, 0, 3, 0, 5] {
        let plan = hub.plan(&deployment("web", replicas));
        let bound = hub.binding.as_ref().unwrap()["spec"]["clusters"].clone();
        let bound: i64 = bound
            .as_array()
            .into_iter()
            .flatten()
            .map(|share| share["replicas"].as_i64().unwrap_or(0))
            .sum();
        let sent: i64 = plan
            .works
            .iter()
            .map(|work| manifest(work)["spec"]["replicas"].as_i64().unwrap())
            .sum();
        assert_eq!((bound, sent), (replicas, replicas));
        assert!(plan.withdraw.is_empty(), "scaling to zero takes nothing away");
    }
}

/// Turns red when a typed overrider needs a parent that is already there.
#[test]
fn field_report_18_a_label_is_added_where_there_is_none() {
    let mut hub = Hub::with(&["c1"], vec![policy("p", named(&["c1"]))]);
    hub.overrides = vec![json!({
        "metadata": {"name": "o", "namespace": "shop"},
        "spec": {"overrideRules": [{"overriders": {
            "labelsOverrider": [{"operator": "add", "value": {"a": "b"}}],
            "annotationsOverrider": [{"operator": "add", "value": {"c": "d"}}],
            "argsOverrider": [{"containerName": "c", "operator": "add", "value": ["--fast"]}],
        }}]},
    })];
    let mut web = deployment("web", 1);
    web["metadata"].as_object_mut().unwrap().remove("labels");
    let plan = hub.plan(&web);
    assert!(
        !plan
            .notes
            .iter()
            .any(|note| note.reason == Reason::OverrideFailed),
        "{:?}",
        plan.notes
    );
    let sent = manifest(&plan.works[0]);
    assert_eq!(
        (
            &sent["metadata"]["labels"]["a"],
            &sent["metadata"]["annotations"]["c"]
        ),
        (&json!("b"), &json!("d"))
    );
    assert_eq!(
        sent["spec"]["template"]["spec"]["containers"][0]["args"],
        json!(["--fast"])
    );
}
