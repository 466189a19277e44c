//! MultiClusterService and MultiClusterIngress: what the hub says of them.
//!
//! The hub does not join pod networks and hands no endpoints from one cluster to another. Such an object is kept, and a
//! condition says that its Service serves inside each cluster only, so that nobody waits for what does not come.

use serde_json::{Value, json};

/// Type of the condition (the reference's).
pub const CONDITION: &str = "EndpointSliceDispatched";
/// Its reason.
pub const REASON: &str = "PodNetworksNotJoined";

/// The status that the object has to have; `None`: it has it. `now`: RFC 3339.
pub fn status(object: &Value, now: &str) -> Option<Value> {
    let what = match object["kind"].as_str() {
        Some("MultiClusterIngress") => "its rules reach nothing outside the cluster",
        _ => "its Service serves inside each cluster that a policy sends it to",
    };
    let message = format!(
        "the pod networks of the clusters are not joined: {what}, endpoints of other clusters are not handed over"
    );
    let mut status = object["status"].clone();
    if !status.is_object() {
        status = json!({});
    }
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let known = conditions.iter().position(|one| one["type"] == CONDITION);
    let generation = shared::object::generation(object);
    let is_told = known.is_some_and(|at| {
        let one = &conditions[at];
        one["status"] == "False"
            && one["reason"] == REASON
            && one["message"] == message
            && one["observedGeneration"] == generation
    });
    if is_told {
        return None;
    }
    let since = known
        .filter(|at| conditions[*at]["status"] == "False")
        .map_or(json!(now), |at| conditions[at]["lastTransitionTime"].clone());
    let condition = json!({
        "type": CONDITION, "status": "False", "reason": REASON, "message": message,
        "observedGeneration": generation, "lastTransitionTime": since,
    });
    match known {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
    status["conditions"] = Value::Array(conditions);
    Some(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_once_for_each_generation() {
        let mut service = json!({
            "kind": "MultiClusterService", "metadata": {"name": "web", "generation": 1},
            "status": {"loadBalancer": {}, "conditions": [{"type": "Other", "status": "True"}]},
        });
        service["status"] = status(&service, "2026-01-01T00:00:00Z").expect("it is not told yet");
        assert_eq!(service["status"]["conditions"][0]["type"], "Other");
        assert!(service["status"]["loadBalancer"].is_object());
        let told = service["status"]["conditions"][1].clone();
        assert_eq!(
            (&told["status"], &told["reason"]),
            (&json!("False"), &json!(REASON))
        );
        assert_eq!(status(&service, "2026-01-01T00:00:09Z"), None);
        service["metadata"]["generation"] = json!(2);
        let again = status(&service, "2026-01-01T00:00:09Z").expect("another generation");
        assert_eq!(
            again["conditions"][1]["lastTransitionTime"],
            "2026-01-01T00:00:00Z"
        );
    }
}
