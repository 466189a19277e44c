//! Lua scripts of people, run so that they can only cost their own answer.
//!
//! Lua 5.1 as the reference has it, without input, output, other scripts, or ways around the limits. Every run has a
//! state of its own; the same script with the same arguments gives the same answer. Limits ([`limits`]): steps
//! (instructions, and library functions that pay for their work), memory, text of patterns, size of results, and the
//! time that a caller waits. Runs have threads of their own, so a stuck one costs its script and nobody else.

mod budget;
mod convert;
mod date;
mod error;
mod kube;
pub mod limits;
mod pattern;
mod sandbox;
mod worker;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::Value;
use shared::time::UnixSeconds;

pub use error::ScriptError;
pub use sandbox::Empties;

use worker::Workers;

/// Tells scripts the time; the shell gives it.
pub type Clock = Arc<dyn Fn() -> UnixSeconds + Send + Sync>;

/// Runs scripts.
pub struct Runtime {
    workers: Workers,
    clock: Clock,
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime").finish_non_exhaustive()
    }
}

impl Runtime {
    /// A runtime whose scripts see this clock in `os.time` and `os.date`.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self {
            workers: Workers::default(),
            clock,
        }
    }

    /// Runs the script and calls one of its functions; answers the first two results. `now`: what the script takes for
    /// the time, else the clock's.
    ///
    /// # Errors
    /// Whatever the script does instead of answering.
    pub fn call(
        &self,
        script: &Arc<str>,
        function: &str,
        arguments: Vec<Value>,
        empties: Empties,
        now: Option<UnixSeconds>,
    ) -> Result<[Value; 2], ScriptError> {
        self.workers.run(sandbox::Call {
            script: script.clone(),
            function: function.to_owned(),
            arguments,
            empties,
            now: now.unwrap_or_else(|| (self.clock)()).0,
        })
    }
}

/// Checks that a text is a script: that it compiles and is not too long. A missing function is accepted.
///
/// # Errors
/// Why it is none.
pub fn check(script: &str) -> Result<(), ScriptError> {
    sandbox::compile(script)
}
