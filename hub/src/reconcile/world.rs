//! The world as the planner sees it, read from the store and kept until something in it changes.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use hub_core::cluster::Cluster;
use hub_core::estimate::nodes;
use hub_core::plan::World;
use hub_core::templates;
use hub_core::view::LAST_SEEN;
use interpreter::Customization;
use serde_json::{Value, json};
use shared::reason::Reason;
use shared::wire::{ApiEnablement, Capacity};

use super::Reconciler;
use super::steer::Steered;
use crate::store::fleet::ClusterRow;
use crate::store::{Listing, ResourceId, StoreError};

/// Kinds a plan reads besides templates: propagation policies, override policies, clusters, quotas, priority
/// classes.
const SOURCES: [(&str, &str); 7] = [
    ("policy.karmada.io", "propagationpolicies"),
    ("policy.karmada.io", "clusterpropagationpolicies"),
    ("policy.karmada.io", "overridepolicies"),
    ("policy.karmada.io", "clusteroverridepolicies"),
    ("cluster.karmada.io", "clusters"),
    ("policy.karmada.io", "federatedresourcequotas"),
    ("scheduling.k8s.io", "priorityclasses"),
];

impl Reconciler {
    /// The world now. Read anew only if it may have changed since `known`.
    ///
    /// # Errors
    /// The store.
    pub(super) fn world(&self, known: Option<Arc<World>>) -> Result<Arc<World>, StoreError> {
        // The flags go down before reading: a change during the read raises them again.
        let changed = self.world_changed.swap(false, Ordering::SeqCst);
        let room = self.room_changed.swap(false, Ordering::SeqCst);
        let steered = std::mem::take(&mut *self.steered.lock().unwrap_or_else(PoisonError::into_inner));
        let known = known.map(|mut known| {
            if !changed && !steered.is_empty() {
                self.steer(Arc::make_mut(&mut known), &steered);
            }
            known
        });
        // Before it is read what is promised: promises that end meanwhile are counted anew by the next pass.
        let freed = self.take_freed();
        match known {
            Some(mut known) if !changed && !room => {
                if !freed.is_empty() {
                    let promises = self.promises.lock().unwrap_or_else(PoisonError::into_inner);
                    Arc::make_mut(&mut known).recount(&promises, freed.iter().map(String::as_str));
                }
                Ok(known)
            }
            Some(known) if !changed => self
                .read_clusters()
                .map(|clusters| Arc::new(self.with_promises(known.with_clusters(clusters))))
                .inspect_err(|_| self.room_changed.store(true, Ordering::SeqCst)),
            _ => self
                .read_world()
                .inspect_err(|_| self.world_changed.store(true, Ordering::SeqCst)),
        }
    }

    fn with_promises(&self, world: World) -> World {
        let promises = self.promises.lock().unwrap_or_else(PoisonError::into_inner);
        world.with_promises(&promises)
    }

    /// Brings policies that changed into the world, one by one.
    fn steer(&self, world: &mut World, steered: &Steered) {
        for (resource, policy) in steered {
            let stored = self.store.get(resource, &policy.namespace, &policy.name);
            let stored = stored.map(|stored| stored.value());
            if resource.resource.ends_with("propagationpolicies") {
                world.put_propagation(policy, stored.as_ref());
            } else {
                world.put_override(policy, stored.as_ref());
            }
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
        let values =
            |listing: &Listing| -> Vec<Value> { listing.items.iter().map(|item| item.value()).collect() };
        let [
            propagation,
            cluster_propagation,
            overrides,
            cluster_overrides,
            _,
            quotas,
            classes,
        ] = &listings[..]
        else {
            // `list_many` answers one listing for each resource asked for.
            return Ok(Arc::default());
        };
        let propagation = [values(propagation), values(cluster_propagation)].concat();
        let overrides = [values(overrides), values(cluster_overrides)].concat();
        let clusters = self.read_clusters()?;
        let skipped = self.settings.skipped_namespaces.clone();
        let quotas = if self.settings.quotas_enforced {
            values(quotas)
        } else {
            Vec::new()
        };
        let world = World::read(&propagation, &overrides, [], skipped)
            .with_clusters(clusters)
            .with_quotas(&quotas)
            .with_priority_classes(&values(classes));
        for (policy, problem) in world.unreadable() {
            tracing::warn!(%policy, %problem, "a stored policy cannot be read and acts on nothing");
        }
        Ok(Arc::new(self.with_promises(world)))
    }

    /// The Cluster objects with what their agents reported, and when they were last heard.
    fn read_clusters(&self) -> Result<Vec<Cluster>, StoreError> {
        let stored = self
            .store
            .list(&ResourceId::new("cluster.karmada.io", "clusters"), None);
        let rows = self.store.all_facts()?;
        let by_name: BTreeMap<&str, &ClusterRow> =
            rows.iter().map(|row| (row.cluster.as_str(), row)).collect();
        let clusters = stored.items.iter().map(|item| {
            let mut cluster = item.value();
            let Some(row) = by_name.get(item.name.as_str()) else {
                return Cluster::read(&cluster);
            };
            let mut set = |path: &[&str], value: Value| shared::object::set(&mut cluster, path, value);
            // What a cluster says is a view, not part of the stored object.
            if let Some(capacity) = &row.facts.capacity {
                set(&["status", "resourceSummary"], summary(capacity));
                if !capacity.apis.is_empty() {
                    set(&["status", "apiEnablements"], enablements(&capacity.apis));
                }
            }
            if row.revoked {
                let ready = json!({"type": "Ready", "status": "False", "reason": Reason::Revoked.code()});
                let mut conditions: Vec<Value> = cluster["status"]["conditions"]
                    .as_array()
                    .cloned()
                    .unwrap_or_default();
                conditions.retain(|condition| condition["type"] != "Ready");
                conditions.push(ready);
                shared::object::set(&mut cluster, &["status", "conditions"], json!(conditions));
            }
            let mut set = |path: &[&str], value: Value| shared::object::set(&mut cluster, path, value);
            if let Some(seen) = row.last_seen {
                set(&["metadata", "annotations", LAST_SEEN], json!(seen.rfc3339()));
            }
            Cluster {
                nodes: row
                    .facts
                    .room
                    .as_ref()
                    .filter(|_| !row.revoked)
                    .and_then(nodes::of_room),
                ..Cluster::read(&cluster)
            }
        });
        Ok(clusters.collect())
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
        (row.cluster.as_str(), row.revoked).hash(&mut hasher);
    }
    for (cluster, apis) in served(rows) {
        cluster.hash(&mut hasher);
        for api in apis {
            (&api.group_version, &api.resources).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// What each cluster has and uses, as a fingerprint. A change of it moves nothing that is placed; it makes the next plan
/// look at the new numbers, and what could not be placed is tried again.
pub(super) fn room_facts(rows: &[ClusterRow]) -> BTreeMap<String, u64> {
    rows.iter()
        .filter_map(|row| {
            let capacity = row.facts.capacity.as_ref()?;
            let mut hasher = DefaultHasher::new();
            (&capacity.allocatable, &capacity.allocated, &capacity.allocating).hash(&mut hasher);
            for model in &capacity.models {
                (model.grade, model.count).hash(&mut hasher);
            }
            if let Some(room) = &row.facts.room {
                (&room.resources, &room.labels, room.more).hash(&mut hasher);
                for node in &room.nodes {
                    (node.count, &node.free, &node.labels, &node.taints).hash(&mut hasher);
                }
            }
            Some((row.cluster.to_string(), hasher.finish()))
        })
        .collect()
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
