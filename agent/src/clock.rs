//! The two clocks, read here and nowhere else.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use shared::time::{Millis, UnixSeconds};

/// The monotonic clock, from the start of the process.
#[derive(Debug, Clone, Copy)]
pub struct Monotonic {
    start: Instant,
}

impl Monotonic {
    /// Starts it.
    #[must_use]
    pub fn start() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    /// Milliseconds since the start.
    #[must_use]
    pub fn now(&self) -> Millis {
        Millis(u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX))
    }
}

/// The machine's wall clock, which may be wrong: for people, never for decisions about sets.
#[must_use]
pub fn wall_seconds() -> UnixSeconds {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs());
    UnixSeconds(i64::try_from(seconds).unwrap_or(i64::MAX))
}
