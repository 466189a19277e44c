//! A client for the member's API, from a kubeconfig or from the pod's service account.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util_client::client::legacy::connect::HttpConnector;
use hyper_util_client::rt::TokioExecutor;
use kube::client::ConfigExt;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use rustls::ClientConfig;
use tower::{BoxError, ServiceBuilder};

use super::api::Api;
use super::dates::{Authorities, Confirmed, TwoTimes, given};
use crate::limits::{CONNECT_MEMBER, WATCH_SILENCE};

/// Connects lazily: no request is made here.
///
/// # Errors
/// When the kubeconfig is unreadable or names no usable context, or, without one, when this is no pod.
pub async fn connect(kubeconfig: Option<&Path>, confirmed: &Confirmed) -> Result<Api> {
    let config = match kubeconfig {
        Some(path) => {
            let file =
                Kubeconfig::read_from(path).with_context(|| format!("kubeconfig {}", path.display()))?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .with_context(|| format!("kubeconfig {}", path.display()))?
        }
        None => Config::incluster().context("no --kubeconfig, and not in a pod with a service account")?,
    };
    if let Some(proxy) = &config.proxy_url {
        bail!("the kubeconfig names the proxy {proxy}; the agent reaches its own API without one");
    }
    let client = client(&config, tls(&config, confirmed)?).context("the member's API cannot be used")?;
    Ok(Api::new(client))
}

/// TLS as the kubeconfig says, with certificate dates checked at two times (see [`super::dates`]). Without authorities
/// in the kubeconfig the system's decide, at the machine's clock alone.
fn tls(config: &Config, confirmed: &Confirmed) -> Result<ClientConfig> {
    let mut tls = config
        .rustls_client_config()
        .context("TLS towards the member's API")?;
    if config.accept_invalid_certs {
        return Ok(tls);
    }
    let provider = tls.crypto_provider().clone();
    let authorities = match (&config.root_cert_file, &config.root_cert) {
        (Some(path), _) => Authorities::File(path.clone()),
        (None, Some(certificates)) => given(certificates, &provider)?,
        (None, None) => return Ok(tls),
    };
    let verifier = TwoTimes::new(authorities, confirmed.clone(), provider);
    tls.dangerous().set_certificate_verifier(Arc::new(verifier));
    Ok(tls)
}

fn client(config: &Config, tls: ClientConfig) -> Result<Client> {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    let mut https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = name
            .clone()
            .try_into()
            .context("tls-server-name of the kubeconfig")?;
        https = https.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let mut connector = TimeoutConnector::new(https.enable_http1().wrap_connector(http));
    connector.set_connect_timeout(Some(CONNECT_MEMBER));
    connector.set_read_timeout(Some(WATCH_SILENCE));
    connector.set_write_timeout(Some(CONNECT_MEMBER));
    let requests = hyper_util_client::client::legacy::Builder::new(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(requests);
    Ok(Client::new(service, config.default_namespace.clone()))
}
