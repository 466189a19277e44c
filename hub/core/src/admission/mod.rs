//! What the API server itself decides about a write: names, system metadata, generations, immutable fields, finalizers,
//! and the few kinds with rules of their own. No clock and no randomness: time, uid and name suffix are passed in.
//! Rules follow the registries of the Kubernetes API server; a template is stored as sent, defaults are not filled in.

pub mod ending;
mod immutable;
mod kinds;
mod metadata;
mod roles;
mod subresources;
mod zero;

pub use kinds::{holds_itself, is_protected_namespace, new_namespace};
pub(crate) use metadata::check_embedded as check_embedded_metadata;
pub use metadata::check_preconditions;

use crate::admission_policy;
use crate::crd::{self, Written};
use crate::gc::Propagation;
use crate::status_error::{Cause, Reason, StatusError};
use crate::timestamp;
use crate::types::{Resource, TypeTable};
use serde_json::{Map, Value, json};

/// Namespace label that every namespace carries.
pub const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Where a write goes and when.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The resource of the path.
    pub resource: &'a Resource,
    /// Namespace of the path, empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// Seconds since 1970.
    pub now: i64,
}

/// Which part of an object a write may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The object without its status (if that is a subresource).
    Main,
    /// The status alone.
    Status,
    /// The verdict on a CertificateSigningRequest: conditions, never the certificate.
    Approval,
    /// `spec.finalizers` of a Namespace.
    Finalize,
}

/// Outcome of an update.
#[derive(Debug, Clone, PartialEq)]
pub enum Updated {
    /// Nothing changes: no write, no new revision, no event.
    Unchanged,
    /// Store this.
    Changed(Value),
    /// The last finalizer of an object being deleted is gone: remove it; this is its last state.
    Removed(Value),
}

/// Outcome of a deletion.
#[derive(Debug, Clone, PartialEq)]
pub enum Deleted {
    /// Remove it now.
    Now,
    /// Store this: finalizers, or a namespace's content, hold it.
    Waiting(Value),
    /// It waits already; nothing to store.
    AlreadyWaiting,
}

impl Target<'_> {
    fn invalid(&self, name: &str, causes: Vec<Cause>) -> StatusError {
        StatusError::invalid(&self.resource.group, &self.resource.kind, name, causes)
    }

    fn conflict(&self, name: &str, why: &str) -> StatusError {
        StatusError::conflict(&self.resource.group, &self.resource.plural, name, why)
    }
}

/// Whether the status of a kind is written through its subresource only.
fn has_status(resource: &Resource) -> bool {
    resource.subresource("status").is_some()
}

/// Whether objects of a resource count their generations.
pub fn has_generation(resource: &Resource) -> bool {
    match (&*resource.group, &*resource.plural) {
        ("", plural) => matches!(
            plural,
            "pods" | "podtemplates" | "services" | "replicationcontrollers"
        ),
        ("apps", plural) => plural != "controllerrevisions",
        (
            "rbac.authorization.k8s.io" | "coordination.k8s.io" | "events.k8s.io" | "certificates.k8s.io",
            _,
        ) => false,
        ("storage.k8s.io" | "node.k8s.io" | "autoscaling", _) => false,
        _ => true,
    }
}

/// Sets and checks apiVersion and kind of a body.
///
/// # Errors
/// 400 if the body says it is something else.
pub fn check_kind(resource: &Resource, object: &mut Value) -> Result<(), StatusError> {
    let Value::Object(members) = object else {
        return Err(StatusError::bad_request(
            "the body of the request is not a JSON object",
        ));
    };
    let expected = resource.api_version();
    if resource.custom.is_some() {
        check_custom_kind(resource, members)?;
    }
    match members.get("kind").and_then(Value::as_str) {
        None | Some("") => {
            members.insert("kind".to_owned(), json!(resource.kind));
        }
        Some(kind) if kind != &*resource.kind => {
            let given = members
                .get("apiVersion")
                .and_then(Value::as_str)
                .unwrap_or_default();
            let given = if given.is_empty() { &expected } else { given };
            return Err(StatusError::bad_request(other_kind(resource, given, kind)));
        }
        Some(_) => {}
    }
    match members.get("apiVersion").and_then(Value::as_str) {
        None | Some("") => {
            members.insert("apiVersion".to_owned(), json!(expected));
        }
        Some(version) if version != expected => {
            return Err(StatusError::bad_request(other_kind(
                resource,
                version,
                &resource.kind,
            )));
        }
        Some(_) => {}
    }
    Ok(())
}

/// Custom resources are decoded whatever they say they are, so it is told later and in other words.
fn check_custom_kind(resource: &Resource, members: &Map<String, Value>) -> Result<(), StatusError> {
    let text = |key: &str| members.get(key).and_then(Value::as_str).unwrap_or_default();
    let (expected, version) = (resource.api_version(), text("apiVersion"));
    if !version.is_empty() && version != expected {
        return Err(StatusError::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({expected})"
        )));
    }
    let kind = text("kind");
    if kind.is_empty() || kind == &*resource.kind {
        return Ok(());
    }
    let why = format!("must be {}", resource.kind);
    let cause = Cause::invalid("kind", &json!(kind), why);
    let metadata = members.get("metadata").and_then(|m| m.get("name"));
    let name = metadata.and_then(Value::as_str).unwrap_or_default();
    Err(StatusError::invalid(&resource.group, kind, name, vec![cause]))
}

/// Warnings about a new state of an object.
pub fn warnings(resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<String> {
    if resource.custom.is_none() {
        return Vec::new();
    }
    metadata::finalizer_warnings(object, old)
}

/// What Go's decoder says about a body of another kind or version.
fn other_kind(resource: &Resource, api_version: &str, kind: &str) -> String {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let why = if TypeTable::built_in().type_of_kind(group, version, kind).is_some() {
        let internal = |group: &str| match group.split('.').next() {
            None | Some("") => "core".to_owned(),
            Some(first) => first.to_owned(),
        };
        let into = internal(&resource.group);
        format!(
            "converting ({version}.{kind}) to ({into}.{}): unknown conversion",
            resource.kind
        )
    } else {
        format!(
            "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\""
        )
    };
    format!(
        "{kind} in version {version:?} cannot be handled as a {}: {why}",
        resource.kind
    )
}

/// `metadata` of an object as a map, made if absent.
fn metadata_mut(object: &mut Value) -> Result<&mut Map<String, Value>, StatusError> {
    let members = object
        .as_object_mut()
        .ok_or_else(|| StatusError::bad_request("the body is not a JSON object"))?;
    let metadata = members
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    metadata
        .as_object_mut()
        .ok_or_else(|| StatusError::bad_request("metadata is not a JSON object"))
}

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// `metadata.name`.
pub fn name_of(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// Finalizers that hold the object.
pub fn finalizers(object: &Value) -> Vec<&str> {
    let list = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Whether the object is being deleted.
pub fn is_deleting(object: &Value) -> bool {
    object
        .pointer("/metadata/deletionTimestamp")
        .is_some_and(|v| !v.is_null())
}

/// Makes a new object ready to be stored. `suffix` gives five random letters for `generateName`.
///
/// # Errors
/// 400 for metadata that contradicts the path, 422 for fields that break a rule.
pub fn create(
    target: Target<'_>,
    mut object: Value,
    uid: &str,
    suffix: &mut dyn FnMut() -> String,
) -> Result<Value, StatusError> {
    let resource = target.resource;
    check_kind(resource, &mut object)?;
    if !text(&object, "/metadata/resourceVersion").is_empty() {
        // Upstream's storage refuses it, without a reason.
        return Err(StatusError::new(
            Reason::Unknown,
            "resourceVersion should not be set on objects to be created",
        ));
    }
    metadata::set_namespace(target, &mut object)?;
    let metadata = metadata_mut(&mut object)?;
    metadata::generate_name(metadata, suffix);
    for key in [
        "selfLink",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "resourceVersion",
    ] {
        metadata.remove(key);
    }
    metadata.insert("uid".to_owned(), json!(uid));
    metadata.insert(
        "creationTimestamp".to_owned(),
        json!(timestamp::format(target.now)),
    );
    metadata.remove("generation");
    if has_generation(resource) {
        metadata.insert("generation".to_owned(), json!(1));
    }
    // A kubelet registers its Node with a status (source: the Node strategy, the only one that keeps it).
    let keeps_status =
        resource.group.is_empty() && &*resource.plural == "nodes" && object.get("status").is_some();
    if has_status(resource)
        && !keeps_status
        && let Some(members) = object.as_object_mut()
    {
        members.remove("status");
        if resource.is_built_in
            && let Some(status) = zero::status(TypeTable::built_in(), resource)
        {
            members.insert("status".to_owned(), status);
        }
    }
    kinds::create(resource, &mut object)?;
    let causes = check(target, &object, None, Part::Main);
    if causes.is_empty() {
        Ok(object)
    } else {
        Err(target.invalid(name_of(&object), causes))
    }
}

/// Fills in what the API server's decoder fills in before anyone owns a field: the namespace's own label, the folded
/// `stringData` and the type of a Secret.
///
/// # Errors
/// 400 if the body is no object.
pub fn prefill(resource: &Resource, object: &mut Value) -> Result<(), StatusError> {
    kinds::update(resource, object)
}

fn check(target: Target<'_>, object: &Value, old: Option<&Value>, part: Part) -> Vec<Cause> {
    let mut causes = metadata::check(target.resource, object);
    if crd::is_definition(target.resource) && part == Part::Main {
        causes.extend(crd::definition::check(object, old));
    }
    if let Some(custom) = &target.resource.custom {
        let written = if part == Part::Status {
            Written::Status
        } else {
            Written::Whole
        };
        causes.extend(custom.check(object, old, written));
    }
    causes.extend(kinds::check(target.resource, object));
    causes.extend(roles::check(target.resource, object));
    causes.extend(admission_policy::check_stored(target.resource, object));
    causes
}

/// Makes an update ready to be stored. The caller compares resource versions.
///
/// # Errors
/// 400 for metadata that contradicts the path, 409 for another uid, 422 for fields that break a rule.
pub fn update(target: Target<'_>, old: &Value, mut new: Value, part: Part) -> Result<Updated, StatusError> {
    let resource = target.resource;
    let name = name_of(old).to_owned();
    check_kind(resource, &mut new)?;
    metadata::set_namespace(target, &mut new)?;
    let metadata = metadata_mut(&mut new)?;
    match metadata.get("name").and_then(Value::as_str).unwrap_or_default() {
        "" => {
            metadata.insert("name".to_owned(), json!(name));
        }
        given if given != name => {
            let text =
                format!("the name of the object ({given}) does not match the name on the URL ({name})");
            return Err(StatusError::bad_request(text));
        }
        _ => {}
    }
    let uid = text(old, "/metadata/uid");
    let given = metadata.get("uid").and_then(Value::as_str).unwrap_or_default();
    if !given.is_empty() && given != uid {
        let why = format!("Precondition failed: UID in precondition: {given}, UID in object meta: {uid}");
        return Err(target.conflict(&name, &why));
    }
    let mut new = match part {
        Part::Main => main_part(resource, old, new)?,
        Part::Status => subresources::status(resource, old, &new),
        Part::Approval => subresources::approval(old, &new, target.now),
        Part::Finalize => subresources::finalize(old, &new),
    };
    kinds::update(resource, &mut new)?;
    let mut causes = check(target, &new, Some(old), part);
    if part == Part::Main {
        causes.extend(metadata::check_finalizers(old, &new));
        causes.extend(immutable::check(resource, old, &new));
    }
    if !causes.is_empty() {
        return Err(target.invalid(&name, causes));
    }
    if same(old, &new) {
        return Ok(Updated::Unchanged);
    }
    if part == Part::Main && has_generation(resource) && !same_spec(resource, old, &new) {
        raise_generation(&mut new)?;
    }
    if is_deleting(&new) && finalizers(&new).is_empty() && !kinds::holds_itself(resource, &new) {
        return Ok(Updated::Removed(new));
    }
    Ok(Updated::Changed(new))
}

/// The new object with what belongs to the server kept from the old one.
fn main_part(resource: &Resource, old: &Value, mut new: Value) -> Result<Value, StatusError> {
    let metadata = metadata_mut(&mut new)?;
    metadata.remove("selfLink");
    let keys = [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
    ];
    for key in keys {
        keep(metadata, old.pointer("/metadata").and_then(|m| m.get(key)), key);
    }
    if has_status(resource)
        && let Some(members) = new.as_object_mut()
    {
        keep(members, old.get("status"), "status");
    }
    Ok(new)
}

fn keep(members: &mut Map<String, Value>, old: Option<&Value>, key: &str) {
    match old {
        Some(value) => members.insert(key.to_owned(), value.clone()),
        None => members.remove(key),
    };
}

/// Equal but for the resource version, which the store sets, and the times at which fields were taken.
fn same(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else {
        return false;
    };
    let metadata = |m: &Map<String, Value>| {
        let mut metadata = m
            .get("metadata")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        metadata.remove("resourceVersion");
        let entries = metadata.get_mut("managedFields").and_then(Value::as_array_mut);
        for entry in entries.into_iter().flatten() {
            if let Some(entry) = entry.as_object_mut() {
                entry.remove("time");
            }
        }
        metadata
    };
    old.len() == new.len()
        && old
            .iter()
            .all(|(key, value)| key == "metadata" || new.get(key) == Some(value))
        && metadata(old) == metadata(new)
}

/// Equal outside metadata and status.
fn same_spec(resource: &Resource, old: &Value, new: &Value) -> bool {
    let counted =
        |key: &str| key != "metadata" && key != "apiVersion" && !(key == "status" && has_status(resource));
    let part = |value: &Value| -> Map<String, Value> {
        let members = value.as_object().into_iter().flatten();
        members
            .filter(|(key, _)| counted(key))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect()
    };
    part(old) == part(new)
}

fn raise_generation(object: &mut Value) -> Result<(), StatusError> {
    let metadata = metadata_mut(object)?;
    let generation = metadata.get("generation").and_then(Value::as_i64).unwrap_or(0) + 1;
    metadata.insert("generation".to_owned(), json!(generation));
    Ok(())
}

/// Label by which a user protects an object from deletion; the value is `Always`.
pub const DELETION_PROTECTED_LABEL: &str = "resourcetemplate.karmada.io/deletion-protected";

/// Is the object protected from deletion by its label?
pub fn is_protected_from_deletion(object: &Value) -> bool {
    object["metadata"]["labels"][DELETION_PROTECTED_LABEL] == "Always"
}

/// Decides a deletion; `propagation` says what becomes of the dependents.
///
/// # Errors
/// 403 for objects that must stay.
pub fn delete(
    target: Target<'_>,
    old: &Value,
    propagation: Option<Propagation>,
) -> Result<Deleted, StatusError> {
    let resource = target.resource;
    if is_protected_from_deletion(old) {
        let why = format!(
            "the label {DELETION_PROTECTED_LABEL}=Always protects it (metadata.labels); take the label off first"
        );
        return Err(StatusError::forbidden(
            &resource.group,
            &resource.plural,
            name_of(old),
            why,
        ));
    }
    kinds::delete(resource, old)?;
    let present = finalizers(old);
    let mut wanted = Propagation::finalizers(propagation, &present);
    let cleanup = crd::status::CLEANUP;
    if crd::is_definition(resource) && !is_deleting(old) && !wanted.iter().any(|f| f == cleanup) {
        // It waits for its objects.
        wanted.push(cleanup.to_owned());
    }
    let waits = !wanted.is_empty() || kinds::holds_itself(resource, old);
    if !waits {
        return Ok(Deleted::Now);
    }
    let changes = wanted != present;
    if is_deleting(old) && !changes {
        return Ok(Deleted::AlreadyWaiting);
    }
    let mut object = old.clone();
    let metadata = metadata_mut(&mut object)?;
    if wanted.is_empty() {
        metadata.remove("finalizers");
    } else if changes {
        metadata.insert("finalizers".to_owned(), json!(wanted));
    }
    if is_deleting(old) {
        return Ok(Deleted::Waiting(object));
    }
    let metadata = metadata_mut(&mut object)?;
    metadata.insert(
        "deletionTimestamp".to_owned(),
        json!(timestamp::format(target.now)),
    );
    metadata.insert("deletionGracePeriodSeconds".to_owned(), json!(0));
    if has_generation(resource) {
        raise_generation(&mut object)?;
    }
    kinds::start_deletion(resource, &mut object);
    if crd::is_definition(resource) {
        crd::status::start_deletion(&mut object, target.now);
    }
    Ok(Deleted::Waiting(object))
}

#[cfg(test)]
mod tests;
