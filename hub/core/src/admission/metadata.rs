//! Rules of `metadata` that hold for every kind.

use super::{Target, finalizers, is_deleting, metadata_mut, name_of, text};
use crate::crd;
use crate::limits::MAX_ANNOTATION_BYTES;
use crate::names;
use crate::status_error::{Cause, StatusError};
use crate::types::Resource;
use serde_json::{Map, Value, json};

/// Longest prefix of a generated name (Kubernetes: 63 − 5).
const MAX_GENERATE_PREFIX: usize = 58;

/// The namespace of the path goes into the object; another one in the body is refused.
pub(super) fn set_namespace(target: Target<'_>, object: &mut Value) -> Result<(), StatusError> {
    let metadata = metadata_mut(object)?;
    if !target.resource.namespaced {
        metadata.remove("namespace");
        return Ok(());
    }
    let given = metadata
        .get("namespace")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if !given.is_empty() && given != target.namespace {
        let text = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(StatusError::bad_request(text));
    }
    metadata.insert("namespace".to_owned(), json!(target.namespace));
    Ok(())
}

/// Fills in a name from `generateName`.
pub(super) fn generate_name(metadata: &mut Map<String, Value>, suffix: &mut dyn FnMut() -> String) {
    let named = metadata
        .get("name")
        .and_then(Value::as_str)
        .is_some_and(|n| !n.is_empty());
    let prefix = metadata
        .get("generateName")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if named || prefix.is_empty() {
        return;
    }
    let prefix: String = prefix.chars().take(MAX_GENERATE_PREFIX).collect();
    metadata.insert("name".to_owned(), json!(format!("{prefix}{}", suffix())));
}

/// Finalizers without a domain (source: core validation).
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// Name, labels, annotations and finalizers.
pub(super) fn check(resource: &Resource, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = name_of(object);
    if name.is_empty() {
        causes.push(Cause::required(
            "metadata.name",
            "name or generateName is required",
        ));
    } else if let Err(why) = names::object_name(&resource.group, &resource.plural, name) {
        causes.push(Cause::invalid("metadata.name", &json!(name), why));
    }
    check_maps(object, "metadata", &mut causes);
    for (at, finalizer) in finalizers(object).into_iter().enumerate() {
        if resource.is_built_in && !crd::is_definition(resource) && !is_full_finalizer(finalizer) {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            let field = format!("metadata.finalizers[{at}]");
            causes.push(Cause::invalid(field, &json!(finalizer), why));
        }
    }
    causes
}

/// The metadata of an object within an object; it needs no name. `path` is that of the metadata.
pub(crate) fn check_embedded(object: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = name_of(object);
    if let Err(why) = names::path_segment(name) {
        causes.push(Cause::invalid(format!("{path}.name"), &json!(name), why));
    }
    let namespace = text(object, "/metadata/namespace");
    if !namespace.is_empty()
        && let Err(why) = names::dns_label(namespace)
    {
        causes.push(Cause::invalid(
            format!("{path}.namespace"),
            &json!(namespace),
            why,
        ));
    }
    check_maps(object, path, &mut causes);
    causes
}

/// What to say of the finalizers that a custom resource gets: other names than these are refused of built-in kinds.
pub(super) fn finalizer_warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let before = old.map(finalizers).unwrap_or_default();
    let mut added: Vec<&str> = finalizers(object);
    added.retain(|f| !before.contains(f) && !is_full_finalizer(f));
    added.sort_unstable();
    added.dedup();
    let warning = |finalizer: &str| {
        let with_path = if finalizer.contains('.') {
            "including a path (/) "
        } else {
            ""
        };
        format!(
            "metadata.finalizers: {finalizer:?}: prefer a domain-qualified finalizer name {with_path}to avoid accidental \
             conflicts with other finalizer writers"
        )
    };
    added.into_iter().map(warning).collect()
}

fn is_full_finalizer(finalizer: &str) -> bool {
    finalizer.contains('/') || STANDARD_FINALIZERS.contains(&finalizer)
}

fn check_maps(object: &Value, path: &str, causes: &mut Vec<Cause>) {
    let labels = format!("{path}.labels");
    for (key, value) in map(object, "/metadata/labels") {
        if let Err(why) = names::label_key(key) {
            causes.push(Cause::invalid(labels.as_str(), &json!(key), why));
        }
        if let Some(Err(why)) = value.as_str().map(names::label_value) {
            causes.push(Cause::invalid(labels.as_str(), value, why));
        }
    }
    let annotations = format!("{path}.annotations");
    let mut bytes = 0;
    for (key, value) in map(object, "/metadata/annotations") {
        bytes += key.len() + value.as_str().unwrap_or_default().len();
        // Keys of annotations may be upper case in the prefix.
        if let Err(why) = names::label_key(&key.to_lowercase()) {
            causes.push(Cause::invalid(annotations.as_str(), &json!(key), why));
        }
    }
    if bytes > MAX_ANNOTATION_BYTES {
        causes.push(Cause {
            reason: "FieldValueTooLong",
            message: format!("Too long: may not be more than {MAX_ANNOTATION_BYTES} bytes"),
            field: annotations,
        });
    }
    let field = format!("{path}.finalizers");
    for finalizer in finalizers(object) {
        if let Err(why) = names::label_key(finalizer) {
            causes.push(Cause::invalid(field.as_str(), &json!(finalizer), why));
        }
    }
}

fn map<'v>(object: &'v Value, pointer: &str) -> impl Iterator<Item = (&'v String, &'v Value)> {
    object
        .pointer(pointer)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
}

/// An object being deleted takes no new finalizers.
pub(super) fn check_finalizers(old: &Value, new: &Value) -> Option<Cause> {
    if !is_deleting(old) {
        return None;
    }
    let before = finalizers(old);
    let added: Vec<&str> = finalizers(new)
        .into_iter()
        .filter(|f| !before.contains(f))
        .collect();
    if added.is_empty() {
        return None;
    }
    let why = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        added
            .iter()
            .map(|f| format!("{f:?}"))
            .collect::<Vec<_>>()
            .join(", ")
    );
    Some(Cause::forbidden("metadata.finalizers", why))
}

/// Preconditions of a deletion.
///
/// # Errors
/// 409 if the object is another one.
pub fn check_preconditions(
    target: Target<'_>,
    object: &Value,
    uid: Option<&str>,
    revision: Option<&str>,
) -> Result<(), StatusError> {
    let name = name_of(object);
    for (what, wanted, key, how) in [
        ("UID", uid, "uid", "deleted and then recreated"),
        ("ResourceVersion", revision, "resourceVersion", "modified"),
    ] {
        let found = text(object, &format!("/metadata/{key}"));
        if let Some(wanted) = wanted
            && wanted != found
        {
            let why = format!(
                "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The object \
                 might have been {how}"
            );
            let resource = target.resource;
            return Err(StatusError::conflict(&resource.group, &resource.kind, name, why));
        }
    }
    Ok(())
}
