//! Limits of scripts. A script is the text of somebody else: nothing it does may cost more than its own answer.

use std::time::Duration;

/// Longest script; one that is longer is refused when it is stored.
pub const SCRIPT_BYTES_MAX: usize = 256 * 1024;

/// Steps of one run: virtual machine instructions, and what library functions count for their work.
pub const STEPS_MAX: u64 = 20_000_000;

/// Instructions between two looks at the budget.
pub(super) const LOOK_EVERY: u32 = 1_000;

/// Memory of one run, arguments included.
pub const MEMORY_BYTES_MAX: usize = 48 * 1024 * 1024;

/// How long a caller waits for one run. Only a run on a very busy machine, or one inside a slow library function, meets
/// this before it has used up its steps.
pub(super) const WAIT: Duration = Duration::from_secs(1);

/// Runs whose callers went away and that have not ended yet; beyond, no script runs.
pub(super) const STUCK_MAX: usize = 4;

/// Idle threads that are kept.
pub(super) const IDLE_MAX: usize = 2;

/// Stack of a thread that runs scripts.
pub(super) const STACK_BYTES: usize = 1024 * 1024;

/// A script that used up its budget this often in a row is not run any more, but for one try in [`TRY_AGAIN_EVERY`].
pub(crate) const STRIKES: u32 = 3;

/// See [`STRIKES`].
pub(crate) const TRY_AGAIN_EVERY: u32 = 64;

/// Longest subject of a string pattern.
pub(super) const SUBJECT_BYTES_MAX: usize = 1024 * 1024;

/// Longest pattern. The matcher goes at most this deep.
pub(super) const PATTERN_BYTES_MAX: usize = 512;

/// Values in one result.
pub(super) const RESULT_VALUES_MAX: usize = 200_000;

/// Bytes of text in one result.
pub(super) const RESULT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Depth of arguments and results; a table that contains itself ends here.
pub(super) const DEPTH_MAX: usize = 100;

/// Longest error text that is passed on.
pub(super) const ERROR_BYTES_MAX: usize = 300;
