//! Scripts of users: they go to every cluster, and the hub's own stages ask them.

use interpreter::CUSTOMIZATION_GROUP;

use super::*;

fn customizations() -> ResourceId {
    ResourceId::new(CUSTOMIZATION_GROUP, "resourceinterpretercustomizations")
}

fn widgets() -> ResourceId {
    ResourceId::new("example.org", "widgets")
}

/// Scripts for Widget, whose replicas are `spec.size`; `replicas` is the body of GetReplicas.
fn customization(replicas: &str) -> Value {
    let script = |text: &str| json!({ "luaScript": text });
    json!({
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "widgets", "uid": "uid-rules", "generation": 1},
        "spec": {"target": {"apiVersion": "example.org/v1", "kind": "Widget"}, "customizations": {
            "replicaResource": script(&format!("function GetReplicas(o) {replicas} end")),
            "replicaRevision": script("function ReviseReplica(o, n) o.spec.size = n return o end"),
            "statusAggregation": script("function AggregateStatus(o, items) local ready = 0
                for i = 1, #items do if items[i].status ~= nil then ready = ready + items[i].status.ready end end
                o.status = {ready = ready} return o end"),
        }},
    })
}

async fn with_widget(replicas: &str) -> Hub {
    let mut hub = Hub::with(&["a", "b"]).await;
    let mut placed = policy(&[("a", 2), ("b", 1)]);
    placed["spec"]["resourceSelectors"] =
        json!([{"apiVersion": "example.org/v1", "kind": "Widget", "name": "w"}]);
    hub.put(&policies(), placed).await;
    hub.put(&customizations(), customization(replicas)).await;
    let widget = json!({"apiVersion": "example.org/v1", "kind": "Widget",
        "metadata": {"name": "w", "namespace": "shop", "uid": "uid-w", "generation": 1},
        "spec": {"size": 6, "extra": {}}});
    hub.put(&widgets(), widget).await;
    hub.plan().await;
    hub
}

fn carriers(hub: &Hub) -> Vec<(String, Value)> {
    let rules = BindingRef {
        namespace: String::new(),
        name: "widgets-resourceinterpretercustomization".to_owned(),
    };
    let targets = hub.store.targets_of(&rules).unwrap();
    targets
        .iter()
        .map(|target| {
            let bytes = hub.store.content(&target.entry.digest).unwrap().unwrap();
            (
                target.cluster.to_string(),
                serde_json::from_slice(&bytes).unwrap(),
            )
        })
        .collect()
}

#[tokio::test]
async fn a_script_divides_and_merges_and_goes_to_every_cluster() {
    let mut hub = with_widget("return o.spec.size, {resourceRequest = {cpu = '100m'}}").await;
    let held = carriers(&hub);
    let clusters: Vec<&str> = held.iter().map(|(cluster, _)| cluster.as_str()).collect();
    assert_eq!(clusters, ["a", "b"], "agents get the scripts");
    assert_eq!(
        held[0].1["spec"],
        customization("return o.spec.size, {resourceRequest = {cpu = '100m'}}")["spec"]
    );
    assert_eq!(
        hub.content("w-widget", "a")["spec"],
        json!({"size": 4, "extra": {}})
    );
    assert_eq!(hub.content("w-widget", "b")["spec"]["size"], 2);
    let binding = hub.store.get(&bindings(), "shop", "w-widget").unwrap().value();
    assert_eq!(
        binding["spec"]["replicaRequirements"]["resourceRequest"]["cpu"],
        "100m"
    );
    hub.report("w-widget", "a", Some(json!({"ready": 4}))).await;
    hub.report("w-widget", "b", Some(json!({"ready": 1}))).await;
    hub.aggregate().await;
    assert_eq!(
        hub.store.get(&widgets(), "shop", "w").unwrap().value()["status"],
        json!({"ready": 5})
    );
    hub.delete(&customizations(), "", "widgets").await;
    hub.plan().await;
    assert_eq!(carriers(&hub), [], "what is gone is withdrawn");
    assert_eq!(hub.places("w-widget"), ["a", "b"], "and what runs goes on");
}

#[tokio::test]
async fn a_script_that_hangs_is_named_and_costs_only_its_objects() {
    let mut hub = with_widget("return o.spec.size").await;
    hub.put(&customizations(), customization("while true do end"))
        .await;
    hub.put(&deployments(), deployment(1, 3, "web:1")).await;
    let mut web = policy(&[("a", 1), ("b", 1)]);
    web["metadata"]["name"] = json!("web2");
    hub.put(&policies(), web).await;
    hub.plan().await;
    assert_eq!(hub.places("w-widget"), ["a", "b"], "what was placed stays");
    let binding = hub.store.get(&bindings(), "shop", "w-widget").unwrap().value();
    let condition = &binding["status"]["conditions"][0];
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("False"), &json!("SchedulerError"))
    );
    let message = condition["message"].as_str().unwrap();
    assert!(
        message.contains("ResourceInterpreterCustomization widgets"),
        "{message}"
    );
    let why = explain(&hub.reconciler, &widgets(), "shop", "w").unwrap();
    assert!(
        why.notes
            .iter()
            .any(|note| note.reason.as_str() == "ScriptFailed"),
        "{why:?}"
    );
    assert_eq!(hub.places("web-deployment"), ["a", "b"], "others are placed");
}

#[tokio::test]
async fn a_script_that_cannot_merge_is_said_by_why() {
    let mut hub = with_widget("return o.spec.size").await;
    hub.report("w-widget", "a", Some(json!({"ready": "many"}))).await;
    hub.aggregate().await;
    assert!(hub.store.get(&widgets(), "shop", "w").unwrap().value()["status"].is_null());
    let why = explain(&hub.reconciler, &widgets(), "shop", "w").unwrap();
    let note = why
        .notes
        .iter()
        .find(|note| note.reason.as_str() == "ScriptFailed");
    assert!(
        note.is_some_and(|note| note.message.contains("widgets")),
        "{why:?}"
    );
}

/// A customization of Deployment whose statuses are merged by `body`.
fn merging(body: &str) -> Value {
    json!({
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "deployments", "uid": "uid-merging", "generation": 1},
        "spec": {"target": {"apiVersion": "apps/v1", "kind": "Deployment"}, "customizations": {
            "statusAggregation": {"luaScript": format!("function AggregateStatus(o, items) {body} end")},
        }},
    })
}

fn events_about(hub: &Hub, kind: &str) -> Vec<String> {
    let events = hub.store.list(&ResourceId::new("", "events"), Some("shop")).items;
    let about = |event: &Value| event["involvedObject"]["kind"] == kind && event["reason"] == "ScriptFailed";
    let texts = events.iter().map(|event| event.value()).filter(about);
    texts
        .map(|event| event["message"].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// Field report F21. Red if the error of a script is swallowed in `status_of`, or if runs had no budget.
#[tokio::test]
async fn f21_a_faulty_script_for_a_builtin_kind_is_said_on_the_object() {
    for body in [
        "return nil",
        "while true do end",
        "local s = 'x' while true do s = s .. s end",
        "error('boom')",
    ] {
        let mut hub = two_to_one().await;
        hub.put(&customizations(), merging(body)).await;
        hub.plan().await;
        hub.report("web-deployment", "a", Some(member_status(1, 2))).await;
        hub.aggregate().await;
        for kind in ["Deployment", "ResourceBinding"] {
            let told = events_about(&hub, kind);
            assert!(
                told.iter()
                    .any(|message| message.contains("ResourceInterpreterCustomization deployments")),
                "{body}: events on {kind}: {told:?}"
            );
        }
        assert_eq!(hub.places("web-deployment"), ["a", "b"], "placing goes on");
    }
}

/// Field report F22. Red if the rules are read only once, or if bindings are not looked at again when they change.
#[tokio::test]
async fn f22_an_edited_script_acts_on_what_runs_already() {
    let mut hub = two_to_one().await;
    hub.report("web-deployment", "a", Some(member_status(1, 2))).await;
    for size in [1, 2] {
        hub.put(
            &customizations(),
            merging(&format!("o.status = {{replicas = {size}}} return o")),
        )
        .await;
        hub.plan().await;
        let failed = hub.reconciler.status_pass(hub.reconciler.bindings.take()).await;
        assert_eq!(failed, []);
        let web = hub.store.get(&deployments(), "shop", "web").unwrap().value();
        assert_eq!(web["status"]["replicas"], size);
    }
}
