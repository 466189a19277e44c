//! A receipt that came in a file: taken once, only for a set that was published, and never after a newer one.

use rusqlite::{OptionalExtension, params};
use shared::ids::{BootId, ClusterName, Incarnation, ReportSeq, Sequence, Session};
use shared::time::UnixSeconds;
use shared::wire::{Carried, Report, SealingKey};

use super::super::Store;
use super::super::error::StoreError;
use super::enrolment::{cluster_changed, of_json, to_json};
use super::facts::ClusterFacts;
use super::reports::take_in;
use super::sets::{head_digest, read_cluster};

/// Why a receipt is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CarriedRefusal {
    /// No such enrolment, or revoked.
    #[error("cluster {0} is not enrolled")]
    NotEnrolled(ClusterName),
    /// The set is none that this hub published.
    #[error("set {0} of this receipt was not made by this hub as it is now (HubBehind?)")]
    UnknownSet(Sequence),
    /// A newer receipt, or the agent itself, was here first.
    #[error("something newer of this cluster is known already: session {session}, set {sequence}")]
    Older {
        /// Session of what is known.
        session: Session,
        /// Its set.
        sequence: Sequence,
    },
}

impl Store {
    /// The key under which sets for an enrolment are sealed in files. It follows from the storage key, so a restored hub
    /// has the same.
    #[must_use]
    pub fn sealing_key(&self, cluster: &ClusterName, incarnation: Incarnation) -> SealingKey {
        let words: [&[u8]; 3] = [b"sets in files", cluster.as_str().as_bytes(), &incarnation.0];
        SealingKey(self.inner.key.derive(&words))
    }

    /// Takes a verified receipt: the set counts as acknowledged, and its reports are stored.
    ///
    /// # Errors
    /// The store; a refusal is the inner result.
    pub async fn take_carried(
        &self,
        carried: Carried,
        now: UnixSeconds,
    ) -> Result<Result<(), CarriedRefusal>, StoreError> {
        self.call(false, move |batch| {
            let cluster = carried.cluster.clone();
            let found = read_cluster(batch.db, &cluster)?.filter(|row| !row.revoked);
            let Some(row) = found.filter(|row| row.incarnation == carried.incarnation) else {
                return Ok(Ok(Err(CarriedRefusal::NotEnrolled(cluster))));
            };
            if head_digest(batch.db, row.id, carried.sequence)? != Some(carried.digest) {
                return Ok(Ok(Err(CarriedRefusal::UnknownSet(carried.sequence))));
            }
            let (agreed, text): (i64, Option<String>) = batch
                .db
                .prepare_cached("SELECT session, facts FROM cluster WHERE id = ?1")?
                .query_row(params![row.id], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?
                .unwrap_or_default();
            let mut facts: ClusterFacts = match text {
                Some(text) => of_json("facts of a cluster", &text)?,
                None => ClusterFacts::default(),
            };
            let this = (carried.sequence.0, carried.session.0, carried.journal);
            let known = facts.carried.unwrap_or_default();
            let agreed = Session(agreed.cast_unsigned());
            if carried.session < agreed || carried.sequence < row.acked || this < known {
                let sequence = row.acked.max(Sequence(known.0));
                return Ok(Ok(Err(CarriedRefusal::Older {
                    session: agreed,
                    sequence,
                })));
            }
            batch
                .db
                .prepare_cached("UPDATE cluster SET acked = max(acked, ?2) WHERE id = ?1")?
                .execute(params![row.id, carried.sequence.0.cast_signed()])?;
            let report = Report {
                report_seq: ReportSeq(0),
                boot: BootId([0; 16]),
                objects: carried.objects,
                tombstones_done: carried.tombstones_done,
                strays: None,
                capacity: None,
                full: true,
            };
            take_in(batch, &cluster, &row, &report, now)?;
            facts.carried = Some(this);
            facts.refused = None;
            batch
                .db
                .prepare_cached("UPDATE cluster SET facts = ?2 WHERE id = ?1")?
                .execute(params![row.id, to_json(&facts)?])?;
            cluster_changed(batch, &cluster)?;
            Ok(Ok(Ok(())))
        })
        .await
    }
}
