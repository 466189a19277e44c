//! A client for the member's API, from a kubeconfig or from the pod's service account.

use std::path::Path;

use anyhow::{Context, Result};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::api::Api;
use crate::limits::{CONNECT_MEMBER, WATCH_SILENCE};

/// Connects lazily: no request is made here.
///
/// # Errors
/// When the kubeconfig is unreadable or names no usable context, or, without one, when this is no pod.
pub async fn connect(kubeconfig: Option<&Path>) -> Result<Api> {
    let mut config = match kubeconfig {
        Some(path) => {
            let file =
                Kubeconfig::read_from(path).with_context(|| format!("kubeconfig {}", path.display()))?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .with_context(|| format!("kubeconfig {}", path.display()))?
        }
        None => Config::incluster().context("no --kubeconfig, and not in a pod with a service account")?,
    };
    config.connect_timeout = Some(CONNECT_MEMBER);
    config.read_timeout = Some(WATCH_SILENCE);
    config.write_timeout = Some(CONNECT_MEMBER);
    let client = Client::try_from(config).context("the member's API cannot be used")?;
    Ok(Api::new(client))
}
