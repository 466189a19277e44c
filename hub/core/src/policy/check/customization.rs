//! Rules of ResourceInterpreterCustomization: one object per kind and operation.

use serde_json::Value;

use super::super::admit::{Errors, Stored};

/// The operations; those of dependencies may stand in several objects, since their answers are united.
const OPERATIONS: [&str; 8] = [
    "retention",
    "replicaResource",
    "componentResource",
    "replicaRevision",
    "statusReflection",
    "statusAggregation",
    "healthInterpretation",
    "dependencyInterpretation",
];

fn has(object: &Value, operation: &str) -> bool {
    object["spec"]["customizations"][operation]["luaScript"]
        .as_str()
        .is_some_and(|script| !script.is_empty())
}

pub(super) fn check(object: &Value, stored: &dyn Stored, errors: &mut Errors) {
    let target = &object["spec"]["target"];
    for other in stored.list("ResourceInterpreterCustomization", "") {
        if other["metadata"]["name"] == object["metadata"]["name"] || other["spec"]["target"] != *target {
            continue;
        }
        for operation in OPERATIONS {
            if operation != "dependencyInterpretation" && has(object, operation) && has(&other, operation) {
                errors.invalid(
                    format!("spec.customizations.{operation}"),
                    format!(
                        "{} already customizes it for this kind; change that one",
                        other["metadata"]["name"].as_str().unwrap_or_default()
                    ),
                );
            }
        }
    }
}
