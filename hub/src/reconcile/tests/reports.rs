//! Field reports about overrides and status that can arise here. Each says which change of the code turns it red.

use super::*;

fn value(hub: &Hub, resource: &ResourceId, object: &str) -> Value {
    hub.store.get(resource, "shop", object).unwrap().value()
}

fn relabelled(image: &str) -> Value {
    json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": {"name": "op", "namespace": "shop"},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}],
            "overrideRules": [{"targetCluster": {"clusterNames": ["a"]}, "overriders": {"plaintext": [
                {"path": "/spec/template/spec/containers/0/image", "operator": "replace", "value": image}]}}]}})
}

/// Turns red when the world is not read anew for override policies, or when rendering starts from what was sent last.
#[tokio::test]
async fn field_report_14_a_deleted_override_leaves_nothing_behind() {
    let mut hub = two_to_one().await;
    let overrides = ResourceId::new("policy.karmada.io", "overridepolicies");
    let image = |hub: &Hub| {
        hub.content("web-deployment", "a")["spec"]["template"]["spec"]["containers"][0]["image"].clone()
    };
    hub.put(&overrides, relabelled("mirror/web:1")).await;
    hub.plan().await;
    assert_eq!(image(&hub), "mirror/web:1");
    hub.delete(&overrides, "shop", "op").await;
    hub.plan().await;
    assert_eq!(image(&hub), "web:1");
}

/// Turns red when a status pass writes the object it read at first instead of the newest one.
#[tokio::test]
async fn field_report_40_a_report_changes_nothing_but_the_status() {
    let mut hub = two_to_one().await;
    for number in 2..6 {
        hub.report("web-deployment", "a", Some(member_status(1, number)))
            .await;
        let mut edited = value(&hub, &deployments(), "web");
        edited["metadata"]["annotations"]["restartAt"] = json!(number.to_string());
        edited["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("resourceVersion");
        hub.put(&deployments(), edited).await;
        hub.aggregate().await;
        let web = value(&hub, &deployments(), "web");
        assert_eq!(web["metadata"]["annotations"]["restartAt"], number.to_string());
        assert_eq!(web["status"]["replicas"], number);
        assert_eq!(web["spec"], deployment(1, 3, "web:1")["spec"]);
    }
}

/// Turns red when the hub's own notes on the template raise its generation, or when members that caught up do not count.
#[tokio::test]
async fn field_report_41_observed_generation_reaches_the_generation() {
    let mut hub = two_to_one().await;
    hub.report("web-deployment", "a", Some(member_status(1, 2))).await;
    hub.report("web-deployment", "b", Some(member_status(1, 1))).await;
    hub.aggregate().await;
    hub.plan().await;
    let web = value(&hub, &deployments(), "web");
    assert_eq!(web["status"]["observedGeneration"], web["metadata"]["generation"]);
    assert_eq!(web["status"]["replicas"], 3);
}

fn nowhere() -> Value {
    let mut policy = policy(&[("a", 2), ("b", 1)]);
    policy["spec"]["placement"]["clusterAffinity"] = json!({"labelSelector": {"matchLabels": {"ok": "yes"}}});
    policy
}

/// Turns red when only a success moves `schedulerObservedGeneration` on.
#[tokio::test]
async fn field_report_42_a_failure_is_observed_too() {
    let mut hub = two_to_one().await;
    hub.put(&policies(), nowhere()).await;
    hub.plan().await;
    let binding = value(&hub, &bindings(), "web-deployment");
    assert_eq!(
        binding["status"]["schedulerObservedGeneration"],
        binding["metadata"]["generation"]
    );
    let condition = &binding["status"]["conditions"][0];
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("False"), &json!("NoClusterFit"))
    );
}

/// Turns red when an empty list of clusters leaves the status as it was.
#[tokio::test]
async fn field_report_43_what_is_placed_nowhere_has_no_replicas() {
    let mut hub = two_to_one().await;
    hub.report("web-deployment", "a", Some(member_status(1, 2))).await;
    hub.report("web-deployment", "b", Some(member_status(1, 1))).await;
    hub.aggregate().await;
    hub.put(&policies(), nowhere()).await;
    hub.plan().await;
    hub.aggregate().await;
    let web = value(&hub, &deployments(), "web");
    let replicas = web["status"]["replicas"].as_i64().unwrap_or(0);
    assert_eq!((replicas, &web["status"]["observedGeneration"]), (0, &json!(1)));
}

/// Turns red when aggregation reads rows of clusters that the binding no longer names.
#[tokio::test]
async fn field_report_44_and_45_a_cluster_that_is_no_target_does_not_count() {
    let mut hub = two_to_one().await;
    hub.report("web-deployment", "a", Some(member_status(1, 2))).await;
    hub.report("web-deployment", "b", Some(member_status(1, 1))).await;
    hub.put(&policies(), policy(&[("a", 1)])).await;
    hub.plan().await;
    hub.aggregate().await;
    assert_eq!(value(&hub, &deployments(), "web")["status"]["replicas"], 2);
    assert_eq!(
        hub.places("web-deployment"),
        ["a"],
        "nothing of b's report is left"
    );
}

/// Turns red when the hub's own kinds can be claimed by a selector.
#[tokio::test]
async fn field_report_37_control_objects_are_never_sent() {
    let mut hub = Hub::with(&["a"]).await;
    let mut all = policy(&[("a", 1)]);
    all["metadata"]["name"] = json!("all");
    all["spec"]["placement"] = json!({});
    all["spec"]["resourceSelectors"] = json!([
        {"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy"},
        {"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding"},
        {"apiVersion": "apps/v1", "kind": "Deployment"},
    ]);
    hub.put(&policies(), all).await;
    hub.put(&deployments(), deployment(1, 3, "web:1")).await;
    hub.plan().await;
    let sent: Vec<String> = hub
        .store
        .all_targets()
        .unwrap()
        .into_iter()
        .map(|target| target.entry.key.kind.clone())
        .collect();
    assert_eq!(sent, ["Deployment"]);
}
