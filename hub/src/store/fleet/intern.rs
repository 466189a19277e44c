//! Values that many rows share, stored once and referred to by number.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};
use shared::ids::{ClusterName, Digest, ObjectKey};
use shared::set::{ConflictResolution, DeleteMode, Entry};

use super::super::error::StoreError;
use super::super::notes::BindingRef;
use super::super::object::Revision;
use super::super::seal::StorageKey;

/// Everything of an entry but its key and content: the same for all clusters of a binding, as a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Facet {
    work: String,
    template_uid: String,
    template_generation: u64,
    conflict_resolution: ConflictResolution,
    suspended: bool,
    delete_mode: DeleteMode,
    retain_replicas: bool,
    dependencies: Vec<ObjectKey>,
    labels: BTreeMap<String, String>,
}

impl Facet {
    pub(super) fn of(entry: &Entry) -> Facet {
        Facet {
            work: entry.work.clone(),
            template_uid: entry.template_uid.clone(),
            template_generation: entry.template_generation,
            conflict_resolution: entry.conflict_resolution,
            suspended: entry.suspended,
            delete_mode: entry.delete_mode,
            retain_replicas: entry.retain_replicas,
            dependencies: entry.dependencies.clone(),
            labels: entry.labels.clone(),
        }
    }

    pub(super) fn entry(self, key: ObjectKey, digest: Digest, length: u32) -> Entry {
        Entry {
            key,
            digest,
            length,
            work: self.work,
            template_uid: self.template_uid,
            template_generation: self.template_generation,
            conflict_resolution: self.conflict_resolution,
            suspended: self.suspended,
            delete_mode: self.delete_mode,
            retain_replicas: self.retain_replicas,
            dependencies: self.dependencies,
            labels: self.labels,
        }
    }
}

/// Number of an object key; made if new.
pub(super) fn okey(db: &Connection, key: &ObjectKey) -> Result<i64, StoreError> {
    number(
        db,
        "SELECT id FROM okey WHERE bytes = ?1",
        "INSERT INTO okey(bytes) VALUES (?1)",
        &encode(key)?,
    )
}

/// Number of an object key, if any row has ever named it.
pub(super) fn known_okey(db: &Connection, key: &ObjectKey) -> Result<Option<i64>, StoreError> {
    Ok(db
        .prepare_cached("SELECT id FROM okey WHERE bytes = ?1")?
        .query_row(params![encode(key)?], |row| row.get(0))
        .optional()?)
}

/// Number of a facet; made if new.
pub(super) fn facet(db: &Connection, facet: &Facet) -> Result<i64, StoreError> {
    number(
        db,
        "SELECT id FROM facet WHERE bytes = ?1",
        "INSERT INTO facet(bytes) VALUES (?1)",
        &encode(facet)?,
    )
}

/// Number of a content; stored if new, encrypted if it is of a Secret.
pub(super) fn content(
    db: &Connection,
    key: &StorageKey,
    entry: &Entry,
    canonical: &[u8],
) -> Result<i64, StoreError> {
    if let Some(id) = content_id(db, &entry.digest)? {
        return Ok(id);
    }
    let secret = entry.key.group.is_empty() && entry.key.kind == "Secret";
    let record = key.seal(canonical, 0, secret, &entry.digest.0)?;
    db.prepare_cached("INSERT INTO content(digest, length, record) VALUES (?1, ?2, ?3)")?
        .execute(params![entry.digest.0.as_slice(), entry.length, record])?;
    Ok(db.last_insert_rowid())
}

/// Number of a stored content.
pub(super) fn content_id(db: &Connection, digest: &Digest) -> Result<Option<i64>, StoreError> {
    Ok(db
        .prepare_cached("SELECT id FROM content WHERE digest = ?1")?
        .query_row(params![digest.0.as_slice()], |row| row.get(0))
        .optional()?)
}

/// Number of a text; stored if new. None for an empty one.
pub(super) fn text(
    db: &Connection,
    key: &StorageKey,
    bytes: &[u8],
    secret: bool,
) -> Result<Option<i64>, StoreError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let digest = Digest::of(bytes);
    let found = db
        .prepare_cached("SELECT id FROM text WHERE digest = ?1")?
        .query_row(params![digest.0.as_slice()], |row| row.get(0))
        .optional()?;
    if found.is_some() {
        return Ok(found);
    }
    let record = key.seal(bytes, 0, secret, &digest.0)?;
    db.prepare_cached("INSERT INTO text(digest, record) VALUES (?1, ?2)")?
        .execute(params![digest.0.as_slice(), record])?;
    Ok(Some(db.last_insert_rowid()))
}

/// Number of an enrolled cluster.
pub(super) fn cluster_id(db: &Connection, cluster: &ClusterName) -> Result<Option<i64>, StoreError> {
    Ok(db
        .prepare_cached("SELECT id FROM cluster WHERE name = ?1")?
        .query_row(params![cluster.as_str()], |row| row.get(0))
        .optional()?)
}

/// Number of a binding; made if new.
pub(super) fn binding(db: &Connection, binding: &BindingRef, revision: Revision) -> Result<i64, StoreError> {
    if let Some(id) = known_binding(db, binding)? {
        return Ok(id);
    }
    db.prepare_cached("INSERT INTO binding(namespace, name, revision) VALUES (?1, ?2, ?3)")?
        .execute(params![binding.namespace, binding.name, revision.0.cast_signed()])?;
    Ok(db.last_insert_rowid())
}

/// Number of a binding that has or had rows.
pub(super) fn known_binding(db: &Connection, binding: &BindingRef) -> Result<Option<i64>, StoreError> {
    Ok(db
        .prepare_cached("SELECT id FROM binding WHERE namespace = ?1 AND name = ?2")?
        .query_row(params![binding.namespace, binding.name], |row| row.get(0))
        .optional()?)
}

/// An entry by the numbers of its facet and content.
pub(super) fn entry(
    db: &Connection,
    key: &ObjectKey,
    (facet, content): (i64, i64),
) -> Result<Entry, StoreError> {
    let facet: Vec<u8> = db
        .prepare_cached("SELECT bytes FROM facet WHERE id = ?1")?
        .query_row(params![facet], |row| row.get(0))?;
    let (found, length): (Vec<u8>, u32) = db
        .prepare_cached("SELECT digest, length FROM content WHERE id = ?1")?
        .query_row(params![content], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let facet: Facet = decode("bookkeeping of a target", &facet)?;
    Ok(facet.entry(key.clone(), digest("digest of a content", &found)?, length))
}

/// The binding of a number.
pub(super) fn binding_of(db: &Connection, id: i64) -> Result<BindingRef, StoreError> {
    let (namespace, name) = db
        .prepare_cached("SELECT namespace, name FROM binding WHERE id = ?1")?
        .query_row(params![id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(BindingRef { namespace, name })
}

fn number(db: &Connection, find: &str, insert: &str, bytes: &[u8]) -> Result<i64, StoreError> {
    let found = db
        .prepare_cached(find)?
        .query_row(params![bytes], |row| row.get(0))
        .optional()?;
    if let Some(id) = found {
        return Ok(id);
    }
    db.prepare_cached(insert)?.execute(params![bytes])?;
    Ok(db.last_insert_rowid())
}

pub(super) fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, StoreError> {
    postcard::to_stdvec(value).map_err(|error| StoreError::Database {
        cause: format!("a value does not encode: {error}"),
    })
}

pub(super) fn decode<'a, T: Deserialize<'a>>(what: &str, bytes: &'a [u8]) -> Result<T, StoreError> {
    postcard::from_bytes(bytes).map_err(|error| StoreError::Corrupt {
        what: what.to_owned(),
        cause: error.to_string(),
    })
}

/// A digest column.
pub(super) fn digest(what: &str, bytes: &[u8]) -> Result<Digest, StoreError> {
    Ok(Digest(fixed(what, bytes)?))
}

/// A column of fixed length.
pub(super) fn fixed<const N: usize>(what: &str, bytes: &[u8]) -> Result<[u8; N], StoreError> {
    bytes.try_into().map_err(|_| StoreError::Corrupt {
        what: what.to_owned(),
        cause: format!("{} bytes instead of {N}", bytes.len()),
    })
}

/// A cluster name column.
pub(super) fn cluster_name(text: &str) -> Result<ClusterName, StoreError> {
    ClusterName::new(text).map_err(|error| StoreError::Corrupt {
        what: "name of a cluster".to_owned(),
        cause: error.to_string(),
    })
}
