//! Where objects come from: the store, looked at through the resource that was asked for.

use crate::store::{Compacted, Cursor, Listing, Object, ResourceId, Revision, Store};
use hub_core::types::{Resource, TypeTable};
use std::sync::Arc;

/// A resource that is served, and where its objects are stored.
#[derive(Clone)]
pub(super) struct Served {
    pub(super) resource: &'static Resource,
    pub(super) id: ResourceId,
}

/// All served resources in the order of discovery; there are about a hundred.
pub(super) struct Catalog(Vec<Served>);

impl Catalog {
    pub(super) fn new(table: &'static TypeTable) -> Catalog {
        let served = table.resources().iter().map(|resource| {
            let id = ResourceId::new(&resource.storage.0, &resource.storage.1);
            Served { resource, id }
        });
        Catalog(served.collect())
    }

    pub(super) fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Served> {
        let is = |r: &Resource| &*r.plural == plural && &*r.group == group && &*r.version == version;
        self.0.iter().find(|s| is(s.resource))
    }

    /// The served resource behind stored objects, in its preferred version.
    pub(super) fn stored(&self, id: &ResourceId) -> Option<&Served> {
        self.0.iter().find(|s| s.id == *id)
    }
}

/// One object.
pub(super) fn get(store: &Store, served: &Served, namespace: &str, name: &str) -> Option<Arc<Object>> {
    store.get(&served.id, namespace, name)
}

/// All objects, or those of a namespace, from one snapshot.
pub(super) fn list(store: &Store, served: &Served, namespace: Option<&str>) -> Listing {
    store.list(&served.id, namespace)
}

/// Changes after a revision.
///
/// # Errors
/// [`Compacted`] if not all of them are kept any more.
pub(super) fn watch(store: &Store, served: &Served, after: Revision) -> Result<Cursor, Compacted> {
    store.watch(Some(&served.id), after)
}
