//! Plaintext overriders: the operations of a JSON patch (RFC 6902) on the object.

use json_patch::{AddOperation, PatchOperation, RemoveOperation, ReplaceOperation, jsonptr::PointerBuf};
use serde_json::Value;

use super::Failed;
use crate::policy::{OverrideOperator, PlaintextOverrider};

const OVERRIDER: &str = "plaintext";

/// Applies the operations one after another.
///
/// # Errors
/// An operation whose path is not there.
pub(super) fn apply(object: &mut Value, changes: &[PlaintextOverrider]) -> Result<(), Failed> {
    for (index, change) in changes.iter().enumerate() {
        patch(object, &change.path, change.operator, change.value.as_ref())
            .map_err(|problem| Failed::new(OVERRIDER, index, &change.path, problem))?;
    }
    Ok(())
}

/// One operation of a JSON patch.
pub(super) fn patch(
    document: &mut Value,
    path: &str,
    operator: OverrideOperator,
    value: Option<&Value>,
) -> Result<(), String> {
    let path = PointerBuf::parse(path).map_err(|error| error.to_string())?;
    // An add or replace that names no value sets null, as the API server's own patches do.
    let value = value.cloned().unwrap_or(Value::Null);
    let operation = match operator {
        OverrideOperator::Add => PatchOperation::Add(AddOperation { path, value }),
        OverrideOperator::Replace => PatchOperation::Replace(ReplaceOperation { path, value }),
        OverrideOperator::Remove => PatchOperation::Remove(RemoveOperation { path }),
        OverrideOperator::None => return Err("no operator is given".to_owned()),
    };
    json_patch::patch(document, &[operation]).map_err(|error| error.kind.to_string())
}
