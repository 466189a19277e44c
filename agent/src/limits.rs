//! Limits of the shell alone.

use std::time::Duration;

/// Largest answer of the member's API that is read: one object, or one page of projected items.
pub const ANSWER_BYTES_MAX: usize = 8 << 20;
/// Time for one request to the member's API, answer included; watches have their own.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Group versions whose kinds are remembered.
pub const KIND_GROUPS_MAX: usize = 128;
/// Items per page of a list.
pub const PAGE: u32 = 100;
/// First pause before the hub is dialled again.
pub const CONNECT_FIRST: Duration = Duration::from_millis(500);
/// Longest pause between two dials.
pub const CONNECT_CEILING: Duration = Duration::from_secs(20);
/// DNS, TCP, TLS and the first answer together; also the time in which a packet must be flushed.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// Unacknowledged publishes.
pub const LINK_INFLIGHT: u16 = 16;
/// Packets that wait in the MQTT client.
pub const LINK_QUEUE: usize = 8;
/// Payloads that wait for the MQTT client; a full queue ends the connection, and everything is said again.
pub const LINK_COMMANDS: usize = 64;
/// Events from the connection that wait for the loop.
pub const LINK_EVENTS: usize = 8;
/// Changes in the member that wait for the loop.
pub const MEMBER_EVENTS: usize = 64;
/// A watch is asked to end after this; the next goes on where it stopped.
pub const WATCH_SECONDS: u32 = 290;
/// A watch that says nothing for this long, bookmarks included, is taken for dead.
pub const WATCH_SILENCE: Duration = Duration::from_secs(330);
/// First pause before a failed watch or probe is started again.
pub const WATCH_FIRST: Duration = Duration::from_millis(500);
/// Longest such pause.
pub const WATCH_CEILING: Duration = Duration::from_secs(30);
/// Between two looks at nodes, pods and the identity of the member.
pub const PROBE_EVERY: Duration = Duration::from_secs(60);
/// Between two looks at what kinds the member serves.
pub const APIS_EVERY_PROBES: u32 = 30;
/// Kinds watched at the same time.
pub const WATCHES_MAX: usize = 256;
/// Time for an orderly end.
pub const STOP_WITHIN: Duration = Duration::from_secs(5);
/// Time for an enrolment before `join` gives up.
pub const JOIN_WITHIN: Duration = Duration::from_secs(120);
/// TCP and TLS to the member's API.
pub const CONNECT_MEMBER: Duration = Duration::from_secs(10);
/// Bytes of a guard's file.
pub const GUARD_BYTES_MAX: u64 = 64 << 10;
/// Different sizes of free room per resource and node: a node's free room is told in this many steps of what it offers.
pub const ROOM_STEPS: i128 = 64;
/// Between two looks whether a full disk has room again.
pub const DISK_LOOK: Duration = Duration::from_secs(5);
/// One read or write of the lease; less than a renewal, so that one that hangs does not cost the lease.
pub const LEASE_REQUEST: Duration = Duration::from_secs(2);
/// Between two looks of an agent that waits at what the one that leads shares.
pub const FOLLOW_EVERY: Duration = Duration::from_secs(30);
