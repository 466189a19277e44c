//! JSON patch, RFC 6902, with the operation limit of Kubernetes.

use super::{PatchError, depth};
use crate::limits::{MAX_JSON_PATCH_OPERATIONS, MAX_OBJECT_DEPTH, MAX_PATCH_DEPTH_LOOKS, MAX_PATCH_GROWTH};
use json_patch::PatchOperation;
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
    let mut bounds = Bounds {
        growth: 0,
        depth: depth(object),
        looks: 0,
    };
    for operation in operations {
        let mut operation: PatchOperation =
            serde_json::from_value(operation.clone()).map_err(|_| PatchError::Refused)?;
        // Upstream's library replaces what is not there by adding it.
        if let PatchOperation::Replace(replace) = &operation
            && object.pointer(replace.path.as_str()).is_none()
        {
            operation = PatchOperation::Add(json_patch::AddOperation {
                path: replace.path.clone(),
                value: replace.value.clone(),
            });
        }
        bounds.before(object, &operation)?;
        json_patch::patch(object, std::slice::from_ref(&operation)).map_err(|_| PatchError::Refused)?;
        bounds.after(object)?;
    }
    Ok(())
}

/// What a few operations could make of a small object: copies of copies, and each turned into the next one's inside.
struct Bounds {
    /// Bytes copied so far.
    growth: usize,
    /// How deep the object is at most.
    depth: usize,
    /// How often that was measured.
    looks: usize,
}

impl Bounds {
    fn before(&mut self, object: &Value, operation: &PatchOperation) -> Result<(), PatchError> {
        let segments = |path: &str| path.matches('/').count();
        let reaches = match operation {
            PatchOperation::Add(add) => segments(add.path.as_str()) + depth(&add.value),
            PatchOperation::Replace(replace) => segments(replace.path.as_str()) + depth(&replace.value),
            PatchOperation::Move(moved) => {
                let inside = self.depth.saturating_sub(segments(moved.from.as_str()));
                segments(moved.path.as_str()) + inside
            }
            PatchOperation::Copy(copy) => {
                if let Some(copied) = object.pointer(copy.from.as_str()) {
                    self.growth = self.growth.saturating_add(copied.to_string().len());
                }
                if self.growth > MAX_PATCH_GROWTH {
                    return Err(PatchError::Refused);
                }
                let inside = self.depth.saturating_sub(segments(copy.from.as_str()));
                segments(copy.path.as_str()) + inside
            }
            PatchOperation::Remove(_) | PatchOperation::Test(_) => 0,
        };
        self.depth = self.depth.max(reaches);
        Ok(())
    }

    fn after(&mut self, object: &Value) -> Result<(), PatchError> {
        if self.depth <= MAX_OBJECT_DEPTH {
            return Ok(());
        }
        self.looks += 1;
        self.depth = depth(object);
        if self.depth > MAX_OBJECT_DEPTH || self.looks > MAX_PATCH_DEPTH_LOOKS {
            return Err(PatchError::Refused);
        }
        Ok(())
    }
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
