//! Opening: pragmas, format number, integrity, and setting a damaged file aside.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use thiserror::Error;

use super::{Ledger, LedgerError, corrupt, sqlite};

/// Name of the file in the data directory.
const FILE: &str = "ledger.db";

/// Format of the file; a newer one is refused.
const FORMAT: i64 = 2;

/// What format 2 has more than format 1.
const SINCE_2: &str = "
CREATE TABLE problems(object TEXT PRIMARY KEY, reason TEXT NOT NULL, message TEXT NOT NULL, at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
";

const SCHEMA: &str = "
CREATE TABLE facts(name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE held(only INTEGER PRIMARY KEY CHECK(only = 1), head BLOB NOT NULL, body BLOB NOT NULL) STRICT;
CREATE TABLE contents(digest BLOB PRIMARY KEY, descriptor BLOB NOT NULL, body BLOB NOT NULL) STRICT;
CREATE TABLE objects(
  api_group TEXT NOT NULL, kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  api_version TEXT NOT NULL, uid TEXT NOT NULL, nonce BLOB, created INTEGER NOT NULL, content BLOB NOT NULL,
  template_uid TEXT NOT NULL, fields BLOB, completed INTEGER NOT NULL,
  PRIMARY KEY(api_group, kind, namespace, name)) STRICT, WITHOUT ROWID;
CREATE TABLE intents(
  api_group TEXT NOT NULL, kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  api_version TEXT NOT NULL, nonce BLOB NOT NULL, template_uid TEXT NOT NULL,
  PRIMARY KEY(api_group, kind, namespace, name)) STRICT, WITHOUT ROWID;
CREATE TABLE journal(id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, object TEXT NOT NULL, what TEXT NOT NULL) STRICT;
";

/// Why the ledger could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The directory or file could not be made, read or renamed.
    #[error("{path}: the ledger's file could not be used")]
    File {
        /// The path.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The file is damaged. It is kept under another name; nothing in the member was touched.
    #[error(
        "the ledger was damaged ({why}) and is set aside as {aside}; start again: the set is fetched from the hub, and objects found with our marks are adopted, never deleted"
    )]
    SetAside {
        /// What was found.
        why: String,
        /// Where the file is now.
        aside: PathBuf,
    },
    /// A newer agent wrote the file.
    #[error("the ledger has format {found}, this agent knows {FORMAT}: use the newer agent")]
    Newer {
        /// Format number in the file.
        found: i64,
    },
    /// SQLite refused for another reason than damage.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl Ledger {
    /// Opens the ledger in `dir`, making it if there is none yet.
    ///
    /// # Errors
    /// [`OpenError::SetAside`] when the file was damaged: it is kept, renamed, and the caller must stop.
    pub fn open(dir: &Path) -> Result<Self, OpenError> {
        let path = dir.join(FILE);
        match Self::try_open(&path) {
            Err(OpenError::Ledger(e)) if e.is_corrupt() => Err(set_aside(&path, &e)),
            other => other,
        }
    }

    /// Sets the file of this ledger aside after damage was found while it was in use.
    #[must_use]
    pub fn quarantine(self, dir: &Path, why: &LedgerError) -> OpenError {
        drop(self);
        set_aside(&dir.join(FILE), why)
    }

    fn try_open(path: &Path) -> Result<Self, OpenError> {
        let file = |source| OpenError::File {
            path: path.to_owned(),
            source,
        };
        // Made here and not by SQLite, so that no moment exists in which others may read it.
        OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(path)
            .map_err(file)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(file)?;
        let db = Connection::open(path).map_err(sqlite("opened"))?;
        db.busy_timeout(Duration::from_secs(5))
            .map_err(sqlite("opened"))?;
        // A small page cache: the agent reads each content once per apply.
        db.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -256;
             PRAGMA wal_autocheckpoint = 256; PRAGMA journal_size_limit = 1048576;
             PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;",
        )
        .map_err(sqlite("opened"))?;
        let format: i64 = db
            .query_row("PRAGMA user_version", [], |r| r.get(0))
            .map_err(sqlite("opened"))?;
        match format {
            0 => db
                .execute_batch(&format!(
                    "BEGIN IMMEDIATE; {SCHEMA} {SINCE_2} PRAGMA user_version = {FORMAT}; COMMIT;"
                ))
                .map_err(sqlite("made"))?,
            1..=FORMAT => {
                let ledger = Self { db };
                ledger.check()?;
                if format == 1 {
                    ledger
                        .db
                        .execute_batch(&format!(
                            "BEGIN IMMEDIATE; {SINCE_2} PRAGMA user_version = {FORMAT}; COMMIT;"
                        ))
                        .map_err(sqlite("brought to this version"))?;
                }
                return Ok(ledger);
            }
            found => return Err(OpenError::Newer { found }),
        }
        Ok(Self { db })
    }

    /// Whether the file is whole, as SQLite sees it.
    ///
    /// # Errors
    /// [`LedgerError::Corrupt`] with what is wrong.
    pub fn check(&self) -> Result<(), LedgerError> {
        let check: String = self
            .db
            // The quick check does not look at indexes: a content would be there and not be found by its digest.
            .query_row("PRAGMA integrity_check(1)", [], |r| r.get(0))
            .map_err(sqlite("checked"))?;
        if check == "ok" {
            Ok(())
        } else {
            Err(corrupt(check))
        }
    }

    /// Opens the ledger for looking only; makes and changes nothing.
    ///
    /// # Errors
    /// When there is none, or SQLite cannot read it.
    pub fn open_readonly(dir: &Path) -> Result<Self, OpenError> {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(dir.join(FILE), flags).map_err(sqlite("opened"))?;
        db.busy_timeout(Duration::from_secs(5))
            .map_err(sqlite("opened"))?;
        Ok(Self { db })
    }
}

fn set_aside(path: &Path, why: &LedgerError) -> OpenError {
    let mut text = why.to_string();
    if let Some(source) = std::error::Error::source(why) {
        text = format!("{text}: {source}");
    }
    let free = (1..=1_000_u32)
        .map(|n| path.with_extension(format!("damaged-{n}")))
        .find(|p| !p.exists())
        .unwrap_or_else(|| path.with_extension("damaged"));
    if let Err(source) = fs::rename(path, &free) {
        return OpenError::File {
            path: path.to_owned(),
            source,
        };
    }
    for suffix in ["-wal", "-shm"] {
        let (mut from, mut to) = (path.as_os_str().to_owned(), free.as_os_str().to_owned());
        from.push(suffix);
        to.push(suffix);
        if let Err(source) = fs::rename(&from, &to)
            && source.kind() != io::ErrorKind::NotFound
        {
            return OpenError::File {
                path: PathBuf::from(from),
                source,
            };
        }
    }
    OpenError::SetAside {
        why: text,
        aside: free,
    }
}
