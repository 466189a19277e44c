//! The world as the planner sees it, read from the store and kept until something in it changes.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hub_core::plan::World;
use hub_core::templates;
use interpreter::Customization;
use serde_json::{Value, json};
use shared::wire::{ApiEnablement, Capacity};

use super::Reconciler;
use crate::store::fleet::ClusterRow;
use crate::store::{Listing, ResourceId, StoreError};

/// Kinds a plan reads besides templates: propagation policies, override policies, clusters, quotas.
const SOURCES: [(&str, &str); 6] = [
    ("policy.karmada.io", "propagationpolicies"),
    ("policy.karmada.io", "clusterpropagationpolicies"),
    ("policy.karmada.io", "overridepolicies"),
    ("policy.karmada.io", "clusteroverridepolicies"),
    ("cluster.karmada.io", "clusters"),
    ("policy.karmada.io", "federatedresourcequotas"),
];

impl Reconciler {
    /// The world now. Read anew only if it may have changed since `known`.
    ///
    /// # Errors
    /// The store.
    pub(super) fn world(&self, known: Option<Arc<World>>) -> Result<Arc<World>, StoreError> {
        // The flag goes down before reading: a change during the read raises it again.
        let changed = self.world_changed.swap(false, Ordering::SeqCst);
        match known {
            Some(known) if !changed => Ok(known),
            _ => self
                .read_world()
                .inspect_err(|_| self.world_changed.store(true, Ordering::SeqCst)),
        }
    }

    /// Reads it, whatever is known already.
    ///
    /// # Errors
    /// The store.
    pub(super) fn read_world(&self) -> Result<Arc<World>, StoreError> {
        let listings = self
            .store
            .list_many(&SOURCES.map(|(group, plural)| ResourceId::new(group, plural)));
        self.read_customizations();
        let rows = self.store.all_facts()?;
        let served = served(&rows);
        let values =
            |listing: &Listing| -> Vec<Value> { listing.items.iter().map(|item| item.value()).collect() };
        let [
            propagation,
            cluster_propagation,
            overrides,
            cluster_overrides,
            clusters,
            quotas,
        ] = &listings[..]
        else {
            // `list_many` answers one listing for each resource asked for.
            return Ok(Arc::default());
        };
        let propagation = [values(propagation), values(cluster_propagation)].concat();
        let overrides = [values(overrides), values(cluster_overrides)].concat();
        let mut clusters = values(clusters);
        for cluster in &mut clusters {
            let name = shared::object::name(cluster).to_owned();
            if let Ok(found) = served.binary_search_by(|(other, _)| (*other).cmp(&name)) {
                // What a cluster serves is a view, not part of the stored object.
                shared::object::set(
                    cluster,
                    &["status", "apiEnablements"],
                    enablements(served[found].1),
                );
            }
            if let Some(capacity) = capacity_of(&rows, &name) {
                shared::object::set(cluster, &["status", "resourceSummary"], summary(capacity));
            }
        }
        let skipped = self.settings.skipped_namespaces.clone();
        let world = World::read(&propagation, &overrides, &clusters, skipped).with_quotas(&values(quotas));
        for (policy, problem) in world.unreadable() {
            tracing::warn!(%policy, %problem, "a stored policy cannot be read and acts on nothing");
        }
        Ok(Arc::new(world))
    }
}

impl Reconciler {
    /// Takes the stored customizations into use. Statuses are merged anew when they changed.
    fn read_customizations(&self) {
        let resource = ResourceId::new(interpreter::CUSTOMIZATION_GROUP, templates::CUSTOMIZATIONS);
        let mut found = Vec::new();
        for object in self.store.list(&resource, None).items {
            match Customization::read(&object.value()) {
                Ok(customization) => found.push(customization),
                Err(error) => {
                    tracing::warn!(name = %object.name, %error, "a stored customization acts on nothing")
                }
            }
        }
        if self.interpreter.replace(found) {
            self.bindings.mark_all();
        }
    }
}

/// Who is enrolled and what they serve, as a fingerprint.
pub(super) fn world_facts(rows: &[ClusterRow]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for row in rows {
        row.cluster.as_str().hash(&mut hasher);
    }
    for (cluster, apis) in served(rows) {
        cluster.hash(&mut hasher);
        for api in apis {
            (&api.group_version, &api.resources).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// What clusters have and use, as a fingerprint. A change of it moves nothing that is placed; it only makes the next plan
/// look at the new numbers.
pub(super) fn room_facts(rows: &[ClusterRow]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for row in rows {
        if let Some(capacity) = &row.facts.capacity {
            row.cluster.as_str().hash(&mut hasher);
            (&capacity.allocatable, &capacity.allocated, &capacity.allocating).hash(&mut hasher);
            for model in &capacity.models {
                (model.grade, model.count).hash(&mut hasher);
            }
        }
    }
    hasher.finish()
}

fn capacity_of<'a>(rows: &'a [ClusterRow], cluster: &str) -> Option<&'a Capacity> {
    rows.iter()
        .find(|row| row.cluster.as_str() == cluster)?
        .facts
        .capacity
        .as_ref()
}

/// `status.resourceSummary` of a Cluster.
fn summary(capacity: &Capacity) -> Value {
    let models: Vec<Value> = capacity
        .models
        .iter()
        .map(|model| json!({"grade": model.grade, "count": model.count}))
        .collect();
    json!({
        "allocatable": capacity.allocatable,
        "allocated": capacity.allocated,
        "allocating": capacity.allocating,
        "allocatableModelings": models,
    })
}

type Served<'a> = Vec<(&'a str, &'a [ApiEnablement])>;

/// What each cluster said it serves, sorted by name; clusters that said nothing are left out.
fn served(rows: &[ClusterRow]) -> Served<'_> {
    rows.iter()
        .filter_map(|row| Some((row.cluster.as_str(), row.facts.capacity.as_ref()?.apis.as_slice())))
        .filter(|(_, apis)| !apis.is_empty())
        .collect()
}

fn enablements(apis: &[ApiEnablement]) -> Value {
    let groups = apis.iter().map(|api| {
        let resources = api
            .resources
            .iter()
            .map(|(kind, plural)| json!({"kind": kind, "name": plural}));
        json!({"groupVersion": api.group_version, "resources": resources.collect::<Vec<_>>()})
    });
    groups.collect()
}
