//! Bounds of the API's shell.

use std::time::Duration;

/// Largest request body (Kubernetes has the same).
pub(super) const BODY_BYTES: usize = 3 * 1024 * 1024;
/// A body that takes longer to arrive is given up.
pub(super) const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Requests in flight, watches left out; more are answered 429.
pub(super) const REQUESTS: usize = 256;
/// Watches at a time; more are answered 429.
pub(super) const WATCHES: usize = 20_000;
/// Requests and watches of one HTTP/2 connection.
pub(super) const STREAMS: u32 = 1_000;
/// Answers from this size on are compressed if the client offers gzip.
pub(super) const GZIP_BYTES: usize = 128 * 1024;
/// How long a page-1 snapshot of a chunked list is kept.
pub(super) const PIN_LIFE: Duration = Duration::from_secs(300);
/// Snapshots kept for chunked lists; the oldest goes first and its client starts over.
pub(super) const PINS: usize = 64;
/// Bytes of a `continue` token.
pub(super) const TOKEN_BYTES: usize = 4 * 1024;
/// Time a list waits for a revision that is not there yet.
pub(super) const REVISION_WAIT: Duration = Duration::from_millis(if cfg!(test) { 50 } else { 3_000 });
/// Time between bookmarks of a watch.
pub(super) const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// A watch without `timeoutSeconds` ends between this and twice this.
pub(super) const WATCH_SECONDS: u64 = 1_800;
/// Longest watch a client may ask for.
pub(super) const WATCH_SECONDS_MAX: u64 = 86_400;
/// Tries of a write that raced with another one, when the client named no version.
pub(super) const WRITE_TRIES: usize = 10;
/// Tries to find a free generated name.
pub(super) const NAME_TRIES: usize = 8;
/// Bytes of one `Warning` text, and of all of one answer.
pub(super) const WARNING_BYTES: usize = 256;
/// Bytes of all `Warning` texts of one answer.
pub(super) const WARNINGS_BYTES: usize = 4 * 1024;
/// A client that sends no request head for this long is dropped.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// A peer that answers no ping for this long is gone.
pub(super) const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Time between pings of an HTTP/2 connection.
pub(super) const PING_EVERY: Duration = Duration::from_secs(30);
/// Events older than this are removed.
pub(super) const EVENT_LIFE_SECONDS: i64 = 3_600;
/// Time between looks for old events.
pub(super) const OLD_EVENTS_EVERY: Duration = Duration::from_secs(120);
/// Time between looks at ending namespaces, if nobody pokes.
pub(super) const HOUSEKEEPING: Duration = Duration::from_secs(10);
/// Shortest time between two looks at ending namespaces that a change causes.
pub(super) const HOUSEKEEPING_PAUSE: Duration = Duration::from_millis(100);
/// Objects removed in one commit.
pub(super) const REMOVALS: usize = 100;
/// Life of a user's certificate unless another is asked for (seconds).
pub(super) const USER_SECONDS: i64 = 365 * 86_400;
/// Shortest life of a user's certificate (seconds).
pub(super) const USER_SECONDS_MIN: i64 = 600;
/// Longest life of a user's certificate (seconds); the CA lives ten years.
pub(super) const USER_SECONDS_MAX: i64 = 5 * 365 * 86_400;
/// Certificates of one user that count at the same time.
pub(super) const USER_CERTIFICATES: usize = 64;
/// How long an answered signing request is kept (seconds).
pub(super) const ANSWERED_REQUEST_SECONDS: i64 = 3_600;
/// How long a signing request may wait for an answer (seconds).
pub(super) const WAITING_REQUEST_SECONDS: i64 = 86_400;
/// A write to a client that makes no progress for this long ends the connection.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Open API connections from one source address.
pub(super) const CONNECTIONS_PER_ADDRESS: usize = 4_096;
/// Audit lines that wait to be written.
pub(super) const AUDIT_QUEUE: usize = 4_096;
/// Bytes of one audit file; then a new one begins.
pub(super) const AUDIT_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// Audit files kept, the current one included.
pub(super) const AUDIT_FILES: usize = 8;
/// Pause of the garbage collector when the store refuses.
pub(super) const COLLECTOR_PAUSE: Duration = Duration::from_secs(1);
/// Largest frame that the client of a WebSocket may send.
pub(super) const WEBSOCKET_FRAME_BYTES: usize = 4 * 1024;
