//! Adoption: the works that a plan wants become rows, and rows that it no longer wants become tombstones.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};
use shared::ids::{ClusterName, Digest, ObjectKey, Sequence};
use shared::limits as wire_limits;
use shared::set::{DeleteMode, Entry, SetError, Tombstone};

use super::super::error::StoreError;
use super::super::notes::{BindingRef, Row, RowChange, TargetChange};
use super::super::object::Revision;
use super::super::writer::Batch;
use super::super::{Store, limits};
use super::intern::{self, Facet};
use super::sets::{ClusterRow, advance, following, read_cluster, touch_binding, write_tombstone};
use super::standing::{Slot, Standing};
use crate::crash;

/// What one cluster shall hold of one binding from now on.
#[derive(Debug, Clone)]
pub struct Adoption {
    /// The cluster.
    pub cluster: ClusterName,
    /// Works to have, each with its canonical content (whose digest and length the entry names).
    /// Clusters that shall hold the same share the value.
    pub upserts: Vec<(Arc<Entry>, Arc<[u8]>)>,
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
    /// The change would take too much out of the fleet; the planner asks for nothing before it is confirmed.
    #[error(
        "{key} stays in {cluster}: with what else is deleted this is over the limit; check it, then `pinnace confirm {id}`"
    )]
    Held {
        /// The cluster.
        cluster: ClusterName,
        /// The object.
        key: ObjectKey,
        /// What to confirm.
        id: u32,
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
        let binding = Arc::new(binding.clone());
        let adopted = self
            .call(false, move |batch| {
                let mut call = Call::new(batch.db, binding)?;
                let mut answers = Vec::with_capacity(adoptions.len());
                // Kept until all is done: entries and contents are told apart by where they are.
                for adoption in &adoptions {
                    let answer = call.one(batch, adoption)?;
                    answers.push((adoption.cluster.clone(), answer));
                }
                call.finish(batch)?;
                Ok(Ok::<_, StoreError>(answers))
            })
            .await;
        crash::point("adopt.after");
        adopted
    }
}

/// One entry with its content, as numbers.
#[derive(Clone)]
struct Known {
    okey: i64,
    facet: i64,
    content: i64,
    own: Digest,
    entry: Arc<Entry>,
}

/// The adoption of one binding for all its clusters.
struct Call {
    binding: Arc<BindingRef>,
    /// Its number, once it has one.
    id: Option<i64>,
    /// Number of this adoption in the binding's history.
    adoption: Option<Revision>,
    /// What is the same for many clusters, by the places of entry and content.
    known: HashMap<(usize, usize), Known>,
    /// Contents that are in the history under this adoption.
    remembered: HashSet<i64>,
    changed: bool,
}

/// Where an adoption writes.
struct Place<'a> {
    cluster: &'a ClusterName,
    row: &'a ClusterRow,
    binding: i64,
    next: Sequence,
}

fn place_of(entry: &Arc<Entry>, content: &Arc<[u8]>) -> (usize, usize) {
    (Arc::as_ptr(entry).addr(), content.as_ptr().addr())
}

impl Call {
    fn new(db: &Connection, binding: Arc<BindingRef>) -> Result<Self, StoreError> {
        Ok(Self {
            id: intern::known_binding(db, &binding)?,
            binding,
            adoption: None,
            known: HashMap::new(),
            remembered: HashSet::new(),
            changed: false,
        })
    }

    fn one(
        &mut self,
        batch: &mut Batch<'_>,
        adoption: &Adoption,
    ) -> Result<Result<Sequence, AdoptRefusal>, StoreError> {
        let cluster = &adoption.cluster;
        // What is taken from a revoked cluster is only forgotten; nothing new is put there.
        let listens = |row: &ClusterRow| !row.revoked || adoption.upserts.is_empty();
        let Some(row) = read_cluster(batch.db, cluster)?.filter(listens) else {
            return Ok(Err(AdoptRefusal::NotEnrolled(cluster.clone())));
        };
        let mut standing = batch.standings.take(batch.db, batch.sets, row.id)?;
        let adopted = self.into(batch, adoption, &row, &mut standing);
        batch.standings.give_back(row.id, standing);
        adopted
    }

    fn into(
        &mut self,
        batch: &mut Batch<'_>,
        adoption: &Adoption,
        row: &ClusterRow,
        standing: &mut Standing,
    ) -> Result<Result<Sequence, AdoptRefusal>, StoreError> {
        let Adoption {
            cluster,
            upserts,
            withdraw,
        } = adoption;
        // Everything that can be refused is looked at before anything is written.
        if let Some(refusal) = self.refusal(batch.db, cluster, standing, upserts)? {
            return Ok(Err(refusal));
        }
        let number = match self.id {
            Some(id) => id,
            None => {
                let revision = batch.next_revision();
                *self
                    .id
                    .insert(intern::binding(batch.db, &self.binding, revision)?)
            }
        };
        let place = Place {
            cluster,
            row,
            binding: number,
            next: following(batch, row),
        };
        let mut changed = false;
        for (key, mode) in withdraw {
            if !upserts.iter().any(|(entry, _)| entry.key == *key) {
                changed |= self.withdraw(batch, &place, standing, key, *mode)?;
            }
        }
        for (entry, content) in upserts {
            changed |= self.upsert(batch, &place, standing, entry, content)?;
        }
        if !changed {
            return Ok(Ok(row.sequence));
        }
        self.changed = true;
        advance(batch, cluster, row.id, place.next)?;
        Ok(Ok(place.next))
    }

    /// What all clusters' parts leave to be done once.
    fn finish(&self, batch: &mut Batch<'_>) -> Result<(), StoreError> {
        if let (true, Some(id)) = (self.changed, self.id) {
            forget_old_adoptions(batch.db, id)?;
            touch_binding(batch, &self.binding, id)?;
            batch.garbage();
        }
        Ok(())
    }

    fn refusal(
        &self,
        db: &Connection,
        cluster: &ClusterName,
        standing: &Standing,
        upserts: &[(Arc<Entry>, Arc<[u8]>)],
    ) -> Result<Option<AdoptRefusal>, StoreError> {
        let held = standing.len();
        let mut total = held;
        for (entry, canonical) in upserts {
            if !self.known.contains_key(&place_of(entry, canonical))
                && let Some(refusal) = malformed(cluster, entry, canonical)
            {
                return Ok(Some(refusal));
            }
            match standing.slot(&entry.key) {
                Some(slot) if Some(slot.binding) != self.id => {
                    return Ok(Some(AdoptRefusal::KeyTaken {
                        cluster: cluster.clone(),
                        key: entry.key.clone(),
                        by: intern::binding_of(db, slot.binding)?,
                    }));
                }
                Some(_) => {}
                None => total += 1,
            }
        }
        if total > wire_limits::SET_ENTRIES_MAX && total > held {
            let cause = SetError::Full(total);
            return Ok(Some(AdoptRefusal::Set {
                cluster: cluster.clone(),
                cause,
            }));
        }
        Ok(None)
    }

    fn numbers(
        &mut self,
        batch: &Batch<'_>,
        entry: &Arc<Entry>,
        content: &Arc<[u8]>,
    ) -> Result<Known, StoreError> {
        let place = place_of(entry, content);
        if let Some(known) = self.known.get(&place) {
            return Ok(known.clone());
        }
        let (db, own) = (batch.db, entry.own_digest());
        let known = Known {
            okey: intern::okey(db, &entry.key)?,
            facet: intern::facet(db, &Facet::of(entry))?,
            content: intern::content(db, batch.key, entry, content)?,
            own,
            entry: batch.sets.share(own, entry.clone()),
        };
        self.known.insert(place, known.clone());
        Ok(known)
    }

    fn upsert(
        &mut self,
        batch: &mut Batch<'_>,
        place: &Place<'_>,
        standing: &mut Standing,
        entry: &Arc<Entry>,
        content: &Arc<[u8]>,
    ) -> Result<bool, StoreError> {
        let db = batch.db;
        let known = self.numbers(batch, entry, content)?;
        let found = standing.slot(&known.entry.key).map(|slot| (slot.id, slot.own));
        if found.is_some_and(|(_, own)| own == known.own) {
            return Ok(false);
        }
        let revision = batch.next_revision();
        let id = match found {
            Some((id, _)) => {
                db.prepare_cached(
                    "UPDATE target SET facet = ?2, content = ?3, changed = ?4, revision = ?5 WHERE id = ?1",
                )?
                .execute(params![
                    id,
                    known.facet,
                    known.content,
                    place.next.0.cast_signed(),
                    revision.0.cast_signed()
                ])?;
                id
            }
            None => insert(batch, place, standing, &known, revision)?,
        };
        standing.put(Slot {
            entry: known.entry,
            own: known.own,
            id,
            binding: place.binding,
        });
        if self.remembered.insert(known.content) {
            let adoption = *self.adoption.get_or_insert(revision);
            db.prepare_cached(
                "INSERT OR IGNORE INTO history(binding, adoption, content) VALUES (?1, ?2, ?3)",
            )?
            .execute(params![place.binding, adoption.0.cast_signed(), known.content])?;
        }
        let change = if found.is_some() {
            TargetChange::Changed
        } else {
            TargetChange::Added
        };
        self.tell(batch, place, revision, id, change);
        Ok(true)
    }

    /// Whether there was an entry of this binding.
    fn withdraw(
        &self,
        batch: &mut Batch<'_>,
        place: &Place<'_>,
        standing: &mut Standing,
        key: &ObjectKey,
        mode: DeleteMode,
    ) -> Result<bool, StoreError> {
        if standing
            .slot(key)
            .is_none_or(|slot| slot.binding != place.binding)
        {
            return Ok(false);
        }
        let Some(slot) = standing.remove(key) else {
            return Ok(false);
        };
        let db = batch.db;
        let (okey, since): (i64, i64) = db
            .prepare_cached("DELETE FROM target WHERE id = ?1 RETURNING okey, since")?
            .query_row(params![slot.id], |row| Ok((row.get(0)?, row.get(1)?)))?;
        db.prepare_cached("DELETE FROM report WHERE target = ?1")?
            .execute(params![slot.id])?;
        if since.cast_unsigned() <= place.row.published.0 && !place.row.revoked {
            let tombstone = Tombstone {
                key: key.clone(),
                mode,
                template_uid: slot.entry.template_uid.clone(),
                sequence: place.next,
            };
            write_tombstone(db, place.row.id, okey, &tombstone)?;
            standing.bury(tombstone);
        }
        let revision = batch.next_revision();
        self.tell(batch, place, revision, slot.id, TargetChange::Removed(slot.entry));
        Ok(true)
    }

    fn tell(
        &self,
        batch: &mut Batch<'_>,
        place: &Place<'_>,
        revision: Revision,
        id: i64,
        change: TargetChange,
    ) {
        let row = Row::Target {
            cluster: place.cluster.clone(),
            binding: self.binding.clone(),
            id,
            change,
        };
        batch.row_changed(RowChange { revision, row });
    }
}

/// What is wrong with an entry and its content, wherever it goes.
fn malformed(cluster: &ClusterName, entry: &Entry, canonical: &[u8]) -> Option<AdoptRefusal> {
    if let Err(cause) = entry.check() {
        return Some(AdoptRefusal::Set {
            cluster: cluster.clone(),
            cause,
        });
    }
    let limit = wire_limits::CONTENT_BYTES_MAX;
    let fits = canonical.len() <= limit
        && canonical.len() == entry.length as usize
        && Digest::of(canonical) == entry.digest;
    (!fits).then(|| AdoptRefusal::Content {
        cluster: cluster.clone(),
        key: entry.key.clone(),
        limit,
    })
}

/// A new row; it takes the place of the tombstone under its key. Its number.
fn insert(
    batch: &Batch<'_>,
    place: &Place<'_>,
    standing: &mut Standing,
    known: &Known,
    revision: Revision,
) -> Result<i64, StoreError> {
    let db = batch.db;
    // A tombstone that was not reported executed says that the agent may still have the object: an entry that
    // takes its place leaves a tombstone when it is withdrawn, even if it was never published itself.
    let buried: Option<i64> = if standing.is_buried(&known.entry.key) {
        standing.unbury(&known.entry.key);
        db.prepare_cached("DELETE FROM tombstone WHERE cluster = ?1 AND okey = ?2 RETURNING sequence")?
            .query_row(params![place.row.id, known.okey], |row| row.get(0))
            .optional()?
    } else {
        None
    };
    let since = buried.map_or(place.next, |sequence| {
        Sequence(sequence.cast_unsigned()).min(place.row.published)
    });
    db.prepare_cached(
        "INSERT INTO target(cluster, okey, binding, facet, content, since, changed, created, revision)
         VALUES (?1, ?2, ?3, ?4, ?5, ?9, ?6, ?7, ?8)",
    )?
    .execute(params![
        place.row.id,
        known.okey,
        place.binding,
        known.facet,
        known.content,
        place.next.0.cast_signed(),
        batch.now_s,
        revision.0.cast_signed(),
        since.0.cast_signed()
    ])?;
    Ok(db.last_insert_rowid())
}

fn forget_old_adoptions(db: &Connection, binding: i64) -> Result<(), StoreError> {
    db.prepare_cached(
        "DELETE FROM history WHERE binding = ?1 AND adoption <= (SELECT DISTINCT adoption FROM history
         WHERE binding = ?1 ORDER BY adoption DESC LIMIT 1 OFFSET ?2)",
    )?
    .execute(params![binding, limits::ADOPTIONS_KEPT.cast_signed()])?;
    Ok(())
}
