//! Looks at the member from time to time: is it still the cluster that was enrolled, what does it have, what
//! does it serve.

use std::rc::Rc;

use serde::Deserialize;
use serde_json::Value;
use shared::reason::Reason;
use shared::wire::{ApiEnablement, Capacity, Room};
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep;

use super::api::Api;
use super::capacity::{Measured, enablements, is_material, measure};
use super::errors::ApiError;
use super::room::compact;
use crate::guard::Keeper;
use crate::limits::{APIS_EVERY_PROBES, PROBE_EVERY, WATCH_CEILING, WATCH_FIRST};

/// What a look found.
#[derive(Debug)]
pub enum Probe {
    /// The member answers and is this cluster.
    Identity {
        /// `metadata.uid` of `kube-system`.
        uid: String,
        /// `gitVersion`.
        version: String,
        /// What it says when it is not ready.
        unready: Option<String>,
    },
    /// It does not answer.
    Unreachable(ApiError),
    /// What it has; only material changes are sent.
    Capacity(Box<Capacity>),
    /// Where it has room; only changes of a whole step are sent.
    Room(Box<Room>),
}

#[derive(Deserialize)]
struct Version {
    #[serde(default, rename = "gitVersion")]
    git: String,
}

/// The uid of `kube-system`, by which a cluster is known, and the version of the API server.
///
/// # Errors
/// When the member does not answer.
pub async fn identity(api: &Api) -> Result<(String, String), ApiError> {
    let namespace: Value = api.document("/api/v1/namespaces/kube-system").await?;
    let uid = namespace
        .pointer("/metadata/uid")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if uid.is_empty() {
        return Err(ApiError::of_answer(
            http::StatusCode::NOT_FOUND,
            b"{\"message\": \"kube-system has no uid\"}",
        ));
    }
    Ok((uid, version(api).await?))
}

/// `gitVersion` of the API server.
///
/// # Errors
/// When the member does not answer.
pub async fn version(api: &Api) -> Result<String, ApiError> {
    let version: Version = api.document("/version").await?;
    Ok(version.git)
}

/// Whether a server of this version is a hub of ours and no cluster: it would manage itself.
#[must_use]
pub fn is_hub(version: &str) -> bool {
    version.ends_with("+pinnace")
}

/// What the member says of its own readiness; none: it is ready, or does not say.
async fn unready(api: &Api) -> Option<String> {
    match api.text("/readyz").await {
        Err(e) if e.status.is_some_and(|s| s >= 500) => Some(format!("its API is not ready: {}", e.message)),
        _ => None,
    }
}

/// Looks again and again until nobody listens; at once when `look` is notified.
pub async fn run(api: Api, guard: Rc<Keeper>, look: Rc<Notify>, events: mpsc::Sender<Probe>) {
    let mut told: Option<Capacity> = None;
    let mut told_room: Option<Room> = None;
    let mut apis: Vec<ApiEnablement> = Vec::new();
    let mut round = 0_u32;
    let mut pause = WATCH_FIRST;
    loop {
        let version = match identity(&api).await {
            Ok((uid, version)) => {
                if let Err(e) = guard.refresh(&api).await {
                    tracing::warn!(reason = %Reason::GuardRefused, "{e:#}");
                }
                let found = Probe::Identity {
                    uid,
                    version: version.clone(),
                    unready: unready(&api).await,
                };
                if events.send(found).await.is_err() {
                    return;
                }
                version
            }
            Err(e) => {
                if events.send(Probe::Unreachable(e)).await.is_err() {
                    return;
                }
                sleep(pause).await;
                pause = (pause * 2).min(WATCH_CEILING);
                continue;
            }
        };
        pause = WATCH_FIRST;
        if round.is_multiple_of(APIS_EVERY_PROBES) || apis.is_empty() {
            match enablements(&api).await {
                Ok(found) => apis = found,
                Err(e) => tracing::debug!(error = %e, "the served kinds could not be listed"),
            }
        }
        match measure(&api, &version).await {
            Ok(Measured { mut capacity, nodes }) => {
                capacity.apis.clone_from(&apis);
                if told.as_ref().is_none_or(|t| is_material(t, &capacity)) {
                    told = Some(capacity.clone());
                    if events.send(Probe::Capacity(Box::new(capacity))).await.is_err() {
                        return;
                    }
                }
                let room = compact(&nodes, &apis);
                if told_room.as_ref() != Some(&room) {
                    told_room = Some(room.clone());
                    if events.send(Probe::Room(Box::new(room))).await.is_err() {
                        return;
                    }
                }
            }
            Err(e) => tracing::debug!(error = %e, "the capacity could not be measured"),
        }
        round = round.wrapping_add(1);
        tokio::select! {
            () = sleep(PROBE_EVERY) => {}
            () = look.notified() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_hub;

    #[test]
    fn a_hub_is_told_from_a_cluster_by_its_version() {
        assert!(is_hub("v1.36.0+pinnace"));
        assert!(!is_hub("v1.36.0+k3s1") && !is_hub("v1.36.0"));
    }
}
