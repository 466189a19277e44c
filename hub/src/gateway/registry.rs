//! Who is connected: unproven connections with their limits, and which connection carries which channel.
//!
//! A claim alone never blocks or displaces anything: over a limit the oldest unproven connection of the
//! address that holds most of them goes, and an older proven connection is closed only when a newer one of
//! its cluster carries a frame of its own channel.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use shared::ids::{ClusterName, Epoch, ExchangeId};

use super::outbox::Outbox;
use crate::limits;

/// Number of a connection within this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ConnectionId(u64);

/// Where a message to a cluster goes.
#[derive(Debug)]
pub(super) enum Route {
    /// To this connection.
    To(Arc<Outbox>),
    /// To this connection, which is proven by it; the other one, if any, is taken over.
    Proves(Arc<Outbox>, Option<Arc<Outbox>>),
    /// No connection carries it.
    Nowhere,
}

#[derive(Debug)]
struct Connection {
    address: IpAddr,
    cluster: Option<ClusterName>,
    exchanges: VecDeque<ExchangeId>,
    epochs: VecDeque<Epoch>,
    outbox: Arc<Outbox>,
}

/// All connections of the gateway.
#[derive(Debug, Default)]
pub(super) struct Registry {
    last: u64,
    connections: BTreeMap<ConnectionId, Connection>,
    unproven: BTreeSet<ConnectionId>,
    exchanges: BTreeMap<ExchangeId, ConnectionId>,
    epochs: BTreeMap<(ClusterName, Epoch), ConnectionId>,
    proven: BTreeMap<ClusterName, ConnectionId>,
}

impl Registry {
    /// Takes in a connection. Returns its id and, over a limit, the one that must go.
    pub(super) fn admit(
        &mut self,
        address: IpAddr,
        outbox: Arc<Outbox>,
    ) -> (ConnectionId, Option<Arc<Outbox>>) {
        let displaced = if self.unproven_where(|c| c.address == address) >= limits::HALF_OPEN_PER_ADDRESS {
            self.displace(|c| c.address == address)
        } else if self.unproven.len() >= limits::HALF_OPEN {
            self.displace(|_| true)
        } else {
            None
        };
        self.last += 1;
        let id = ConnectionId(self.last);
        let (exchanges, epochs) = (VecDeque::new(), VecDeque::new());
        self.connections.insert(
            id,
            Connection {
                address,
                cluster: None,
                exchanges,
                epochs,
                outbox,
            },
        );
        self.unproven.insert(id);
        (id, displaced)
    }

    /// The connection claims a cluster. Over the limit of claims, returns the one that must go.
    pub(super) fn claim(&mut self, id: ConnectionId, cluster: &ClusterName) -> Option<Arc<Outbox>> {
        let claims = |c: &Connection| c.cluster.as_ref() == Some(cluster);
        let displaced = if self.unproven_where(claims) >= limits::HALF_OPEN_PER_CLUSTER {
            self.displace(claims)
        } else {
            None
        };
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.cluster = Some(cluster.clone());
        }
        displaced
    }

    /// The connection started an exchange: its answer goes there. The first to use an id keeps it.
    pub(super) fn starts(&mut self, id: ConnectionId, exchange: ExchangeId) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        if self.exchanges.contains_key(&exchange) {
            return;
        }
        self.exchanges.insert(exchange, id);
        connection.exchanges.push_back(exchange);
        if connection.exchanges.len() > limits::EPOCHS_PER_CONNECTION
            && let Some(oldest) = connection.exchanges.pop_front()
        {
            self.exchanges.remove(&oldest);
        }
    }

    /// The connection sent a frame of a channel: frames of it go there. The first to use an epoch keeps it,
    /// so that a copied frame on another connection moves nothing.
    pub(super) fn speaks(&mut self, id: ConnectionId, epoch: Epoch) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let Some(cluster) = connection.cluster.clone() else {
            return;
        };
        if self.epochs.contains_key(&(cluster.clone(), epoch)) {
            return;
        }
        self.epochs.insert((cluster.clone(), epoch), id);
        connection.epochs.push_back(epoch);
        if connection.epochs.len() > limits::EPOCHS_PER_CONNECTION
            && let Some(oldest) = connection.epochs.pop_front()
        {
            self.epochs.remove(&(cluster, oldest));
        }
    }

    /// Where the answer to an exchange goes.
    pub(super) fn route_exchange(&self, cluster: &ClusterName, exchange: &ExchangeId) -> Route {
        let connection = self
            .exchanges
            .get(exchange)
            .and_then(|id| self.connections.get(id));
        match connection {
            Some(connection) if connection.cluster.as_ref() == Some(cluster) => {
                Route::To(connection.outbox.clone())
            }
            _ => Route::Nowhere,
        }
    }

    /// Where a frame goes. The courier sends frames only on a channel whose exchange succeeded, so the first
    /// one proves the connection.
    pub(super) fn route_frame(&mut self, cluster: &ClusterName, epoch: Epoch) -> Route {
        let Some(&id) = self.epochs.get(&(cluster.clone(), epoch)) else {
            return Route::Nowhere;
        };
        let Some(connection) = self.connections.get(&id) else {
            return Route::Nowhere;
        };
        let outbox = connection.outbox.clone();
        if !self.unproven.remove(&id) {
            return Route::To(outbox);
        }
        let older = self.proven.insert(cluster.clone(), id);
        let taken_over = older
            .and_then(|older| self.connections.get(&older))
            .map(|c| c.outbox.clone());
        Route::Proves(outbox, taken_over)
    }

    /// Forgets a connection; says which cluster lost its live session by it, if so, and which channels it carried.
    pub(super) fn remove(&mut self, id: ConnectionId) -> Option<(ClusterName, Vec<Epoch>)> {
        let connection = self.connections.remove(&id)?;
        self.unproven.remove(&id);
        for exchange in connection.exchanges {
            self.exchanges.remove(&exchange);
        }
        let cluster = connection.cluster?;
        let epochs = Vec::from(connection.epochs);
        for epoch in &epochs {
            self.epochs.remove(&(cluster.clone(), *epoch));
        }
        if self.proven.get(&cluster) == Some(&id) {
            self.proven.remove(&cluster);
            return Some((cluster, epochs));
        }
        None
    }

    /// Every connection that claims a cluster.
    pub(super) fn of_cluster(&self, cluster: &ClusterName) -> Vec<Arc<Outbox>> {
        let claims = self
            .connections
            .values()
            .filter(|c| c.cluster.as_ref() == Some(cluster));
        claims.map(|c| c.outbox.clone()).collect()
    }

    /// Every connection.
    pub(super) fn all(&self) -> Vec<Arc<Outbox>> {
        self.connections.values().map(|c| c.outbox.clone()).collect()
    }

    /// Proven and unproven connections.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.proven.len(), self.unproven.len())
    }

    fn unproven_where(&self, of: impl Fn(&Connection) -> bool) -> usize {
        self.candidates(of).count()
    }

    fn candidates(
        &self,
        of: impl Fn(&Connection) -> bool,
    ) -> impl Iterator<Item = (ConnectionId, &Connection)> {
        self.unproven
            .iter()
            .filter_map(|id| Some((*id, self.connections.get(id)?)))
            .filter(move |(_, c)| of(c))
    }

    /// The oldest of the busiest address among the unproven that match.
    fn displace(&mut self, of: impl Fn(&Connection) -> bool) -> Option<Arc<Outbox>> {
        let victim = oldest_of_busiest(
            self.candidates(of)
                .map(|(id, connection)| (id, connection.address)),
        )?;
        // Out of the count at once; the rest goes when its task ends.
        self.unproven.remove(&victim);
        self.connections.get(&victim).map(|c| c.outbox.clone())
    }
}

/// Who goes when there are too many: of the address that occurs most often the first one. `candidates` come
/// oldest first.
pub(crate) fn oldest_of_busiest<K: Copy + Ord>(candidates: impl Iterator<Item = (K, IpAddr)>) -> Option<K> {
    let mut by_address: BTreeMap<IpAddr, (usize, K)> = BTreeMap::new();
    for (id, address) in candidates {
        by_address.entry(address).or_insert((0, id)).0 += 1;
    }
    by_address
        .into_values()
        .max_by_key(|(count, oldest)| (*count, std::cmp::Reverse(*oldest)))
        .map(|(_, id)| id)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(192, 0, 2, last))
    }

    fn cluster(name: &str) -> ClusterName {
        ClusterName::new(name).unwrap()
    }

    fn connect(
        registry: &mut Registry,
        last: u8,
        name: &str,
    ) -> (ConnectionId, Arc<Outbox>, Vec<Arc<Outbox>>) {
        let outbox = Arc::new(Outbox::default());
        let (id, first) = registry.admit(address(last), outbox.clone());
        let second = registry.claim(id, &cluster(name));
        (id, outbox, first.into_iter().chain(second).collect())
    }

    #[test]
    fn a_flood_from_one_address_displaces_only_itself() {
        let mut registry = Registry::default();
        let (_, honest, gone) = connect(&mut registry, 1, "shop");
        assert!(gone.is_empty());
        for i in 0..1_000 {
            let (_, _, gone) = connect(&mut registry, 2, &format!("c{i}"));
            assert!(gone.iter().all(|outbox| !Arc::ptr_eq(outbox, &honest)));
            assert_eq!(gone.len(), usize::from(i >= limits::HALF_OPEN_PER_ADDRESS));
        }
    }

    #[test]
    fn claims_of_one_cluster_displace_the_busiest_claimant() {
        let mut registry = Registry::default();
        let (_, honest, _) = connect(&mut registry, 1, "shop");
        for i in 0..100 {
            let (_, _, gone) = connect(&mut registry, 2, "shop");
            assert_eq!(gone.len(), usize::from(i >= limits::HALF_OPEN_PER_CLUSTER - 1));
            assert!(gone.iter().all(|outbox| !Arc::ptr_eq(outbox, &honest)));
        }
    }

    #[test]
    fn the_hub_wide_limit_takes_from_the_busiest_address() {
        let mut registry = Registry::default();
        let mut busy = Vec::new();
        for i in 0..limits::HALF_OPEN {
            let last = if i < 40 { 1 } else { 2 + (i / 32) as u8 };
            let (_, outbox, gone) = connect(&mut registry, last, &format!("c{i}"));
            assert!(gone.is_empty());
            if last == 1 {
                busy.push(outbox);
            }
        }
        let (_, _, gone) = connect(&mut registry, 250, "late");
        assert!(Arc::ptr_eq(&gone[0], &busy[0]), "the oldest of the busiest");
    }

    #[test]
    fn only_a_frame_of_its_own_channel_takes_over() {
        let mut registry = Registry::default();
        let (old, old_box, _) = connect(&mut registry, 1, "shop");
        let (e1, e2) = (Epoch([1; 8]), Epoch([2; 8]));
        registry.speaks(old, e1);
        assert!(matches!(
            registry.route_frame(&cluster("shop"), e1),
            Route::Proves(_, None)
        ));
        assert!(matches!(registry.route_frame(&cluster("shop"), e1), Route::To(_)));

        let (new, new_box, _) = connect(&mut registry, 2, "shop");
        registry.speaks(new, e1);
        assert!(
            matches!(registry.route_frame(&cluster("shop"), e1), Route::To(o) if Arc::ptr_eq(&o, &old_box)),
            "a copied frame moves nothing"
        );
        registry.speaks(new, e2);
        match registry.route_frame(&cluster("shop"), e2) {
            Route::Proves(to, Some(gone)) => {
                assert!(Arc::ptr_eq(&to, &new_box) && Arc::ptr_eq(&gone, &old_box));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(
            registry.remove(old),
            None,
            "the cluster still has its newer session"
        );
        assert_eq!(registry.remove(new), Some((cluster("shop"), vec![e2])));
        assert_eq!(registry.counts(), (0, 0));
        assert!(registry.epochs.is_empty() && registry.exchanges.is_empty());
    }

    #[test]
    fn the_answer_to_an_exchange_goes_to_who_started_it() {
        let mut registry = Registry::default();
        let (first, first_box, _) = connect(&mut registry, 1, "shop");
        let (second, ..) = connect(&mut registry, 2, "shop");
        let exchange = ExchangeId([7; 32]);
        registry.starts(first, exchange);
        registry.starts(second, exchange);
        assert!(matches!(
            registry.route_exchange(&cluster("shop"), &exchange),
            Route::To(outbox) if Arc::ptr_eq(&outbox, &first_box)
        ));
        assert!(matches!(
            registry.route_exchange(&cluster("bank"), &exchange),
            Route::Nowhere
        ));
        assert!(matches!(
            registry.route_frame(&cluster("shop"), Epoch([0; 8])),
            Route::Nowhere
        ));
    }

    #[test]
    fn what_one_connection_starts_is_bounded() {
        let mut registry = Registry::default();
        let (id, ..) = connect(&mut registry, 1, "shop");
        for i in 0..100 {
            registry.starts(id, ExchangeId([i; 32]));
            registry.speaks(id, Epoch([i; 8]));
        }
        assert_eq!(registry.exchanges.len(), limits::EPOCHS_PER_CONNECTION);
        assert_eq!(registry.epochs.len(), limits::EPOCHS_PER_CONNECTION);
    }
}
