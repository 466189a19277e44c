//! Waiting for a state: bounded, with the last thing seen in the error.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use xtask::wait::Look;

/// How long between two looks at the state.
const LOOK_EVERY: Duration = Duration::from_millis(150);

/// Looks until `look` gives a value or `limit` has passed.
///
/// `look` answers `Ok(value)` when the state is there and `Err(what it saw)` when it is not yet.
///
/// # Errors
/// After `limit`, with `what` and the last thing that `look` saw.
pub fn until<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Result<T, String>) -> Result<T> {
    xtask::wait::until(what, limit, || {
        Ok(match look() {
            Ok(value) => Look::There(value),
            Err(seen) => Look::NotYet(seen),
        })
    })
}

/// Like [`until`], but the state must hold during the whole of `span`; the first look that says otherwise is the
/// error. For what must *not* happen.
///
/// # Errors
/// With `what` and what the failing look saw.
pub fn throughout(what: &str, span: Duration, mut look: impl FnMut() -> Result<(), String>) -> Result<()> {
    let end = Instant::now() + span;
    while Instant::now() < end {
        if let Err(seen) = look() {
            bail!("{what}: {seen}");
        }
        std::thread::park_timeout(LOOK_EVERY);
    }
    Ok(())
}
