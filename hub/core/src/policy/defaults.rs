//! Defaults of the policy kinds: those of the schema, and those the reference's admission adds.

use serde_json::{Map, Value, json};

use super::admit::{Kind, Operation, Request};
use super::{
    CLUSTER_POLICY_FINALIZER, CLUSTER_POLICY_ID_LABEL, POLICY_FINALIZER, POLICY_ID_LABEL, SERVICE_ID_LABEL,
};
use crate::plan::{BINDING_ID_LABEL, CLUSTER_BINDING_ID_LABEL};
use crate::timestamp;

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
    request: &Request<'_>,
    object: &mut Value,
    new_id: &mut dyn FnMut() -> String,
) {
    if let Some(label) = id_label(kind) {
        give_id(kind, object, request, label, new_id);
    }
    if let (Some(finalizer), Operation::Create) = (finalizer(kind), request.operation) {
        add_finalizer(object, finalizer);
    }
    if kind == Kind::Cluster {
        cluster(object, request);
    }
    let Some(spec) = spec_of(object) else { return };
    if kind.selects_in_its_namespace() {
        fill_namespaces(spec, request.namespace);
    }
    if kind.is_propagation() {
        propagation(spec);
    }
}

fn id_label(kind: Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::Propagation => POLICY_ID_LABEL,
        Kind::ClusterPropagation => CLUSTER_POLICY_ID_LABEL,
        Kind::Binding => BINDING_ID_LABEL,
        Kind::ClusterBinding => CLUSTER_BINDING_ID_LABEL,
        Kind::Service => SERVICE_ID_LABEL,
        _ => return None,
    })
}

/// The finalizer by which a deleted policy stays until nothing carries its claim any more.
fn finalizer(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Propagation => Some(POLICY_FINALIZER),
        Kind::ClusterPropagation => Some(CLUSTER_POLICY_FINALIZER),
        _ => None,
    }
}

fn add_finalizer(object: &mut Value, finalizer: &str) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    set_default(metadata, "finalizers", json!([]));
    if let Some(list) = metadata.get_mut("finalizers").and_then(Value::as_array_mut)
        && !list.iter().any(|known| known == finalizer)
    {
        list.push(json!(finalizer));
    }
}

/// The deprecated single zone moves into the list; a new NoExecute taint is stamped, since evictions count from then.
fn cluster(object: &mut Value, request: &Request<'_>) {
    let Some(spec) = spec_of(object) else { return };
    let zone = spec
        .get("zone")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let has_zones = spec
        .get("zones")
        .and_then(Value::as_array)
        .is_some_and(|zones| !zones.is_empty());
    if !zone.is_empty() && !has_zones {
        spec.insert("zones".to_owned(), json!([zone]));
        spec.remove("zone");
    }
    let known = |taint: &Value| {
        let old = request.old?["spec"]["taints"].as_array()?;
        let same = |key: &str, other: &Value| {
            other[key].as_str().unwrap_or_default() == taint[key].as_str().unwrap_or_default()
        };
        let found = old
            .iter()
            .find(|other| ["key", "value", "effect"].iter().all(|key| same(key, other)))?;
        found["timeAdded"].as_str().map(str::to_owned)
    };
    for taint in spec
        .get_mut("taints")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if taint["effect"] == "NoExecute" && taint["timeAdded"].as_str().is_none_or(str::is_empty) {
            let added = known(taint).unwrap_or_else(|| timestamp::format(request.now));
            if let Some(taint) = taint.as_object_mut() {
                taint.insert("timeAdded".to_owned(), json!(added));
            }
        }
    }
}

/// A new policy gets an id of its own, also if its file was copied from a live one; what else has an id keeps one that
/// it brings. A changed object keeps its id even if the file does not name it.
fn give_id(
    kind: Kind,
    object: &mut Value,
    request: &Request<'_>,
    label: &str,
    new_id: &mut dyn FnMut() -> String,
) {
    let has_one = object["metadata"]["labels"][label]
        .as_str()
        .is_some_and(|id| !id.is_empty());
    let id = match request.operation {
        Operation::Create if has_one && !kind.is_propagation() => return,
        Operation::Create => new_id(),
        _ => match request
            .old
            .and_then(|old| old["metadata"]["labels"][label].as_str())
        {
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
        division_preference(placement);
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

/// Divided without a preference means by weight.
fn division_preference(placement: &mut Value) {
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
