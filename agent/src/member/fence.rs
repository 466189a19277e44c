//! The time for which one of several agents may act. Whatever it writes carries what is left of that time as the API
//! server's own limit, so that no write of it is carried out after another agent has begun.

use std::cell::Cell;
use std::time::Duration;

use shared::time::Millis;
use tokio::sync::Notify;

use crate::clock::Monotonic;

/// Least time for which a write is still begun; the API server takes whole seconds.
const LEAST: Duration = Duration::from_secs(1);

/// Until when we may act.
#[derive(Debug)]
pub struct Fence {
    clock: Monotonic,
    until: Cell<Millis>,
    over: Cell<bool>,
    ended: Notify,
}

impl Fence {
    /// A fence behind which nothing may be done yet.
    #[must_use]
    pub fn new(clock: Monotonic) -> Self {
        Self {
            clock,
            until: Cell::new(Millis(0)),
            over: Cell::new(false),
            ended: Notify::new(),
        }
    }

    /// We may act until then.
    pub fn raise(&self, until: Millis) {
        self.until.set(until);
    }

    /// We may not act any more, for good.
    pub fn end(&self) {
        self.over.set(true);
        self.ended.notify_one();
    }

    /// Whether it ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over.get() || self.until.get() <= self.clock.now()
    }

    /// Comes back when it ended.
    pub async fn wait_end(&self) {
        if !self.over.get() {
            self.ended.notified().await;
        }
    }

    /// How long a write that begins now may take; none: it must not begin.
    #[must_use]
    pub fn left(&self) -> Option<Duration> {
        let left = self.until.get().since(self.clock.now());
        let whole = Duration::from_secs(left / 1_000);
        (!self.over.get() && whole >= LEAST).then_some(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_begins_without_time_or_after_the_end() {
        let fence = Fence::new(Monotonic::start());
        assert!(fence.is_over() && fence.left().is_none());
        fence.raise(Millis(900));
        assert!(fence.left().is_none(), "less than a second is not enough");
        fence.raise(Millis(60_500));
        assert_eq!(fence.left(), Some(Duration::from_secs(60)));
        fence.end();
        assert!(fence.is_over() && fence.left().is_none());
        fence.raise(Millis(90_000));
        assert!(fence.is_over(), "an end is for good");
    }
}
