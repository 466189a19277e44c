//! Limits that only the agent's decisions know; what hub and agent agree on is in `shared::limits`.

use shared::time::Millis;

/// First retry of a target that failed.
pub const RETRY_FIRST: Millis = Millis(1_000);
/// Longest pause between two tries of a failing target.
pub const RETRY_CEILING: Millis = Millis(300_000);
/// Longest such pause where somebody else is about to heal it: the API is absent, the namespace is going, the member's
/// API is away.
pub const RETRY_SOON_CEILING: Millis = Millis(30_000);
/// Repairs of one object in close succession that are done at once; from there they are backed off.
pub const DRIFT_TOLERATED: u32 = 5;
/// A pause between repairs that ends the suspicion of mutual overwriting.
pub const DRIFT_QUIET: Millis = Millis(600_000);
/// How long an object waits for a declared dependency, or a namespace's deletion for its content, before it
/// goes on without: one bad object never blocks another for good.
pub const EDGE_WAIT: Millis = Millis(120_000);
/// A blocked target is looked at again after this time even if nothing woke it.
pub const BLOCKED_RECHECK: Millis = Millis(30_000);
/// Every managed object is read again after about this time, even if its watch said nothing.
pub const RESYNC: Millis = Millis(3_600_000);
/// Actions under way at the same time.
pub const IN_FLIGHT: usize = 4;
/// Contents that arrived and wait in memory for the rest of their set; beyond, they are kept in the ledger.
pub const STAGED_BYTES_MAX: usize = 1 << 20;
/// Canonical bytes asked for at the same time, unless a single content is larger.
pub const WANTED_BYTES_MAX: usize = 1 << 20;
/// Where the count of unanswered tries stops rising; the pause has its ceiling long before.
pub const WANT_TRIES_MAX: u32 = 30;
/// Unanswered first messages of an exchange, or hellos, before the connection is given up.
pub const EXCHANGE_TRIES_MAX: u32 = 6;
/// First changes are collected for this long before they are reported, so that a burst is one report.
pub const REPORT_GATHER: Millis = Millis(50);
