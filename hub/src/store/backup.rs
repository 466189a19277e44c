//! Copies of the database while it is in use.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, params};

use super::error::StoreError;
use super::{Store, schema};

impl Store {
    /// Writes a copy of the database to a new file: one consistent moment, no keys (Secrets stay encrypted). The
    /// copy is marked, so that revisions jump when it is opened. Blocks; run it on a blocking thread.
    ///
    /// # Errors
    /// The file exists, or the disk is full; a half-written file is removed.
    pub fn backup(&self, to: &Path) -> Result<(), StoreError> {
        if to.exists() {
            return Err(StoreError::Exists {
                path: to.display().to_string(),
            });
        }
        let copied = copy(&self.inner.database, to);
        if copied.is_err() && to.exists() {
            std::fs::remove_file(to).map_err(|error| StoreError::File {
                path: to.display().to_string(),
                cause: error.to_string(),
            })?;
        }
        copied
    }
}

fn copy(from: &Path, to: &Path) -> Result<(), StoreError> {
    // A connection of its own: a long copy must not keep readers waiting.
    let source = Connection::open_with_flags(from, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let target = to.to_str().ok_or_else(|| StoreError::File {
        path: to.display().to_string(),
        cause: "the path is not valid UTF-8".to_owned(),
    })?;
    source.execute("VACUUM INTO ?1", params![target])?;
    let copy = Connection::open_with_flags(to, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    copy.execute_batch("PRAGMA synchronous = FULL;")?;
    schema::set_number(&copy, schema::meta::BACKUP, 1)?;
    Ok(())
}
