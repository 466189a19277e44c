//! create, update and patch.

use super::decode::{self, Validation};
use super::definitions::check_conditional;
use super::encode::Encoder;
use super::negotiate;
use super::ownership::{Applied, check_options};
use super::policies::Policed;
use super::read::encoder;
use super::request::Query;
use super::rules::{is_current, notices, refusal};
use super::source::{self, Served};
use super::{Api, limits};
use crate::clock;
use crate::store::{CommitError, Expect, Object, Op};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use hub_core::access::User;
use hub_core::admission::{self, Part, Target, Updated};
use hub_core::crd;
use hub_core::guard::{self, Wish};
use hub_core::ownership::Tracked;
use hub_core::patch::{self, PatchError};
use hub_core::policy::Operation;
use hub_core::status_error::{Cause, Reason, StatusError};
use hub_core::strict::Findings;
use hub_core::{convert, scale};
use serde_json::Value;
use std::sync::Arc;

/// One write as the client sent it.
pub(super) struct Write<'a> {
    pub(super) verb: &'static str,
    pub(super) served: &'a Served,
    /// Namespace of the path, empty for cluster-scoped objects.
    pub(super) namespace: &'a str,
    pub(super) subresource: Option<&'a str>,
    pub(super) query: &'a Query,
    pub(super) headers: &'a HeaderMap,
    /// As whom the client acts.
    pub(super) user: &'a User,
    pub(super) body: Bytes,
}

/// An answer to a write.
pub(super) struct Done {
    pub(super) code: StatusCode,
    pub(super) body: Bytes,
    pub(super) warnings: Vec<String>,
}

/// What a change leads to, before it is encoded.
pub(super) enum State {
    Stored(Arc<Object>),
    Dry(Value),
}

/// Where a change comes from: a whole object, a patch or an apply.
pub(super) enum Change {
    Whole(Value),
    Patch(PatchKind, Value),
    Apply(Applied),
}

#[derive(Clone, Copy)]
pub(super) enum PatchKind {
    Json,
    Merge,
    Strategic,
    Apply,
}

const CUSTOM_PATCH_TYPES: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

const PATCH_TYPES: &str = "application/json-patch+json, application/merge-patch+json, \
                           application/strategic-merge-patch+json, application/apply-patch+yaml";

fn patch_kind(served: &Served, content_type: Option<&str>) -> Result<PatchKind, StatusError> {
    let media = content_type
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim();
    match media {
        "application/json-patch+json" => Ok(PatchKind::Json),
        "application/merge-patch+json" => Ok(PatchKind::Merge),
        // As for custom resources: a schema that is not built in has no merge keys.
        "application/strategic-merge-patch+json" if served.resource.is_built_in => Ok(PatchKind::Strategic),
        "application/apply-patch+yaml" => Ok(PatchKind::Apply),
        "application/strategic-merge-patch+json" if served.resource.custom.is_some() => {
            Err(negotiate::unsupported(CUSTOM_PATCH_TYPES))
        }
        "application/strategic-merge-patch+json" => Err(negotiate::unsupported(PATCH_TYPES)),
        _ => Err(
            StatusError::new(Reason::UnsupportedMediaType, "415: Unsupported Media Type")
                .with_empty_details(),
        ),
    }
}

impl Write<'_> {
    pub(super) fn target(&self) -> Target<'_> {
        Target {
            resource: &self.served.resource,
            namespace: self.namespace,
            now: clock::wall().0,
        }
    }

    pub(super) fn encoder(&self) -> Result<Encoder, StatusError> {
        let accept = self.headers.get(ACCEPT).and_then(|v| v.to_str().ok());
        encoder(self.served, accept, self.query)
    }

    pub(super) fn validation(&self) -> Result<Validation, StatusError> {
        Validation::parse(self.query.get("fieldValidation"), self.options_kind())
    }

    /// Kind of the options of this write, for messages about them.
    pub(super) fn options_kind(&self) -> &'static str {
        match self.verb {
            "create" => "CreateOptions",
            "patch" => "PatchOptions",
            _ => "UpdateOptions",
        }
    }

    pub(super) fn dry_run(&self) -> Result<bool, StatusError> {
        self.query.dry_run(self.options_kind())
    }

    pub(super) fn part(&self) -> Part {
        match self.subresource {
            Some("status") => Part::Status,
            Some("approval") => Part::Approval,
            Some("finalize") => Part::Finalize,
            _ => Part::Main,
        }
    }

    pub(super) fn is_scale(&self) -> bool {
        self.subresource == Some("scale")
    }

    pub(super) fn done(
        &self,
        code: StatusCode,
        state: State,
        warnings: Vec<String>,
    ) -> Result<Done, StatusError> {
        let body = match state {
            State::Stored(object) if self.is_scale() => {
                Bytes::from(scale::of(&self.served.resource, &object.value()).to_string())
            }
            State::Stored(object) => self.encoder()?.one(&object),
            State::Dry(object) if self.is_scale() => {
                Bytes::from(scale::of(&self.served.resource, &object).to_string())
            }
            State::Dry(object) => Bytes::from(object.to_string()),
        };
        Ok(Done { code, body, warnings })
    }

    pub(super) fn put(&self, name: &str, expect: Expect, mut object: Value) -> Op {
        if let Some(custom) = &self.served.resource.custom {
            custom.to_storage(&mut object);
        }
        Op::Put {
            resource: self.served.id.clone(),
            namespace: self.namespace.to_owned(),
            name: name.to_owned(),
            expect,
            object,
        }
    }

    fn remove(&self, name: &str, expect: Expect) -> Op {
        Op::Delete {
            resource: self.served.id.clone(),
            namespace: self.namespace.to_owned(),
            name: name.to_owned(),
            expect,
        }
    }
}

impl Api {
    /// Answers a create.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(super) async fn create(&self, write: Write<'_>) -> Result<Done, StatusError> {
        let served = write.served;
        write.encoder()?;
        check_options(&write)?;
        let is_dry = write.dry_run()?;
        let mut findings = Findings::default();
        let mut object = decode::parse_as(&served.resource.kind, write.headers, &write.body, &mut findings)?;
        let mut warnings = decode::check(
            self.table,
            &served.resource,
            &mut object,
            findings,
            write.validation()?,
        )?;
        warnings.extend(notices(served));
        self.own(&write, None, &mut object, Tracked::ByItself)?;
        let object = self.mutate_by_policies(&write, "CREATE", object, None)?;
        let mut object = self.admit_policy(&write, Operation::Create, object, None, &mut warnings)?;
        self.admit_access(&write, &mut object)?;
        guard::check(&served.resource, Wish::Create, None, Some(&object))?;
        let is_generated = admission::name_of(&object).is_empty();
        let mut tries = if is_generated { limits::NAME_TRIES } else { 1 };
        loop {
            tries -= 1;
            let mut admitted =
                admission::create(write.target(), object.clone(), &self.new_uid(), &mut || {
                    self.name_suffix()
                })?;
            warnings.extend(admission::warnings(&served.resource, &admitted, None));
            let mut alone = None;
            if crd::is_definition(&served.resource) {
                alone = Some(self.definitions.lock().await);
                self.settle(&mut admitted, None);
            }
            let name = admission::name_of(&admitted).to_owned();
            // Held until the commit is done: a namespace does not end between this look and the write.
            let _open = self.gate.read().await;
            self.check_namespace(served, write.namespace, &name)?;
            self.check_number_of_policies(served, &name)?;
            self.validate_by_policies(
                &Policed::of(&write)?,
                "CREATE",
                Some(&admitted),
                None,
                &mut warnings,
            )?;
            warnings.dedup();
            if is_dry {
                if source::get(&self.store, served, write.namespace, &name)?.is_some() {
                    let resource = &*served.resource;
                    return Err(StatusError::already_exists(
                        &resource.group,
                        &resource.plural,
                        &name,
                    ));
                }
                return write.done(StatusCode::CREATED, State::Dry(admitted), warnings);
            }
            let ops = self.with_furniture(write.put(&name, Expect::Absent, admitted));
            match self.store.commit(ops).await {
                Ok(stored) => {
                    let object = first(stored)?;
                    self.follow_up(served);
                    drop(alone);
                    return write.done(StatusCode::CREATED, State::Stored(object), warnings);
                }
                Err(CommitError::AlreadyExists { .. }) if tries > 0 => {}
                Err(error) => return Err(refusal(served, error)),
            }
        }
    }

    /// Answers an update of the whole object, its status or its scale.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(super) async fn update(&self, write: Write<'_>, name: &str) -> Result<Done, StatusError> {
        check_options(&write)?;
        let mut findings = Findings::default();
        let kind = &write.served.resource.kind;
        let mut object = decode::parse_as(kind, write.headers, &write.body, &mut findings)?;
        let warnings = self.check_body(&write, &mut object, findings)?;
        if !write.is_scale()
            && let Err(refused) = check_conditional(write.served, &object, name)
        {
            // That it is not there at all is said first.
            self.stored(write.served, Wish::Update, write.namespace, name)?;
            return Err(refused);
        }
        self.change(&write, name, &Change::Whole(object), warnings).await
    }

    /// Answers a patch of the object, its status or its scale.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(super) async fn patch(&self, write: Write<'_>, name: &str) -> Result<Done, StatusError> {
        let content_type = write.headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
        let kind = patch_kind(write.served, content_type)?;
        if matches!(kind, PatchKind::Apply) {
            return self.apply(write, name).await;
        }
        check_options(&write)?;
        let mut findings = Findings::default();
        let patch = hub_core::strict::parse(&write.body, &mut findings).map_err(|why| {
            StatusError::bad_request(format!("error decoding patch: {}", decode::go_json(&why)))
        })?;
        let warnings = match write.validation()? {
            Validation::Strict if !findings.is_empty() => {
                let all: Vec<&str> = findings.all().map(String::as_str).collect();
                let text = format!("error decoding patch: strict decoding error: {}", all.join(", "));
                return Err(StatusError::bad_request(text));
            }
            Validation::Warn => findings.all().cloned().collect(),
            Validation::Strict | Validation::Ignore => Vec::new(),
        };
        self.change(&write, name, &Change::Patch(kind, patch), warnings)
            .await
    }

    /// Checks a whole body of a write: the object, or a Scale.
    fn check_body(
        &self,
        write: &Write<'_>,
        object: &mut Value,
        findings: Findings,
    ) -> Result<Vec<String>, StatusError> {
        let validation = write.validation()?;
        if !write.is_scale() {
            return decode::check(self.table, &write.served.resource, object, findings, validation);
        }
        let of = self.scale_type()?;
        decode::check_type(self.table, of, "Scale", "v1", object, findings, validation)
    }

    pub(super) fn scale_type(&self) -> Result<hub_core::types::TypeId, StatusError> {
        let name = "io.k8s.api.autoscaling.v1.Scale";
        self.table
            .type_named(name)
            .ok_or_else(|| StatusError::internal("the type table has no Scale"))
    }

    /// Reads, changes and stores, again if another writer was faster and the client named no version.
    pub(super) async fn change(
        &self,
        write: &Write<'_>,
        name: &str,
        change: &Change,
        mut warnings: Vec<String>,
    ) -> Result<Done, StatusError> {
        let (served, resource) = (write.served, &*write.served.resource);
        write.encoder()?;
        let is_dry = write.dry_run()?;
        warnings.extend(notices(served));
        let wish = match write.part() {
            Part::Status => Wish::UpdateStatus,
            Part::Main | Part::Approval | Part::Finalize => Wish::Update,
        };
        let mut tries = limits::WRITE_TRIES;
        loop {
            tries -= 1;
            let current = self.stored(served, wish, write.namespace, name)?;
            let old = convert::to(resource, current.value());
            let mut found = Vec::new();
            let (new, is_pinned) = self.changed(write, name, &old, change, &mut found)?;
            if revision_given(&new).is_some_and(|given| !is_current(served, &current, given)) {
                return Err(StatusError::stale(&resource.group, &resource.plural, name));
            }
            let new = self.mutate_by_policies(write, "UPDATE", new, Some(&old))?;
            let new = match write.part() {
                Part::Main => self.admit_policy(write, Operation::Update, new, Some(&old), &mut found)?,
                Part::Status | Part::Approval | Part::Finalize => new,
            };
            if write.part() == Part::Approval {
                self.check_approval(served, write.user, &old)?;
            }
            self.access
                .check_escalation(served, write.user, write.namespace, Some(&old), &new)?;
            guard::check(resource, wish, Some(&old), Some(&new))?;
            let mut updated = admission::update(write.target(), &old, new, write.part())?;
            let mut alone = None;
            if let Updated::Changed(object) = &mut updated
                && crd::is_definition(resource)
                && write.part() == Part::Main
            {
                alone = Some(self.definitions.lock().await);
                self.settle(object, Some(&old));
            }
            let after = match &updated {
                Updated::Unchanged => &old,
                Updated::Changed(object) | Updated::Removed(object) => object,
            };
            self.validate_by_policies(
                &Policed::of(write)?,
                "UPDATE",
                Some(after),
                Some(&old),
                &mut found,
            )?;
            found.extend(admission::warnings(resource, after, Some(&old)));
            warnings.extend(found);
            warnings.dedup();
            let expect = Expect::Revision(current.revision);
            let (op, state) = match updated {
                Updated::Unchanged => {
                    let shown = self.shown(served, current)?;
                    return write.done(StatusCode::OK, State::Stored(shown), warnings);
                }
                Updated::Changed(object) if is_dry => {
                    return write.done(StatusCode::OK, State::Dry(object), warnings);
                }
                Updated::Removed(object) if is_dry => {
                    return write.done(StatusCode::OK, State::Dry(object), warnings);
                }
                Updated::Changed(object) => (write.put(name, expect, object), None),
                Updated::Removed(object) => (write.remove(name, expect), Some(object)),
            };
            let was_removal = state.is_some();
            match self.store.commit(vec![op]).await {
                Ok(stored) => {
                    if was_removal {
                        self.poke();
                    }
                    self.follow_up(served);
                    drop(alone);
                    let stored = first(stored)?;
                    if write.part() == Part::Approval
                        && let Err(error) = self.sign_one(&stored).await
                    {
                        // The next look at waiting requests tries again.
                        tracing::warn!(%error, request = name, "the approved request is not signed yet");
                    }
                    let stored = self.shown(served, stored)?;
                    return write.done(
                        StatusCode::OK,
                        state.map_or(State::Stored(stored), State::Dry),
                        warnings,
                    );
                }
                Err(CommitError::Conflict { .. }) if tries > 0 && !is_pinned => {}
                Err(error) => return Err(refusal(served, error)),
            }
        }
    }

    /// The new state that a change asks for, its managedFields included, and whether the client named the version it changes.
    fn changed(
        &self,
        write: &Write<'_>,
        name: &str,
        old: &Value,
        change: &Change,
        warnings: &mut Vec<String>,
    ) -> Result<(Value, bool), StatusError> {
        let base = if write.is_scale() {
            Self::scale_with_owners(write, old)
        } else {
            old.clone()
        };
        let pinned = |value: &Value| value.pointer("/metadata/resourceVersion").is_some();
        let (mut new, is_pinned) = match change {
            Change::Whole(object) => (object.clone(), revision_given(object).is_some()),
            Change::Patch(kind, patch) => {
                let mut new = base.clone();
                self.apply_patch(write, *kind, patch, &mut new)
                    .map_err(|error| patch_refusal(write, name, &error))?;
                (new, pinned(patch))
            }
            Change::Apply(applied) => (self.applied(write, Some(&base), applied)?, applied.is_pinned()),
        };
        match change {
            Change::Whole(_) => {}
            Change::Patch(PatchKind::Json | PatchKind::Merge, _) => {
                let patched = new.clone();
                let checked = self.check_body(write, &mut new, Findings::default());
                warnings.extend(checked.map_err(|error| misfit(&patched, error))?);
            }
            _ => warnings.extend(self.check_body(write, &mut new, Findings::default())?),
        }
        if !matches!(change, Change::Whole(_)) {
            let (given, held) = (uid_of(&new), uid_of(&base));
            if !given.is_empty() && given != held {
                // Upstream checks it twice and says it once.
                let cause = Cause::invalid("metadata.uid", &Value::from(given), "field is immutable");
                let (resource, causes) = (&*write.served.resource, vec![cause.clone(), cause]);
                return Err(StatusError::invalid(
                    &resource.group,
                    &resource.kind,
                    name,
                    causes,
                ));
            }
        }
        if !matches!(change, Change::Apply(_)) {
            let tracked = match write.is_scale() {
                true => Tracked::As(hub_core::ownership::managed(old).is_some()),
                false => Tracked::ByItself,
            };
            self.own(write, Some(&base), &mut new, tracked)?;
        }
        if write.is_scale() {
            check_scale(write.served, name, &new)?;
            new = Self::scaled(write, old, &new);
        }
        Ok((new, is_pinned))
    }

    fn apply_patch(
        &self,
        write: &Write<'_>,
        kind: PatchKind,
        patch: &Value,
        object: &mut Value,
    ) -> Result<(), PatchError> {
        match kind {
            PatchKind::Json => patch::json::apply(object, patch),
            // Handled before: an apply is merged by ownership.
            PatchKind::Apply => Ok(()),
            PatchKind::Merge if !patch.is_object() => Err(PatchError::Malformed(format!(
                "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                hub_core::strict::json_kind(patch)
            ))),
            PatchKind::Merge => {
                patch::merge::apply(object, patch);
                Ok(())
            }
            PatchKind::Strategic => {
                let of = match write.is_scale() {
                    true => self
                        .scale_type()
                        .map_err(|error| PatchError::Malformed(error.message))?,
                    false => write.served.resource.of_type,
                };
                patch::strategic::apply(self.table, of, object, patch)
            }
        }
    }
}

pub(super) fn first(stored: Vec<Arc<Object>>) -> Result<Arc<Object>, StatusError> {
    stored
        .into_iter()
        .next()
        .ok_or_else(|| StatusError::internal("the store answered without the object"))
}

fn revision_given(object: &Value) -> Option<&str> {
    object
        .pointer("/metadata/resourceVersion")
        .and_then(Value::as_str)
        .filter(|r| !r.is_empty())
}

/// A Scale is of its object, and of no fewer than no replicas.
fn check_scale(served: &Served, name: &str, scale: &Value) -> Result<(), StatusError> {
    let given = hub_core::admission::name_of(scale);
    if !given.is_empty() && given != name {
        let text = format!("the name of the object ({given}) does not match the name on the URL ({name})");
        return Err(StatusError::bad_request(text));
    }
    if served.resource.custom.is_some() {
        // Its own rules speak of the field that the replicas come from.
        return Ok(());
    }
    match scale.pointer("/spec/replicas") {
        Some(replicas) if replicas.as_i64().is_some_and(|n| n < 0) => {
            let why = "must be greater than or equal to 0";
            let cause = Cause::invalid("spec.replicas", replicas, why);
            Err(StatusError::invalid("autoscaling", "Scale", name, vec![cause]))
        }
        _ => Ok(()),
    }
}

fn uid_of(object: &Value) -> &str {
    object
        .pointer("/metadata/uid")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// An object that a patch made and that is none of its kind.
fn misfit(patched: &Value, error: StatusError) -> StatusError {
    if error.reason != Reason::BadRequest {
        return error;
    }
    // Without the sentence that a decoder of bodies puts in front.
    let why = match error.message.split_once(" cannot be handled as a ") {
        Some((_, rest)) => rest.split_once(": ").map_or(rest, |(_, why)| why).to_owned(),
        None => error.message,
    };
    let cause = Cause::invalid("patch", &Value::from(patched.to_string()), why);
    let mut refused = StatusError::invalid("", "", "", vec![cause]);
    if let Some(details) = &mut refused.details {
        details.kind.clear();
    }
    refused
}

fn patch_refusal(write: &Write<'_>, name: &str, error: &PatchError) -> StatusError {
    let resource = &*write.served.resource;
    match error {
        PatchError::Malformed(text) => StatusError::bad_request(text.clone()),
        PatchError::TooLarge(text) => StatusError::new(Reason::RequestEntityTooLarge, text.clone()),
        PatchError::Refused => {
            let text = "the server rejected our request due to an error in our request";
            StatusError::new(Reason::Invalid, text).with_empty_details()
        }
        PatchError::Internal(text) => StatusError::new(Reason::Unknown, text.clone()),
        PatchError::DoesNotFit(text) => {
            let cause = Cause {
                reason: "FieldValueInvalid",
                message: text.clone(),
                field: "patch".to_owned(),
            };
            StatusError::invalid(&resource.group, &resource.kind, name, vec![cause])
        }
    }
}
