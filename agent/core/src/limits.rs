//! Limits that only the agent's decisions know; what hub and agent agree on is in `shared::limits`.

use shared::time::Millis;

/// First retry of a target that failed.
pub const RETRY_FIRST: Millis = Millis(1_000);
/// Longest pause between two tries of a failing target.
pub const RETRY_CEILING: Millis = Millis(300_000);
/// Longest such pause where somebody else is about to heal it: the API is absent, the namespace is going, the member's
/// API is away.
pub const RETRY_SOON_CEILING: Millis = Millis(30_000);
/// Longest time for which a member that asks for it (`Retry-After`) is left alone.
pub const RETRY_AFTER_CEILING: Millis = Millis(120_000);
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
/// How long a lease holds after a renewal (design, section 9; issue 6).
pub const LEASE_LENGTH: Millis = Millis(9_000);
/// Longest length of a lease written by others that is honoured.
pub const LEASE_LENGTH_MAX: Millis = Millis(60_000);
/// Between two renewals, and between two looks of those that wait.
pub const LEASE_RENEW: Millis = Millis(3_000);
/// After a renewal or look that failed.
pub const LEASE_RETRY: Millis = Millis(1_000);
/// A leader stops acting this long before its lease ends: clocks run at slightly different speeds.
pub const LEASE_MARGIN: Millis = Millis(1_000);
/// Canonical bytes of contents that one document of the mirror is meant for.
pub const MIRROR_BUCKET_BYTES: u64 = 256 << 10;
/// Documents into which the contents of a set are divided.
pub const MIRROR_BUCKETS_MAX: u64 = 64;
/// Documents into which records and intents are divided.
pub const MIRROR_SHARDS: u8 = 8;
/// Bytes of one Secret of the mirror (design, section 9).
pub const MIRROR_PART_BYTES: usize = 900 << 10;
/// Bytes of all Secrets of the mirror together; beyond: `MirrorFull` (design, section 9).
pub const MIRROR_BYTES_MAX: usize = 16 << 20;
/// A document of the mirror, inflated.
pub const MIRROR_DOCUMENT_BYTES_MAX: usize = 16 << 20;

const _: () = {
    assert!(LEASE_RENEW.0 * 2 < LEASE_LENGTH.0 - LEASE_MARGIN.0);
    assert!(LEASE_RETRY.0 < LEASE_RENEW.0);
    assert!(shared::limits::SET_BYTES_MAX < MIRROR_DOCUMENT_BYTES_MAX);
};
