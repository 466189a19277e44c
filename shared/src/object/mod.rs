//! A Kubernetes object as data: users' objects travel as [`serde_json::Value`], untouched except by
//! declared edits.

mod canonical;
mod path;
mod quantity;
mod selector;

pub use canonical::{canonical, write_canonical};
pub use path::{get, get_mut_or_insert, remove, set};
pub use quantity::{Quantity, QuantityError};
pub use selector::{LabelSelector, Requirement, SelectorError, SelectorOperator};

use crate::ids::ObjectKey;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Group, version and kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gvk {
    /// API group; empty for the core group.
    pub group: String,
    /// Version, for example `v1`.
    pub version: String,
    /// Kind.
    pub kind: String,
}

impl Gvk {
    /// Builds one.
    #[must_use]
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
        }
    }

    /// `apps/v1`, or `v1` for the core group.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

/// Splits `apps/v1` into group and version; `v1` is the core group.
#[must_use]
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// Group, version and kind of an object; `None` if `apiVersion` or `kind` is missing or no string.
#[must_use]
pub fn gvk(object: &Value) -> Option<Gvk> {
    let (group, version) = split_api_version(object.get("apiVersion")?.as_str()?);
    Some(Gvk::new(group, version, object.get("kind")?.as_str()?))
}

/// The key under which a set knows this object; `None` if kind or name is missing.
#[must_use]
pub fn key(object: &Value) -> Option<ObjectKey> {
    let gvk = gvk(object)?;
    let name = name(object);
    (!name.is_empty()).then(|| ObjectKey::new(&gvk.group, &gvk.kind, namespace(object), name))
}

fn meta_str<'a>(object: &'a Value, field: &str) -> &'a str {
    object
        .get("metadata")
        .and_then(|m| m.get(field))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// `metadata.name`, or empty.
#[must_use]
pub fn name(object: &Value) -> &str {
    meta_str(object, "name")
}

/// `metadata.namespace`, or empty.
#[must_use]
pub fn namespace(object: &Value) -> &str {
    meta_str(object, "namespace")
}

/// `metadata.uid`, or empty.
#[must_use]
pub fn uid(object: &Value) -> &str {
    meta_str(object, "uid")
}

/// `metadata.resourceVersion`, or empty.
#[must_use]
pub fn resource_version(object: &Value) -> &str {
    meta_str(object, "resourceVersion")
}

/// `metadata.generation`, or 0.
#[must_use]
pub fn generation(object: &Value) -> i64 {
    object
        .get("metadata")
        .and_then(|m| m.get("generation"))
        .and_then(Value::as_i64)
        .unwrap_or(0)
}

/// Whether `metadata.deletionTimestamp` is set.
#[must_use]
pub fn is_deleting(object: &Value) -> bool {
    !meta_str(object, "deletionTimestamp").is_empty()
}

fn meta_map<'a>(object: &'a Value, field: &str) -> Option<&'a Map<String, Value>> {
    object.get("metadata")?.get(field)?.as_object()
}

/// One label.
#[must_use]
pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    meta_map(object, "labels")?.get(key)?.as_str()
}

/// One annotation.
#[must_use]
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    meta_map(object, "annotations")?.get(key)?.as_str()
}

fn string_map(map: Option<&Map<String, Value>>) -> BTreeMap<String, String> {
    map.into_iter()
        .flatten()
        .filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())))
        .collect()
}

/// All labels.
#[must_use]
pub fn labels(object: &Value) -> BTreeMap<String, String> {
    string_map(meta_map(object, "labels"))
}

/// All annotations.
#[must_use]
pub fn annotations(object: &Value) -> BTreeMap<String, String> {
    string_map(meta_map(object, "annotations"))
}

/// Sets a label, making `metadata.labels` if needed. Nothing happens if `object` is no JSON object.
pub fn set_label(object: &mut Value, key: &str, value: &str) {
    set(object, &["metadata", "labels", key], Value::String(value.into()));
}

/// Sets an annotation, making `metadata.annotations` if needed. Nothing happens if `object` is no JSON object.
pub fn set_annotation(object: &mut Value, key: &str, value: &str) {
    set(
        object,
        &["metadata", "annotations", key],
        Value::String(value.into()),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_and_writes_metadata() {
        let mut o = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "prod", "uid": "u", "generation": 3, "labels": {"a": "b"}}});
        assert_eq!(gvk(&o), Some(Gvk::new("apps", "v1", "Deployment")));
        assert_eq!(gvk(&o).unwrap().api_version(), "apps/v1");
        assert_eq!(key(&o), Some(ObjectKey::new("apps", "Deployment", "prod", "web")));
        assert_eq!(
            (name(&o), namespace(&o), uid(&o), generation(&o)),
            ("web", "prod", "u", 3)
        );
        set_label(&mut o, "c/d", "e");
        set_annotation(&mut o, "x", "y");
        assert_eq!(
            labels(&o),
            [("a".into(), "b".into()), ("c/d".into(), "e".into())].into()
        );
        assert_eq!(annotation(&o, "x"), Some("y"));
        assert!(!is_deleting(&o));
        assert_eq!(key(&json!({"kind": "X"})), None);
        assert_eq!(split_api_version("v1"), ("", "v1"));
    }
}
