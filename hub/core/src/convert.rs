//! The few served resources that show one stored object in two shapes: HorizontalPodAutoscaler v1 and v2, Event of the
//! core group and of events.k8s.io. Everything else differs in `apiVersion` alone.
//!
//! Custom resources are shaped by the schema that is in force when they are read.
//!
//! An object is stored in the shape it was written in and converted when read through another one.

use crate::types::Resource;
use serde_json::{Map, Value, json};

/// Annotations in which v1 carries what it has no fields for (source: autoscaling/v1 conversion).
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// Whether a stored object must be converted to be shown as that resource.
pub fn is_needed(resource: &Resource, object: &Value) -> bool {
    resource.custom.is_some()
        || resource.shared_storage
            && object.get("apiVersion").and_then(Value::as_str) != Some(&resource.api_version())
}

/// Shows a stored object as that resource.
pub fn to(resource: &Resource, mut object: Value) -> Value {
    if let Some(custom) = &resource.custom {
        return custom.read(&resource.api_version(), object);
    }
    if !is_needed(resource, &object) {
        return object;
    }
    let Some(members) = object.as_object_mut() else {
        return object;
    };
    match (&*resource.group, &*resource.version, &*resource.plural) {
        ("autoscaling", "v2", _) => autoscaler_to_v2(members),
        ("autoscaling", "v1", _) => autoscaler_to_v1(members),
        ("events.k8s.io", _, "events") => rename(members, &CORE_TO_EVENTS),
        ("", _, "events") => rename(members, &EVENTS_TO_CORE),
        _ => {}
    }
    members.insert("apiVersion".to_owned(), json!(resource.api_version()));
    object
}

/// (core, events.k8s.io)
const NAMES: [(&str, &str); 8] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
    ("reportingInstance", "reportingInstance"),
];
const CORE_TO_EVENTS: [(&str, &str); 8] = NAMES;
const EVENTS_TO_CORE: [(&str, &str); 8] = flipped(NAMES);

const fn flipped(names: [(&'static str, &'static str); 8]) -> [(&'static str, &'static str); 8] {
    let mut out = names;
    let mut at = 0;
    while at < out.len() {
        out[at] = (names[at].1, names[at].0);
        at += 1;
    }
    out
}

fn rename(members: &mut Map<String, Value>, names: &[(&str, &str)]) {
    for (from, to) in names {
        if let Some(value) = members.remove(*from) {
            members.insert((*to).to_owned(), value);
        }
    }
}

fn annotations(members: &mut Map<String, Value>) -> Option<&mut Map<String, Value>> {
    let metadata = members.get_mut("metadata")?.as_object_mut()?;
    metadata
        .entry("annotations")
        .or_insert_with(|| Value::Object(Map::new()))
        .as_object_mut()
}

fn take_annotation(members: &mut Map<String, Value>, key: &str) -> Option<Value> {
    let all = annotations(members)?;
    let text = all.remove(key)?;
    let parsed = serde_json::from_str(text.as_str()?).ok();
    if all.is_empty()
        && let Some(metadata) = members.get_mut("metadata").and_then(Value::as_object_mut)
    {
        metadata.remove("annotations");
    }
    parsed
}

fn cpu_metric(percent: &Value) -> Value {
    json!({"type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}})
}

fn autoscaler_to_v2(members: &mut Map<String, Value>) {
    let metrics = take_annotation(members, METRICS);
    let behavior = take_annotation(members, BEHAVIOR);
    if let Some(spec) = members.get_mut("spec").and_then(Value::as_object_mut) {
        let mut all: Vec<Value> = spec
            .remove("targetCPUUtilizationPercentage")
            .iter()
            .map(cpu_metric)
            .collect();
        all.extend(
            metrics
                .as_ref()
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .cloned(),
        );
        if !all.is_empty() {
            spec.insert("metrics".to_owned(), Value::Array(all));
        }
        if let Some(behavior) = behavior {
            spec.insert("behavior".to_owned(), behavior);
        }
    }
    if let Some(status) = members.get_mut("status").and_then(Value::as_object_mut)
        && let Some(percent) = status.remove("currentCPUUtilizationPercentage")
    {
        let current = json!({"type": "Resource",
            "resource": {"name": "cpu", "current": {"averageUtilization": percent}}});
        status.insert("currentMetrics".to_owned(), json!([current]));
    }
}

fn is_cpu(metric: &Value) -> bool {
    metric["type"] == "Resource" && metric["resource"]["name"] == "cpu"
}

fn autoscaler_to_v1(members: &mut Map<String, Value>) {
    let (mut rest, mut behavior) = (Vec::new(), None);
    if let Some(spec) = members.get_mut("spec").and_then(Value::as_object_mut) {
        for metric in spec
            .remove("metrics")
            .as_ref()
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let percent = &metric["resource"]["target"]["averageUtilization"];
            if is_cpu(metric) && !percent.is_null() && !spec.contains_key("targetCPUUtilizationPercentage") {
                spec.insert("targetCPUUtilizationPercentage".to_owned(), percent.clone());
            } else {
                rest.push(metric.clone());
            }
        }
        behavior = spec.remove("behavior");
    }
    if let Some(status) = members.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("conditions");
        let current = status.remove("currentMetrics");
        let cpu = current
            .as_ref()
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .find(|m| is_cpu(m));
        if let Some(percent) = cpu
            .map(|m| &m["resource"]["current"]["averageUtilization"])
            .filter(|v| !v.is_null())
        {
            status.insert("currentCPUUtilizationPercentage".to_owned(), percent.clone());
        }
    }
    if let Some(all) = (!rest.is_empty() || behavior.is_some())
        .then(|| annotations(members))
        .flatten()
    {
        if !rest.is_empty() {
            all.insert(METRICS.to_owned(), json!(Value::Array(rest).to_string()));
        }
        if let Some(behavior) = behavior {
            all.insert(BEHAVIOR.to_owned(), json!(behavior.to_string()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::TypeTable;

    fn shown(group: &str, version: &str, plural: &str, object: &Value) -> Value {
        let resource = TypeTable::built_in()
            .resource(group, version, plural)
            .expect("a served resource");
        to(resource, object.clone())
    }

    #[test]
    fn autoscalers_keep_everything_on_the_way_to_v1_and_back() {
        let v2 = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"},
            "spec": {"maxReplicas": 3, "behavior": {"scaleUp": {}}, "metrics": [cpu_metric(&json!(50)),
                {"type": "Pods", "pods": {"metric": {"name": "m"}}}]}});
        let v1 = shown("autoscaling", "v1", "horizontalpodautoscalers", &v2);
        assert_eq!(
            v1["spec"],
            json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 50})
        );
        assert_eq!(v1["apiVersion"], "autoscaling/v1");
        assert_eq!(shown("autoscaling", "v2", "horizontalpodautoscalers", &v1), v2);
        assert_eq!(shown("autoscaling", "v2", "horizontalpodautoscalers", &v2), v2);
    }

    #[test]
    fn events_have_two_shapes() {
        let core = json!({"apiVersion": "v1", "kind": "Event", "involvedObject": {"name": "p"}, "message": "m",
            "count": 2, "reportingComponent": "c", "reportingInstance": "i", "reason": "r"});
        let new = shown("events.k8s.io", "v1", "events", &core);
        assert_eq!(
            new,
            json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "regarding": {"name": "p"},
            "note": "m", "deprecatedCount": 2, "reportingController": "c", "reportingInstance": "i", "reason": "r"})
        );
        assert_eq!(shown("", "v1", "events", &new), core);
    }

    #[test]
    fn other_kinds_stay_as_they_are() {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap"});
        assert_eq!(shown("", "v1", "configmaps", &object), object);
    }
}
