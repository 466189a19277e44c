//! Failover over a store: who is watched, when a template is planned again, and the taints of clusters.

use std::collections::BTreeSet;

use super::*;

fn ha(mode: &str) -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "web", "namespace": "shop", "uid": "uid-policy",
                     "labels": {"propagationpolicy.karmada.io/permanent-id": "id-web"}},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}],
            "placement": {"clusterAffinities": [
                {"affinityName": "primary", "clusterNames": ["a"]}, {"affinityName": "backup", "clusterNames": ["b"]}]},
            "failover": {"application": {"decisionConditions": {"tolerationSeconds": 0}, "purgeMode": mode}},
        },
    })
}

async fn placed(mode: &str) -> Hub {
    let mut hub = Hub::with(&["a", "b"]).await;
    hub.put(&policies(), ha(mode)).await;
    hub.put(&deployments(), deployment(1, 3, "web:1")).await;
    hub.plan().await;
    hub.report("web-deployment", "a", Some(member_status(1, 3))).await;
    hub
}

impl Hub {
    fn binding(&self) -> Value {
        self.store
            .get(&bindings(), "shop", "web-deployment")
            .unwrap()
            .value()
    }

    fn assigned(&self) -> Value {
        self.binding()["spec"]["clusters"].clone()
    }

    /// One look of the task *failover*, and the plans that it asks for.
    async fn look(&mut self, silent: &mut BTreeSet<ClusterName>) {
        self.reconciler.failover_turn(silent).unwrap();
        let marked = self.reconciler.templates.take();
        assert_eq!(self.reconciler.plan_pass(&mut self.planner, marked).await, []);
    }
}

fn only(cluster: &str) -> Value {
    json!([{"name": cluster, "replicas": 3}])
}

/// Turns red when silence does not reach the plan, when the old copy goes before the new one is reported healthy, or when a
/// report does not reach the plan.
#[tokio::test]
async fn a_silent_cluster_is_left_and_its_copy_goes_when_the_new_one_is_healthy() {
    let mut hub = placed("Gracefully").await;
    let mut silent = BTreeSet::new();
    hub.look(&mut silent).await;
    assert_eq!(hub.assigned(), only("a"));
    hub.reconciler.presence.closed(&name("a"), clock::monotonic());
    hub.look(&mut silent).await;
    assert_eq!(hub.assigned(), only("b"));
    assert_eq!(
        hub.binding()["spec"]["gracefulEvictionTasks"][0]["fromCluster"],
        "a"
    );
    assert_eq!(
        hub.binding()["status"]["schedulerObservingAffinityName"],
        "backup"
    );
    assert_eq!(hub.places("web-deployment"), ["a", "b"]);
    hub.report("web-deployment", "b", Some(member_status(1, 3))).await;
    hub.reconciler.copies_reported(&BindingRef {
        namespace: "shop".to_owned(),
        name: "web-deployment".to_owned(),
    });
    hub.look(&mut silent).await;
    assert_eq!(hub.places("web-deployment"), ["b"]);
    assert!(hub.binding()["spec"]["gracefulEvictionTasks"].is_null());
}

/// Turns red when the last copy is given up, or when nobody is told that it is held.
#[tokio::test]
async fn field_report_68_nothing_leaves_when_everybody_is_silent() {
    let mut hub = placed("Immediately").await;
    let mut silent = BTreeSet::new();
    hub.look(&mut silent).await;
    for cluster in ["a", "b"] {
        hub.reconciler.presence.closed(&name(cluster), clock::monotonic());
    }
    hub.look(&mut silent).await;
    assert_eq!(
        (hub.assigned(), hub.places("web-deployment")),
        (only("a"), vec!["a".to_owned()])
    );
    let conditions = hub.binding()["status"]["conditions"].clone();
    let moved = |conditions: &Value| {
        let all = conditions.as_array().unwrap().iter();
        all.clone()
            .find(|condition| condition["type"] == "Moved")
            .map(|condition| condition["status"].clone())
    };
    assert_eq!(moved(&conditions), Some(json!("False")));
    for cluster in ["a", "b"] {
        hub.reconciler.presence.heard(&name(cluster), clock::monotonic());
    }
    hub.look(&mut silent).await;
    assert_eq!(hub.assigned(), only("a"));
    assert_eq!(moved(&hub.binding()["status"]["conditions"]), Some(json!("True")));
}

/// Field reports 72 and 73. Turns red when a policy's taint does not follow the condition, or stays when it is over.
#[tokio::test]
async fn taints_follow_conditions() {
    let mut hub = Hub::with(&["a"]).await;
    let clusters = ResourceId::new("cluster.karmada.io", "clusters");
    let policies = ResourceId::new("policy.karmada.io", "clustertaintpolicies");
    let when = |status: &str| json!([{"conditionType": "Ready", "operator": "In", "statusValues": [status]}]);
    hub.put(
        &policies,
        json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterTaintPolicy", "metadata": {"name": "dark"},
            "spec": {"taints": [{"key": "dark", "effect": "NoSchedule"}],
                     "addOnConditions": when("Unknown"), "removeOnConditions": when("True")},
        }),
    )
    .await;
    let ready = |status: &'static str| {
        move |facts: &mut crate::store::fleet::ClusterFacts| {
            facts.ready = Some(crate::store::fleet::ReadyFact {
                status: status.to_owned(),
                ..Default::default()
            });
        }
    };
    for (status, tainted) in [
        ("True", false),
        ("Unknown", true),
        ("False", true),
        ("True", false),
    ] {
        hub.store
            .update_facts(&name("a"), None, ready(status))
            .await
            .unwrap();
        hub.reconciler.tainting.mark([()]);
        hub.reconciler.taints_turn().await.unwrap();
        let cluster = hub.store.get(&clusters, "", "a").unwrap().value();
        assert_eq!(cluster["spec"]["taints"][0]["key"] == "dark", tainted, "{status}");
    }
    hub.look(&mut BTreeSet::new()).await;
}
