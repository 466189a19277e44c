//! Commits of objects: check what is expected, number them, write their rows, load them again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

use super::body::Body;
use super::error::{CommitError, StoreError};
use super::limits;
use super::memory::{Key, Memory};
use super::object::{Event, EventKind, Expect, Object, Op, ResourceId, Revision};
use super::seal::StorageKey;
use super::writer::Batch;

/// An operation made ready outside of the writer: serialised, compressed, encrypted.
pub(super) struct Prepared {
    resource: ResourceId,
    key: Key,
    expect: Expect,
    /// None: delete.
    put: Option<(Body, Vec<u8>)>,
}

/// A row to write. Made in memory, executed in a transaction, at once or later (written-behind resources).
#[derive(Debug)]
pub(super) struct RowOp {
    resource: ResourceId,
    key: Key,
    revision: Revision,
    at_s: i64,
    /// None: delete.
    record: Option<Vec<u8>>,
}

/// Serialises, checks sizes, compresses.
pub(super) fn prepare(key: &StorageKey, ops: Vec<Op>) -> Result<Vec<Prepared>, CommitError> {
    if ops.len() > limits::COMMIT_OPS {
        return Err(CommitError::TooMany {
            ops: ops.len(),
            limit: limits::COMMIT_OPS,
        });
    }
    ops.into_iter().map(|op| prepare_one(key, op)).collect()
}

fn prepare_one(key: &StorageKey, op: Op) -> Result<Prepared, CommitError> {
    let (resource, namespace, name, expect, object) = match op {
        Op::Put {
            resource,
            namespace,
            name,
            expect,
            object,
        } => (resource, namespace, name, expect, Some(object)),
        Op::Delete {
            resource,
            namespace,
            name,
            expect,
        } => (resource, namespace, name, expect, None),
    };
    let put = match object {
        None => None,
        Some(object) => {
            let place = (&resource, namespace.as_str(), name.as_str());
            Some(body_and_record(key, place, &object)?)
        }
    };
    Ok(Prepared {
        resource,
        key: (namespace, name),
        expect,
        put,
    })
}

fn body_and_record(
    key: &StorageKey,
    (resource, namespace, name): (&ResourceId, &str, &str),
    object: &Value,
) -> Result<(Body, Vec<u8>), CommitError> {
    let body = Body::of_value(object).map_err(|cause| CommitError::Malformed {
        resource: resource.clone(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        cause,
    })?;
    if body.json.len() > limits::OBJECT_BYTES {
        return Err(CommitError::TooLarge {
            resource: resource.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            bytes: body.json.len(),
            limit: limits::OBJECT_BYTES,
        });
    }
    let aad = associated(resource, namespace, name);
    let record = key.seal(&body.json, body.revision_at, resource.is_secret(), &aad)?;
    Ok((body, record))
}

/// Binds an encrypted body to its place, so that rows cannot be swapped.
fn associated(resource: &ResourceId, namespace: &str, name: &str) -> Vec<u8> {
    format!("{resource}\n{namespace}\n{name}").into_bytes()
}

/// All or nothing: checks every expectation first, against what ran before it in the batch.
pub(super) fn run(batch: &mut Batch<'_>, ops: Vec<Prepared>) -> Result<Vec<Arc<Object>>, CommitError> {
    let mut planned: Vec<(Prepared, Option<Arc<Object>>)> = Vec::with_capacity(ops.len());
    for op in ops {
        // Within one commit a later operation on the same object would need the revision of the earlier one:
        // nobody can know it, so only the first is checked against what is stored.
        let repeated = planned
            .iter()
            .any(|(earlier, _)| earlier.resource == op.resource && earlier.key == op.key);
        let current = batch.current(&op.resource, &op.key);
        if !repeated {
            check(&op, current.as_ref())?;
        }
        planned.push((op, current));
    }
    Ok(planned
        .into_iter()
        .filter_map(|(op, _)| apply(batch, op))
        .collect())
}

fn check(op: &Prepared, current: Option<&Arc<Object>>) -> Result<(), CommitError> {
    let (resource, (namespace, name)) = (op.resource.clone(), op.key.clone());
    match (op.expect, current) {
        (Expect::Absent, Some(current)) => Err(CommitError::AlreadyExists {
            resource,
            namespace,
            name,
            current: current.clone(),
        }),
        (Expect::Present | Expect::Revision(_), None) => Err(CommitError::NotFound {
            resource,
            namespace,
            name,
        }),
        (Expect::Any, None) if op.put.is_none() => Err(CommitError::NotFound {
            resource,
            namespace,
            name,
        }),
        (Expect::Revision(expected), Some(current)) if current.revision != expected => {
            Err(CommitError::Conflict {
                resource,
                namespace,
                name,
                expected,
                current: current.clone(),
            })
        }
        _ => Ok(()),
    }
}

/// None only for the second delete of the same object within one commit.
fn apply(batch: &mut Batch<'_>, op: Prepared) -> Option<Arc<Object>> {
    let previous = batch.current(&op.resource, &op.key);
    let Prepared {
        resource, key, put, ..
    } = op;
    let (kind, object, record) = match put {
        Some((body, record)) => {
            let revision = batch.next_revision();
            let object = Object::assemble(resource.clone(), key.0.clone(), key.1.clone(), &body, revision);
            (EventKind::Put, Arc::new(object), Some(record))
        }
        None => {
            let last = previous.clone()?;
            (
                EventKind::Delete,
                Arc::new(last.restamped(batch.next_revision())),
                None,
            )
        }
    };
    let revision = object.revision;
    let row = RowOp {
        resource,
        key,
        revision,
        at_s: batch.now_s,
        record,
    };
    let now = (kind == EventKind::Put).then(|| object.clone());
    batch.change(
        Event {
            revision,
            kind,
            object: object.clone(),
            previous,
        },
        now,
        row,
    );
    Some(object)
}

/// Executes rows in order inside a transaction. Returns roughly how many bytes that puts into the log.
pub(super) fn write_rows(db: &Connection, rows: &[RowOp]) -> Result<usize, StoreError> {
    let mut bytes = 0;
    let mut known: Option<(&ResourceId, i64)> = None;
    for row in rows {
        let resource = match known {
            Some((resource, id)) if *resource == row.resource => id,
            _ => resource_id(db, &row.resource)?,
        };
        known = Some((&row.resource, resource));
        if !row.resource.is_volatile() {
            write_change(db, resource, row)?;
        }
        match &row.record {
            Some(record) => {
                db.prepare_cached(
                    "INSERT INTO object(resource, namespace, name, revision, body) VALUES (?1, ?2, ?3, ?4, ?5)
                     ON CONFLICT(resource, namespace, name)
                     DO UPDATE SET revision = excluded.revision, body = excluded.body",
                )?
                .execute(params![resource, row.key.0, row.key.1, row.revision.0.cast_signed(), record])?;
                bytes += record.len() * 2;
            }
            None => {
                db.prepare_cached("DELETE FROM object WHERE resource = ?1 AND namespace = ?2 AND name = ?3")?
                    .execute(params![resource, row.key.0, row.key.1])?;
            }
        }
        bytes += 4_096;
    }
    Ok(bytes)
}

fn write_change(db: &Connection, resource: i64, row: &RowOp) -> Result<(), StoreError> {
    db.prepare_cached(
        "INSERT INTO change(revision, at, removed, resource, namespace, name, before_revision, before)
         SELECT ?1, ?2, ?3, ?4, ?5, ?6, o.revision, o.body FROM (SELECT 1)
         LEFT JOIN object o ON o.resource = ?4 AND o.namespace = ?5 AND o.name = ?6",
    )?
    .execute(params![
        row.revision.0.cast_signed(),
        row.at_s,
        row.record.is_none(),
        resource,
        row.key.0,
        row.key.1
    ])?;
    Ok(())
}

fn resource_id(db: &Connection, resource: &ResourceId) -> Result<i64, StoreError> {
    let found = db
        .prepare_cached("SELECT id FROM resource WHERE grp = ?1 AND plural = ?2")?
        .query_row(params![&*resource.group, &*resource.resource], |row| row.get(0))
        .optional()?;
    if let Some(id) = found {
        return Ok(id);
    }
    db.prepare_cached("INSERT INTO resource(grp, plural) VALUES (?1, ?2)")?
        .execute(params![&*resource.group, &*resource.resource])?;
    Ok(db.last_insert_rowid())
}

/// The highest revision that any row has.
pub(super) fn highest_revision(db: &Connection) -> Result<Revision, StoreError> {
    let highest: i64 = db.query_row(
        "SELECT max(coalesce((SELECT max(revision) FROM change), 0), coalesce((SELECT max(revision) FROM object), 0))",
        [],
        |row| row.get(0),
    )?;
    Ok(Revision(highest.cast_unsigned()))
}

/// Fills the memory from disk: objects, then the recent events, rebuilt backwards through the undo log. Single rows that
/// cannot be read go into quarantine; the history begins after the newest one of it that cannot.
pub(super) fn load(db: &Connection, key: &StorageKey, memory: &mut Memory) -> Result<(), StoreError> {
    let mut states: HashMap<(ResourceId, Key), Arc<Object>> = HashMap::new();
    let wanted = changed_places(db)?;
    let mut statement = db.prepare(
        "SELECT r.grp, r.plural, o.namespace, o.name, o.revision, o.body FROM object o
         JOIN resource r ON r.id = o.resource ORDER BY o.resource, o.namespace, o.name",
    )?;
    let mut rows = statement.query([])?;
    let mut secrets = (0_usize, 0_usize);
    let mut quarantined = 0;
    while let Some(row) = rows.next()? {
        let place = place(row, 0)?;
        let decoded = decode(
            key,
            &place,
            row.get::<_, i64>(4)?.cast_unsigned(),
            row.get_ref(5)?.as_blob().map_err(rusqlite::Error::from)?,
        );
        if place.0.is_secret() {
            let count = if decoded.is_ok() {
                &mut secrets.0
            } else {
                &mut secrets.1
            };
            *count += 1;
        }
        match decoded {
            Ok(object) => {
                if wanted.contains(&place) {
                    states.insert(place, Arc::new(object.clone()));
                }
                memory.restore_object(object);
            }
            Err(error @ StoreError::Corrupt { .. }) => {
                quarantined += 1;
                if quarantined > limits::QUARANTINE_ROWS {
                    return Err(error);
                }
                tracing::error!(%error, "the row is in quarantine");
                memory.quarantine(place, error.to_string());
            }
            Err(error) => return Err(error),
        }
    }
    if let (0, 1..) = secrets {
        // Not damage of a row: the storage key is another one.
        return Err(StoreError::Corrupt {
            what: "every Secret".to_owned(),
            cause: "none can be decrypted: the storage key is not the one of this database".to_owned(),
        });
    }
    let (events, broken) = events(db, key, states)?;
    if let Some((revision, error)) = broken {
        tracing::error!(%error, "the history begins after this row");
        memory.raise_floor(revision);
    }
    for event in events {
        memory.restore_event(event);
    }
    Ok(())
}

fn changed_places(db: &Connection) -> Result<HashSet<(ResourceId, Key)>, StoreError> {
    let mut statement = db.prepare(
        "SELECT DISTINCT r.grp, r.plural, c.namespace, c.name FROM change c JOIN resource r ON r.id = c.resource",
    )?;
    let mut rows = statement.query([])?;
    let mut places = HashSet::new();
    while let Some(row) = rows.next()? {
        places.insert(place(row, 0)?);
    }
    Ok(places)
}

/// Newest first: the state after a change is the state before the next newer change of the same object. Ends at the
/// first row that cannot be read, which comes beside.
fn events(
    db: &Connection,
    key: &StorageKey,
    mut states: HashMap<(ResourceId, Key), Arc<Object>>,
) -> Result<(Vec<Event>, Option<(Revision, StoreError)>), StoreError> {
    let mut statement = db.prepare(
        "SELECT r.grp, r.plural, c.namespace, c.name, c.revision, c.removed, c.before_revision, c.before
         FROM change c JOIN resource r ON r.id = c.resource ORDER BY c.revision DESC",
    )?;
    let mut rows = statement.query([])?;
    let mut events = Vec::new();
    let mut broken = None;
    while let Some(row) = rows.next()? {
        let place = place(row, 0)?;
        let revision = Revision(row.get::<_, i64>(4)?.cast_unsigned());
        let removed: bool = row.get(5)?;
        let before = match (
            row.get::<_, Option<i64>>(6)?,
            row.get_ref(7)?.as_blob_or_null().map_err(rusqlite::Error::from)?,
        ) {
            (Some(at), Some(record)) => match decode(key, &place, at.cast_unsigned(), record) {
                Ok(before) => Some(Arc::new(before)),
                Err(error) => {
                    broken = Some((revision, error));
                    break;
                }
            },
            _ => None,
        };
        let after = states.remove(&place);
        let (kind, object) = match (removed, &after, &before) {
            (true, _, Some(before)) => (EventKind::Delete, Arc::new(before.restamped(revision))),
            (false, Some(after), _) if after.revision == revision => (EventKind::Put, after.clone()),
            _ => {
                broken = Some((revision, broken_change(&place, revision)));
                break;
            }
        };
        if let Some(before) = &before {
            states.insert(place, before.clone());
        }
        events.push(Event {
            revision,
            kind,
            object,
            previous: before,
        });
    }
    events.reverse();
    Ok((events, broken))
}

fn broken_change((resource, (namespace, name)): &(ResourceId, Key), revision: Revision) -> StoreError {
    StoreError::Corrupt {
        what: format!("change {revision} of {resource} {namespace}/{name}"),
        cause: "it does not lead to the state that follows it".to_owned(),
    }
}

fn place(row: &Row<'_>, first: usize) -> Result<(ResourceId, Key), StoreError> {
    let text = |column: usize| {
        row.get_ref(first + column)?
            .as_str()
            .map_err(rusqlite::Error::from)
    };
    Ok((
        ResourceId::new(text(0)?, text(1)?),
        (text(2)?.to_owned(), text(3)?.to_owned()),
    ))
}

fn decode(
    key: &StorageKey,
    (resource, (namespace, name)): &(ResourceId, Key),
    revision: u64,
    record: &[u8],
) -> Result<Object, StoreError> {
    let corrupt = |cause: String| StoreError::Corrupt {
        what: format!("object {resource} {namespace}/{name} at revision {revision}"),
        cause,
    };
    let plain = key
        .open_record(
            record,
            &associated(resource, namespace, name),
            limits::OBJECT_BYTES,
        )
        .map_err(|error| corrupt(error.to_string()))?;
    let body = Body::of_stored(plain.bytes, plain.mark).map_err(|error| corrupt(error.to_string()))?;
    Ok(Object::assemble(
        resource.clone(),
        namespace.clone(),
        name.clone(),
        &body,
        Revision(revision),
    ))
}
