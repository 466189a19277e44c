//! The mass-delete breaker: a change that would take more out of the fleet than a limit waits until a person confirms it
//! (design, section 8). What stays below the limit is never delayed, and what was confirmed is never asked for twice.
//!
//! Deletions arrive one object at a time, so what counts is what a cluster loses within a window. Whatever holds data or
//! takes other things with it weighs more; scripts of the interpreter weigh nothing.

mod whole;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use shared::ids::{ClusterName, ObjectKey};
use shared::time::Millis;

use whole::Wholes;
pub use whole::{Asked, Scope};

/// From where on a change waits. A number of zero switches that limit off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Weight that one cluster may lose within the window.
    pub entries: u64,
    /// Part of its entries in per cent that it may lose besides; both must be exceeded.
    pub entries_percent: u64,
    /// Clusters that may lose something within the window.
    pub clusters: u64,
    /// Part of the clusters in per cent; both must be exceeded.
    pub clusters_percent: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            entries: 20,
            entries_percent: 20,
            clusters: 10,
            clusters_percent: 20,
        }
    }
}

/// What is lost within this counts together.
pub const WINDOW: Millis = Millis(600_000);
/// Losses of one cluster that are remembered; more only weigh.
const LOSSES_MAX: usize = 4_096;
/// Objects that wait, or were confirmed and are not gone yet.
pub const HELD_MAX: usize = 100_000;

/// Something that a plan takes out of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loss {
    /// The cluster.
    pub cluster: ClusterName,
    /// The object.
    pub key: ObjectKey,
}

/// How large things are now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Entries that the cluster has.
    pub entries: u64,
    /// Clusters of the fleet.
    pub clusters: u64,
}

/// What is held under one id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// When the first of them was held.
    pub since: Millis,
    /// What waits.
    pub losses: BTreeSet<Loss>,
}

/// Counts losses, and holds what is too much.
#[derive(Debug, Default)]
pub struct Breaker {
    limits: Limits,
    lost: BTreeMap<ClusterName, VecDeque<(Millis, u64)>>,
    held: BTreeMap<u32, Held>,
    confirmed: BTreeSet<Loss>,
    /// Let go and not carried out yet; counted already.
    going: BTreeSet<Loss>,
    last: u32,
    wholes: Wholes,
}

/// What a confirmation did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confirmed {
    /// What was held is let go.
    LetGo(BTreeSet<Loss>),
    /// The refused DELETE may be sent again.
    MayBeDeleted(Scope),
}

impl Breaker {
    /// A breaker with these limits that has seen nothing yet; ids begin after `first`.
    #[must_use]
    pub fn new(limits: Limits, first: u32) -> Self {
        Self {
            limits,
            last: first,
            ..Self::default()
        }
    }

    /// Whether a cluster may lose an object now; if not, the id to confirm. It counts from now on, as many are asked about
    /// before the first is carried out. Asking again changes nothing.
    ///
    /// # Errors
    /// The id under which it waits.
    pub fn weigh(&mut self, loss: &Loss, sizes: Sizes, now: Millis) -> Result<(), u32> {
        let weight = weight(&loss.key);
        if weight == 0
            || self.confirmed.contains(loss)
            || self.going.contains(loss)
            || self.wholes.lets_go(&loss.key, now)
        {
            return Ok(());
        }
        if let Some((id, _)) = self.held.iter().find(|(_, held)| held.losses.contains(loss)) {
            return Err(*id);
        }
        self.forget(now);
        let is_hit = self.lost.contains_key(&loss.cluster);
        if self.is_too_much(&loss.cluster, weight, sizes.entries)
            || (!is_hit && self.is_too_many(self.lost.len() as u64 + 1, sizes.clusters))
        {
            return Err(self.hold(loss.clone(), now));
        }
        self.count(&loss.cluster, weight, now);
        if self.going.len() < HELD_MAX {
            self.going.insert(loss.clone());
        }
        Ok(())
    }

    /// A loss was carried out.
    pub fn handle_lost(&mut self, loss: &Loss) {
        self.going.remove(loss);
        // What a person has confirmed does not count against what comes next.
        self.confirmed.remove(loss);
    }

    fn count(&mut self, cluster: &ClusterName, weight: u64, now: Millis) {
        let losses = self.lost.entry(cluster.clone()).or_default();
        losses.push_back((now, weight));
        if losses.len() > LOSSES_MAX
            && let (Some((_, oldest)), Some((_, next))) = (losses.pop_front(), losses.front_mut())
        {
            *next += oldest;
        }
    }

    /// The plan wants the object there again, or it is gone otherwise: nothing waits for it.
    pub fn handle_kept(&mut self, loss: &Loss) {
        self.confirmed.remove(loss);
        self.going.remove(loss);
        self.held.retain(|_, held| {
            held.losses.remove(loss);
            !held.losses.is_empty()
        });
    }

    /// Confirms what is held or was refused under an id; gives it.
    pub fn confirm(&mut self, id: u32, now: Millis) -> Option<Confirmed> {
        if let Some(scope) = self.wholes.confirm(id, now) {
            return Some(Confirmed::MayBeDeleted(scope));
        }
        let held = self.held.remove(&id)?;
        self.confirmed.extend(held.losses.iter().cloned());
        Some(Confirmed::LetGo(held.losses))
    }

    /// What waits, by id.
    #[must_use]
    pub fn held(&self) -> &BTreeMap<u32, Held> {
        &self.held
    }

    fn forget(&mut self, now: Millis) {
        self.lost.retain(|_, losses| {
            while losses.front().is_some_and(|(at, _)| now.since(*at) > WINDOW.0) {
                losses.pop_front();
            }
            !losses.is_empty()
        });
    }

    /// Weight lost within the window and how many entries that were.
    fn lost(&self, cluster: &ClusterName) -> (u64, u64) {
        self.lost.get(cluster).map_or((0, 0), |losses| {
            (losses.iter().map(|(_, w)| w).sum(), losses.len() as u64)
        })
    }

    fn is_too_much(&self, cluster: &ClusterName, weight: u64, entries: u64) -> bool {
        let limits = self.limits;
        let (lost, count) = self.lost(cluster);
        let total = lost + weight;
        limits.entries > 0
            && total > limits.entries
            && total * 100 > (entries + count) * limits.entries_percent
    }

    /// `hit`: clusters that lose something within the window.
    fn is_too_many(&self, hit: u64, clusters: u64) -> bool {
        let limits = self.limits;
        limits.clusters > 0 && hit > limits.clusters && hit * 100 > clusters * limits.clusters_percent
    }

    fn next_id(&mut self) -> u32 {
        self.last = self.last.wrapping_add(1);
        self.last
    }

    /// One change is one id: what is held within the window of another belongs to it.
    fn hold(&mut self, loss: Loss, now: Millis) -> u32 {
        let open = self.held.iter_mut().next_back();
        if let Some((id, held)) =
            open.filter(|(_, h)| now.since(h.since) <= WINDOW.0 && h.losses.len() < HELD_MAX)
        {
            held.losses.insert(loss);
            return *id;
        }
        let id = self.next_id();
        let held = Held {
            since: now,
            losses: BTreeSet::from([loss]),
        };
        self.held.insert(id, held);
        id
    }
}

/// What an object counts. Data, and what takes other objects with it, counts ten.
fn weight(key: &ObjectKey) -> u64 {
    if interpreter::Customization::is_one(&key.group, &key.kind) {
        return 0;
    }
    match (key.group.as_str(), key.kind.as_str()) {
        ("", "Namespace" | "PersistentVolume" | "PersistentVolumeClaim")
        | ("apiextensions.k8s.io", "CustomResourceDefinition") => 10,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn loss(cluster: &str, kind: &str, name: usize) -> Loss {
        let (group, namespace) = match kind {
            "CustomResourceDefinition" => ("apiextensions.k8s.io", ""),
            "ResourceInterpreterCustomization" => ("config.karmada.io", ""),
            "Namespace" => ("", ""),
            _ => ("", "shop"),
        };
        Loss {
            cluster: ClusterName::new(cluster).unwrap(),
            key: ObjectKey::new(group, kind, namespace, &format!("n{name}")),
        }
    }

    fn sizes(entries: u64) -> Sizes {
        Sizes { entries, clusters: 1 }
    }

    /// Loses objects one after the other; how many before the first is held.
    fn passes(kind: &str, entries: u64, count: usize) -> usize {
        let mut breaker = Breaker::new(Limits::default(), 0);
        for n in 0..count {
            let l = loss("shop", kind, n);
            if breaker
                .weigh(&l, sizes(entries - n as u64), Millis(n as u64))
                .is_err()
            {
                return n;
            }
            breaker.handle_lost(&l);
        }
        count
    }

    #[test]
    fn both_numbers_must_be_exceeded() {
        assert_eq!(
            passes("ConfigMap", 50, 50),
            20,
            "more than 20, and that is more than a fifth"
        );
        assert_eq!(passes("ConfigMap", 1_000, 500), 200, "a fifth of many");
        assert_eq!(passes("ConfigMap", 15, 15), 15, "all of few");
        assert_eq!(
            passes("Namespace", 50, 5),
            2,
            "what takes more with it weighs ten"
        );
        assert_eq!(
            passes("ResourceInterpreterCustomization", 50, 50),
            50,
            "scripts weigh nothing"
        );
    }

    #[test]
    fn the_window_forgives_and_a_confirmation_lets_go() {
        let mut breaker = Breaker::new(Limits::default(), 7);
        for n in 0..20 {
            let l = loss("shop", "ConfigMap", n);
            assert_eq!(breaker.weigh(&l, sizes(50), Millis(0)), Ok(()));
            assert_eq!(
                breaker.weigh(&l, sizes(50), Millis(0)),
                Ok(()),
                "asked twice, counted once"
            );
        }
        let one = loss("shop", "ConfigMap", 20);
        let id = breaker.weigh(&one, sizes(30), Millis(1)).unwrap_err();
        assert_eq!(id, 8);
        let two = loss("shop", "ConfigMap", 21);
        assert_eq!(
            breaker.weigh(&two, sizes(30), Millis(2)),
            Err(id),
            "the same change"
        );
        assert_eq!(
            breaker.weigh(&one, sizes(30), Millis(WINDOW.0 + 9)),
            Err(id),
            "it waits for a person, not for time"
        );
        breaker.handle_kept(&two);
        let go = Confirmed::LetGo(BTreeSet::from([one.clone()]));
        assert_eq!(breaker.confirm(id, Millis(3)), Some(go));
        assert_eq!(breaker.confirm(id, Millis(3)), None);
        assert_eq!(breaker.weigh(&one, sizes(30), Millis(3)), Ok(()));
        breaker.handle_lost(&one);
        assert_eq!(
            breaker.weigh(&two, sizes(30), Millis(WINDOW.0 + 10)),
            Ok(()),
            "the window is over"
        );
    }

    #[test]
    fn many_clusters_at_once_are_held_too() {
        let limits = Limits::default();
        let mut breaker = Breaker::new(limits, 0);
        let fleet = Sizes {
            entries: 500,
            clusters: 40,
        };
        let mut passed = 0;
        for n in 0..40 {
            let l = loss(&format!("c{n}"), "ConfigMap", 0);
            if breaker.weigh(&l, fleet, Millis(n)).is_ok() {
                breaker.handle_lost(&l);
                passed += 1;
            }
        }
        assert_eq!(passed, 10);
        assert_eq!(breaker.held().values().map(|h| h.losses.len()).sum::<usize>(), 30);
        let none = Limits {
            entries: 0,
            clusters: 0,
            ..limits
        };
        let mut off = Breaker::new(none, 0);
        for n in 0..500 {
            let l = loss(&format!("c{n}"), "Namespace", 0);
            assert_eq!(off.weigh(&l, fleet, Millis(0)), Ok(()));
            off.handle_lost(&l);
        }
    }

    proptest! {
        /// Whatever the order: unconfirmed losses of one cluster within a window stay at the limit.
        #[test]
        fn never_more_than_the_limit(steps in prop::collection::vec((0_usize..60, 0_u64..5_000), 1..300)) {
            let mut breaker = Breaker::new(Limits::default(), 0);
            let (mut now, mut gone) = (0, BTreeSet::new());
            let mut times: Vec<u64> = vec![];
            for (name, pause) in steps {
                now += pause;
                let l = loss("shop", "ConfigMap", name);
                if gone.contains(&l) {
                    continue;
                }
                let left = sizes(60 - gone.len() as u64);
                if breaker.weigh(&l, left, Millis(now)).is_ok() {
                    breaker.handle_lost(&l);
                    gone.insert(l);
                    times.push(now);
                }
                let within = times.iter().filter(|t| now - **t <= WINDOW.0).count();
                prop_assert!(within <= 20, "{within}");
            }
        }
    }
}
