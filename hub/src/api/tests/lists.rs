//! get and list: pages, selectors, revisions, forms.

use super::{CONFIGS, Hub};
use flate2::read::GzDecoder;
use http::Request;
use http::header::ACCEPT;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use std::io::Read as _;

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().expect("items");
    items
        .iter()
        .filter_map(|i| i["metadata"]["name"].as_str())
        .collect()
}

#[tokio::test]
async fn pages_come_from_one_snapshot() {
    let hub = Hub::new().await;
    for name in ["a", "b", "c", "d", "e"] {
        hub.config(name, &json!({})).await;
    }
    let first = hub.get(&format!("{CONFIGS}?limit=2")).await.body;
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    hub.delete(&format!("{CONFIGS}/c"), &Value::Null).await;
    hub.config("bb", &json!({})).await;

    let token = first["metadata"]["continue"].as_str().expect("more").to_owned();
    let second = hub.get(&format!("{CONFIGS}?limit=2&continue={token}")).await.body;
    assert_eq!(names(&second), ["c", "d"], "what page 1 saw");
    assert_eq!(
        second["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
    let token = second["metadata"]["continue"].as_str().expect("more").to_owned();
    let last = hub.get(&format!("{CONFIGS}?limit=2&continue={token}")).await.body;
    assert_eq!(names(&last), ["e"]);
    assert_eq!(last["metadata"].get("continue"), None);
    assert_eq!(
        hub.get(&format!("{CONFIGS}?limit=2&continue=zzz")).await.code,
        400
    );
}

#[tokio::test]
async fn selectors() {
    let hub = Hub::new().await;
    hub.config("a", &json!({"tier": "web"})).await;
    hub.config("b", &json!({"tier": "db"})).await;
    let table = [
        ("labelSelector=tier%3Dweb", vec!["a"]),
        ("labelSelector=tier", vec!["a", "b"]),
        ("labelSelector=tier+notin+(web)", vec!["b"]),
        ("fieldSelector=metadata.name%3Db", vec!["b"]),
        ("fieldSelector=metadata.name!%3Db", vec!["a"]),
        ("fieldSelector=metadata.name%3Db&labelSelector=tier%3Dweb", vec![]),
        ("labelSelector=tier%3Dweb&limit=1", vec!["a"]),
    ];
    for (query, expected) in table {
        let list = hub.get(&format!("{CONFIGS}?{query}")).await.body;
        assert_eq!(names(&list), expected, "{query}");
        assert_eq!(list["metadata"].get("continue"), None, "{query}");
    }
    for query in ["labelSelector=(", "fieldSelector=spec.x%3D1"] {
        assert_eq!(hub.get(&format!("{CONFIGS}?{query}")).await.code, 400, "{query}");
    }
}

#[tokio::test]
async fn revisions_of_lists() {
    let hub = Hub::new().await;
    let made = hub.config("a", &json!({})).await;
    let now = made["metadata"]["resourceVersion"]
        .as_str()
        .expect("a revision")
        .to_owned();
    let table = [
        (format!("resourceVersion={now}"), 200),
        ("resourceVersion=0".to_owned(), 200),
        (format!("resourceVersion={now}&resourceVersionMatch=Exact"), 200),
        ("resourceVersion=1&resourceVersionMatch=Exact".to_owned(), 410),
        ("resourceVersion=0&resourceVersionMatch=Exact".to_owned(), 422),
        ("resourceVersionMatch=NotOlderThan".to_owned(), 422),
        ("resourceVersion=1&resourceVersionMatch=Perhaps".to_owned(), 422),
        ("sendInitialEvents=true".to_owned(), 422),
        ("resourceVersion=x".to_owned(), 400),
        ("limit=x".to_owned(), 400),
    ];
    for (query, code) in table {
        let answer = hub.get(&format!("{CONFIGS}?{query}")).await;
        assert_eq!(answer.code, code, "{query}: {}", answer.body);
    }
    let future = hub
        .get(&format!("{CONFIGS}?resourceVersion=99999999999999"))
        .await;
    assert_eq!(future.code, 504);
    assert_eq!(
        future.body["details"]["causes"][0]["reason"],
        "ResourceVersionTooLarge"
    );
    assert_eq!(future.body["details"]["retryAfterSeconds"], 1);
}

#[tokio::test]
async fn tables_and_metadata() {
    let hub = Hub::new().await;
    hub.config("a", &json!({"x": "y"})).await;
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let answer = hub
        .call("GET", CONFIGS, &[(ACCEPT.as_str(), table)], &Value::Null)
        .await
        .body;
    assert_eq!(
        (&answer["kind"], &answer["apiVersion"]),
        (&json!("Table"), &json!("meta.k8s.io/v1"))
    );
    assert_eq!(answer["columnDefinitions"][1]["name"], "Data");
    assert_eq!(answer["rows"][0]["cells"], json!(["a", 1, "0s"]));
    assert_eq!(answer["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(answer["rows"][0]["object"].get("data"), None);
    let whole = format!("{CONFIGS}?includeObject=Object");
    let answer = hub
        .call("GET", &whole, &[(ACCEPT.as_str(), table)], &Value::Null)
        .await
        .body;
    assert_eq!(answer["rows"][0]["object"]["data"], json!({"a": "1"}));

    let partial = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let answer = hub
        .call("GET", CONFIGS, &[(ACCEPT.as_str(), partial)], &Value::Null)
        .await
        .body;
    assert_eq!(answer["kind"], "PartialObjectMetadataList");
    assert_eq!(answer["items"][0]["metadata"]["labels"], json!({"x": "y"}));
    assert_eq!(answer["items"][0].get("data"), None);
}

#[tokio::test]
async fn large_answers_are_compressed_for_who_takes_it() {
    let hub = Hub::new().await;
    let object = json!({"metadata": {"name": "big"}, "data": {"a": "x".repeat(200_000)}});
    assert_eq!(hub.post(CONFIGS, &object).await.code, 201);
    let request = Request::get(CONFIGS)
        .header("accept-encoding", "gzip")
        .body(axum::body::Body::empty());
    let answer = hub
        .api
        .answer(request.expect("a request"), Some(&super::admin()), super::peer())
        .await;
    assert_eq!(answer.headers()["content-encoding"], "gzip");
    let packed = answer.into_body().collect().await.expect("a body").to_bytes();
    assert!(packed.len() < 10_000, "{}", packed.len());
    let mut text = String::new();
    GzDecoder::new(&packed[..])
        .read_to_string(&mut text)
        .expect("gzip");
    let list: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(names(&list), ["big"]);
}

#[tokio::test]
async fn one_object_is_shown_in_every_served_shape() {
    let hub = Hub::new().await;
    let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let object = json!({"metadata": {"name": "a"}, "spec": {"maxReplicas": 3,
        "scaleTargetRef": {"kind": "Deployment", "name": "web"}, "metrics": [{"type": "Resource",
            "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]}});
    assert_eq!(hub.post(path, &object).await.code, 201);
    let v1 = hub
        .get("/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers/a")
        .await
        .body;
    assert_eq!(
        (&v1["apiVersion"], &v1["spec"]["targetCPUUtilizationPercentage"]),
        (&json!("autoscaling/v1"), &json!(50))
    );
    let list = hub
        .get("/apis/autoscaling/v1/horizontalpodautoscalers")
        .await
        .body;
    assert_eq!(list["items"][0]["spec"]["targetCPUUtilizationPercentage"], 50);
}
