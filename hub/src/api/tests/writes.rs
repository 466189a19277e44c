//! create, update, patch, delete; namespaces and their end.

use super::{CONFIGS, Hub};
use http::header::WARNING;
use serde_json::{Value, json};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn web() -> Value {
    json!({"metadata": {"name": "web"}, "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "x", "image": "i:1"}]}}}})
}

#[tokio::test]
async fn creates() {
    let hub = Hub::new().await;
    let made = hub.config("a", &json!({})).await;
    assert_eq!(made["metadata"]["namespace"], "default");
    assert_eq!(made["metadata"]["uid"].as_str().map(str::len), Some(36));
    assert!(made["metadata"]["resourceVersion"].is_string());
    assert_eq!(hub.get(&format!("{CONFIGS}/a")).await.body, made);

    let again = hub.post(CONFIGS, &json!({"metadata": {"name": "a"}})).await;
    assert_eq!(
        (again.code, &again.body["reason"]),
        (409, &json!("AlreadyExists"))
    );
    assert_eq!(again.body["details"]["kind"], "configmaps");
    let nowhere = hub
        .post(
            "/api/v1/namespaces/none/configmaps",
            &json!({"metadata": {"name": "a"}}),
        )
        .await;
    assert_eq!(
        (nowhere.code, &nowhere.body["details"]["kind"]),
        (404, &json!("namespaces"))
    );
    let first = hub
        .post(CONFIGS, &json!({"metadata": {"generateName": "g-"}}))
        .await
        .body;
    let second = hub
        .post(CONFIGS, &json!({"metadata": {"generateName": "g-"}}))
        .await
        .body;
    assert_ne!(first["metadata"]["name"], second["metadata"]["name"]);
}

#[tokio::test]
async fn field_validation() {
    let hub = Hub::new().await;
    let object = json!({"metadata": {"name": "a"}, "dat": {}});
    let strict = hub
        .post(&format!("{CONFIGS}?fieldValidation=Strict"), &object)
        .await;
    assert_eq!(strict.code, 400);
    assert!(
        strict.body["message"]
            .as_str()
            .is_some_and(|m| m.contains("unknown field \"dat\"")),
        "{}",
        strict.body
    );
    let warned = hub.post(CONFIGS, &object).await;
    assert_eq!((warned.code, warned.body.get("dat")), (201, None));
    assert_eq!(warned.headers[WARNING], "299 - \"unknown field \\\"dat\\\"\"");
    let patched = hub
        .patch(
            &format!("{CONFIGS}/a?fieldValidation=Strict"),
            "merge",
            &json!({"dat": {}}),
        )
        .await;
    assert_eq!(patched.code, 422, "{}", patched.body);
    let wrong = hub
        .post(
            DEPLOYMENTS,
            &json!({"metadata": {"name": "a"}, "spec": {"replicas": "2"}}),
        )
        .await;
    assert_eq!(wrong.code, 400);
}

#[tokio::test]
async fn a_body_may_have_three_mebibytes() {
    let hub = Hub::new().await;
    let object = json!({"metadata": {"name": "a"}, "data": {"a": "x".repeat(3 * 1024 * 1024)}});
    let refused = hub.post(CONFIGS, &object).await;
    assert_eq!(
        (refused.code, &refused.body["reason"]),
        (413, &json!("RequestEntityTooLarge"))
    );
}

#[tokio::test]
async fn updates() {
    let hub = Hub::new().await;
    let path = format!("{DEPLOYMENTS}/web");
    assert_eq!(hub.put(&path, &web()).await.code, 404);
    let made = hub.post(DEPLOYMENTS, &web()).await.body;
    let same = hub.put(&path, &web()).await;
    assert_eq!(
        (same.code, &same.body),
        (200, &made),
        "an update that changes nothing is no write"
    );

    let mut next = made.clone();
    next["spec"]["replicas"] = json!(3);
    let changed = hub.put(&path, &next).await;
    assert_eq!(
        (changed.code, &changed.body["metadata"]["generation"]),
        (200, &json!(2))
    );
    next["spec"]["replicas"] = json!(4);
    let stale = hub.put(&path, &next).await;
    assert_eq!((stale.code, &stale.body["reason"]), (409, &json!("Conflict")));

    let status = json!({"metadata": {"name": "web"}, "status": {"replicas": 3}});
    let reported = hub.put(&format!("{path}/status"), &status).await.body;
    assert_eq!(
        (&reported["status"]["replicas"], &reported["spec"]["replicas"]),
        (&json!(3), &json!(3))
    );
    assert_eq!(
        reported["metadata"]["generation"], 2,
        "status raises no generation"
    );
    let mut main = reported.clone();
    main["status"] = json!({"replicas": 99});
    assert_eq!(
        hub.put(&path, &main).await.body,
        reported,
        "status is written through its subresource"
    );
    let immutable = hub
        .patch(
            &path,
            "merge",
            &json!({"spec": {"selector": {"matchLabels": {"a": "c"}}}}),
        )
        .await;
    assert_eq!(immutable.code, 422);
}

#[tokio::test]
async fn patches() {
    let hub = Hub::new().await;
    hub.post(DEPLOYMENTS, &web()).await;
    let path = format!("{DEPLOYMENTS}/web");
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "x", "image": "i:2"}]}}}});
    let patched = hub.patch(&path, "strategic-merge", &image).await.body;
    assert_eq!(
        patched["spec"]["template"]["spec"]["containers"],
        json!([{"name": "x", "image": "i:2"}])
    );
    let labels = json!({"metadata": {"labels": {"l": "1"}}});
    assert_eq!(
        hub.patch(&path, "merge", &labels).await.body["metadata"]["labels"],
        json!({"l": "1"})
    );
    let operations = json!([{"op": "replace", "path": "/spec/replicas", "value": 7}]);
    assert_eq!(
        hub.patch(&path, "json", &operations).await.body["spec"]["replicas"],
        7
    );

    let refusals = [
        (
            "json",
            json!([{"op": "test", "path": "/spec/replicas", "value": 8}]),
            422,
        ),
        ("json", json!({"op": "x"}), 400),
        ("merge", json!([]), 400),
        ("strategic-merge", json!({"spec": {"$patch": "smash"}}), 500),
        ("merge", json!({"metadata": {"resourceVersion": "1"}}), 409),
        ("merge", json!({"metadata": {"name": "other"}}), 400),
        ("merge", json!({"spec": {"replicas": "many"}}), 422),
    ];
    for (kind, patch, code) in refusals {
        let answer = hub.patch(&path, kind, &patch).await;
        assert_eq!(answer.code, code, "{patch}: {}", answer.body);
    }
    assert_eq!(
        hub.patch(&format!("{DEPLOYMENTS}/none"), "merge", &json!({}))
            .await
            .code,
        404
    );
}

#[tokio::test]
async fn scales() {
    let hub = Hub::new().await;
    hub.post(DEPLOYMENTS, &web()).await;
    let path = format!("{DEPLOYMENTS}/web/scale");
    let scale = hub.get(&path).await.body;
    assert_eq!(
        (&scale["kind"], &scale["spec"]["replicas"]),
        (&json!("Scale"), &json!(2))
    );
    assert_eq!(scale["status"]["selector"], "a=b");
    let patched = hub
        .patch(&path, "merge", &json!({"spec": {"replicas": 5}}))
        .await
        .body;
    assert_eq!(
        (&patched["kind"], &patched["spec"]["replicas"]),
        (&json!("Scale"), &json!(5))
    );
    let object = hub.get(&format!("{DEPLOYMENTS}/web")).await.body;
    assert_eq!(
        (&object["spec"]["replicas"], &object["metadata"]["generation"]),
        (&json!(5), &json!(2))
    );
    assert_eq!(hub.put(&path, &scale).await.code, 409, "a Scale read before");
}

#[tokio::test]
async fn the_first_to_scale_owns_replicas_that_nobody_had_set() {
    let hub = Hub::new().await;
    let mut web = web();
    web["spec"].as_object_mut().unwrap().remove("replicas");
    hub.post(DEPLOYMENTS, &web).await;
    let path = format!("{DEPLOYMENTS}/web/scale");
    hub.patch(&path, "merge", &json!({"spec": {"replicas": 5}})).await;
    let object = hub.get(&format!("{DEPLOYMENTS}/web")).await.body;
    let scaled: Vec<&Value> = object["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["subresource"] == "scale")
        .map(|entry| &entry["fieldsV1"])
        .collect();
    assert_eq!(scaled, [&json!({"f:spec": {"f:replicas": {}}})]);
}

#[tokio::test]
async fn dry_runs_change_nothing() {
    let hub = Hub::new().await;
    let made = hub
        .post(
            &format!("{CONFIGS}?dryRun=All"),
            &json!({"metadata": {"name": "a"}}),
        )
        .await;
    assert_eq!(made.code, 201);
    assert_eq!(hub.get(&format!("{CONFIGS}/a")).await.code, 404);
    let real = hub.config("a", &json!({})).await;
    let patch = json!({"data": {"a": "2"}});
    let patched = hub
        .patch(&format!("{CONFIGS}/a?dryRun=All"), "merge", &patch)
        .await
        .body;
    assert_eq!(patched["data"]["a"], "2");
    assert_eq!(
        hub.delete(&format!("{CONFIGS}/a"), &json!({"dryRun": ["All"]}))
            .await
            .code,
        200
    );
    assert_eq!(hub.get(&format!("{CONFIGS}/a")).await.body, real);
    assert_eq!(
        hub.post(&format!("{CONFIGS}?dryRun=Maybe"), &json!({}))
            .await
            .code,
        422
    );
}

/// Field report F51. Red if preconditions were not checked before the deletion.
#[tokio::test]
async fn deletes() {
    let hub = Hub::new().await;
    let made = hub.config("a", &json!({})).await;
    let path = format!("{CONFIGS}/a");
    for wrong in [
        json!({"preconditions": {"uid": "x"}}),
        json!({"preconditions": {"resourceVersion": "1"}}),
    ] {
        assert_eq!(hub.delete(&path, &wrong).await.code, 409, "{wrong}");
    }
    let right = json!({"preconditions": {"uid": made["metadata"]["uid"]}, "propagationPolicy": "Background"});
    let gone = hub.delete(&path, &right).await.body;
    assert_eq!(
        (&gone["status"], &gone["details"]["uid"]),
        (&json!("Success"), &made["metadata"]["uid"])
    );
    assert_eq!(hub.delete(&path, &Value::Null).await.code, 404);

    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    hub.post("/api/v1/namespaces/default/services", &service).await;
    let gone = hub
        .delete("/api/v1/namespaces/default/services/s", &Value::Null)
        .await
        .body;
    assert_eq!(gone["kind"], "Service", "some kinds answer with the object");

    for name in ["x", "y", "z"] {
        hub.config(name, &json!({"in": (name != "z").to_string()})).await;
    }
    let gone = hub
        .delete(&format!("{CONFIGS}?labelSelector=in%3Dtrue"), &Value::Null)
        .await
        .body;
    assert_eq!(gone["items"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        hub.get(CONFIGS).await.body["items"].as_array().map(Vec::len),
        Some(1)
    );
}

#[tokio::test]
async fn finalizers_hold_what_is_deleted() {
    let hub = Hub::new().await;
    let object = json!({"metadata": {"name": "a", "finalizers": ["example.com/hold"]}});
    hub.post(CONFIGS, &object).await;
    let path = format!("{CONFIGS}/a");
    let waiting = hub.delete(&path, &Value::Null).await.body;
    assert!(waiting["metadata"]["deletionTimestamp"].is_string(), "{waiting}");
    assert_eq!(hub.get(&path).await.code, 200);
    let more = json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}});
    assert_eq!(hub.patch(&path, "merge", &more).await.code, 422);
    let none = hub
        .patch(&path, "merge", &json!({"metadata": {"finalizers": null}}))
        .await;
    assert_eq!(none.code, 200);
    assert_eq!(hub.get(&path).await.code, 404);
}

#[tokio::test]
async fn a_namespace_ends_with_its_content() {
    let hub = Hub::new().await;
    let running = tokio::spawn(hub.api.clone().run());
    assert_eq!(
        hub.post("/api/v1/namespaces", &json!({"metadata": {"name": "shop"}}))
            .await
            .code,
        201
    );
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    for object in [held, json!({"metadata": {"name": "free"}})] {
        assert_eq!(
            hub.post("/api/v1/namespaces/shop/configmaps", &object).await.code,
            201
        );
    }
    let revision = hub.api.store.revision();
    let mut events = hub.api.store.watch(None, revision).expect("kept");
    let ending = hub.delete("/api/v1/namespaces/shop", &Value::Null).await;
    assert_eq!(
        (ending.code, &ending.body["status"]["phase"]),
        (200, &json!("Terminating"))
    );
    let refused = hub
        .post(
            "/api/v1/namespaces/shop/configmaps",
            &json!({"metadata": {"name": "new"}}),
        )
        .await;
    assert_eq!(refused.code, 403);
    assert_eq!(
        refused.body["details"]["causes"][0]["reason"],
        "NamespaceTerminating"
    );

    while hub.get("/api/v1/namespaces/shop/configmaps/free").await.code != 404 {
        events.next().await.expect("kept");
    }
    assert_eq!(
        hub.get("/api/v1/namespaces/shop").await.code,
        200,
        "something holds it"
    );
    let release = json!({"metadata": {"finalizers": null}});
    hub.patch("/api/v1/namespaces/shop/configmaps/held", "merge", &release)
        .await;
    while hub.get("/api/v1/namespaces/shop").await.code != 404 {
        events.next().await.expect("kept");
    }
    assert_eq!(
        hub.delete("/api/v1/namespaces/default", &Value::Null).await.code,
        403
    );
    running.abort();
}

#[tokio::test]
async fn policies_are_admitted() {
    let hub = Hub::new().await;
    let path = "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies";
    let policy = json!({"metadata": {"name": "p"}, "spec": {"resourceSelectors":
        [{"apiVersion": "apps/v1", "kind": "Deployment"}], "placement": {"clusterAffinity": {"clusterNames": ["a"]}}}});
    let made = hub.post(path, &policy).await;
    assert_eq!(made.code, 201, "{}", made.body);
    assert_eq!(
        made.body["spec"]["conflictResolution"], "Abort",
        "the reference's defaults"
    );
    assert_eq!(
        hub.put(&format!("{path}/p"), &made.body).await.body,
        made.body,
        "and they are no change"
    );
    assert_eq!(
        made.body["metadata"]["finalizers"],
        json!(["karmada.io/propagation-policy-controller"])
    );
    let mut wrong = policy.clone();
    wrong["metadata"]["name"] = json!("q");
    wrong["spec"]["resourceSelectors"] = json!([{"kind": "Deployment"}]);
    let refused = hub.post(path, &wrong).await;
    assert_eq!(
        (refused.code, &refused.body["details"]["causes"][0]["field"]),
        (422, &json!("spec.resourceSelectors[0].apiVersion"))
    );
    let strategic = hub
        .patch(&format!("{path}/p"), "strategic-merge", &json!({}))
        .await;
    assert_eq!(strategic.code, 415);
}

/// Turns red when a kind of the reference is stored without its rules.
#[tokio::test]
async fn the_references_other_kinds_are_admitted_too() {
    let hub = Hub::new().await;
    let policies = "/apis/policy.karmada.io/v1alpha1";
    for (path, object, field) in [
        (
            format!("{policies}/namespaces/default/federatedresourcequotas"),
            json!({"metadata": {"name": "q"}, "spec": {"overall": {"cpu": "1"},
                "staticAssignments": [{"clusterName": "m1", "hard": {"cpu": "2"}}]}}),
            "spec.overall[cpu]",
        ),
        (
            format!("{policies}/clustertaintpolicies"),
            json!({"metadata": {"name": "t"}, "spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}),
            "spec.taints[0]",
        ),
        (
            "/apis/networking.karmada.io/v1alpha1/namespaces/default/multiclusterservices".to_owned(),
            json!({"metadata": {"name": "s"}, "spec": {"types": ["Magic"]}}),
            "spec.types[0]",
        ),
        (
            "/apis/apps.karmada.io/v1alpha1/workloadrebalancers".to_owned(),
            json!({"metadata": {"name": "r"}, "spec": {"workloads": []}}),
            "spec.workloads",
        ),
    ] {
        let refused = hub.post(&path, &object).await;
        assert_eq!(
            (refused.code, &refused.body["details"]["causes"][0]["field"]),
            (422, &json!(field)),
            "{path}: {}",
            refused.body
        );
    }
}

/// Turns red when a deletion does not look at the label.
#[tokio::test]
async fn a_protected_object_is_not_deleted() {
    let hub = Hub::new().await;
    let path = "/api/v1/namespaces/default/configmaps";
    let protected = json!({"metadata": {"name": "c", "labels": {"resourcetemplate.karmada.io/deletion-protected": "Always"}}});
    assert_eq!(hub.post(path, &protected).await.code, 201);
    let at = format!("{path}/c");
    assert_eq!(hub.delete(&at, &json!({})).await.code, 403);
    let free = json!({"metadata": {"labels": {"resourcetemplate.karmada.io/deletion-protected": null}}});
    assert_eq!(hub.patch(&at, "merge", &free).await.code, 200);
    assert_eq!(hub.delete(&at, &json!({})).await.code, 200);
}

#[tokio::test]
async fn what_the_hub_makes_is_not_written_by_clients() {
    let hub = Hub::new().await;
    let cluster = json!({"metadata": {"name": "m"}, "spec": {"syncMode": "Pull"}});
    let refused = hub
        .post("/apis/cluster.karmada.io/v1alpha1/clusters", &cluster)
        .await;
    assert_eq!(refused.code, 403);
    let push = json!({"metadata": {"name": "m"}, "spec": {"syncMode": "Push", "apiEndpoint": "https://m"}});
    let refused = hub
        .post("/apis/cluster.karmada.io/v1alpha1/clusters", &push)
        .await;
    assert_eq!(refused.code, 422);
    assert!(
        refused.body["message"]
            .as_str()
            .is_some_and(|m| m.contains("pinnace token create m")),
        "{}",
        refused.body
    );
    let binding = json!({"metadata": {"name": "b"}, "spec": {"resource":
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "a"}}});
    let path = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings";
    assert_eq!(hub.post(path, &binding).await.code, 403);
}
