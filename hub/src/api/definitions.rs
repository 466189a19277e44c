//! Definitions of custom resources: their status with every write, and their end with everything of their kind.

use super::catalog::definitions_id;
use super::housekeeping::{put, removals};
use super::source::Served;
use super::{Api, limits};
use crate::clock;
use crate::store::{CommitError, Expect, Object, Op};
use hub_core::admission;
use hub_core::crd::status::{self, CLEANUP, NAMES_ACCEPTED, TERMINATING, Taken};
use hub_core::status_error::StatusError;
use serde_json::{Value, json};
use std::sync::Arc;

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

impl Api {
    /// Sets the status of a definition that is about to be stored. [`Api::definitions`] is held until then.
    pub(super) fn settle(&self, definition: &mut Value, old: Option<&Value>) {
        let group = text(definition, "/spec/group").to_owned();
        let mut taken = Taken::default();
        for own in self.table.resources().iter().filter(|r| *r.group == *group) {
            let names = [&own.plural, &own.singular].into_iter().chain(&own.short_names);
            taken.resources.extend(names.map(ToString::to_string));
            taken
                .kinds
                .extend([own.kind.to_string(), format!("{}List", own.kind)]);
        }
        let name = admission::name_of(definition).to_owned();
        for other in self.of_group(&group) {
            if other.name != name {
                taken.add(&other.value());
            }
        }
        status::settle(definition, old, &taken, clock::wall().0);
    }

    fn of_group(&self, group: &str) -> Vec<Arc<Object>> {
        let mut all = self.store.list(&definitions_id(), None).items;
        all.retain(|o| o.name.split_once('.').is_some_and(|(_, of)| of == group));
        all
    }

    /// A new object needs a definition that is there and not ending.
    pub(super) fn check_definition(&self, served: &Served) -> Result<(), StatusError> {
        let resource = &served.resource;
        let Some(custom) = &resource.custom else {
            return Ok(());
        };
        let now = self
            .catalog
            .get(&resource.group, &resource.version, &resource.plural);
        match now
            .as_ref()
            .and_then(|s| s.resource.custom.as_ref())
            .filter(|c| c.uid == custom.uid)
        {
            None => Err(StatusError::no_such_path()),
            Some(now) if now.is_ending => {
                let mut error = StatusError::method_not_allowed();
                error.message =
                    "create not allowed while custom resource definition is terminating".to_owned();
                Err(error)
            }
            Some(_) => Ok(()),
        }
    }

    /// Ends all definitions that can end; whether some remain that cannot yet.
    pub(super) async fn end_definitions(&self) -> bool {
        let mut remain = false;
        for definition in self.store.list(&definitions_id(), None).items {
            if !admission::is_deleting(&definition.value()) {
                continue;
            }
            if let Err(error) = self.end_definition(&definition.name).await {
                tracing::warn!(definition = definition.name, %error, "the definition cannot end yet");
            }
            remain |= self.store.get(&definitions_id(), "", &definition.name).is_some();
        }
        remain
    }

    /// Removes the objects of a definition that is being deleted, then the definition. What finalizers hold is waited for.
    ///
    /// # Errors
    /// The store refuses.
    pub(super) async fn end_definition(&self, name: &str) -> Result<(), StatusError> {
        self.catalog.refresh(&self.store);
        let served = self.catalog.of_definition(name);
        if let Some(served) = &served {
            let objects = self.store.list(&served.id, None).items;
            for chunk in objects.chunks(limits::REMOVALS) {
                match self.store.commit(removals(served, chunk)).await {
                    Ok(_) | Err(CommitError::Conflict { .. } | CommitError::NotFound { .. }) => {}
                    Err(error) => return Err(super::rules::refusal(served, error)),
                }
            }
        }
        // From here on nothing of it is created; what is there now is all there is.
        let closed = self.gate.write().await;
        let remain = served
            .as_ref()
            .map_or(0, |s| self.store.list(&s.id, None).items.len());
        let Some(current) = self.store.get(&definitions_id(), "", name) else {
            return Ok(());
        };
        let old = current.value();
        if !admission::is_deleting(&old) {
            return Ok(());
        }
        let mut object = old.clone();
        let now = clock::wall().0;
        if remain > 0 {
            let why = "CustomResource deletion is in progress";
            status::set_condition(
                &mut object,
                TERMINATING,
                ("True", "InstanceDeletionInProgress", why),
                now,
            );
        } else if let Some(finalizers) = object
            .pointer_mut("/metadata/finalizers")
            .and_then(Value::as_array_mut)
        {
            finalizers.retain(|f| f != CLEANUP);
            // As long as somebody's finalizer holds the definition nothing new is made of it.
            let done = ("True", "InstanceDeletionCompleted", "removed all instances");
            status::set_condition(&mut object, TERMINATING, done, now);
        }
        let expect = Expect::Revision(current.revision);
        let op = if admission::finalizers(&object).is_empty() {
            Op::Delete {
                resource: definitions_id(),
                namespace: String::new(),
                name: name.to_owned(),
                expect,
            }
        } else if object == old {
            return Ok(());
        } else {
            put(&definitions_id(), "", name, expect, object)
        };
        match self.store.commit(vec![op]).await {
            Ok(_) | Err(CommitError::Conflict { .. } | CommitError::NotFound { .. }) => {}
            Err(error) => return Err(StatusError::internal(error)),
        }
        self.catalog.refresh(&self.store);
        drop(closed);
        self.settle_waiting(text(&old, "/spec/group")).await
    }

    /// Grants names that became free to the definitions of a group that wait for them.
    async fn settle_waiting(&self, group: &str) -> Result<(), StatusError> {
        let _alone = self.definitions.lock().await;
        for waiting in self.of_group(group) {
            let old = waiting.value();
            if status::is_true(&old, NAMES_ACCEPTED) {
                continue;
            }
            let mut object = old.clone();
            self.settle(&mut object, Some(&old));
            if object == old {
                continue;
            }
            let op = put(
                &definitions_id(),
                "",
                &waiting.name,
                Expect::Revision(waiting.revision),
                object,
            );
            match self.store.commit(vec![op]).await {
                Ok(_) | Err(CommitError::Conflict { .. } | CommitError::NotFound { .. }) => {}
                Err(error) => return Err(StatusError::internal(error)),
            }
        }
        self.catalog.refresh(&self.store);
        Ok(())
    }
}

/// An update of custom resources and their definitions names the version it changes (source: their strategies do not allow
/// unconditional updates).
pub(super) fn check_conditional(served: &Served, object: &Value, name: &str) -> Result<(), StatusError> {
    let resource = &served.resource;
    let needs = resource.custom.is_some() || hub_core::crd::is_definition(resource);
    if !needs || !text(object, "/metadata/resourceVersion").is_empty() {
        return Ok(());
    }
    let why = "must be specified for an update";
    let cause = hub_core::status_error::Cause::invalid("metadata.resourceVersion", &json!(0), why);
    Err(StatusError::invalid(
        &resource.group,
        &resource.plural,
        name,
        vec![cause],
    ))
}
