//! Fields of the API that this version does not honour: refused or warned about by name, never ignored.

use serde_json::Value;

use super::admit::{Errors, Kind, Request};
use crate::{naming, quota};

/// Refuses what is not honoured.
pub(super) fn refuse(kind: Kind, object: &Value, errors: &mut Errors) {
    if kind.is_propagation() {
        propagation(&object["spec"], errors);
    }
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    }
}

fn propagation(spec: &Value, errors: &mut Errors) {
    if is_set(&spec["association"]) {
        errors.not_yet(
            "spec.association",
            "it is deprecated and does nothing; write propagateDeps: true",
        );
    }
    for (index, constraint) in spec["placement"]["spreadConstraints"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        if is_set(&constraint["spreadByLabel"]) {
            errors.not_yet(
                format!("spec.placement.spreadConstraints[{index}].spreadByLabel"),
                "spreading by label is not supported; use spreadByField cluster, region, zone or provider",
            );
        }
    }
}

/// Warns about what is kept and does not act, and about what acts on nothing.
pub(super) fn warn(kind: Kind, request: &Request<'_>, object: &Value, warnings: &mut Vec<String>) {
    let spec = &object["spec"];
    match kind {
        Kind::Propagation | Kind::ClusterPropagation => {
            unknown_clusters(request, &spec["placement"], warnings);
            stays_on_the_hub(object, warnings);
            policy(spec, warnings);
        }
        Kind::Quota => {
            for key in spec["overall"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(key, _)| key)
            {
                if quota::counted(key).is_none() {
                    warnings.push(format!(
                        "spec.overall[{key}]: not counted by the hub; only staticAssignments carry it to the clusters"
                    ));
                }
            }
        }
        Kind::Webhooks => warnings.push(
            "the hub keeps this configuration and calls nobody yet; a ResourceInterpreterCustomization acts"
                .to_owned(),
        ),
        Kind::Service | Kind::Ingress => {
            warnings.push(format!(
                "a {} is kept; the pod networks of the clusters are not joined, so it serves inside each cluster only",
                request.kind
            ));
        }
        _ => {}
    }
}

fn policy(spec: &Value, warnings: &mut Vec<String>) {
    let strategy = &spec["placement"]["replicaScheduling"];
    if strategy["replicaSchedulingType"] == "Duplicated" {
        for ignored in ["replicaDivisionPreference", "weightPreference"] {
            if is_set(&strategy[ignored]) {
                warnings.push(format!(
                    "spec.placement.replicaScheduling.{ignored}: has no effect with Duplicated"
                ));
            }
        }
    }
    let scheduler = spec["schedulerName"].as_str().unwrap_or_default();
    if !matches!(scheduler, "" | "default-scheduler") {
        warnings.push(format!(
            "spec.schedulerName: the hub leaves placing to {scheduler:?}, which writes spec.clusters of the binding"
        ));
    }
}

/// A policy of a namespace whose objects never go to clusters selects nothing, whatever it says.
fn stays_on_the_hub(object: &Value, warnings: &mut Vec<String>) {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    if naming::is_reserved_namespace(namespace) || namespace.starts_with("kube-") {
        warnings.push(format!(
            "metadata.namespace: objects in {namespace} belong to each cluster itself and are never sent; the policy selects nothing"
        ));
    }
}

/// Clusters that a placement names and that have not joined: it may be a slip, or they come later.
fn unknown_clusters(request: &Request<'_>, placement: &Value, warnings: &mut Vec<String>) {
    let named = super::named_clusters(placement);
    if named.is_empty() {
        return;
    }
    let joined = request.stored.list("Cluster", "");
    let missing: Vec<&str> = named
        .into_iter()
        .filter(|name| !joined.iter().any(|cluster| cluster["metadata"]["name"] == *name))
        .collect();
    if !missing.is_empty() {
        warnings.push(format!(
            "spec.placement: no cluster has joined under the name {}; it is used once it does",
            missing.join(", ")
        ));
    }
}
