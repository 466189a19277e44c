//! Objects and fields that are not ours to change: conflicts, take-overs, and fields that the API never changes.

use agent_core::action::Outcome;
use agent_core::adoption;
use agent_core::collide;
use agent_core::effective;
use agent_core::guard::Verb;
use agent_core::live::Live;
use agent_core::record::Origin;
use serde_json::{Value, json};
use shared::ids::ObjectKey;
use shared::owned;
use shared::reason::Reason;
use shared::set::ConflictResolution;

use super::{Applier, Job, Trouble, wall};
use crate::member::api::ApplyMode;
use crate::member::difference::differences;
use crate::member::errors::ApiError;

impl Applier {
    /// Takes a foreign object over, as the policy asks: what will change is noted first, and the fields of tools that
    /// wrote it before become ours, so that the apply removes what the set does not want.
    pub(super) async fn take(&self, job: Job<'_>, observed: Value) -> Result<Outcome, Trouble> {
        let names = adoption::moved_names(&observed);
        let observed = match adoption::moved_managers(&observed) {
            Some(managers) => {
                let patch = json!([
                    {"op": "test", "path": "/metadata/resourceVersion",
                        "value": observed.pointer("/metadata/resourceVersion")},
                    {"op": "replace", "path": "/metadata/managedFields", "value": managers},
                ]);
                match self.api.json_patch(&job.target, &patch).await {
                    Err(e) if e.is_conflict() || e.reason == Reason::Invalid => {
                        let message = "the object changed while it was being taken over; trying again";
                        return Err(Trouble::Refused(Reason::Pending, message.to_owned(), None));
                    }
                    other => other?,
                }
            }
            None => observed,
        };
        // The fields have moved and nothing else has changed: the dry run now also shows what goes.
        let preview = self.preview(&job, &observed).await;
        let desired = effective::marked(job.content.clone(), job.entry, &self.marker, None);
        let api_version = job.target.resource.api_version.clone();
        let blank = self.blank(job.entry, &api_version, Origin::Adopted);
        let from = if names.is_empty() {
            String::new()
        } else {
            format!(" from {}", names.join(", "))
        };
        let what = format!("adopted{from}; {preview}");
        self.force(job, &desired, &observed, blank, &what).await
    }

    /// What a take-over would change, by a dry run.
    pub(super) async fn preview(&self, job: &Job<'_>, observed: &Value) -> String {
        let desired = effective::marked(job.content.clone(), job.entry, &self.marker, None);
        let mode = ApplyMode {
            force: true,
            dry_run: true,
        };
        match self.api.apply(&job.target, &desired, mode).await {
            Ok(applied) => differences(observed, &applied.object),
            Err(e) => format!("the differences cannot be told: {}", e.message),
        }
    }

    /// A change of a field that the API never changes. Only where the template asks for it, and only what we made, is
    /// deleted to be created anew; what holds data never is.
    pub(super) async fn immutable(&self, job: &Job<'_>, error: ApiError, observed: &Value) -> Trouble {
        let key = &job.entry.key;
        let asked = shared::object::annotation(&job.content, owned::RECREATE) == Some("true");
        let uid = observed.pointer("/metadata/uid").and_then(Value::as_str);
        let ours = job
            .record
            .as_ref()
            .filter(|r| r.origin == Origin::Created && Some(r.uid.as_str()) == uid);
        let refused = |why: &str| {
            let message = format!("{}; {why}", error.message);
            Trouble::Refused(Reason::ImmutableField, message, None)
        };
        let record = match (asked, ours) {
            (true, _) if holds_data(key) => {
                return refused("objects of this kind hold data and are never recreated");
            }
            (true, None) => return refused("it was not created by this fleet, so it is not recreated"),
            (false, _) => {
                let hint = format!("annotation {}=true lets the agent recreate it", owned::RECREATE);
                return refused(&hint);
            }
            (true, Some(record)) => record,
        };
        if let Err(message) = self.guard.check(Verb::Delete, key) {
            return refused(&message);
        }
        if let Err(e) = self.api.delete(&job.target, &record.uid).await {
            return e.into();
        }
        let what = format!("deleted to be created anew: {}", error.message);
        if let Err(e) = self.ledger.borrow().note(key, wall(), &what) {
            return e.into();
        }
        Trouble::Refused(
            Reason::AwaitingDeletion,
            "an immutable field changes: it was deleted and is created anew".to_owned(),
            None,
        )
    }

    /// The API refused the object; where an entry of a keyed list stands in the way that others renumbered, it is set
    /// right, and the apply is tried again.
    pub(super) async fn untangle(
        &self,
        job: &Job<'_>,
        error: ApiError,
        desired: &Value,
        observed: &Value,
    ) -> Trouble {
        let Some(patch) = collide::untangled(desired, observed) else {
            return error.into();
        };
        match self.api.json_patch(&job.target, &patch).await {
            Ok(_) => Trouble::Refused(
                Reason::Pending,
                format!(
                    "an entry that others renumbered is set right; trying again ({})",
                    error.message
                ),
                None,
            ),
            // The first refusal says what is wrong.
            Err(_) => error.into(),
        }
    }

    pub(super) async fn conflict(&self, job: Job<'_>, observed: &Value, live: Option<Box<Live>>) -> Trouble {
        let what = self.preview(&job, observed).await;
        let names = adoption::moved_names(observed);
        let what = if names.is_empty() {
            what
        } else {
            let names = names.join(", ");
            format!("{what}; a take-over would also remove what {names} wrote and the set does not name")
        };
        let hint = match job.entry.conflict_resolution {
            ConflictResolution::Abort => "conflictResolution is Abort",
            ConflictResolution::Overwrite => "it is taken over",
        };
        let message =
            format!("an object of this name exists and is not managed by this fleet ({hint}); {what}");
        Trouble::Refused(Reason::Conflict, message, live)
    }
}

/// Kinds whose deletion loses what lives in them.
fn holds_data(key: &ObjectKey) -> bool {
    agent_core::order::is_namespace(key)
        || agent_core::order::is_definition(key)
        || (key.group.is_empty() && matches!(key.kind.as_str(), "PersistentVolume" | "PersistentVolumeClaim"))
}
