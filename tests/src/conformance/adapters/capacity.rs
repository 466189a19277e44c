//! `apply/cluster-status`: what the agent measures, `agent::member::capacity::measure`, over an API that answers with the
//! nodes and pods of a case.

use agent::member::api::Api;
use agent::member::capacity::measure;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use shared::wire::Capacity;

use super::super::Answer;

pub(super) fn answer(input: &Value) -> Answer {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Answer::error();
    };
    let (nodes, pods) = (list(&input["nodes"]), unfinished(&input["pods"]));
    let measured = runtime.block_on(async {
        let api = Api::new(Client::new(
            tower::service_fn(move |request: Request<Body>| {
                let items = if request.uri().path() == "/api/v1/nodes" {
                    &nodes
                } else {
                    &pods
                };
                let body = json!({ "items": items }).to_string();
                async move { Ok::<_, tower::BoxError>(Response::new(Body::from(body.into_bytes()))) }
            }),
            "default",
        ));
        measure(&api, "v1").await
    });
    match measured {
        Ok(measured) => Answer::Result(summary(
            &measured.capacity,
            &input["cluster"]["spec"]["resourceModels"],
        )),
        Err(_) => Answer::error(),
    }
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

/// What the API server leaves of the pods: the agent asks for those that have not ended.
fn unfinished(pods: &Value) -> Vec<Value> {
    let ended = |pod: &Value| matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    list(pods).into_iter().filter(|pod| !ended(pod)).collect()
}

/// In the shape of a Cluster's status; every grade of the cluster is listed.
fn summary(capacity: &Capacity, grades: &Value) -> Value {
    let count = |grade: &Value| {
        let found = capacity
            .models
            .iter()
            .find(|model| json!(model.grade) == grade["grade"]);
        json!({"grade": grade["grade"], "count": found.map_or(0, |model| model.count)})
    };
    let models: Vec<Value> = list(grades).iter().map(count).collect();
    json!({
        "nodeSummary": {"totalNum": capacity.nodes_total, "readyNum": capacity.nodes_ready},
        "resourceSummary": {
            "allocatable": capacity.allocatable,
            "allocated": capacity.allocated,
            "allocating": capacity.allocating,
        },
        "allocatableModelings": models,
    })
}
