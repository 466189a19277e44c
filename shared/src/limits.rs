//! The bounds that both sides rely on, with the relations between them checked when this compiles.
//!
//! Sizes are bytes unless the name says otherwise; times are milliseconds (`_MS`) or seconds (`_S`).

/// Canonical content of one bundle. Beyond: `ContentTooLarge`, on the hub.
pub const CONTENT_BYTES_MAX: usize = 3 << 20;
/// Window of a zstd frame that we inflate, as a power of two: 4 MiB.
pub const WINDOW_LOG_MAX: u32 = 22;
/// Payload of one chunk of a content or set encoding.
pub const CHUNK_BYTES_MAX: usize = 256 << 10;
/// A whole MQTT payload, either way.
pub const PAYLOAD_BYTES_MAX: usize = 320 << 10;
/// MQTT packet size both ends configure.
pub const PACKET_BYTES_MAX: usize = 1 << 20;
/// Entries plus live tombstones of one set. Beyond: `SetFull`.
pub const SET_ENTRIES_MAX: usize = 10_000;
/// Encoded (not compressed) set.
pub const SET_BYTES_MAX: usize = 12 << 20;
/// One encoded content or set on its way (compressed, or raw if that is smaller).
pub const ENCODING_BYTES_MAX: usize = 13 << 20;
/// Name, namespace, kind, group or label in an entry.
pub const NAME_BYTES_MAX: usize = 317;
/// Work labels on one entry.
pub const ENTRY_LABELS_MAX: usize = 32;
/// Declared dependencies of one entry.
pub const ENTRY_DEPENDENCIES_MAX: usize = 64;
/// A content whose encoding is at most this rides along with the offer.
pub const INLINE_BYTES_MAX: usize = 8 << 10;
/// All contents that ride along with one offer.
pub const INLINE_TOTAL_BYTES_MAX: usize = 64 << 10;
/// Changes in one delta; beyond, the whole set is cheaper and pulled in chunks.
pub const DELTA_CHANGES_MAX: usize = 256;
/// Heads of which the hub keeps the digest, per cluster.
pub const HEADS_KEPT: usize = 64;
/// Frames behind the newest that a receiver still tells apart.
pub const SEAL_WINDOW: u64 = 64;
/// Frames per direction of one epoch; then the agent starts a new exchange.
pub const EPOCH_FRAMES_MAX: u64 = 1 << 40;
/// Clear exchange messages (`X1`, `X2`, `X3`).
pub const EXCHANGE_BYTES_MAX: usize = 2 << 10;
/// Key statements in one `X2`.
pub const KEY_STATEMENTS_MAX: usize = 4;
/// Objects in one report.
pub const REPORT_OBJECTS_MAX: usize = 256;
/// Plaintext of one report.
pub const REPORT_BYTES_MAX: usize = 128 << 10;
/// Reflected status of one object; beyond, it is cut to the conditions by the agent.
pub const STATUS_BYTES_MAX: usize = 32 << 10;
/// A human message in a report or refusal.
pub const MESSAGE_BYTES_MAX: usize = 1 << 10;
/// Contents that an agent asks for at the same time.
pub const WANTS_IN_FLIGHT_MAX: usize = 8;
/// Messages that one cluster's ship holds ready to send; beyond, answers to wants are dropped and asked again.
pub const SHIP_OUTPUTS_MAX: usize = 64;
/// Offers on their way to one cluster without an acknowledgement; a newer set waits for an answer or the timer.
pub const OFFERS_IN_FLIGHT_MAX: usize = 2;
/// Encoded delta of one offer; beyond, the whole set is pulled in chunks.
pub const DELTA_BYTES_MAX: usize = 128 << 10;
/// Bytes of reports a cluster may send at once.
pub const REPORT_BURST_BYTES: u64 = 1 << 20;
/// Bytes of reports a cluster may send in the long run, per second.
pub const REPORT_BYTES_PER_S: u64 = 16 << 10;
/// Encodings the hub keeps by (from, to).
pub const ENCODING_CACHE_BYTES_MAX: usize = 16 << 20;
/// Groups of like nodes in one room report; the rest is counted only.
pub const ROOM_GROUPS_MAX: usize = 512;
/// Resource names in one room report.
pub const ROOM_RESOURCES_MAX: usize = 32;
/// Different labels in one room report.
pub const ROOM_LABELS_MAX: usize = 1_024;
/// Addons in one room report.
pub const ROOM_ADDONS_MAX: usize = 64;
/// Join token.
pub const TOKEN_BYTES_MAX: usize = 128;
/// Labels on a cluster, given by a token and returned in a receipt.
pub const CLUSTER_LABELS_MAX: usize = 64;

/// A set with its contents in a file.
pub const EXPORT_BYTES_MAX: usize = 32 << 20;
/// The same, unpacked.
pub const EXPORT_PLAIN_BYTES_MAX: usize = 128 << 20;
/// A receipt on its way back in a file.
pub const CARRIED_BYTES_MAX: usize = 2 << 20;

/// Time between two beats of an agent.
pub const BEAT_EVERY_MS: u64 = 300_000;
/// A beat without a sealed answer for this long starts a new exchange.
pub const BEAT_ANSWER_MS: u64 = 60_000;
/// A cluster is silent when this much time passed without a beat (two missed).
pub const SILENT_AFTER_MS: u64 = 660_000;
/// MQTT keepalive.
pub const KEEPALIVE_S: u16 = 120;
/// First wait before an unanswered message is sent again.
pub const RESEND_FIRST_MS: u64 = 2_000;
/// Ceiling of that wait.
pub const RESEND_CEILING_MS: u64 = 60_000;
/// Time within which alternating boot ids count as clones.
pub const CLONE_WINDOW_MS: u64 = 600_000;
/// Returns to an earlier boot id within [`CLONE_WINDOW_MS`] that make a clone (A, B, A, B returns twice).
pub const CLONE_RETURNS: usize = 2;

const _: () = {
    assert!(CHUNK_BYTES_MAX + 4096 < PAYLOAD_BYTES_MAX);
    assert!(PAYLOAD_BYTES_MAX + 1024 < PACKET_BYTES_MAX);
    assert!(CONTENT_BYTES_MAX < 1 << WINDOW_LOG_MAX);
    assert!(INLINE_BYTES_MAX <= INLINE_TOTAL_BYTES_MAX);
    assert!(INLINE_TOTAL_BYTES_MAX + DELTA_BYTES_MAX + 16 * 1024 < PAYLOAD_BYTES_MAX);
    assert!(REPORT_BURST_BYTES > REPORT_BYTES_MAX as u64);
    assert!(REPORT_BYTES_MAX < PAYLOAD_BYTES_MAX);
    assert!(STATUS_BYTES_MAX < REPORT_BYTES_MAX);
    assert!(SET_BYTES_MAX < ENCODING_BYTES_MAX);
    assert!(CONTENT_BYTES_MAX < ENCODING_BYTES_MAX);
    assert!(DELTA_CHANGES_MAX < SET_ENTRIES_MAX);
    assert!(BEAT_EVERY_MS * 2 < SILENT_AFTER_MS);
    assert!(BEAT_ANSWER_MS < BEAT_EVERY_MS);
    assert!(RESEND_FIRST_MS < RESEND_CEILING_MS);
    assert!(WANTS_IN_FLIGHT_MAX < SHIP_OUTPUTS_MAX);
    assert!(HEADS_KEPT >= 2);
};
