//! `pinnace-hub init`: a new hub in an empty directory.

use std::net::SocketAddr;
use std::path::Path;

use shared::time::UnixSeconds;

use crate::keys::{Keys, KeysError, Settings};
use crate::store::{Store, StoreError};

/// Why no hub was made.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// Keys and certificates.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Makes database, keys and `admin.kubeconfig`. Refuses a directory that holds a hub, or a part of one.
///
/// # Errors
/// [`InitError`]; nothing that existed is changed.
pub async fn init(
    dir: &Path,
    names: &[String],
    listen: SocketAddr,
    now: UnixSeconds,
) -> Result<(), InitError> {
    Keys::refuse_existing(dir)?;
    let settings = Settings::new(names.to_vec(), listen);
    settings.check()?;
    Store::create(dir)?;
    let store = Store::open(dir, now)?;
    let fleet = store.fleet();
    store.close().await;
    Keys::create(dir, fleet, &settings, now)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

    #[tokio::test]
    async fn a_second_init_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hub");
        let listen = "127.0.0.1:0".parse().unwrap();
        assert!(
            init(&path, &["not a name".to_owned()], listen, NOW)
                .await
                .is_err()
        );
        assert!(!path.exists(), "a refused flag leaves nothing behind");
        init(&path, &["hub.example.com".to_owned()], listen, NOW)
            .await
            .unwrap();
        let before = std::fs::read(path.join("admin.kubeconfig")).unwrap();
        assert!(matches!(
            init(&path, &[], listen, NOW).await,
            Err(InitError::Keys(KeysError::Exists { .. }))
        ));
        assert_eq!(std::fs::read(path.join("admin.kubeconfig")).unwrap(), before);
        let store = Store::open(&path, NOW).unwrap();
        assert_eq!(
            Keys::load(&path, store.fleet()).unwrap().settings().advertised(),
            "hub.example.com:0"
        );
        store.close().await;
    }
}
