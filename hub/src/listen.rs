//! The one TLS port: `mqtt` by ALPN goes to the gateway, everything else to the API.
//!
//! Client certificates are optional and verified against the API CA; agents send none. A peer that says
//! nothing costs one place among a limited number of handshakes: over the limit the oldest handshake of the
//! busiest address goes.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use futures::future::BoxFuture;
use rustls::crypto::ring;
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use shared::time::UnixSeconds;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::gateway::{CloseReason, Gateway, oldest_of_busiest};
use crate::keys::{Keys, KeysError, certificate_der, fingerprint, key_der};
use crate::limits;

/// ALPN name of MQTT over TLS.
const ALPN_MQTT: &[u8] = b"mqtt";
/// Connections the kernel may queue before they are accepted.
const BACKLOG: u32 = 4_096;
/// What one TLS connection may hold unsent.
const TLS_BUFFER_BYTES: usize = 16 * 1024;
/// Requests in flight get this long at shutdown.
const DRAIN: Duration = Duration::from_secs(2);

/// Why the port cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address cannot be bound.
    #[error("cannot listen on {address}: {cause}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's words.
        cause: std::io::Error,
    },
    /// Certificates.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// TLS refused the certificates.
    #[error("TLS: {0}")]
    Tls(String),
}

/// What a verified client certificate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// `CN`.
    pub user: String,
    /// Every `O`.
    pub groups: Vec<String>,
    /// SHA-256 of it, in hex.
    pub fingerprint: String,
}

/// Serves one API connection to its end.
pub type ServeHttp = Arc<
    dyn Fn(TlsStream<TcpStream>, Option<ClientCertificate>, SocketAddr) -> BoxFuture<'static, ()>
        + Send
        + Sync,
>;

/// The bound port.
#[derive(Debug)]
pub struct Listener {
    tcp: TcpListener,
    tls: Arc<ServerConfig>,
    leaf: Arc<LeafSlot>,
}

impl Listener {
    /// Binds `address` with the hub's leaf.
    ///
    /// # Errors
    /// The address is taken or the certificates do not fit.
    pub fn bind(address: SocketAddr, keys: &Keys, now: UnixSeconds) -> Result<Self, ListenError> {
        let leaf = Arc::new(LeafSlot(RwLock::new(certified(keys, now)?)));
        let tls = Arc::new(server_config(keys, leaf.clone())?);
        let bind = |cause| ListenError::Bind { address, cause };
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()
        } else {
            TcpSocket::new_v6()
        }
        .map_err(bind)?;
        socket.set_reuseaddr(true).map_err(bind)?;
        socket.bind(address).map_err(bind)?;
        let tcp = socket.listen(BACKLOG).map_err(bind)?;
        Ok(Self { tcp, tls, leaf })
    }

    /// Where it listens; a port of 0 is now a real one.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// A handle to put a renewed leaf in place.
    #[must_use]
    pub fn leaf(&self) -> LeafHandle {
        LeafHandle(self.leaf.clone())
    }

    /// Accepts until `shutdown` turns true, then closes agents' connections and lets requests in flight end.
    pub async fn run(self, gateway: Gateway, http: ServeHttp, mut shutdown: watch::Receiver<bool>) {
        let acceptor = TlsAcceptor::from(self.tls);
        let lobby = Arc::new(Lobby::default());
        let places = Arc::new(Semaphore::new(limits::CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.tcp.accept() => accepted,
                Some(_ended) = connections.join_next() => continue,
                _ = shutdown.wait_for(|stop| *stop) => break,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(limits::ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Ok(place) = places.clone().try_acquire_owned() else {
                tracing::warn!(%peer, limit = limits::CONNECTIONS, "too many connections");
                continue;
            };
            let (acceptor, lobby) = (acceptor.clone(), lobby.clone());
            let (gateway, http) = (gateway.clone(), http.clone());
            connections.spawn(async move {
                if let Some((stream, certificate)) = handshake(&acceptor, &lobby, stream, peer).await {
                    if stream.get_ref().1.alpn_protocol() == Some(ALPN_MQTT) {
                        gateway.serve(stream, peer).await;
                    } else {
                        http(stream, certificate, peer).await;
                    }
                }
                drop(place);
            });
        }
        drop(self.tcp);
        gateway.close_all(CloseReason::Shutdown);
        let drained = async { while connections.join_next().await.is_some() {} };
        if timeout(DRAIN, drained).await.is_err() {
            connections.shutdown().await;
        }
    }
}

/// Ends TLS within the limits; `None` if the peer did not manage.
async fn handshake(
    acceptor: &TlsAcceptor,
    lobby: &Lobby,
    stream: TcpStream,
    peer: SocketAddr,
) -> Option<(TlsStream<TcpStream>, Option<ClientCertificate>)> {
    // Small messages in both directions: without it each waits for the other's delayed acknowledgement.
    stream.set_nodelay(true).ok()?;
    let place = lobby.enter(peer.ip());
    let accepting = acceptor.accept_with(stream, |connection| {
        connection.set_buffer_limit(Some(TLS_BUFFER_BYTES))
    });
    let accepted = tokio::select! {
        accepted = timeout(limits::HANDSHAKE_TIMEOUT, accepting) => accepted,
        () = place.displaced.notified() => return None,
    };
    match accepted {
        Ok(Ok(stream)) => {
            let certificate = stream
                .get_ref()
                .1
                .peer_certificates()
                .and_then(|chain| chain.first());
            let certificate = certificate.and_then(|der| client_certificate(der));
            Some((stream, certificate))
        }
        Ok(Err(error)) => {
            tracing::debug!(%peer, %error, "TLS handshake failed");
            None
        }
        Err(_elapsed) => {
            tracing::debug!(%peer, "TLS handshake took too long");
            None
        }
    }
}

/// Reads user and groups; the chain was verified during the handshake.
fn client_certificate(der: &[u8]) -> Option<ClientCertificate> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    let user = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    let groups = subject
        .iter_organization()
        .filter_map(|group| group.as_str().ok().map(str::to_owned))
        .collect();
    Some(ClientCertificate {
        user,
        groups,
        fingerprint: fingerprint(der),
    })
}

fn server_config(keys: &Keys, leaf: Arc<LeafSlot>) -> Result<ServerConfig, ListenError> {
    let tls = |error: &dyn std::fmt::Display| ListenError::Tls(error.to_string());
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots
        .add(certificate_der(keys.ca_pem())?)
        .map_err(|error| tls(&error))?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .allow_unauthenticated()
        .build()
        .map_err(|error| tls(&error))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| tls(&error))?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(leaf);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec(), ALPN_MQTT.to_vec()];
    // Stateless resumption: a session costs the hub no memory after it ended.
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    config.ticketer = ring::Ticketer::new().map_err(|error| tls(&error))?;
    config.send_tls13_tickets = 1;
    Ok(config)
}

fn certified(keys: &Keys, now: UnixSeconds) -> Result<Arc<CertifiedKey>, ListenError> {
    let (leaf, _renewed) = keys.leaf(now)?;
    let key = ring::sign::any_ecdsa_type(&key_der(leaf.key())?)
        .map_err(|error| ListenError::Tls(error.to_string()))?;
    Ok(Arc::new(CertifiedKey::new(
        vec![certificate_der(leaf.certificate())?],
        key,
    )))
}

/// Puts a renewed leaf in place.
#[derive(Debug, Clone)]
pub struct LeafHandle(Arc<LeafSlot>);

impl LeafHandle {
    /// Looks at the leaf's dates and names and, if due, makes and shows a new one.
    ///
    /// # Errors
    /// It cannot be made or written; the old one stays.
    pub fn refresh(&self, keys: &Keys, now: UnixSeconds) -> Result<(), ListenError> {
        let fresh = certified(keys, now)?;
        *self.0.0.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }
}

/// The leaf that handshakes show.
#[derive(Debug)]
struct LeafSlot(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for LeafSlot {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// Handshakes in progress.
#[derive(Debug, Default)]
struct Lobby {
    state: Mutex<LobbyState>,
}

#[derive(Debug, Default)]
struct LobbyState {
    last: u64,
    waiting: BTreeMap<u64, (IpAddr, Arc<Notify>)>,
}

/// One handshake's place; left on drop.
#[derive(Debug)]
struct Place<'a> {
    lobby: &'a Lobby,
    id: u64,
    displaced: Arc<Notify>,
}

impl Lobby {
    fn state(&self) -> MutexGuard<'_, LobbyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place; over a limit somebody else loses theirs.
    fn enter(&self, address: IpAddr) -> Place<'_> {
        let mut state = self.state();
        let of_address = state
            .waiting
            .values()
            .filter(|(other, _)| *other == address)
            .count();
        if of_address >= limits::HANDSHAKES_PER_ADDRESS {
            state.displace(|other| other == address);
        } else if state.waiting.len() >= limits::HANDSHAKES {
            state.displace(|_| true);
        }
        state.last += 1;
        let (id, displaced) = (state.last, Arc::new(Notify::new()));
        state.waiting.insert(id, (address, displaced.clone()));
        Place {
            lobby: self,
            id,
            displaced,
        }
    }
}

impl LobbyState {
    fn displace(&mut self, of: impl Fn(IpAddr) -> bool) {
        let candidates = self.waiting.iter().map(|(id, (address, _))| (*id, *address));
        let victim = oldest_of_busiest(candidates.filter(|(_, address)| of(*address)));
        if let Some((_, displaced)) = victim.and_then(|id| self.waiting.remove(&id)) {
            displaced.notify_one();
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.lobby.state().waiting.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn silent_peers_of_one_address_displace_each_other() {
        let lobby = Lobby::default();
        let honest = lobby.enter(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)));
        let silent: Vec<Place<'_>> = (0..3 * limits::HANDSHAKES_PER_ADDRESS)
            .map(|_| lobby.enter(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2))))
            .collect();
        let state = lobby.state();
        assert_eq!(state.waiting.len(), limits::HANDSHAKES_PER_ADDRESS + 1);
        assert!(state.waiting.contains_key(&honest.id));
        assert!(
            !state.waiting.contains_key(&silent[0].id),
            "the oldest went first"
        );
        drop(state);
        drop(silent);
        assert_eq!(lobby.state().waiting.len(), 1);
    }
}
