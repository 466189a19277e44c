//! Fields of the API that this version does not honour: refused by name, never ignored.

use serde_json::Value;

use super::admit::{Errors, Kind};

/// Refuses what is not honoured.
pub(super) fn object(kind: Kind, object: &Value, errors: &mut Errors, warnings: &mut Vec<String>) {
    let spec = &object["spec"];
    if kind.is_propagation() {
        propagation(spec, errors, warnings);
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

/// Fields that may not be set at all yet, and the word for what they would do.
const REFUSED: [(&str, &str); 5] = [
    ("propagateDeps", "carrying dependencies along"),
    ("failover", "failover"),
    ("activationPreference", "lazy activation"),
    ("schedulePriority", "scheduling by priority class"),
    (
        "association",
        "it is deprecated, use propagateDeps; carrying dependencies along",
    ),
];

fn propagation(spec: &Value, errors: &mut Errors, warnings: &mut Vec<String>) {
    for (field, what) in REFUSED {
        if is_set(&spec[field]) {
            errors.not_yet(
                format!("spec.{field}"),
                format!("{what} is not supported yet; leave the field out"),
            );
        }
    }
    let scheduler = spec["schedulerName"].as_str().unwrap_or_default();
    if !matches!(scheduler, "" | "default-scheduler") {
        errors.not_yet(
            "spec.schedulerName",
            format!(
                "schedulers other than default-scheduler are not supported yet; {scheduler:?} would never act"
            ),
        );
    }
    let placement = &spec["placement"];
    for (index, constraint) in placement["spreadConstraints"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        let path = format!("spec.placement.spreadConstraints[{index}]");
        if is_set(&constraint["spreadByLabel"]) {
            errors.not_yet(
                format!("{path}.spreadByLabel"),
                "spreading by label is not supported; use spreadByField cluster, region, zone or provider",
            );
        }
    }
    if is_set(&placement["workloadAffinity"]) {
        errors.not_yet(
            "spec.placement.workloadAffinity",
            "affinity between workloads is not supported yet",
        );
    }
    let strategy = &placement["replicaScheduling"];
    if strategy["replicaSchedulingType"] == "Duplicated" {
        for ignored in ["replicaDivisionPreference", "weightPreference"] {
            if is_set(&strategy[ignored]) {
                warnings.push(format!(
                    "spec.placement.replicaScheduling.{ignored}: has no effect with Duplicated"
                ));
            }
        }
    }
}
