//! Field ownership in the API: who writes, managedFields of every write, and server-side apply.

use super::decode;
use super::policies::Policed;
use super::rules::refusal;
use super::source;
use super::write::{Change, Done, State, Write, first};
use super::{Api, limits, yaml};
use crate::clock;
use crate::store::{CommitError, Expect};
use http::StatusCode;
use http::header::USER_AGENT;
use hub_core::access::Attributes;
use hub_core::admission::{self, Part};
use hub_core::crd::{self, CustomVersions};
use hub_core::guard::{self, Wish};
use hub_core::ownership::{self, ApplyError, FieldSet, TableVersions, Tracked, Writer};
use hub_core::policy::Operation;
use hub_core::scale;
use hub_core::status_error::{Cause, Details, Reason, StatusError};
use hub_core::strict::{self, Findings};
use serde_json::Value;

/// What is wrong with the manager's name, if anything.
fn check_manager(manager: &str) -> Option<Cause> {
    const MAX: usize = hub_core::limits::MAX_MANAGER_BYTES;
    if manager.len() > MAX {
        return Some(Cause {
            reason: "FieldValueTooLong",
            message: format!("Too long: may not be more than {MAX} bytes"),
            field: "fieldManager".to_owned(),
        });
    }
    let (at, c) = manager.char_indices().find(|(_, c)| c.is_control())?;
    Some(Cause {
        reason: "FieldValueInvalid",
        message: format!(
            "Invalid value: {}: invalid character U+{:04X} (at position {at})",
            quoted(manager),
            u32::from(c)
        ),
        field: "fieldManager".to_owned(),
    })
}

/// A text in quotes as Go writes it.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            c if c.is_ascii_control() && !"\n\r\t".contains(c) => {
                out.push_str(&format!("\\x{:02x}", u32::from(c)))
            }
            c => out.extend(c.escape_debug()),
        }
    }
    out.push('"');
    out
}

/// Refuses `force` and a wrong `fieldManager` where they do not belong.
///
/// # Errors
/// 422.
pub(super) fn check_options(write: &Write<'_>) -> Result<(), StatusError> {
    let mut causes = Vec::new();
    if write.verb == "patch" && write.query.get("force").is_some_and(|f| !f.is_empty()) {
        causes.push(Cause::forbidden(
            "force",
            "may not be specified for non-apply patch",
        ));
    }
    causes.extend(check_manager(write.query.get("fieldManager").unwrap_or_default()));
    if causes.is_empty() {
        return Ok(());
    }
    Err(StatusError::invalid(
        "meta.k8s.io",
        write.options_kind(),
        "",
        causes,
    ))
}

/// An apply as the client sent it.
pub(super) struct Applied {
    config: Value,
    force: bool,
}

impl Applied {
    /// Whether the configuration names the version it was made for.
    pub(super) fn is_pinned(&self) -> bool {
        self.config.pointer("/metadata/resourceVersion").is_some()
    }
}

impl Write<'_> {
    /// The manager of this write.
    fn manager(&self) -> String {
        match self.query.get("fieldManager") {
            Some(given) if !given.is_empty() => given.to_owned(),
            _ => {
                let agent = self.headers.get(USER_AGENT).and_then(|v| v.to_str().ok());
                ownership::manager_of_agent(agent.unwrap_or_default())
            }
        }
    }

    /// What this part of the object leaves alone.
    fn ignored(&self) -> FieldSet {
        ownership::ignored(&self.served.resource, self.subresource.unwrap_or_default())
    }

    /// Who writes this, through what and now.
    fn hand(&self) -> Hand<'_> {
        Hand {
            manager: self.manager(),
            subresource: self.subresource.unwrap_or_default(),
            api_version: self.body_kind().0,
            now: clock::wall().0,
            ignored: self.ignored(),
        }
    }

    /// Version and kind of the body.
    fn body_kind(&self) -> (String, &str) {
        if self.is_scale() {
            ("autoscaling/v1".to_owned(), "Scale")
        } else {
            (self.served.resource.api_version(), &self.served.resource.kind)
        }
    }
}

/// What a [`Writer`] of one write borrows.
struct Hand<'a> {
    manager: String,
    subresource: &'a str,
    api_version: String,
    now: i64,
    ignored: FieldSet,
}

impl Hand<'_> {
    fn writer(&self) -> Writer<'_> {
        Writer {
            manager: &self.manager,
            subresource: self.subresource,
            api_version: &self.api_version,
            now: self.now,
            ignored: &self.ignored,
        }
    }
}

impl Api {
    pub(super) fn versions<'s>(&'s self, write: &'s Write<'_>) -> Result<TableVersions<'s>, StatusError> {
        let only = if write.is_scale() {
            Some(self.scale_type()?)
        } else {
            None
        };
        Ok(TableVersions {
            table: self.table,
            kind: &write.served.resource.kind,
            only,
        })
    }

    /// The versions of a custom resource; its Scale is of the type table.
    pub(super) fn custom_versions<'s>(&'s self, write: &'s Write<'_>) -> Option<CustomVersions<'s>> {
        let resource = &write.served.resource;
        let custom = resource.custom.as_ref().filter(|_| !write.is_scale())?;
        Some(CustomVersions {
            table: self.table,
            metadata: resource.of_type,
            custom,
        })
    }

    /// Sets the managedFields of a new state that is no apply. `live` is none for a create.
    ///
    /// # Errors
    /// 400 if the new state is no object.
    pub(super) fn own(
        &self,
        write: &Write<'_>,
        live: Option<&Value>,
        new: &mut Value,
        tracked: Tracked,
    ) -> Result<(), StatusError> {
        if !write.is_scale() {
            admission::prefill(&write.served.resource, new)?;
        }
        let hand = write.hand();
        let writer = hand.writer();
        let managed = match self.custom_versions(write) {
            Some(versions) => ownership::track(&versions, &writer, live, new, tracked),
            None => ownership::track(&self.versions(write)?, &writer, live, new, tracked),
        };
        ownership::set_managed(new, managed);
        Ok(())
    }

    /// The Scale of an object with its managedFields.
    pub(super) fn scale_with_owners(write: &Write<'_>, object: &Value) -> Value {
        let resource = &write.served.resource;
        let mut scale = scale::of(resource, object);
        let replicas = scale::replicas_path(resource);
        // Entries that cannot be read own nothing.
        let managed = ownership::to_scale(ownership::managed(object), &replicas).unwrap_or_default();
        ownership::set_managed(&mut scale, managed);
        scale
    }

    /// The object after a write of its Scale.
    pub(super) fn scaled(write: &Write<'_>, object: &Value, scale: &Value) -> Value {
        let mut out = object.clone();
        scale::into(&write.served.resource, &mut out, scale);
        let managed = ownership::to_parent(
            ownership::managed(object),
            ownership::managed(scale),
            &scale::replicas_path(&write.served.resource),
            &write.served.resource.api_version(),
        );
        ownership::set_managed(&mut out, managed.unwrap_or_default());
        out
    }

    /// The state after an apply; `live` is none if it creates the object.
    ///
    /// # Errors
    /// What is wrong with the configuration, or 409 with every conflict.
    pub(super) fn applied(
        &self,
        write: &Write<'_>,
        live: Option<&Value>,
        applied: &Applied,
    ) -> Result<Value, StatusError> {
        let hand = write.hand();
        let writer = hand.writer();
        let (config, force) = (&applied.config, applied.force);
        let merged = match self.custom_versions(write) {
            Some(versions) => ownership::apply(&versions, &writer, live, config, force),
            None => ownership::apply(&self.versions(write)?, &writer, live, config, force),
        };
        let merged = merged.map_err(|error| apply_refusal(&error))?;
        let resource = &*write.served.resource;
        if let Some(custom) = resource.custom.as_ref().filter(|_| !write.is_scale()) {
            let keeps_status = write.part() == Part::Status || resource.subresource("status").is_none();
            let causes = custom.refused_nulls(&merged, keeps_status);
            if !causes.is_empty() {
                let name = admission::name_of(&merged);
                return Err(StatusError::invalid(
                    &resource.group,
                    &resource.kind,
                    name,
                    causes,
                ));
            }
        }
        Ok(merged)
    }

    /// Answers a server-side apply.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(super) async fn apply(&self, write: Write<'_>, name: &str) -> Result<Done, StatusError> {
        let mut causes = Vec::new();
        let force = match write.query.get("force") {
            None | Some("") => false,
            Some(word) => !matches!(word, "0" | "false"),
        };
        let manager = write.query.get("fieldManager").unwrap_or_default();
        if manager.is_empty() {
            causes.push(Cause::required("fieldManager", "is required for apply patch"));
        }
        causes.extend(check_manager(manager));
        if !causes.is_empty() {
            return Err(StatusError::invalid("meta.k8s.io", "PatchOptions", "", causes));
        }
        let mut findings = Findings::default();
        let config = parse(&write.body, &mut findings)?;
        check_type(&write, &config)?;
        let mut warnings = Vec::new();
        if !findings.is_empty() {
            let all: Vec<&str> = findings.all().map(String::as_str).collect();
            match write.validation()? {
                decode::Validation::Strict => {
                    let text = format!("error strict decoding YAML: {}", all.join(", "));
                    return Err(StatusError::bad_request(text));
                }
                decode::Validation::Warn => warnings.extend(all.into_iter().map(str::to_owned)),
                decode::Validation::Ignore => {}
            }
        }
        let change = Change::Apply(Applied { config, force });
        for _ in 0..limits::WRITE_TRIES {
            let Change::Apply(applied) = &change else { break };
            let is_there = source::get(&self.store, write.served, write.namespace, name)?.is_some();
            if is_there || write.subresource.is_some() {
                match self.change(&write, name, &change, warnings.clone()).await {
                    // Removed since: the apply makes it anew.
                    Err(error) if error.code() == 404 && write.subresource.is_none() => {}
                    answer => return answer,
                }
                continue;
            }
            if let Some(done) = self.create_by_apply(&write, name, applied, &warnings).await? {
                return Ok(done);
            }
        }
        let resource = &*write.served.resource;
        Err(StatusError::stale(&resource.group, &resource.plural, name))
    }

    /// Makes the object that an apply describes; `None` if another writer was faster.
    async fn create_by_apply(
        &self,
        write: &Write<'_>,
        name: &str,
        applied: &Applied,
        warnings: &[String],
    ) -> Result<Option<Done>, StatusError> {
        let (served, resource) = (write.served, &*write.served.resource);
        let is_dry = write.dry_run()?;
        let mut warnings = warnings.to_vec();
        let text = |pointer: &str| {
            let value = applied.config.pointer(pointer).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        let uid = text("/metadata/uid");
        if !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(StatusError::conflict(
                &resource.group,
                &resource.plural,
                name,
                why,
            ));
        }
        let mut object = self.applied(write, None, applied)?;
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            // It says nothing about an object that is not there.
            metadata.remove("resourceVersion");
        }
        match admission::name_of(&object) {
            "" => {
                let text = format!(
                    "the name of the object ({name} based on URL) was undeterminable: name must be provided"
                );
                return Err(StatusError::bad_request(text));
            }
            given if given != name => {
                let text =
                    format!("the name of the object ({given}) does not match the name on the URL ({name})");
                return Err(StatusError::bad_request(text));
            }
            _ => {}
        }
        admission::prefill(resource, &mut object)?;
        warnings.extend(decode::check(
            self.table,
            resource,
            &mut object,
            Findings::default(),
            write.validation()?,
        )?);
        let object = self.mutate_by_policies(write, "CREATE", object, None)?;
        let mut object = self.admit_policy(write, Operation::Create, object, None, &mut warnings)?;
        let wish = Attributes::resource("create", &resource.group, &resource.plural, write.namespace, name);
        self.access.demand(write.user, &wish)?;
        self.admit_access(write, &mut object)?;
        guard::check(resource, Wish::Create, None, Some(&object))?;
        let mut admitted = admission::create(write.target(), object, &self.new_uid(), &mut || {
            self.name_suffix()
        })?;
        warnings.extend(admission::warnings(resource, &admitted, None));
        let mut alone = None;
        if crd::is_definition(resource) {
            alone = Some(self.definitions.lock().await);
            self.settle(&mut admitted, None);
        }
        let _open = self.gate.read().await;
        self.check_namespace(served, write.namespace, name)?;
        self.check_number_of_policies(served, name)?;
        self.validate_by_policies(
            &Policed::of(write)?,
            "CREATE",
            Some(&admitted),
            None,
            &mut warnings,
        )?;
        if is_dry {
            return write
                .done(StatusCode::CREATED, State::Dry(admitted), warnings)
                .map(Some);
        }
        match self
            .store
            .commit(self.with_furniture(write.put(name, Expect::Absent, admitted)))
            .await
        {
            Ok(stored) => {
                let object = first(stored)?;
                self.follow_up(served);
                drop(alone);
                write
                    .done(StatusCode::CREATED, State::Stored(object), warnings)
                    .map(Some)
            }
            Err(CommitError::AlreadyExists { .. }) => Ok(None),
            Err(error) => Err(refusal(served, error)),
        }
    }
}

/// Reads the body of an apply: YAML, of which JSON is the most usual kind.
fn parse(body: &[u8], findings: &mut Findings) -> Result<Value, StatusError> {
    let mut of_json = Findings::default();
    let config = match strict::parse(body, &mut of_json) {
        Ok(config) => {
            *findings = of_json;
            config
        }
        Err(_) => {
            let text = std::str::from_utf8(body).map_err(|why| why.to_string());
            let read =
                text.and_then(|text| yaml::read(text).map_err(|why| why.without_snippet().to_string()));
            let read = read.map_err(|why| StatusError::bad_request(format!("error decoding YAML: {why}")))?;
            let duplicate = read.duplicate;
            findings
                .duplicate
                .extend(duplicate.map(|what| format!("error converting YAML to JSON: {what}")));
            read.value
        }
    };
    if config.is_object() {
        Ok(config)
    } else {
        Err(StatusError::bad_request(
            "error decoding YAML: the configuration is not an object",
        ))
    }
}

/// The configuration says of what kind it is, and it is that of the path.
fn check_type(write: &Write<'_>, config: &Value) -> Result<(), StatusError> {
    let text = |key: &str| config.get(key).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = write.body_kind();
    if text("apiVersion") == api_version && text("kind") == kind {
        return Ok(());
    }
    let (group, version) = match text("apiVersion").split_once('/') {
        Some((group, version)) => (group, version),
        None => ("", text("apiVersion")),
    };
    Err(StatusError::bad_request(format!(
        "invalid object type: {group}/{version}, Kind={}",
        text("kind")
    )))
}

fn apply_refusal(error: &ApplyError) -> StatusError {
    let message = error.to_string();
    match error {
        ApplyError::ManagedFields => StatusError::bad_request(message),
        ApplyError::Schema(_) | ApplyError::Entries(_) => StatusError::new(Reason::Unknown, message),
        ApplyError::Conflicts(conflicts) => {
            let causes = conflicts.iter().map(|c| Cause {
                reason: "FieldManagerConflict",
                message: format!("conflict with {}", c.owner.describe()),
                field: c.path.clone(),
            });
            let mut refused = StatusError::new(Reason::Conflict, message);
            refused.details = Some(Box::new(Details {
                causes: causes.collect(),
                ..Details::default()
            }));
            refused
        }
    }
}
