//! `pinnace-hub backup`: a copy of the database, also while the hub serves.

use std::path::Path;

use super::OpsError;
use crate::store::Store;

/// Writes a copy of the database of a directory to a new file: one consistent moment, readable by its owner alone, no
/// keys inside. The hub may be serving. Blocks.
///
/// # Errors
/// There is no hub, the file exists, or the disk is full; a half-written file is removed.
pub fn backup(data: &Path, to: &Path) -> Result<(), OpsError> {
    Ok(Store::backup_directory(data, to)?)
}
