//! Rules of FederatedResourceQuota.

use std::collections::BTreeMap;

use serde_json::Value;
use shared::object::Quantity;

use super::super::admit::Errors;
use super::super::fields::is_qualified_name;
use super::cluster_name;

/// Names without a prefix that a quota may use (source: core/v1 ResourceQuota).
const STANDARD: [&str; 19] = [
    "configmaps",
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];

/// Longest name: it also names the ResourceQuota of each cluster in labels.
const NAME_MAX: usize = 63;

fn is_resource_name(name: &str) -> bool {
    is_qualified_name(name)
        && (name.contains('/')
            || STANDARD.contains(&name)
            || name.starts_with("hugepages-")
            || name.starts_with("requests.hugepages-"))
}

pub(super) fn check(object: &Value, errors: &mut Errors) {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if name.len() > NAME_MAX {
        errors.invalid(
            "metadata.name",
            format!("must be no more than {NAME_MAX} characters"),
        );
    }
    let spec = &object["spec"];
    let overall = amounts(&spec["overall"], "spec.overall", errors);
    let mut assigned: BTreeMap<&str, Quantity> = BTreeMap::new();
    for (index, assignment) in spec["staticAssignments"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        let path = format!("spec.staticAssignments[{index}]");
        if let Err(why) = cluster_name(assignment["clusterName"].as_str().unwrap_or_default()) {
            errors.invalid(format!("{path}.clusterName"), why);
        }
        for (name, quantity) in amounts(&assignment["hard"], &format!("{path}.hard"), errors) {
            if overall.contains_key(name) {
                let slot = assigned.entry(name).or_default();
                *slot = slot.plus(quantity);
            } else {
                errors.invalid(
                    format!("{path}.hard[{name}]"),
                    format!("{name:?} is not in spec.overall; add it there"),
                );
            }
        }
    }
    for (name, sum) in assigned {
        if overall.get(name).is_some_and(|limit| sum > *limit) {
            errors.invalid(
                format!("spec.overall[{name}]"),
                "the static assignments add up to more; raise it or lower them",
            );
        }
    }
}

/// The quantities of a list that are right; what is wrong is told.
fn amounts<'a>(list: &'a Value, path: &str, errors: &mut Errors) -> BTreeMap<&'a str, Quantity> {
    let mut amounts = BTreeMap::new();
    for (name, value) in list.as_object().into_iter().flatten() {
        let field = format!("{path}[{name}]");
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match text.parse::<Quantity>() {
            _ if !is_resource_name(name) => {
                errors.invalid(
                    field,
                    format!("{name:?} is not a resource that a quota can limit"),
                );
            }
            Err(error) => errors.invalid(field, error.to_string()),
            Ok(quantity) if quantity < Quantity::default() => errors.invalid(field, "must not be negative"),
            Ok(quantity) => {
                amounts.insert(name.as_str(), quantity);
            }
        }
    }
    amounts
}
