//! Keeps the fleet in step with the store: stages 5 to 9 on the way down, 20 on the way back.
//!
//! Named tasks, each with a timer and a poke, never an input:
//! - *plan* plans marked templates, stores their bindings and adopts their works;
//! - *status* aggregates what clusters reported onto marked templates;
//! - *liveness* looks who is there and records the condition Ready.
//!
//! - *rebalance* carries out WorkloadRebalancers;
//! - *failover* has templates planned again whose copies may have to move;
//! - *services* says of multi-cluster services what is not done for them;
//! - *quotas* keeps the status of federated quotas, and sends their static assignments.
//!
//! Another one, *feed*, follows the store's history and marks what changed. Marks may be lost: every start and a timer
//! mark everything, and planning everything gives the same as planning what changed. Every step can be killed and
//! run again. One object's trouble delays no other: what fails is marked again with a growing wait.

mod conditions;
mod dirty;
mod events;
mod explain;
mod explain_gone;
mod explain_policy;
mod explain_wire;
mod failover;
mod feed;
mod held;
mod limits;
mod liveness;
mod metadata;
mod own_writes;
mod plan;
mod policies;
mod presence;
mod promises;
mod quotas;
mod rebalance;
mod render;
mod services;
mod status;
mod steer;
mod taints;
mod waiting;
mod world;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use hub_core::breaker;
use hub_core::failover::step;
use hub_core::liveness::Thresholds;
use hub_core::promises::Promises;
use interpreter::Customized;
use shared::ids::{ClusterName, ObjectKey};

use crate::clock;
use crate::metrics::Metrics;
use crate::store::{BindingRef, ResourceId, Store, StoreError};

pub use explain::{ExplainError, explain};
pub use explain_gone::explain_gone;
pub use held::HeldChange;
pub use presence::{Presence, Turned};
pub use render::rendering;
pub use status::seen;

use dirty::Dirty;
use own_writes::OwnWrites;
use waiting::Waiting;

/// What an operator may set.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `--status-grace`: a cluster silent for longer no longer holds a template's status back.
    pub status_grace: Duration,
    /// `--skipped-propagating-namespaces`: namespaces that are not sent to the members by themselves.
    pub skipped_namespaces: Vec<String>,
    /// `--federated-quota-enforcement`: quotas hold scheduling back, not only show what is used.
    pub quotas_enforced: bool,
    /// `--taint-unreachable`: a cluster that is not Ready gets a NoSchedule taint.
    pub taint_unreachable: bool,
    /// How copies are moved away from trouble.
    pub failover: step::Settings,
    /// `--resource-eviction-rate`: milliseconds between two copies that taints drive away.
    pub eviction_pause_ms: u64,
    /// `--mass-delete-*`: from where on a change that deletes waits to be confirmed.
    pub mass_delete: breaker::Limits,
    /// What is younger than this may go again without counting.
    pub mass_delete_age: Duration,
    /// Everything is looked at again this often.
    pub resync_every: Duration,
    /// How long a cluster must be back or away before its condition says so.
    pub thresholds: Thresholds,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            status_grace: limits::STATUS_GRACE,
            skipped_namespaces: Vec::new(),
            quotas_enforced: true,
            taint_unreachable: false,
            failover: step::Settings::default(),
            eviction_pause_ms: hub_core::failover::eviction_delay(hub_core::failover::EVICTION_RATE),
            mass_delete: breaker::Limits::default(),
            mass_delete_age: Duration::from_millis(breaker::WINDOW.0),
            resync_every: limits::RESYNC_EVERY,
            thresholds: Thresholds::default(),
        }
    }
}

/// Where an object is stored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct TemplateKey {
    resource: ResourceId,
    namespace: String,
    name: String,
}

/// The reconcilers of a hub. They hold nothing that cannot be rebuilt from the store.
pub struct Reconciler {
    store: Store,
    /// Rules of kinds; the scripts in it follow the stored customizations.
    interpreter: Arc<Customized>,
    presence: Arc<Presence>,
    settings: Settings,
    /// Clusters whose enrolment was revoked, as of the last look.
    revoked: RwLock<BTreeSet<ClusterName>>,
    templates: Dirty<TemplateKey>,
    bindings: Dirty<BindingRef>,
    /// Clusters joined, left, or told something new of themselves.
    clusters: Dirty<()>,
    /// WorkloadRebalancers changed.
    rebalancers: Dirty<()>,
    /// Multi-cluster services changed.
    services: Dirty<()>,
    /// What taints of clusters follow from changed.
    tainting: Dirty<()>,
    /// Bindings that failover concerns.
    watches: failover::Watches,
    /// Those of them that clusters reported about.
    reported: Dirty<BindingRef>,
    /// Federated quotas, or what they count, changed.
    quotas: Dirty<()>,
    /// Policies, clusters or what clusters serve may differ from the world last read.
    world_changed: AtomicBool,
    /// Only what clusters have and use differs.
    room_changed: AtomicBool,
    /// What was decided and is not in the clusters' reports yet.
    promises: Mutex<Promises>,
    /// Templates that could not be placed.
    waiting: Waiting,
    /// Holds what would delete too much.
    breaker: Mutex<breaker::Breaker>,
    own_writes: OwnWrites<BindingRef>,
    /// The same for claims that are noted on templates.
    own_claims: OwnWrites<TemplateKey>,
    /// The same for statuses.
    own_statuses: OwnWrites<TemplateKey>,
    /// Policies that may.
    steered: Mutex<steer::Steered>,
    metrics: Metrics,
    /// Which binding an object has; filled by the plan's full pass, kept by each plan.
    bound: Mutex<HashMap<ObjectKey, BindingRef>>,
    /// Group and kind to where its objects are stored.
    kinds: Mutex<BTreeMap<(String, String), ResourceId>>,
}

impl std::fmt::Debug for Reconciler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reconciler")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Reconciler {
    /// Reconcilers over a store. Nothing happens before [`Reconciler::run`].
    pub fn new(
        store: Store,
        interpreter: Arc<Customized>,
        presence: Arc<Presence>,
        settings: Settings,
    ) -> Self {
        let breaker = Mutex::new(breaker::Breaker::new(settings.mass_delete, first_id()));
        Self {
            store,
            interpreter,
            presence,
            settings,
            revoked: RwLock::default(),
            templates: Dirty::default(),
            bindings: Dirty::default(),
            clusters: Dirty::default(),
            rebalancers: Dirty::default(),
            services: Dirty::default(),
            tainting: Dirty::default(),
            watches: failover::Watches::default(),
            reported: Dirty::default(),
            quotas: Dirty::default(),
            world_changed: AtomicBool::new(true),
            room_changed: AtomicBool::new(false),
            steered: Mutex::default(),
            promises: Mutex::default(),
            waiting: Waiting::default(),
            breaker,
            own_writes: OwnWrites::default(),
            own_claims: OwnWrites::default(),
            own_statuses: OwnWrites::default(),
            metrics: Metrics::default(),
            bound: Mutex::default(),
            kinds: Mutex::default(),
        }
    }

    /// The planner's counters.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Runs until the store is closed. Dropping the future stops everything at once; nothing is lost by it.
    pub async fn run(&self) {
        self.mark_everything();
        tokio::select! {
            () = self.follow() => {}
            () = self.plan_forever() => {}
            () = self.status_forever() => {}
            () = self.liveness_forever() => {}
            () = self.failover_forever() => {}
            () = self.services_forever() => {}
            () = self.rebalance_forever() => {}
            () = self.quotas_forever() => {}
        }
    }

    fn mark_everything(&self) {
        self.mark_world();
        self.bindings.mark_all();
        self.clusters.mark([()]);
        self.tainting.mark([()]);
        self.services.mark([()]);
        self.rebalancers.mark([()]);
        self.quotas.mark([()]);
    }

    /// The world changed, so every template is planned again.
    fn mark_world(&self) {
        self.world_changed.store(true, Ordering::SeqCst);
        self.templates.mark_all();
    }

    /// Where objects of a kind are stored; `None` if the store holds none of it.
    fn resource_of(&self, group: &str, kind: &str) -> Option<ResourceId> {
        let wanted = (group.to_owned(), kind.to_owned());
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = kinds.get(&wanted) {
            return Some(found.clone());
        }
        for resource in self.store.resources() {
            if kinds.values().any(|known| *known == resource) {
                continue;
            }
            let first = self.store.list(&resource, None).items.into_iter().next();
            if let Some(key) = first.and_then(|object| shared::object::key(&object.value())) {
                kinds.insert((key.group, key.kind), resource);
            }
        }
        kinds.get(&wanted).cloned()
    }

    fn binding_of(&self, key: &ObjectKey) -> Option<BindingRef> {
        self.bound
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(key)
            .cloned()
    }

    fn note_bound(&self, key: &ObjectKey, binding: Option<BindingRef>) {
        let mut bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        match binding {
            Some(binding) => bound.insert(key.clone(), binding),
            None => bound.remove(key),
        };
    }
}

/// The resource that stores a binding.
fn binding_resource(binding: &BindingRef) -> ResourceId {
    let plural = if binding.namespace.is_empty() {
        "clusterresourcebindings"
    } else {
        "resourcebindings"
    };
    ResourceId::new("work.karmada.io", plural)
}

/// Ids of held changes begin elsewhere after every start, so that none confirms another change than it was shown for.
fn first_id() -> u32 {
    u32::try_from(clock::wall().0.rem_euclid(1_000_000)).unwrap_or_default() * 1_000
}

/// A number that differs between processes and moments; only for jitter.
fn noise() -> u64 {
    clock::monotonic().0 ^ u64::from(std::process::id()).wrapping_mul(0x9e37_79b9)
}

/// One line per kind of trouble of the store; the pass is tried again.
fn report_trouble(task: &'static str, what: &str, error: &StoreError) {
    tracing::warn!(task, what, %error, "tried again later");
}
