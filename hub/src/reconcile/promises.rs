//! What was decided and is not in the clusters' reports yet: learnt from plans, from what clusters say they applied, and
//! from what they report to have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use hub_core::divide::Share;
use serde_json::Value;
use shared::wire::ApplyState;

use super::plan::Planner;
use super::{BindingRef, Promises, Reconciler, binding_resource};
use crate::clock;
use crate::store::StoreError;
use crate::store::fleet::Target;

impl Reconciler {
    fn with_ledger<T>(&self, look: impl FnOnce(&mut Promises) -> T) -> T {
        look(&mut self.promises.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A decision promises what it gives: the next template sees it taken.
    pub(super) fn promise(
        &self,
        planner: &mut Planner,
        binding: &BindingRef,
        stored: Option<&Value>,
        planned: Option<&Value>,
    ) {
        let added =
            self.with_ledger(|promises| promises.decided(&binding.namespace, &binding.name, stored, planned));
        planner.promise(&added);
    }

    /// The decision was not stored.
    pub(super) fn promised_for_nothing(
        &self,
        binding: &BindingRef,
        targets: &[Share],
        stored: Option<&Value>,
    ) {
        let planned = targets.iter().map(|share| share.cluster.as_str());
        self.with_ledger(|promises| promises.undone(&binding.namespace, &binding.name, planned, stored));
    }

    /// What clusters said of their copies of a binding.
    pub(super) fn promises_applied(&self, binding: &BindingRef, targets: &[Target]) {
        let has_it = |target: &&Target| {
            let report = target.report.as_ref();
            report.is_some_and(|report| {
                report.digest == target.entry.digest && report.applied == ApplyState::Applied
            })
        };
        let clusters = targets
            .iter()
            .filter(has_it)
            .map(|target| target.cluster.as_str());
        let now = clock::monotonic();
        self.with_ledger(|promises| promises.applied(&binding.namespace, &binding.name, clusters, now));
    }

    /// These clusters reported what they have and use.
    pub(super) fn promises_reported(&self, clusters: &BTreeSet<String>) {
        let now = clock::monotonic();
        self.with_ledger(|promises| {
            clusters
                .iter()
                .for_each(|cluster| promises.reported(cluster, now))
        });
    }

    /// Ends what time ends, and tries again what waited for the room.
    pub(super) fn settle_promises(&self) {
        self.with_ledger(|promises| promises.settle(clock::monotonic()));
        self.retry_where_freed();
    }

    /// What waits for room in clusters to which less is promised now may fit.
    pub(super) fn retry_where_freed(&self) {
        let freed = self.with_ledger(|promises| promises.freed().clone());
        if !freed.is_empty() {
            self.room_changed_in(&freed);
        }
    }

    /// Clusters whose room is to be counted anew.
    pub(super) fn take_freed(&self) -> BTreeSet<String> {
        self.with_ledger(Promises::take_freed)
    }

    /// After a start: what no report confirms is promised.
    pub(super) fn restore_promises(&self) -> Result<(), StoreError> {
        let mut by_binding: BTreeMap<BindingRef, Vec<String>> = BTreeMap::new();
        for (binding, cluster) in self.store.unconfirmed(clock::wall())? {
            by_binding
                .entry(binding)
                .or_default()
                .push(cluster.as_str().to_owned());
        }
        for (binding, clusters) in by_binding {
            let stored = self
                .store
                .get(&binding_resource(&binding), &binding.namespace, &binding.name);
            let Some(stored) = stored.map(|stored| stored.value()) else {
                continue;
            };
            let clusters = clusters.iter().map(String::as_str);
            self.with_ledger(|promises| {
                promises.restored(&binding.namespace, &binding.name, &stored, clusters);
            });
        }
        Ok(())
    }
}
