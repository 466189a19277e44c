//! What a run may still use, and whether its caller still waits.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::limits::STEPS_MAX;

/// Steps left of one run. Once used up it stays so: a script that catches the error is stopped at its next step.
#[derive(Debug)]
pub(super) struct Budget {
    left: Cell<u64>,
    cancelled: Arc<AtomicBool>,
}

/// The run must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exhausted;

impl Budget {
    pub(super) fn new(cancelled: Arc<AtomicBool>) -> Self {
        Self {
            left: Cell::new(STEPS_MAX),
            cancelled,
        }
    }

    /// Takes steps.
    pub(super) fn charge(&self, steps: u64) -> Result<(), Exhausted> {
        let left = self.left.get().saturating_sub(steps);
        self.left.set(left);
        if left == 0 || self.cancelled.load(Ordering::Relaxed) {
            self.left.set(0);
            return Err(Exhausted);
        }
        Ok(())
    }

    /// Whether it must end.
    pub(super) fn is_exhausted(&self) -> bool {
        self.left.get() == 0
    }
}
