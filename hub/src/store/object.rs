//! What the store holds and speaks of: resources, objects, revisions, operations and events.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::body::{Body, BodyError};

/// Position in the one history of the hub: the `resourceVersion` of everything.
///
/// Never used twice, not even after a crash or a restored copy. Gaps are normal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A kind of stored thing: API group and plural name. All versions of a group share their storage.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId {
    /// API group, empty for the core group.
    pub group: Arc<str>,
    /// Plural lower-case name, e.g. `deployments`.
    pub resource: Arc<str>,
}

impl ResourceId {
    /// From group and plural name.
    pub fn new(group: &str, resource: &str) -> ResourceId {
        ResourceId {
            group: group.into(),
            resource: resource.into(),
        }
    }

    /// Whether writes of this resource may be lost by a crash (design section 6: Events and Leases are
    /// written behind: visible at once, on disk within a second).
    pub fn is_volatile(&self) -> bool {
        matches!(
            (&*self.group, &*self.resource),
            ("" | "events.k8s.io", "events") | ("coordination.k8s.io", "leases")
        )
    }

    /// Whether bodies of this resource are encrypted on disk.
    pub fn is_secret(&self) -> bool {
        self.group.is_empty() && &*self.resource == "secrets"
    }
}

impl fmt::Display for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.resource)
        } else {
            write!(f, "{}.{}", self.resource, self.group)
        }
    }
}

/// One stored object at one revision. Immutable; shared by readers, watchers and the event ring.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// Where it is stored.
    pub resource: ResourceId,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`, empty if the writer gave none.
    pub uid: String,
    /// Revision of the write that made this state; the same as `metadata.resourceVersion` in the body.
    pub revision: Revision,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// The final JSON as answered to clients, `metadata.resourceVersion` included.
    pub body: Bytes,
    /// Where in the body the resourceVersion stands.
    pub(super) revision_at: usize,
}

impl Object {
    /// Decodes the body.
    pub fn value(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("a stored body is JSON: the store wrote or checked it")
    }

    /// Builds an object from a prepared body at a revision.
    pub(super) fn assemble(
        resource: ResourceId,
        namespace: String,
        name: String,
        body: &Body,
        revision: Revision,
    ) -> Object {
        Object {
            resource,
            namespace,
            name,
            uid: body.uid.clone(),
            revision,
            labels: body.labels.clone(),
            body: body.at(revision),
            revision_at: body.revision_at,
        }
    }

    /// An object that is not stored: a view. Its resourceVersion is `revision`.
    ///
    /// # Errors
    /// The value is no object with metadata.
    pub fn of_value(
        resource: ResourceId,
        namespace: &str,
        name: &str,
        value: &serde_json::Value,
        revision: Revision,
    ) -> Result<Object, BodyError> {
        let body = Body::of_value(value)?;
        Ok(Object::assemble(
            resource,
            namespace.to_owned(),
            name.to_owned(),
            &body,
            revision,
        ))
    }

    /// The same state under another revision: what a deletion event carries.
    pub(crate) fn restamped(&self, revision: Revision) -> Object {
        let old_digits = self.revision.to_string().len();
        let (head, tail) = self.body.split_at(self.revision_at);
        let mut bytes = Vec::with_capacity(self.body.len() + 20);
        bytes.extend_from_slice(head);
        bytes.extend_from_slice(revision.to_string().as_bytes());
        bytes.extend_from_slice(&tail[old_digits..]);
        Object {
            revision,
            body: bytes.into(),
            ..self.clone()
        }
    }
}

/// What must hold of the stored object for an operation to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Anything, present or not (a delete of an absent object still answers `NotFound`).
    Any,
    /// No such object: a create.
    Absent,
    /// Some such object: an update without precondition.
    Present,
    /// Exactly this revision: an update after a read.
    Revision(Revision),
}

/// One change of one object.
#[derive(Debug, Clone)]
pub enum Op {
    /// Store this state. `metadata.resourceVersion` of `object` is ignored and set by the store;
    /// `metadata.uid` and `metadata.labels` are read from it, everything else is kept as given.
    Put {
        /// Where.
        resource: ResourceId,
        /// Empty for cluster-scoped objects.
        namespace: String,
        /// Name.
        name: String,
        /// Precondition.
        expect: Expect,
        /// The whole object.
        object: serde_json::Value,
    },
    /// Remove the object.
    Delete {
        /// Where.
        resource: ResourceId,
        /// Empty for cluster-scoped objects.
        namespace: String,
        /// Name.
        name: String,
        /// Precondition.
        expect: Expect,
    },
}

/// Whether an event stored or removed an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// Created (`previous` is none) or changed.
    Put,
    /// Removed.
    Delete,
}

/// One visible change, as watchers see it.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// When, in the one history.
    pub revision: Revision,
    /// What.
    pub kind: EventKind,
    /// The new state; for a removal the last state with the revision of the removal.
    pub object: Arc<Object>,
    /// The state before; none for a creation. A removal carries it too.
    pub previous: Option<Arc<Object>>,
}

/// All objects of a resource (or of one namespace of it) at one revision.
#[derive(Debug, Clone)]
pub struct Listing {
    /// The revision at which this was everything; a watch after it misses nothing.
    pub revision: Revision,
    /// Sorted by namespace, then name.
    pub items: Vec<Arc<Object>>,
}
