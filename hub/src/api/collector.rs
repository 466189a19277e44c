//! The garbage collector's hands: tells `hub-core` what changes and carries out what it decides.

use super::source::Served;
use super::{Api, limits};
use crate::clock;
use crate::store::{CommitError, Event, EventKind, Expect, Object, Op, ResourceId, Revision};
use hub_core::admission::{self, Deleted, Target};
use hub_core::gc::{self, Action, Collector, Item, Key, Owner, OwnerRef, What, World};
use hub_core::timestamp;
use serde_json::{Value, json};

fn id_of(key: &Key) -> ResourceId {
    ResourceId::new(&key.group, &key.plural)
}

fn key_of(object: &Object) -> Key {
    Key {
        group: object.resource.group.to_string(),
        plural: object.resource.resource.to_string(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
    }
}

fn item_of(object: &Object) -> Item {
    Item::read(key_of(object), &object.uid, object.revision.0, &object.value())
}

/// Kinds that the hub makes from others and takes back itself, and its bookkeeping.
fn is_exempt(id: &ResourceId) -> bool {
    matches!(
        &*id.group,
        "work.karmada.io" | "cluster.karmada.io" | "fleet.pinnace.dev"
    )
}

struct Stored<'a>(&'a Api);

impl Stored<'_> {
    fn owner_of(&self, reference: &OwnerRef) -> Option<Served> {
        let (group, version) = reference
            .api_version
            .rsplit_once('/')
            .unwrap_or(("", &reference.api_version));
        self.0.catalog.of_kind(group, version, &reference.kind)
    }
}

impl World for Stored<'_> {
    fn owner(&self, reference: &OwnerRef, namespace: &str) -> Owner {
        let Some(served) = self.owner_of(reference) else {
            return Owner::Unknown;
        };
        if is_exempt(&served.id) {
            return Owner::Unknown;
        }
        let place = if served.resource.namespaced { namespace } else { "" };
        let is_misplaced = served.resource.namespaced && namespace.is_empty();
        if let Some(object) = self.0.store.get(&served.id, place, &reference.name)
            && object.uid == reference.uid
            && !is_misplaced
        {
            return Owner::Present {
                waits: item_of(&object).waits(),
            };
        }
        if is_misplaced {
            // A cluster-scoped object cannot have such an owner: nothing can be said about it.
            return Owner::Unknown;
        }
        let is_elsewhere = served.resource.namespaced
            && self
                .0
                .store
                .list(&served.id, None)
                .items
                .iter()
                .any(|o| o.uid == reference.uid);
        if is_elsewhere {
            Owner::Elsewhere
        } else {
            Owner::Absent
        }
    }

    fn owner_key(&self, reference: &OwnerRef, namespace: &str) -> Option<Key> {
        let served = self.owner_of(reference)?;
        Some(Key {
            group: served.id.group.to_string(),
            plural: served.id.resource.to_string(),
            namespace: if served.resource.namespaced {
                namespace.to_owned()
            } else {
                String::new()
            },
            name: reference.name.clone(),
        })
    }

    fn item(&self, key: &Key) -> Option<Item> {
        let object = self.0.store.get(&id_of(key), &key.namespace, &key.name)?;
        Some(item_of(&object))
    }
}

impl Api {
    /// Collects garbage until the process ends.
    pub(super) async fn collect(&self) {
        loop {
            let (mut collector, from) = self.survey();
            let Ok(mut cursor) = self.store.watch(None, from) else {
                continue;
            };
            loop {
                if collector.is_idle() {
                    match cursor.next().await {
                        Ok(event) => self.notice(&mut collector, &event),
                        // More happened than is kept: everything is looked at again.
                        Err(_compacted) => break,
                    }
                    continue;
                }
                // What has happened by now comes first; without waiting.
                match futures::FutureExt::now_or_never(cursor.next()) {
                    Some(Ok(event)) => {
                        self.notice(&mut collector, &event);
                        continue;
                    }
                    Some(Err(_compacted)) => break,
                    None => {}
                }
                let actions = collector.step(&Stored(self), limits::REMOVALS);
                for action in actions {
                    match self.carry_out(&action).await {
                        Ok(true) => {}
                        Ok(false) => collector.again(action.key),
                        Err(error) => {
                            tracing::warn!(object = action.key.name, %error, "garbage stays");
                            collector.again(action.key);
                            tokio::time::sleep(limits::COLLECTOR_PAUSE).await;
                        }
                    }
                }
            }
        }
    }

    /// Looks at everything that has an owner or waits for its dependents.
    fn survey(&self) -> (Collector, Revision) {
        let mut collector = Collector::default();
        let ids: Vec<ResourceId> = self
            .store
            .resources()
            .into_iter()
            .filter(|id| !is_exempt(id))
            .collect();
        let listings = self.store.list_many(&ids);
        let from = listings
            .first()
            .map_or_else(|| self.store.revision(), |l| l.revision);
        for object in listings.iter().flat_map(|l| &l.items) {
            if gc::may_matter(&object.body) {
                collector.stored(&Stored(self), &item_of(object));
            }
        }
        (collector, from)
    }

    fn notice(&self, collector: &mut Collector, event: &Event) {
        let object = &event.object;
        if is_exempt(&object.resource) {
            return;
        }
        let mattered = event.previous.as_ref().is_some_and(|p| gc::may_matter(&p.body));
        match event.kind {
            EventKind::Put if mattered || gc::may_matter(&object.body) => {
                // Another object under the same name: the one before is gone.
                if let Some(previous) = event.previous.as_ref().filter(|p| p.uid != object.uid) {
                    collector.removed(&Stored(self), &key_of(previous), &previous.uid);
                }
                collector.stored(&Stored(self), &item_of(object));
            }
            EventKind::Put => {}
            EventKind::Delete => collector.removed(&Stored(self), &key_of(object), &object.uid),
        }
    }

    /// Does what was decided; false if the object has changed since.
    async fn carry_out(&self, action: &Action) -> Result<bool, CommitError> {
        let (id, key) = (id_of(&action.key), &action.key);
        let Some(stored) = self.store.get(&id, &key.namespace, &key.name) else {
            return Ok(true);
        };
        let Some(served) = self.catalog.stored(&id) else {
            return Ok(true);
        };
        if stored.revision.0 != action.revision {
            return Ok(false);
        }
        let put = |object: Value| Op::Put {
            resource: id.clone(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            expect: Expect::Revision(stored.revision),
            object,
        };
        let remove = || Op::Delete {
            resource: id.clone(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            expect: Expect::Revision(stored.revision),
        };
        let op = match &action.what {
            What::WarnNamespace(reference) => {
                let event = self.namespace_event(&served, &stored, reference);
                return self.store.commit(vec![event]).await.map(|_| true);
            }
            What::Delete(policy) => {
                let target = Target {
                    resource: &served.resource,
                    namespace: &key.namespace,
                    now: clock::wall().0,
                };
                match admission::delete(target, &stored.value(), Some(*policy)) {
                    Ok(Deleted::Now) => remove(),
                    Ok(Deleted::Waiting(object)) => put(object),
                    // Waits already, or must stay (a protected namespace).
                    Ok(Deleted::AlreadyWaiting) | Err(_) => return Ok(true),
                }
            }
            other => {
                let object = gc::apply(other, stored.value());
                let is_over = admission::is_deleting(&object)
                    && admission::finalizers(&object).is_empty()
                    && !admission::holds_itself(&served.resource, &object);
                if is_over { remove() } else { put(object) }
            }
        };
        match self.store.commit(vec![op]).await {
            Ok(_) => {
                self.poke();
                self.follow_up(&served);
                Ok(true)
            }
            Err(CommitError::Conflict { .. }) => Ok(false),
            Err(CommitError::NotFound { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// The event that tells of an owner in another namespace.
    fn namespace_event(&self, served: &Served, object: &Object, reference: &OwnerRef) -> Op {
        let now = timestamp::format(clock::wall().0);
        let namespace = if object.namespace.is_empty() {
            "default"
        } else {
            &object.namespace
        };
        let name = format!("{}.{}", object.name, self.name_suffix());
        let message = format!(
            "ownerRef [{}/{}, name: {}, uid: {}] does not exist in namespace {:?}",
            reference.api_version, reference.kind, reference.name, reference.uid, object.namespace
        );
        let event = json!({"apiVersion": "v1", "kind": "Event",
            "metadata": {"name": name, "namespace": namespace, "uid": self.new_uid(), "creationTimestamp": now},
            "type": "Warning", "reason": "OwnerRefInvalidNamespace", "message": message, "count": 1,
            "firstTimestamp": now, "lastTimestamp": now, "source": {"component": "garbage-collector-controller"},
            "reportingComponent": "garbage-collector-controller", "reportingInstance": "",
            "involvedObject": {"apiVersion": served.resource.api_version(), "kind": served.resource.kind,
                "name": object.name, "namespace": object.namespace, "uid": object.uid,
                "resourceVersion": object.revision.to_string()}});
        Op::Put {
            resource: ResourceId::new("", "events"),
            namespace: namespace.to_owned(),
            name,
            expect: Expect::Absent,
            object: event,
        }
    }
}
