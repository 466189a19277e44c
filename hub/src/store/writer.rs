//! The one thread that writes: takes what waits, runs it in one transaction, flushes, publishes, answers.
//!
//! Group commit: while one batch is being flushed to disk the next one gathers, so under load the cost of a flush
//! is shared. Nothing is answered, and nothing becomes visible, before the transaction is durable; the exception
//! is a batch of written-behind resources only ([`ResourceId::is_volatile`]), which says so.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{broadcast, oneshot};

use super::error::StoreError;
use super::fleet::{Sets, Standings};
use super::memory::{Key, Memory};
use super::notes::{Note, RowChange};
use super::object::{Event, Object, ResourceId, Revision};
use super::objects::{self, RowOp};
use super::seal::StorageKey;
use super::{compaction, expiry, fleet, limits, schema};
use crate::crash;

use shared::ids::{ClusterName, Sequence};

/// One piece of work for the writer.
pub(super) trait Job: Send {
    /// Does it. A database error ends the whole batch: everything is rolled back and everybody is told.
    fn run(&mut self, batch: &mut Batch<'_>) -> Result<(), StoreError>;
    /// Tells the caller, after the batch is durable or has failed.
    fn answer(self: Box<Self>, outcome: Result<(), StoreError>);
    /// Whether it touches written-behind resources only.
    fn is_volatile(&self) -> bool;
}

/// What a job works on.
pub(super) struct Batch<'a> {
    /// Inside the transaction. In a batch of written-behind resources there is none, and jobs must not use it.
    pub(super) db: &'a Connection,
    pub(super) key: &'a StorageKey,
    /// Wall clock of the batch.
    pub(super) now_s: i64,
    memory: &'a RwLock<Memory>,
    /// Committed sets and the values they share.
    pub(super) sets: &'a Sets,
    /// Rows of clusters as this batch leaves them.
    pub(super) standings: &'a mut Standings,
    /// Clusters that got their next sequence in this batch, by number; all changes of a batch share it.
    pub(super) advanced: BTreeMap<i64, (ClusterName, Sequence)>,
    effects: Effects,
    /// Objects as this batch leaves them; none: removed.
    overlay: HashMap<(ResourceId, Key), Option<Arc<Object>>>,
}

/// What a batch leaves to be done when it is durable.
struct Effects {
    last: Revision,
    events: Vec<Event>,
    ops: Vec<RowOp>,
    rows: Vec<RowChange>,
    notes: Vec<Note>,
    noted: HashSet<Note>,
    garbage: bool,
}

impl<'a> Batch<'a> {
    fn new(
        db: &'a Connection,
        key: &'a StorageKey,
        memory: &'a RwLock<Memory>,
        (sets, standings): (&'a Sets, &'a mut Standings),
        last: Revision,
    ) -> Batch<'a> {
        let effects = Effects {
            last,
            events: Vec::new(),
            ops: Vec::new(),
            rows: Vec::new(),
            notes: Vec::new(),
            noted: HashSet::new(),
            garbage: false,
        };
        Batch {
            db,
            key,
            now_s: unix_seconds(),
            memory,
            sets,
            standings,
            advanced: BTreeMap::new(),
            effects,
            overlay: HashMap::new(),
        }
    }

    /// The next revision.
    pub(super) fn next_revision(&mut self) -> Revision {
        self.effects.last = Revision(self.effects.last.0 + 1);
        self.effects.last
    }

    /// The newest revision given out.
    pub(super) fn last_revision(&self) -> Revision {
        self.effects.last
    }

    /// Shared values may have lost their last reference.
    pub(super) fn garbage(&mut self) {
        self.effects.garbage = true;
    }

    /// An object as it is after what ran before in this batch.
    pub(super) fn current(&self, resource: &ResourceId, key: &Key) -> Option<Arc<Object>> {
        match self.overlay.get(&(resource.clone(), key.clone())) {
            Some(object) => object.clone(),
            None => self
                .memory
                .read()
                .unwrap_or_else(PoisonError::into_inner)
                .get(resource, &key.0, &key.1),
        }
    }

    /// Records a change of an object: its event and its row.
    pub(super) fn change(&mut self, event: Event, now: Option<Arc<Object>>, op: RowOp) {
        let object = &event.object;
        let at = (
            object.resource.clone(),
            (object.namespace.clone(), object.name.clone()),
        );
        self.overlay.insert(at, now);
        self.effects.events.push(event);
        self.effects.ops.push(op);
    }

    /// Records a change of a target or cluster row, for views.
    pub(super) fn row_changed(&mut self, change: RowChange) {
        self.effects.rows.push(change);
    }

    /// Something subscribers should look at.
    pub(super) fn note(&mut self, note: Note) {
        if self.effects.noted.insert(note.clone()) {
            self.effects.notes.push(note);
        }
    }
}

/// What arrives at the writer.
pub(super) enum Command {
    /// Work.
    Job(Box<dyn Job>),
    /// Flush everything, then end.
    Close(oneshot::Sender<()>),
}

/// Deletions that nobody asked for: written behind, and nobody waits for the answer.
struct Unasked(Option<Vec<objects::Prepared>>);

impl Job for Unasked {
    fn run(&mut self, batch: &mut Batch<'_>) -> Result<(), StoreError> {
        if let Some(ops) = self.0.take()
            && let Err(error) = objects::run(batch, ops)
        {
            // Somebody changed one meanwhile; the next look finds what is still due.
            tracing::debug!(%error, "old events were not deleted");
        }
        Ok(())
    }

    fn answer(self: Box<Self>, _outcome: Result<(), StoreError>) {}

    fn is_volatile(&self) -> bool {
        true
    }
}

/// State of the thread.
pub(super) struct Writer {
    pub(super) db: Connection,
    pub(super) key: Arc<StorageKey>,
    pub(super) memory: Arc<RwLock<Memory>>,
    pub(super) sets: Arc<Sets>,
    pub(super) standings: Standings,
    pub(super) notes: broadcast::Sender<Note>,
    pub(super) last: Revision,
    /// No revision above this is visible before the block is extended on disk.
    pub(super) reserved: Revision,
    pub(super) deferred: Vec<RowOp>,
    pub(super) deferred_since: Option<Instant>,
    /// Rough size of what the log holds beyond the database.
    pub(super) log_bytes: usize,
    /// Changes written since old ones were last looked for.
    pub(super) changes: u64,
    /// Tells which Events are old.
    pub(super) expiry: expiry::Clock,
    /// Shared values may have lost their last reference, since when the last sweep ended.
    pub(super) garbage: bool,
    pub(super) swept: Instant,
    /// Dropped with the thread: tells whoever waits for its end.
    pub(super) _alive: tokio::sync::watch::Sender<()>,
    /// Held until the database is closed, so that no second process writes.
    pub(super) lock: std::fs::File,
}

impl Writer {
    /// Runs until told to close or until every handle is gone.
    pub(super) fn run(mut self, commands: &Receiver<Command>) {
        let mut closer = None;
        loop {
            let mut next = match commands.recv_timeout(self.patience()) {
                Ok(command) => Some(command),
                Err(RecvTimeoutError::Timeout) => {
                    self.rest();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let mut jobs = Vec::new();
            while let Some(command) = next {
                match command {
                    Command::Job(job) => jobs.push(job),
                    Command::Close(done) => closer = Some(done),
                }
                next = if closer.is_none() && jobs.len() < limits::BATCH_JOBS {
                    commands.try_recv().ok()
                } else {
                    None
                };
            }
            self.process(jobs);
            if closer.is_some() {
                break;
            }
        }
        self.flush_deferred();
        self.checkpoint("TRUNCATE");
        drop(self.db);
        drop(self.lock);
        if let Some(done) = closer {
            // Whoever closed may have given up waiting; the store is closed either way.
            let _unheard = done.send(());
        }
    }

    /// How long to wait for work before looking at what can be tidied.
    fn patience(&self) -> Duration {
        const LONG: Duration = Duration::from_secs(60);
        match self.deferred_since {
            Some(since) => limits::DEFERRED_FOR.saturating_sub(since.elapsed()),
            None if self.log_bytes > limits::TRUNCATE_BYTES || self.changes > 0 => limits::IDLE_AFTER,
            None if self.garbage => limits::SWEEP_EVERY,
            None => LONG,
        }
    }

    /// Tidying when nothing waits.
    fn rest(&mut self) {
        self.expire();
        self.flush_deferred();
        if self.changes > 0 {
            self.compact();
        }
        self.sweep();
        if self.log_bytes > limits::TRUNCATE_BYTES {
            self.checkpoint("TRUNCATE");
        }
    }

    fn process(&mut self, mut jobs: Vec<Box<dyn Job>>) {
        if jobs.is_empty() {
            return;
        }
        let outcome = if jobs.iter().all(|job| job.is_volatile()) {
            self.run_behind(&mut jobs)
        } else {
            self.run_durable(&mut jobs)
        };
        if outcome.is_err() {
            // What the batch did to rows in memory is not on disk.
            self.standings.clear();
        }
        let answer = match outcome {
            Ok(effects) => {
                self.publish(effects);
                Ok(())
            }
            Err(error) => {
                tracing::warn!(%error, jobs = jobs.len(), "a batch of writes was not stored");
                Err(error)
            }
        };
        crash::point("store.answer.before");
        for job in jobs {
            job.answer(answer.clone());
        }
        if self.log_bytes > limits::CHECKPOINT_BYTES {
            self.checkpoint("PASSIVE");
        }
        if self.changes >= limits::COMPACT_CHUNK {
            self.compact();
        }
        self.expire();
    }

    /// One transaction for all jobs. Numbers of a failed batch are not used again: whether the disk has kept it
    /// is not known.
    fn run_durable(&mut self, jobs: &mut [Box<dyn Job>]) -> Result<Effects, StoreError> {
        crash::point("store.commit.before");
        let transaction = self
            .db
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut bytes = objects::write_rows(&transaction, &self.deferred)?;
        let places = (&*self.sets, &mut self.standings);
        let mut batch = Batch::new(&transaction, &self.key, &self.memory, places, self.last);
        let mut ran = Ok(());
        for job in jobs.iter_mut() {
            ran = job.run(&mut batch);
            if ran.is_err() {
                break;
            }
        }
        let closed = ran.and_then(|()| fleet::close_sets(&mut batch));
        let effects = batch.effects;
        self.last = effects.last;
        let closed = closed?;
        bytes += objects::write_rows(&transaction, &effects.ops)?;
        let mut reserved = self.reserved;
        if effects.last > reserved {
            reserved = Revision(effects.last.0 + limits::REVISION_BLOCK);
            schema::set_number(&transaction, schema::meta::RESERVED, reserved.0)?;
        }
        transaction.commit()?;
        crash::point("store.commit.after");
        // Before anybody is told of them.
        self.sets.publish(&mut self.standings, closed);
        self.reserved = reserved;
        self.deferred.clear();
        self.deferred_since = None;
        self.log_bytes += bytes + 4_096 * 4;
        self.changes += effects.ops.len() as u64;
        self.garbage |= effects.garbage;
        Ok(effects)
    }

    /// Written-behind resources: visible at once, on disk with the next transaction or within a second. Only the
    /// revisions must be reserved first.
    fn run_behind(&mut self, jobs: &mut [Box<dyn Job>]) -> Result<Effects, StoreError> {
        if self.deferred.len() >= limits::DEFERRED_ROWS {
            self.try_flush_deferred()?;
        }
        let places = (&*self.sets, &mut self.standings);
        let mut batch = Batch::new(&self.db, &self.key, &self.memory, places, self.last);
        let mut ran = Ok(());
        for job in jobs.iter_mut() {
            ran = job.run(&mut batch);
            if ran.is_err() {
                break;
            }
        }
        let mut effects = batch.effects;
        self.last = effects.last;
        ran?;
        if effects.last > self.reserved {
            let reserved = Revision(effects.last.0 + limits::REVISION_BLOCK);
            let transaction = self
                .db
                .transaction_with_behavior(TransactionBehavior::Immediate)?;
            schema::set_number(&transaction, schema::meta::RESERVED, reserved.0)?;
            transaction.commit()?;
            self.reserved = reserved;
        }
        self.deferred.append(&mut effects.ops);
        if !self.deferred.is_empty() {
            self.deferred_since.get_or_insert_with(Instant::now);
        }
        Ok(effects)
    }

    fn publish(&mut self, effects: Effects) {
        let Effects {
            last,
            events,
            rows,
            notes,
            ..
        } = effects;
        self.memory
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .publish(events, rows, last);
        for note in notes {
            // No subscriber yet is fine: whoever comes later begins with a full look.
            let _unheard = self.notes.send(note);
        }
    }

    fn flush_deferred(&mut self) {
        if let Err(error) = self.try_flush_deferred() {
            tracing::warn!(%error, rows = self.deferred.len(), "written-behind rows wait for the disk");
            self.deferred_since = Some(Instant::now());
        }
    }

    fn try_flush_deferred(&mut self) -> Result<(), StoreError> {
        if self.deferred.is_empty() {
            return Ok(());
        }
        let transaction = self
            .db
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let bytes = objects::write_rows(&transaction, &self.deferred)?;
        transaction.commit()?;
        self.log_bytes += bytes;
        self.deferred.clear();
        self.deferred_since = None;
        Ok(())
    }

    fn compact(&mut self) {
        crash::point("store.compact.before");
        match compaction::drop_chunk(&mut self.db, unix_seconds()) {
            Ok(true) => self.changes = self.changes.max(1),
            Ok(false) => self.changes = 0,
            Err(error) => {
                tracing::warn!(%error, "old changes could not be dropped");
                self.changes = 0;
            }
        }
    }

    /// Deletes Events that are too old or too many, as any client could.
    fn expire(&mut self) {
        let now = Instant::now();
        if !self.expiry.note(now, self.last) {
            return;
        }
        let ops = {
            let memory = self.memory.read().unwrap_or_else(PoisonError::into_inner);
            expiry::due(&memory, &mut self.expiry, now)
        };
        if ops.is_empty() {
            return;
        }
        match objects::prepare(&self.key, ops) {
            Ok(ops) => self.process(vec![Box::new(Unasked(Some(ops)))]),
            Err(error) => tracing::warn!(%error, "old events stay"),
        }
    }

    fn sweep(&mut self) {
        if !self.garbage || self.swept.elapsed() < limits::SWEEP_EVERY {
            return;
        }
        self.swept = Instant::now();
        match fleet::collect(&mut self.db) {
            Ok(()) => self.garbage = false,
            Err(error) => tracing::warn!(%error, "unreferenced contents could not be removed"),
        }
    }

    /// Copies the log into the database. A failure costs space only; it is tried again after the next writes.
    fn checkpoint(&mut self, mode: &str) {
        crash::point("store.checkpoint.before");
        let copied = self
            .db
            .query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
                row.get::<_, i64>(0)
            });
        if let Err(error) = copied {
            tracing::warn!(%error, "the log could not be copied into the database");
        }
        self.log_bytes = 0;
    }
}

/// The wall clock.
fn unix_seconds() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs().cast_signed())
}
