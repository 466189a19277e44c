//! The only thing agents touch: MQTT 3.1.1 on connections whose TLS `listen` has ended.
//!
//! A connection claims one cluster by its client id and is *unproven* (30 s, 4 KiB, a limited number of them)
//! until the courier sends the first frame on a channel whose exchange it carried. It may read only its own
//! `d` and write only its own `u`. The gateway knows nothing of keys or sets: it looks at the clear head of an
//! envelope to find the connection, and reaches the rest of the hub only through the bus.

mod connect;
mod outbox;
mod quota;
mod registry;
mod session;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rumqttc::ConnectReturnCode;
use shared::ids::{ClusterName, Epoch};
use shared::{topics, wire};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::timeout;

pub use outbox::CloseReason;
pub(crate) use registry::oldest_of_busiest;

use crate::bus::{Bus, BusError, Delivery, Subscription};
use crate::limits;
use connect::Refusal;
use outbox::Outbox;
use registry::{ConnectionId, Registry, Route};
use session::Session;

/// The live session of a cluster ended and no newer one took over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionEnded {
    /// Whose.
    pub cluster: ClusterName,
    /// The channels its connection carried: a newer one may be starting elsewhere.
    pub epochs: Vec<Epoch>,
}

/// Handle of the gateway.
#[derive(Debug, Clone)]
pub struct Gateway {
    shared: Arc<Shared>,
}

/// How long the gateway waits for an agent. Tests shorten it.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For CONNECT, and for writing the answer to it.
    pub connect: Duration,
    /// For the exchange.
    pub unproven: Duration,
    /// For progress of a write.
    pub write: Duration,
    /// For a PUBACK while the window is full.
    pub puback: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: limits::CONNECT_TIMEOUT,
            unproven: limits::UNPROVEN_TIMEOUT,
            write: limits::WRITE_TIMEOUT,
            puback: limits::PUBACK_TIMEOUT,
        }
    }
}

/// What all sessions share.
struct Shared {
    patience: Patience,
    registry: Mutex<Registry>,
    bus: Arc<dyn Bus>,
    ended: mpsc::Sender<SessionEnded>,
    counters: Counters,
}

/// What was dropped, and why. Nothing here is an error of the hub.
#[derive(Debug, Default)]
struct Counters {
    not_an_envelope: AtomicU64,
    no_connection: AtomicU64,
    queue_full: AtomicU64,
}

/// A copy of the gateway's counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Connections that are proven.
    pub proven: usize,
    /// Connections that are not.
    pub unproven: usize,
    /// Payloads from agents that are no envelope of ours.
    pub not_an_envelope: u64,
    /// Messages to an agent for which there is no connection.
    pub no_connection: u64,
    /// Messages to an agent that reads too slowly.
    pub queue_full: u64,
}

impl Gateway {
    /// A gateway on this bus, and the ends of its sessions.
    #[must_use]
    pub fn new(bus: Arc<dyn Bus>, patience: Patience) -> (Self, mpsc::Receiver<SessionEnded>) {
        let (ended, ends) = mpsc::channel(limits::SESSION_EVENTS);
        let (registry, counters) = (Mutex::default(), Counters::default());
        let shared = Shared {
            patience,
            registry,
            bus,
            ended,
            counters,
        };
        (
            Self {
                shared: Arc::new(shared),
            },
            ends,
        )
    }

    /// Serves one agent's connection to its end.
    pub async fn serve<S>(&self, stream: S, peer: SocketAddr) -> CloseReason
    where
        S: AsyncRead + AsyncWrite + Send,
    {
        let outbox = Arc::new(Outbox::default());
        let (id, displaced) = self.shared.registry().admit(peer.ip(), outbox.clone());
        close(displaced, CloseReason::HalfOpenLimit);
        let member = Membership {
            shared: &self.shared,
            id,
        };
        let end = self.run(stream, &outbox, id).await;
        drop(member);
        tracing::debug!(%peer, reason = ?end, "agent connection ended");
        end
    }

    async fn run<S>(&self, stream: S, outbox: &Outbox, id: ConnectionId) -> CloseReason
    where
        S: AsyncRead + AsyncWrite + Send,
    {
        let mut stream = std::pin::pin!(stream);
        let patience = self.shared.patience;
        let mut buffer = BytesMut::new();
        let first = tokio::select! {
            first = timeout(patience.connect, connect::read(&mut stream, &mut buffer)) => first,
            reason = outbox.closed() => return reason,
        };
        let claim = match first {
            Err(_elapsed) => return CloseReason::Protocol("no CONNECT in time"),
            Ok(Err(Refusal::Gone)) => return CloseReason::PeerGone,
            Ok(Err(Refusal::Silent(why))) => return CloseReason::Protocol(why),
            Ok(Err(Refusal::Code(code, why))) => {
                drop(timeout(patience.connect, connect::answer(&mut stream, code)).await);
                return CloseReason::Protocol(why);
            }
            Ok(Ok(claim)) => claim,
        };
        close(
            self.shared.registry().claim(id, &claim.cluster),
            CloseReason::HalfOpenLimit,
        );
        let answer = connect::answer(&mut stream, ConnectReturnCode::Success);
        if !matches!(timeout(patience.connect, answer).await, Ok(Ok(()))) {
            return CloseReason::PeerGone;
        }
        let mut session = Session::new(&self.shared, outbox, id, &claim.cluster);
        session.keepalive = Duration::from_secs(u64::from(claim.keepalive_seconds));
        let (reader, mut writer) = tokio::io::split(stream);
        let end = tokio::select! {
            end = session.read(reader, buffer, claim.bytes) => end,
            end = session.write(&mut writer) => end,
            end = outbox.closed() => end,
        };
        // MQTT 3.1.1 has no DISCONNECT from the server: an orderly end is the end of the TLS session.
        drop(timeout(Duration::from_secs(2), writer.shutdown()).await);
        end
    }

    /// Hands every message of the bus to the connection that carries its channel, until the bus ends.
    pub async fn route(&self, mut down: Subscription) -> BusError {
        loop {
            match down.next().await {
                Ok(delivery) => self.deliver(delivery),
                Err(error) => return error,
            }
        }
    }

    fn deliver(&self, delivery: Delivery) {
        // The credit returns at the end of this function: from here the session's own bounds hold.
        let Delivery {
            topic,
            payload,
            credit: _credit,
        } = delivery;
        let Some((cluster, topics::Direction::Down)) = topics::parse(&topic) else {
            tracing::error!(topic, "a message to an agent has a wrong topic");
            return;
        };
        let route = if let Some(epoch) = wire::peek_epoch(&payload) {
            self.shared.registry().route_frame(&cluster, epoch)
        } else if let Some(exchange) = wire::peek_exchange(&payload) {
            self.shared.registry().route_exchange(&cluster, &exchange)
        } else {
            Route::Nowhere
        };
        let outbox = match route {
            Route::To(outbox) => outbox,
            Route::Proves(outbox, taken_over) => {
                outbox.prove();
                close(taken_over, CloseReason::TakenOver);
                outbox
            }
            Route::Nowhere => {
                self.shared.counters.no_connection.fetch_add(1, Ordering::Relaxed);
                return;
            }
        };
        if !outbox.push(payload) {
            self.shared.counters.queue_full.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Closes every connection that claims this cluster.
    pub fn disconnect(&self, cluster: &ClusterName, reason: CloseReason) {
        close(self.shared.registry().of_cluster(cluster), reason);
    }

    /// Closes all connections.
    pub fn close_all(&self, reason: CloseReason) {
        close(self.shared.registry().all(), reason);
    }

    /// How many connections there are and what was dropped.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let (proven, unproven) = self.shared.registry().counts();
        let counters = &self.shared.counters;
        Counts {
            proven,
            unproven,
            not_an_envelope: counters.not_an_envelope.load(Ordering::Relaxed),
            no_connection: counters.no_connection.load(Ordering::Relaxed),
            queue_full: counters.queue_full.load(Ordering::Relaxed),
        }
    }
}

impl Shared {
    fn registry(&self) -> MutexGuard<'_, Registry> {
        // The registry's methods keep it whole at every step that can panic, which is none.
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what the envelope says about this connection; `false` if it is no envelope of ours.
    fn notes_up(&self, id: ConnectionId, payload: &Bytes) -> bool {
        if let Some(epoch) = wire::peek_epoch(payload) {
            self.registry().speaks(id, epoch);
        } else if let Some(exchange) = wire::peek_exchange(payload) {
            self.registry().starts(id, exchange);
        } else {
            self.counters.not_an_envelope.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        true
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway")
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

/// Takes the connection out of the registry however its task ends.
struct Membership<'a> {
    shared: &'a Shared,
    id: ConnectionId,
}

impl Drop for Membership<'_> {
    fn drop(&mut self) {
        let ended = self.shared.registry().remove(self.id);
        if let Some((cluster, epochs)) = ended {
            // When the courier is that far behind, missed beats will tell it.
            drop(self.shared.ended.try_send(SessionEnded { cluster, epochs }));
        }
    }
}

fn close(outboxes: impl IntoIterator<Item = Arc<Outbox>>, reason: CloseReason) {
    for outbox in outboxes {
        outbox.close(reason);
    }
}
