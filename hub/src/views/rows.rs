//! Rows of the store in the form that the pure views take.

use hub_core::view;
use shared::reason::Reason;
use shared::set::{ConflictResolution, DeleteMode, Entry};
use shared::time::UnixSeconds;
use shared::wire::ApplyState;

use crate::store::{BindingRef, Store, StoreError, fleet};

/// A target as a work row.
pub(super) fn work(store: &Store, target: &fleet::Target) -> view::WorkRow {
    let report = target.report.as_ref().map(|report| {
        // A report about an older content says nothing about the newest one.
        let current = report.digest == target.entry.digest;
        let (applied, reason, message) = if current {
            (report.applied, report.reason.as_str(), report.message.as_str())
        } else {
            let reason = Reason::AwaitingCluster.code();
            (
                ApplyState::Pending,
                reason,
                "the newest content is not applied yet",
            )
        };
        view::WorkReport {
            applied,
            health: report.health,
            reason: reason.to_owned(),
            message: message.to_owned(),
            status: report
                .status
                .as_ref()
                .and_then(|status| serde_json::from_slice(status).ok()),
            observed: report.observed,
        }
    });
    let place = (target.cluster.as_str(), &target.binding, target.id);
    view::WorkRow {
        created: target.created,
        report,
        ..of_entry(store, place, &target.entry)
    }
}

/// What an entry alone tells.
pub(super) fn of_entry(
    store: &Store,
    (cluster, binding, id): (&str, &BindingRef, i64),
    entry: &Entry,
) -> view::WorkRow {
    view::WorkRow {
        cluster: cluster.to_owned(),
        work: entry.work.clone(),
        uid: view::uid(store.fleet(), "work", &id.to_string()),
        key: entry.key.clone(),
        binding_namespace: binding.namespace.clone(),
        binding: binding.name.clone(),
        labels: entry.labels.clone(),
        template_uid: entry.template_uid.clone(),
        template_generation: entry.template_generation,
        overwrites: entry.conflict_resolution == ConflictResolution::Overwrite,
        suspended: entry.suspended,
        preserved: entry.delete_mode == DeleteMode::Release,
        created: UnixSeconds(0),
        report: None,
    }
}

/// Facts as a cluster row.
pub(super) fn cluster(store: &Store, row: &fleet::ClusterRow) -> Result<view::ClusterRow, StoreError> {
    let behind = if row.behind {
        store.held(&row.cluster)?
    } else {
        None
    };
    let ready = row.facts.ready.clone();
    Ok(view::ClusterRow {
        kubernetes_version: row.facts.kubernetes_version.clone(),
        ready: ready.map(|ready| (ready.status, ready.reason, ready.message, ready.since)),
        capacity: row.facts.capacity.clone(),
        last_seen: row.last_seen,
        behind: behind.map(|held| held.head.head.sequence.0),
        held: store
            .still_held(&row.cluster, &row.facts)?
            .into_iter()
            .map(|held| view::HeldRow {
                key: held.key,
                reason: held.reason,
                message: held.message,
                observed: held.observed,
            })
            .collect(),
    })
}
