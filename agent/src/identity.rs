//! What enrolment gave: one 0600 file beside the ledger, written once by `join`. It is apart from the ledger so
//! that a damaged ledger can be set aside without a new enrolment.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use shared::keys::{KeyRing, RootPin, SignedReceipt};
use thiserror::Error;

const FILE: &str = "identity.json";

/// An enrolment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Enrolment {
    /// Format of this file.
    pub format: u32,
    /// `HOST:PORT` of the hub.
    pub hub: String,
    /// Hash of the hub's root key.
    pub pin: RootPin,
    /// The identity key in PKCS#8.
    pub key: Vec<u8>,
    /// The receipt; it names fleet, cluster, incarnation and the member's `kube-system` uid.
    pub receipt: SignedReceipt,
    /// Keys known at enrolment; newer ones are in the ledger.
    pub ring: KeyRing,
    /// Kubeconfig of the member; none: the service account of the pod the agent runs in.
    pub kubeconfig: Option<PathBuf>,
}

/// The key made for an enrolment that is under way: a repeated `join` must come with the same key.
const PENDING_KEY: &str = "identity.pending";

/// Why the identity cannot be used.
#[derive(Debug, Error)]
pub enum IdentityError {
    /// No enrolment here.
    #[error("{0} holds no enrolment: run `pinnace-agent join` first")]
    None(PathBuf),
    /// There is one already.
    #[error("{0} holds an enrolment already")]
    Exists(PathBuf),
    /// The file is unreadable.
    #[error("{path} is damaged: {cause}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: String,
    },
    /// The system refused.
    #[error("{path} could not be used")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: io::Error,
    },
}

/// Makes the data directory, 0700.
///
/// # Errors
/// When the system refuses.
pub fn make_dir(dir: &Path) -> Result<(), IdentityError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|source| IdentityError::File {
            path: dir.to_owned(),
            source,
        })
}

/// Reads the enrolment.
///
/// # Errors
/// [`IdentityError::None`] when there is none.
pub fn load(dir: &Path) -> Result<Enrolment, IdentityError> {
    let path = dir.join(FILE);
    let bytes = match fs::read(&path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(IdentityError::None(dir.to_owned())),
        other => other.map_err(|source| IdentityError::File {
            path: path.clone(),
            source,
        })?,
    };
    let enrolment: Enrolment = serde_json::from_slice(&bytes).map_err(|e| IdentityError::Damaged {
        path: path.clone(),
        cause: e.to_string(),
    })?;
    if enrolment.format != 1 {
        let cause = format!("format {} is not known to this version", enrolment.format);
        return Err(IdentityError::Damaged { path, cause });
    }
    Ok(enrolment)
}

/// Writes the enrolment: whole or not at all, durable when this returns.
///
/// # Errors
/// When the system refuses.
pub fn save(dir: &Path, enrolment: &Enrolment) -> Result<(), IdentityError> {
    let bytes = serde_json::to_vec(enrolment).map_err(|e| IdentityError::Damaged {
        path: dir.join(FILE),
        cause: e.to_string(),
    })?;
    write_whole(dir, FILE, &bytes)?;
    match fs::remove_file(dir.join(PENDING_KEY)) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(IdentityError::File {
            path: dir.join(PENDING_KEY),
            source,
        }),
        _ => Ok(()),
    }
}

/// The key of an enrolment under way: the one of an earlier try, else what `make` makes.
///
/// # Errors
/// [`IdentityError::Exists`] when the directory is enrolled already.
pub fn pending_key<E>(
    dir: &Path,
    make: impl FnOnce() -> Result<Vec<u8>, E>,
) -> Result<Result<Vec<u8>, E>, IdentityError> {
    if dir.join(FILE).exists() {
        return Err(IdentityError::Exists(dir.to_owned()));
    }
    let path = dir.join(PENDING_KEY);
    match fs::read(&path) {
        Ok(key) => return Ok(Ok(key)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(IdentityError::File { path, source }),
    }
    let key = match make() {
        Ok(key) => key,
        Err(e) => return Ok(Err(e)),
    };
    write_whole(dir, PENDING_KEY, &key)?;
    Ok(Ok(key))
}

/// Sets the enrolment aside after `leave`: the key and receipt stay readable for a person, and no agent starts.
///
/// # Errors
/// When the system refuses.
pub fn set_aside(dir: &Path) -> Result<(), IdentityError> {
    let (path, left) = (dir.join(FILE), dir.join(format!("{FILE}.left")));
    fs::rename(&path, left).map_err(|source| IdentityError::File { path, source })
}

/// Writes the enrolment again with another kubeconfig.
///
/// # Errors
/// When the system refuses.
pub fn replace_kubeconfig(
    dir: &Path,
    enrolment: Enrolment,
    kubeconfig: PathBuf,
) -> Result<(), IdentityError> {
    let enrolment = Enrolment {
        kubeconfig: Some(kubeconfig),
        ..enrolment
    };
    save(dir, &enrolment)
}

fn write_whole(dir: &Path, name: &str, bytes: &[u8]) -> Result<(), IdentityError> {
    let (path, part) = (dir.join(name), dir.join(format!("{name}.part")));
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&part)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&part, &path)?;
        File::open(dir)?.sync_all()
    };
    write().map_err(|source| IdentityError::File { path, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_repeated_join_comes_with_the_same_key() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let make = |byte: u8| move || Ok::<_, ()>(vec![byte; 3]);
        let first = pending_key(dir.path(), make(1)).expect("written");
        let second = pending_key(dir.path(), make(2)).expect("read");
        assert_eq!(first, Ok(vec![1; 3]));
        assert_eq!(second, first);
        let mode = fs::metadata(dir.path().join(PENDING_KEY))
            .expect("exists")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(matches!(load(dir.path()), Err(IdentityError::None(_))));
    }
}
