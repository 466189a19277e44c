//! Why a script gave no answer.

use thiserror::Error;

use super::limits::{ERROR_BYTES_MAX, MEMORY_BYTES_MAX, SCRIPT_BYTES_MAX, STEPS_MAX, WAIT};

/// Why a script gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ScriptError {
    /// It is no Lua.
    #[error("the script does not compile: {0}")]
    Syntax(String),
    /// It is too long.
    #[error("the script is longer than {SCRIPT_BYTES_MAX} bytes")]
    TooLong,
    /// It does not define the function.
    #[error("the script defines no function {0}")]
    NoFunction(String),
    /// It raised an error.
    #[error("the script failed: {0}")]
    Failed(String),
    /// It used up its steps.
    #[error("the script was stopped: it did not end within {STEPS_MAX} steps")]
    OutOfSteps,
    /// It did not answer in time.
    #[error("the script was stopped: it did not end within {} s", WAIT.as_secs())]
    OutOfTime,
    /// It used up its memory.
    #[error("the script was stopped: it needs more than {MEMORY_BYTES_MAX} bytes of memory")]
    OutOfMemory,
    /// What it returned is not what the operation needs.
    #[error("the script returned {0}")]
    Result(String),
    /// It was stopped several times in a row and is not run any more.
    #[error("the script is not run any more: it was stopped several times in a row; change it")]
    GivenUp,
    /// Too many scripts are stuck.
    #[error("no script can run: too many others are stuck")]
    Busy,
}

impl ScriptError {
    /// Whether the run was cut off, so that the next one most likely is, too.
    #[must_use]
    pub fn was_stopped(&self) -> bool {
        matches!(self, Self::OutOfSteps | Self::OutOfTime | Self::OutOfMemory)
    }
}

/// First line of an error text, cut to the limit. An address, as of a table that was raised as an error, is left out: it
/// differs from run to run.
pub(super) fn short(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let line = line.split(": 0x").next().unwrap_or_default();
    let mut end = line.len().min(ERROR_BYTES_MAX);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    line[..end].to_owned()
}
