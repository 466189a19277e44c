//! Deterministic simulation: the real cores of hub and agent with the real exchange, sealing and codec, in a small
//! made-up world. One thread, virtual time, no sleep.
//!
//! | file | what it stands for |
//! |---|---|
//! | `hub`, `disk` | the hub's courier, and its store as a simple model |
//! | `node`, `ledger`, `member` | an agent's shell, its ledger and its member cluster as simple models |
//! | `network` | the way between: loss, duplicates, delay, damage, replay, cuts |
//! | `bugs` | mistakes seeded on purpose, each of which must be found |
//! | `faults` | what may happen, from the seed alone |
//! | `world` | the loop: users edit, things break, then all heals |
//! | `oracle` | what must hold at the end |
//! | `trace` | what happened, as a hash and as text |
//!
//! Safety is checked where it could break (see the `check` calls): no sequence or session goes back (I2), only signed
//! and complete sets are acted on (I3), nothing is deleted without tombstone and record (I4), an acknowledged set is
//! in the ledger. Then everything heals, and within bounded time each member must hold what is wanted, the hub's
//! status must be the truth (I11), and the fleet must fall silent (I9).
//!
//! The same seed gives the same trace: ring's random keys never reach it. A failing seed is run again with
//! `cargo run -p tests --bin sim -- --seed N --trace`.

pub mod bugs;
pub mod disk;
pub mod faults;
pub mod hub;
pub mod ledger;
pub mod member;
pub mod network;
pub mod node;
pub mod oracle;
pub mod trace;
pub mod world;

use std::collections::BTreeMap;

pub use bugs::Bug;
pub use faults::Faults;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Steps before all heals.
    pub steps: u32,
    /// Keep the text of the trace.
    pub trace: bool,
    /// Run with a seeded bug.
    pub bug: Option<Bug>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            steps: 2_000,
            trace: false,
            bug: None,
        }
    }
}

/// What came of one seed.
#[derive(Clone, Debug)]
pub struct Run {
    /// The seed.
    pub seed: u64,
    /// Hash of the trace.
    pub hash: u64,
    /// The first check that failed.
    pub failure: Option<String>,
    /// Interesting events, counted.
    pub marks: BTreeMap<&'static str, u64>,
    /// The trace, if it was kept.
    pub lines: Vec<String>,
}

/// Runs one seed.
#[must_use]
pub fn run(seed: u64, options: Options) -> Run {
    let trace = world::World::new(seed, options).run(options.steps);
    Run {
        seed,
        hash: trace.hash(),
        failure: trace.failure().map(str::to_owned),
        marks: trace.marks().clone(),
        lines: trace.lines().to_vec(),
    }
}

/// Events that a batch of seeds must contain, each at least once; a generator that never reaches them tests nothing.
pub const SOMETIMES: &[&str] = &[
    "agent crashed",
    "agent reconnects",
    "agent restored",
    "answer of a create lost",
    "answer of a delete lost",
    "answer of an apply lost",
    "changed between read and apply",
    "conflict",
    "content rides along",
    "content wanted",
    "content wanted from the middle",
    "forged frame",
    "frame of another epoch",
    "hub behind",
    "hub crashed",
    "hub restored",
    "job replaced",
    "lost create claimed",
    "member fails",
    "object deleted",
    "object released",
    "offer as delta",
    "offer from the empty set",
    "overtaken before it was published",
    "push hub",
    "replaced between read and delete",
    "replayed frame",
    "ship repeats",
    "taken over",
    "tombstone executed",
    "tombstone reported",
];

#[cfg(test)]
mod tests;
