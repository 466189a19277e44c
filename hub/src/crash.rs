//! Named crash points of the hub: places where a test lets the process die as by kill -9.
//!
//! They exist in the dev profile only (`debug_assertions`); a dist build contains none of it. Set
//! `PINNACE_CRASH_AT=name` or `name:n` (the n-th time the point is reached) and the process aborts there.

/// Every crash point of the hub, in the order of the one-way flow.
pub const POINTS: &[&str] = &[
    "store.commit.before",
    "store.commit.after",
    "store.answer.before",
    "store.checkpoint.before",
    "store.compact.before",
    "adopt.before",
    "adopt.after",
    "ship.before",
    "publish.before",
    "publish.after",
    "acked.before",
    "report.ingest.before",
    "report.ingest.after",
    "reconcile.bindings.after",
    "reconcile.status.before",
    "join.recorded",
];

/// Dies here if the environment asks for it; otherwise does nothing.
///
/// Reaching a name that is not in [`POINTS`] is a defect of the caller and fails a debug assertion.
#[cfg(debug_assertions)]
pub fn point(name: &str) {
    debug_assert!(
        POINTS.contains(&name),
        "crash point {name} is not listed in crash::POINTS"
    );
    if armed::hit(name) {
        tracing::info!(point = name, "crash point reached, the process dies");
        std::process::abort();
    }
}

/// Absent from dist builds.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn point(_name: &str) {}

#[cfg(debug_assertions)]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// What `PINNACE_CRASH_AT` says.
    pub(super) struct Armed {
        name: String,
        at_hit: u64,
        hits: AtomicU64,
    }

    impl Armed {
        /// Parses `name` or `name:n`; a number that cannot be read counts as 1.
        pub(super) fn parse(text: &str) -> Armed {
            let (name, at_hit) = match text.split_once(':') {
                Some((name, n)) => (name, n.parse().unwrap_or(1)),
                None => (text, 1),
            };
            Armed {
                name: name.to_owned(),
                at_hit,
                hits: AtomicU64::new(0),
            }
        }

        /// Counts a hit and says whether it is the one asked for.
        pub(super) fn is_due(&self, name: &str) -> bool {
            self.name == name && self.hits.fetch_add(1, Ordering::SeqCst) + 1 == self.at_hit
        }
    }

    pub(super) fn hit(name: &str) -> bool {
        static ARMED: OnceLock<Option<Armed>> = OnceLock::new();
        ARMED
            .get_or_init(|| {
                std::env::var("PINNACE_CRASH_AT")
                    .ok()
                    .map(|text| Armed::parse(&text))
            })
            .as_ref()
            .is_some_and(|armed| armed.is_due(name))
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::armed::Armed;

    #[test]
    fn the_nth_hit_of_the_named_point_is_due() {
        let armed = Armed::parse("publish.after:3");
        assert!(!armed.is_due("publish.after"));
        assert!(!armed.is_due("publish.before"));
        assert!(!armed.is_due("publish.after"));
        assert!(armed.is_due("publish.after"));
        assert!(!armed.is_due("publish.after"), "a point is due once");
    }

    #[test]
    fn names_are_unique() {
        let mut names = super::POINTS.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), super::POINTS.len());
    }
}
