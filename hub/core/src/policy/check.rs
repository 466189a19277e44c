//! The reference's rules for its kinds, field by field.

use serde::Deserialize;
use serde_json::Value;

use super::admit::{Errors, Kind, Operation, Request};
use super::fields::{is_label_value, is_qualified_name};
use super::propagation::{ClusterAffinity, ClusterAffinityTerm, PropagationSpec};
use super::{CLUSTER_POLICY_ID_LABEL, POLICY_ID_LABEL};

mod binding;
mod customization;
mod ingress;
mod overrides;
mod placement;
mod quota;
mod services;
mod taint_text;
mod taints;
mod webhooks;

pub(super) use binding::quota as binding_quota;
pub use taint_text::{ParsedTaints, TaintTextError, parse_taints};
pub use taints::check_taints;

/// Checks an object after its defaults were filled in.
pub(super) fn object(kind: Kind, request: &Request<'_>, object: &Value, errors: &mut Errors) {
    match kind {
        Kind::Propagation | Kind::ClusterPropagation => {
            policy(kind, request.namespace, object, errors);
            identity(kind, request.operation, object, request.old, errors);
            propagation(&object["spec"], errors);
        }
        Kind::Override | Kind::ClusterOverride => {
            policy(kind, request.namespace, object, errors);
            overrides::spec(&object["spec"], errors);
        }
        Kind::Quota => quota::check(object, errors),
        Kind::TaintPolicy => taints::policy(object, request.switches, errors),
        Kind::Cluster => taints::cluster(object, errors),
        Kind::Binding | Kind::ClusterBinding => binding::check(object, request.switches, errors),
        Kind::Customization => customization::check(object, request.stored, errors),
        Kind::Webhooks => webhooks::check(object, errors),
        Kind::Service => services::check(object, request.old, errors),
        Kind::Ingress => ingress::check(object, errors),
        Kind::Rebalancer => {
            if object["spec"]["workloads"].as_array().is_none_or(Vec::is_empty) {
                errors.required("spec.workloads", "name at least one workload to place anew");
            }
        }
    }
}

fn policy(kind: Kind, namespace: &str, object: &Value, errors: &mut Errors) {
    if kind.selects_in_its_namespace() {
        selector_namespaces(&object["spec"], namespace, errors);
    }
    selectors(&object["spec"], errors);
}

fn selector_namespaces(spec: &Value, namespace: &str, errors: &mut Errors) {
    for (index, selector) in spec["resourceSelectors"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        let named = selector["namespace"].as_str().unwrap_or_default();
        if named != namespace {
            errors.invalid(
                format!("spec.resourceSelectors[{index}].namespace"),
                format!("{named:?}: a namespaced policy selects in its own namespace {namespace:?} only; use the cluster-scoped kind"),
            );
        }
    }
}

fn selectors(spec: &Value, errors: &mut Errors) {
    for (index, selector) in spec["resourceSelectors"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        let labels = &selector["labelSelector"];
        if labels.is_null() {
            continue;
        }
        let checked = super::LabelSelector::deserialize(labels).map_err(|e| e.to_string());
        if let Err(error) = checked.and_then(|s| s.check().map_err(|e| e.to_string())) {
            errors.invalid(format!("spec.resourceSelectors[{index}].labelSelector"), error);
        }
    }
}

/// Neither the permanent id nor the scheduler of a policy can change.
fn identity(kind: Kind, operation: Operation, object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let label = if kind == Kind::Propagation {
        POLICY_ID_LABEL
    } else {
        CLUSTER_POLICY_ID_LABEL
    };
    let field = format!("metadata.labels[{label}]");
    let id = object["metadata"]["labels"][label].as_str().unwrap_or_default();
    if id.is_empty() {
        errors.required(
            &*field,
            "the permanent id is missing; leave it to the hub to make one",
        );
    }
    let (Operation::Update, Some(old)) = (operation, old) else {
        return;
    };
    let old_id = old["metadata"]["labels"][label].as_str().unwrap_or_default();
    if !id.is_empty() && id != old_id {
        errors.invalid(
            field,
            format!("{id:?}: the permanent id of a policy cannot change (it is {old_id:?})"),
        );
    }
    let scheduler = |object: &Value| match object["spec"]["schedulerName"].as_str() {
        None | Some("") => "default-scheduler".to_owned(),
        Some(name) => name.to_owned(),
    };
    if scheduler(object) != scheduler(old) {
        errors.invalid(
            "spec.schedulerName",
            "the scheduler of a policy cannot change; create another policy",
        );
    }
}

fn propagation(spec: &Value, errors: &mut Errors) {
    let typed = match PropagationSpec::deserialize(spec) {
        Ok(typed) => typed,
        Err(error) => return errors.invalid("spec", error.to_string()),
    };
    if spec["resourceSelectors"].as_array().is_none_or(Vec::is_empty) {
        errors.required(
            "spec.resourceSelectors",
            "a policy that selects nothing does nothing",
        );
    }
    placement::check(&typed, &spec["placement"], errors);
    if typed.preemption == "Always" {
        for (index, selector) in typed.resource_selectors.iter().enumerate() {
            if selector.name.is_empty() {
                errors.invalid(
                    format!("spec.resourceSelectors[{index}].name"),
                    "taking objects over (preemption: Always) needs every selector to name its object",
                );
            }
        }
    }
    if let Some(suspension) = &typed.suspension
        && suspension.dispatching == Some(true)
        && suspension
            .dispatching_on_clusters
            .as_ref()
            .is_some_and(|on| !on.cluster_names.is_empty())
    {
        errors.invalid(
            "spec.suspension",
            "dispatching suspends every cluster; leave dispatchingOnClusters out",
        );
    }
    failover(&spec["failover"], errors);
}

/// The reference refuses application failover without propagateDeps; here it implies it (design, section 7).
fn failover(failover: &Value, errors: &mut Errors) {
    let application = &failover["application"];
    if !application.is_null() {
        let path = "spec.failover.application";
        if application["decisionConditions"]["tolerationSeconds"]
            .as_i64()
            .is_some_and(|seconds| seconds < 0)
        {
            errors.invalid(
                format!("{path}.decisionConditions.tolerationSeconds"),
                "must not be negative",
            );
        }
        let graceful = matches!(
            application["purgeMode"].as_str(),
            Some("Gracefully" | "Graciously")
        );
        let grace = application["gracePeriodSeconds"].as_i64();
        let field = format!("{path}.gracePeriodSeconds");
        match (graceful, grace) {
            (false, Some(_)) => errors.invalid(field, "only with purgeMode Gracefully"),
            (true, None) => errors.invalid(field, "purgeMode Gracefully needs it"),
            (true, Some(seconds)) if seconds <= 0 => errors.invalid(field, "must be greater than zero"),
            _ => {}
        }
    }
    for scope in ["application", "cluster"] {
        let rules = failover[scope]["statePreservation"]["rules"].as_array();
        for (index, rule) in rules.into_iter().flatten().enumerate() {
            if !is_qualified_name(rule["aliasLabelName"].as_str().unwrap_or_default()) {
                errors.invalid(
                    format!("spec.failover.{scope}.statePreservation.rules[{index}].aliasLabelName"),
                    "is not a valid label key",
                );
            }
        }
    }
}

/// Rules of a cluster affinity: field selectors know provider, region and zone with In and NotIn.
fn cluster_affinity(affinity: &ClusterAffinity, path: &str, errors: &mut Errors) {
    if let Some(labels) = &affinity.label_selector
        && let Err(error) = labels.check()
    {
        errors.invalid(format!("{path}.labelSelector"), error.to_string());
    }
    for requirement in affinity
        .field_selector
        .iter()
        .flat_map(|fields| &fields.match_expressions)
    {
        let problem = if !matches!(requirement.key.as_str(), "provider" | "region" | "zone") {
            format!(
                "key {:?}: only provider, region and zone can be selected",
                requirement.key
            )
        } else if !matches!(requirement.operator.as_str(), "In" | "NotIn") {
            format!("operator {:?}: only In and NotIn are known", requirement.operator)
        } else if requirement.values.is_empty() {
            format!("key {:?}: needs at least one value", requirement.key)
        } else {
            continue;
        };
        errors.invalid(format!("{path}.fieldSelector"), problem);
    }
}

fn affinity_name(term: &ClusterAffinityTerm, path: String, errors: &mut Errors) {
    let length = term.affinity_name.len();
    if !is_qualified_name(&term.affinity_name) || !(1..=32).contains(&length) {
        errors.invalid(
            path,
            format!(
                "{:?} is not a valid name of at most 32 characters",
                term.affinity_name
            ),
        );
    }
}

fn label_map(value: &Value) -> Result<(), String> {
    for (key, value) in value.as_object().into_iter().flatten() {
        if !is_qualified_name(key) {
            return Err(format!("{key:?} is not a valid key"));
        }
        if !is_label_value(value.as_str().unwrap_or_default()) {
            return Err(format!("{value} is not a valid label value"));
        }
    }
    Ok(())
}

/// Longest name of a cluster: `karmada-es-` and it make the name of a namespace.
const CLUSTER_NAME_MAX: usize = 48;

fn cluster_name(name: &str) -> Result<(), String> {
    if name.len() > CLUSTER_NAME_MAX {
        return Err(format!("must be no more than {CLUSTER_NAME_MAX} characters"));
    }
    crate::names::dns_label(name)
}
