//! Exchanges that are not finished, and channels on which nothing was said yet. All of it is claims: bounded,
//! short-lived, and never able to push out what is proven.
//!
//! Over the hub-wide limit the oldest of the busiest cluster goes. The gateway has limited what one source address
//! may hold before anything arrives here.

use std::collections::BTreeMap;

use shared::ids::{ClusterName, Epoch, ExchangeId, PublicKey};
use shared::seal::{Channel, HubExchange};
use shared::time::Millis;

use crate::limits;

/// A channel whose owner proved a key of which the hub does not know yet what it means: a join, a cluster that this
/// hub forgot, or one that was revoked.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) cluster: ClusterName,
    pub(super) channel: Channel,
    pub(super) identity: PublicKey,
}

/// What is pending, by the name under which its next message comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Exchange(ExchangeId),
    Channel(Epoch),
}

#[derive(Debug)]
enum Pending {
    Exchange(Box<HubExchange>),
    Arrival(Box<Arrival>),
}

#[derive(Debug)]
struct Item {
    pending: Pending,
    cluster: ClusterName,
    since: Millis,
    number: u64,
}

/// The table of what is pending.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    last: u64,
    items: BTreeMap<Key, Item>,
    per_cluster: BTreeMap<ClusterName, BTreeMap<u64, Key>>,
}

impl Exchanges {
    /// Whether this exchange is known already: its first message came twice.
    pub(super) fn knows(&self, id: &ExchangeId) -> bool {
        self.items.contains_key(&Key::Exchange(*id))
    }

    /// Keeps an exchange that was answered.
    pub(super) fn keep_exchange(&mut self, exchange: HubExchange, now: Millis) {
        let (key, cluster) = (Key::Exchange(exchange.id()), exchange.cluster().clone());
        self.keep(key, cluster, Pending::Exchange(Box::new(exchange)), now);
    }

    /// Takes an exchange out for its last message.
    pub(super) fn take_exchange(
        &mut self,
        cluster: &ClusterName,
        id: &ExchangeId,
    ) -> Option<Box<HubExchange>> {
        match self.take(cluster, Key::Exchange(*id))?.pending {
            Pending::Exchange(exchange) => Some(exchange),
            Pending::Arrival(_) => None,
        }
    }

    /// Keeps a channel that waits for its first message, or for a repetition of it.
    pub(super) fn keep_arrival(&mut self, arrival: Arrival, now: Millis) {
        let (key, cluster) = (Key::Channel(arrival.channel.epoch()), arrival.cluster.clone());
        self.keep(key, cluster, Pending::Arrival(Box::new(arrival)), now);
    }

    /// Takes a channel out for a message.
    pub(super) fn take_arrival(&mut self, cluster: &ClusterName, epoch: Epoch) -> Option<Box<Arrival>> {
        match self.take(cluster, Key::Channel(epoch))?.pending {
            Pending::Arrival(arrival) => Some(arrival),
            Pending::Exchange(_) => None,
        }
    }

    /// Forgets what did not go on in time.
    pub(super) fn expire(&mut self, now: Millis) {
        let late = |item: &Item| now.since(item.since) > limits::EXCHANGE_TIMEOUT_MS;
        let keys: Vec<Key> = self
            .items
            .iter()
            .filter(|(_, item)| late(item))
            .map(|(key, _)| *key)
            .collect();
        for key in keys {
            self.remove(key);
        }
    }

    fn keep(&mut self, key: Key, cluster: ClusterName, pending: Pending, now: Millis) {
        let of_cluster = self.per_cluster.get(&cluster).map_or(0, BTreeMap::len);
        if of_cluster >= limits::EXCHANGES_PER_CLUSTER {
            self.forget_oldest_of(&cluster);
        } else if self.items.len() >= limits::EXCHANGES {
            let busiest = self
                .per_cluster
                .iter()
                .max_by_key(|(_, keys)| keys.len())
                .map(|(name, _)| name.clone());
            if let Some(busiest) = busiest {
                self.forget_oldest_of(&busiest);
            }
        }
        self.last += 1;
        self.per_cluster
            .entry(cluster.clone())
            .or_default()
            .insert(self.last, key);
        self.items.insert(
            key,
            Item {
                pending,
                cluster,
                since: now,
                number: self.last,
            },
        );
    }

    fn take(&mut self, cluster: &ClusterName, key: Key) -> Option<Item> {
        if self.items.get(&key)?.cluster != *cluster {
            return None;
        }
        self.remove(key)
    }

    fn forget_oldest_of(&mut self, cluster: &ClusterName) {
        let oldest = self
            .per_cluster
            .get(cluster)
            .and_then(|keys| keys.values().next().copied());
        if let Some(key) = oldest {
            self.remove(key);
        }
    }

    fn remove(&mut self, key: Key) -> Option<Item> {
        let item = self.items.remove(&key)?;
        if let Some(keys) = self.per_cluster.get_mut(&item.cluster) {
            keys.remove(&item.number);
            if keys.is_empty() {
                self.per_cluster.remove(&item.cluster);
            }
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;
    use shared::ids::{FleetId, KeyNumber};
    use shared::keys::{HubKeys, KeyStatement, SigningKey};
    use shared::seal::AgentExchange;

    use super::*;

    fn keys() -> HubKeys {
        let random = SystemRandom::new();
        let (root, _) = SigningKey::generate(&random).unwrap();
        let (signer, _) = SigningKey::generate(&random).unwrap();
        let statement = KeyStatement::issue(&root, FleetId([1; 16]), KeyNumber(1), signer.public());
        HubKeys::new(root.public(), statement, signer).unwrap()
    }

    fn started(keys: &HubKeys, cluster: &str) -> HubExchange {
        let cluster = ClusterName::new(cluster).unwrap();
        let random = SystemRandom::new();
        let (_agent, x1) = AgentExchange::start(&random, cluster.clone(), None, KeyNumber(0)).unwrap();
        HubExchange::answer(&random, cluster, &x1, keys).unwrap().0
    }

    #[test]
    fn a_flood_of_claims_for_one_cluster_stays_within_its_part() {
        let keys = keys();
        let mut exchanges = Exchanges::default();
        let honest = started(&keys, "bank");
        let honest_id = honest.id();
        exchanges.keep_exchange(honest, Millis(0));
        for _ in 0..3 * limits::EXCHANGES_PER_CLUSTER {
            exchanges.keep_exchange(started(&keys, "shop"), Millis(0));
        }
        assert_eq!(exchanges.items.len(), limits::EXCHANGES_PER_CLUSTER + 1);
        let bank = ClusterName::new("bank").unwrap();
        assert!(
            exchanges
                .take_exchange(&ClusterName::new("shop").unwrap(), &honest_id)
                .is_none()
        );
        assert!(exchanges.take_exchange(&bank, &honest_id).is_some());
        assert!(exchanges.take_exchange(&bank, &honest_id).is_none(), "once");
    }

    #[test]
    fn what_does_not_go_on_is_forgotten() {
        let keys = keys();
        let mut exchanges = Exchanges::default();
        let exchange = started(&keys, "shop");
        let id = exchange.id();
        exchanges.keep_exchange(exchange, Millis(0));
        exchanges.expire(Millis(limits::EXCHANGE_TIMEOUT_MS));
        assert!(exchanges.knows(&id));
        exchanges.expire(Millis(limits::EXCHANGE_TIMEOUT_MS + 1));
        assert!(!exchanges.knows(&id));
        assert!(exchanges.per_cluster.is_empty());
    }
}
