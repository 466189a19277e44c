//! Reports of agents, stored per target; texts are shared between all targets that say the same.

use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{OptionalExtension, params};
use shared::ids::{ClusterName, Digest, ObjectKey, ReportSeq, Sequence, Session};
use shared::reason::{Code, Reason};
use shared::time::UnixSeconds;
use shared::wire::{ApplyState, Health, ObjectReport, Report};

use super::super::Store;
use super::super::error::StoreError;
use super::super::notes::{BindingRef, Row, RowChange, TargetChange};
use super::super::writer::Batch;
use super::enrolment::{cluster_changed, of_json, to_json};
use super::facts::ClusterFacts;
use super::intern;
use super::sets::{ClusterRow, end_tombstones, read_cluster, touch_binding};
use super::undone;
use crate::crash;

/// What an agent last said of a target.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetReport {
    /// Whether it is in the member as wanted.
    pub applied: ApplyState,
    /// Its health.
    pub health: Health,
    /// Why it is so.
    pub reason: Code,
    /// For people.
    pub message: String,
    /// Content that the state belongs to.
    pub digest: Digest,
    /// Template generation that the state belongs to.
    pub template_generation: u64,
    /// `metadata.uid` in the member; empty if it is not there.
    pub uid: String,
    /// Reflected status, JSON.
    pub status: Option<Bytes>,
    /// Since when it has been so, by the hub's clock.
    pub observed: UnixSeconds,
    /// It has been so at least since then (the age began before the agent's boot).
    pub observed_is_bound: bool,
}

/// What became of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ingested {
    /// Stored.
    New {
        /// Bindings of which a target changed visibly.
        bindings: Vec<BindingRef>,
        /// Sequence of the set without the executed tombstones, if it named any that were live.
        set: Option<Sequence>,
    },
    /// Of an older session, or a number that was stored before: acknowledge, nothing else.
    Old,
    /// The cluster is not enrolled, revoked, or no such session was agreed: drop it.
    Unknown,
}

impl Store {
    /// Stores a report, exactly once by session and number. `now` turns its ages into times.
    ///
    /// # Errors
    /// The store; then do not acknowledge, the agent repeats it.
    pub async fn ingest_report(
        &self,
        cluster: &ClusterName,
        session: Session,
        report: Report,
        now: UnixSeconds,
    ) -> Result<Ingested, StoreError> {
        crash::point("report.ingest.before");
        let cluster = cluster.clone();
        let ingested = self
            .call(false, move |batch| {
                Ok(Ok(ingest(batch, &cluster, session, &report, now)?))
            })
            .await;
        crash::point("report.ingest.after");
        ingested
    }
}

fn ingest(
    batch: &mut Batch<'_>,
    cluster: &ClusterName,
    session: Session,
    report: &Report,
    now: UnixSeconds,
) -> Result<Ingested, StoreError> {
    let Some(row) = read_cluster(batch.db, cluster)?.filter(|row| !row.revoked) else {
        return Ok(Ingested::Unknown);
    };
    let (agreed, stored): (i64, i64) = batch
        .db
        .prepare_cached("SELECT session, report_seq FROM cluster WHERE id = ?1")?
        .query_row(params![row.id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (agreed, stored) = (Session(agreed.cast_unsigned()), ReportSeq(stored.cast_unsigned()));
    if session > agreed {
        return Ok(Ingested::Unknown);
    }
    if session < agreed || report.report_seq <= stored {
        return Ok(Ingested::Old);
    }
    batch
        .db
        .prepare_cached(
            "UPDATE cluster SET report_seq = ?2, last_seen = max(coalesce(last_seen, 0), ?3) WHERE id = ?1",
        )?
        .execute(params![row.id, report.report_seq.0.cast_signed(), now.0])?;
    take_in(batch, cluster, &row, report, now)
}

/// Stores what a report says; that it is the newest is the caller's to know.
pub(super) fn take_in(
    batch: &mut Batch<'_>,
    cluster: &ClusterName,
    row: &ClusterRow,
    report: &Report,
    now: UnixSeconds,
) -> Result<Ingested, StoreError> {
    let mut bindings: Vec<(i64, BindingRef)> = Vec::new();
    let mut leaving = Vec::new();
    for object in &report.objects {
        match store_object(batch, cluster, row, object, now)? {
            Stored::Changed(id, binding) if !bindings.iter().any(|(known, _)| *known == id) => {
                bindings.push((id, binding));
            }
            Stored::Changed(..) | Stored::Same => {}
            Stored::NoTarget => {
                if undone::is_ordered(batch, row.id, &object.key)? {
                    leaving.push(object);
                }
            }
        }
    }
    for (id, binding) in &bindings {
        touch_binding(batch, binding, *id)?;
    }
    let done: Vec<(ObjectKey, Sequence)> = report
        .tombstones_done
        .iter()
        .map(|done| (done.key.clone(), done.sequence))
        .collect();
    let set = end_tombstones(batch, cluster, row, &done)?;
    undone::note(batch, cluster, row, &leaving, set.is_some(), now)?;
    store_facts(batch, cluster, row, report)?;
    Ok(Ingested::New {
        bindings: bindings.into_iter().map(|(_, binding)| binding).collect(),
        set,
    })
}

/// What became of what a report says of one object.
enum Stored {
    /// The target of this binding changed visibly.
    Changed(i64, BindingRef),
    /// Nothing new.
    Same,
    /// The object is no target of this cluster.
    NoTarget,
}

fn store_object(
    batch: &mut Batch<'_>,
    cluster: &ClusterName,
    row: &ClusterRow,
    object: &ObjectReport,
    now: UnixSeconds,
) -> Result<Stored, StoreError> {
    let db = batch.db;
    let Some(okey) = intern::known_okey(db, &object.key)? else {
        return Ok(Stored::NoTarget);
    };
    let found: Option<(i64, i64, String, String)> = db
        .prepare_cached(
            "SELECT t.id, t.binding, b.namespace, b.name FROM target t
             JOIN binding b ON b.id = t.binding
             WHERE t.cluster = ?1 AND t.okey = ?2",
        )?
        .query_row(params![row.id, okey], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })
        .optional()?;
    let Some((id, binding_id, namespace, name)) = found else {
        return Ok(Stored::NoTarget);
    };
    let secret = object.key.group.is_empty() && object.key.kind == "Secret";
    let columns = (
        flags::write(object.applied, object.health, object.age_is_lower_bound),
        object.template_generation.cast_signed(),
        object.digest.0.to_vec(),
        intern::text(db, batch.key, object.reason.as_str().as_bytes(), false)?,
        intern::text(db, batch.key, object.message.as_bytes(), secret)?,
        intern::text(db, batch.key, &object.status, secret)?,
        object.uid.clone(),
    );
    type Columns = (i64, i64, Vec<u8>, Option<i64>, Option<i64>, Option<i64>, String);
    let before: Option<Columns> = db
        .prepare_cached(
            "SELECT flags, generation, content, reason, message, status, uid FROM report WHERE target = ?1",
        )?
        .query_row(params![id], |row| {
            Ok((
                row.get(0)?,
                row.get(1)?,
                row.get(2)?,
                row.get(3)?,
                row.get(4)?,
                row.get(5)?,
                row.get(6)?,
            ))
        })
        .optional()?;
    if before.as_ref() == Some(&columns) {
        return Ok(Stored::Same);
    }
    let age_s = i64::try_from(object.age_ms / 1_000).unwrap_or(i64::MAX);
    let revision = batch.next_revision();
    db.prepare_cached(
        "INSERT OR REPLACE INTO report(target, flags, generation, content, reason, message, status, uid, observed, revision)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?
    .execute(params![
        id,
        columns.0,
        columns.1,
        columns.2,
        columns.3,
        columns.4,
        columns.5,
        columns.6,
        now.0.saturating_sub(age_s).max(0),
        revision.0.cast_signed()
    ])?;
    if before.is_some() {
        batch.garbage();
    }
    let binding = BindingRef { namespace, name };
    let row = Row::Target {
        cluster: cluster.clone(),
        binding: Arc::new(binding.clone()),
        id,
        change: TargetChange::Changed,
    };
    batch.row_changed(RowChange { revision, row });
    Ok(Stored::Changed(binding_id, binding))
}

fn store_facts(
    batch: &mut Batch<'_>,
    cluster: &ClusterName,
    row: &ClusterRow,
    report: &Report,
) -> Result<(), StoreError> {
    if report.capacity.is_none() && report.strays.is_none() {
        return Ok(());
    }
    let text: Option<String> = batch
        .db
        .prepare_cached("SELECT facts FROM cluster WHERE id = ?1")?
        .query_row(params![row.id], |row| row.get(0))?;
    let before: ClusterFacts = text.map_or_else(
        || Ok(ClusterFacts::default()),
        |text| of_json("facts of a cluster", &text),
    )?;
    let mut facts = before.clone();
    if let Some(capacity) = &report.capacity {
        let mut capacity = capacity.clone();
        // Empty: as reported before.
        if capacity.apis.is_empty() {
            capacity.apis = before
                .capacity
                .as_ref()
                .map(|before| before.apis.clone())
                .unwrap_or_default();
        }
        if !capacity.kubernetes_version.is_empty() {
            facts.kubernetes_version.clone_from(&capacity.kubernetes_version);
        }
        facts.capacity = Some(capacity);
    }
    if let Some(strays) = &report.strays {
        facts.strays.clone_from(strays);
    }
    if facts == before {
        return Ok(());
    }
    batch
        .db
        .prepare_cached("UPDATE cluster SET facts = ?2 WHERE id = ?1")?
        .execute(params![row.id, to_json(&facts)?])?;
    cluster_changed(batch, cluster)
}

/// A stored code; one that this version does not know is kept as it is.
pub(super) fn report_code(text: &str) -> Code {
    Reason::from_str(text).map_or_else(|unknown| Code::Other(unknown.0), Code::Known)
}

/// Small enumerations in one number.
pub(super) mod flags {
    use shared::wire::{ApplyState, Health};

    use crate::store::error::StoreError;

    const APPLIED: [ApplyState; 4] = [
        ApplyState::Pending,
        ApplyState::Applied,
        ApplyState::Failed,
        ApplyState::Suspended,
    ];
    const HEALTH: [Health; 3] = [Health::Unknown, Health::Healthy, Health::Unhealthy];

    pub(in super::super) fn write(applied: ApplyState, health: Health, bound: bool) -> i64 {
        let index = |found: Option<usize>| found.and_then(|at| i64::try_from(at).ok()).unwrap_or(0);
        index(APPLIED.iter().position(|known| *known == applied))
            | index(HEALTH.iter().position(|known| *known == health)) << 4
            | i64::from(bound) << 8
    }

    pub(in super::super) fn read(bits: i64) -> Result<(ApplyState, Health, bool), StoreError> {
        let at = |shift: u32| usize::try_from(bits >> shift & 0xf).unwrap_or(usize::MAX);
        match (APPLIED.get(at(0)), HEALTH.get(at(4))) {
            (Some(applied), Some(health)) => Ok((*applied, *health, bits >> 8 & 1 == 1)),
            _ => Err(StoreError::Corrupt {
                what: "flags of a report".to_owned(),
                cause: format!("{bits:#x} is no known combination"),
            }),
        }
    }
}
