//! Errors of the store: what failed, on which object, why, and what to do.

use std::sync::Arc;

use super::body::BodyError;
use super::object::{Object, ResourceId, Revision};

/// The store itself has a problem; nothing is wrong with the request.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The disk is full or the database may not grow: reads go on, writes are refused until there is room.
    #[error(
        "the store is read-only: {cause}; free disk space under the data directory, writes resume by themselves"
    )]
    ReadOnly {
        /// What the database said.
        cause: String,
    },
    /// There is no store in this directory.
    #[error("no store at {path}: run `pinnace-hub init --data DIR` first")]
    Missing {
        /// The path looked for.
        path: String,
    },
    /// There is one already.
    #[error("there is already a store at {path}; choose another directory, or serve this one")]
    Exists {
        /// The path found.
        path: String,
    },
    /// Another process has it open.
    #[error("the store at {path} is in use by another process; stop that one first")]
    InUse {
        /// The lock file.
        path: String,
    },
    /// Written by a newer program.
    #[error(
        "the database has schema version {found}, this program knows up to {known}; use the newer program"
    )]
    NewerSchema {
        /// Version found in the file.
        found: u32,
        /// Highest version known.
        known: u32,
    },
    /// Something stored cannot be read. Corrupt is never treated as absent.
    #[error("corrupt {what}: {cause}; restore the data directory from a backup")]
    Corrupt {
        /// Table and key.
        what: String,
        /// What is wrong with it.
        cause: String,
    },
    /// The storage key file is missing, unreadable or of another store.
    #[error("storage key {path}: {cause}; restore the key file that belongs to this database")]
    StorageKey {
        /// Path of the file.
        path: String,
        /// What is wrong with it.
        cause: String,
    },
    /// A file operation failed.
    #[error("{path}: {cause}")]
    File {
        /// Path.
        path: String,
        /// What the system said.
        cause: String,
    },
    /// The database refused an operation for a reason that is none of the above.
    #[error("database: {cause}")]
    Database {
        /// What it said.
        cause: String,
    },
    /// The writer has ended (shutdown).
    #[error("the store is closed")]
    Closed,
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        use rusqlite::ErrorCode;
        let cause = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull | ErrorCode::ReadOnly) => StoreError::ReadOnly { cause },
            // A failed write or flush of the log: nothing is known to be durable, so nothing is promised.
            Some(ErrorCode::SystemIoFailure) => StoreError::ReadOnly { cause },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Corrupt {
                what: "database file".to_owned(),
                cause,
            },
            _ => StoreError::Database { cause },
        }
    }
}

/// Why a commit did not happen. Nothing of it is stored.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CommitError {
    /// `Expect::Absent`, and there is one.
    #[error("{resource} {namespace}/{name} already exists")]
    AlreadyExists {
        /// Where.
        resource: ResourceId,
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
        /// What is there.
        current: Arc<Object>,
    },
    /// `Expect::Present`, `Expect::Revision` or a delete, and there is none.
    #[error("{resource} {namespace}/{name} not found")]
    NotFound {
        /// Where.
        resource: ResourceId,
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
    },
    /// `Expect::Revision`, and somebody was faster.
    #[error("{resource} {namespace}/{name} is at revision {}, not {expected}: read it again and retry", .current.revision)]
    Conflict {
        /// Where.
        resource: ResourceId,
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
        /// The revision the writer had read.
        expected: Revision,
        /// What is there now.
        current: Arc<Object>,
    },
    /// The object is larger than the store takes.
    #[error("{resource} {namespace}/{name} has {bytes} bytes, the limit is {limit}")]
    TooLarge {
        /// Where.
        resource: ResourceId,
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
        /// Size of its JSON.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// More operations than one commit may have.
    #[error("a commit of {ops} operations, the limit is {limit}: split it")]
    TooMany {
        /// Operations given.
        ops: usize,
        /// The limit.
        limit: usize,
    },
    /// Not an object with metadata.
    #[error("{resource} {namespace}/{name}: {cause}")]
    Malformed {
        /// Where.
        resource: ResourceId,
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
        /// What is wrong.
        cause: BodyError,
    },
    /// The store could not.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The events asked for are gone: list again (HTTP 410 `Expired`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("events after revision {after} are no longer kept; the oldest that can be continued is {floor}")]
pub struct Compacted {
    /// What was asked for.
    pub after: Revision,
    /// The oldest revision after which everything is still known.
    pub floor: Revision,
}
