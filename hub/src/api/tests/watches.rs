//! Watches: order, selectors, bookmarks, old revisions.

use super::{CONFIGS, Hub, admin, peer};
use axum::body::{Body, BodyDataStream};
use futures::StreamExt as _;
use http::Request;
use http::header::ACCEPT;
use serde_json::{Value, json};

/// The events of a watch, one after the other.
struct Events {
    stream: BodyDataStream,
}

impl Events {
    async fn start(hub: &Hub, path: &str, accept: &str) -> Events {
        let request = Request::get(path)
            .header(ACCEPT, accept)
            .body(Body::empty())
            .expect("a request");
        let answer = hub.api.answer(request, Some(&admin()), peer()).await;
        assert_eq!(answer.status(), 200, "{path}");
        Events {
            stream: answer.into_body().into_data_stream(),
        }
    }

    async fn next(&mut self) -> Option<Value> {
        let line = self.stream.next().await?.expect("a line");
        assert_eq!(line.last(), Some(&b'\n'));
        Some(serde_json::from_slice(&line).expect("JSON"))
    }

    /// Type and name of the next event.
    async fn shown(&mut self) -> (String, String) {
        let event = self.next().await.expect("an event");
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        (text(&event["type"]), text(&event["object"]["metadata"]["name"]))
    }
}

fn event(kind: &str, name: &str) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}

#[tokio::test]
async fn the_present_then_changes() {
    let hub = Hub::new().await;
    hub.config("a", &json!({})).await;
    let mut events = Events::start(&hub, &format!("{CONFIGS}?watch=true"), "*/*").await;
    assert_eq!(events.shown().await, event("ADDED", "a"));
    hub.config("b", &json!({})).await;
    hub.patch(&format!("{CONFIGS}/a"), "merge", &json!({"data": {"a": "2"}}))
        .await;
    hub.delete(&format!("{CONFIGS}/a"), &Value::Null).await;
    assert_eq!(events.shown().await, event("ADDED", "b"));
    let modified = events.next().await.expect("an event");
    let deleted = events.next().await.expect("an event");
    assert_eq!(
        (&modified["type"], &modified["object"]["data"]["a"]),
        (&json!("MODIFIED"), &json!("2"))
    );
    assert_eq!(deleted["type"], "DELETED");
    let number = |e: &Value| {
        e["object"]["metadata"]["resourceVersion"]
            .as_str()
            .and_then(|r| r.parse::<u64>().ok())
    };
    assert!(
        number(&deleted) > number(&modified),
        "a deletion has its own revision"
    );
}

#[tokio::test]
async fn from_a_revision_and_of_other_namespaces() {
    let hub = Hub::new().await;
    let made = hub.config("a", &json!({})).await;
    let revision = made["metadata"]["resourceVersion"].as_str().expect("a revision");
    let path = format!("{CONFIGS}?watch=1&resourceVersion={revision}");
    hub.post(
        "/api/v1/namespaces/kube-system/configmaps",
        &json!({"metadata": {"name": "elsewhere"}}),
    )
    .await;
    hub.config("b", &json!({})).await;
    let mut events = Events::start(&hub, &path, "*/*").await;
    assert_eq!(events.shown().await, event("ADDED", "b"));
    let all = format!("/api/v1/configmaps?watch=1&resourceVersion={revision}");
    let mut events = Events::start(&hub, &all, "*/*").await;
    assert_eq!(events.shown().await, event("ADDED", "elsewhere"));
}

#[tokio::test]
async fn what_enters_and_leaves_a_selection() {
    let hub = Hub::new().await;
    hub.config("a", &json!({"in": "no"})).await;
    let path = format!("{CONFIGS}?watch=true&labelSelector=in%3Dyes");
    let mut events = Events::start(&hub, &path, "*/*").await;
    let label = |value: &str| json!({"metadata": {"labels": {"in": value}}});
    hub.patch(&format!("{CONFIGS}/a"), "merge", &label("yes")).await;
    hub.patch(&format!("{CONFIGS}/a"), "merge", &label("no")).await;
    hub.config("b", &json!({"in": "yes"})).await;
    assert_eq!(events.shown().await, event("ADDED", "a"));
    let left = events.next().await.expect("an event");
    assert_eq!(
        (&left["type"], &left["object"]["metadata"]["labels"]["in"]),
        (&json!("DELETED"), &json!("yes"))
    );
    assert_eq!(events.shown().await, event("ADDED", "b"));

    let mut one = Events::start(
        &hub,
        &format!("{CONFIGS}?watch=true&fieldSelector=metadata.name%3Da"),
        "*/*",
    )
    .await;
    assert_eq!(one.shown().await, event("ADDED", "a"));
    hub.config("c", &json!({})).await;
    hub.delete(&format!("{CONFIGS}/a"), &Value::Null).await;
    assert_eq!(one.shown().await, event("DELETED", "a"));
}

#[tokio::test]
async fn initial_events_end_with_a_bookmark() {
    let hub = Hub::new().await;
    hub.config("a", &json!({})).await;
    let path = format!(
        "{CONFIGS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let mut events = Events::start(&hub, &path, "*/*").await;
    assert_eq!(events.shown().await, event("ADDED", "a"));
    let bookmark = events.next().await.expect("a bookmark");
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(
        bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"],
        "true"
    );
    hub.config("b", &json!({})).await;
    assert_eq!(events.shown().await, event("ADDED", "b"));
    for query in [
        "sendInitialEvents=true",
        "resourceVersionMatch=NotOlderThan&resourceVersion=1",
    ] {
        assert_eq!(
            hub.get(&format!("{CONFIGS}?watch=1&{query}")).await.code,
            422,
            "{query}"
        );
    }
}

#[tokio::test]
async fn bookmarks_and_the_end_of_a_watch() {
    let hub = Hub::new().await;
    hub.config("a", &json!({})).await;
    let path = format!("{CONFIGS}?watch=1&resourceVersion=0&allowWatchBookmarks=true&timeoutSeconds=1");
    let mut events = Events::start(&hub, &path, "*/*").await;
    assert_eq!(events.shown().await, event("ADDED", "a"));
    let bookmark = events.next().await.expect("a bookmark");
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(
        bookmark["object"]["metadata"]["resourceVersion"],
        hub.api.store.revision().to_string()
    );
    assert_eq!(events.next().await, None, "a last bookmark, then the end");
}

#[tokio::test]
async fn a_revision_too_old_is_told_in_the_stream() {
    let hub = Hub::new().await;
    let mut events = Events::start(&hub, &format!("{CONFIGS}?watch=1&resourceVersion=1"), "*/*").await;
    let error = events.next().await.expect("an error");
    assert_eq!(
        (&error["type"], &error["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    assert_eq!(error["object"]["reason"], "Expired");
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn a_watch_of_tables_gives_the_columns_once() {
    let hub = Hub::new().await;
    hub.config("a", &json!({})).await;
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let mut events = Events::start(&hub, &format!("{CONFIGS}?watch=true"), accept).await;
    let first = events.next().await.expect("an event");
    assert_eq!(first["object"]["rows"][0]["cells"][0], "a");
    assert!(first["object"]["columnDefinitions"].is_array());
    hub.config("b", &json!({})).await;
    let second = events.next().await.expect("an event");
    assert_eq!(second["object"]["columnDefinitions"], Value::Null);
    assert_eq!(second["object"]["rows"][0]["object"]["metadata"]["name"], "b");
}

#[tokio::test]
async fn a_watch_goes_over_a_websocket() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let hub = Hub::new().await;
    hub.config("a", &json!({})).await;
    let (mut client, server) = tokio::io::duplex(64 * 1024);
    let serving = crate::api::serve_connection(hub.api.clone(), server, Some(super::admin()), super::peer());
    let serving = tokio::spawn(serving);
    let request = format!(
        "GET {CONFIGS}?watch=true HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Protocol: base64.binary.k8s.io\r\n\r\n"
    );
    client.write_all(request.as_bytes()).await.expect("sent");
    let mut seen = Vec::new();
    while !seen.windows(2).any(|w| w == b"}}") {
        let mut some = [0; 4_096];
        let read = client.read(&mut some).await.expect("read");
        assert_ne!(read, 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&some[..read]);
    }
    let text = String::from_utf8_lossy(&seen).to_lowercase();
    assert!(text.starts_with("http/1.1 101"), "{text}");
    assert!(
        text.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="),
        "{text}"
    );
    assert!(
        text.contains("sec-websocket-protocol: base64.binary.k8s.io"),
        "{text}"
    );
    assert!(text.contains("{\"type\":\"added\""), "{text}");
    drop(client);
    serving.await.expect("it ends with its client");
}

#[tokio::test]
async fn what_only_members_can_do_is_told() {
    let hub = Hub::new().await;
    for (method, path) in [
        ("GET", "pods/p/log"),
        ("POST", "pods/p/exec"),
        ("GET", "pods/p/portforward"),
        ("POST", "pods/p/eviction"),
        ("POST", "pods/p/binding"),
        ("GET", "services/s/proxy"),
    ] {
        let answer = hub
            .call(
                method,
                &format!("/api/v1/namespaces/default/{path}"),
                &[],
                &Value::Null,
            )
            .await;
        assert_eq!(answer.code, 405, "{path}");
        let message = answer.body["message"].as_str().unwrap_or_default();
        assert!(message.contains("is not served from here yet"), "{message}");
    }
    assert_eq!(
        hub.get("/api/v1/namespaces/default/pods/p/nothing").await.code,
        404
    );
}
