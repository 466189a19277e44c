//! Adoption: the works that a plan wants become rows, and rows that it no longer wants become tombstones.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};
use shared::ids::{ClusterName, Digest, ObjectKey, Sequence};
use shared::limits as wire_limits;
use shared::set::{DeleteMode, Entry, SetError, Tombstone};

use super::super::error::StoreError;
use super::super::notes::{BindingRef, Row, RowChange, TargetChange};
use super::super::writer::Batch;
use super::super::{Store, limits};
use super::intern::{self, Facet};
use super::sets::{ClusterRow, advance, read_cluster, touch_binding, write_tombstone};
use crate::crash;

/// What one cluster shall hold of one binding from now on.
#[derive(Debug, Clone)]
pub struct Adoption {
    /// The cluster.
    pub cluster: ClusterName,
    /// Works to have, each with its canonical content (whose digest and length the entry names).
    pub upserts: Vec<(Entry, Arc<[u8]>)>,
    /// Works to have no longer. Keys that are not this binding's are left alone.
    pub withdraw: Vec<(ObjectKey, DeleteMode)>,
}

/// Why a cluster's part of an adoption was not done; other clusters' parts are.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdoptRefusal {
    /// No such enrolment, or revoked.
    #[error("cluster {0} is not enrolled")]
    NotEnrolled(ClusterName),
    /// Another binding has a work for this object in this cluster.
    #[error("{key} in {cluster} belongs to binding {by}")]
    KeyTaken {
        /// The cluster.
        cluster: ClusterName,
        /// The object.
        key: ObjectKey,
        /// Who has it.
        by: BindingRef,
    },
    /// Entries and tombstones would be too many, or a field is over its limit.
    #[error("set of {cluster}: {cause}")]
    Set {
        /// The cluster.
        cluster: ClusterName,
        /// What is over.
        cause: SetError,
    },
    /// The content is not what the entry says, or too large.
    #[error("content of {key} for {cluster} does not match its entry, or is larger than {limit} bytes")]
    Content {
        /// The cluster.
        cluster: ClusterName,
        /// The object.
        key: ObjectKey,
        /// The limit.
        limit: usize,
    },
}

impl Store {
    /// Takes works of one binding into the sets of clusters, in one transaction. A cluster gets its next sequence
    /// only if something changed for it. Answers per cluster with the sequence that holds the wanted state.
    ///
    /// A withdrawn entry leaves a tombstone only if a published set of this incarnation held it; a new entry
    /// replaces the tombstone under its key.
    ///
    /// # Errors
    /// The store; then nothing was done for anybody.
    pub async fn adopt(
        &self,
        binding: &BindingRef,
        adoptions: Vec<Adoption>,
    ) -> Result<Vec<(ClusterName, Result<Sequence, AdoptRefusal>)>, StoreError> {
        crash::point("adopt.before");
        let binding = binding.clone();
        let adopted = self
            .call(false, move |batch| {
                let mut answers = Vec::with_capacity(adoptions.len());
                for adoption in adoptions {
                    let cluster = adoption.cluster.clone();
                    answers.push((cluster, adopt_one(batch, &binding, adoption)?));
                }
                Ok(Ok::<_, StoreError>(answers))
            })
            .await;
        crash::point("adopt.after");
        adopted
    }
}

fn adopt_one(
    batch: &mut Batch<'_>,
    binding: &BindingRef,
    adoption: Adoption,
) -> Result<Result<Sequence, AdoptRefusal>, StoreError> {
    let Adoption {
        cluster,
        upserts,
        withdraw,
    } = adoption;
    let Some(row) = read_cluster(batch.db, &cluster)?.filter(|row| !row.revoked) else {
        return Ok(Err(AdoptRefusal::NotEnrolled(cluster)));
    };
    // Everything that can be refused is looked at before anything is written.
    if let Some(refusal) = refusal(batch.db, &cluster, row.id, binding, &upserts)? {
        return Ok(Err(refusal));
    }
    let next = row.sequence.next();
    let mut changed = false;
    let adoption = batch.next_revision();
    let binding_id = intern::binding(batch.db, binding, adoption)?;
    let place = Place {
        cluster: &cluster,
        row: &row,
        binding,
        binding_id,
        next,
    };
    for (key, mode) in &withdraw {
        if !upserts.iter().any(|(entry, _)| entry.key == *key) {
            changed |= withdraw_one(batch, &place, key, *mode)?;
        }
    }
    for (entry, canonical) in &upserts {
        changed |= upsert(batch, &place, entry, canonical, adoption.0)?;
    }
    if !changed {
        return Ok(Ok(row.sequence));
    }
    forget_old_adoptions(batch.db, binding_id)?;
    touch_binding(batch, binding, binding_id)?;
    advance(batch, &cluster, row.id, next)?;
    batch.garbage();
    Ok(Ok(next))
}

fn refusal(
    db: &Connection,
    cluster: &ClusterName,
    id: i64,
    binding: &BindingRef,
    upserts: &[(Entry, Arc<[u8]>)],
) -> Result<Option<AdoptRefusal>, StoreError> {
    let held: i64 = db
        .prepare_cached(
            "SELECT (SELECT count(*) FROM target WHERE cluster = ?1) + (SELECT count(*) FROM tombstone WHERE cluster = ?1)",
        )?
        .query_row(params![id], |row| row.get(0))?;
    let mut total = usize::try_from(held).unwrap_or(usize::MAX);
    for (entry, canonical) in upserts {
        if let Err(cause) = entry.check() {
            return Ok(Some(AdoptRefusal::Set {
                cluster: cluster.clone(),
                cause,
            }));
        }
        let limit = wire_limits::CONTENT_BYTES_MAX;
        if canonical.len() > limit
            || canonical.len() != entry.length as usize
            || Digest::of(canonical) != entry.digest
        {
            return Ok(Some(AdoptRefusal::Content {
                cluster: cluster.clone(),
                key: entry.key.clone(),
                limit,
            }));
        }
        match holder(db, id, &entry.key)? {
            Some(by) if by != *binding => {
                return Ok(Some(AdoptRefusal::KeyTaken {
                    cluster: cluster.clone(),
                    key: entry.key.clone(),
                    by,
                }));
            }
            Some(_) => {}
            None => total += 1,
        }
    }
    if total > wire_limits::SET_ENTRIES_MAX && total > usize::try_from(held).unwrap_or(usize::MAX) {
        let cause = SetError::Full(total);
        return Ok(Some(AdoptRefusal::Set {
            cluster: cluster.clone(),
            cause,
        }));
    }
    Ok(None)
}

/// The binding that has a work for a key in a cluster.
fn holder(db: &Connection, cluster: i64, key: &ObjectKey) -> Result<Option<BindingRef>, StoreError> {
    let Some(okey) = intern::known_okey(db, key)? else {
        return Ok(None);
    };
    Ok(db
        .prepare_cached(
            "SELECT b.namespace, b.name FROM target t JOIN binding b ON b.id = t.binding
             WHERE t.cluster = ?1 AND t.okey = ?2",
        )?
        .query_row(params![cluster, okey], |row| {
            Ok(BindingRef {
                namespace: row.get(0)?,
                name: row.get(1)?,
            })
        })
        .optional()?)
}

/// Where an adoption writes.
struct Place<'a> {
    cluster: &'a ClusterName,
    row: &'a ClusterRow,
    binding: &'a BindingRef,
    binding_id: i64,
    next: Sequence,
}

fn upsert(
    batch: &mut Batch<'_>,
    place: &Place<'_>,
    entry: &Entry,
    canonical: &[u8],
    adoption: u64,
) -> Result<bool, StoreError> {
    let db = batch.db;
    let okey = intern::okey(db, &entry.key)?;
    let facet = intern::facet(db, &Facet::of(entry))?;
    let content = intern::content(db, batch.key, entry, canonical)?;
    let found: Option<(i64, i64, i64)> = db
        .prepare_cached("SELECT id, facet, content FROM target WHERE cluster = ?1 AND okey = ?2")?
        .query_row(params![place.row.id, okey], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .optional()?;
    if found.is_some_and(|(_, old_facet, old_content)| (old_facet, old_content) == (facet, content)) {
        return Ok(false);
    }
    let revision = batch.next_revision();
    let id = match found {
        Some((id, ..)) => {
            db.prepare_cached(
                "UPDATE target SET facet = ?2, content = ?3, changed = ?4, revision = ?5 WHERE id = ?1",
            )?
            .execute(params![
                id,
                facet,
                content,
                place.next.0.cast_signed(),
                revision.0.cast_signed()
            ])?;
            id
        }
        None => {
            // A tombstone that was not reported executed says that the agent may still have the object: an entry that
            // takes its place leaves a tombstone when it is withdrawn, even if it was never published itself.
            let buried: Option<i64> = db
                .prepare_cached("DELETE FROM tombstone WHERE cluster = ?1 AND okey = ?2 RETURNING sequence")?
                .query_row(params![place.row.id, okey], |row| row.get(0))
                .optional()?;
            let since = buried.map_or(place.next, |s| {
                Sequence(s.cast_unsigned()).min(place.row.published)
            });
            db.prepare_cached(
                "INSERT INTO target(cluster, okey, binding, facet, content, since, changed, created, revision)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?9, ?6, ?7, ?8)",
            )?
            .execute(params![
                place.row.id,
                okey,
                place.binding_id,
                facet,
                content,
                place.next.0.cast_signed(),
                batch.now_s,
                revision.0.cast_signed(),
                since.0.cast_signed()
            ])?;
            db.last_insert_rowid()
        }
    };
    db.prepare_cached("INSERT OR IGNORE INTO history(binding, adoption, content) VALUES (?1, ?2, ?3)")?
        .execute(params![place.binding_id, adoption.cast_signed(), content])?;
    let row = Row::Target {
        cluster: place.cluster.clone(),
        binding: place.binding.clone(),
        id,
        change: if found.is_some() {
            TargetChange::Changed
        } else {
            TargetChange::Added
        },
    };
    batch.row_changed(RowChange { revision, row });
    Ok(true)
}

/// Whether there was an entry of this binding.
fn withdraw_one(
    batch: &mut Batch<'_>,
    place: &Place<'_>,
    key: &ObjectKey,
    mode: DeleteMode,
) -> Result<bool, StoreError> {
    let db = batch.db;
    let Some(okey) = intern::known_okey(db, key)? else {
        return Ok(false);
    };
    type Columns = (i64, i64, Vec<u8>, Vec<u8>, u32);
    let found: Option<Columns> = db
        .prepare_cached(
            "SELECT t.id, t.since, f.bytes, x.digest, x.length FROM target t
             JOIN facet f ON f.id = t.facet JOIN content x ON x.id = t.content
             WHERE t.cluster = ?1 AND t.okey = ?2 AND t.binding = ?3",
        )?
        .query_row(params![place.row.id, okey, place.binding_id], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
        })
        .optional()?;
    let Some((id, since, facet, digest, length)) = found else {
        return Ok(false);
    };
    let facet: Facet = intern::decode("bookkeeping of a target", &facet)?;
    let digest = intern::digest("digest of a content", &digest)?;
    let entry = Arc::new(facet.entry(key.clone(), digest, length));
    db.prepare_cached("DELETE FROM target WHERE id = ?1")?
        .execute(params![id])?;
    db.prepare_cached("DELETE FROM report WHERE target = ?1")?
        .execute(params![id])?;
    if since.cast_unsigned() <= place.row.published.0 {
        let tombstone = Tombstone {
            key: key.clone(),
            mode,
            template_uid: entry.template_uid.clone(),
            sequence: place.next,
        };
        write_tombstone(db, place.row.id, okey, &tombstone)?;
    }
    let revision = batch.next_revision();
    let row = Row::Target {
        cluster: place.cluster.clone(),
        binding: place.binding.clone(),
        id,
        change: TargetChange::Removed(entry),
    };
    batch.row_changed(RowChange { revision, row });
    Ok(true)
}

fn forget_old_adoptions(db: &Connection, binding: i64) -> Result<(), StoreError> {
    db.prepare_cached(
        "DELETE FROM history WHERE binding = ?1 AND adoption <= (SELECT DISTINCT adoption FROM history
         WHERE binding = ?1 ORDER BY adoption DESC LIMIT 1 OFFSET ?2)",
    )?
    .execute(params![binding, limits::ADOPTIONS_KEPT.cast_signed()])?;
    Ok(())
}
