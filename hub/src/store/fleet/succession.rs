//! The end of an enrolment, and who takes its name after it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};
use shared::ids::{ClusterName, PublicKey, Sequence, Session};

use super::super::error::StoreError;
use super::super::notes::{Row, RowChange, TargetChange};
use super::super::writer::Batch;
use super::super::{Store, limits};
use super::enrolment::{EnrolRequest, Enrolment, Terms, cluster_changed, read_enrolment, to_json};
use super::intern;
use super::sets::{ClusterRow, advance, following, read_cluster, touch_binding};
use super::standing::Slot;

/// What an enrolment was when it was to be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// Its agent was listened to until now.
    Live,
    /// It was revoked.
    Revoked,
    /// It waited for a successor already.
    Open,
}

/// Why an enrolment is not taken out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoveRefusal {
    /// No such enrolment.
    #[error("no cluster {0} has joined this hub")]
    NotEnrolled(ClusterName),
    /// Its agent is still listened to.
    #[error("cluster {0} is enrolled; `pinnace cluster revoke {0}` ends that, then it can be removed")]
    Live(ClusterName),
}

impl Store {
    /// Ends an enrolment at once and lets the next token of its name enrol another identity, also of another member.
    /// What the hub wants there stays for the successor. None: not enrolled.
    ///
    /// # Errors
    /// The store.
    pub async fn replace(&self, cluster: &ClusterName) -> Result<Option<Before>, StoreError> {
        let cluster = cluster.clone();
        self.call(false, move |batch| {
            let Some(enrolment) = read_enrolment(batch.db, &cluster)? else {
                return Ok(Ok(None));
            };
            let before = match (enrolment.open, enrolment.revoked) {
                (true, _) => Before::Open,
                (false, true) => Before::Revoked,
                (false, false) => Before::Live,
            };
            if before != Before::Open {
                batch
                    .db
                    .prepare_cached("UPDATE cluster SET revoked = 1, open = 1 WHERE name = ?1")?
                    .execute(params![cluster.as_str()])?;
                cluster_changed(batch, &cluster)?;
            }
            Ok(Ok(Some(before)))
        })
        .await
    }

    /// Takes a revoked enrolment out of the books: its works, reports and facts. Nothing is said to anybody, so nothing
    /// changes in the member. Returns how many works were forgotten.
    ///
    /// # Errors
    /// The store; a refusal is the inner result.
    pub async fn remove_enrolment(
        &self,
        cluster: &ClusterName,
    ) -> Result<Result<usize, RemoveRefusal>, StoreError> {
        let cluster = cluster.clone();
        self.call(false, move |batch| {
            let row = read_cluster(batch.db, &cluster)?;
            let (Some(row), Some(enrolment)) = (row, read_enrolment(batch.db, &cluster)?) else {
                return Ok(Ok(Err(RemoveRefusal::NotEnrolled(cluster))));
            };
            if !enrolment.revoked {
                return Ok(Ok(Err(RemoveRefusal::Live(cluster))));
            }
            Ok(Ok(Ok(remove(batch, &row, &enrolment)?)))
        })
        .await
    }

    /// Whether this identity once spoke for the name. One that speaks for it again may be among them: ask the enrolment
    /// first.
    ///
    /// # Errors
    /// The store.
    pub fn is_former(&self, cluster: &ClusterName, identity: PublicKey) -> Result<bool, StoreError> {
        let found: Option<i64> = self
            .reader()
            .prepare_cached("SELECT 1 FROM former WHERE identity = ?1 AND cluster = ?2")?
            .query_row(params![identity.0.as_slice(), cluster.as_str()], |row| row.get(0))
            .optional()?;
        Ok(found.is_some())
    }
}

/// Where the numbers of a name that was there before go on: nothing of it is ever used again.
pub(super) fn numbers_after(
    db: &Connection,
    cluster: &ClusterName,
) -> Result<(Sequence, Session), StoreError> {
    let (sequence, session): (Option<i64>, Option<i64>) = db
        .prepare_cached("SELECT max(sequence), max(session) FROM former WHERE cluster = ?1")?
        .query_row(params![cluster.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let sequence = sequence.map_or(Sequence(0), |last| Sequence(last.cast_unsigned()).next());
    Ok((sequence, Session(session.unwrap_or(0).cast_unsigned())))
}

/// The name of another enrolment, not over, of the same member.
pub(super) fn elsewhere(db: &Connection, request: &EnrolRequest) -> Result<Option<ClusterName>, StoreError> {
    let name: Option<String> = db
        .prepare_cached(
            "SELECT name FROM cluster WHERE kube_system_uid = ?1 AND name != ?2 AND revoked = 0 LIMIT 1",
        )?
        .query_row(
            params![request.kube_system_uid, request.cluster.as_str()],
            |row| row.get(0),
        )
        .optional()?;
    name.map(|name| intern::cluster_name(&name)).transpose()
}

/// Another identity takes the name of an enrolment that was opened for it. The works stay; nothing else of the former
/// incarnation does: no tombstone, head, report or fact. No set of the new one was published yet, so a work that is
/// withdrawn before that leaves no tombstone.
pub(super) fn succeed(
    batch: &mut Batch<'_>,
    former: &Enrolment,
    request: &EnrolRequest,
    terms: &Terms,
) -> Result<(), StoreError> {
    let cluster = &former.cluster;
    let Some(row) = read_cluster(batch.db, cluster)? else {
        return Err(StoreError::Database {
            cause: format!("the enrolment of {cluster} is gone"),
        });
    };
    let next = following(batch, &row);
    remember(batch, former, next)?;
    let slots = slots(batch, &row)?;
    forget(batch, &row)?;
    let db = batch.db;
    db.prepare_cached("UPDATE target SET since = ?2, changed = ?2 WHERE cluster = ?1")?
        .execute(params![row.id, next.0.cast_signed()])?;
    // A token that says nothing of the cluster changes nothing of it.
    let terms = if *terms == Terms::default() {
        &former.terms
    } else {
        terms
    };
    db.prepare_cached(
        "UPDATE cluster SET incarnation = ?2, identity = ?3, kube_system_uid = ?4, terms = ?5, enrolled = ?6,
         revoked = 0, open = 0, session = session + 1, report_seq = 0, boots = '[]', published = 0, acked = 0, facts = NULL,
         last_seen = NULL, held = NULL WHERE id = ?1",
    )?
    .execute(params![
        row.id,
        request.incarnation.0.as_slice(),
        request.identity.0.as_slice(),
        request.kube_system_uid,
        to_json(terms)?,
        request.now.0
    ])?;
    tell(batch, cluster, slots, |_| TargetChange::Changed)?;
    advance(batch, cluster, row.id, next)?;
    cluster_changed(batch, cluster)
}

fn remove(batch: &mut Batch<'_>, row: &ClusterRow, enrolment: &Enrolment) -> Result<usize, StoreError> {
    let cluster = &enrolment.cluster;
    remember(batch, enrolment, row.sequence)?;
    let slots = slots(batch, row)?;
    forget(batch, row)?;
    let count = slots.len();
    for sql in [
        "DELETE FROM target WHERE cluster = ?1",
        "DELETE FROM cluster WHERE id = ?1",
    ] {
        batch.db.prepare_cached(sql)?.execute(params![row.id])?;
    }
    // Whatever else this batch did for it is gone with it.
    batch.advanced.remove(&row.id);
    tell(batch, cluster, slots, |slot| {
        TargetChange::Removed(slot.entry.clone())
    })?;
    cluster_changed(batch, cluster)?;
    batch.garbage();
    Ok(count)
}

/// The rows of a cluster; what is kept of them in memory is forgotten.
fn slots(batch: &mut Batch<'_>, row: &ClusterRow) -> Result<Vec<Slot>, StoreError> {
    let standing = batch.standings.take(batch.db, batch.sets, row.id)?;
    Ok(standing.into_slots())
}

/// Forgets what was said to an agent and by it.
fn forget(batch: &Batch<'_>, row: &ClusterRow) -> Result<(), StoreError> {
    for sql in [
        "DELETE FROM report WHERE target IN (SELECT id FROM target WHERE cluster = ?1)",
        "DELETE FROM tombstone WHERE cluster = ?1",
        "DELETE FROM head WHERE cluster = ?1",
    ] {
        batch.db.prepare_cached(sql)?.execute(params![row.id])?;
    }
    Ok(())
}

/// Writes down an identity that is over.
fn remember(batch: &Batch<'_>, enrolment: &Enrolment, last: Sequence) -> Result<(), StoreError> {
    let (db, cluster) = (batch.db, enrolment.cluster.as_str());
    db.prepare_cached(
        "INSERT OR REPLACE INTO former(identity, cluster, sequence, session, ended) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![
        enrolment.identity.0.as_slice(),
        cluster,
        last.0.cast_signed(),
        enrolment.session.0.cast_signed(),
        batch.now_s
    ])?;
    db.prepare_cached(
        "DELETE FROM former WHERE cluster = ?1 AND identity NOT IN
         (SELECT identity FROM former WHERE cluster = ?1 ORDER BY sequence DESC, ended DESC LIMIT ?2)",
    )?
    .execute(params![cluster, limits::FORMER_KEPT])?;
    Ok(())
}

/// Gives changed rows their revisions and tells everybody.
fn tell(
    batch: &mut Batch<'_>,
    cluster: &ClusterName,
    slots: Vec<Slot>,
    change: impl Fn(&Slot) -> TargetChange,
) -> Result<(), StoreError> {
    let bindings: BTreeSet<i64> = slots.iter().map(|slot| slot.binding).collect();
    let mut names = BTreeMap::new();
    for id in bindings {
        names.insert(id, Arc::new(intern::binding_of(batch.db, id)?));
    }
    for slot in slots {
        let Some(binding) = names.get(&slot.binding) else {
            continue;
        };
        let revision = batch.next_revision();
        batch
            .db
            .prepare_cached("UPDATE target SET revision = ?2 WHERE id = ?1")?
            .execute(params![slot.id, revision.0.cast_signed()])?;
        let row = Row::Target {
            id: slot.id,
            cluster: cluster.clone(),
            binding: binding.clone(),
            change: change(&slot),
        };
        batch.row_changed(RowChange { revision, row });
    }
    for (id, binding) in names {
        touch_binding(batch, &binding, id)?;
    }
    Ok(())
}
