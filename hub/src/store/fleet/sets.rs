//! Sets: what the rows of a cluster make at a sequence, and what became of each set.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};
use shared::ids::{ClusterName, Digest, Incarnation, ObjectKey, Sequence};
use shared::limits as wire_limits;
use shared::set::{DeleteMode, Set, Tombstone};

use super::super::error::StoreError;
use super::super::notes::{BindingRef, Note};
use super::super::writer::Batch;
use super::super::{Store, limits};
use super::intern;
use super::standing::{Newest, Sets, Standing};
use super::targets::column;
use crate::crash;

/// The newest set of a cluster and what is known of its way.
#[derive(Debug, Clone, PartialEq)]
pub struct CurrentSet {
    /// The enrolment it is for.
    pub incarnation: Incarnation,
    /// Its sequence; zero: nothing was ever adopted, the set is empty.
    pub sequence: Sequence,
    /// [`Set::digest`].
    pub digest: Digest,
    /// Entries and live tombstones.
    pub set: Arc<Set>,
    /// Highest sequence that was ever handed to the link.
    pub published: Sequence,
    /// Highest sequence in the agent's ledger, as acknowledged.
    pub acked: Sequence,
}

impl CurrentSet {
    fn of(row: &ClusterRow, newest: &Newest) -> Self {
        Self {
            incarnation: row.incarnation,
            sequence: row.sequence,
            digest: newest.digest,
            set: newest.set.clone(),
            published: row.published,
            acked: row.acked,
        }
    }
}

impl Store {
    /// The newest set of a cluster; none if it is not enrolled.
    ///
    /// # Errors
    /// The store.
    pub fn current_set(&self, cluster: &ClusterName) -> Result<Option<CurrentSet>, StoreError> {
        let db = self.reader();
        let Some(row) = read_cluster(&db, cluster)? else {
            return Ok(None);
        };
        if let Some(newest) = self.inner.sets.at(cluster, row.sequence) {
            return Ok(Some(CurrentSet::of(&row, &newest)));
        }
        // One read transaction: rows and head of the same moment.
        let transaction = db.unchecked_transaction()?;
        let Some(row) = read_cluster(&transaction, cluster)? else {
            return Ok(None);
        };
        let standing = Standing::load(&transaction, &self.inner.sets, row.id)?;
        let newest = Arc::new(Newest {
            sequence: row.sequence,
            digest: standing.digest(),
            set: Arc::new(standing.set(cluster)?),
        });
        self.inner.sets.keep(cluster, newest.clone());
        Ok(Some(CurrentSet::of(&row, &newest)))
    }

    /// Notes that a set is about to be handed to the link. Call it *before* the first byte leaves: from then on
    /// its entries leave tombstones when withdrawn. False: this is no longer the newest set; do not send it.
    ///
    /// # Errors
    /// The store; then do not send.
    pub async fn mark_published(
        &self,
        cluster: &ClusterName,
        sequence: Sequence,
    ) -> Result<bool, StoreError> {
        let cluster = cluster.clone();
        self.call(false, move |batch| {
            let Some(row) = read_cluster(batch.db, &cluster)? else {
                return Ok(Ok(false));
            };
            if row.sequence != sequence {
                return Ok(Ok(false));
            }
            if row.published >= sequence {
                return Ok(Ok(true));
            }
            let digest = row.digest.unwrap_or_else(|| Set::default().digest());
            write_head(batch.db, row.id, sequence, &digest)?;
            batch
                .db
                .prepare_cached("UPDATE cluster SET published = ?2 WHERE id = ?1")?
                .execute(params![row.id, sequence.0.cast_signed()])?;
            prune_heads(batch.db, row.id, sequence, row.acked)?;
            Ok(Ok(true))
        })
        .await
    }

    /// The agent has this set in its ledger. False: no set of this sequence and digest was published; ignore it.
    ///
    /// # Errors
    /// The store.
    pub async fn acked(
        &self,
        cluster: &ClusterName,
        sequence: Sequence,
        digest: Digest,
    ) -> Result<bool, StoreError> {
        crash::point("acked.before");
        let cluster = cluster.clone();
        self.call(false, move |batch| {
            let Some(row) = read_cluster(batch.db, &cluster)? else {
                return Ok(Ok(false));
            };
            if head_digest(batch.db, row.id, sequence)? != Some(digest) {
                return Ok(Ok(false));
            }
            if row.acked < sequence {
                // No notice: what a cluster says of its works comes by its reports.
                batch
                    .db
                    .prepare_cached("UPDATE cluster SET acked = ?2 WHERE id = ?1")?
                    .execute(params![row.id, sequence.0.cast_signed()])?;
            }
            Ok(Ok(true))
        })
        .await
    }

    /// Published heads that are kept, newest last: the last [`wire_limits::HEADS_KEPT`] and all since the last
    /// acknowledged.
    ///
    /// # Errors
    /// The store.
    pub fn heads(&self, cluster: &ClusterName) -> Result<Vec<(Sequence, Digest)>, StoreError> {
        let db = self.reader();
        let Some(id) = intern::cluster_id(&db, cluster)? else {
            return Ok(Vec::new());
        };
        let mut statement =
            db.prepare_cached("SELECT sequence, digest FROM head WHERE cluster = ?1 ORDER BY sequence")?;
        let mut rows = statement.query(params![id])?;
        let mut heads = Vec::new();
        while let Some(row) = rows.next()? {
            let digest = intern::digest("digest of a head", row.get_ref(1)?.as_blob().map_err(column)?)?;
            heads.push((Sequence(row.get::<_, i64>(0)?.cast_unsigned()), digest));
        }
        Ok(heads)
    }

    /// Tombstones that the agent executed, each named with its own sequence; they leave the set. Returns the
    /// sequence of the set without them, if any was there.
    ///
    /// # Errors
    /// The store.
    pub async fn tombstones_done(
        &self,
        cluster: &ClusterName,
        done: Vec<(ObjectKey, Sequence)>,
    ) -> Result<Option<Sequence>, StoreError> {
        let cluster = cluster.clone();
        self.call(false, move |batch| {
            let Some(row) = read_cluster(batch.db, &cluster)? else {
                return Ok(Ok(None));
            };
            Ok(Ok(end_tombstones(batch, &cluster, &row, &done)?))
        })
        .await
    }
}

/// Columns of a cluster row that sets need.
pub(super) struct ClusterRow {
    pub(super) id: i64,
    pub(super) incarnation: Incarnation,
    pub(super) sequence: Sequence,
    pub(super) digest: Option<Digest>,
    pub(super) published: Sequence,
    pub(super) acked: Sequence,
    pub(super) revoked: bool,
}

pub(super) fn read_cluster(db: &Connection, cluster: &ClusterName) -> Result<Option<ClusterRow>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT id, incarnation, sequence, digest, published, acked, revoked FROM cluster WHERE name = ?1",
    )?;
    let mut rows = statement.query(params![cluster.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let sequence = |index: usize| {
        row.get::<_, i64>(index)
            .map(|number| Sequence(number.cast_unsigned()))
    };
    let digest: Option<Vec<u8>> = row.get(3)?;
    Ok(Some(ClusterRow {
        id: row.get(0)?,
        incarnation: Incarnation(intern::fixed(
            "incarnation of a cluster",
            &row.get::<_, Vec<u8>>(1)?,
        )?),
        sequence: sequence(2)?,
        digest: digest
            .map(|digest| intern::digest("digest of a set", &digest))
            .transpose()?,
        published: sequence(4)?,
        acked: sequence(5)?,
        revoked: row.get(6)?,
    }))
}

pub(super) fn write_tombstone(
    db: &Connection,
    cluster: i64,
    okey: i64,
    tombstone: &Tombstone,
) -> Result<(), StoreError> {
    db.prepare_cached(
        "INSERT OR REPLACE INTO tombstone(cluster, okey, mode, template_uid, sequence) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![
        cluster,
        okey,
        mode_number(tombstone.mode),
        tombstone.template_uid,
        tombstone.sequence.0.cast_signed()
    ])?;
    Ok(())
}

/// Removes executed tombstones; a late word about an older one ends nothing.
pub(super) fn end_tombstones(
    batch: &mut Batch<'_>,
    cluster: &ClusterName,
    row: &ClusterRow,
    done: &[(ObjectKey, Sequence)],
) -> Result<Option<Sequence>, StoreError> {
    if done.is_empty() {
        return Ok(None);
    }
    let mut standing = batch.standings.take(batch.db, batch.sets, row.id)?;
    let mut ended = 0;
    for (key, sequence) in done {
        if let Some(okey) = intern::known_okey(batch.db, key)? {
            let gone = batch
                .db
                .prepare_cached("DELETE FROM tombstone WHERE cluster = ?1 AND okey = ?2 AND sequence = ?3")?
                .execute(params![row.id, okey, sequence.0.cast_signed()])?;
            if gone > 0 {
                standing.unbury(key);
            }
            ended += gone;
        }
    }
    batch.standings.give_back(row.id, standing);
    if ended == 0 {
        return Ok(None);
    }
    let next = following(batch, row);
    advance(batch, cluster, row.id, next)?;
    Ok(Some(next))
}

/// The sequence that what this batch changes for a cluster gets.
pub(super) fn following(batch: &Batch<'_>, row: &ClusterRow) -> Sequence {
    match batch.advanced.get(&row.id) {
        Some((_, sequence)) => *sequence,
        None => row.sequence.next(),
    }
}

/// Gives a cluster its next sequence; the digest of the set follows when the batch ends ([`close_sets`]).
pub(super) fn advance(
    batch: &mut Batch<'_>,
    cluster: &ClusterName,
    id: i64,
    next: Sequence,
) -> Result<(), StoreError> {
    let known = batch.advanced.insert(id, (cluster.clone(), next));
    if known.is_none_or(|(_, sequence)| sequence != next) {
        batch
            .db
            .prepare_cached("UPDATE cluster SET sequence = ?2 WHERE id = ?1")?
            .execute(params![id, next.0.cast_signed()])?;
        batch.note(Note::Set(cluster.clone()));
    }
    Ok(())
}

/// Notes down the digests of the sets that a batch has changed, each once however often it was changed.
pub(in crate::store) fn close_sets(
    batch: &mut Batch<'_>,
) -> Result<Vec<(ClusterName, Arc<Newest>)>, StoreError> {
    let mut closed = Vec::new();
    for (id, (cluster, sequence)) in std::mem::take(&mut batch.advanced) {
        let standing = batch.standings.take(batch.db, batch.sets, id)?;
        let newest = Newest {
            sequence,
            digest: standing.digest(),
            set: Arc::new(standing.set(&cluster)?),
        };
        batch.standings.give_back(id, standing);
        batch
            .db
            .prepare_cached("UPDATE cluster SET digest = ?2 WHERE id = ?1")?
            .execute(params![id, newest.digest.0.as_slice()])?;
        closed.push((cluster, Arc::new(newest)));
    }
    Ok(closed)
}

/// Marks that a row of a binding changed.
pub(super) fn touch_binding(batch: &mut Batch<'_>, binding: &BindingRef, id: i64) -> Result<(), StoreError> {
    let revision = batch.last_revision();
    batch
        .db
        .prepare_cached("UPDATE binding SET revision = ?2 WHERE id = ?1")?
        .execute(params![id, revision.0.cast_signed()])?;
    batch.note(Note::Binding(binding.clone()));
    Ok(())
}

/// The digest that was noted with the newest set of a cluster; none before the first.
pub(in crate::store) fn noted_digest(
    db: &Connection,
    cluster: &ClusterName,
) -> Result<Option<Digest>, StoreError> {
    Ok(read_cluster(db, cluster)?.and_then(|row| row.digest))
}

/// Digests of all stored contents.
pub(in crate::store) fn content_digests(db: &Connection) -> Result<Vec<Digest>, StoreError> {
    let mut statement = db.prepare_cached("SELECT digest FROM content ORDER BY id")?;
    let mut rows = statement.query([])?;
    let mut digests = Vec::new();
    while let Some(row) = rows.next()? {
        digests.push(intern::digest(
            "digest of a content",
            row.get_ref(0)?.as_blob().map_err(column)?,
        )?);
    }
    Ok(digests)
}

/// The set that the rows of a cluster make, read from them whatever is known; none: not enrolled.
pub(in crate::store) fn set_of_rows(
    db: &Connection,
    sets: &Sets,
    cluster: &ClusterName,
) -> Result<Option<(Sequence, Set)>, StoreError> {
    let Some(row) = read_cluster(db, cluster)? else {
        return Ok(None);
    };
    let set = Standing::load(db, sets, row.id)?.set(cluster)?;
    Ok(Some((row.sequence, set)))
}

pub(super) fn write_head(
    db: &Connection,
    cluster: i64,
    sequence: Sequence,
    digest: &Digest,
) -> Result<(), StoreError> {
    db.prepare_cached("INSERT OR REPLACE INTO head(cluster, sequence, digest) VALUES (?1, ?2, ?3)")?
        .execute(params![cluster, sequence.0.cast_signed(), digest.0.as_slice()])?;
    Ok(())
}

pub(super) fn head_digest(
    db: &Connection,
    cluster: i64,
    sequence: Sequence,
) -> Result<Option<Digest>, StoreError> {
    let bytes: Option<Vec<u8>> = db
        .prepare_cached("SELECT digest FROM head WHERE cluster = ?1 AND sequence = ?2")?
        .query_row(params![cluster, sequence.0.cast_signed()], |row| row.get(0))
        .optional()?;
    bytes
        .map(|bytes| intern::digest("digest of a head", &bytes))
        .transpose()
}

/// Keeps the last heads by count, and all from the last acknowledged on (up to a hard count).
fn prune_heads(db: &Connection, cluster: i64, newest: Sequence, acked: Sequence) -> Result<(), StoreError> {
    let nth = |n: u64| -> Result<i64, StoreError> {
        Ok(db
            .prepare_cached(
                "SELECT sequence FROM head WHERE cluster = ?1 AND sequence <= ?2
                 ORDER BY sequence DESC LIMIT 1 OFFSET ?3",
            )?
            .query_row(params![cluster, newest.0.cast_signed(), n.cast_signed()], |row| {
                row.get(0)
            })
            .optional()?
            .unwrap_or(0))
    };
    let beyond_count = nth(wire_limits::HEADS_KEPT as u64)?;
    let beyond_all = nth(limits::UNACKED_HEADS_KEPT)?;
    db.prepare_cached(
        "DELETE FROM head WHERE cluster = ?1 AND sequence <= ?2 AND (sequence < ?3 OR sequence <= ?4)",
    )?
    .execute(params![cluster, beyond_count, acked.0.cast_signed(), beyond_all])?;
    Ok(())
}

pub(super) const fn mode_number(mode: DeleteMode) -> i64 {
    match mode {
        DeleteMode::Delete => 0,
        DeleteMode::Release => 1,
    }
}

/// Anything but a clear order to delete releases.
pub(super) const fn mode_of(number: i64) -> DeleteMode {
    match number {
        0 => DeleteMode::Delete,
        _ => DeleteMode::Release,
    }
}
