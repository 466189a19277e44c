//! The connection to the hub: MQTT 3.1.1 over TLS, QoS 1, clean sessions. The only file that knows MQTT.
//!
//! Every connection gets a fresh client: the library keeps state that a lost session spoils, and nothing here
//! relies on it (what must arrive is repeated by the conversation above). The server's certificate is not
//! checked unless a CA is given: the exchange proves the hub, and nothing secret precedes it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent_core::pace::backoff;
use rumqttc::{
    AsyncClient, ConnectionError, Event, EventLoop, MqttOptions, NetworkOptions, Packet, Proxy, ProxyAuth,
    ProxyType, QoS, TlsConfiguration, Transport,
};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use shared::ids::ClusterName;
use shared::limits::{KEEPALIVE_S, PACKET_BYTES_MAX};
use shared::time::Millis;
use shared::topics::{Direction, topic};
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::limits::{CONNECT_CEILING, CONNECT_FIRST, CONNECT_TIMEOUT, LINK_INFLIGHT, LINK_QUEUE};
use crate::random::Random;

/// How the hub is reached.
#[derive(Debug, Clone)]
pub struct Route {
    /// `HOST:PORT`.
    pub hub: String,
    /// PEM file with the only CAs that may sign the hub's certificate; none: any certificate.
    pub tls_ca: Option<PathBuf>,
    /// `HOST:PORT` of an HTTP proxy that allows CONNECT, with optional `USER:PASSWORD@` before it.
    pub proxy: Option<String>,
}

/// What the connection tells.
#[derive(Debug)]
pub enum LinkEvent {
    /// Connected and subscribed.
    Connected,
    /// The connection is gone, or could not be made, for this reason.
    Disconnected(String),
    /// A payload from the hub.
    Payload(Vec<u8>),
}

/// What the connection is told.
#[derive(Debug)]
pub enum LinkCommand {
    /// Publish a payload.
    Send(Vec<u8>),
    /// Drop the connection and make another after a pause.
    Reconnect,
    /// Drop the connection and make no other.
    Stop,
}

/// Why a route cannot be used at all.
#[derive(Debug, Error)]
pub enum RouteError {
    /// The address.
    #[error("{0:?} is no HOST:PORT")]
    Address(String),
    /// The CA file.
    #[error("{path}: no usable CA certificates: {cause}")]
    Ca {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: String,
    },
    /// TLS.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
}

/// How a connection ended.
enum Ended {
    /// It broke or was refused; another follows.
    Because(String),
    /// Nobody listens any more.
    Unheard,
    /// No other is wanted.
    Stopped,
}

/// The connection, ready to run.
pub struct Link {
    options: MqttOptions,
    topic_up: String,
    topic_down: String,
    random: Random,
}

impl Link {
    /// Checks the route.
    ///
    /// # Errors
    /// [`RouteError`].
    pub fn new(route: &Route, cluster: &ClusterName, random: Random) -> Result<Self, RouteError> {
        let (host, port) = split_address(&route.hub)?;
        let mut options = MqttOptions::new(cluster.as_str(), host, port);
        options.set_keep_alive(Duration::from_secs(u64::from(KEEPALIVE_S)));
        options.set_clean_session(true);
        options.set_max_packet_size(PACKET_BYTES_MAX, PACKET_BYTES_MAX);
        options.set_inflight(LINK_INFLIGHT);
        let tls = Arc::new(tls_config(route.tls_ca.as_deref())?);
        options.set_transport(Transport::tls_with_config(TlsConfiguration::Rustls(tls)));
        if let Some(proxy) = &route.proxy {
            options.set_proxy(parse_proxy(proxy)?);
        }
        Ok(Self {
            options,
            topic_up: topic(cluster, Direction::Up),
            topic_down: topic(cluster, Direction::Down),
            random,
        })
    }

    /// Connects again and again, for ever; ends when the other end of a channel is dropped.
    pub async fn run(self, events: mpsc::Sender<LinkEvent>, mut commands: mpsc::Receiver<LinkCommand>) {
        let mut failures = 0_u32;
        loop {
            // What was said to the last connection means nothing to the next.
            while commands.try_recv().is_ok() {}
            let (ended, was_up) = self.connection(&events, &mut commands).await;
            let why = match ended {
                Ended::Because(why) => why,
                Ended::Unheard => return,
                Ended::Stopped => return std::future::pending().await,
            };
            failures = if was_up { 1 } else { failures.saturating_add(1) };
            if events.send(LinkEvent::Disconnected(why)).await.is_err() {
                return;
            }
            let first = Millis(CONNECT_FIRST.as_millis() as u64);
            let ceiling = Millis(CONNECT_CEILING.as_millis() as u64);
            sleep(Duration::from_millis(
                backoff(failures, first, ceiling, self.random.number()).0,
            ))
            .await;
        }
    }

    /// One connection to its end: why it ended and whether it was ever up.
    async fn connection(
        &self,
        events: &mpsc::Sender<LinkEvent>,
        commands: &mut mpsc::Receiver<LinkCommand>,
    ) -> (Ended, bool) {
        let (client, mut eventloop) = AsyncClient::new(self.options.clone(), LINK_QUEUE);
        let mut network = NetworkOptions::new();
        network.set_tcp_nodelay(true);
        network.set_connection_timeout(CONNECT_TIMEOUT.as_secs());
        eventloop.set_network_options(network);
        let up = std::cell::Cell::new(false);
        // Neither future is dropped before the connection ends: the library's poll must not be cancelled while
        // it writes.
        let ended = tokio::select! {
            ended = self.incoming(&client, &mut eventloop, events, &up) => ended,
            ended = self.outgoing(&client, commands) => ended,
        };
        (ended, up.get())
    }

    async fn incoming(
        &self,
        client: &AsyncClient,
        eventloop: &mut EventLoop,
        events: &mpsc::Sender<LinkEvent>,
        up: &std::cell::Cell<bool>,
    ) -> Ended {
        loop {
            let event = match eventloop.poll().await {
                Ok(Event::Incoming(Packet::ConnAck(_))) => {
                    if let Err(e) = client.try_subscribe(&self.topic_down, QoS::AtLeastOnce) {
                        return Ended::Because(e.to_string());
                    }
                    continue;
                }
                Ok(Event::Incoming(Packet::SubAck(_))) => {
                    up.set(true);
                    LinkEvent::Connected
                }
                Ok(Event::Incoming(Packet::Publish(publish))) if publish.topic == self.topic_down => {
                    LinkEvent::Payload(publish.payload.to_vec())
                }
                Ok(Event::Incoming(Packet::Disconnect)) => {
                    return Ended::Because("the hub closed the session".to_owned());
                }
                Ok(_) => continue,
                Err(e) => return Ended::Because(explain(&e)),
            };
            if events.send(event).await.is_err() {
                return Ended::Unheard;
            }
        }
    }

    async fn outgoing(&self, client: &AsyncClient, commands: &mut mpsc::Receiver<LinkCommand>) -> Ended {
        loop {
            match commands.recv().await {
                None => return Ended::Unheard,
                Some(LinkCommand::Stop) => return Ended::Stopped,
                Some(LinkCommand::Reconnect) => return Ended::Because("connecting anew".to_owned()),
                Some(LinkCommand::Send(payload)) => {
                    if let Err(e) = client
                        .publish(&self.topic_up, QoS::AtLeastOnce, false, payload)
                        .await
                    {
                        return Ended::Because(e.to_string());
                    }
                }
            }
        }
    }
}

fn explain(error: &ConnectionError) -> String {
    match error {
        ConnectionError::NetworkTimeout => "the hub cannot be reached in time".to_owned(),
        other => other.to_string(),
    }
}

fn split_address(address: &str) -> Result<(&str, u16), RouteError> {
    let wrong = || RouteError::Address(address.to_owned());
    shared::join::check_address(address).map_err(|_| wrong())?;
    let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Ok((host, port.parse().map_err(|_| wrong())?))
}

fn parse_proxy(text: &str) -> Result<Proxy, RouteError> {
    let bare = text.trim_start_matches("http://").trim_end_matches('/');
    let (auth, address) = match bare.rsplit_once('@') {
        Some((login, address)) => {
            let (username, password) = login.split_once(':').unwrap_or((login, ""));
            (
                ProxyAuth::Basic {
                    username: username.to_owned(),
                    password: password.to_owned(),
                },
                address,
            )
        }
        None => (ProxyAuth::None, bare),
    };
    let (addr, port) = split_address(address)?;
    Ok(Proxy {
        ty: ProxyType::Http,
        auth,
        addr: addr.to_owned(),
        port,
    })
}

fn tls_config(ca: Option<&Path>) -> Result<ClientConfig, RouteError> {
    let provider = Arc::new(ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let mut config = match ca {
        Some(path) => {
            let failed = |cause: String| RouteError::Ca {
                path: path.to_owned(),
                cause,
            };
            let mut roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_file_iter(path).map_err(|e| failed(e.to_string()))? {
                roots
                    .add(certificate.map_err(|e| failed(e.to_string()))?)
                    .map_err(|e| failed(e.to_string()))?;
            }
            let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|e| failed(e.to_string()))?;
            builder.with_webpki_verifier(verifier)
        }
        None => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate { provider })),
    }
    .with_no_client_auth();
    config.alpn_protocols = vec![b"mqtt".to_vec()];
    Ok(config)
}

/// Takes any certificate: it only has to own its key.
#[derive(Debug)]
struct AnyCertificate {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signed,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signed,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_proxies() {
        assert_eq!(split_address("[::1]:443").expect("valid"), ("::1", 443));
        assert_eq!(
            split_address("hub.example:8443").expect("valid"),
            ("hub.example", 8443)
        );
        assert!(split_address("hub").is_err());
        let proxy = parse_proxy("http://ann:secret@proxy.example:3128/").expect("valid");
        assert_eq!((proxy.addr.as_str(), proxy.port), ("proxy.example", 3128));
        assert!(
            matches!(proxy.auth, ProxyAuth::Basic { username, password } if username == "ann" && password == "secret")
        );
    }

    #[test]
    fn speaks_mqtt_by_alpn() {
        let config = tls_config(None).expect("ring has what TLS needs");
        assert_eq!(config.alpn_protocols, vec![b"mqtt".to_vec()]);
        assert!(tls_config(Some(Path::new("/nonexistent"))).is_err());
    }
}
