//! What policies do beyond placing: claims on templates, the end of a policy, dependencies, quotas, rebalancers.

use super::*;

const ID: &str = "propagationpolicy.karmada.io/permanent-id";

fn configs() -> ResourceId {
    ResourceId::new("", "configmaps")
}

fn value(hub: &Hub, resource: &ResourceId, object: &str) -> Value {
    hub.store.get(resource, "shop", object).unwrap().value()
}

fn mounting(replicas: i64) -> Value {
    let mut web = deployment(1, replicas, "web:1");
    web["spec"]["template"]["spec"]["volumes"] = json!([{"name": "c", "configMap": {"name": "cfg"}}]);
    web["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
    web
}

#[tokio::test]
async fn the_claim_is_written_on_the_template_and_raises_no_generation() {
    let mut hub = two_to_one().await;
    let web = value(&hub, &deployments(), "web");
    assert_eq!(web["metadata"]["labels"][ID], "id-web");
    assert_eq!(
        web["metadata"]["annotations"],
        json!({"propagationpolicy.karmada.io/namespace": "shop", "propagationpolicy.karmada.io/name": "web"})
    );
    assert_eq!(web["metadata"]["generation"], 1);
    assert!(
        hub.content("web-deployment", "a")["metadata"]["labels"].is_null(),
        "it is not sent"
    );
    // a client that puts its file back takes the note off; it comes again
    hub.put(&deployments(), deployment(1, 3, "web:1")).await;
    hub.plan().await;
    assert_eq!(
        value(&hub, &deployments(), "web")["metadata"]["labels"][ID],
        "id-web"
    );
}

/// Field report F146, since this is the pass of a hub that starts. Turns red when a deleted policy goes before what it
/// claimed is free, or stays for ever.
#[tokio::test]
async fn a_deleted_policy_lets_go_and_then_goes() {
    let mut hub = two_to_one().await;
    let mut leaving = policy(&[("a", 2), ("b", 1)]);
    leaving["metadata"]["finalizers"] = json!(["karmada.io/propagation-policy-controller"]);
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    hub.put(&policies(), leaving).await;
    hub.plan().await;
    assert!(hub.store.get(&policies(), "shop", "web").is_none());
    for (resource, name) in [(deployments(), "web"), (bindings(), "web-deployment")] {
        assert!(
            value(&hub, &resource, name)["metadata"]["labels"][ID].is_null(),
            "{resource}"
        );
    }
    assert_eq!(hub.places("web-deployment"), ["a", "b"], "what runs goes on");
}

#[tokio::test]
async fn what_a_template_needs_goes_along() {
    let mut hub = Hub::with(&["a", "b", "c"]).await;
    let mut carrying = policy(&[("a", 2), ("b", 1)]);
    carrying["spec"]["propagateDeps"] = json!(true);
    hub.put(&policies(), carrying).await;
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "1"},
        "metadata": {"name": "cfg", "namespace": "shop", "uid": "uid-cfg"}});
    hub.put(&configs(), config).await;
    hub.put(&deployments(), mounting(3)).await;
    hub.plan().await;
    // planned in the order of kinds: the ConfigMap came first and was marked again
    let marked = hub.reconciler.templates.take();
    assert_eq!(hub.reconciler.plan_pass(&mut hub.planner, marked).await, []);
    assert_eq!(hub.places("cfg-configmap"), ["a", "b"]);
    let attached = value(&hub, &bindings(), "cfg-configmap");
    assert_eq!(attached["spec"]["requiredBy"][0]["name"], "web-deployment");
    let revision = hub.store.revision();
    hub.planner = Planner::default();
    hub.plan().await;
    assert_eq!(
        hub.store.revision(),
        revision,
        "after a restart nothing is written again"
    );
    // the Deployment goes: so does what only it needed
    hub.delete(&deployments(), "shop", "web").await;
    hub.plan_only(&deployments(), "shop", "web").await;
    let marked = hub.reconciler.templates.take();
    assert_eq!(hub.reconciler.plan_pass(&mut hub.planner, marked).await, []);
    assert_eq!(hub.places("cfg-configmap"), Vec::<String>::new());
    assert!(hub.store.get(&bindings(), "shop", "cfg-configmap").is_none());
    assert!(hub.store.get(&configs(), "shop", "cfg").is_some());
}

#[tokio::test]
async fn a_quota_holds_back_says_what_is_used_and_is_sent_in_parts() {
    let mut hub = Hub::with(&["a", "b", "c"]).await;
    let quotas = ResourceId::new("policy.karmada.io", "federatedresourcequotas");
    let quota = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "FederatedResourceQuota",
        "metadata": {"name": "q", "namespace": "shop", "uid": "uid-q", "generation": 1},
        "spec": {"overall": {"cpu": "4"}, "staticAssignments": [{"clusterName": "a", "hard": {"cpu": "3"}}]}});
    hub.put(&quotas, quota.clone()).await;
    hub.put(&policies(), policy(&[("a", 2), ("b", 1)])).await;
    hub.put(&deployments(), mounting(3)).await;
    hub.plan().await;
    let mut known = None;
    hub.reconciler.quotas_pass(&mut known).await.unwrap();
    let status = value(&hub, &quotas, "q")["status"].clone();
    assert_eq!(
        status,
        json!({"overall": {"cpu": "4"}, "overallUsed": {"cpu": "3"}})
    );
    let part = hub.content("q.federatedresourcequota", "a");
    assert_eq!(
        (&part["kind"], &part["spec"]["hard"]),
        (&json!("ResourceQuota"), &json!({"cpu": "3"}))
    );
    hub.report(
        "q.federatedresourcequota",
        "a",
        Some(json!({"hard": {"cpu": "3"}, "used": {"cpu": "2"}})),
    )
    .await;
    hub.reconciler.quotas_pass(&mut known).await.unwrap();
    assert_eq!(
        value(&hub, &quotas, "q")["status"]["aggregatedStatus"],
        json!([{"clusterName": "a", "hard": {"cpu": "3"}, "used": {"cpu": "2"}}])
    );
    // more than the quota allows: the binding says so, what runs stays
    let mut more = mounting(6);
    more["metadata"]["generation"] = json!(2);
    hub.put(&deployments(), more).await;
    hub.plan().await;
    let condition = value(&hub, &bindings(), "web-deployment")["status"]["conditions"][0].clone();
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("False"), &json!("QuotaExceeded"))
    );
    assert_eq!(hub.content("web-deployment", "a")["spec"]["replicas"], 2);
    // the quota is raised
    let mut raised = quota;
    raised["spec"]["overall"] = json!({"cpu": "9"});
    hub.put(&quotas, raised).await;
    hub.plan().await;
    assert_eq!(hub.content("web-deployment", "a")["spec"]["replicas"], 4);
    assert_eq!(
        hub.places("q.federatedresourcequota"),
        ["a"],
        "a full pass leaves it alone"
    );
    // the quota goes, and its parts with it
    hub.delete(&quotas, "shop", "q").await;
    hub.reconciler.quotas_pass(&mut known).await.unwrap();
    assert_eq!(hub.places("q.federatedresourcequota"), Vec::<String>::new());
}

/// Turns red when freed room is not offered to whoever waits for it.
#[tokio::test]
async fn what_becomes_free_goes_to_who_waits() {
    let mut hub = Hub::with(&["a", "b", "c"]).await;
    let quotas = ResourceId::new("policy.karmada.io", "federatedresourcequotas");
    hub.put(
        &quotas,
        json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "FederatedResourceQuota",
            "metadata": {"name": "q", "namespace": "shop"}, "spec": {"overall": {"cpu": "3"}}}),
    )
    .await;
    let mut all = policy(&[("a", 1)]);
    all["spec"]["resourceSelectors"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment"}]);
    hub.put(&policies(), all).await;
    let mut first = mounting(3);
    first["metadata"]["name"] = json!("first");
    first["metadata"]["uid"] = json!("uid-first");
    hub.put(&deployments(), first).await;
    hub.put(&deployments(), mounting(2)).await;
    hub.plan().await;
    assert_eq!(hub.places("first-deployment"), ["a"]);
    assert_eq!(hub.places("web-deployment"), Vec::<String>::new());
    drop(hub.reconciler.templates.take());
    hub.delete(&deployments(), "shop", "first").await;
    hub.plan_only(&deployments(), "shop", "first").await;
    let marked = hub.reconciler.templates.take();
    assert!(!marked.is_empty());
    assert_eq!(hub.reconciler.plan_pass(&mut hub.planner, marked).await, []);
    assert_eq!(hub.places("web-deployment"), ["a"]);
}

#[tokio::test]
async fn a_rebalancer_triggers_bindings_and_tells_what_it_did() {
    let hub = two_to_one().await;
    let rebalancers = ResourceId::new("apps.karmada.io", "workloadrebalancers");
    let workload = |name: &str| json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": name});
    let object = json!({"apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer",
        "metadata": {"name": "r", "generation": 1, "creationTimestamp": "2030-01-01T00:00:00Z"},
        "spec": {"workloads": [workload("web"), workload("gone")]}});
    hub.put(&rebalancers, object).await;
    hub.reconciler.rebalance_pass().await;
    let stored = hub.store.get(&rebalancers, "", "r").unwrap().value();
    let results: Vec<&Value> = stored["status"]["observedWorkloads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["result"])
        .collect();
    assert_eq!(results, ["Failed", "Successful"]);
    let binding = value(&hub, &bindings(), "web-deployment");
    assert_eq!(binding["spec"]["rescheduleTriggeredAt"], "2030-01-01T00:00:00Z");
    let revision = hub.store.revision();
    hub.reconciler.rebalance_pass().await;
    assert_eq!(hub.store.revision(), revision, "once");
    // its time is over
    let mut ending = stored;
    ending["spec"]["ttlSecondsAfterFinished"] = json!(1);
    ending["status"]["finishTime"] = json!("2020-01-01T00:00:00Z");
    hub.put(&rebalancers, ending).await;
    hub.reconciler.rebalance_pass().await;
    assert!(hub.store.get(&rebalancers, "", "r").is_none());
}

/// Turns red when a failing rule withdraws or half-patches a cluster, holds back the other object, or is not told.
#[tokio::test]
async fn field_report_19_a_rule_that_fails_is_told_with_policy_path_and_cluster() {
    let mut hub = two_to_one().await;
    let before = hub.content("web-deployment", "a");
    let overrides = ResourceId::new("policy.karmada.io", "overridepolicies");
    let rule = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": {"name": "wrong", "namespace": "shop"},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}],
            "overrideRules": [{"targetCluster": {"clusterNames": ["a"]},
                "overriders": {"plaintext": [{"path": "/data/a", "operator": "replace", "value": "x"}]}}]}});
    hub.put(&overrides, rule).await;
    hub.put(&deployments(), deployment(2, 3, "web:2")).await;
    hub.plan().await;
    assert_eq!(hub.content("web-deployment", "a"), before, "a keeps what it has");
    assert_eq!(
        hub.content("web-deployment", "b")["spec"]["template"]["spec"]["containers"][0]["image"],
        "web:2"
    );
    let conditions = value(&hub, &bindings(), "web-deployment")["status"]["conditions"].clone();
    let rendered = conditions
        .as_array()
        .unwrap()
        .iter()
        .find(|c| c["type"] == "Rendered")
        .unwrap();
    assert_eq!(
        (&rendered["status"], &rendered["reason"]),
        (&json!("False"), &json!("OverrideFailed"))
    );
    let message = rendered["message"].as_str().unwrap();
    assert!(
        message.contains("a keeps") && message.contains("wrong") && message.contains("/data/a"),
        "{message}"
    );
    let why = explain(&hub.reconciler, &deployments(), "shop", "web").unwrap();
    let a = why.clusters.iter().find(|state| state.cluster == "a").unwrap();
    assert_eq!(a.reason.known(), Some(Reason::OverrideFailed));
    assert!(
        a.message.contains("keeps what it has") && a.message.contains("/data/a"),
        "{}",
        a.message
    );
    // F14: the policy goes, and the cluster gets the template's value at once
    hub.delete(&overrides, "shop", "wrong").await;
    hub.plan().await;
    assert_eq!(
        hub.content("web-deployment", "a")["spec"]["template"]["spec"]["containers"][0]["image"],
        "web:2"
    );
    let conditions = value(&hub, &bindings(), "web-deployment")["status"]["conditions"].clone();
    let rendered = conditions
        .as_array()
        .unwrap()
        .iter()
        .find(|c| c["type"] == "Rendered")
        .unwrap();
    assert_eq!(rendered["status"], "True");
}

/// Turns red when a policy that acts on nothing is silent about it.
#[tokio::test]
async fn a_policy_that_matches_nothing_or_names_a_stranger_says_so() {
    let mut hub = Hub::with(&["a"]).await;
    hub.put(&policies(), policy(&[("a", 1), ("nobody", 1)])).await;
    hub.plan().await;
    let told = |hub: &Hub| -> Vec<String> {
        let events = hub.store.list(&ResourceId::new("", "events"), Some("shop")).items;
        let of_policy = events.iter().map(|event| event.value());
        let mut reasons: Vec<String> = of_policy
            .filter(|event| event["involvedObject"]["kind"] == "PropagationPolicy")
            .map(|event| event["reason"].as_str().unwrap().to_owned())
            .collect();
        reasons.sort();
        reasons
    };
    assert_eq!(told(&hub), ["MatchesNothing", "UnknownCluster"]);
    let why = |hub: &Hub| {
        let explained = explain(&hub.reconciler, &policies(), "shop", "web").unwrap();
        serde_json::to_string(&crate::fleet::wire::Explanation::from(explained)).unwrap()
    };
    let said = why(&hub);
    assert!(
        said.contains("MatchesNothing") && said.contains("nobody") && said.contains("holds no object"),
        "{said}"
    );
    hub.put(&deployments(), deployment(1, 3, "web:1")).await;
    hub.plan().await;
    assert_eq!(told(&hub), ["MatchesNothing", "UnknownCluster"], "told once");
    let said = why(&hub);
    assert!(
        !said.contains("MatchesNothing") && said.contains("Deployment.apps shop/web"),
        "{said}"
    );
    let condition = value(&hub, &bindings(), "web-deployment")["status"]["conditions"][0].clone();
    assert_eq!(condition["status"], "True");
    assert!(
        condition["message"].as_str().unwrap().contains("nobody"),
        "{condition}"
    );
}

/// Turns red when a workload that runs nowhere, or a policy that no cluster can satisfy, leaves no Event.
#[tokio::test]
async fn field_report_165_what_goes_nowhere_is_told_on_the_object_and_on_its_policy() {
    let mut hub = Hub::with(&["a"]).await;
    let mut close = policy(&[("a", 1)]);
    close["spec"]["resourceSelectors"][0]["name"] = json!("other");
    close["spec"]["placement"]["clusterAffinity"] =
        json!({"labelSelector": {"matchLabels": {"tier": "gold"}}});
    hub.put(&policies(), close).await;
    hub.put(&deployments(), deployment(1, 3, "web:1")).await;
    hub.plan().await;
    let events = hub.store.list(&ResourceId::new("", "events"), Some("shop")).items;
    let mut told: Vec<(String, String)> = events
        .iter()
        .map(|event| {
            let event = event.value();
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            (text(&event["involvedObject"]["kind"]), text(&event["reason"]))
        })
        .collect();
    told.sort();
    let told: Vec<(&str, &str)> = told.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    assert_eq!(
        told,
        [
            ("Deployment", "NoPolicy"),
            ("PropagationPolicy", "MatchesNothing"),
            ("PropagationPolicy", "NoClusterFits")
        ]
    );
    let why = explain(&hub.reconciler, &deployments(), "shop", "web").unwrap();
    let near = why.policies.iter().find(|one| one.selects_kind).unwrap();
    assert_eq!(near.message, "it selects the Deployment other");
}
