//! What the API does by itself: the namespaces every cluster has and what is in them, the end of namespaces that were deleted, and the
//! removal of old events. On a timer and on a poke; it takes no input, so a restart goes on where it was.

use super::source::Served;
use super::{Api, limits, namespace_id};
use crate::clock;
use crate::store::{CommitError, Expect, Object, Op, ResourceId, Revision};
use hub_core::admission::ending::{self, Remaining};
use hub_core::admission::{self, Deleted, Target};
use hub_core::status_error::StatusError;
use hub_core::timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// Namespaces that a cluster has from the start.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Kinds that the hub makes from others and takes back itself when those go.
fn is_derived(id: &ResourceId) -> bool {
    &*id.group == "work.karmada.io"
}

impl Api {
    /// Makes the namespaces that a cluster has from the start. One that exists is left alone.
    ///
    /// # Errors
    /// The store refuses.
    pub async fn bootstrap(&self) -> Result<(), CommitError> {
        let Some(served) = self.catalog.get("", "v1", "namespaces") else {
            return Ok(());
        };
        for name in NAMESPACES {
            let target = Target {
                resource: &served.resource,
                namespace: "",
                now: clock::wall().0,
            };
            let made = admission::create(
                target,
                admission::new_namespace(name),
                &self.new_uid(),
                &mut String::new,
            );
            let Ok(object) = made else { continue };
            match self
                .store
                .commit(vec![put(&served.id, "", name, Expect::Absent, object)])
                .await
            {
                Ok(_) | Err(CommitError::AlreadyExists { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.bootstrap_roles().await?;
        self.furnish_namespaces().await?;
        self.bootstrap_service().await?;
        self.aggregate_roles().await
    }

    /// Does what the API does by itself until the process ends.
    pub async fn run(self: Arc<Api>) {
        futures::join!(self.keep_house(), self.access.run(), self.collect());
    }

    async fn keep_house(&self) {
        let mut events_at = Instant::now();
        let mut mended = Revision(0);
        loop {
            let seen = self.store.revision();
            let is_ending = self.end_definitions().await | self.end_namespaces().await;
            for (what, done) in [
                ("roles are not gathered", self.aggregate_roles().await),
                ("signing requests wait", self.sign_waiting().await),
                ("namespaces lack their account", self.furnish_namespaces().await),
                ("the CA of a namespace is wrong", self.mend_root_cas(mended).await),
            ] {
                if let Err(error) = done {
                    tracing::warn!(%error, "{what}");
                }
            }
            mended = seen;
            if events_at <= Instant::now() {
                events_at = Instant::now() + limits::OLD_EVENTS_EVERY;
                if let Err(error) = self.remove_old_events().await {
                    tracing::warn!(%error, "old events stay");
                }
            }
            tokio::select! {
                () = self.pokes.notified() => {}
                () = self.something_changed(seen), if is_ending => {}
                () = tokio::time::sleep(limits::HOUSEKEEPING) => {}
            }
        }
    }

    /// Ends all namespaces that can end; whether some remain that cannot yet.
    async fn end_namespaces(&self) -> bool {
        let mut remain = false;
        for namespace in self.store.list(&namespace_id(), None).items {
            if !admission::is_deleting(&namespace.value()) {
                continue;
            }
            if let Err(error) = self.end_namespace(&namespace.name).await {
                tracing::warn!(namespace = namespace.name, %error, "the namespace cannot end yet");
            }
            remain |= self.store.get(&namespace_id(), "", &namespace.name).is_some();
        }
        remain
    }

    /// Comes back when something was written after a revision: what a namespace waits for may be gone.
    async fn something_changed(&self, seen: Revision) {
        tokio::time::sleep(limits::HOUSEKEEPING_PAUSE).await;
        if let Ok(mut cursor) = self.store.watch(None, seen) {
            // Compacted means that very much changed.
            let _changed = cursor.next().await;
        }
    }

    /// Removes the content of a namespace, then the namespace. What finalizers or the hub itself hold is waited for.
    async fn end_namespace(&self, namespace: &str) -> Result<(), StatusError> {
        let mut failure = None;
        let mut content = self.content(namespace);
        content
            .sort_by_key(|(served, _)| !ending::goes_first(&served.resource.group, &served.resource.plural));
        for (served, objects) in content {
            if is_derived(&served.id) {
                continue;
            }
            let goes_first = ending::goes_first(&served.resource.group, &served.resource.plural);
            if let Err(error) = self.remove_all(&served, &objects).await {
                failure.get_or_insert(error);
            }
            if goes_first && !self.store.list(&served.id, Some(namespace)).items.is_empty() {
                break;
            }
        }
        // From here on nothing is created in it; what is there now is all there is.
        let _closed = self.gate.write().await;
        let remaining = remaining(&self.content(namespace));
        let Some(current) = self.store.get(&namespace_id(), "", namespace) else {
            return Ok(());
        };
        let old = current.value();
        let why = failure.as_ref().map(|f| f.message.as_str());
        let mut object = ending::with_conditions(old.clone(), &remaining, why, clock::wall().0);
        let expect = Expect::Revision(current.revision);
        let finalizers = ending::finalizers_left(&object);
        if remaining.is_empty()
            && let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
        {
            spec.insert("finalizers".to_owned(), json!(finalizers));
        }
        let is_over =
            remaining.is_empty() && finalizers.is_empty() && admission::finalizers(&object).is_empty();
        let op = if is_over {
            Op::Delete {
                resource: namespace_id(),
                namespace: String::new(),
                name: namespace.to_owned(),
                expect,
            }
        } else {
            if object == old {
                return failure.map_or(Ok(()), Err);
            }
            put(&namespace_id(), "", namespace, expect, object)
        };
        match self.store.commit(vec![op]).await {
            Ok(_) | Err(CommitError::Conflict { .. } | CommitError::NotFound { .. }) => {
                failure.map_or(Ok(()), Err)
            }
            Err(error) => Err(StatusError::internal(error)),
        }
    }

    async fn remove_all(&self, served: &Served, objects: &[Arc<Object>]) -> Result<(), StatusError> {
        for chunk in objects.chunks(limits::REMOVALS) {
            match self.store.commit(removals(served, chunk)).await {
                Ok(_) | Err(CommitError::Conflict { .. } | CommitError::NotFound { .. }) => {}
                Err(error) => return Err(super::rules::refusal(served, error)),
            }
        }
        Ok(())
    }

    /// All stored objects of a namespace.
    fn content(&self, namespace: &str) -> Vec<(Served, Vec<Arc<Object>>)> {
        let resources = self
            .store
            .resources()
            .into_iter()
            .filter_map(|id| self.catalog.stored(&id));
        resources
            .filter(|served| served.resource.namespaced)
            .map(|served| (served.clone(), self.store.list(&served.id, Some(namespace)).items))
            .filter(|(_, objects)| !objects.is_empty())
            .collect()
    }

    async fn remove_old_events(&self) -> Result<(), CommitError> {
        let id = ResourceId::new("", "events");
        let oldest = clock::wall().0 - limits::EVENT_LIFE_SECONDS;
        let events = self.store.list(&id, None).items;
        let old: Vec<&Arc<Object>> = events.iter().filter(|e| last_seen(&e.value()) < oldest).collect();
        for chunk in old.chunks(limits::REMOVALS) {
            let ops = chunk.iter().map(|o| Op::Delete {
                resource: id.clone(),
                namespace: o.namespace.clone(),
                name: o.name.clone(),
                expect: Expect::Revision(o.revision),
            });
            match self.store.commit(ops.collect()).await {
                Ok(_) | Err(CommitError::Conflict { .. } | CommitError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// What is left of each resource.
fn remaining(content: &[(Served, Vec<Arc<Object>>)]) -> Vec<Remaining> {
    content
        .iter()
        .map(|(served, objects)| {
            let mut finalizers = BTreeMap::new();
            for object in objects {
                for finalizer in admission::finalizers(&object.value()) {
                    *finalizers.entry(finalizer.to_owned()).or_default() += 1;
                }
            }
            Remaining {
                resource: format!("{}.{}", served.resource.plural, served.resource.group),
                objects: objects.len(),
                finalizers,
            }
        })
        .collect()
}

/// When an event last happened; one that does not say is as old as its object.
fn last_seen(event: &Value) -> i64 {
    let pointers = [
        "/series/lastObservedTime",
        "/lastTimestamp",
        "/deprecatedLastTimestamp",
        "/eventTime",
        "/metadata/creationTimestamp",
    ];
    let times = pointers
        .iter()
        .filter_map(|p| timestamp::parse(event.pointer(p)?.as_str()?));
    times.max().unwrap_or(i64::MAX)
}

/// The removal of objects: at once, or by the finalizers that hold them.
pub(super) fn removals(served: &Served, objects: &[Arc<Object>]) -> Vec<Op> {
    objects.iter().filter_map(|o| removal(served, o)).collect()
}

pub(super) fn put(id: &ResourceId, namespace: &str, name: &str, expect: Expect, object: Value) -> Op {
    Op::Put {
        resource: id.clone(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        expect,
        object,
    }
}

fn removal(served: &Served, object: &Object) -> Option<Op> {
    let target = Target {
        resource: &served.resource,
        namespace: &object.namespace,
        now: clock::wall().0,
    };
    let expect = Expect::Revision(object.revision);
    match admission::delete(target, &object.value(), None).ok()? {
        Deleted::AlreadyWaiting => None,
        Deleted::Now => Some(Op::Delete {
            resource: served.id.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            expect,
        }),
        Deleted::Waiting(value) => Some(put(&served.id, &object.namespace, &object.name, expect, value)),
    }
}
