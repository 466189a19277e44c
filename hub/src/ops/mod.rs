//! What an operator does beside serving: copies, keys, restoring, looking for damage.

mod backup;
mod doctor;
mod key_file;
mod restore;

pub use backup::backup;
pub use doctor::{Diagnosis, doctor};
pub use key_file::{KeyFileError, export};
pub use restore::restore;

use std::path::PathBuf;

use crate::keys::KeysError;
use crate::store::StoreError;

/// Why an operation did not happen.
#[derive(Debug, thiserror::Error)]
pub enum OpsError {
    /// Keys and their files.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file of exported keys.
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    /// The operating system refused.
    #[error("cannot {verb} {}: {cause}", path.display())]
    File {
        /// What was tried.
        verb: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's words.
        cause: std::io::Error,
    },
    /// Not a file that `backup` made.
    #[error("{} is not a backup of a hub: {cause}", path.display())]
    NotABackup {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// The directory holds something.
    #[error("{} is not empty; restore into a new directory (the hub that is there stays as it is)", .0.display())]
    NotEmpty(PathBuf),
}
