//! One process at a time works with a data directory.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result, bail};

const FILE: &str = "agent.lock";

/// The directory is ours while this lives; the system frees it when the process ends, however it ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Takes the directory.
///
/// # Errors
/// When another process has it, or the lock file cannot be made.
pub fn take(data: &Path) -> Result<Lock> {
    let path = data.join(FILE);
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&path)
        .with_context(|| path.display().to_string())?;
    match file.try_lock() {
        Ok(()) => Ok(Lock { _file: file }),
        Err(TryLockError::WouldBlock) => {
            bail!("an agent works with {} already: stop it first", data.display())
        }
        Err(TryLockError::Error(e)) => Err(e).with_context(|| path.display().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let first = take(dir.path()).unwrap();
        let refused = take(dir.path()).expect_err("taken");
        assert!(refused.to_string().contains("stop it first"), "{refused}");
        drop(first);
        assert!(take(dir.path()).is_ok());
    }
}
