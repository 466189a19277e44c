//! Counts verdicts per set; prints them as a table and as JSON.

use std::fmt;

use serde::Serialize;

use super::Case;

/// What became of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Passed,
    /// It does not; the difference.
    Failed(String),
    /// There is no function to ask.
    Unsupported,
}

/// Counts of one set.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SetResult {
    /// Folder and file.
    pub set: String,
    /// Cases that hold.
    pub passed: usize,
    /// Cases that do not hold and are not listed.
    pub failed: usize,
    /// Cases that do not hold and are listed as deviations.
    pub deviating: usize,
    /// Cases without a function to ask.
    pub unsupported: usize,
    /// Names and differences of the failed ones.
    #[serde(skip)]
    pub failures: Vec<String>,
    /// Listed deviations that hold.
    #[serde(skip)]
    pub stale: Vec<String>,
}

impl SetResult {
    /// An empty count.
    #[must_use]
    pub fn new(set: &str) -> Self {
        Self {
            set: set.to_owned(),
            ..Self::default()
        }
    }

    /// Counts a case; `listed` is its reason in the list of deviations.
    pub fn count(&mut self, case: &Case, verdict: Verdict, listed: Option<&str>) {
        match (verdict, listed) {
            (Verdict::Passed, None) => self.passed += 1,
            (Verdict::Passed, Some(_)) => {
                self.passed += 1;
                self.stale.push(format!("{}: {}", self.set, case.name));
            }
            (Verdict::Failed(_), Some(_)) => self.deviating += 1,
            (Verdict::Failed(difference), None) => {
                self.failed += 1;
                self.failures
                    .push(format!("{}: {} ({}): {difference}", self.set, case.name, case.op));
            }
            // A part of the reference that is left out on purpose.
            (Verdict::Unsupported, Some(_)) => self.deviating += 1,
            (Verdict::Unsupported, None) => self.unsupported += 1,
        }
    }
}

/// Counts of all sets.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// In the order of their names.
    pub sets: Vec<SetResult>,
    /// Listed deviations that hold.
    #[serde(skip)]
    pub stale: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self
            .sets
            .iter()
            .map(|set| set.set.len())
            .max()
            .unwrap_or(0)
            .max(3);
        writeln!(
            f,
            "{:width$}  {:>6}  {:>6}  {:>9}  {:>11}",
            "set", "passed", "failed", "deviating", "unsupported"
        )?;
        let mut total = SetResult::new("total");
        for set in &self.sets {
            total.passed += set.passed;
            total.failed += set.failed;
            total.deviating += set.deviating;
            total.unsupported += set.unsupported;
        }
        for set in self.sets.iter().chain(std::iter::once(&total)) {
            writeln!(
                f,
                "{:width$}  {:>6}  {:>6}  {:>9}  {:>11}",
                set.set, set.passed, set.failed, set.deviating, set.unsupported
            )?;
        }
        Ok(())
    }
}
