//! Where requests go, and as whom.

use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::connection::Connection;

/// A server and the client certificate to show it.
#[derive(Clone)]
pub struct Target {
    connector: TlsConnector,
    address: String,
    name: ServerName<'static>,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Target {
    /// `https://HOST:PORT`, its CA, and the certificate and key of the client, in PEM.
    ///
    /// # Errors
    /// One of them is not what it should be.
    pub fn new(server: &str, ca: &[u8], certificate: &[u8], key: &[u8]) -> Result<Target> {
        let address = server
            .strip_prefix("https://")
            .context("the server is not https")?;
        let address = address.trim_end_matches('/').to_owned();
        let host = address
            .rsplit_once(':')
            .context("the server has no port")?
            .0
            .to_owned();
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(ca) {
            roots.add(root?)?;
        }
        let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(key)?;
        let mut tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)?;
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Target {
            connector: TlsConnector::from(Arc::new(tls)),
            address,
            name: ServerName::try_from(host)?,
        })
    }

    /// `HOST:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// A new connection.
    ///
    /// # Errors
    /// Nobody listens, or TLS fails.
    pub async fn connect(&self) -> Result<Connection> {
        let tcp = TcpStream::connect(&self.address).await?;
        tcp.set_nodelay(true)?;
        let stream = self.connector.connect(self.name.clone(), tcp).await?;
        Ok(Connection::new(stream))
    }
}
