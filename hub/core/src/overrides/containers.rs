//! Command and args overriders: lists of texts in containers of the known workload kinds.

use serde_json::{Value, json};

use super::Failed;
use crate::policy::{ArgsOverrider, OverrideOperator};

/// Where the containers of an object are, for the kinds the reference knows. Init containers are left alone.
pub(super) fn containers_path(object: &Value) -> Option<&'static str> {
    match object["kind"].as_str()? {
        "Pod" => Some("/spec/containers"),
        "ReplicaSet" | "Deployment" | "DaemonSet" | "StatefulSet" | "Job" => {
            Some("/spec/template/spec/containers")
        }
        _ => None,
    }
}

/// Applies the list to the `field` (`command` or `args`) of the named containers. A container that is not there changes
/// nothing.
///
/// # Errors
/// The field is there but is no list.
pub(super) fn apply(
    object: &mut Value,
    overrider: &'static str,
    field: &str,
    changes: &[ArgsOverrider],
) -> Result<(), Failed> {
    let Some(path) = containers_path(object) else {
        return Ok(());
    };
    for (index, change) in changes.iter().enumerate() {
        let containers = object.pointer_mut(path).and_then(Value::as_array_mut);
        for (position, container) in containers.into_iter().flatten().enumerate() {
            let Some(container) = container.as_object_mut() else {
                continue;
            };
            if container.get("name").and_then(Value::as_str) != Some(&change.container_name) {
                continue;
            }
            let slot = container.entry(field).or_insert(Value::Null);
            if slot.is_null() {
                *slot = json!([]);
            }
            let Value::Array(list) = slot else {
                return Err(Failed::new(
                    overrider,
                    index,
                    &format!("{path}/{position}/{field}"),
                    "is not a list",
                ));
            };
            match change.operator {
                OverrideOperator::Add => list.extend(change.value.iter().cloned().map(Value::String)),
                OverrideOperator::Remove => {
                    list.retain(|item| {
                        item.as_str()
                            .is_none_or(|text| !change.value.iter().any(|gone| gone == text))
                    });
                }
                OverrideOperator::Replace | OverrideOperator::None => {}
            }
        }
    }
    Ok(())
}
