//! Requests against the API over a real store, without a network.

mod access;
mod custom;
mod garbage;
mod lists;
mod mutations;
mod watches;
mod writes;
mod yaml;

use super::{Api, Identity};
use crate::clock;
use crate::keys::{Keys, Settings};
use crate::store::Store;
use axum::Router;
use axum::body::Body;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, Request};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// A hub's API on an own store.
pub(super) struct Hub {
    pub(super) api: Arc<Api>,
    _directory: TempDir,
}

/// An answer, read to its end.
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Value,
}

pub(super) fn peer() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 1))
}

pub(super) fn admin() -> Identity {
    Identity {
        user: "ann".to_owned(),
        groups: vec!["system:masters".to_owned()],
        ..Identity::default()
    }
}

impl Hub {
    pub(super) async fn new() -> Hub {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("hub");
        Store::create(&path).expect("a new store");
        let store = Store::open(&path, clock::wall()).expect("the store opens");
        let settings = Settings::new(vec!["hub.example.com".to_owned()], peer());
        Keys::create(&path, store.fleet(), &settings, clock::wall()).expect("keys");
        let keys = Keys::load(&path, store.fleet()).expect("the keys load");
        let api = Api::new(store, Router::new(), keys.authority().expect("an authority"));
        api.bootstrap().await.expect("the first namespaces");
        let hub = Hub {
            api,
            _directory: directory,
        };
        // Tests count the ConfigMaps of this namespace.
        hub.delete(&format!("{CONFIGS}/kube-root-ca.crt"), &Value::Null)
            .await;
        hub
    }

    pub(super) async fn raw(&self, request: Request<Body>, identity: Option<&Identity>) -> Answer {
        let answer = self.api.answer(request, identity, peer()).await;
        let (head, body) = answer.into_parts();
        let bytes = body.collect().await.expect("a body").to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Answer {
            code: head.status.as_u16(),
            headers: head.headers,
            body,
        }
    }

    /// A call of the administrator.
    pub(super) async fn call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Answer {
        self.as_who(Some(&admin()), method, path, headers, body).await
    }

    /// A call of somebody; a body of null is none.
    pub(super) async fn as_who(
        &self,
        who: Option<&Identity>,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = if body.is_null() {
            Body::empty()
        } else {
            Body::from(body.to_string())
        };
        self.raw(request.body(body).expect("a request"), who).await
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        self.call("GET", path, &[], &Value::Null).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.call("POST", path, &[], body).await
    }

    pub(super) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.call("PUT", path, &[], body).await
    }

    pub(super) async fn delete(&self, path: &str, body: &Value) -> Answer {
        self.call("DELETE", path, &[], body).await
    }

    /// A patch of the kind `json`, `merge` or `strategic-merge`.
    pub(super) async fn patch(&self, path: &str, kind: &str, body: &Value) -> Answer {
        let kind = format!("application/{kind}-patch+json");
        self.call("PATCH", path, &[(CONTENT_TYPE.as_str(), &kind)], body)
            .await
    }

    /// Waits until an object answers with a code.
    pub(super) async fn until(&self, path: &str, code: u16) -> Answer {
        self.until_it(path, |found| found.code == code).await
    }

    /// Waits until an answer is as it should be: it is asked for again whenever something was stored.
    pub(super) async fn until_it(&self, path: &str, holds: impl Fn(&Answer) -> bool) -> Answer {
        let mut arrivals = self.api.store.arrivals();
        let waited = tokio::time::timeout(Duration::from_secs(60), async {
            loop {
                let found = self.get(path).await;
                if holds(&found) {
                    return found;
                }
                arrivals.changed().await.expect("the store is open");
            }
        });
        waited
            .await
            .unwrap_or_else(|_| panic!("{path} does not come to it"))
    }

    /// Makes a ConfigMap in `default` and gives it back.
    pub(super) async fn config(&self, name: &str, labels: &Value) -> Value {
        let object = json!({"metadata": {"name": name, "labels": labels}, "data": {"a": "1"}});
        let made = self.post(CONFIGS, &object).await;
        assert_eq!(made.code, 201, "{}", made.body);
        made.body
    }
}

pub(super) const CONFIGS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn nobody_and_others_are_refused() {
    let hub = Hub::new().await;
    let request = |path: &str| Request::get(path).body(Body::empty()).expect("a request");
    let other = Identity {
        user: "bob".to_owned(),
        groups: vec!["dev".to_owned()],
        ..Identity::default()
    };
    for path in [
        "/api/v1/pods",
        "/metrics",
        "/nowhere",
        "/apis/fleet.pinnace.dev/v1alpha1/jointokens",
    ] {
        assert_eq!(hub.raw(request(path), None).await.code, 401, "{path}");
        assert_eq!(hub.raw(request(path), Some(&other)).await.code, 403, "{path}");
    }
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(hub.raw(request(path), None).await.code, 200, "{path}");
    }
    for path in ["/api", "/openapi/v3", "/version"] {
        assert_eq!(hub.raw(request(path), None).await.code, 401, "{path}");
    }
    let version = hub.raw(request("/version"), Some(&other)).await.body;
    assert!(
        version["gitVersion"]
            .as_str()
            .is_some_and(|v| v.ends_with("+pinnace")),
        "{version}"
    );
}

#[tokio::test]
async fn discovery_is_tagged_and_openapi_is_found_by_its_hash() {
    let hub = Hub::new().await;
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let first = hub
        .call("GET", "/apis", &[(ACCEPT.as_str(), aggregated)], &Value::Null)
        .await;
    assert_eq!(
        first.headers[CONTENT_TYPE],
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    );
    assert_eq!(first.body["kind"], "APIGroupDiscoveryList");
    let etag = first.headers["etag"].to_str().expect("text");
    let headers = [(ACCEPT.as_str(), aggregated), ("if-none-match", etag)];
    assert_eq!(hub.call("GET", "/apis", &headers, &Value::Null).await.code, 304);
    assert_eq!(hub.get("/apis").await.body["kind"], "APIGroupList");
    assert_eq!(hub.get("/api").await.body["versions"], json!(["v1"]));
    assert_eq!(hub.get("/apis/apps/v1").await.body["groupVersion"], "apps/v1");
    assert_eq!(hub.get("/apis/none/v1").await.code, 404);

    let index = hub.get("/openapi/v3").await.body;
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"]
        .as_str()
        .expect("a URL")
        .to_owned();
    let document = hub.get(&url).await;
    assert!(
        document.headers["cache-control"]
            .to_str()
            .is_ok_and(|v| v.contains("immutable"))
    );
    let moved = hub.get("/openapi/v3/apis/apps/v1?hash=old").await;
    assert_eq!(
        (moved.code, moved.headers["location"].to_str().ok()),
        (301, Some(url.as_str()))
    );
    let old = hub.get("/openapi/v2").await;
    assert_eq!((old.code, &old.body["swagger"]), (200, &json!("2.0")));
    let wanted = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let protobuf = hub
        .call("GET", "/openapi/v2", &[(ACCEPT.as_str(), wanted)], &Value::Null)
        .await;
    assert_eq!(
        protobuf.headers[CONTENT_TYPE],
        "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    );
}

#[tokio::test]
async fn paths_verbs_and_types_that_are_not_served() {
    let hub = Hub::new().await;
    let table = [
        ("GET", "/api/v1/nothings", 404),
        ("GET", "/api/v1/namespaces/default/pods/p/exec", 405),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("POST", "/api/v1/configmaps", 405),
        ("POST", "/api/v1/namespaces/default/configmaps/a", 405),
        ("DELETE", "/api/v1/namespaces", 405),
        ("OPTIONS", "/api/v1/pods", 405),
        ("GET", "/api/v1/namespaces/default/configmaps/none", 404),
    ];
    for (method, path, code) in table {
        let answer = hub.call(method, path, &[], &Value::Null).await;
        assert_eq!(answer.code, code, "{method} {path}: {}", answer.body);
        assert_eq!(answer.body["kind"], "Status", "{method} {path}");
    }
    // As upstream: a group that is not served has no handler at all.
    assert_eq!(hub.get("/api/v2/pods").await.code, 404);
    let cbor = [(CONTENT_TYPE.as_str(), "application/cbor")];
    assert_eq!(hub.call("POST", CONFIGS, &cbor, &json!({})).await.code, 415);
    let protobuf = [(CONTENT_TYPE.as_str(), "application/vnd.kubernetes.protobuf")];
    assert_eq!(hub.call("POST", CONFIGS, &protobuf, &json!({})).await.code, 400);
    let only = [(ACCEPT.as_str(), "application/vnd.kubernetes.protobuf")];
    assert_eq!(hub.call("GET", CONFIGS, &only, &Value::Null).await.code, 406);
    let apply = [(CONTENT_TYPE.as_str(), "application/apply-patch+yaml")];
    let refused = hub
        .call("PATCH", &format!("{CONFIGS}/a"), &apply, &json!({}))
        .await;
    assert_eq!(
        refused.body["message"],
        "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch"
    );
    assert_eq!(refused.code, 422);
}
