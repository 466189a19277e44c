//! What the agent must not forget: its session, the accepted set with its contents, and per object what was
//! created, adopted or last applied. One SQLite file (WAL, FULL, 0600), and the only place with SQL.
//!
//! A damaged file is never treated as an empty one: it is set aside under another name and the agent says so.
//! Rows that matter are verified again when they are read: the head by its signature, the set by its digest,
//! each content by its own.

pub mod facts;
mod objects;
mod open;
mod problems;
mod sets;
#[cfg(test)]
mod tests;

pub use open::OpenError;
pub use problems::Problem;
pub use sets::HeldSet;

use rusqlite::{Connection, OptionalExtension, params};
use thiserror::Error;

/// Why the ledger could not do what was asked.
#[derive(Debug, Error)]
pub enum LedgerError {
    /// SQLite refused; the source says why.
    #[error("the ledger could not be {doing}")]
    Sqlite {
        /// What was being done, as a participle.
        doing: &'static str,
        /// SQLite's own error.
        #[source]
        source: rusqlite::Error,
    },
    /// A row does not hold what its column promises.
    #[error("the ledger is damaged: {what}; set it aside and let the hub send again")]
    Corrupt {
        /// What is wrong with which row.
        what: String,
    },
}

impl LedgerError {
    /// The disk (or the quota) has no room.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        matches!(
            self,
            Self::Sqlite { source: rusqlite::Error::SqliteFailure(e, _), .. }
                if e.code == rusqlite::ErrorCode::DiskFull || e.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE
        )
    }

    /// The file itself is damaged.
    #[must_use]
    pub fn is_corrupt(&self) -> bool {
        match self {
            Self::Corrupt { .. } => true,
            Self::Sqlite {
                source: rusqlite::Error::SqliteFailure(e, _),
                ..
            } => {
                matches!(
                    e.code,
                    rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase
                )
            }
            Self::Sqlite { .. } => false,
        }
    }
}

pub(crate) fn sqlite(doing: &'static str) -> impl FnOnce(rusqlite::Error) -> LedgerError {
    move |source| LedgerError::Sqlite { doing, source }
}

pub(crate) fn corrupt(what: impl Into<String>) -> LedgerError {
    LedgerError::Corrupt { what: what.into() }
}

/// An open ledger. Calls block for the length of one disk flush.
#[derive(Debug)]
pub struct Ledger {
    pub(crate) db: Connection,
}

/// Journal rows kept; older ones go.
const JOURNAL_ROWS: i64 = 2_000;

/// One line of the journal of actions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalLine {
    /// Number, rising.
    pub id: i64,
    /// The agent's own clock when it happened, seconds since 1970; for people, never for decisions.
    pub at: i64,
    /// The object, as text.
    pub object: String,
    /// What was done.
    pub what: String,
}

impl Ledger {
    /// A named small value, if it was ever put.
    ///
    /// # Errors
    /// When SQLite cannot read.
    pub fn get(&self, name: &'static str) -> Result<Option<Vec<u8>>, LedgerError> {
        self.db
            .prepare_cached("SELECT value FROM facts WHERE name = ?1")
            .and_then(|mut s| s.query_row([name], |row| row.get(0)).optional())
            .map_err(sqlite("read"))
    }

    /// Keeps a named small value; durable when this returns.
    ///
    /// # Errors
    /// When SQLite cannot write.
    pub fn put(&self, name: &'static str, value: &[u8]) -> Result<(), LedgerError> {
        self.db
            .prepare_cached(
                "INSERT INTO facts(name, value) VALUES(?1, ?2) ON CONFLICT(name) DO UPDATE SET value = excluded.value",
            )
            .and_then(|mut s| s.execute(params![name, value]))
            .map(|_| ())
            .map_err(sqlite("written"))
    }

    /// Adds a line to the journal within the caller's transaction, and drops the oldest.
    fn journal(db: &Connection, at: i64, object: &str, what: &str) -> rusqlite::Result<()> {
        db.prepare_cached("INSERT INTO journal(at, object, what) VALUES(?1, ?2, ?3)")?
            .execute(params![at, object, what])?;
        db.prepare_cached("DELETE FROM journal WHERE id <= (SELECT max(id) FROM journal) - ?1")?
            .execute([JOURNAL_ROWS])?;
        Ok(())
    }

    /// Number of the newest line of the journal, zero if there is none.
    ///
    /// # Errors
    /// When SQLite cannot read.
    pub fn journal_number(&self) -> Result<u64, LedgerError> {
        self.db
            .query_row("SELECT coalesce(max(id), 0) FROM journal", [], |row| row.get(0))
            .map(|id: i64| id.cast_unsigned())
            .map_err(sqlite("read"))
    }

    /// The newest lines of the journal, newest first.
    ///
    /// # Errors
    /// When SQLite cannot read.
    pub fn recent_journal(&self, lines: u32) -> Result<Vec<JournalLine>, LedgerError> {
        let mut statement = self
            .db
            .prepare_cached("SELECT id, at, object, what FROM journal ORDER BY id DESC LIMIT ?1")
            .map_err(sqlite("read"))?;
        let rows = statement
            .query_map([lines], |row| {
                Ok(JournalLine {
                    id: row.get(0)?,
                    at: row.get(1)?,
                    object: row.get(2)?,
                    what: row.get(3)?,
                })
            })
            .map_err(sqlite("read"))?;
        rows.collect::<Result<_, _>>().map_err(sqlite("read"))
    }
}
