//! The hub's API as the command line needs it.

use std::path::Path;

use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Paths of our own group.
const FLEET: &str = "/apis/fleet.pinnace.dev/v1alpha1";

/// Path of Cluster objects.
const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";

/// A connection to the hub of a kubeconfig.
pub(super) struct Hub {
    client: Client,
    /// The server's address, for messages.
    server: String,
}

impl Hub {
    /// Reads the kubeconfig.
    pub(super) async fn open(file: Option<&Path>) -> anyhow::Result<Self> {
        let config = match file {
            Some(path) => {
                let read = Kubeconfig::read_from(path);
                let kubeconfig = read.with_context(|| format!("kubeconfig {}", path.display()))?;
                Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await
            }
            None => Config::from_kubeconfig(&KubeConfigOptions::default()).await,
        };
        let config = config.context("no usable kubeconfig (give --kubeconfig FILE or set KUBECONFIG)")?;
        Ok(Self {
            server: config.cluster_url.to_string(),
            client: Client::try_from(config).context("kubeconfig")?,
        })
    }

    /// Namespace of the kubeconfig's context.
    pub(super) fn namespace(&self) -> &str {
        self.client.default_namespace()
    }

    /// GET in our group.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let request = http::Request::get(format!("{FLEET}/{path}")).body(Vec::new())?;
        self.client
            .request(request)
            .await
            .map_err(|error| one_line(error, &self.server))
    }

    /// POST in our group.
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> anyhow::Result<T> {
        let request = http::Request::post(format!("{FLEET}/{path}"))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(serde_json::to_vec(body)?)?;
        self.client
            .request(request)
            .await
            .map_err(|error| one_line(error, &self.server))
    }

    /// One Cluster object.
    pub(super) async fn cluster(&self, name: &str) -> anyhow::Result<Value> {
        let request = http::Request::get(format!("{CLUSTERS}/{name}")).body(Vec::new())?;
        self.client
            .request(request)
            .await
            .map_err(|error| one_line(error, &self.server))
    }

    /// Changes a Cluster object by a merge patch.
    pub(super) async fn patch_cluster(&self, name: &str, patch: &Value) -> anyhow::Result<Value> {
        let request = http::Request::patch(format!("{CLUSTERS}/{name}"))
            .header(http::header::CONTENT_TYPE, "application/merge-patch+json")
            .body(serde_json::to_vec(patch)?)?;
        self.client
            .request(request)
            .await
            .map_err(|error| one_line(error, &self.server))
    }

    /// Every Cluster object.
    pub(super) async fn clusters(&self) -> anyhow::Result<Vec<Value>> {
        let request = http::Request::get(CLUSTERS).body(Vec::new())?;
        let list: Value = self
            .client
            .request(request)
            .await
            .map_err(|error| one_line(error, &self.server))?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }
}

/// The hub's own words, or what kept it from answering.
fn one_line(error: kube::Error, server: &str) -> anyhow::Error {
    match error {
        // A hub answers every path of its groups with a Status; this server does not know the group.
        kube::Error::Api(status) if status.code == 404 && status.message.contains("page not found") => {
            anyhow::anyhow!(
                "{server} is no Pinnace hub: this kubeconfig is that of a cluster; give --kubeconfig with the one of the hub, \
                 such as DIR/admin.kubeconfig"
            )
        }
        kube::Error::Api(status) => anyhow::anyhow!("{} ({})", status.message, status.reason),
        other => {
            // The outer errors only say "client error"; the cause is at the end of the chain.
            let mut cause: &dyn std::error::Error = &other;
            while let Some(source) = cause.source() {
                cause = source;
            }
            anyhow::anyhow!("the hub did not answer: {cause}")
        }
    }
}
