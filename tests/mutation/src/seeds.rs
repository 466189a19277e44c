//! Which seeds a mutation test tries.

use std::time::{Duration, Instant};

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    assert!(number.is_ok(), "{name} is a number, not {text:?}");
    number.ok()
}

/// The seed to begin with: `PINNACE_SEED`, or 1.
#[must_use]
pub fn first_seed() -> u64 {
    number("PINNACE_SEED").unwrap_or(1)
}

/// The seeds of one test: `count` of them, or as many as `PINNACE_MUTATION_SECONDS` has time for, from [`first_seed`] on.
#[must_use]
pub fn seeds(count: u64) -> Seeds {
    let first = first_seed();
    match number("PINNACE_MUTATION_SECONDS") {
        None => Seeds {
            next: first,
            end: first.saturating_add(count),
            until: None,
        },
        Some(seconds) => Seeds {
            next: first,
            end: u64::MAX,
            until: Some(Instant::now() + Duration::from_secs(seconds)),
        },
    }
}

/// See [`seeds`].
#[derive(Debug)]
pub struct Seeds {
    next: u64,
    end: u64,
    until: Option<Instant>,
}

impl Seeds {
    /// No longer than this, unless the length of the run was asked for.
    #[must_use]
    pub fn within(mut self, time: Duration) -> Seeds {
        self.until = self.until.or_else(|| Some(Instant::now() + time));
        self
    }
}

impl Iterator for Seeds {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if self.next >= self.end || self.until.is_some_and(|until| Instant::now() >= until) {
            return None;
        }
        self.next += 1;
        Some(self.next - 1)
    }
}
