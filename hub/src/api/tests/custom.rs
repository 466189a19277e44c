//! Custom resources from their definition to their end.

use super::super::catalog::Catalog;
use super::super::definitions;
use super::*;
use hub_core::types::TypeTable;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.io/v1/namespaces/default/widgets";

fn definition(plural: &str, kind: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer", "default": 1, "maximum": 9}, "name": {"type": "string"}}}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.io")},
        "spec": {"group": "example.io", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {"scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]}]}})
}

fn widget(name: &str) -> Value {
    json!({"apiVersion": "example.io/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"name": "x", "sise": 2}})
}

#[tokio::test]
async fn a_definition_is_served_at_once_and_all_of_it_goes_with_it() {
    let hub = Hub::new().await;
    assert_eq!(hub.get("/apis/example.io/v1").await.code, 404);
    let made = hub.post(CRDS, &definition("widgets", "Widget")).await;
    assert_eq!(made.code, 201, "{}", made.body);
    assert_eq!(made.body["status"]["conditions"][1]["type"], "Established");
    assert_eq!(made.body["status"]["conditions"][1]["status"], "True");
    let list = hub.get("/apis/example.io/v1").await.body;
    assert_eq!(list["resources"][0]["kind"], "Widget");
    let index = hub.get("/openapi/v3").await.body;
    assert!(index["paths"].get("apis/example.io/v1").is_some());
    let old = hub.get("/openapi/v2").await.body;
    assert!(old["definitions"].get("io.example.v1.Widget").is_some());

    let first = hub.post(WIDGETS, &widget("a")).await;
    assert_eq!(first.code, 201, "{}", first.body);
    assert_eq!(first.body["spec"], json!({"name": "x", "size": 1}));
    assert_eq!(
        first.headers["warning"],
        "299 - \"unknown field \\\"spec.sise\\\"\""
    );
    let wrong = hub
        .patch(&format!("{WIDGETS}/a"), "merge", &json!({"spec": {"size": 10}}))
        .await;
    assert_eq!(
        (wrong.code, &wrong.body["details"]["causes"][0]["field"]),
        (422, &json!("spec.size"))
    );
    let refused = hub
        .patch(&format!("{WIDGETS}/a"), "strategic-merge", &json!({}))
        .await;
    assert_eq!(refused.code, 415);
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let rows = hub
        .call("GET", WIDGETS, &[(ACCEPT.as_str(), table)], &Value::Null)
        .await
        .body;
    assert_eq!(rows["rows"][0]["cells"], json!(["a", 1]));
    let scaled = hub
        .patch(
            &format!("{WIDGETS}/a/scale"),
            "merge",
            &json!({"spec": {"replicas": 4}}),
        )
        .await;
    assert_eq!((scaled.code, &scaled.body["spec"]["replicas"]), (200, &json!(4)));
    assert_eq!(hub.get(&format!("{WIDGETS}/a")).await.body["spec"]["size"], 4);
    let request = Request::get(WIDGETS).body(Body::empty()).expect("a request");
    let other = Identity {
        user: "bob".to_owned(),
        ..Identity::default()
    };
    assert_eq!(hub.raw(request, Some(&other)).await.code, 403);

    // What was stored before the schema changed is read by the new one.
    let add = json!([{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/later",
        "value": {"type": "string", "default": "now"}}]);
    assert_eq!(
        hub.patch(&format!("{CRDS}/widgets.example.io"), "json", &add)
            .await
            .code,
        200
    );
    assert_eq!(
        hub.get(&format!("{WIDGETS}/a")).await.body["spec"]["later"],
        "now"
    );
    assert_eq!(hub.get(WIDGETS).await.body["items"][0]["spec"]["later"], "now");
    // And by a hub that starts with what is stored.
    let again = Catalog::new(TypeTable::built_in());
    again.refresh(&hub.api.store);
    assert!(again.get("example.io", "v1", "widgets").is_some());

    let mut held = widget("held");
    held["metadata"]["finalizers"] = json!(["example.io/hold"]);
    assert_eq!(hub.post(WIDGETS, &held).await.code, 201);
    let ending = hub
        .delete(&format!("{CRDS}/widgets.example.io"), &Value::Null)
        .await;
    assert_eq!(
        (ending.code, &ending.body["kind"]),
        (200, &json!("CustomResourceDefinition"))
    );
    assert_eq!(hub.get(&format!("{WIDGETS}/a")).await.code, 404);
    assert_eq!(hub.post(WIDGETS, &widget("late")).await.code, 405);
    let free = json!({"metadata": {"finalizers": null}});
    assert_eq!(
        hub.patch(&format!("{WIDGETS}/held"), "merge", &free).await.code,
        200
    );
    assert!(!hub.api.end_definitions().await, "nothing holds it any more");
    assert_eq!(hub.get(&format!("{CRDS}/widgets.example.io")).await.code, 404);
    assert_eq!(hub.get(WIDGETS).await.code, 404);
    let old = hub.get("/openapi/v2").await.body;
    assert!(old["definitions"].get("io.example.v1.Widget").is_none());
}

#[tokio::test]
async fn a_definition_that_somebody_holds_takes_no_objects() {
    let hub = Hub::new().await;
    let mut held = definition("widgets", "Widget");
    held["metadata"]["finalizers"] = json!(["example.io/hold"]);
    assert_eq!(hub.post(CRDS, &held).await.code, 201);
    let path = format!("{CRDS}/widgets.example.io");
    assert_eq!(hub.delete(&path, &Value::Null).await.code, 200);
    let ending = hub.get(&path).await.body;
    let conditions = ending["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let terminating = conditions.iter().find(|c| c["type"] == "Terminating");
    assert_eq!(
        terminating.map(|c| &c["status"]),
        Some(&json!("True")),
        "{ending}"
    );
    let apply = format!("{WIDGETS}/a?fieldManager=m&dryRun=All");
    let kind = [(CONTENT_TYPE.as_str(), "application/apply-patch+yaml")];
    let mut new = widget("a");
    new["spec"] = json!({"name": "x"});
    let refused = hub.call("PATCH", &apply, &kind, &new).await;
    assert_eq!(
        (refused.code, &refused.body["message"]),
        (
            405,
            &json!("create not allowed while custom resource definition is terminating")
        )
    );
}

#[tokio::test]
async fn names_are_granted_once() {
    let hub = Hub::new().await;
    assert_eq!(hub.post(CRDS, &definition("widgets", "Widget")).await.code, 201);
    let second = hub.post(CRDS, &definition("gadgets", "Widget")).await;
    assert_eq!(
        (second.code, &second.body["status"]["conditions"][0]["reason"]),
        (201, &json!("ListKindConflict"))
    );
    assert_eq!(hub.get("/apis/example.io/v1/gadgets").await.code, 404);
    assert_eq!(
        hub.delete(&format!("{CRDS}/widgets.example.io"), &Value::Null)
            .await
            .code,
        200
    );
    assert_eq!(hub.get("/apis/example.io/v1/gadgets").await.code, 200);
    // The hub's own kinds are not for sale, and do not go with a definition of their name.
    let mut own = definition("propagationpolicies", "PropagationPolicy");
    own["metadata"]["name"] = json!("propagationpolicies.policy.karmada.io");
    own["spec"]["group"] = json!("policy.karmada.io");
    let made = hub.post(CRDS, &own).await;
    assert_eq!(
        made.body["status"]["conditions"][1]["status"], "False",
        "{}",
        made.body
    );
    assert_eq!(
        hub.delete(
            &format!("{CRDS}/propagationpolicies.policy.karmada.io"),
            &Value::Null
        )
        .await
        .code,
        200
    );
    assert_eq!(
        hub.api
            .store
            .list(&super::super::catalog::definitions_id(), None)
            .items
            .len(),
        1
    );
    assert_eq!(
        hub.get("/apis/policy.karmada.io/v1alpha1/propagationpolicies")
            .await
            .code,
        200
    );
}

#[tokio::test]
async fn updates_name_the_version_they_change() {
    let hub = Hub::new().await;
    hub.post(CRDS, &definition("widgets", "Widget")).await;
    let made = hub.post(WIDGETS, &widget("a")).await.body;
    let blind = hub.put(&format!("{WIDGETS}/a"), &widget("a")).await;
    assert_eq!(
        (blind.code, &blind.body["details"]["causes"][0]["field"]),
        (422, &json!("metadata.resourceVersion"))
    );
    let mut seen = made.clone();
    seen["spec"]["size"] = json!(3);
    assert_eq!(
        hub.put(&format!("{WIDGETS}/a"), &seen).await.body["metadata"]["generation"],
        2
    );
    let served = hub.api.catalog.get("", "v1", "configmaps").expect("configmaps");
    assert!(definitions::check_conditional(&served, &json!({}), "a").is_ok());
}
