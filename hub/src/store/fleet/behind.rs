//! `HubBehind`: an agent holds a set that this hub does not know, because the hub's state is older than the agent's.
//! Nothing is shipped until somebody decides.

use hub_core::ship::Winner;
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};
use shared::ids::{ClusterName, Sequence};
use shared::set::{Entry, Set, SignedHead, Tombstone};

use super::super::Store;
use super::super::error::StoreError;
use super::super::writer::Batch;
use super::enrolment::cluster_changed;
use super::intern;
use super::sets::{ClusterRow, advance, following, read_cluster, write_head, write_tombstone};

/// What an agent holds that this hub does not know.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldSet {
    /// The signed head of its hello.
    pub head: SignedHead,
    /// The set, once it was fetched.
    pub set: Option<Set>,
}

/// Why the hub's state cannot be pushed over what a member holds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PushRefusal {
    /// No such enrolment.
    #[error("cluster {0} is not enrolled")]
    NotEnrolled(ClusterName),
    /// It is not `HubBehind`.
    #[error("the hub is not behind cluster {0}; there is nothing to reconcile")]
    NotBehind(ClusterName),
    /// The agent has not sent its entries yet.
    #[error("the entries that cluster {0} holds are not known yet; wait until its agent is connected")]
    NotFetched(ClusterName),
}

/// Form on disk.
#[derive(Serialize, Deserialize)]
struct Kept {
    head: SignedHead,
    set: Option<(Vec<Entry>, Vec<Tombstone>)>,
}

impl Store {
    /// Notes what an agent holds (`HubBehind`), or with none that the hub is not behind.
    ///
    /// # Errors
    /// The store.
    pub async fn hold(&self, cluster: &ClusterName, held: Option<HeldSet>) -> Result<(), StoreError> {
        let cluster = cluster.clone();
        self.call(false, move |batch| {
            let kept = held.as_ref().map(encode).transpose()?;
            let changed = batch
                .db
                .prepare_cached("UPDATE cluster SET held = ?2 WHERE name = ?1 AND held IS NOT ?2")?
                .execute(params![cluster.as_str(), kept])?;
            if changed > 0 {
                cluster_changed(batch, &cluster)?;
            }
            Ok(Ok(()))
        })
        .await
    }

    /// What an agent holds that this hub does not know; none: the hub is not behind.
    ///
    /// # Errors
    /// The store.
    pub fn held(&self, cluster: &ClusterName) -> Result<Option<HeldSet>, StoreError> {
        read_held(&self.reader(), cluster)
    }

    /// Somebody decided: what the member holds and the hub does not want becomes tombstones, which delete or only release
    /// as `winner` says, and the next sequence is above both sides'. Ends `HubBehind`. Returns that sequence.
    ///
    /// # Errors
    /// The store; a refusal is the inner result.
    pub async fn push_hub(
        &self,
        cluster: &ClusterName,
        winner: Winner,
    ) -> Result<Result<Sequence, PushRefusal>, StoreError> {
        let cluster = cluster.clone();
        self.call(false, move |batch| {
            let Some(row) = read_cluster(batch.db, &cluster)? else {
                return Ok(Ok(Err(PushRefusal::NotEnrolled(cluster))));
            };
            let Some(held) = read_held(batch.db, &cluster)? else {
                return Ok(Ok(Err(PushRefusal::NotBehind(cluster))));
            };
            let Some(set) = held.set else {
                return Ok(Ok(Err(PushRefusal::NotFetched(cluster))));
            };
            Ok(Ok(Ok(push(batch, &cluster, &row, &held.head, &set, winner)?)))
        })
        .await
    }
}

fn push(
    batch: &mut Batch<'_>,
    cluster: &ClusterName,
    row: &ClusterRow,
    head: &SignedHead,
    held: &Set,
    winner: Winner,
) -> Result<Sequence, StoreError> {
    let theirs = head.head.sequence;
    let next = row
        .sequence
        .max(theirs)
        .max(row.published)
        .next()
        .max(following(batch, row));
    let ours = batch.standings.take(batch.db, batch.sets, row.id)?;
    // What the agent holds counts as published: withdrawn later, it leaves a tombstone.
    batch
        .db
        .prepare_cached("UPDATE target SET since = ?2, changed = ?2 WHERE cluster = ?1")?
        .execute(params![row.id, next.0.cast_signed()])?;
    for entry in held.entries() {
        let okey = intern::okey(batch.db, &entry.key)?;
        if ours.slot(&entry.key).is_some() {
            batch
                .db
                .prepare_cached("UPDATE target SET since = ?3 WHERE cluster = ?1 AND okey = ?2")?
                .execute(params![row.id, okey, theirs.0.cast_signed()])?;
        } else {
            let tombstone = Tombstone {
                key: entry.key.clone(),
                mode: winner.ends(entry.delete_mode),
                template_uid: entry.template_uid.clone(),
                sequence: next,
            };
            write_tombstone(batch.db, row.id, okey, &tombstone)?;
        }
    }
    for tombstone in held.tombstones() {
        if ours.slot(&tombstone.key).is_none() && !ours.is_buried(&tombstone.key) {
            let okey = intern::okey(batch.db, &tombstone.key)?;
            write_tombstone(batch.db, row.id, okey, tombstone)?;
        }
    }
    write_head(batch.db, row.id, theirs, &head.head.digest)?;
    batch
        .db
        .prepare_cached("UPDATE cluster SET published = ?2, acked = ?2, held = NULL WHERE id = ?1")?
        .execute(params![row.id, theirs.0.cast_signed()])?;
    // Its rows were changed past what is kept in memory.
    batch.standings.forget(row.id);
    advance(batch, cluster, row.id, next)?;
    cluster_changed(batch, cluster)?;
    Ok(next)
}

fn read_held(db: &Connection, cluster: &ClusterName) -> Result<Option<HeldSet>, StoreError> {
    let bytes: Option<Option<Vec<u8>>> = db
        .prepare_cached("SELECT held FROM cluster WHERE name = ?1")?
        .query_row(params![cluster.as_str()], |row| row.get(0))
        .optional()?;
    let Some(bytes) = bytes.flatten() else {
        return Ok(None);
    };
    let kept: Kept = intern::decode("held set of a cluster", &bytes)?;
    let set = kept
        .set
        .map(|(entries, tombstones)| {
            Set::new(entries.into_iter().map(Into::into).collect(), tombstones).map_err(|cause| {
                StoreError::Corrupt {
                    what: format!("held set of {cluster}"),
                    cause: cause.to_string(),
                }
            })
        })
        .transpose()?;
    Ok(Some(HeldSet { head: kept.head, set }))
}

fn encode(held: &HeldSet) -> Result<Vec<u8>, StoreError> {
    let set = held.set.as_ref().map(|set| {
        let entries = set.entries().iter().map(|entry| Entry::clone(entry)).collect();
        (entries, set.tombstones().to_vec())
    });
    intern::encode(&Kept {
        head: held.head.clone(),
        set,
    })
}
