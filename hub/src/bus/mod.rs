//! The bus between courier and gateway: bytes under a topic, at least once while both are up, in any order.
//!
//! It is not a database: what it forgets, duplicates or delays is made good by the two ends. It has
//! *credit* in bytes in both directions: [`Bus::publish`] waits until what was published and not yet taken
//! fits, so nothing in the middle has to drop. A consumer takes a message by dropping its [`Delivery`].

mod credit;
mod router;

use bytes::Bytes;
use futures::future::BoxFuture;
use shared::topics::Direction;
use tokio::sync::mpsc;

pub use credit::Credit;
pub use router::{RouterBus, RouterEnd};

/// Why the bus did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// The middle of the bus is gone; the process must end.
    #[error("the bus has ended")]
    Ended,
    /// The payload is larger than the bus carries.
    #[error("a payload of {bytes} bytes is larger than the {limit} the bus carries")]
    TooLarge {
        /// Size of the payload.
        bytes: usize,
        /// Largest payload.
        limit: usize,
    },
    /// Somebody already consumes this direction; a second consumer would break the credit.
    #[error("{0:?} is already consumed")]
    AlreadySubscribed(Direction),
    /// The transport below refused.
    #[error("the router refused: {0}")]
    Router(String),
}

/// One message, holding its part of the credit until it is dropped.
#[derive(Debug)]
pub struct Delivery {
    /// Full topic, `pinnace/1/<cluster>/<u or d>`.
    pub topic: String,
    /// The envelope.
    pub payload: Bytes,
    /// Returned to the publisher's side on drop.
    pub credit: Credit,
}

/// The stream of one direction.
#[derive(Debug)]
pub struct Subscription {
    deliveries: mpsc::Receiver<Delivery>,
}

impl Subscription {
    /// Waits for the next message. [`BusError::Ended`] when there will be none.
    pub async fn next(&mut self) -> Result<Delivery, BusError> {
        self.deliveries.recv().await.ok_or(BusError::Ended)
    }
}

/// Carries envelopes between courier and gateway.
pub trait Bus: Send + Sync + 'static {
    /// Publishes one message; waits while the direction's credit is used up.
    fn publish<'a>(
        &'a self,
        direction: Direction,
        topic: &'a str,
        payload: Bytes,
    ) -> BoxFuture<'a, Result<(), BusError>>;

    /// Starts consuming one direction, over all clusters. Once per direction.
    fn subscribe(&self, direction: Direction) -> Result<Subscription, BusError>;
}
