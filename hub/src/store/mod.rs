//! The hub's one durable place: objects, their history, and what the fleet holds.
//!
//! Callers speak of objects, revisions, changes and target rows; that SQLite lies underneath is known only here
//! (design sections 6 and 12). One thread writes; reads and watches are answered from memory.
//!
//! Rules that everything relies on:
//! - an answered write is on disk (Events and Leases excepted: they follow within a second);
//! - a revision becomes visible only after every earlier one, and is never used twice;
//! - corrupt is never treated as absent.

mod backup;
mod body;
mod check;
mod compaction;
mod cursor;
mod error;
mod expiry;
pub mod fleet;
pub mod limits;
mod memory;
mod notes;
mod object;
mod objects;
mod open;
mod schema;
mod seal;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use rusqlite::Connection;

use shared::ids::FleetId;
use shared::time::UnixSeconds;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, oneshot};

pub use body::BodyError;
pub use check::Finding;
pub use cursor::Cursor;
pub use error::{CommitError, Compacted, StoreError};
pub use memory::Changes;
pub use notes::{BindingRef, Note, Notes, Row, RowChange, TargetChange};
pub use object::{Event, EventKind, Expect, Listing, Object, Op, ResourceId, Revision};

use memory::Memory;
use seal::StorageKey;
use writer::{Batch, Command, Job};

/// Handle of the store. Cheap to clone; when the last one is dropped the writer flushes and ends.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

/// What an operator may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The database file grows no further; beyond, writes are refused as when the disk is full.
    pub database_bytes: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            database_bytes: limits::DATABASE_BYTES,
        }
    }
}

struct Inner {
    memory: Arc<RwLock<Memory>>,
    /// Newest sets of clusters, as committed.
    sets: Arc<fleet::Sets>,
    /// Reads of fleet rows; sees what was committed, which is what was answered.
    reader: Mutex<Connection>,
    notes: broadcast::Sender<Note>,
    key: Arc<StorageKey>,
    commands: mpsc::Sender<Command>,
    permits: Arc<Semaphore>,
    /// Closed when the writer has ended.
    alive: tokio::sync::watch::Receiver<()>,
    fleet: FleetId,
    /// Path of the database file.
    database: PathBuf,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("revision", &self.revision())
            .finish_non_exhaustive()
    }
}

impl Store {
    /// Makes a new store in a directory (created if missing): database, storage key (0600), fleet id.
    ///
    /// # Errors
    /// [`StoreError::Exists`] if there is one already; nothing is overwritten.
    pub fn create(dir: &Path) -> Result<(), StoreError> {
        open::create(dir)
    }

    /// Opens the store of a directory and loads it. `now` moves the revisions on, so that a directory copied
    /// back from earlier repeats none.
    ///
    /// # Errors
    /// Missing, in use, newer schema, corrupt, wrong storage key.
    pub fn open(dir: &Path, now: UnixSeconds) -> Result<Store, StoreError> {
        open::open(dir, now, Options::default())
    }

    /// As [`Store::open`], with other bounds.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_with(dir: &Path, now: UnixSeconds, options: Options) -> Result<Store, StoreError> {
        open::open(dir, now, options)
    }

    /// Flushes and ends the writer. Later writes get [`StoreError::Closed`]; reads go on.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.inner.commands.send(Command::Close(done)).is_ok() {
            // An error means that the writer ended before: closed as well.
            let _already = closed.await;
        }
    }

    /// Waits until the writer has ended: after [`Store::close`], or because of a defect. Reads still answer then, but
    /// nothing can be written any more, so the process should end.
    pub async fn ended(&self) {
        let mut alive = self.inner.alive.clone();
        while alive.changed().await.is_ok() {}
    }

    /// Identity of this hub's fleet, made by [`Store::create`].
    pub fn fleet(&self) -> FleetId {
        self.inner.fleet
    }

    /// The newest visible revision.
    pub fn revision(&self) -> Revision {
        self.memory().revision()
    }

    /// One object.
    pub fn get(&self, resource: &ResourceId, namespace: &str, name: &str) -> Option<Arc<Object>> {
        self.memory().get(resource, namespace, name)
    }

    /// Stored rows that could not be read when the store was opened and were not written since. They count as present:
    /// nobody knows what they say.
    pub fn quarantined(&self) -> Vec<Finding> {
        let memory = self.memory();
        let rows = memory.quarantined().iter();
        rows.map(|((resource, (namespace, name)), cause)| Finding {
            what: format!("{resource} {namespace}/{name}"),
            cause: cause.clone(),
        })
        .collect()
    }

    /// Why an object cannot be read, if it is in quarantine.
    pub fn is_quarantined(&self, resource: &ResourceId, namespace: &str, name: &str) -> Option<String> {
        let memory = self.memory();
        let all = memory.quarantined();
        if all.is_empty() {
            return None;
        }
        let key = (resource.clone(), (namespace.to_owned(), name.to_owned()));
        all.get(&key).cloned()
    }

    /// All objects of a resource, or of one namespace of it, from one snapshot.
    pub fn list(&self, resource: &ResourceId, namespace: Option<&str>) -> Listing {
        let memory = self.memory();
        Listing {
            revision: memory.revision(),
            items: memory.list(resource, namespace),
        }
    }

    /// Several resources from one snapshot: the listings in the order asked for, all at the same revision.
    pub fn list_many(&self, resources: &[ResourceId]) -> Vec<Listing> {
        let memory = self.memory();
        let revision = memory.revision();
        resources
            .iter()
            .map(|resource| Listing {
                revision,
                items: memory.list(resource, None),
            })
            .collect()
    }

    /// Resources that hold at least one object, sorted.
    pub fn resources(&self) -> Vec<ResourceId> {
        self.memory().resources()
    }

    /// Events of a resource (or of all) after a revision, in order, without a gap. A revision of the future is
    /// accepted and waited for.
    ///
    /// # Errors
    /// [`Compacted`] if not everything after it is kept any more.
    pub fn watch(&self, resource: Option<&ResourceId>, after: Revision) -> Result<Cursor, Compacted> {
        let mut memory = self.inner.memory.write().unwrap_or_else(PoisonError::into_inner);
        memory.events_after(resource, after, 0)?;
        let arrivals = memory.arrivals(resource);
        drop(memory);
        Ok(Cursor::new(
            self.inner.memory.clone(),
            resource.cloned(),
            after,
            arrivals,
        ))
    }

    /// What happened after a revision to some resources and, if asked for, to the rows behind views: one snapshot.
    ///
    /// # Errors
    /// [`Compacted`] if not all of it is kept any more; row changes are kept only as long as this process lives.
    pub fn changes_after(
        &self,
        resources: &[ResourceId],
        with_rows: bool,
        after: Revision,
    ) -> Result<Changes, Compacted> {
        self.memory().changes_after(resources, with_rows, after)
    }

    /// Tells the newest visible revision whenever it moves.
    pub fn arrivals(&self) -> tokio::sync::watch::Receiver<Revision> {
        self.inner
            .memory
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .arrivals(None)
    }

    /// Applies operations, all or nothing, in order; returns the stored objects (for a delete the last state with
    /// the revision of the deletion). Durable when it returns, and visible to reads. A dropped future does not
    /// take the commit back.
    ///
    /// # Errors
    /// An expectation that does not hold, a limit, or the store.
    pub async fn commit(&self, ops: Vec<Op>) -> Result<Vec<Arc<Object>>, CommitError> {
        let volatile = ops.iter().all(|op| match op {
            Op::Put { resource, .. } | Op::Delete { resource, .. } => resource.is_volatile(),
        });
        let prepared = objects::prepare(&self.inner.key, ops)?;
        self.call(volatile, move |batch| Ok(objects::run(batch, prepared)))
            .await
    }

    /// Notices about fleet rows, from now on.
    pub fn subscribe_changes(&self) -> Notes {
        Notes(self.inner.notes.subscribe())
    }

    fn memory(&self) -> RwLockReadGuard<'_, Memory> {
        self.inner.memory.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn reader(&self) -> MutexGuard<'_, Connection> {
        self.inner.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs work on the writer and waits for its durable answer.
    async fn call<T, E, F>(&self, volatile: bool, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: FnOnce(&mut Batch<'_>) -> Result<Result<T, E>, StoreError> + Send + 'static,
    {
        let permit = self
            .inner
            .permits
            .clone()
            .acquire_owned()
            .await
            .map_err(|_| StoreError::Closed)?;
        let (reply, answer) = oneshot::channel();
        let call = Call {
            work: Some(work),
            result: None,
            reply,
            volatile,
            _permit: permit,
        };
        self.inner
            .commands
            .send(Command::Job(Box::new(call)))
            .map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }
}

/// A closure as a job of the writer.
struct Call<T, E, F> {
    work: Option<F>,
    result: Option<Result<T, E>>,
    reply: oneshot::Sender<Result<T, E>>,
    volatile: bool,
    _permit: OwnedSemaphorePermit,
}

impl<T, E, F> Job for Call<T, E, F>
where
    T: Send,
    E: From<StoreError> + Send,
    F: FnOnce(&mut Batch<'_>) -> Result<Result<T, E>, StoreError> + Send,
{
    fn run(&mut self, batch: &mut Batch<'_>) -> Result<(), StoreError> {
        if let Some(work) = self.work.take() {
            self.result = Some(work(batch)?);
        }
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<(), StoreError>) {
        let answer = match (outcome, self.result) {
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => Err(StoreError::Closed.into()),
            (Err(error), _) => Err(error.into()),
        };
        // The caller may have given up; its write is stored all the same.
        let _unheard = self.reply.send(answer);
    }

    fn is_volatile(&self) -> bool {
        self.volatile
    }
}

#[cfg(test)]
mod durability_tests;
#[cfg(test)]
mod replay_tests;
#[cfg(test)]
mod tests;
