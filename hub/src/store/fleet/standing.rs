//! The sets of clusters as their rows make them, in memory, so that one changed work costs that work and not the whole
//! set. Everything here can be read again from the rows; a batch that fails forgets it all.
//!
//! Entries are shared: clusters that hold the same work of a binding hold the same value.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use rusqlite::{Connection, params};
use shared::ids::{ClusterName, Digest, ObjectKey, Sequence};
use shared::set::{Entry, Set, Tombstone};

use super::super::error::StoreError;
use super::super::limits;
use super::intern::{self, Facet};
use super::targets::{column, tombstones};

/// One row of a cluster.
pub(super) struct Slot {
    pub(super) entry: Arc<Entry>,
    /// [`Entry::own_digest`].
    pub(super) own: Digest,
    pub(super) id: i64,
    pub(super) binding: i64,
}

/// Rows and live tombstones of one cluster, each in key order.
#[derive(Default)]
pub(super) struct Standing {
    slots: Vec<Slot>,
    tombstones: Vec<(Tombstone, Digest)>,
}

impl Standing {
    /// Reads the rows.
    pub(super) fn load(db: &Connection, sets: &Sets, cluster: i64) -> Result<Self, StoreError> {
        let mut statement = db.prepare_cached(
            "SELECT t.id, t.binding, k.bytes, f.bytes, x.digest, x.length
             FROM target t JOIN okey k ON k.id = t.okey JOIN facet f ON f.id = t.facet
             JOIN content x ON x.id = t.content WHERE t.cluster = ?1",
        )?;
        let mut rows = statement.query(params![cluster])?;
        let mut slots = Vec::new();
        while let Some(row) = rows.next()? {
            let blob = |index: usize| row.get_ref(index)?.as_blob().map_err(column);
            let key: ObjectKey = intern::decode("object key", blob(2)?)?;
            let facet: Facet = intern::decode("bookkeeping of a target", blob(3)?)?;
            let digest = intern::digest("digest of a content", blob(4)?)?;
            let entry = Arc::new(facet.entry(key, digest, row.get(5)?));
            let own = entry.own_digest();
            slots.push(Slot {
                entry: sets.share(own, entry),
                own,
                id: row.get(0)?,
                binding: row.get(1)?,
            });
        }
        slots.sort_by(|a, b| a.entry.key.cmp(&b.entry.key));
        let mut buried: Vec<_> = tombstones(db, cluster)?
            .into_iter()
            .map(|tombstone| (tombstone.own_digest(), tombstone))
            .map(|(own, tombstone)| (tombstone, own))
            .collect();
        buried.sort_by(|a, b| a.0.key.cmp(&b.0.key));
        Ok(Self {
            slots,
            tombstones: buried,
        })
    }

    /// The rows alone.
    pub(super) fn into_slots(self) -> Vec<Slot> {
        self.slots
    }

    /// Entries and tombstones together.
    pub(super) fn len(&self) -> usize {
        self.slots.len() + self.tombstones.len()
    }

    fn place(&self, key: &ObjectKey) -> Result<usize, usize> {
        self.slots.binary_search_by(|slot| slot.entry.key.cmp(key))
    }

    /// The row of a key.
    pub(super) fn slot(&self, key: &ObjectKey) -> Option<&Slot> {
        self.place(key).ok().and_then(|at| self.slots.get(at))
    }

    /// Puts a row in its place, instead of the one with its key.
    pub(super) fn put(&mut self, slot: Slot) {
        match self.place(&slot.entry.key) {
            Ok(at) => self.slots[at] = slot,
            Err(at) => {
                // A place is made by moving what is behind it anyway: room for many more would be most of what a large fleet
                // keeps in memory.
                if self.slots.len() == self.slots.capacity() {
                    self.slots.reserve_exact(self.slots.len() / 8 + 4);
                }
                self.slots.insert(at, slot);
            }
        }
    }

    /// Takes a row out.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<Slot> {
        self.place(key).ok().map(|at| self.slots.remove(at))
    }

    /// Whether there is a tombstone under a key.
    pub(super) fn is_buried(&self, key: &ObjectKey) -> bool {
        self.tombstones
            .binary_search_by(|(tombstone, _)| tombstone.key.cmp(key))
            .is_ok()
    }

    /// Puts a tombstone in its place.
    pub(super) fn bury(&mut self, tombstone: Tombstone) {
        let own = tombstone.own_digest();
        match self
            .tombstones
            .binary_search_by(|(other, _)| other.key.cmp(&tombstone.key))
        {
            Ok(at) => self.tombstones[at] = (tombstone, own),
            Err(at) => self.tombstones.insert(at, (tombstone, own)),
        }
    }

    /// Takes a tombstone out.
    pub(super) fn unbury(&mut self, key: &ObjectKey) {
        self.tombstones.retain(|(tombstone, _)| tombstone.key != *key);
    }

    /// [`Set::digest`] of the set they make.
    pub(super) fn digest(&self) -> Digest {
        Set::digest_of_parts(
            self.slots.iter().map(|slot| &slot.own),
            self.tombstones.iter().map(|(_, own)| own),
        )
    }

    /// The set they make.
    pub(super) fn set(&self, cluster: &ClusterName) -> Result<Set, StoreError> {
        let entries = self.slots.iter().map(|slot| slot.entry.clone()).collect();
        let tombstones = self
            .tombstones
            .iter()
            .map(|(tombstone, _)| tombstone.clone())
            .collect();
        Set::from_sorted(entries, tombstones).map_err(|cause| StoreError::Corrupt {
            what: format!("set of {cluster}"),
            cause: cause.to_string(),
        })
    }
}

/// What the writer keeps of the clusters it has changed.
#[derive(Default)]
pub(in crate::store) struct Standings {
    clusters: HashMap<i64, Standing>,
}

impl Standings {
    /// Takes a cluster's rows out, reading them if they are not here. [`Standings::give_back`] them, or they are read again.
    pub(super) fn take(
        &mut self,
        db: &Connection,
        sets: &Sets,
        cluster: i64,
    ) -> Result<Standing, StoreError> {
        match self.clusters.remove(&cluster) {
            Some(standing) => Ok(standing),
            None => Standing::load(db, sets, cluster),
        }
    }

    pub(super) fn give_back(&mut self, cluster: i64, standing: Standing) {
        self.clusters.insert(cluster, standing);
    }

    /// A cluster's rows were changed past this.
    pub(super) fn forget(&mut self, cluster: i64) {
        self.clusters.remove(&cluster);
    }

    /// Nothing here is to be relied on any more.
    pub(in crate::store) fn clear(&mut self) {
        self.clusters.clear();
    }

    fn rows(&self) -> usize {
        self.clusters.values().map(Standing::len).sum()
    }
}

/// The newest set of a cluster, as committed.
#[derive(Debug)]
pub(in crate::store) struct Newest {
    pub(super) sequence: Sequence,
    pub(super) digest: Digest,
    pub(super) set: Arc<Set>,
}

/// Committed sets, for readers.
#[derive(Debug, Default)]
pub(in crate::store) struct Sets {
    newest: RwLock<HashMap<ClusterName, Arc<Newest>>>,
    shared: Mutex<Entries>,
}

/// Entries that some set holds, by their own digest.
#[derive(Debug, Default)]
struct Entries {
    known: HashMap<Digest, Weak<Entry>>,
    /// Dead ones are dropped when there are this many.
    tidy_at: usize,
}

impl Sets {
    /// The one value of an entry.
    pub(super) fn share(&self, own: Digest, entry: Arc<Entry>) -> Arc<Entry> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = shared.known.get(&own).and_then(Weak::upgrade) {
            return known;
        }
        if shared.known.len() >= shared.tidy_at {
            shared.known.retain(|_, entry| entry.strong_count() > 0);
            shared.tidy_at = (shared.known.len() * 2).max(1_024);
        }
        shared.known.insert(own, Arc::downgrade(&entry));
        entry
    }

    /// The set of a cluster at a sequence, if it is here.
    pub(super) fn at(&self, cluster: &ClusterName, sequence: Sequence) -> Option<Arc<Newest>> {
        let newest = self.newest.read().unwrap_or_else(PoisonError::into_inner);
        newest
            .get(cluster)
            .filter(|newest| newest.sequence == sequence)
            .cloned()
    }

    /// Keeps a set that a reader made from the rows, unless a newer one is here.
    pub(super) fn keep(&self, cluster: &ClusterName, set: Arc<Newest>) {
        let mut newest = self.newest.write().unwrap_or_else(PoisonError::into_inner);
        let is_newer = newest
            .get(cluster)
            .is_none_or(|known| known.sequence < set.sequence);
        if is_newer {
            newest.insert(cluster.clone(), set);
        }
    }

    /// Takes the sets of a committed batch; over the bound everything else is forgotten.
    pub(in crate::store) fn publish(
        &self,
        standings: &mut Standings,
        changed: Vec<(ClusterName, Arc<Newest>)>,
    ) {
        if changed.is_empty() {
            return;
        }
        let mut newest = self.newest.write().unwrap_or_else(PoisonError::into_inner);
        if standings.rows() > limits::STANDING_ROWS {
            standings.clear();
            let stay: HashSet<_> = changed.iter().map(|(cluster, _)| cluster).collect();
            newest.retain(|cluster, _| stay.contains(cluster));
        }
        newest.extend(changed);
    }
}
