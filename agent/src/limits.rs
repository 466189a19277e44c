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
