//! Join tokens, enrolments and sessions.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use shared::ids::{BootId, ClusterName, Digest, Incarnation, PublicKey, ReportSeq, Session};
use shared::keys::Receipt;
use shared::time::UnixSeconds;

use super::super::error::StoreError;
use super::super::notes::{Note, Row as ViewRow, RowChange};
use super::super::writer::Batch;
use super::super::{Store, limits};
use super::intern;
use super::succession::{elsewhere, numbers_after, succeed};

/// What the operator said of a cluster when making its token.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// Labels of the Cluster object.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// `spec.provider`, empty if none.
    #[serde(default)]
    pub provider: String,
    /// `spec.region`, empty if none.
    #[serde(default)]
    pub region: String,
    /// `spec.zones`.
    #[serde(default)]
    pub zones: Vec<String>,
}

/// A join token. Only the digest of its text is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// SHA-256 of the token's text.
    pub digest: Digest,
    /// The only name it enrols.
    pub cluster: ClusterName,
    /// Not usable from then on.
    pub expires: UnixSeconds,
    /// Passed on to the cluster.
    pub terms: Terms,
    /// The first identity key that used it; only that one may repeat.
    pub used_by: Option<PublicKey>,
}

/// A wish to enrol, after the exchange proved `identity`.
#[derive(Debug, Clone)]
pub struct EnrolRequest {
    /// SHA-256 of the token shown.
    pub token: Digest,
    /// The claimed name.
    pub cluster: ClusterName,
    /// The proven identity key.
    pub identity: PublicKey,
    /// `metadata.uid` of the member's `kube-system`.
    pub kube_system_uid: String,
    /// Fresh random; used if this is a new enrolment.
    pub incarnation: Incarnation,
    /// Wall clock of the hub.
    pub now: UnixSeconds,
}

/// Why an enrolment does not happen. Nothing is changed by a refusal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnrolRefusal {
    /// No such token.
    #[error("the join token is not known; make a new one with `pinnace token create`")]
    TokenUnknown,
    /// Too late.
    #[error("the join token has expired; make a new one with `pinnace token create`")]
    TokenExpired,
    /// It names another cluster.
    #[error("the join token is for cluster {0}")]
    TokenOfOther(ClusterName),
    /// Another identity key used it first.
    #[error("the join token was used by another agent; make a new one")]
    TokenUsed,
    /// The name is enrolled with another identity key.
    #[error(
        "the name {0} is taken by another enrolment (another agent key): choose another name, or run \
         `pinnace cluster replace {0}` on the hub and join again"
    )]
    NameTaken(ClusterName),
    /// The name is enrolled for a member with another kube-system.
    #[error(
        "the name {cluster} is enrolled for another member (its kube-system has uid {uid}): choose another name, or \
         run `pinnace cluster replace {cluster}` on the hub and join again"
    )]
    OtherCluster {
        /// The name.
        cluster: ClusterName,
        /// `metadata.uid` of the `kube-system` that is enrolled.
        uid: String,
    },
    /// The enrolment was revoked.
    #[error(
        "the enrolment of {0} was revoked: run `pinnace cluster replace {0}` on the hub and join again (a data \
         directory that was enrolled before needs `pinnace-agent leave` first)"
    )]
    Revoked(ClusterName),
    /// The member is enrolled under another name.
    #[error(
        "this member (by the uid of its kube-system) is in the fleet already, as cluster {0}: run \
         `pinnace cluster revoke {0}` on the hub first if it is to have another name"
    )]
    MemberElsewhere(ClusterName),
}

/// A cluster that joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enrolment {
    /// Its name.
    pub cluster: ClusterName,
    /// This enrolment.
    pub incarnation: Incarnation,
    /// The agent's identity key.
    pub identity: PublicKey,
    /// `metadata.uid` of the member's `kube-system` at the join.
    pub kube_system_uid: String,
    /// From the token.
    pub terms: Terms,
    /// When.
    pub enrolled: UnixSeconds,
    /// Nothing is accepted from it any more.
    pub revoked: bool,
    /// The next token of the name enrols whoever shows it; nobody speaks for it until then.
    pub open: bool,
    /// Highest session agreed.
    pub session: Session,
    /// Highest report stored in that session.
    pub report_seq: ReportSeq,
    /// The last process lives seen, oldest first, at most [`limits::BOOTS_KEPT`].
    pub boots: Vec<BootRecord>,
}

/// One process life of an agent, as its hello told it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootRecord {
    /// Made anew by every start.
    pub boot: BootId,
    /// What it proposed.
    pub proposed: Session,
    /// What was agreed.
    pub session: Session,
    /// When its latest hello came.
    pub at: UnixSeconds,
}

/// The answer to a hello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionGrant {
    /// The agreed session.
    pub session: Session,
    /// The hub had agreed a session with this boot before; it is the same one.
    pub known_boot: bool,
    /// The proposal was not above what the hub had agreed: the agent's disk went back.
    pub went_back: bool,
    /// Process lives seen, this one last.
    pub boots: Vec<BootRecord>,
}

impl Store {
    /// Keeps a token. An expired one is forgotten at the same time.
    ///
    /// # Errors
    /// The store.
    pub async fn create_token(&self, token: Token, now: UnixSeconds) -> Result<(), StoreError> {
        self.call(false, move |batch| {
            batch
                .db
                .prepare_cached("DELETE FROM token WHERE expires < ?1")?
                .execute(params![now.0])?;
            batch
                .db
                .prepare_cached(
                    "INSERT INTO token(digest, cluster, expires, used_by, terms, created) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?
                .execute(params![
                    token.digest.0.as_slice(),
                    token.cluster.as_str(),
                    token.expires.0,
                    token.used_by.map(|key| key.0.to_vec()),
                    to_json(&token.terms)?,
                    now.0
                ])?;
            Ok(Ok(()))
        })
        .await
    }

    /// Enrols, once per token and key: the same key may repeat until the token expires and gets the same answer.
    ///
    /// # Errors
    /// The store; a refusal is the inner result.
    pub async fn enrol(&self, request: EnrolRequest) -> Result<Result<Enrolment, EnrolRefusal>, StoreError> {
        self.call(false, move |batch| Ok(Ok(enrol(batch, &request)?)))
            .await
    }

    /// Takes back into the books an enrolment that this hub once signed but no longer knows (restored from an
    /// older state). One that was opened for a successor gets it as such; otherwise nothing changes if the name is enrolled.
    ///
    /// # Errors
    /// The store.
    pub async fn recall_enrolment(
        &self,
        receipt: Receipt,
        terms: Terms,
        now: UnixSeconds,
    ) -> Result<Option<Enrolment>, StoreError> {
        self.call(false, move |batch| {
            let (cluster, identity) = (&receipt.cluster, receipt.identity);
            let (uid, incarnation) = (&receipt.kube_system_uid, receipt.incarnation);
            match read_enrolment(batch.db, cluster)? {
                None => insert(batch, cluster, incarnation, identity, uid, &terms, now)?,
                Some(former) if former.open && former.identity != identity => {
                    let request = EnrolRequest {
                        // By its receipt, and not by a token.
                        token: Digest([0; 32]),
                        cluster: cluster.clone(),
                        identity,
                        kube_system_uid: uid.clone(),
                        incarnation,
                        now,
                    };
                    if elsewhere(batch.db, &request)?.is_none() {
                        succeed(batch, &former, &request, &terms)?;
                    }
                }
                Some(_) => {}
            }
            Ok(Ok(read_enrolment(batch.db, &receipt.cluster)?))
        })
        .await
    }

    /// One enrolment.
    ///
    /// # Errors
    /// The store.
    pub fn enrolment(&self, cluster: &ClusterName) -> Result<Option<Enrolment>, StoreError> {
        read_enrolment(&self.reader(), cluster)
    }

    /// Every enrolment, by name, revoked ones included.
    ///
    /// # Errors
    /// The store.
    pub fn enrolments(&self) -> Result<Vec<Enrolment>, StoreError> {
        let db = self.reader();
        let mut statement = db.prepare_cached(&format!("{SELECT} ORDER BY name"))?;
        let mut rows = statement.query([])?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            all.push(of_row(row)?);
        }
        Ok(all)
    }

    /// Ends an enrolment at once. Returns whether there was one that was not revoked.
    ///
    /// # Errors
    /// The store.
    pub async fn revoke(&self, cluster: &ClusterName) -> Result<bool, StoreError> {
        let cluster = cluster.clone();
        self.call(false, move |batch| {
            let changed = batch
                .db
                .prepare_cached("UPDATE cluster SET revoked = 1 WHERE name = ?1 AND revoked = 0")?
                .execute(params![cluster.as_str()])?;
            if changed > 0 {
                cluster_changed(batch, &cluster)?;
            }
            Ok(Ok(changed > 0))
        })
        .await
    }

    /// Agrees a session with a process life of an agent: the same as before for a known boot, otherwise above
    /// everything agreed so far. Durable before it is told. None: not enrolled.
    ///
    /// # Errors
    /// The store.
    pub async fn begin_session(
        &self,
        cluster: &ClusterName,
        boot: BootId,
        proposed: Session,
        now: UnixSeconds,
    ) -> Result<Option<SessionGrant>, StoreError> {
        let cluster = cluster.clone();
        self.call(false, move |batch| {
            let Some(enrolment) = read_enrolment(batch.db, &cluster)? else {
                return Ok(Ok(None));
            };
            let grant = agree(&enrolment, boot, proposed, now);
            batch
                .db
                .prepare_cached(
                    "UPDATE cluster SET report_seq = CASE WHEN session = ?2 THEN report_seq ELSE 0 END,
                     session = ?2, boots = ?3 WHERE name = ?1",
                )?
                .execute(params![
                    cluster.as_str(),
                    grant.session.0.cast_signed(),
                    to_json(&grant.boots)?
                ])?;
            batch.note(Note::Cluster(cluster));
            Ok(Ok(Some(grant)))
        })
        .await
    }
}

fn agree(enrolment: &Enrolment, boot: BootId, proposed: Session, now: UnixSeconds) -> SessionGrant {
    let mut boots = enrolment.boots.clone();
    // Only the newest life may continue; an older one that comes back is a clone or a replay and gets a new number.
    let known = boots
        .last()
        .filter(|last| last.boot == boot && last.session == enrolment.session);
    let (session, known_boot) = match known {
        Some(last) => (last.session, true),
        None => (proposed.max(enrolment.session.next()), false),
    };
    if known_boot {
        boots.pop();
    }
    boots.push(BootRecord {
        boot,
        proposed,
        session,
        at: now,
    });
    let surplus = boots.len().saturating_sub(limits::BOOTS_KEPT);
    boots.drain(..surplus);
    let went_back = !known_boot && proposed <= enrolment.session && enrolment.session > Session(0);
    SessionGrant {
        session,
        known_boot,
        went_back,
        boots,
    }
}

fn enrol(
    batch: &mut Batch<'_>,
    request: &EnrolRequest,
) -> Result<Result<Enrolment, EnrolRefusal>, StoreError> {
    let Some(token) = read_token(batch.db, &request.token)? else {
        return Ok(Err(EnrolRefusal::TokenUnknown));
    };
    let existing = read_enrolment(batch.db, &request.cluster)?;
    if let Some(refusal) = refusal(request, &token, existing.as_ref()) {
        return Ok(Err(refusal));
    }
    let is_new = existing.as_ref().is_none_or(|existing| existing.open);
    if is_new && let Some(name) = elsewhere(batch.db, request)? {
        return Ok(Err(EnrolRefusal::MemberElsewhere(name)));
    }
    batch
        .db
        .prepare_cached("UPDATE token SET used_by = ?2 WHERE digest = ?1")?
        .execute(params![request.token.0.as_slice(), request.identity.0.as_slice()])?;
    match existing {
        Some(existing) if existing.open => succeed(batch, &existing, request, &token.terms)?,
        Some(existing) => return Ok(Ok(existing)),
        None => insert(
            batch,
            &request.cluster,
            request.incarnation,
            request.identity,
            &request.kube_system_uid,
            &token.terms,
            request.now,
        )?,
    }
    let made = read_enrolment(batch.db, &request.cluster)?;
    made.map(Ok).ok_or_else(|| StoreError::Database {
        cause: "the new enrolment is not there".to_owned(),
    })
}

fn refusal(request: &EnrolRequest, token: &Token, existing: Option<&Enrolment>) -> Option<EnrolRefusal> {
    if token.cluster != request.cluster {
        return Some(EnrolRefusal::TokenOfOther(token.cluster.clone()));
    }
    if token.expires <= request.now {
        return Some(EnrolRefusal::TokenExpired);
    }
    if token.used_by.is_some_and(|key| key != request.identity) {
        return Some(EnrolRefusal::TokenUsed);
    }
    let existing = existing?;
    let cluster = request.cluster.clone();
    if existing.open && existing.identity != request.identity {
        None
    } else if existing.revoked {
        Some(EnrolRefusal::Revoked(cluster))
    } else if existing.kube_system_uid != request.kube_system_uid {
        let uid = existing.kube_system_uid.clone();
        Some(EnrolRefusal::OtherCluster { cluster, uid })
    } else if existing.identity != request.identity {
        Some(EnrolRefusal::NameTaken(cluster))
    } else {
        None
    }
}

fn insert(
    batch: &mut Batch<'_>,
    cluster: &ClusterName,
    incarnation: Incarnation,
    identity: PublicKey,
    kube_system_uid: &str,
    terms: &Terms,
    now: UnixSeconds,
) -> Result<(), StoreError> {
    let (sequence, session) = numbers_after(batch.db, cluster)?;
    batch
        .db
        .prepare_cached(
            "INSERT INTO cluster(name, incarnation, identity, kube_system_uid, terms, enrolled, sequence, session)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            cluster.as_str(),
            incarnation.0.as_slice(),
            identity.0.as_slice(),
            kube_system_uid,
            to_json(terms)?,
            now.0,
            sequence.0.cast_signed(),
            session.0.cast_signed()
        ])?;
    cluster_changed(batch, cluster)
}

/// Gives a cluster row a new revision and tells everybody.
pub(super) fn cluster_changed(batch: &mut Batch<'_>, cluster: &ClusterName) -> Result<(), StoreError> {
    let revision = batch.next_revision();
    batch
        .db
        .prepare_cached("UPDATE cluster SET revision = ?2 WHERE name = ?1")?
        .execute(params![cluster.as_str(), revision.0.cast_signed()])?;
    batch.row_changed(RowChange {
        revision,
        row: ViewRow::Cluster(cluster.clone()),
    });
    batch.note(Note::Cluster(cluster.clone()));
    Ok(())
}

const SELECT: &str = "SELECT name, incarnation, identity, kube_system_uid, terms, enrolled, revoked, session,
    report_seq, boots, open FROM cluster";

pub(super) fn read_enrolment(
    db: &Connection,
    cluster: &ClusterName,
) -> Result<Option<Enrolment>, StoreError> {
    let mut statement = db.prepare_cached(&format!("{SELECT} WHERE name = ?1"))?;
    let mut rows = statement.query(params![cluster.as_str()])?;
    rows.next()?.map(of_row).transpose()
}

fn of_row(row: &Row<'_>) -> Result<Enrolment, StoreError> {
    let blob = |column: usize| row.get::<_, Vec<u8>>(column);
    Ok(Enrolment {
        cluster: intern::cluster_name(&row.get::<_, String>(0)?)?,
        incarnation: Incarnation(intern::fixed("incarnation of a cluster", &blob(1)?)?),
        identity: PublicKey(intern::fixed("identity of a cluster", &blob(2)?)?),
        kube_system_uid: row.get(3)?,
        terms: of_json("terms of a cluster", &row.get::<_, String>(4)?)?,
        enrolled: UnixSeconds(row.get(5)?),
        revoked: row.get(6)?,
        session: Session(row.get::<_, i64>(7)?.cast_unsigned()),
        report_seq: ReportSeq(row.get::<_, i64>(8)?.cast_unsigned()),
        boots: of_json("boots of a cluster", &row.get::<_, String>(9)?)?,
        open: row.get(10)?,
    })
}

fn read_token(db: &Connection, digest: &Digest) -> Result<Option<Token>, StoreError> {
    type Columns = (String, i64, Option<Vec<u8>>, String);
    let row: Option<Columns> = db
        .prepare_cached("SELECT cluster, expires, used_by, terms FROM token WHERE digest = ?1")?
        .query_row(params![digest.0.as_slice()], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })
        .optional()?;
    let Some((cluster, expires, used_by, terms)) = row else {
        return Ok(None);
    };
    Ok(Some(Token {
        digest: *digest,
        cluster: intern::cluster_name(&cluster)?,
        expires: UnixSeconds(expires),
        terms: of_json("terms of a token", &terms)?,
        used_by: match used_by {
            Some(key) => Some(PublicKey(intern::fixed("key of a token", &key)?)),
            None => None,
        },
    }))
}

pub(super) fn to_json<T: Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Database {
        cause: format!("a value does not encode: {error}"),
    })
}

pub(super) fn of_json<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Corrupt {
        what: what.to_owned(),
        cause: error.to_string(),
    })
}
