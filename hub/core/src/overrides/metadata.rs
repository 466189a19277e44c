//! Labels and annotations overriders.

use serde_json::{Map, Value};

use crate::policy::{LabelOverrider, OverrideOperator};

/// Applies the list to `labels` or `annotations` of the object itself; the pod template is left alone.
pub(super) fn apply(object: &mut Value, field: &str, changes: &[LabelOverrider]) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    for change in changes {
        match change.operator {
            OverrideOperator::Add if !change.value.is_empty() => {
                let slot = metadata.entry(field).or_insert(Value::Null);
                if !slot.is_object() {
                    *slot = Value::Object(Map::new());
                }
                if let Value::Object(map) = slot {
                    map.extend(
                        change
                            .value
                            .iter()
                            .map(|(k, v)| (k.clone(), Value::from(v.as_str()))),
                    );
                }
            }
            OverrideOperator::Replace => {
                for (key, value) in &change.value {
                    if let Some(slot) = metadata.get_mut(field).and_then(|map| map.get_mut(key)) {
                        *slot = Value::from(value.as_str());
                    }
                }
            }
            OverrideOperator::Remove => {
                if let Some(map) = metadata.get_mut(field).and_then(Value::as_object_mut) {
                    map.retain(|key, _| !change.value.contains_key(key));
                }
            }
            OverrideOperator::Add | OverrideOperator::None => {}
        }
    }
}
