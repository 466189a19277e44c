//! Watches of views.
//!
//! A round takes everything that happened since the last one, from one snapshot, and tells each object's present
//! view once, ordered by revision. Rounds that only rows cause come at most once a second, so however often
//! agents report, an object has at most one event a second. A client that leaves in the middle of a round and
//! comes back with the revision it saw last misses nothing: what it has not seen has a higher one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use hub_core::{naming, view};
use shared::ids::ClusterName;
use shared::set::Entry;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::{Rule, clusters, rows};
use crate::store::{
    BindingRef, Changes, Compacted, Event, EventKind, Object, ResourceId, Revision, Row, Store, StoreError,
    TargetChange,
};

/// Shortest time between two rounds that only rows cause.
const ROUND_EVERY: Duration = Duration::from_secs(1);

/// A watcher's place in the history of a resource as clients read it. See [`super::watch`].
#[derive(Debug)]
pub struct ViewCursor {
    store: Store,
    resource: ResourceId,
    rule: Rule,
    /// Stored resources whose events matter.
    sources: Vec<ResourceId>,
    /// Everything up to here is told or waits in `queue`.
    fetched: Revision,
    position: Revision,
    queue: VecDeque<Arc<Event>>,
    last_round: Option<Instant>,
    arrivals: watch::Receiver<Revision>,
}

impl ViewCursor {
    pub(super) fn new(
        store: &Store,
        resource: &ResourceId,
        rule: Rule,
        after: Revision,
    ) -> Result<ViewCursor, Compacted> {
        let sources = match rule {
            Rule::Stored | Rule::Binding | Rule::Cluster => vec![resource.clone()],
            Rule::Work => Vec::new(),
            Rule::Namespace => vec![resource.clone(), clusters()],
        };
        let cursor = ViewCursor {
            store: store.clone(),
            resource: resource.clone(),
            rule,
            sources,
            fetched: after,
            position: after,
            queue: VecDeque::new(),
            last_round: None,
            arrivals: store.arrivals(),
        };
        cursor.changes()?;
        Ok(cursor)
    }

    /// The next event, waiting for it. Cancel-safe: a dropped future loses nothing.
    ///
    /// # Errors
    /// [`Compacted`] when not everything after this place is kept any more, or rows could not be read: list again.
    pub async fn next(&mut self) -> Result<Arc<Event>, Compacted> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                self.position = event.revision;
                return Ok(event);
            }
            self.arrivals.borrow_and_update();
            let changes = self.changes()?;
            if changes.events.is_empty() && changes.rows.is_empty() {
                self.fetched = changes.upto;
                self.position = changes.upto;
                if self.arrivals.changed().await.is_err() {
                    // The store is gone; the caller's own deadline ends the watch.
                    std::future::pending::<()>().await;
                }
                continue;
            }
            if let Some(last) = self.last_round
                && changes.events.is_empty()
                && last.elapsed() < ROUND_EVERY
            {
                sleep_until(last + ROUND_EVERY).await;
                continue;
            }
            let upto = changes.upto;
            let events = self.round(changes).map_err(|error| {
                tracing::warn!(resource = %self.resource, %error, "a watch ends because rows could not be read");
                Compacted { after: self.fetched, floor: upto }
            })?;
            self.queue.extend(events);
            self.fetched = upto;
            if self.queue.is_empty() {
                self.position = upto;
            }
            self.last_round = Some(Instant::now());
        }
    }

    /// The revision up to which everything was handed out: what a bookmark may say.
    pub fn position(&self) -> Revision {
        self.position
    }

    /// What is watched.
    pub fn resource(&self) -> &ResourceId {
        &self.resource
    }

    fn changes(&self) -> Result<Changes, Compacted> {
        let with_rows = matches!(self.rule, Rule::Binding | Rule::Cluster | Rule::Work);
        let mut changes = self.store.changes_after(&self.sources, with_rows, self.fetched)?;
        changes.rows.retain(|change| match (&change.row, self.rule) {
            (Row::Target { binding, .. }, Rule::Binding) => {
                binding.namespace.is_empty() == (&*self.resource.resource == "clusterresourcebindings")
            }
            (Row::Target { .. }, Rule::Work) | (Row::Cluster(_), Rule::Cluster) => true,
            _ => false,
        });
        changes.rows.retain(|change| change.revision <= changes.upto);
        Ok(changes)
    }

    fn round(&self, changes: Changes) -> Result<Vec<Arc<Event>>, StoreError> {
        let mut events = match self.rule {
            Rule::Stored => return Ok(changes.events),
            Rule::Namespace => self.namespaces(changes.events),
            Rule::Work => self.works(&changes)?,
            Rule::Binding | Rule::Cluster => self.over_stored(changes)?,
        };
        events.sort_by_key(|event| event.revision);
        Ok(events.into_iter().map(Arc::new).collect())
    }

    /// Stored events with the present status, and one event for each object of which only rows changed.
    fn over_stored(&self, changes: Changes) -> Result<Vec<Event>, StoreError> {
        let upto = changes.upto;
        let mut touched: BTreeMap<(String, String), ()> = BTreeMap::new();
        for change in &changes.rows {
            let key = match &change.row {
                Row::Target { binding, .. } => (binding.namespace.clone(), binding.name.clone()),
                Row::Cluster(cluster) => (String::new(), cluster.as_str().to_owned()),
            };
            touched.insert(key, ());
        }
        let mut told = Vec::new();
        for event in changes.events {
            let key = (event.object.namespace.clone(), event.object.name.clone());
            let mut event = Event::clone(&event);
            if event.kind == EventKind::Put {
                // The status is the present one, the revision stays the event's: a round keeps the order.
                event.object = Arc::new(self.view_of(&event.object)?.restamped(event.revision));
                if let Some(previous) = &event.previous {
                    event.previous = Some(Arc::new(self.view_of(previous)?.restamped(previous.revision)));
                }
            } else {
                touched.remove(&key);
            }
            told.push(event);
        }
        for (namespace, name) in touched.into_keys() {
            let Some(object) = super::get(&self.store, &self.resource, &namespace, &name)? else {
                continue;
            };
            // A revision beyond this round belongs to the next one, which tells it.
            if object.revision <= upto && object.revision > self.fetched {
                let event = Event {
                    revision: object.revision,
                    kind: EventKind::Put,
                    previous: Some(object.clone()),
                    object,
                };
                if !told.iter().any(|told| same(told, &event)) {
                    told.push(event);
                }
            }
        }
        Ok(told)
    }

    fn view_of(&self, stored: &Arc<Object>) -> Result<Arc<Object>, StoreError> {
        match self.rule {
            Rule::Binding => super::one_binding(&self.store, stored),
            Rule::Cluster => super::one_cluster(&self.store, stored),
            Rule::Stored | Rule::Work | Rule::Namespace => Ok(stored.clone()),
        }
    }

    fn works(&self, changes: &Changes) -> Result<Vec<Event>, StoreError> {
        struct Seen<'a> {
            is_new: bool,
            gone: Option<(&'a ClusterName, &'a BindingRef, &'a Entry, Revision)>,
        }
        let mut seen: BTreeMap<i64, Seen<'_>> = BTreeMap::new();
        for change in &changes.rows {
            let Row::Target {
                id,
                cluster,
                binding,
                change: what,
            } = &change.row
            else {
                continue;
            };
            let entry = seen.entry(*id).or_insert(Seen {
                is_new: false,
                gone: None,
            });
            match what {
                TargetChange::Added => entry.is_new = true,
                TargetChange::Changed => {}
                TargetChange::Removed(last) => entry.gone = Some((cluster, binding, last, change.revision)),
            }
        }
        let mut events = Vec::new();
        for (id, Seen { is_new, gone }) in seen {
            if let Some((cluster, binding, entry, revision)) = gone {
                if !is_new {
                    events.push(self.work_gone(id, cluster, binding, entry, revision)?);
                }
                continue;
            }
            let Some(target) = self.store.target(id)? else {
                continue;
            };
            let object = super::work(&self.store, &self.resource, &target)?;
            if object.revision <= changes.upto {
                let previous = (!is_new).then(|| object.clone());
                events.push(Event {
                    revision: object.revision,
                    kind: EventKind::Put,
                    object,
                    previous,
                });
            }
        }
        Ok(events)
    }

    fn work_gone(
        &self,
        id: i64,
        cluster: &ClusterName,
        binding: &BindingRef,
        entry: &Entry,
        revision: Revision,
    ) -> Result<Event, StoreError> {
        let row = rows::of_entry(&self.store, (cluster.as_str(), binding, id), entry);
        let value = view::work_gone(&row);
        let namespace = naming::execution_namespace(cluster.as_str());
        let object = super::made(&self.resource, &namespace, &entry.work, &value, revision)?;
        Ok(Event {
            revision,
            kind: EventKind::Delete,
            previous: Some(object.clone()),
            object,
        })
    }

    /// Stored namespaces as they are; a Cluster's coming and going is that of its execution namespace.
    fn namespaces(&self, events: Vec<Arc<Event>>) -> Vec<Event> {
        let namespace = |cluster: &Object| super::execution_namespace(&self.store, &self.resource, cluster);
        let mut told = Vec::new();
        for event in events {
            if event.object.resource == self.resource {
                told.push(Event::clone(&event));
            } else if event.previous.is_none() || event.kind == EventKind::Delete {
                let Some(object) = namespace(&event.object) else {
                    continue;
                };
                let previous = event.previous.as_deref().and_then(namespace);
                told.push(Event {
                    revision: event.revision,
                    kind: event.kind,
                    object,
                    previous,
                });
            }
        }
        told
    }
}

fn same(a: &Event, b: &Event) -> bool {
    a.revision == b.revision && a.object.name == b.object.name && a.object.namespace == b.object.namespace
}
