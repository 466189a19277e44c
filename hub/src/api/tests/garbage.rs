//! Owner references and the ends of namespaces, with the API's own tasks running.

use super::{Answer, CONFIGS, Hub};
use serde_json::{Value, json};

impl Hub {
    async fn owned(&self, path: &str, name: &str, owner: &Value, blocks: bool) -> Value {
        let metadata = &owner["metadata"];
        let object = json!({"metadata": {"name": name, "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap",
            "name": metadata["name"], "uid": metadata["uid"], "blockOwnerDeletion": blocks}]}});
        let made = self.post(path, &object).await;
        assert_eq!(made.code, 201, "{}", made.body);
        made.body
    }
}

#[tokio::test]
async fn dependents_go_wait_or_stay() {
    let hub = Hub::new().await;
    let running = tokio::spawn(hub.api.clone().run());
    for policy in ["Background", "Foreground", "Orphan"] {
        let owner = hub.config("owner", &json!({})).await;
        let child = hub.owned(CONFIGS, "child", &owner, true).await;
        hub.owned("/api/v1/namespaces/default/secrets", "grandchild", &child, true)
            .await;
        let at = |name: &str| format!("{CONFIGS}/{name}");
        let answer = hub
            .delete(&at("owner"), &json!({"propagationPolicy": policy}))
            .await;
        assert_eq!(answer.code, 200, "{}", answer.body);
        hub.until(&at("owner"), 404).await;
        let grandchild = "/api/v1/namespaces/default/secrets/grandchild";
        if policy == "Orphan" {
            let child = hub.get(&at("child")).await;
            assert_eq!(
                (child.code, child.body["metadata"].get("ownerReferences")),
                (200, None)
            );
            hub.delete(&at("child"), &Value::Null).await;
        } else {
            hub.until(&at("child"), 404).await;
        }
        hub.until(grandchild, 404).await;
    }
    let elsewhere = json!({"metadata": {"name": "stray", "ownerReferences": [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "not-there"},
        {"apiVersion": "example.io/v1", "kind": "Widget", "name": "x", "uid": "unknown"}]}});
    hub.post(CONFIGS, &elsewhere).await;
    let has_one =
        |stray: &Answer| stray.body["metadata"]["ownerReferences"].as_array().map(Vec::len) == Some(1);
    let kept = hub.until_it(&format!("{CONFIGS}/stray"), has_one).await;
    assert_eq!(
        kept.body["metadata"]["ownerReferences"][0]["kind"], "Widget",
        "what is not known stays"
    );
    for (body, code) in [
        (json!({"propagationPolicy": "Maybe"}), 422),
        (
            json!({"propagationPolicy": "Orphan", "orphanDependents": true}),
            422,
        ),
    ] {
        assert_eq!(
            hub.delete(&format!("{CONFIGS}/stray"), &body).await.code,
            code,
            "{body}"
        );
    }
    running.abort();
}

#[tokio::test]
async fn an_owner_in_another_namespace_counts_as_absent_and_is_told() {
    let hub = Hub::new().await;
    let running = tokio::spawn(hub.api.clone().run());
    let owner = hub.config("owner", &json!({})).await;
    let there = "/api/v1/namespaces/kube-public/configmaps";
    hub.owned(there, "child", &owner, false).await;
    hub.until(&format!("{there}/child"), 404).await;
    let events = hub.get("/api/v1/namespaces/kube-public/events").await;
    assert_eq!(
        events.body["items"][0]["reason"], "OwnerRefInvalidNamespace",
        "{}",
        events.body
    );
    running.abort();
}

/// Field report F61. Red if the conditions of a namespace that ends were not written, or did not name what is left.
#[tokio::test]
async fn a_namespace_says_what_it_waits_for() {
    let hub = Hub::new().await;
    let running = tokio::spawn(hub.api.clone().run());
    hub.post("/api/v1/namespaces", &json!({"metadata": {"name": "shop"}}))
        .await;
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    hub.post("/api/v1/namespaces/shop/configmaps", &held).await;
    hub.delete("/api/v1/namespaces/shop", &Value::Null).await;
    let condition = |namespace: &Answer, kind: &str| {
        let conditions = namespace.body["status"]["conditions"].as_array()?.clone();
        conditions.into_iter().find(|c| c["type"] == kind)
    };
    let finalizers = "NamespaceFinalizersRemaining";
    let is_held =
        |namespace: &Answer| condition(namespace, finalizers).is_some_and(|c| c["status"] == "True");
    let held = hub.until_it("/api/v1/namespaces/shop", is_held).await;
    assert_eq!(held.body["status"]["phase"], "Terminating");
    assert_eq!(
        condition(&held, "NamespaceContentRemaining").expect("a condition")["message"],
        "Some resources are remaining: configmaps. has 1 resource instances"
    );
    assert_eq!(
        condition(&held, finalizers).expect("a condition")["message"],
        "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
    );
    hub.patch(
        "/api/v1/namespaces/shop/configmaps/held",
        "merge",
        &json!({"metadata": {"finalizers": null}}),
    )
    .await;
    hub.until("/api/v1/namespaces/shop", 404).await;

    hub.post("/api/v1/namespaces", &json!({"metadata": {"name": "own"}}))
        .await;
    let mut namespace = hub.get("/api/v1/namespaces/own").await.body;
    namespace["spec"]["finalizers"] = json!(["kubernetes", "example.com/mine"]);
    let finalize = "/api/v1/namespaces/own/finalize";
    assert_eq!(hub.put(finalize, &namespace).await.code, 200);
    hub.delete("/api/v1/namespaces/own", &Value::Null).await;
    let is_mine = |own: &Answer| own.body["spec"]["finalizers"] == json!(["example.com/mine"]);
    let mut done = hub.until_it("/api/v1/namespaces/own", is_mine).await.body;
    done["spec"]["finalizers"] = json!([]);
    assert_eq!(hub.put(finalize, &done).await.code, 200);
    hub.until("/api/v1/namespaces/own", 404).await;
    running.abort();
}

/// Red if a DELETE did not ask what it takes out of clusters, or asked again about what ends already.
#[tokio::test]
async fn a_namespace_that_takes_too_much_with_it_is_refused_with_the_command() {
    let hub = Hub::new().await;
    let confirmed = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let ask = confirmed.clone();
    hub.api.guard_losses(Box::new(move |scope, is_dry| {
        let is_meant =
            scope.to_string() == "Namespace shop" && !ask.load(std::sync::atomic::Ordering::SeqCst);
        Ok(is_meant.then(|| format!("dry run {is_dry}, `pinnace confirm 7`")))
    }));
    for name in ["shop", "work"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        hub.post("/api/v1/namespaces", &namespace).await;
    }
    assert_eq!(
        hub.delete("/api/v1/namespaces/work", &Value::Null).await.code,
        200
    );
    let dry = hub
        .delete("/api/v1/namespaces/shop?dryRun=All", &Value::Null)
        .await;
    assert_eq!(dry.code, 403);
    let refused = hub.delete("/api/v1/namespaces/shop", &Value::Null).await;
    assert_eq!(
        (refused.code, &refused.body["reason"]),
        (403, &json!("Forbidden"))
    );
    assert_eq!(
        refused.body["message"],
        "namespaces \"shop\" is forbidden: dry run false, `pinnace confirm 7`"
    );
    let there = hub.get("/api/v1/namespaces/shop").await;
    assert_eq!(there.body["status"]["phase"], "Active", "nothing was begun");
    confirmed.store(true, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(
        hub.delete("/api/v1/namespaces/shop", &Value::Null).await.code,
        200
    );
    confirmed.store(false, std::sync::atomic::Ordering::SeqCst);
    let again = hub.delete("/api/v1/namespaces/shop", &Value::Null).await;
    assert_ne!(again.code, 403, "it ends already");
}
