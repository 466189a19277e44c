//! Copies of the database while it is in use.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
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
        checked_copy(&self.inner.database, to)
    }

    /// As [`Store::backup`], of the store of a directory that this or another process may have open.
    ///
    /// # Errors
    /// As [`Store::backup`]; there is no store.
    pub fn backup_directory(dir: &Path, to: &Path) -> Result<(), StoreError> {
        let database = Store::database_file(dir);
        if !database.exists() {
            return Err(StoreError::Missing {
                path: database.display().to_string(),
            });
        }
        checked_copy(&database, to)
    }

    /// Whether a file was made by [`Store::backup`] and not opened since.
    pub fn is_backup(file: &Path) -> bool {
        let opened = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY);
        opened.is_ok_and(|db| matches!(schema::number(&db, schema::meta::BACKUP), Ok(Some(_))))
    }
}

fn file_error(path: &Path, cause: &std::io::Error) -> StoreError {
    StoreError::File {
        path: path.display().to_string(),
        cause: cause.to_string(),
    }
}

fn checked_copy(from: &Path, to: &Path) -> Result<(), StoreError> {
    // Made first with its final mode: nobody else reads it while it grows.
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(to);
    match made {
        Ok(_empty) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            return Err(StoreError::Exists {
                path: to.display().to_string(),
            });
        }
        Err(error) => return Err(file_error(to, &error)),
    }
    let copied = copy(from, to);
    if copied.is_err() {
        std::fs::remove_file(to).map_err(|error| file_error(to, &error))?;
    }
    copied
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
