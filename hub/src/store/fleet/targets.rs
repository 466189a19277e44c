//! Target rows as readers see them: one work of one cluster, with what the agent last said of it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use shared::ids::{ClusterName, Digest, ObjectKey, Sequence};
use shared::limits as wire_limits;
use shared::set::{Entry, Tombstone};
use shared::time::UnixSeconds;
use shared::wire::ApplyState;

use super::super::Store;
use super::super::error::StoreError;
use super::super::limits;
use super::super::notes::BindingRef;
use super::super::object::Revision;
use super::super::seal::StorageKey;
use super::intern::{self, Facet};
use super::reports::{TargetReport, flags, report_code};

/// One work of one cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// Row id; never used again for another row.
    pub id: i64,
    /// The cluster.
    pub cluster: ClusterName,
    /// The binding it comes from.
    pub binding: BindingRef,
    /// What the set says.
    pub entry: Arc<Entry>,
    /// Sequence of the first set that held this key, without a break since.
    pub since: Sequence,
    /// Sequence of the set that brought the present state of the entry.
    pub changed: Sequence,
    /// When the row was made.
    pub created: UnixSeconds,
    /// Highest revision of the row and its report.
    pub revision: Revision,
    /// How far the present state of the entry has come.
    pub state: TargetState,
    /// What the agent last said; none if nothing yet. May be of an older content: compare digests.
    pub report: Option<TargetReport>,
}

/// How far the newest state of an entry has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TargetState {
    /// No set with it was sent.
    Waiting,
    /// Sent, not acknowledged.
    Published,
    /// In the agent's ledger.
    Accepted,
}

/// A tombstone that the agent has not reported executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tombstoned {
    /// The cluster.
    pub cluster: ClusterName,
    /// The order.
    pub tombstone: Tombstone,
}

impl Store {
    /// All targets of a binding, by cluster, then key.
    ///
    /// # Errors
    /// The store.
    pub fn targets_of(&self, binding: &BindingRef) -> Result<Vec<Target>, StoreError> {
        let db = self.reader();
        let Some(id) = intern::known_binding(&db, binding)? else {
            return Ok(Vec::new());
        };
        read(&db, &self.inner.key, "WHERE t.binding = ?1", params![id])
    }

    /// Those targets of a binding of which something was reported, by cluster, then key. What was only adopted costs next
    /// to nothing here.
    ///
    /// # Errors
    /// The store.
    pub fn reported_of(&self, binding: &BindingRef) -> Result<Vec<Target>, StoreError> {
        let db = self.reader();
        let Some(id) = intern::known_binding(&db, binding)? else {
            return Ok(Vec::new());
        };
        let filter = "WHERE t.binding = ?1 AND r.target IS NOT NULL";
        read(&db, &self.inner.key, filter, params![id])
    }

    /// What clusters hold of one object by a binding, by cluster; without reports, so much cheaper than
    /// [`Store::targets_of`]. Clusters that hold the same share the value.
    ///
    /// # Errors
    /// The store.
    pub fn entries_of(
        &self,
        binding: &BindingRef,
        key: &ObjectKey,
    ) -> Result<BTreeMap<ClusterName, Arc<Entry>>, StoreError> {
        let db = self.reader();
        let (Some(binding), Some(okey)) = (
            intern::known_binding(&db, binding)?,
            intern::known_okey(&db, key)?,
        ) else {
            return Ok(BTreeMap::new());
        };
        let mut statement = db.prepare_cached(
            "SELECT c.name, t.facet, t.content FROM target t JOIN cluster c ON c.id = t.cluster
             WHERE t.binding = ?1 AND t.okey = ?2",
        )?;
        let mut rows = statement.query(params![binding, okey])?;
        let mut known: HashMap<(i64, i64), Arc<Entry>> = HashMap::new();
        let mut found = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let numbers = (row.get(1)?, row.get(2)?);
            let entry = match known.get(&numbers) {
                Some(entry) => entry.clone(),
                None => {
                    let entry = Arc::new(intern::entry(&db, key, numbers)?);
                    known.insert(numbers, entry.clone());
                    entry
                }
            };
            found.insert(
                intern::cluster_name(row.get_ref(0)?.as_str().map_err(column)?)?,
                entry,
            );
        }
        Ok(found)
    }

    /// Every object that some cluster holds, with the binding it holds it by.
    ///
    /// # Errors
    /// The store.
    pub fn held_objects(&self) -> Result<Vec<(ObjectKey, BindingRef)>, StoreError> {
        let db = self.reader();
        let mut statement = db.prepare_cached(
            "SELECT k.bytes, b.namespace, b.name FROM (SELECT DISTINCT binding, okey FROM target) t
             JOIN okey k ON k.id = t.okey JOIN binding b ON b.id = t.binding",
        )?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let key = intern::decode("object key", row.get_ref(0)?.as_blob().map_err(column)?)?;
            let binding = BindingRef {
                namespace: row.get(1)?,
                name: row.get(2)?,
            };
            found.push((key, binding));
        }
        Ok(found)
    }

    /// Works that their clusters have not confirmed, or only a moment before `now`: what they take may be missing in what
    /// the clusters reported to use.
    ///
    /// # Errors
    /// The store.
    pub fn unconfirmed(&self, now: UnixSeconds) -> Result<Vec<(BindingRef, ClusterName)>, StoreError> {
        let db = self.reader();
        let mut statement = db.prepare_cached(
            "SELECT b.namespace, b.name, c.name, r.flags FROM target t JOIN binding b ON b.id = t.binding
             JOIN cluster c ON c.id = t.cluster JOIN content x ON x.id = t.content
             LEFT JOIN report r ON r.target = t.id AND r.content = x.digest AND r.observed < ?1",
        )?;
        let mut rows = statement.query(params![now.0.saturating_sub(limits::CONFIRMED_AFTER_S)])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let applied = match row.get::<_, Option<i64>>(3)? {
                Some(bits) => flags::read(bits)?.0 == ApplyState::Applied,
                None => false,
            };
            if !applied {
                let binding = BindingRef {
                    namespace: row.get(0)?,
                    name: row.get(1)?,
                };
                let cluster = intern::cluster_name(row.get_ref(2)?.as_str().map_err(column)?)?;
                found.push((binding, cluster));
            }
        }
        Ok(found)
    }

    /// How many works there are by what their clusters say: `applied`, `failed`, `pending`, `suspended`, and `unreported`
    /// of which nothing was heard yet.
    ///
    /// # Errors
    /// The store.
    pub fn works_by_status(&self) -> Result<BTreeMap<&'static str, u64>, StoreError> {
        let words = ["applied", "failed", "pending", "suspended", "unreported"];
        let mut counts: BTreeMap<&'static str, u64> = words.into_iter().map(|word| (word, 0)).collect();
        let db = self.reader();
        let mut statement = db.prepare_cached(
            "SELECT r.flags, count(*) FROM target t LEFT JOIN report r ON r.target = t.id GROUP BY r.flags",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let word = match row.get::<_, Option<i64>>(0)? {
                None => "unreported",
                Some(bits) => match flags::read(bits)?.0 {
                    ApplyState::Applied => "applied",
                    ApplyState::Failed => "failed",
                    ApplyState::Pending => "pending",
                    ApplyState::Suspended => "suspended",
                },
            };
            *counts.entry(word).or_default() += row.get::<_, i64>(1)?.cast_unsigned();
        }
        Ok(counts)
    }

    /// All targets of a cluster, by key.
    ///
    /// # Errors
    /// The store.
    pub fn targets_on(&self, cluster: &ClusterName) -> Result<Vec<Target>, StoreError> {
        let db = self.reader();
        let Some(id) = intern::cluster_id(&db, cluster)? else {
            return Ok(Vec::new());
        };
        read(&db, &self.inner.key, "WHERE t.cluster = ?1", params![id])
    }

    /// Every target of the fleet, by cluster, then key.
    ///
    /// # Errors
    /// The store.
    pub fn all_targets(&self) -> Result<Vec<Target>, StoreError> {
        read(&self.reader(), &self.inner.key, "", [])
    }

    /// One target by row id.
    ///
    /// # Errors
    /// The store.
    pub fn target(&self, id: i64) -> Result<Option<Target>, StoreError> {
        Ok(read(&self.reader(), &self.inner.key, "WHERE t.id = ?1", params![id])?.pop())
    }

    /// Revision of the last change of any row of a binding, withdrawn ones included; none if it never had any.
    ///
    /// # Errors
    /// The store.
    pub fn binding_revision(&self, binding: &BindingRef) -> Result<Option<Revision>, StoreError> {
        let revision: Option<i64> = self
            .reader()
            .prepare_cached("SELECT revision FROM binding WHERE namespace = ?1 AND name = ?2")?
            .query_row(params![binding.namespace, binding.name], |row| row.get(0))
            .optional()?;
        Ok(revision.map(|revision| Revision(revision.cast_unsigned())))
    }

    /// Tombstones of a cluster that wait for execution, by key.
    ///
    /// # Errors
    /// The store.
    pub fn tombstones_on(&self, cluster: &ClusterName) -> Result<Vec<Tombstoned>, StoreError> {
        let db = self.reader();
        let Some(id) = intern::cluster_id(&db, cluster)? else {
            return Ok(Vec::new());
        };
        let mut found = tombstones(&db, id)?;
        found.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(found
            .into_iter()
            .map(|tombstone| Tombstoned {
                cluster: cluster.clone(),
                tombstone,
            })
            .collect())
    }

    /// The canonical bytes of a content, checked against the digest.
    ///
    /// # Errors
    /// The store; corrupt if the bytes do not match.
    pub fn content(&self, digest: &Digest) -> Result<Option<Bytes>, StoreError> {
        read_content(&self.reader(), &self.inner.key, digest)
    }
}

fn read_content(db: &Connection, key: &StorageKey, digest: &Digest) -> Result<Option<Bytes>, StoreError> {
    let record: Option<Vec<u8>> = db
        .prepare_cached("SELECT record FROM content WHERE digest = ?1")?
        .query_row(params![digest.0.as_slice()], |row| row.get(0))
        .optional()?;
    let Some(record) = record else { return Ok(None) };
    let plain = key.open_record(&record, &digest.0, wire_limits::CONTENT_BYTES_MAX)?;
    if Digest::of(&plain.bytes) != *digest {
        return Err(StoreError::Corrupt {
            what: format!("content {digest}"),
            cause: "its bytes have another digest".to_owned(),
        });
    }
    Ok(Some(plain.bytes.into()))
}

pub(super) fn tombstones(db: &Connection, cluster: i64) -> Result<Vec<Tombstone>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT k.bytes, d.mode, d.template_uid, d.sequence FROM tombstone d JOIN okey k ON k.id = d.okey
         WHERE d.cluster = ?1",
    )?;
    let mut rows = statement.query(params![cluster])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let key: ObjectKey = intern::decode("object key", row.get_ref(0)?.as_blob().map_err(column)?)?;
        found.push(Tombstone {
            key,
            mode: super::sets::mode_of(row.get(1)?),
            template_uid: row.get(2)?,
            sequence: Sequence(row.get::<_, i64>(3)?.cast_unsigned()),
        });
    }
    Ok(found)
}

/// What many rows of one reading share: entries by the numbers of key, bookkeeping and content, texts, names.
struct Shared<'a> {
    db: &'a Connection,
    key: &'a StorageKey,
    entries: HashMap<(i64, i64, i64), Arc<Entry>>,
    texts: HashMap<i64, Bytes>,
    clusters: HashMap<i64, ClusterName>,
}

const SELECT: &str = "SELECT t.id, c.name, b.namespace, b.name, k.bytes, f.bytes, x.digest, x.length,
    t.since, t.changed, t.created, t.revision, c.published, c.acked,
    r.flags, r.generation, r.content, r.reason, r.message, r.status, r.uid, r.observed, r.revision,
    t.okey, t.facet, t.content, t.cluster
    FROM target t JOIN cluster c ON c.id = t.cluster JOIN binding b ON b.id = t.binding
    JOIN okey k ON k.id = t.okey JOIN facet f ON f.id = t.facet JOIN content x ON x.id = t.content
    LEFT JOIN report r ON r.target = t.id";

fn read(
    db: &Connection,
    key: &StorageKey,
    filter: &str,
    parameters: impl Params,
) -> Result<Vec<Target>, StoreError> {
    let mut shared = Shared {
        db,
        key,
        entries: HashMap::new(),
        texts: HashMap::new(),
        clusters: HashMap::new(),
    };
    let mut statement = db.prepare_cached(&format!("{SELECT} {filter}"))?;
    let mut rows = statement.query(parameters)?;
    let mut targets = Vec::new();
    while let Some(row) = rows.next()? {
        targets.push(of_row(&mut shared, row)?);
    }
    targets.sort_by(|a, b| (&a.cluster, &a.entry.key).cmp(&(&b.cluster, &b.entry.key)));
    Ok(targets)
}

fn of_row(shared: &mut Shared<'_>, row: &Row<'_>) -> Result<Target, StoreError> {
    let number = |column: usize| row.get::<_, i64>(column).map(i64::cast_unsigned);
    let entry = shared.entry(row)?;
    let changed = number(9)?;
    let (published, acked) = (number(12)?, number(13)?);
    let state = if changed <= acked {
        TargetState::Accepted
    } else if changed <= published {
        TargetState::Published
    } else {
        TargetState::Waiting
    };
    let report_revision = row.get::<_, Option<i64>>(22)?.map_or(0, i64::cast_unsigned);
    Ok(Target {
        id: row.get(0)?,
        cluster: shared.cluster(row)?,
        binding: BindingRef {
            namespace: row.get(2)?,
            name: row.get(3)?,
        },
        entry,
        since: Sequence(number(8)?),
        changed: Sequence(changed),
        created: UnixSeconds(row.get(10)?),
        revision: Revision(number(11)?.max(report_revision)),
        state,
        report: report_of(shared, row)?,
    })
}

fn report_of(shared: &mut Shared<'_>, row: &Row<'_>) -> Result<Option<TargetReport>, StoreError> {
    let Some(bits) = row.get::<_, Option<i64>>(14)? else {
        return Ok(None);
    };
    let (applied, health, observed_is_bound) = flags::read(bits)?;
    let text = |bytes: Bytes| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Some(TargetReport {
        applied,
        health,
        template_generation: row.get::<_, i64>(15)?.cast_unsigned(),
        digest: intern::digest("digest in a report", row.get_ref(16)?.as_blob().map_err(column)?)?,
        reason: report_code(&text(shared.text(row.get(17)?)?)),
        message: text(shared.text(row.get(18)?)?),
        status: Some(shared.text(row.get(19)?)?).filter(|status| !status.is_empty()),
        uid: row.get(20)?,
        observed: UnixSeconds(row.get(21)?),
        observed_is_bound,
    }))
}

impl Shared<'_> {
    fn text(&mut self, id: Option<i64>) -> Result<Bytes, StoreError> {
        let Some(id) = id else { return Ok(Bytes::new()) };
        if let Some(text) = self.texts.get(&id) {
            return Ok(text.clone());
        }
        let (digest, record): (Vec<u8>, Vec<u8>) = self
            .db
            .prepare_cached("SELECT digest, record FROM text WHERE id = ?1")?
            .query_row(params![id], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let text: Bytes = self
            .key
            .open_record(&record, &digest, wire_limits::REPORT_BYTES_MAX)?
            .bytes
            .into();
        self.texts.insert(id, text.clone());
        Ok(text)
    }

    fn entry(&mut self, row: &Row<'_>) -> Result<Arc<Entry>, StoreError> {
        let numbers = (row.get(23)?, row.get(24)?, row.get(25)?);
        if let Some(known) = self.entries.get(&numbers) {
            return Ok(known.clone());
        }
        let blob = |index: usize| row.get_ref(index)?.as_blob().map_err(column);
        let key: ObjectKey = intern::decode("object key", blob(4)?)?;
        let facet: Facet = intern::decode("bookkeeping of a target", blob(5)?)?;
        let digest = intern::digest("digest of a content", blob(6)?)?;
        let entry = Arc::new(facet.entry(key, digest, row.get(7)?));
        self.entries.insert(numbers, entry.clone());
        Ok(entry)
    }

    fn cluster(&mut self, row: &Row<'_>) -> Result<ClusterName, StoreError> {
        let number = row.get(26)?;
        if let Some(known) = self.clusters.get(&number) {
            return Ok(known.clone());
        }
        let name = intern::cluster_name(row.get_ref(1)?.as_str().map_err(column)?)?;
        self.clusters.insert(number, name.clone());
        Ok(name)
    }
}

/// A column of another type than written.
pub(super) fn column(error: rusqlite::types::FromSqlError) -> StoreError {
    StoreError::Corrupt {
        what: "a column".to_owned(),
        cause: error.to_string(),
    }
}
