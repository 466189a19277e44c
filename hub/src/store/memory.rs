//! What readers and watchers see: every object, and the recent events, in memory.
//!
//! One lock guards objects, events and the visible revision together, so a listing and the watch that continues
//! it never disagree. The writer takes it once per batch, after the batch is on disk.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use tokio::sync::watch;

use super::error::Compacted;
use super::limits;
use super::notes::{RowChange, RowLog};
use super::object::{Event, EventKind, Object, ResourceId, Revision};

/// Namespace and name.
pub(super) type Key = (String, String);

/// Objects and recent events of one resource.
#[derive(Debug)]
struct Shelf {
    objects: BTreeMap<Key, Arc<Object>>,
    ring: VecDeque<Arc<Event>>,
    /// Everything after this revision is still in the ring.
    floor: Revision,
    arrivals: watch::Sender<Revision>,
}

/// The visible state.
#[derive(Debug)]
pub(super) struct Memory {
    revision: Revision,
    shelves: HashMap<ResourceId, Shelf>,
    /// All events of all shelves in order; bounds are kept here.
    ring: VecDeque<Arc<Event>>,
    ring_bytes: usize,
    rows: RowLog,
    floor: Revision,
    /// The floor this process began with: a resource without a shelf has had no event since.
    loaded_floor: Revision,
    /// Revisions above the last durable one found at start and below the first one handed out since: nobody can
    /// hold such a revision and be current.
    lost: (Revision, Revision),
    arrivals: watch::Sender<Revision>,
    /// Stored rows that could not be read, with the cause. They are not absent: nobody knows what they say.
    quarantine: BTreeMap<(ResourceId, Key), String>,
}

impl Memory {
    /// An empty memory at a revision. `floor`: everything after it will be told by [`Memory::restore_event`].
    pub(super) fn new(last_durable: Revision, start: Revision, floor: Revision) -> Memory {
        Memory {
            revision: start,
            shelves: HashMap::new(),
            ring: VecDeque::new(),
            ring_bytes: 0,
            rows: RowLog::new(start),
            floor,
            loaded_floor: floor,
            lost: (last_durable, start),
            arrivals: watch::Sender::new(start),
            quarantine: BTreeMap::new(),
        }
    }

    /// Notes a row that cannot be read.
    pub(super) fn quarantine(&mut self, place: (ResourceId, Key), cause: String) {
        self.quarantine.insert(place, cause);
    }

    /// Rows that could not be read, with the cause.
    pub(super) fn quarantined(&self) -> &BTreeMap<(ResourceId, Key), String> {
        &self.quarantine
    }

    /// The history begins after a revision; called while loading.
    pub(super) fn raise_floor(&mut self, revision: Revision) {
        self.floor = self.floor.max(revision);
        self.loaded_floor = self.loaded_floor.max(revision);
        for shelf in self.shelves.values_mut() {
            shelf.floor = shelf.floor.max(revision);
        }
    }

    fn shelf(&mut self, resource: &ResourceId) -> &mut Shelf {
        let (start, floor) = (self.lost.1, self.floor_of_new(resource));
        self.shelves.entry(resource.clone()).or_insert_with(|| Shelf {
            objects: BTreeMap::new(),
            ring: VecDeque::new(),
            floor,
            arrivals: watch::Sender::new(start),
        })
    }

    /// Written-behind resources have no log on disk, so their history begins with this process.
    fn floor_of_new(&self, resource: &ResourceId) -> Revision {
        if resource.is_volatile() {
            self.lost.1
        } else {
            self.loaded_floor
        }
    }

    /// Puts a loaded object in its place, without an event.
    pub(super) fn restore_object(&mut self, object: Object) {
        let key = (object.namespace.clone(), object.name.clone());
        self.shelf(&object.resource.clone())
            .objects
            .insert(key, Arc::new(object));
    }

    /// Appends a loaded event; objects are left as they are.
    pub(super) fn restore_event(&mut self, event: Event) {
        self.append(Arc::new(event));
        self.trim();
    }

    /// Makes a batch visible, in order, and wakes whoever waits.
    pub(super) fn publish(&mut self, events: Vec<Event>, rows: Vec<RowChange>, revision: Revision) {
        self.rows.append(rows);
        let mut touched: Vec<ResourceId> = Vec::new();
        for event in events {
            let object = &event.object;
            let key = (object.namespace.clone(), object.name.clone());
            let resource = object.resource.clone();
            if !self.quarantine.is_empty() {
                // Written anew: now it is known what it says.
                self.quarantine.remove(&(resource.clone(), key.clone()));
            }
            let shelf = self.shelf(&resource);
            match event.kind {
                EventKind::Put => shelf.objects.insert(key, object.clone()),
                EventKind::Delete => shelf.objects.remove(&key),
            };
            self.append(Arc::new(event));
            if touched.last() != Some(&resource) {
                touched.push(resource);
            }
        }
        self.revision = self.revision.max(revision);
        self.trim();
        for resource in touched {
            if let Some(shelf) = self.shelves.get(&resource) {
                shelf.arrivals.send_replace(revision);
            }
        }
        self.arrivals.send_replace(revision);
    }

    fn append(&mut self, event: Arc<Event>) {
        self.ring_bytes += weight(&event);
        self.shelf(&event.object.resource.clone())
            .ring
            .push_back(event.clone());
        self.ring.push_back(event);
    }

    fn trim(&mut self) {
        while self.ring.len() > limits::RING_EVENTS || self.ring_bytes > limits::RING_BYTES {
            let Some(oldest) = self.ring.pop_front() else {
                return;
            };
            self.ring_bytes -= weight(&oldest);
            self.floor = oldest.revision;
            if let Some(shelf) = self.shelves.get_mut(&oldest.object.resource) {
                shelf.ring.pop_front();
                shelf.floor = oldest.revision;
            }
        }
    }

    pub(super) fn revision(&self) -> Revision {
        self.revision
    }

    pub(super) fn get(&self, resource: &ResourceId, namespace: &str, name: &str) -> Option<Arc<Object>> {
        self.shelves
            .get(resource)?
            .objects
            .get(&(namespace.to_owned(), name.to_owned()))
            .cloned()
    }

    pub(super) fn list(&self, resource: &ResourceId, namespace: Option<&str>) -> Vec<Arc<Object>> {
        let Some(shelf) = self.shelves.get(resource) else {
            return Vec::new();
        };
        match namespace {
            None => shelf.objects.values().cloned().collect(),
            Some(namespace) => shelf
                .objects
                .range((
                    Bound::Included((namespace.to_owned(), String::new())),
                    Bound::Unbounded,
                ))
                .take_while(|((found, _), _)| found == namespace)
                .map(|(_, object)| object.clone())
                .collect(),
        }
    }

    /// Resources that hold at least one object, sorted.
    pub(super) fn resources(&self) -> Vec<ResourceId> {
        let mut held: Vec<_> = self
            .shelves
            .iter()
            .filter(|(_, shelf)| !shelf.objects.is_empty())
            .map(|(resource, _)| resource.clone())
            .collect();
        held.sort();
        held
    }

    /// Registers interest in a resource (or all), creating its shelf if need be.
    pub(super) fn arrivals(&mut self, resource: Option<&ResourceId>) -> watch::Receiver<Revision> {
        match resource {
            None => self.arrivals.subscribe(),
            Some(resource) => self.shelf(resource).arrivals.subscribe(),
        }
    }

    /// The first `limit` events after a revision and the revision up to which that is everything.
    pub(super) fn events_after(
        &self,
        resource: Option<&ResourceId>,
        after: Revision,
        limit: usize,
    ) -> Result<(Vec<Arc<Event>>, Revision), Compacted> {
        let (ring, floor) = match resource {
            None => (Some(&self.ring), self.floor.max(self.volatile_floor(after))),
            Some(resource) => match self.shelves.get(resource) {
                Some(shelf) => (Some(&shelf.ring), shelf.floor),
                None => (None, self.floor_of_new(resource)),
            },
        };
        let lost = after > self.lost.0 && after < self.lost.1;
        if after < floor || lost {
            return Err(Compacted {
                after,
                floor: if lost { self.lost.1 } else { floor },
            });
        }
        let Some(ring) = ring else {
            return Ok((Vec::new(), self.revision));
        };
        let from = ring.partition_point(|event| event.revision <= after);
        let found: Vec<_> = ring.range(from..).take(limit).cloned().collect();
        let upto = match found.last() {
            Some(last) if from + found.len() < ring.len() => last.revision,
            _ => self.revision.max(after),
        };
        Ok((found, upto))
    }

    /// Everything after a revision that touches some resources or, if asked for, rows behind views: one snapshot.
    pub(super) fn changes_after(
        &self,
        resources: &[ResourceId],
        with_rows: bool,
        after: Revision,
    ) -> Result<Changes, Compacted> {
        let mut events = Vec::new();
        for resource in resources {
            events.extend(self.events_after(Some(resource), after, usize::MAX)?.0);
        }
        events.sort_by_key(|event| event.revision);
        let rows = if with_rows {
            self.rows.after(after)?
        } else {
            Vec::new()
        };
        Ok(Changes {
            events,
            rows,
            upto: self.revision.max(after),
        })
    }

    /// A watch over everything may not skip written-behind events that an earlier process lost.
    fn volatile_floor(&self, after: Revision) -> Revision {
        if after < self.lost.1 && self.shelves.keys().any(ResourceId::is_volatile) {
            self.lost.1
        } else {
            self.floor
        }
    }
}

/// Object events and row changes of one span of the history.
#[derive(Debug, Clone)]
pub struct Changes {
    /// Changes of stored objects, in order.
    pub events: Vec<Arc<Event>>,
    /// Changes of rows, in order.
    pub rows: Vec<RowChange>,
    /// Up to here this is everything.
    pub upto: Revision,
}

/// What an event keeps alive: the state it replaced, or that it removed.
fn weight(event: &Event) -> usize {
    const FIXED: usize = 200;
    let held = match event.kind {
        EventKind::Put => event.previous.as_ref().map_or(0, |previous| previous.body.len()),
        EventKind::Delete => event.object.body.len() * 2,
    };
    FIXED + held
}
