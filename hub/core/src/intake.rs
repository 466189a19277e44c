//! Which reports are taken in: those of the current session, each once, within the cluster's budget.

use shared::ids::{BootId, ReportSeq, Session};
use shared::limits;
use shared::reason::Reason;
use shared::time::Millis;
use shared::wire::Report;

/// The newest report that is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReportMark {
    /// Its session.
    pub session: Session,
    /// Its number.
    pub report_seq: ReportSeq,
}

/// What to do with a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Store it, then acknowledge.
    Ingest,
    /// Stored before; acknowledge again.
    Repeated,
    /// Drop it without an answer.
    Ignored(Reason),
}

/// Bytes of reports that one cluster may still send: a bucket that fills with time. One cluster's flood delays nobody
/// else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Byte-milliseconds are kept, so that slow filling is not lost to rounding.
    thousandths: u64,
    at: Millis,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            thousandths: limits::REPORT_BURST_BYTES * 1000,
            at: Millis(0),
        }
    }
}

impl Budget {
    /// Takes `bytes` out, if they are there.
    pub fn take(&mut self, now: Millis, bytes: u64) -> bool {
        let filled = now.since(self.at).saturating_mul(limits::REPORT_BYTES_PER_S);
        self.thousandths = self
            .thousandths
            .saturating_add(filled)
            .min(limits::REPORT_BURST_BYTES * 1000);
        self.at = self.at.max(now);
        match self.thousandths.checked_sub(bytes.saturating_mul(1000)) {
            Some(left) => {
                self.thousandths = left;
                true
            }
            None => false,
        }
    }
}

/// Judges a report of a connection whose agreed session is `session`.
///
/// A report above the next number is taken in too: reports hold states, not differences, and the agent was told in
/// the welcome which one the hub has last.
pub fn judge(
    mark: ReportMark,
    session: Session,
    boot: Option<BootId>,
    report: &Report,
    budget: &mut Budget,
    now: Millis,
    bytes: u64,
) -> Verdict {
    if session < mark.session || boot != Some(report.boot) {
        return Verdict::Ignored(Reason::StaleSession);
    }
    if session == mark.session && report.report_seq <= mark.report_seq {
        return Verdict::Repeated;
    }
    if !budget.take(now, bytes) {
        return Verdict::Ignored(Reason::OverLimit);
    }
    Verdict::Ingest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(seq: u64, boot: u8) -> Report {
        Report {
            report_seq: ReportSeq(seq),
            boot: BootId([boot; 16]),
            objects: vec![],
            tombstones_done: vec![],
            strays: None,
            capacity: None,
            full: false,
        }
    }

    #[test]
    fn once_in_the_current_session_only() {
        let mark = ReportMark {
            session: Session(3),
            report_seq: ReportSeq(7),
        };
        let boot = Some(BootId([1; 16]));
        let mut budget = Budget::default();
        let mut judge =
            |session, r: Report| judge(mark, Session(session), boot, &r, &mut budget, Millis(0), 10);
        assert_eq!(judge(3, report(8, 1)), Verdict::Ingest);
        assert_eq!(judge(3, report(12, 1)), Verdict::Ingest);
        assert_eq!(judge(3, report(7, 1)), Verdict::Repeated);
        assert_eq!(judge(4, report(1, 1)), Verdict::Ingest);
        assert_eq!(judge(2, report(8, 1)), Verdict::Ignored(Reason::StaleSession));
        assert_eq!(judge(3, report(8, 2)), Verdict::Ignored(Reason::StaleSession));
    }

    #[test]
    fn a_flood_is_dropped_and_the_bucket_fills_again() {
        let mut budget = Budget::default();
        assert!(budget.take(Millis(0), limits::REPORT_BURST_BYTES));
        assert!(!budget.take(Millis(0), 1));
        assert!(budget.take(Millis(1000), limits::REPORT_BYTES_PER_S));
        assert!(!budget.take(Millis(1000), 1));
        assert!(!budget.take(Millis(10_000_000), limits::REPORT_BURST_BYTES + 1));
    }
}
