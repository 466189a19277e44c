//! JSON patch, RFC 6902, with the operation limit of Kubernetes.

use super::PatchError;
use crate::limits::MAX_JSON_PATCH_OPERATIONS;
use serde_json::Value;

/// Applies a JSON patch.
///
/// # Errors
/// Not a patch, too many operations, or an operation that fails; the object is unusable then.
pub fn apply(object: &mut Value, patch: &Value) -> Result<(), PatchError> {
    let count = patch.as_array().map_or(0, Vec::len);
    if count > MAX_JSON_PATCH_OPERATIONS {
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {MAX_JSON_PATCH_OPERATIONS}, got {count}"
        )));
    }
    let Value::Array(operations) = patch else {
        return Err(PatchError::Malformed(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
            crate::strict::json_kind(patch)
        )));
    };
    for operation in operations {
        let mut operation: json_patch::PatchOperation =
            serde_json::from_value(operation.clone()).map_err(|_| PatchError::Refused)?;
        // Upstream's library replaces what is not there by adding it.
        if let json_patch::PatchOperation::Replace(replace) = &operation
            && object.pointer(replace.path.as_str()).is_none()
        {
            operation = json_patch::PatchOperation::Add(json_patch::AddOperation {
                path: replace.path.clone(),
                value: replace.value.clone(),
            });
        }
        json_patch::patch(object, &[operation]).map_err(|_| PatchError::Refused)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn operations_apply_or_fail_by_kind() {
        let mut object = json!({"a": {"b": 1}, "l": [1, 2]});
        let patch = json!([{"op": "test", "path": "/a/b", "value": 1}, {"op": "add", "path": "/l/-", "value": 3},
            {"op": "remove", "path": "/a/b"}]);
        assert_eq!(apply(&mut object, &patch), Ok(()));
        assert_eq!(object, json!({"a": {}, "l": [1, 2, 3]}));

        let test = json!([{"op": "test", "path": "/l/0", "value": 9}]);
        assert!(matches!(apply(&mut object, &test), Err(PatchError::Refused)));
        let new = json!([{"op": "replace", "path": "/a/new", "value": 9}]);
        assert_eq!(apply(&mut object, &new), Ok(()));
        assert_eq!(object["a"]["new"], 9);
        assert!(matches!(
            apply(&mut object, &json!({"a": 1})),
            Err(PatchError::Malformed(_))
        ));
        let many = vec![json!({"op": "test", "path": "/l/0", "value": 1}); MAX_JSON_PATCH_OPERATIONS + 1];
        assert!(matches!(
            apply(&mut object, &Value::Array(many)),
            Err(PatchError::TooLarge(_))
        ));
    }
}
