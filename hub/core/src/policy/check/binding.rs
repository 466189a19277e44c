//! Rules of ResourceBinding and ClusterResourceBinding, and the quota that a change of one is charged to.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::admit::{Errors, Operation, Request, Switches};
use crate::estimate::resources;
use crate::quota::{Quota, usage};

/// Annotation with the objects that a binding's template needs, as JSON.
const DEPENDENCIES: &str = crate::dependencies::DEPENDENCIES_ANNOTATION;

pub(super) fn check(object: &Value, switches: Switches, errors: &mut Errors) {
    if let Some(text) = object["metadata"]["annotations"][DEPENDENCIES].as_str()
        && serde_json::from_str::<Vec<interpreter::Dependency>>(text).is_err()
    {
        errors.invalid(
            format!("metadata.annotations.{DEPENDENCIES}"),
            "is not a JSON list of object references",
        );
    }
    if !switches.components {
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, component) in object["spec"]["components"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        let name = component["name"].as_str().unwrap_or_default();
        if name.is_empty() || !seen.insert(name) {
            errors.invalid(
                format!("spec.components[{index}].name"),
                "every component needs a name of its own",
            );
        }
    }
}

/// Charges a change to the quotas of the namespace, by what their status says is used.
pub(in super::super) fn quota(request: &Request<'_>, object: &Value) -> Result<(), String> {
    let after = usage(object);
    if request.operation == Operation::Create && after.is_empty() {
        return Ok(());
    }
    let before = request.old.map(usage).unwrap_or_default();
    for stored in request.stored.list("FederatedResourceQuota", request.namespace) {
        let quota = Quota::read(&stored);
        let mut used = crate::estimate::Resources::new();
        for (key, quantity) in resources(&stored["status"]["overallUsed"]) {
            if let Some(name) = crate::quota::counted(&key) {
                used.insert(name.to_owned(), quantity);
            }
        }
        quota
            .admit(&used, &before, &after)
            .map_err(|exceeded| exceeded.to_string())?;
    }
    Ok(())
}
