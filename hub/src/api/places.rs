//! Places for requests and watches, shared fairly among users.

use hub_core::fairness::Fairness;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Places of one kind.
#[derive(Debug, Clone)]
pub(super) struct Places(Arc<Mutex<Fairness>>);

/// A place that is taken; given back on drop.
#[derive(Debug)]
pub(super) struct Place {
    places: Places,
    user: String,
}

impl Places {
    pub(super) fn new(capacity: usize) -> Places {
        Places(Arc::new(Mutex::new(Fairness::new(capacity))))
    }

    fn state(&self) -> MutexGuard<'_, Fairness> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place; `None` if the user has their share or none is left.
    pub(super) fn enter(&self, user: &str) -> Option<Place> {
        self.state().enter(user).then(|| Place {
            places: self.clone(),
            user: user.to_owned(),
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.state().leave(&self.user);
    }
}

/// Open API connections by source address.
#[derive(Debug, Clone, Default)]
pub(super) struct Connections(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// One connection; counted until it is dropped.
#[derive(Debug)]
pub(super) struct Connection {
    all: Connections,
    address: IpAddr,
}

impl Connections {
    /// Counts a connection unless its address has `limit` already.
    pub(super) fn enter(&self, address: IpAddr, limit: usize) -> Option<Connection> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(address).or_default();
        if *count >= limit {
            return None;
        }
        *count += 1;
        Some(Connection {
            all: self.clone(),
            address,
        })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut counts = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_counted_by_address() {
        let all = Connections::default();
        let (a, b) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let first = all.enter(a, 1);
        assert!(first.is_some() && all.enter(a, 1).is_none() && all.enter(b, 1).is_some());
        drop(first);
        assert!(all.enter(a, 1).is_some());
        assert!(all.0.lock().expect("not poisoned").is_empty());
    }
}
