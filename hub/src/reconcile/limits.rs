//! Bounds of the reconcilers.

use std::time::Duration;

/// Marked keys of one queue; beyond, everything is looked at instead.
pub(super) const MARKED_KEYS: usize = 10_000;
/// Everything is looked at again this often, so that a lost notice costs at most this.
pub(super) const RESYNC_EVERY: Duration = Duration::from_secs(300);
/// First wait before what failed is tried again.
pub(super) const RETRY_FIRST: Duration = Duration::from_millis(200);
/// Ceiling of that wait.
pub(super) const RETRY_CEILING: Duration = Duration::from_secs(30);
/// Tries of one commit that somebody else was faster with; then the key is marked again.
pub(super) const COMMIT_TRIES: usize = 5;
/// Events taken in one turn before the reconcilers are poked.
pub(super) const FEED_BATCH: usize = 512;
/// How often the clusters' liveness is looked at.
pub(super) const LIVENESS_EVERY: Duration = Duration::from_secs(2);
/// Default of `--status-grace`: a cluster silent for longer no longer holds a template's status back.
pub(super) const STATUS_GRACE: Duration = Duration::from_secs(600);
/// Longest pause after a pass over statuses, which otherwise is as long as the pass.
pub(super) const STATUS_PAUSE: Duration = Duration::from_millis(500);
/// Rebalancers are looked at no more often than this.
pub(super) const REBALANCE_PAUSE: Duration = Duration::from_millis(200);
/// The status of quotas is written no more often than this.
pub(super) const QUOTAS_PAUSE: Duration = Duration::from_millis(500);
/// Longest message of a condition.
pub(super) const CONDITION_MESSAGE: usize = 1_024;
/// Bindings whose copies are watched for failover; more are looked at by the full pass only.
pub(super) const WATCHED_BINDINGS: usize = 100_000;
/// A copy that nothing can replace is looked at again after this.
pub(super) const FAILOVER_RETRY_MS: u64 = 30_000;
/// Copies that wait for their turn to be driven away by a taint and are looked at in one turn.
pub(super) const QUEUED_EVICTIONS: usize = 4;
/// Templates planned before their plans are carried out.
pub(super) const PLANNED_TOGETHER: usize = 64;
/// Plans carried out at the same time; they share the store's transactions.
pub(super) const CARRIED_OUT_TOGETHER: usize = 64;
/// Statuses worked on at the same time. Nobody waits for one, and each holds a template and a binding as trees.
pub(super) const STATUSES_TOGETHER: usize = 16;
/// Time between looks whether planning is still held.
pub(super) const HELD_PAUSE: Duration = Duration::from_secs(10);
