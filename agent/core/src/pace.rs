//! When a target is tried again: exponential with jitter and a ceiling, counted per target, so that one bad
//! object costs itself and nobody else.

use crate::limits::{
    DRIFT_QUIET, DRIFT_TOLERATED, RETRY_AFTER_CEILING, RETRY_CEILING, RETRY_FIRST, RETRY_SOON_CEILING,
};
use shared::reason::Reason;
use shared::time::Millis;

/// Delay before try number `tries` (1 = the first retry), between half and the whole of the exponential step.
#[must_use]
pub fn backoff(tries: u32, first: Millis, ceiling: Millis, random: u64) -> Millis {
    let doubled = first
        .0
        .saturating_mul(1_u64.checked_shl(tries.saturating_sub(1)).unwrap_or(u64::MAX));
    let step = doubled.clamp(1, ceiling.0.max(1));
    let half = step / 2;
    Millis(half + random % (step - half + 1))
}

/// Longest pause between two tries after a failure of this class: short where something else that is on its way heals
/// it, long where a person has to.
#[must_use]
pub fn ceiling(reason: Reason) -> Millis {
    match reason {
        Reason::ApiAbsent
        | Reason::NamespaceTerminating
        | Reason::AwaitingDependency
        | Reason::AwaitingDeletion
        | Reason::MemberUnreachable
        | Reason::MemberOverloaded
        | Reason::MemberClock
        | Reason::DiskFull
        | Reason::Pending => RETRY_SOON_CEILING,
        _ => RETRY_CEILING,
    }
}

/// Retry state of one target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pace {
    failures: u32,
    repairs: u32,
    last_repair: Option<Millis>,
}

impl Pace {
    /// Forgets failures: the target's desired content changed or it succeeded.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// Counts a failure of a class and gives the delay until the next try.
    pub fn fail(&mut self, reason: Reason, random: u64) -> Millis {
        self.failures = self.failures.saturating_add(1);
        backoff(self.failures, RETRY_FIRST, ceiling(reason), random)
    }

    /// As [`Self::fail`], where the member may have asked to be left alone for a while (`Retry-After`): not before that is
    /// over, up to a ceiling, and a little later so that not everybody comes back at once.
    pub fn fail_asked(&mut self, reason: Reason, random: u64, asked: Option<Millis>) -> Millis {
        let own = self.fail(reason, random);
        let Some(asked) = asked.map(|a| a.0.min(RETRY_AFTER_CEILING.0)) else {
            return own;
        };
        Millis(own.0.max(asked + random % (asked / 4 + 1)))
    }

    /// How often the target failed since it last succeeded or changed.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Counts a repair of drift. Repairs that follow each other closely mean that two parties overwrite one
    /// another; the answer is then the delay before the next repair, so that we do not feed the fight.
    pub fn repair(&mut self, now: Millis, random: u64) -> Option<Millis> {
        let quiet = self
            .last_repair
            .is_none_or(|last| now.0.saturating_sub(last.0) >= DRIFT_QUIET.0);
        self.repairs = if quiet { 1 } else { self.repairs.saturating_add(1) };
        self.last_repair = Some(now);
        let over = self.repairs.checked_sub(DRIFT_TOLERATED).filter(|n| *n > 0)?;
        Some(backoff(over, RETRY_FIRST, RETRY_CEILING, random))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn never_zero_for_long_and_never_above_the_ceiling(tries in 0_u32..200, random: u64) {
            let d = backoff(tries, RETRY_FIRST, RETRY_CEILING, random);
            prop_assert!(d.0 <= RETRY_CEILING.0);
            prop_assert!(d.0 >= RETRY_FIRST.0 / 2);
        }
    }

    #[test]
    fn failures_grow_and_reset() {
        let mut p = Pace::default();
        let first = p.fail(Reason::Invalid, 0);
        let _ = p.fail(Reason::Invalid, 0);
        assert!(p.fail(Reason::Invalid, 0).0 > first.0);
        p.reset();
        assert_eq!(p.fail(Reason::Invalid, 0), first);
    }

    #[test]
    fn what_heals_by_itself_is_looked_at_often() {
        let longest = |reason| {
            let mut p = Pace::default();
            (0..40).map(|_| p.fail(reason, u64::MAX).0).max()
        };
        assert!(longest(Reason::ApiAbsent) <= Some(RETRY_SOON_CEILING.0));
        assert!(longest(Reason::Forbidden) > Some(RETRY_SOON_CEILING.0));
    }

    #[test]
    fn a_member_that_asks_to_be_left_alone_is() {
        for random in [0, 7, u64::MAX] {
            let mut p = Pace::default();
            let asked = p.fail_asked(Reason::MemberOverloaded, random, Some(Millis(20_000)));
            assert!((20_000..=25_000).contains(&asked.0), "{asked:?}");
            let day = p.fail_asked(Reason::MemberOverloaded, random, Some(Millis(86_400_000)));
            assert!(
                day.0 <= RETRY_AFTER_CEILING.0 * 5 / 4,
                "a wrong header stops nobody for a day: {day:?}"
            );
        }
        let mut p = Pace::default();
        let long = (0..9)
            .map(|_| p.fail(Reason::MemberOverloaded, 0))
            .max()
            .unwrap_or_default();
        let asked = p.fail_asked(Reason::MemberOverloaded, 0, Some(Millis(1_000)));
        assert!(asked >= long, "our own pace is the least: {asked:?}");
    }

    #[test]
    fn a_fight_is_backed_off_and_quiet_forgives() {
        let mut p = Pace::default();
        for i in 0..DRIFT_TOLERATED {
            assert_eq!(p.repair(Millis(u64::from(i)), 0), None, "repair {i} is at once");
        }
        assert!(p.repair(Millis(100), 0).is_some());
        assert_eq!(p.repair(Millis(100 + DRIFT_QUIET.0), 0), None);
    }
}
