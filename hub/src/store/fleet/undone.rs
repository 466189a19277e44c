//! Ordered deletions that an agent has not carried out, and what it says of them: refused by its guard, held for foreign
//! content, waiting for a finalizer. The target row is gone by then, and often template and binding too.

use rusqlite::{OptionalExtension, params};
use serde::{Deserialize, Serialize};
use shared::ids::{ClusterName, ObjectKey, Sequence};
use shared::reason::{Code, Reason};
use shared::time::UnixSeconds;
use shared::wire::{ApplyState, ObjectReport};

use super::super::Store;
use super::super::error::StoreError;
use super::super::limits::{HELD_DELETIONS, HELD_MESSAGE_BYTES};
use super::super::writer::Batch;
use super::enrolment::{cluster_changed, of_json, to_json};
use super::facts::ClusterFacts;
use super::reports::report_code;
use super::targets::tombstones;
use super::{intern, sets};

/// A deletion that was ordered and is not carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldDeletion {
    /// The object.
    pub key: ObjectKey,
    /// Sequence of the order.
    pub sequence: Sequence,
    /// Stable code of what stands in the way.
    pub reason: String,
    /// For people; empty for Secrets.
    pub message: String,
    /// Since when it has been so, by the hub's clock.
    pub observed: UnixSeconds,
    /// It has been so at least since then.
    pub observed_is_bound: bool,
}

impl HeldDeletion {
    /// Stable code of what stands in the way.
    #[must_use]
    pub fn code(&self) -> Code {
        report_code(&self.reason)
    }
}

impl Store {
    /// What an agent says of the orders to delete that it has not carried out, by key. An order that was taken back, or is
    /// not told of yet, is not among them.
    ///
    /// # Errors
    /// The store.
    pub fn held_deletions(&self, cluster: &ClusterName) -> Result<Vec<HeldDeletion>, StoreError> {
        let Some(row) = self.facts(cluster)? else {
            return Ok(Vec::new());
        };
        self.still_held(cluster, &row.facts)
    }

    /// The same from facts that were read already.
    pub(crate) fn still_held(
        &self,
        cluster: &ClusterName,
        facts: &ClusterFacts,
    ) -> Result<Vec<HeldDeletion>, StoreError> {
        if facts.held_deletions.is_empty() {
            return Ok(Vec::new());
        }
        let orders = self.tombstones_on(cluster)?;
        let mut held = facts.held_deletions.clone();
        held.retain(|held| {
            let mut orders = orders.iter().map(|order| &order.tombstone);
            orders.any(|order| order.key == held.key && order.sequence == held.sequence)
        });
        Ok(held)
    }
}

/// Notes what a report says of objects that are no targets any more. `orders_ended`: it also said of others that they
/// are gone.
pub(super) fn note(
    batch: &mut Batch<'_>,
    cluster: &ClusterName,
    row: &sets::ClusterRow,
    objects: &[&ObjectReport],
    orders_ended: bool,
    now: UnixSeconds,
) -> Result<(), StoreError> {
    if objects.is_empty() && !orders_ended {
        return Ok(());
    }
    let text: Option<Option<String>> = batch
        .db
        .prepare_cached("SELECT facts FROM cluster WHERE id = ?1")?
        .query_row(params![row.id], |row| row.get(0))
        .optional()?;
    let mut facts: ClusterFacts = text.flatten().map_or_else(
        || Ok(ClusterFacts::default()),
        |text| of_json("facts of a cluster", &text),
    )?;
    if objects.is_empty() && facts.held_deletions.is_empty() {
        return Ok(());
    }
    let before = facts.held_deletions.clone();
    let orders = tombstones(batch.db, row.id)?;
    for object in objects {
        let Some(order) = orders.iter().find(|order| order.key == object.key) else {
            continue;
        };
        let waits = object.applied != ApplyState::Applied && object.reason.known() != Some(Reason::Pending);
        if waits {
            facts.held_deletions.retain(|held| held.key != object.key);
            facts.held_deletions.push(held(object, order.sequence, now));
        }
    }
    facts.held_deletions.retain(|held| {
        let mut orders = orders.iter();
        orders.any(|order| order.key == held.key && order.sequence == held.sequence)
    });
    facts.held_deletions.sort_by(|a, b| a.key.cmp(&b.key));
    facts.held_deletions.truncate(HELD_DELETIONS);
    let same = |a: &HeldDeletion, b: &HeldDeletion| {
        (&a.key, a.sequence, &a.reason, &a.message) == (&b.key, b.sequence, &b.reason, &b.message)
    };
    let unchanged = before.len() == facts.held_deletions.len()
        && before.iter().zip(&facts.held_deletions).all(|(a, b)| same(a, b));
    if unchanged {
        // An age that is told again is no change.
        return Ok(());
    }
    batch
        .db
        .prepare_cached("UPDATE cluster SET facts = ?2 WHERE id = ?1")?
        .execute(params![row.id, to_json(&facts)?])?;
    cluster_changed(batch, cluster)
}

fn held(object: &ObjectReport, sequence: Sequence, now: UnixSeconds) -> HeldDeletion {
    // Facts are not encrypted: words about a Secret stay out of them.
    let secret = object.key.group.is_empty() && object.key.kind == "Secret";
    let mut message = if secret {
        String::new()
    } else {
        object.message.clone()
    };
    if message.len() > HELD_MESSAGE_BYTES {
        message.truncate(message.floor_char_boundary(HELD_MESSAGE_BYTES));
    }
    let age_s = i64::try_from(object.age_ms / 1_000).unwrap_or(i64::MAX);
    HeldDeletion {
        key: object.key.clone(),
        sequence,
        reason: object.reason.as_str().to_owned(),
        message,
        observed: UnixSeconds(now.0.saturating_sub(age_s).max(0)),
        observed_is_bound: object.age_is_lower_bound,
    }
}

/// Whether an order to delete an object waits in a cluster.
pub(super) fn is_ordered(batch: &Batch<'_>, cluster: i64, key: &ObjectKey) -> Result<bool, StoreError> {
    let Some(okey) = intern::known_okey(batch.db, key)? else {
        return Ok(false);
    };
    Ok(batch
        .db
        .prepare_cached("SELECT 1 FROM tombstone WHERE cluster = ?1 AND okey = ?2")?
        .exists(params![cluster, okey])?)
}
