//! What happened, as a hash of logical content and, on wish, as text. Nothing that a random key touches goes in.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use shared::time::Millis;

/// Trace, marks and the first failed check of one run.
#[derive(Debug, Default)]
pub struct Trace {
    hash: u64,
    lines: Option<Vec<String>>,
    marks: BTreeMap<&'static str, u64>,
    failure: Option<String>,
    line: String,
}

impl Trace {
    /// An empty trace that keeps its lines if `keep`.
    #[must_use]
    pub fn new(keep: bool) -> Self {
        Self {
            hash: 0xcbf2_9ce4_8422_2325,
            lines: keep.then(Vec::new),
            ..Self::default()
        }
    }

    /// Notes a line.
    pub fn note(&mut self, now: Millis, text: std::fmt::Arguments<'_>) {
        self.line.clear();
        let _ = write!(self.line, "{:>9} {text}", now.0);
        for b in self.line.bytes() {
            self.hash = (self.hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
        }
        if let Some(lines) = &mut self.lines {
            lines.push(self.line.clone());
        }
    }

    /// Counts that something interesting happened.
    pub fn mark(&mut self, name: &'static str) {
        *self.marks.entry(name).or_default() += 1;
    }

    /// A check: the first that fails ends the run.
    pub fn check(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds && self.failure.is_none() {
            self.failure = Some(what());
        }
    }

    /// The first failed check.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Hash of every line so far.
    #[must_use]
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// Counts of what happened.
    #[must_use]
    pub const fn marks(&self) -> &BTreeMap<&'static str, u64> {
        &self.marks
    }

    /// The lines, if they were kept.
    #[must_use]
    pub fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }
}
