//! Bounds that only the shell of the hub needs. What both sides of the wire must agree on is in
//! `shared::limits`. Sizes are bytes, durations say so in their name.

use std::time::Duration;

/// Size of one segment of the embedded router's log.
pub const ROUTER_SEGMENT_BYTES: usize = 256 * 1024;
/// Segments the embedded router keeps per direction (2 MiB).
pub const ROUTER_SEGMENTS: usize = 8;
/// Published but not yet taken, per direction: half of what the router keeps, so that it never drops.
pub const BUS_CREDIT_BYTES: usize = ROUTER_SEGMENT_BYTES * ROUTER_SEGMENTS / 2;
/// Charged per message beside topic and payload: the router keeps about this much bookkeeping for each.
pub const BUS_MESSAGE_OVERHEAD_BYTES: usize = 64;
/// Largest payload the bus carries: what both sides agreed on.
pub const BUS_PAYLOAD_BYTES: usize = shared::limits::PAYLOAD_BYTES_MAX;
/// Messages queued between the router's threads and the tasks on either side.
pub const BUS_QUEUE_MESSAGES: usize = 256;
/// Notifications the router may hand out in one read.
pub const ROUTER_READ_MESSAGES: u64 = 100;
/// Links of the embedded router: publisher and subscriber for both directions, and some to spare.
pub const ROUTER_LINKS: usize = 8;

/// TLS handshakes in progress, hub-wide and per source address.
pub const HANDSHAKES: usize = 1_024;
/// TLS handshakes in progress from one source address.
pub const HANDSHAKES_PER_ADDRESS: usize = 128;
/// A TLS handshake that takes longer is dropped.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Open connections of all kinds.
pub const CONNECTIONS: usize = 16_384;
/// Pause after `accept` failed (no file descriptors left), so that the loop does not spin.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// An agent sends CONNECT within this time after the TLS handshake.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest CONNECT packet.
pub const CONNECT_BYTES: usize = 4 * 1024;
/// A connection that is not proven by then is closed.
pub const UNPROVEN_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes an agent may send before it is proven.
pub const UNPROVEN_BYTES: usize = 4 * 1024;
/// Connections that are not proven, hub-wide.
pub const HALF_OPEN: usize = 2_048;
/// Connections that are not proven, from one source address.
pub const HALF_OPEN_PER_ADDRESS: usize = 64;
/// Connections that are not proven, claiming one cluster.
pub const HALF_OPEN_PER_CLUSTER: usize = 4;
/// Epochs one connection may have started; the newest displaces the oldest.
pub const EPOCHS_PER_CONNECTION: usize = 4;
/// Largest PUBLISH of a proven agent, header included.
pub const PUBLISH_BYTES: usize = BUS_PAYLOAD_BYTES + 1_024;
/// A keepalive of 0 or above this is treated as this (seconds).
pub const KEEPALIVE_MAX_SECONDS: u16 = 600;
/// A write that makes no progress for this long ends the connection.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// PUBLISH packets of QoS 1 on their way to an agent without its PUBACK.
pub const INFLIGHT_PUBLISHES: usize = 32;
/// A full window without any PUBACK for this long ends the connection.
pub const PUBACK_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes queued for one agent: a chunk for each thing it may ask for at once, and one message beside. Beyond, frames
/// are dropped (the courier sends them again).
pub const OUTBOUND_BYTES: usize = (shared::limits::WANTS_IN_FLIGHT_MAX + 1) * BUS_PAYLOAD_BYTES;
/// Frames queued for one agent.
pub const OUTBOUND_FRAMES: usize = 512;
/// Acknowledgements queued for one agent; beyond, its socket is not read.
pub const OUTBOUND_CONTROLS: usize = 128;
/// Bytes per second one proven agent may send, on average; above, its socket is read more slowly.
pub const INGRESS_BYTES_PER_SECOND: u64 = 2 * 1024 * 1024;
/// Bytes one proven agent may send at once.
pub const INGRESS_BURST_BYTES: u64 = 8 * 1024 * 1024;
/// Packets per second one proven agent may send, on average.
pub const INGRESS_PACKETS_PER_SECOND: u64 = 500;
/// Packets one proven agent may send at once.
pub const INGRESS_BURST_PACKETS: u64 = 4_000;
/// First size of a session's read buffer, and what it shrinks back to.
pub const READ_BUFFER_BYTES: usize = 1_024;
/// Session ends on their way to the courier; more are dropped, missed beats tell the same later.
pub const SESSION_EVENTS: usize = 1_024;

/// Exchanges that wait for their last message, and channels that wait for their first, hub-wide.
pub const EXCHANGES: usize = 2_048;
/// The same for one cluster.
pub const EXCHANGES_PER_CLUSTER: usize = 64;
/// An exchange or a channel that does not go on within this time (milliseconds) is forgotten.
pub const EXCHANGE_TIMEOUT_MS: u64 = 30_000;
/// Joins that are worked on at the same time.
pub const JOINS: usize = 16;
/// Messages that wait for one cluster's agent task; more are dropped, the agent repeats them.
pub const AGENT_QUEUE: usize = 32;
/// Notices between parts of the courier.
pub const COURIER_QUEUE: usize = 1_024;
/// How long (milliseconds) the task of a cluster without a session is kept.
pub const AGENT_KEEP_MS: u64 = 600_000;
/// At most this often (milliseconds) a beat is written down as "last seen".
pub const SEEN_EVERY_MS: u64 = 60_000;
/// Longest life of a join token (seconds).
pub const TOKEN_SECONDS: i64 = 30 * 86_400;

/// Shutdown in order must end within this time; then the process ends anyway.
pub const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

const _: () = assert!(BUS_PAYLOAD_BYTES * 2 <= BUS_CREDIT_BYTES);
const _: () = assert!(UNPROVEN_BYTES >= CONNECT_BYTES);
const _: () = assert!(PUBLISH_BYTES < OUTBOUND_BYTES);
/// How often the Cluster object of a join is tried when somebody else was faster.
pub const CLUSTER_WRITES: usize = 8;
