//! Small facts that a full disk kept out of the ledger: they are in force at once and written down as soon as there is
//! room. A full disk ends nothing: repairs go on, and only what must be durable first waits.

use std::cell::RefCell;
use std::rc::Rc;

use shared::ids::Session;
use shared::keys::KeyRing;
use shared::time::UnixSeconds;
use tokio::time::sleep;

use crate::ledger::{Ledger, LedgerError, facts};
use crate::limits::DISK_LOOK;

/// What is still to be written.
#[derive(Debug, Default)]
pub struct Owed {
    ring: Option<KeyRing>,
    session: Option<Session>,
    confirmed: Option<UnixSeconds>,
}

impl Owed {
    /// Keys that were learnt.
    ///
    /// # Errors
    /// When the ledger cannot be written for another reason than a full disk.
    pub fn ring(&mut self, ledger: &Ledger, ring: KeyRing) -> Result<(), LedgerError> {
        self.ring = Some(ring);
        self.settle(ledger).map(drop)
    }

    /// A session that was agreed on. A start that lost it proposes a lower one, which the hub takes for a restored
    /// disk and answers with a higher one.
    ///
    /// # Errors
    /// As [`Owed::ring`].
    pub fn session(&mut self, ledger: &Ledger, session: Session) -> Result<(), LedgerError> {
        self.session = Some(session);
        self.settle(ledger).map(drop)
    }

    /// A time that the hub confirmed.
    ///
    /// # Errors
    /// As [`Owed::ring`].
    pub fn confirmed(&mut self, ledger: &Ledger, time: UnixSeconds) -> Result<(), LedgerError> {
        self.confirmed = Some(time);
        self.settle(ledger).map(drop)
    }

    /// Writes what is owed; says whether nothing is owed any more.
    ///
    /// # Errors
    /// As [`Owed::ring`].
    pub fn settle(&mut self, ledger: &Ledger) -> Result<bool, LedgerError> {
        let mut write = || -> Result<(), LedgerError> {
            if let Some(ring) = &self.ring {
                facts::put_ring(ledger, ring)?;
                self.ring = None;
            }
            if let Some(session) = self.session {
                facts::put_session(ledger, session)?;
                self.session = None;
            }
            if let Some(time) = self.confirmed {
                facts::put_confirmed(ledger, time)?;
                self.confirmed = None;
            }
            Ok(())
        };
        match write() {
            Ok(()) => Ok(true),
            Err(e) if e.is_disk_full() => Ok(false),
            Err(e) => Err(e),
        }
    }
}

/// Writes down the session that this life proposes, so that it is never proposed twice for two lives; a full disk is
/// waited for. Says whether it was written: nothing else than a full disk may be in the way.
pub async fn written(ledger: &Rc<RefCell<Ledger>>, proposed: Session) -> bool {
    loop {
        let result = facts::put_session(&ledger.borrow(), proposed);
        match result {
            Ok(()) => return true,
            Err(e) if e.is_disk_full() => {
                tracing::warn!("the agent's disk is full: the hub is not dialled until there is room");
                sleep(DISK_LOOK).await;
            }
            Err(e) => {
                tracing::error!(error = %e, "the session could not be written down");
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ledger that may not grow stands for a full disk; `tests/agent_member` has a real one.
    #[test]
    fn what_did_not_fit_is_written_when_there_is_room() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(dir.path()).unwrap();
        let limit = |pages: i64| {
            let set = format!("PRAGMA max_page_count = {pages}");
            ledger.db.query_row(&set, [], |r| r.get::<_, i64>(0)).unwrap()
        };
        let now = limit(1);
        // Smaller and smaller rows, in the order of their names, until not even one that is shorter than what is owed
        // fits before it.
        let mut names = 0_u32;
        for size in [900, 300, 100, 30, 10, 1] {
            loop {
                names += 1;
                let name: &'static str = Box::leak(format!("s{names:04}").into_boxed_str());
                if let Err(e) = ledger.put(name, &vec![7; size]) {
                    assert!(e.is_disk_full(), "{e}");
                    break;
                }
            }
        }
        let mut owed = Owed::default();
        owed.session(&ledger, Session(9)).unwrap();
        assert!(!owed.settle(&ledger).unwrap(), "there is no room");
        assert_eq!(facts::session(&ledger).unwrap(), Session(0));
        limit(now + 64);
        assert!(owed.settle(&ledger).unwrap());
        assert_eq!(facts::session(&ledger).unwrap(), Session(9));
    }
}
