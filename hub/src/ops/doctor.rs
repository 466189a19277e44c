//! `pinnace-hub doctor`: is what the hub holds whole, and do its parts fit.

use std::path::Path;

use shared::time::UnixSeconds;

use super::OpsError;
use crate::keys::Keys;
use crate::store::{Finding, Store};

/// What was looked at, and what is wrong.
#[derive(Debug)]
pub struct Diagnosis {
    /// Objects that could be read.
    pub objects: usize,
    /// What is wrong; empty if nothing is.
    pub findings: Vec<Finding>,
}

/// Looks through a hub that is not serving. Blocks.
///
/// # Errors
/// There is no hub, or it is in use: nothing was looked at.
pub fn doctor(data: &Path, now: UnixSeconds) -> Result<Diagnosis, OpsError> {
    let store = Store::open(data, now)?;
    let mut findings = store.check()?;
    match Keys::load(data, store.fleet()) {
        Ok(keys) => {
            for checked in [keys.authority().map(drop), keys.leaf(now).map(drop)] {
                if let Err(error) = checked {
                    findings.push(key_finding(&error));
                }
            }
        }
        Err(error) => findings.push(key_finding(&error)),
    }
    let objects = store
        .resources()
        .iter()
        .map(|resource| store.list(resource, None).items.len())
        .sum();
    Ok(Diagnosis { objects, findings })
}

fn key_finding(error: &crate::keys::KeysError) -> Finding {
    Finding {
        what: "keys".to_owned(),
        cause: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

    #[tokio::test]
    async fn a_new_hub_is_well_and_a_lost_key_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("hub");
        crate::init::init(&data, &[], "127.0.0.1:0".parse().unwrap(), NOW)
            .await
            .unwrap();
        assert_eq!(doctor(&data, NOW).unwrap().findings, []);
        let store = loop {
            // The last look ends on a thread of its own.
            match Store::open(&data, NOW) {
                Ok(store) => break store,
                Err(_in_use) => tokio::task::yield_now().await,
            }
        };
        assert!(matches!(doctor(&data, NOW), Err(OpsError::Store(_))), "in use");
        store.close().await;
        std::fs::write(data.join("api-ca.pem"), "x").unwrap();
        let found = loop {
            match doctor(&data, NOW) {
                Ok(found) => break found,
                Err(_in_use) => tokio::task::yield_now().await,
            }
        };
        assert_eq!(found.findings.len(), 1);
        assert!(
            found.findings[0].cause.contains("api-ca.pem"),
            "{:?}",
            found.findings
        );
    }
}
