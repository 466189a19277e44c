//! Letting an object go: our marks and our field manager come off, every value stays.

use serde_json::{Value, json};
use shared::owned;

/// The guarded JSON patch that releases an object; none when nothing of ours is on it.
#[must_use]
pub fn release_patch(object: &Value) -> Option<Value> {
    let metadata = object.get("metadata")?;
    let mut operations = vec![
        json!({"op": "test", "path": "/metadata/resourceVersion", "value": metadata.get("resourceVersion")?}),
    ];
    for place in ["labels", "annotations"] {
        let Some(names) = metadata.get(place).and_then(Value::as_object) else {
            continue;
        };
        let ours = |name: &&String| {
            name.starts_with(owned::PREFIX) || name.as_str() == interpreter::TEMPLATE_GENERATION_ANNOTATION
        };
        for name in names.keys().filter(ours) {
            let pointer = name.replace('~', "~0").replace('/', "~1");
            operations.push(json!({"op": "remove", "path": format!("/metadata/{place}/{pointer}")}));
        }
    }
    let managers = metadata
        .get("managedFields")
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    let others: Vec<&Value> = managers
        .iter()
        .filter(|m| m.get("manager").and_then(Value::as_str) != Some(owned::FIELD_MANAGER))
        .collect();
    if others.len() < managers.len() {
        // An empty list would mean "unchanged"; one empty item means "nobody".
        let value = if others.is_empty() {
            json!([{}])
        } else {
            json!(others)
        };
        operations.push(json!({"op": "replace", "path": "/metadata/managedFields", "value": value}));
    }
    (operations.len() > 1).then_some(Value::Array(operations))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_off_what_is_ours_and_nothing_else() {
        let object = json!({"metadata": {"resourceVersion": "9", "labels": {"app": "a", "fleet.pinnace.dev/managed-by": "x"},
            "managedFields": [{"manager": "pinnace"}, {"manager": "kubectl"}]}});
        let patch = release_patch(&object).expect("something of ours is on it");
        assert_eq!(
            patch,
            json!([{"op": "test", "path": "/metadata/resourceVersion", "value": "9"},
                {"op": "remove", "path": "/metadata/labels/fleet.pinnace.dev~1managed-by"},
                {"op": "replace", "path": "/metadata/managedFields", "value": [{"manager": "kubectl"}]}])
        );
        assert_eq!(
            release_patch(&json!({"metadata": {"resourceVersion": "9", "labels": {"app": "a"}}})),
            None
        );
    }
}
