//! What every part of the courier works with.

use std::sync::{Arc, Mutex, PoisonError};

use hub_core::ship::{Desk, Encodings, Shelf, Ship};
use ring::rand::{SecureRandom, SystemRandom};
use shared::ids::{ClusterName, Digest};
use shared::keys::HubKeys;
use shared::topics::{Direction, topic};

use crate::bus::{Bus, BusError};
use crate::clock;
use crate::gateway::Gateway;
use crate::reconcile::Presence;
use crate::store::Store;

/// Shared by the dispatcher and every cluster's task.
pub(super) struct Office {
    pub(super) store: Store,
    pub(super) keys: Arc<HubKeys>,
    pub(super) bus: Arc<dyn Bus>,
    pub(super) gateway: Gateway,
    pub(super) presence: Arc<Presence>,
    pub(super) random: SystemRandom,
    encodings: Mutex<Encodings>,
}

impl Office {
    pub(super) fn new(
        store: Store,
        keys: Arc<HubKeys>,
        bus: Arc<dyn Bus>,
        gateway: Gateway,
        presence: Arc<Presence>,
    ) -> Self {
        let (random, encodings) = (SystemRandom::new(), Mutex::default());
        Self {
            store,
            keys,
            bus,
            gateway,
            presence,
            random,
            encodings,
        }
    }

    /// Lends a ship what it decides with. No await happens while the encodings are locked.
    pub(super) fn with_desk(&self, ship: &mut Ship, decide: impl FnOnce(&mut Ship, &mut Desk<'_>)) {
        let shelf = StoreShelf(&self.store);
        // A panic inside an encoder leaves at worst a missing entry.
        let mut encodings = self.encodings.lock().unwrap_or_else(PoisonError::into_inner);
        let mut random = || {
            let mut bytes = [0; 8];
            // Only jitter depends on it: without randomness everybody waits the same time.
            let _only_jitter = self.random.fill(&mut bytes);
            u64::from_ne_bytes(bytes)
        };
        let mut desk = Desk {
            keys: &self.keys,
            shelf: &shelf,
            encodings: &mut encodings,
            random: &mut random,
            time: clock::wall(),
        };
        decide(ship, &mut desk);
    }

    /// Publishes a payload for a cluster; waits for the bus's credit.
    pub(super) async fn publish(&self, cluster: &ClusterName, payload: Vec<u8>) -> Result<(), BusError> {
        self.bus
            .publish(Direction::Down, &topic(cluster, Direction::Down), payload.into())
            .await
    }
}

/// Contents from the store.
struct StoreShelf<'a>(&'a Store);

impl Shelf for StoreShelf<'_> {
    fn content(&self, digest: &Digest) -> Option<Arc<[u8]>> {
        match self.0.content(digest) {
            Ok(content) => content.map(|bytes| Arc::from(&*bytes)),
            Err(error) => {
                // The agent asks again; `doctor` finds a content that never comes.
                tracing::error!(%digest, %error, "a content cannot be read");
                None
            }
        }
    }
}
