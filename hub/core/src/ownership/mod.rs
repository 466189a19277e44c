//! Server-side apply and field ownership: who last decided each field of an object (`metadata.managedFields`), what an
//! apply may change, and with whom it conflicts. The rules are those of structured-merge-diff and apimachinery's
//! `managedfields`; the differential cases in `tests/conformance/kube` hold them against a real API server.
//!
//! Nothing here knows where a schema comes from: [`Versions`] gives the types of an object's versions.

mod compare;
mod entries;
mod items;
mod last_applied;
mod merge;
mod path;
mod scaled;
mod set;
mod table_versions;
mod types;
mod validate;
mod writes;

pub use entries::{EntryError, ManagerId, Operation, Owned, Owners};
pub use last_applied::LAST_APPLIED;
pub use path::{Element, Plain};
pub use scaled::{to_parent, to_scale};
pub use set::{FieldSet, FieldsError, Node};
pub use table_versions::TableVersions;
pub use types::{Atom, ListKind, Scalar, TableView, TypeView};
pub use validate::go_text;
pub use writes::{ApplyError, Conflict, Tracked, Versions, Writer, apply, merged, track};

use crate::types::Resource;
use serde_json::Value;

/// Fields that a write of a part of an object does not change, so does not own: the registries' reset fields.
pub fn ignored(resource: &Resource, subresource: &str) -> FieldSet {
    match subresource {
        "" if resource.subresource("status").is_some() => FieldSet::of_paths(&[&["status"]]),
        "status" if resource.custom.is_some() => FieldSet::of_paths(&[&["spec"], &["metadata"]]),
        "status" => match (&*resource.group, &*resource.plural) {
            ("apps", "deployments") => FieldSet::of_paths(&[&["spec"], &["metadata", "labels"]]),
            ("", "pods") => FieldSet::of_paths(&[
                &["spec"],
                &["metadata", "deletionTimestamp"],
                &["metadata", "ownerReferences"],
            ]),
            ("apiextensions.k8s.io", _) => FieldSet::of_paths(&[&["spec"], &["metadata"]]),
            _ => FieldSet::of_paths(&[&["spec"]]),
        },
        _ => FieldSet::default(),
    }
}

/// Who writes, if the request names no manager: the program's name in its User-Agent.
pub fn manager_of_agent(user_agent: &str) -> String {
    let mut out = String::new();
    for c in user_agent.split('/').next().unwrap_or_default().chars() {
        if c.is_control() {
            continue;
        }
        if out.len() + c.len_utf8() > crate::limits::MAX_MANAGER_BYTES {
            break;
        }
        out.push(c);
    }
    out
}

/// `metadata.managedFields` of an object.
pub fn managed(object: &Value) -> Option<&Value> {
    object.pointer("/metadata/managedFields")
}

/// Sets `metadata.managedFields`, or takes it away for null.
pub fn set_managed(object: &mut Value, managed: Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        if managed.is_null() {
            metadata.remove("managedFields");
        } else {
            metadata.insert("managedFields".to_owned(), managed);
        }
    }
}

#[cfg(test)]
mod tests;
