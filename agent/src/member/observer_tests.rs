//! A watch against a scripted API server.

use std::convert::Infallible;
use std::future::{pending, ready};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::LocalSet;
use tokio::time::timeout;

use super::{MemberEvent, Watch};
use crate::member::api::Api;
use crate::member::kinds::Kinds;
use crate::random::Random;

type Trailers = Pin<Box<dyn Future<Output = Option<Result<http::HeaderMap, Infallible>>> + Send>>;

/// A kind whose list is empty and whose watch is accepted and then says nothing at all, as through a balancer that keeps
/// our side open when the server is gone.
fn mute(asked: Arc<Mutex<Vec<String>>>) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let path = request.uri().to_string();
        asked.lock().unwrap().push(path.clone());
        async move {
            let says = if path == "/api/v1" {
                let resource = json!({"name": "configmaps", "kind": "ConfigMap", "namespaced": true, "verbs": ["list", "watch"]});
                json!({"resources": [resource]}).to_string()
            } else if path.contains("watch=true") {
                String::new()
            } else {
                json!({"metadata": {"resourceVersion": "5"}, "items": []}).to_string()
            };
            // The end of a body without words is waited for, and never comes.
            let end: Trailers = if says.is_empty() {
                Box::pin(pending())
            } else {
                Box::pin(ready(None))
            };
            let body = Full::new(Bytes::from(says)).with_trailers(end);
            Ok::<_, tower::BoxError>(Response::builder().status(200).body(body)?)
        }
    });
    Client::new(service, "default")
}

/// Red without the time-out around each event of a watch: nobody tells the agent that the other end is gone.
#[test]
fn field_report_147_a_watch_that_says_nothing_is_begun_anew() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let listed = runtime.block_on(LocalSet::new().run_until(async {
        let (events, mut told) = mpsc::channel(8);
        let watch = Watch {
            api: Api::new(mute(asked.clone())),
            kinds: Rc::new(Kinds::default()),
            kind: ("v1".to_owned(), "ConfigMap".to_owned()),
            selector: String::new(),
            events,
            random: Random::new(),
            silence: Duration::from_millis(50),
        };
        let task = tokio::task::spawn_local(watch.run());
        for _ in 0..2 {
            let event = timeout(Duration::from_secs(20), told.recv()).await;
            assert!(matches!(event, Ok(Some(MemberEvent::Listed { .. }))), "{event:?}");
        }
        task.abort();
        let lists = |path: &&String| path.contains("limit=");
        asked.lock().unwrap().iter().filter(lists).count()
    }));
    assert!(listed >= 2, "listed {listed} times");
}
