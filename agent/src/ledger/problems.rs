//! Why objects are not as wanted, kept so that `status` and `why` can say it without the running agent, and after a
//! restart before the first try. For people: no decision looks at it.

use rusqlite::params;
use shared::ids::ObjectKey;

use super::{Ledger, LedgerError, sqlite};

/// Problems kept; a set has room for more objects, and the first ones are told.
const PROBLEMS_MAX: i64 = 2_000;

/// One object that is not as wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The object, as text.
    pub object: String,
    /// Reason code.
    pub reason: String,
    /// In words.
    pub message: String,
    /// The agent's own clock when it began.
    pub at: i64,
}

impl Ledger {
    /// Writes down why an object is not as wanted; the time stays while the reason does.
    ///
    /// # Errors
    /// When SQLite cannot write.
    pub fn put_problem(
        &self,
        key: &ObjectKey,
        reason: &str,
        message: &str,
        at: i64,
    ) -> Result<(), LedgerError> {
        let put = || -> rusqlite::Result<()> {
            self.db
                .prepare_cached(
                    "INSERT INTO problems(object, reason, message, at)
                     SELECT ?1, ?2, ?3, ?4 WHERE (SELECT count(*) FROM problems) < ?5
                       OR EXISTS (SELECT 1 FROM problems WHERE object = ?1)
                     ON CONFLICT(object) DO UPDATE SET message = excluded.message,
                       at = CASE WHEN reason = excluded.reason THEN at ELSE excluded.at END,
                       reason = excluded.reason",
                )?
                .execute(params![key.to_string(), reason, message, at, PROBLEMS_MAX])?;
            Ok(())
        };
        put().map_err(sqlite("written"))
    }

    /// The object is as wanted, or nobody wants it any more.
    ///
    /// # Errors
    /// When SQLite cannot write.
    pub fn drop_problem(&self, object: &str) -> Result<(), LedgerError> {
        self.db
            .prepare_cached("DELETE FROM problems WHERE object = ?1")
            .and_then(|mut s| s.execute([object]))
            .map(|_| ())
            .map_err(sqlite("written"))
    }

    /// Every problem, oldest first; none in a ledger of an agent that did not keep them.
    ///
    /// # Errors
    /// When SQLite cannot read.
    pub fn problems(&self) -> Result<Vec<Problem>, LedgerError> {
        let read = || -> rusqlite::Result<Vec<Problem>> {
            let kept = self
                .db
                .prepare("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'problems'")?
                .exists([])?;
            if !kept {
                return Ok(Vec::new());
            }
            let mut statement = self
                .db
                .prepare_cached("SELECT object, reason, message, at FROM problems ORDER BY at, object")?;
            let rows = statement.query_map([], |row| {
                Ok(Problem {
                    object: row.get(0)?,
                    reason: row.get(1)?,
                    message: row.get(2)?,
                    at: row.get(3)?,
                })
            })?;
            rows.collect()
        };
        read().map_err(sqlite("read"))
    }

    /// The journal's lines about one object, newest first.
    ///
    /// # Errors
    /// When SQLite cannot read.
    pub fn journal_of(&self, object: &str, lines: u32) -> Result<Vec<super::JournalLine>, LedgerError> {
        let read = || -> rusqlite::Result<Vec<super::JournalLine>> {
            let mut statement = self.db.prepare_cached(
                "SELECT id, at, object, what FROM journal WHERE object = ?1 ORDER BY id DESC LIMIT ?2",
            )?;
            let rows = statement.query_map(params![object, lines], |row| {
                Ok(super::JournalLine {
                    id: row.get(0)?,
                    at: row.get(1)?,
                    object: row.get(2)?,
                    what: row.get(3)?,
                })
            })?;
            rows.collect()
        };
        read().map_err(sqlite("read"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_keeps_its_age_until_the_reason_changes() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(dir.path()).unwrap();
        let key = ObjectKey::new("", "ConfigMap", "shop", "a");
        let at = |ledger: &Ledger| {
            ledger
                .problems()
                .unwrap()
                .iter()
                .map(|p| p.at)
                .collect::<Vec<_>>()
        };
        ledger.put_problem(&key, "QuotaExceeded", "one", 10).unwrap();
        ledger.put_problem(&key, "QuotaExceeded", "two", 20).unwrap();
        assert_eq!(at(&ledger), [10]);
        ledger.put_problem(&key, "Forbidden", "three", 30).unwrap();
        assert_eq!(at(&ledger), [30]);
        assert_eq!(ledger.problems().unwrap()[0].message, "three");
        ledger.drop_problem(&key.to_string()).unwrap();
        assert_eq!(ledger.problems().unwrap(), []);
    }
}
