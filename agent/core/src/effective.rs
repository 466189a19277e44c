//! What is really sent: the content with our marks, and with what belongs to the member left alone.

use interpreter::{InterpretError, Interpreter, RetainHints, TEMPLATE_GENERATION_ANNOTATION};
use serde_json::{Map, Value};
use shared::ids::Nonce;
use shared::owned::{self, Marker};
use shared::set::Entry;

/// The content with our label and annotations. `nonce` is set on what we create and carried on by what we
/// created.
#[must_use]
pub fn marked(mut content: Value, entry: &Entry, marker: &Marker, nonce: Option<Nonce>) -> Value {
    let incarnation = &marker.incarnation;
    let Some(object) = content.as_object_mut() else {
        return content;
    };
    // Status is the member's; a status without subresource would otherwise become ours.
    object.remove("status");
    let metadata = map_in(object, "metadata");
    map_in(metadata, "labels").insert(owned::MANAGED_BY.to_owned(), incarnation.short().into());
    let annotations = map_in(metadata, "annotations");
    let mut put = |name: &str, value: String| annotations.insert(name.to_owned(), value.into());
    put(owned::WORK, entry.work.clone());
    put(owned::INCARNATION, incarnation.to_string());
    put(owned::CLUSTER, marker.place.clone());
    put(owned::TEMPLATE_UID, entry.template_uid.clone());
    put(owned::TEMPLATE_GENERATION, entry.template_generation.to_string());
    put(
        TEMPLATE_GENERATION_ANNOTATION,
        entry.template_generation.to_string(),
    );
    if let Some(nonce) = nonce {
        put(owned::NONCE, nonce.to_string());
    }
    content
}

/// Sets the annotation by which reflection knows the template's generation, on a copy that is only read: the
/// same content stands for every generation it was rendered from, so nothing is written for it.
pub fn name_generation(object: &mut Value, generation: u64) {
    if let Some(object) = object.as_object_mut() {
        map_in(map_in(object, "metadata"), "annotations").insert(
            TEMPLATE_GENERATION_ANNOTATION.to_owned(),
            generation.to_string().into(),
        );
    }
}

fn map_in<'a>(parent: &'a mut Map<String, Value>, name: &str) -> &'a mut Map<String, Value> {
    let slot = parent.entry(name).or_insert_with(|| Value::Object(Map::new()));
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    slot.as_object_mut().expect("it was just made an object")
}

/// What to apply onto an object that is there: retained fields that we own are sent with the observed value
/// (and the observed resourceVersion, so that a change in between is noticed), those that we do not own are
/// left out.
///
/// # Errors
/// The interpreter's, when desired or observed has a field of the wrong type.
pub fn retained(
    interpreter: &dyn Interpreter,
    desired: &Value,
    observed: &Value,
    replicas: bool,
) -> Result<Value, InterpretError> {
    let kept = interpreter::effective_desired(interpreter, desired, observed, RetainHints { replicas })?;
    let mut send = interpreter::owned_part(desired, &kept);
    let none = Value::Null;
    let ours = own_fields(observed).unwrap_or(&none);
    leave_out(desired, &mut send, ours);
    if send != *desired
        && let Some(version) = observed.pointer("/metadata/resourceVersion").cloned()
        && let Some(metadata) = send.get_mut("metadata").and_then(Value::as_object_mut)
    {
        metadata.insert("resourceVersion".to_owned(), version);
    }
    Ok(send)
}

/// Takes out of `send` every map field that was retained (differs from desired) and that our manager does not
/// own. Below lists everything that desired names is sent: their items merge by key in the API server.
fn leave_out(desired: &Value, send: &mut Value, ours: &Value) {
    let (Some(want), Some(have)) = (desired.as_object(), send.as_object_mut()) else {
        return;
    };
    for (name, wanted) in want {
        let Some(value) = have.get_mut(name) else { continue };
        if value == wanted {
            continue;
        }
        let owned = ours.get(format!("f:{name}"));
        match (value.is_object() && wanted.is_object(), owned) {
            (true, owned) => leave_out(wanted, value, owned.unwrap_or(&Value::Null)),
            (false, Some(_)) => {}
            (false, None) => {
                have.remove(name);
            }
        }
    }
}

/// The field set of our apply manager, if it has one on the object.
fn own_fields(observed: &Value) -> Option<&Value> {
    observed
        .pointer("/metadata/managedFields")?
        .as_array()?
        .iter()
        .find_map(|entry| {
            let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
            (text("manager") == owned::FIELD_MANAGER
                && text("operation") == "Apply"
                && text("subresource").is_empty())
            .then(|| entry.get("fieldsV1"))
            .flatten()
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use interpreter::Native;
    use serde_json::json;

    fn deployment(replicas: u64, fields: &Value) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "resourceVersion": "5", "managedFields": [
                {"manager": "pinnace", "operation": "Apply", "fieldsV1": fields}]},
            "spec": {"replicas": replicas}})
    }

    #[test]
    fn replicas_under_an_autoscaler_are_left_out_unless_they_are_ours() {
        let desired = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 2}});
        let native = Native::default();
        let foreign = deployment(7, &json!({"f:spec": {}}));
        let sent = retained(&native, &desired, &foreign, true).unwrap();
        assert_eq!(sent.pointer("/spec/replicas"), None);
        let ours = deployment(7, &json!({"f:spec": {"f:replicas": {}}}));
        let sent = retained(&native, &desired, &ours, true).unwrap();
        assert_eq!(sent.pointer("/spec/replicas"), Some(&json!(7)));
        assert_eq!(sent.pointer("/metadata/resourceVersion"), Some(&json!("5")));
        let sent = retained(&native, &desired, &ours, false).unwrap();
        assert_eq!(sent, desired);
    }
}
