//! Limits of the tasks: how long is waited, how much is kept.

use std::time::Duration;

/// How often a state that is waited for is looked at.
pub const LOOK: Duration = Duration::from_millis(100);

/// A control plane is ready within this, even on a machine that builds something beside it.
pub const MEMBER_READY: Duration = Duration::from_secs(180);

/// A process may take this long to end after SIGTERM; then it gets SIGKILL.
pub const GRACE: Duration = Duration::from_secs(5);

/// After SIGKILL a process is gone within this, or something is wrong with the machine.
pub const KILLED: Duration = Duration::from_secs(10);

/// Members one machine is asked to hold.
pub const MEMBERS: usize = 16;

/// Nodes one member may have.
pub const NODES: u32 = 1_000;

/// Connections through one proxy at a time; more are refused.
pub const PROXY_CONNECTIONS: usize = 512;

/// Bytes a proxy moves at once, per direction of a connection.
pub const PROXY_BUFFER: usize = 16 * 1024;

/// Pieces of at most [`PROXY_BUFFER`] that are on their way through one direction of a connection.
pub const PROXY_ON_THE_WAY: usize = 64;

/// A proxy's target answers a connect within this.
pub const PROXY_CONNECT: Duration = Duration::from_secs(5);

/// A line of the proxy's control protocol is at most this long.
pub const CONTROL_LINE: u64 = 512;

/// The proxy answers a control line within this.
pub const CONTROL_ANSWER: Duration = Duration::from_secs(5);

/// First and last port handed out. Below the range from which the kernel takes ports for outgoing connections, so
/// that none of those lands on a port between its choice and its use.
pub const PORTS: std::ops::Range<u16> = 20_000..32_000;
