//! Counting what test programs say they did.

use std::ops::AddAssign;

/// Numbers of checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Count {
    /// Checks that held.
    pub(crate) passed: u64,
    /// Checks that did not.
    pub(crate) failed: u64,
    /// Checks that were left out.
    pub(crate) skipped: u64,
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Count) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        )
    }
}

impl Count {
    /// What one line says: a `test result:` line of Rust's test program, or a line `N passed, N failed, N skipped`
    /// alone, with which programs of this workspace end.
    pub(crate) fn of(line: &str) -> Option<Count> {
        let line = line.trim();
        let (parts, separator) = match line.strip_prefix("test result: ") {
            Some(rest) => (rest.split_once(". ")?.1, ';'),
            None => (line, ','),
        };
        let mut count = Count::default();
        let mut known = 0;
        for part in parts.split(separator) {
            let (number, word) = part.trim().split_once(' ')?;
            let place = match word {
                "passed" => &mut count.passed,
                "failed" => &mut count.failed,
                "skipped" | "ignored" => &mut count.skipped,
                // `0 measured; 0 filtered out; finished in 0.01s` follow in Rust's line only.
                _ if separator == ';' => continue,
                _ => return None,
            };
            *place = number.parse().ok()?;
            known += 1;
        }
        (known == 3).then_some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_count() {
        for (line, expected) in [
            (
                "test result: FAILED. 13 passed; 1 failed; 2 ignored; 0 measured; 4 filtered out; finished in 0.72s",
                Some((13, 1, 2)),
            ),
            ("5 passed, 0 failed, 1 skipped", Some((5, 0, 1))),
            ("  5 passed, 0 failed, 1 skipped  ", Some((5, 0, 1))),
            ("apply: 5 passed, 0 failed, 1 skipped", None),
            ("5 passed, 0 failed", None),
            ("running 3 tests", None),
            ("", None),
        ] {
            let count = Count::of(line).map(|count| (count.passed, count.failed, count.skipped));
            assert_eq!(count, expected, "{line}");
        }
    }

    #[test]
    fn its_own_words_count() {
        let count = Count {
            passed: 7,
            failed: 0,
            skipped: 2,
        };
        assert_eq!(Count::of(&count.to_string()), Some(count));
    }
}
