//! What has to be looked at again: a bounded set of keys with a poke. It never holds input, only names; losing it
//! (a crash) costs nothing, since every start marks everything.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::limits;

/// Keys marked since they were last taken.
#[derive(Debug)]
pub(super) struct Dirty<K> {
    marked: Mutex<Marked<K>>,
    poke: Notify,
}

/// What a pass has to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Marked<K> {
    /// Everything there is.
    pub(super) all: bool,
    /// These keys; empty when `all`.
    pub(super) keys: BTreeSet<K>,
}

impl<K> Default for Marked<K> {
    fn default() -> Self {
        Self {
            all: false,
            keys: BTreeSet::new(),
        }
    }
}

impl<K> Default for Dirty<K> {
    fn default() -> Self {
        Self {
            marked: Mutex::default(),
            poke: Notify::new(),
        }
    }
}

impl<K> Marked<K> {
    pub(super) fn is_empty(&self) -> bool {
        !self.all && self.keys.is_empty()
    }
}

impl<K: Ord> Dirty<K> {
    /// Marks some keys. Over the limit everything is marked: never forget, never grow.
    pub(super) fn mark(&self, keys: impl IntoIterator<Item = K>) {
        let mut marked = self.marked.lock().unwrap_or_else(PoisonError::into_inner);
        if !marked.all {
            marked.keys.extend(keys);
            if marked.keys.len() > limits::MARKED_KEYS {
                *marked = Marked {
                    all: true,
                    keys: BTreeSet::new(),
                };
            }
        }
        let something = !marked.is_empty();
        drop(marked);
        if something {
            self.poke.notify_one();
        }
    }

    /// Marks without a poke: for what failed and shall wait.
    pub(super) fn remember(&self, keys: impl IntoIterator<Item = K>) {
        let mut marked = self.marked.lock().unwrap_or_else(PoisonError::into_inner);
        if !marked.all {
            marked.keys.extend(keys);
        }
    }

    /// Marks everything.
    pub(super) fn mark_all(&self) {
        *self.marked.lock().unwrap_or_else(PoisonError::into_inner) = Marked {
            all: true,
            keys: BTreeSet::new(),
        };
        self.poke.notify_one();
    }

    /// Starts a pass although nothing is marked.
    pub(super) fn poke(&self) {
        self.poke.notify_one();
    }

    /// Takes what is marked.
    pub(super) fn take(&self) -> Marked<K> {
        std::mem::take(&mut *self.marked.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until something is marked or the time is over. A mark made between `take` and this is not missed.
    pub(super) async fn wait(&self, at_most: Duration) {
        // The timeout itself is an ordinary outcome.
        let _timed_out = tokio::time::timeout(at_most, self.poke.notified()).await;
    }
}

/// How long to wait before failed keys are tried again: doubling, with a ceiling and jitter from the clock's noise.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// A pass without failure.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    /// A pass with failures: the wait before the next try. `noise`: any number that differs between processes.
    pub(super) fn next(&mut self, noise: u64) -> Duration {
        let doubled = limits::RETRY_FIRST.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        let base = doubled.min(limits::RETRY_CEILING);
        // Between three quarters and the whole.
        base.mul_f64(0.75 + 0.25 * (noise % 1_000) as f64 / 1_000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_the_limit_everything_is_marked_and_nothing_forgotten() {
        let dirty = Dirty::default();
        dirty.mark(0..limits::MARKED_KEYS);
        assert!(!dirty.take().all);
        dirty.mark(0..=limits::MARKED_KEYS);
        assert_eq!(
            dirty.take(),
            Marked {
                all: true,
                keys: BTreeSet::new()
            }
        );
        assert!(dirty.take().is_empty());
    }

    #[test]
    fn a_key_marked_twice_is_taken_once() {
        let dirty = Dirty::default();
        dirty.mark([1, 2]);
        dirty.mark([2]);
        assert_eq!(dirty.take().keys, BTreeSet::from([1, 2]));
    }

    #[tokio::test]
    async fn a_mark_before_the_wait_is_not_missed() {
        let dirty = Dirty::default();
        dirty.mark([1]);
        let started = tokio::time::Instant::now();
        dirty.wait(Duration::from_secs(3_600)).await;
        assert!(started.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn the_wait_grows_to_its_ceiling() {
        let mut backoff = Backoff::default();
        assert!(backoff.next(999) <= limits::RETRY_FIRST);
        for _ in 0..40 {
            assert!(backoff.next(7) <= limits::RETRY_CEILING);
        }
        assert!(backoff.next(0) >= limits::RETRY_CEILING.mul_f64(0.75));
        backoff.reset();
        assert!(backoff.next(0) <= limits::RETRY_FIRST);
    }
}
