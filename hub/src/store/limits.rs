//! Bounds of the store that no other part needs to know.

use std::time::Duration;

/// JSON of one object (as in a Kubernetes API server with its default request limit).
pub const OBJECT_BYTES: usize = 3 << 20;
/// Operations in one commit.
pub const COMMIT_OPS: usize = 1_000;
/// Commits that may wait for the writer; more wait in their own task.
pub const WAITING_COMMITS: usize = 1_024;
/// Commits that share one transaction.
pub const BATCH_JOBS: usize = 256;
/// Revisions reserved at once.
pub const REVISION_BLOCK: u64 = 1_000;
/// How far a restored backup jumps.
pub const BACKUP_JUMP: u64 = 1_000_000;
/// Events kept in memory for watchers, by count.
pub const RING_EVENTS: usize = 32_768;
/// Events kept in memory for watchers, by bytes of superseded bodies.
pub const RING_BYTES: usize = 32 << 20;
/// Changes kept on disk, at least this many ...
pub const CHANGES_KEPT: u64 = 5_000;
/// ... and at least this long.
pub const CHANGES_KEPT_FOR: Duration = Duration::from_secs(600);
/// ... but never more than this many.
pub const CHANGES_MAX: u64 = RING_EVENTS as u64;
/// Changes dropped in one transaction.
pub const COMPACT_CHUNK: u64 = 1_000;
/// Written-behind rows waiting for the disk.
pub const DEFERRED_ROWS: usize = 10_000;
/// Longest time a written-behind row waits.
pub const DEFERRED_FOR: Duration = Duration::from_secs(1);
/// The log is copied into the database after this many bytes written.
pub const CHECKPOINT_BYTES: usize = 4 << 20;
/// A log of at least this size is copied and truncated as soon as nothing is waiting.
pub const TRUNCATE_BYTES: usize = 1 << 20;
/// Idle time after which the log is truncated and old changes are dropped.
pub const IDLE_AFTER: Duration = Duration::from_millis(500);
/// Change notices a slow subscriber may fall behind before it is told to look at everything.
pub const NOTICES: usize = 4_096;

const _: () = assert!(
    COMMIT_OPS as u64 <= REVISION_BLOCK,
    "one commit fits in one reserved block"
);
const _: () = assert!(CHANGES_KEPT < CHANGES_MAX);
/// Process lives of an agent remembered, for telling clones.
pub const BOOTS_KEPT: usize = 8;
/// Identities of a name remembered after their enrolment is over.
pub const FORMER_KEPT: i64 = 64;
/// Published heads kept beyond [`shared::limits::HEADS_KEPT`] while none of them is acknowledged.
pub const UNACKED_HEADS_KEPT: u64 = 4_096;
/// Adoptions of a binding whose contents are kept.
pub const ADOPTIONS_KEPT: u64 = 10;
/// Shortest time between two sweeps of unreferenced contents.
pub const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// Size beyond which the database file does not grow, unless configured otherwise.
pub const DATABASE_BYTES: u64 = 64 << 30;
/// Size of a database page.
pub const PAGE_BYTES: u64 = 4_096;
/// How long an Event lives after its last change.
pub const EVENTS_LIVE: Duration = Duration::from_secs(3_600);
/// Events kept per API group, however young.
pub const EVENTS_KEPT: usize = 10_000;
/// How often Events are looked at.
pub const EXPIRY_EVERY: Duration = Duration::from_secs(60);
/// Rows of sets that are kept in memory; beyond, they are read from the database again.
pub const STANDING_ROWS: usize = 500_000;
/// Rows that may be unreadable; with more the whole file is taken for damaged.
pub const QUARANTINE_ROWS: usize = 100;

/// The directory's lock is waited for this long: a process that was stopped is ending, or a child has not begun yet.
pub const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// Between two looks at the lock.
pub const LOCK_LOOK: Duration = Duration::from_millis(20);
/// Ordered deletions of one cluster of which is kept what the agent says.
pub const HELD_DELETIONS: usize = 100;
/// Bytes of a message about one of them.
pub const HELD_MESSAGE_BYTES: usize = 256;

/// A report of what a cluster uses contains what it applied so long before, as a rule (seconds).
pub const CONFIRMED_AFTER_S: i64 = 120;
