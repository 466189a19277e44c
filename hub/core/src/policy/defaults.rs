//! Defaults of the policy kinds: those of the schema, and those the reference's admission adds.

use serde_json::{Map, Value, json};

use super::admit::{Kind, Operation};
use super::{CLUSTER_POLICY_ID_LABEL, POLICY_ID_LABEL};

/// Seconds of grace a graceful purge gets if none are given.
const DEFAULT_GRACE_PERIOD_SECONDS: i64 = 600;

fn set_default(object: &mut Map<String, Value>, key: &str, value: Value) {
    let slot = object.entry(key).or_insert(Value::Null);
    if slot.is_null() {
        *slot = value;
    }
}

fn spec_of(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.get_mut("spec")?.as_object_mut()
}

/// Defaults of the published schema.
pub(super) fn schema(kind: Kind, object: &mut Value) {
    if !kind.is_propagation() {
        return;
    }
    let Some(spec) = spec_of(object) else { return };
    set_default(spec, "priority", json!(0));
    set_default(spec, "preemption", json!("Never"));
    set_default(spec, "schedulerName", json!("default-scheduler"));
    set_default(spec, "conflictResolution", json!("Abort"));
    if let Some(strategy) = spec
        .get_mut("placement")
        .and_then(|placement| placement.get_mut("replicaScheduling"))
        .and_then(Value::as_object_mut)
    {
        set_default(strategy, "replicaSchedulingType", json!("Divided"));
    }
    let Some(failover) = spec.get_mut("failover") else {
        return;
    };
    for scope in ["application", "cluster"] {
        let Some(behavior) = failover.get_mut(scope).and_then(Value::as_object_mut) else {
            continue;
        };
        set_default(behavior, "purgeMode", json!("Gracefully"));
        if let Some(conditions) = behavior
            .get_mut("decisionConditions")
            .and_then(Value::as_object_mut)
        {
            set_default(conditions, "tolerationSeconds", json!(300));
        }
    }
}

/// What the reference's mutating admission does.
pub(super) fn webhook(
    kind: Kind,
    operation: Operation,
    namespace: &str,
    object: &mut Value,
    old: Option<&Value>,
    new_id: &mut dyn FnMut() -> String,
) {
    if let Some(label) = id_label(kind) {
        give_id(object, old, operation, label, new_id);
    }
    let Some(spec) = spec_of(object) else { return };
    if kind.is_namespaced() {
        fill_namespaces(spec, namespace);
    }
    if kind.is_propagation() {
        propagation(spec);
    }
}

fn id_label(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Propagation => Some(POLICY_ID_LABEL),
        Kind::ClusterPropagation => Some(CLUSTER_POLICY_ID_LABEL),
        Kind::Override | Kind::ClusterOverride => None,
    }
}

/// A new policy gets an id of its own, also if its file was copied from a live one; a changed policy keeps its id even if
/// the file does not name it.
fn give_id(
    object: &mut Value,
    old: Option<&Value>,
    operation: Operation,
    label: &str,
    new_id: &mut dyn FnMut() -> String,
) {
    let id = match operation {
        Operation::Create => new_id(),
        _ => match old.and_then(|old| old["metadata"]["labels"][label].as_str()) {
            Some(id) if object["metadata"]["labels"][label].is_null() => id.to_owned(),
            _ => return,
        },
    };
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    set_default(metadata, "labels", json!({}));
    if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
        labels.insert(label.to_owned(), Value::String(id));
    }
}

/// A selector without a namespace means the policy's own one; any other is left for the check to refuse.
fn fill_namespaces(spec: &mut Map<String, Value>, namespace: &str) {
    for selector in spec
        .get_mut("resourceSelectors")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        let Some(selector) = selector.as_object_mut() else {
            continue;
        };
        if selector
            .get("namespace")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .is_empty()
        {
            selector.insert("namespace".to_owned(), json!(namespace));
        }
    }
}

fn propagation(spec: &mut Map<String, Value>) {
    let selects_import = spec
        .get("resourceSelectors")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .any(|s| s["kind"] == "ServiceImport" && s["apiVersion"] == "multicluster.x-k8s.io/v1alpha1");
    if selects_import {
        spec.insert("propagateDeps".to_owned(), json!(true));
    }
    if let Some(placement) = spec.get_mut("placement") {
        spread_constraints(placement);
        if let Some(strategy) = placement
            .get_mut("replicaScheduling")
            .and_then(Value::as_object_mut)
            && strategy.get("replicaSchedulingType").and_then(Value::as_str) == Some("Divided")
            && strategy
                .get("replicaDivisionPreference")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .is_empty()
        {
            strategy.insert("replicaDivisionPreference".to_owned(), json!("Weighted"));
        }
    }
    if let Some(application) = spec
        .get_mut("failover")
        .and_then(|f| f.get_mut("application"))
        .and_then(Value::as_object_mut)
        && application.get("purgeMode").and_then(Value::as_str) == Some("Gracefully")
    {
        set_default(
            application,
            "gracePeriodSeconds",
            json!(DEFAULT_GRACE_PERIOD_SECONDS),
        );
    }
}

fn spread_constraints(placement: &mut Value) {
    let constraints = placement
        .get_mut("spreadConstraints")
        .and_then(Value::as_array_mut);
    for constraint in constraints.into_iter().flatten().filter_map(Value::as_object_mut) {
        let empty = |key: &str| {
            constraint
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .is_empty()
        };
        if empty("spreadByField") && empty("spreadByLabel") {
            constraint.insert("spreadByField".to_owned(), json!("cluster"));
        }
        if constraint
            .get("minGroups")
            .and_then(Value::as_i64)
            .unwrap_or_default()
            == 0
        {
            constraint.insert("minGroups".to_owned(), json!(1));
        }
    }
}
