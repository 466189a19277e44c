//! Objects as the collector sees them, and what an action makes of one.

use super::{FOREGROUND, ORPHAN, What};
use crate::admission;
use serde_json::{Value, json};

/// Where an object is stored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// API group of the storage.
    pub group: String,
    /// Plural of the storage.
    pub plural: String,
    /// Namespace, empty for the cluster scope.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// A reference to an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerRef {
    /// `apps/v1`.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// uid: what decides.
    pub uid: String,
    /// Holds the owner back while it waits for its dependents.
    pub blocks: bool,
}

/// An object that has an owner or may be one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Where.
    pub key: Key,
    /// uid.
    pub uid: String,
    /// Revision of this state.
    pub revision: u64,
    /// Its owners.
    pub owners: Vec<OwnerRef>,
    /// It is being deleted.
    pub deleting: bool,
    /// It has the finalizer of waiting for dependents.
    pub foreground: bool,
    /// It has the finalizer of letting dependents go.
    pub orphan: bool,
}

/// Whether a stored body can matter to the collector at all; cheap, and true too often rather than too rarely.
pub fn may_matter(body: &[u8]) -> bool {
    std::str::from_utf8(body).is_ok_and(|text| {
        text.contains("\"ownerReferences\"")
            || (text.contains("\"deletionTimestamp\"")
                && (text.contains("\"foregroundDeletion\"") || text.contains("\"orphan\"")))
    })
}

impl Item {
    /// Reads a stored object.
    pub fn read(key: Key, uid: &str, revision: u64, object: &Value) -> Item {
        let references = object
            .pointer("/metadata/ownerReferences")
            .and_then(Value::as_array);
        let owners = references.into_iter().flatten().map(|r| {
            let own = |key: &str| r.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            OwnerRef {
                api_version: own("apiVersion"),
                kind: own("kind"),
                name: own("name"),
                uid: own("uid"),
                blocks: r.get("blockOwnerDeletion") == Some(&Value::Bool(true)),
            }
        });
        let finalizers = admission::finalizers(object);
        Item {
            key,
            uid: uid.to_owned(),
            revision,
            owners: owners.collect(),
            deleting: admission::is_deleting(object),
            foreground: finalizers.contains(&FOREGROUND),
            orphan: finalizers.contains(&ORPHAN),
        }
    }

    /// It waits until its dependents are gone.
    pub fn waits(&self) -> bool {
        self.deleting && self.foreground
    }
}

/// What an action other than a deletion makes of an object.
pub fn apply(what: &What, mut object: Value) -> Value {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return object;
    };
    match what {
        What::Detach(uids) => {
            if let Some(references) = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut) {
                let goes = |r: &Value| {
                    r.get("uid")
                        .and_then(Value::as_str)
                        .is_some_and(|u| uids.iter().any(|x| x == u))
                };
                references.retain(|r| !goes(r));
                if references.is_empty() {
                    metadata.remove("ownerReferences");
                }
            }
        }
        What::Unblock => {
            let references = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut);
            for reference in references.into_iter().flatten() {
                reference["blockOwnerDeletion"] = json!(false);
            }
        }
        What::Release(finalizer) => {
            if let Some(finalizers) = metadata.get_mut("finalizers").and_then(Value::as_array_mut) {
                finalizers.retain(|f| f.as_str() != Some(finalizer));
                if finalizers.is_empty() {
                    metadata.remove("finalizers");
                }
            }
        }
        What::Delete(_) | What::WarnNamespace(_) => {}
    }
    object
}
