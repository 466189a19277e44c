//! Kinds with rules of their own: Namespace, Secret, ConfigMap.

use super::{NAMESPACE_NAME_LABEL, is_deleting, metadata_mut, name_of, text};
use crate::limits::MAX_DATA_BYTES;
use crate::status_error::{Cause, StatusError};
use crate::types::Resource;
use base64::Engine as _;
use serde_json::{Map, Value, json};

/// Namespaces that cannot be deleted.
const PROTECTED_NAMESPACES: [&str; 3] = ["default", "kube-system", "kube-public"];

fn is(resource: &Resource, plural: &str) -> bool {
    resource.group.is_empty() && &*resource.plural == plural
}

/// A namespace that the hub makes itself.
pub fn new_namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// Whether a namespace may not be deleted.
pub fn is_protected_namespace(name: &str) -> bool {
    PROTECTED_NAMESPACES.contains(&name)
}

pub(super) fn create(resource: &Resource, object: &mut Value) -> Result<(), StatusError> {
    if is(resource, "namespaces") {
        if let Some(members) = object.as_object_mut() {
            members.insert("spec".to_owned(), json!({"finalizers": ["kubernetes"]}));
            members.insert("status".to_owned(), json!({"phase": "Active"}));
        }
        label_namespace(object)?;
    }
    fold_string_data(resource, object);
    if is(resource, "secrets") && text(object, "/type").is_empty() {
        set(object, "type", json!("Opaque"));
    }
    fill_definition(resource, object);
    Ok(())
}

fn fill_definition(resource: &Resource, object: &mut Value) {
    if crate::crd::is_definition(resource) {
        crate::crd::definition::fill(object);
    }
}

pub(super) fn update(resource: &Resource, object: &mut Value) -> Result<(), StatusError> {
    if is(resource, "namespaces") {
        label_namespace(object)?;
    }
    fold_string_data(resource, object);
    if is(resource, "secrets") && text(object, "/type").is_empty() {
        set(object, "type", json!("Opaque"));
    }
    fill_definition(resource, object);
    Ok(())
}

fn set(object: &mut Value, key: &str, value: Value) {
    if let Some(members) = object.as_object_mut() {
        members.insert(key.to_owned(), value);
    }
}

fn label_namespace(object: &mut Value) -> Result<(), StatusError> {
    let name = name_of(object).to_owned();
    if name.is_empty() {
        return Ok(());
    }
    let metadata = metadata_mut(object)?;
    let labels = metadata
        .entry("labels")
        .or_insert_with(|| Value::Object(Map::new()));
    if let Some(labels) = labels.as_object_mut() {
        labels.insert(NAMESPACE_NAME_LABEL.to_owned(), json!(name));
    }
    Ok(())
}

/// `stringData` of a Secret is only ever written: it goes into `data`.
fn fold_string_data(resource: &Resource, object: &mut Value) {
    if !is(resource, "secrets") {
        return;
    }
    let Some(members) = object.as_object_mut() else {
        return;
    };
    let Some(Value::Object(texts)) = members.remove("stringData") else {
        return;
    };
    let data = members.entry("data").or_insert_with(|| Value::Object(Map::new()));
    if let Some(data) = data.as_object_mut() {
        for (key, text) in texts {
            let text = text.as_str().unwrap_or_default();
            data.insert(key, json!(base64::engine::general_purpose::STANDARD.encode(text)));
        }
    }
}

pub(super) fn check(resource: &Resource, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    if !is(resource, "secrets") && !is(resource, "configmaps") {
        return causes;
    }
    let mut bytes = 0;
    for part in ["data", "binaryData"] {
        for (key, value) in object.get(part).and_then(Value::as_object).into_iter().flatten() {
            let text = value.as_str().unwrap_or_default();
            bytes += if is(resource, "secrets") {
                text.len() / 4 * 3
            } else {
                text.len()
            };
            let is_key = key.len() <= 253
                && key
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
            if part == "data"
                && object
                    .pointer("/binaryData")
                    .is_some_and(|b| b.get(key).is_some())
            {
                let why = "duplicate of key present in binaryData";
                causes.push(Cause::invalid(format!("data[{key}]"), &json!(key), why));
            }
            if key.is_empty() || !is_key || key == "." || key == ".." {
                let why = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' \
                           (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
                causes.push(Cause::invalid(format!("{part}[{key}]"), &json!(key), why));
            }
        }
    }
    if bytes > MAX_DATA_BYTES {
        causes.push(Cause {
            reason: "FieldValueTooLong",
            message: format!("Too long: may not be more than {MAX_DATA_BYTES} bytes"),
            field: "data".to_owned(),
        });
    }
    causes
}

pub(super) fn delete(resource: &Resource, object: &Value) -> Result<(), StatusError> {
    let name = name_of(object);
    if is(resource, "namespaces") && is_protected_namespace(name) {
        return Err(StatusError::forbidden(
            "",
            "namespaces",
            name,
            "this namespace may not be deleted",
        ));
    }
    Ok(())
}

/// A namespace holds itself until its content is gone (`spec.finalizers`).
pub fn holds_itself(resource: &Resource, object: &Value) -> bool {
    let list = object.pointer("/spec/finalizers").and_then(Value::as_array);
    is(resource, "namespaces") && list.is_some_and(|l| !l.is_empty())
}

pub(super) fn start_deletion(resource: &Resource, object: &mut Value) {
    if is(resource, "namespaces") && is_deleting(object) {
        set(object, "status", json!({"phase": "Terminating"}));
    }
}
