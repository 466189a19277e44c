//! Reading and writing the small files of the data directory: whole, 0600, durable.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::KeysError;

/// No key file of ours is larger.
const FILE_BYTES: u64 = 64 * 1024;

/// Writes a file that must not exist yet.
pub(crate) fn create(path: &Path, content: &[u8]) -> Result<(), KeysError> {
    let opened = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    let mut file = opened.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => KeysError::Exists {
            path: path.to_owned(),
        },
        _ => failed("create", path, &error),
    })?;
    write(&mut file, path, content)?;
    sync_parent(path)
}

/// Writes a file by renaming a finished one over it: a reader sees the old or the new content.
pub(crate) fn replace(path: &Path, content: &[u8]) -> Result<(), KeysError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let temporary = path.with_file_name(name);
    let opened = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary);
    let mut file = opened.map_err(|error| failed("create", &temporary, &error))?;
    write(&mut file, &temporary, content)?;
    fs::rename(&temporary, path).map_err(|error| failed("replace", path, &error))?;
    sync_parent(path)
}

/// Reads a whole file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, KeysError> {
    let file = File::open(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => KeysError::Missing {
            path: path.to_owned(),
        },
        _ => failed("open", path, &error),
    })?;
    let mut content = Vec::new();
    file.take(FILE_BYTES + 1)
        .read_to_end(&mut content)
        .map_err(|error| failed("read", path, &error))?;
    if content.len() as u64 > FILE_BYTES {
        return Err(KeysError::Corrupt {
            path: path.to_owned(),
            cause: "larger than 64 KiB".to_owned(),
        });
    }
    Ok(content)
}

/// Reads a whole file as text.
pub(crate) fn read_text(path: &Path) -> Result<String, KeysError> {
    String::from_utf8(read(path)?).map_err(|_| KeysError::Corrupt {
        path: path.to_owned(),
        cause: "not UTF-8".to_owned(),
    })
}

fn write(file: &mut File, path: &Path, content: &[u8]) -> Result<(), KeysError> {
    file.write_all(content)
        .and_then(|()| file.sync_all())
        .map_err(|error| failed("write", path, &error))
}

fn sync_parent(path: &Path) -> Result<(), KeysError> {
    // The parent of a bare name is empty: the folder one is in.
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    let parent = parent.map_or_else(|| PathBuf::from("."), Path::to_owned);
    File::open(&parent)
        .and_then(|dir| dir.sync_all())
        .map_err(|error| failed("sync", &parent, &error))
}

fn failed(verb: &'static str, path: &Path, error: &std::io::Error) -> KeysError {
    KeysError::File {
        verb,
        path: path.to_owned(),
        cause: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn files_are_private_whole_and_not_overwritten_by_create() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.key");
        assert!(matches!(read(&path), Err(KeysError::Missing { .. })));
        create(&path, b"one").unwrap();
        assert!(matches!(create(&path, b"two"), Err(KeysError::Exists { .. })));
        assert_eq!(read_text(&path).unwrap(), "one");
        replace(&path, b"three").unwrap();
        assert_eq!(read_text(&path).unwrap(), "three");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            1,
            "no temporary file stays"
        );
    }
}
