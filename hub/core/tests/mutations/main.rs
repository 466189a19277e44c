//! Seeded mutations of what clients send: whatever it is, the answer is a value or an error that says something, soon and
//! in bounded memory. See `mutation` for `PINNACE_SEED` and longer runs.

// A test program: what cannot be set up fails the test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod corpus;
mod definitions;
mod expressions;
mod patches;
mod policies;
mod protobuf;
mod selectors;

use hub_core::status_error::Cause;
use std::time::{Duration, Instant};

/// One answer comes within this, however busy the machine is.
const SOON: Duration = Duration::from_secs(60);

/// Runs one case: it is done soon.
fn timed<T>(seed: u64, what: &str, case: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let out = case();
    assert!(
        begun.elapsed() < SOON,
        "seed {seed}: {what} took {:?}",
        begun.elapsed()
    );
    out
}

/// Every cause names its field and says what is wrong there.
fn assert_told(seed: u64, causes: &[Cause]) {
    for cause in causes {
        assert!(
            !cause.field.is_empty() && !cause.reason.is_empty(),
            "seed {seed}: {cause:?}"
        );
        let is_duplicate = cause.reason == "FieldValueDuplicate";
        assert!(
            is_duplicate || !cause.message.is_empty(),
            "seed {seed}: {cause:?}"
        );
    }
}
