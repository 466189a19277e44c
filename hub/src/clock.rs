//! The only place where the hub reads its clocks; everything else is handed the time.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use shared::time::{Millis, UnixSeconds};
use tokio::time::Instant;

/// Monotonic time since the process first asked. It follows tokio's clock, so a test may pause it.
#[must_use]
pub fn monotonic() -> Millis {
    static START: OnceLock<Instant> = OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed();
    Millis(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
}

/// Wall time. A clock before 1970 reads as 1970.
#[must_use]
pub fn wall() -> UnixSeconds {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixSeconds(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}
