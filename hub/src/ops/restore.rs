//! `pinnace-hub restore`: a hub from a backup and its exported keys.

use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use shared::time::UnixSeconds;

use super::{OpsError, key_file};
use crate::keys::{Keys, create_file};
use crate::store::Store;

/// Makes a hub in a new directory from a backup and the file of its keys, and opens it once to see that they fit.
///
/// # Errors
/// A file is not what it should be, they do not fit, or the directory is not empty. What was begun is removed.
pub async fn restore(
    backup: &Path,
    keys: &Path,
    passphrase: &str,
    data: &Path,
    now: UnixSeconds,
) -> Result<(), OpsError> {
    let files = key_file::open(&key_file::read(keys)?, passphrase)?;
    if !Store::is_backup(backup) {
        return Err(OpsError::NotABackup {
            path: backup.to_owned(),
            cause: "the mark that `pinnace-hub backup` leaves is missing".to_owned(),
        });
    }
    let existed = data.exists();
    if existed && std::fs::read_dir(data).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(OpsError::NotEmpty(data.to_owned()));
    }
    let made = fill(backup, &files, data, now).await;
    if made.is_err() {
        // Only what this call made lies there: the directory was empty.
        let removed = std::fs::remove_dir_all(data);
        if let Err(error) = removed {
            tracing::warn!(%error, directory = %data.display(), "the half-made hub stays");
        }
    }
    made
}

async fn fill(
    backup: &Path,
    files: &std::collections::BTreeMap<String, Vec<u8>>,
    data: &Path,
    now: UnixSeconds,
) -> Result<(), OpsError> {
    let failed = |verb, path: &Path| {
        let path = path.to_owned();
        move |cause| OpsError::File { verb, path, cause }
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(data)
        .map_err(failed("create", data))?;
    for (name, content) in files {
        create_file(&data.join(name), content)?;
    }
    let database = Store::database_file(data);
    let mut from = std::fs::File::open(backup).map_err(failed("open", backup))?;
    let mut to = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&database)
        .map_err(failed("create", &database))?;
    std::io::copy(&mut from, &mut to).map_err(failed("write", &database))?;
    to.sync_all().map_err(failed("write", &database))?;
    let store = Store::open(data, now)?;
    let loaded = Keys::load(data, store.fleet());
    store.close().await;
    loaded?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{backup, export};
    use super::*;
    use crate::store::{Expect, Op, ResourceId};
    use serde_json::json;

    const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

    #[tokio::test]
    async fn a_hub_comes_back_from_backup_and_keys_together() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        crate::init::init(&at("hub"), &[], "127.0.0.1:0".parse().unwrap(), NOW)
            .await
            .unwrap();
        let store = Store::open(&at("hub"), NOW).unwrap();
        let secrets = ResourceId::new("", "secrets");
        let op = Op::Put {
            resource: secrets.clone(),
            namespace: "d".into(),
            name: "s".into(),
            expect: Expect::Absent,
            object: json!({"metadata": {"name": "s"}, "data": {"a": "Yg=="}}),
        };
        store.commit(vec![op]).await.unwrap();
        // Both while the hub has the directory open.
        backup(&at("hub"), &at("copy")).unwrap();
        let passphrase = "correct horse";
        export(&at("hub"), &at("keys"), passphrase).unwrap();
        assert!(
            backup(&at("hub"), &at("copy")).is_err() && export(&at("hub"), &at("keys"), passphrase).is_err()
        );
        let (fleet, revision) = (store.fleet(), store.revision());
        store.close().await;

        restore(&at("copy"), &at("keys"), passphrase, &at("new"), NOW)
            .await
            .unwrap();
        let restored = Store::open(&at("new"), NOW).unwrap();
        assert_eq!(restored.fleet(), fleet);
        assert!(restored.revision() > revision);
        assert_eq!(
            restored.get(&secrets, "d", "s").unwrap().value()["data"]["a"],
            "Yg=="
        );
        restored.close().await;

        let again = restore(&at("copy"), &at("keys"), passphrase, &at("new"), NOW).await;
        assert!(matches!(again, Err(OpsError::NotEmpty(_))));
        let wrong = restore(&at("copy"), &at("keys"), "wrong passphrase", &at("x"), NOW).await;
        assert!(matches!(wrong, Err(OpsError::KeyFile(_))) && !at("x").exists());
        let other = restore(&at("keys"), &at("keys"), passphrase, &at("x"), NOW).await;
        assert!(matches!(other, Err(OpsError::NotABackup { .. })) && !at("x").exists());
        crate::init::init(&at("other"), &[], "127.0.0.1:0".parse().unwrap(), NOW)
            .await
            .unwrap();
        export(&at("other"), &at("foreign"), passphrase).unwrap();
        assert!(
            restore(&at("copy"), &at("foreign"), passphrase, &at("x"), NOW)
                .await
                .is_err()
        );
        assert!(!at("x").exists(), "nothing half-made stays");
    }
}
