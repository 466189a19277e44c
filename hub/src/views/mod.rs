//! Objects as clients read them: what is stored, and views made of it and of fleet rows (design section 5, "Views").
//!
//! The API reads, lists and watches every resource through this module. Resources without a view pass through to
//! the store; the others are built here: ResourceBinding, ClusterResourceBinding and Cluster (stored metadata and
//! spec, status from rows), Work (from rows alone) and Namespace (stored ones, and one per cluster).

mod cursor;
mod rows;

use std::sync::Arc;

use hub_core::{naming, view};
use serde_json::Value;
use shared::ids::ClusterName;

use crate::store::{BindingRef, Compacted, Listing, Object, ResourceId, Revision, Store, StoreError, fleet};

pub use cursor::ViewCursor;

/// Which rule makes the objects of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// As stored.
    Stored,
    /// ResourceBinding and ClusterResourceBinding.
    Binding,
    /// Cluster.
    Cluster,
    /// Work.
    Work,
    /// Namespace.
    Namespace,
}

impl Rule {
    fn of(resource: &ResourceId) -> Rule {
        match (&*resource.group, &*resource.resource) {
            ("work.karmada.io", "resourcebindings" | "clusterresourcebindings") => Rule::Binding,
            ("work.karmada.io", "works") => Rule::Work,
            ("cluster.karmada.io", "clusters") => Rule::Cluster,
            ("", "namespaces") => Rule::Namespace,
            _ => Rule::Stored,
        }
    }
}

/// The stored Clusters.
pub(crate) fn clusters() -> ResourceId {
    ResourceId::new("cluster.karmada.io", "clusters")
}

/// Whether objects of a resource are more than what is stored.
pub fn is_view(resource: &ResourceId) -> bool {
    Rule::of(resource) != Rule::Stored
}

/// Whether a client that read a view at a revision has seen the newest stored state: reports move a view's
/// resourceVersion on, but cause no conflict for who writes stored fields.
pub fn is_current(resource: &ResourceId, stored: &Object, read_at: Revision) -> bool {
    if is_view(resource) {
        stored.revision <= read_at
    } else {
        stored.revision == read_at
    }
}

/// One object as clients read it.
///
/// # Errors
/// The store could not read its rows.
pub fn get(
    store: &Store,
    resource: &ResourceId,
    namespace: &str,
    name: &str,
) -> Result<Option<Arc<Object>>, StoreError> {
    let stored = store.get(resource, namespace, name);
    match Rule::of(resource) {
        Rule::Stored => Ok(stored),
        Rule::Binding => stored.map(|stored| one_binding(store, &stored)).transpose(),
        Rule::Cluster => stored.map(|stored| one_cluster(store, &stored)).transpose(),
        Rule::Work => one_work(store, resource, namespace, name),
        Rule::Namespace => Ok(stored.or_else(|| {
            let cluster = naming::cluster_of_execution_namespace(name)?;
            let cluster = store.get(&clusters(), "", cluster)?;
            execution_namespace(store, resource, &cluster)
        })),
    }
}

/// All objects as clients read them, or those of one namespace; sorted by namespace, then name. A watch after the
/// listing's revision misses nothing (it may repeat what the listing shows already).
///
/// # Errors
/// The store could not read its rows.
pub fn list(store: &Store, resource: &ResourceId, namespace: Option<&str>) -> Result<Listing, StoreError> {
    let stored = store.list(resource, namespace);
    let revision = stored.revision;
    let items = match Rule::of(resource) {
        Rule::Stored => return Ok(stored),
        Rule::Binding => all_bindings(store, &stored.items)?,
        Rule::Cluster => all_clusters(store, &stored.items)?,
        Rule::Work => all_works(store, resource, namespace)?,
        Rule::Namespace => {
            let made = store.list(&clusters(), None).items;
            let mut items = stored.items;
            for cluster in made {
                if let Some(object) = execution_namespace(store, resource, &cluster)
                    && !items.iter().any(|stored| stored.name == object.name)
                {
                    items.push(object);
                }
            }
            items.sort_by(|a, b| a.name.cmp(&b.name));
            items
        }
    };
    Ok(Listing { revision, items })
}

/// Changes of a resource as clients read them, after a revision.
///
/// # Errors
/// [`Compacted`] if not everything after it is kept any more. Row changes are kept in memory only, so after a
/// restart of the hub watches of views begin anew.
pub fn watch(store: &Store, resource: &ResourceId, after: Revision) -> Result<ViewCursor, Compacted> {
    ViewCursor::new(store, resource, Rule::of(resource), after)
}

fn one_binding(store: &Store, stored: &Object) -> Result<Arc<Object>, StoreError> {
    let reference = BindingRef {
        namespace: stored.namespace.clone(),
        name: stored.name.clone(),
    };
    // The revision first: rows that are newer are told once more, and none is missed.
    let revision = store.binding_revision(&reference)?;
    let targets = store.targets_of(&reference)?;
    let rows: Vec<view::WorkRow> = targets.iter().map(|target| rows::work(store, target)).collect();
    let value = view::binding(&stored.value(), &rows);
    over(stored, &value, revision.unwrap_or_default().max(stored.revision))
}

/// One binding's rows after the other's: those of all together are many times what the answer is.
fn all_bindings(store: &Store, stored: &[Arc<Object>]) -> Result<Vec<Arc<Object>>, StoreError> {
    let one = |stored: &Arc<Object>| one_binding(store, stored);
    stored.iter().map(one).collect()
}

fn one_cluster(store: &Store, stored: &Object) -> Result<Arc<Object>, StoreError> {
    let facts = match ClusterName::new(&stored.name) {
        Ok(name) => store.facts(&name)?,
        Err(_) => None,
    };
    cluster(store, stored, facts.as_ref())
}

fn cluster(
    store: &Store,
    stored: &Object,
    facts: Option<&fleet::ClusterRow>,
) -> Result<Arc<Object>, StoreError> {
    let row = facts.map(|facts| rows::cluster(store, facts)).transpose()?;
    let value = view::cluster(&stored.value(), row.as_ref());
    let revision = facts.map_or(Revision(0), |facts| facts.revision);
    over(stored, &value, revision.max(stored.revision))
}

fn all_clusters(store: &Store, stored: &[Arc<Object>]) -> Result<Vec<Arc<Object>>, StoreError> {
    let facts = store.all_facts()?;
    stored
        .iter()
        .map(|stored| {
            let facts = facts.iter().find(|facts| facts.cluster.as_str() == stored.name);
            cluster(store, stored, facts)
        })
        .collect()
}

fn one_work(
    store: &Store,
    resource: &ResourceId,
    namespace: &str,
    name: &str,
) -> Result<Option<Arc<Object>>, StoreError> {
    let Some(cluster) = cluster_of(namespace) else {
        return Ok(None);
    };
    let targets = store.targets_on(&cluster)?;
    let found = targets.iter().find(|target| target.entry.work == name);
    found.map(|target| work(store, resource, target)).transpose()
}

fn all_works(
    store: &Store,
    resource: &ResourceId,
    namespace: Option<&str>,
) -> Result<Vec<Arc<Object>>, StoreError> {
    let targets = match namespace {
        None => store.all_targets()?,
        Some(namespace) => match cluster_of(namespace) {
            Some(cluster) => store.targets_on(&cluster)?,
            None => Vec::new(),
        },
    };
    let mut works = targets
        .iter()
        .map(|target| work(store, resource, target))
        .collect::<Result<Vec<_>, _>>()?;
    works.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    Ok(works)
}

fn work(store: &Store, resource: &ResourceId, target: &fleet::Target) -> Result<Arc<Object>, StoreError> {
    let manifest = match store.content(&target.entry.digest)? {
        Some(bytes) => serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        None => Value::Null,
    };
    let value = view::work(&rows::work(store, target), &manifest);
    let namespace = naming::execution_namespace(target.cluster.as_str());
    made(resource, &namespace, &target.entry.work, &value, target.revision)
}

fn execution_namespace(store: &Store, resource: &ResourceId, cluster: &Object) -> Option<Arc<Object>> {
    let value = view::execution_namespace(store.fleet(), &cluster.value())?;
    let name = naming::execution_namespace(&cluster.name);
    made(resource, "", &name, &value, cluster.revision).ok()
}

fn cluster_of(namespace: &str) -> Option<ClusterName> {
    ClusterName::new(naming::cluster_of_execution_namespace(namespace)?).ok()
}

/// A view over a stored object.
fn over(stored: &Object, value: &Value, revision: Revision) -> Result<Arc<Object>, StoreError> {
    made(&stored.resource, &stored.namespace, &stored.name, value, revision)
}

fn made(
    resource: &ResourceId,
    namespace: &str,
    name: &str,
    value: &Value,
    revision: Revision,
) -> Result<Arc<Object>, StoreError> {
    Object::of_value(resource.clone(), namespace, name, value, revision)
        .map(Arc::new)
        .map_err(|error| StoreError::Corrupt {
            what: format!("view of {resource} {namespace}/{name}"),
            cause: error.to_string(),
        })
}

#[cfg(test)]
mod tests;
