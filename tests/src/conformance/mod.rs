//! Runs the conformance cases through the functions that the stages themselves call.
//!
//! An adapter converts types and calls; an operation for which there is no function counts as unsupported, never as
//! passed. Cases that differ from the reference on purpose are listed in `tests/conformance/deviations.toml`.

mod adapters;
mod cases;
mod compare;
mod deviations;
mod report;
#[cfg(test)]
mod retained;
pub mod through_hub;

use std::path::Path;

use anyhow::Context;

pub use cases::{Case, CaseSet};
pub use deviations::Deviations;
pub use report::{Report, SetResult, Verdict};

/// Sets that must hold completely; the run fails if one does not.
pub const REQUIRED_NOW: &[&str] = &[
    "scheduler/static-weight-division",
    "scheduler/duplicated-assignment",
    "scheduler/cluster-affinity-match",
    "overrides/image*",
    "overrides/plaintext*",
    "interpreter/*",
    "lua/*",
    "thirdparty/*",
];

/// What a function under test answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// A result, in the shape the case expects.
    Result(serde_json::Value),
    /// It failed; the kind and code are those of the scheduler cases, else empty.
    Error {
        /// `NoFit`, `Unschedulable` or `Other`.
        kind: &'static str,
        /// Code of the cause.
        code: &'static str,
    },
    /// There is no such function (yet), or it refuses the input by name as not supported yet.
    Unsupported,
}

impl Answer {
    /// A failure without kind or code.
    #[must_use]
    pub const fn error() -> Self {
        Self::Error { kind: "", code: "" }
    }
}

/// Runs every set under `cases` whose name matches one of the globs (none: all).
///
/// # Errors
/// A file cannot be read or is no case file.
pub fn run(cases: &Path, globs: &[String], deviations: &Deviations) -> anyhow::Result<Report> {
    let mut report = Report::default();
    for path in cases::files(cases)? {
        let name = cases::set_name(cases, &path);
        if !globs.is_empty() && !globs.iter().any(|glob| matches(glob, &name)) {
            continue;
        }
        let set = CaseSet::read(&name, &path).with_context(|| format!("case file {}", path.display()))?;
        let mut result = SetResult::new(&name);
        for case in &set.cases {
            let verdict = match adapters::answer(&set, case) {
                Answer::Unsupported => Verdict::Unsupported,
                answer => match compare::check(case, &answer) {
                    Ok(()) => Verdict::Passed,
                    Err(difference) => Verdict::Failed(difference),
                },
            };
            result.count(case, verdict, deviations.reason(&name, &case.name));
        }
        report.stale.extend(result.stale.iter().cloned());
        report.sets.push(result);
    }
    Ok(report)
}

/// Does a set's name match a glob? `*` stands for any characters, also `/`.
#[must_use]
pub fn matches(glob: &str, name: &str) -> bool {
    match glob.split_once('*') {
        None => glob == name,
        Some((head, tail)) => name.strip_prefix(head).is_some_and(|rest| {
            (0..=rest.len()).any(|at| rest.is_char_boundary(at) && matches(tail, &rest[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance")
    }

    #[test]
    fn globs() {
        assert!(matches("overrides/image*", "overrides/image-string"));
        assert!(matches("*", "a/b") && matches("*/b", "a/b") && matches("a/b", "a/b"));
        assert!(!matches("overrides/image*", "overrides/ordering"));
    }

    #[test]
    fn required_sets_hold() {
        let deviations = Deviations::read(&cases().join("deviations.toml")).unwrap();
        let globs: Vec<String> = REQUIRED_NOW.iter().map(|glob| (*glob).to_owned()).collect();
        let report = run(&cases().join("cases"), &globs, &deviations).unwrap();
        assert!(report.sets.len() >= 7, "the required sets are there");
        for set in &report.sets {
            assert_eq!(
                (set.failed, set.unsupported),
                (0, 0),
                "{}: {:#?}",
                set.set,
                set.failures
            );
        }
    }

    #[test]
    fn no_implemented_case_fails_without_a_listed_deviation() {
        let deviations = Deviations::read(&cases().join("deviations.toml")).unwrap();
        let report = run(&cases().join("cases"), &[], &deviations).unwrap();
        let failures: Vec<_> = report.sets.iter().flat_map(|set| &set.failures).collect();
        assert!(failures.is_empty(), "{failures:#?}");
        assert!(
            report.stale.is_empty(),
            "listed as deviations, but they hold: {:?}",
            report.stale
        );
    }
}
