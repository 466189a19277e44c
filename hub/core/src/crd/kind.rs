//! A definition made ready to serve: its versions as resources, each with its compiled schema.

use super::definition::versions;
use super::openapi_rules::for_below;
use super::rules::{self, Place};
use super::schema::Schema;
use super::status::{self, ESTABLISHED, TERMINATING};
use super::structural::{is_set, text};
use super::version;
use crate::types::{Column, Resource, Subresource, TypeTable};
use base64::Engine as _;
use serde_json::Value;
use std::sync::Arc;

/// What the kind of the type table is of which a custom resource is known without its schema: metadata alone.
const METADATA_TYPE: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadata";

const VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];

/// One served version of a definition.
#[derive(Debug)]
pub struct Custom {
    /// Name of the definition.
    pub definition: Box<str>,
    /// Its uid: another definition of the same name has other objects.
    pub uid: Box<str>,
    /// Objects stored at a later revision were shaped by these very schemas.
    pub since: u64,
    /// The definition is being deleted: nothing new is created.
    pub is_ending: bool,
    /// `GROUP/VERSION` in which objects are stored.
    pub stored_as: Box<str>,
    /// The schema of this version.
    pub schema: Arc<Schema>,
    /// All versions, served or not, by `GROUP/VERSION`.
    pub all: Arc<[(Box<str>, Arc<Schema>)]>,
    /// The schema as written, for OpenAPI: as text, since it is seldom read and large as a tree.
    pub raw: Box<str>,
    /// Fields by which objects can be selected, such as `spec.size`.
    pub selectable: Vec<Box<str>>,
    /// Where the scale subresource reads and writes.
    pub scale: Option<ScalePaths>,
    /// Columns of tables, if the definition says any.
    pub columns: Vec<CustomColumn>,
    /// Name of lists of the kind.
    pub list_kind: Box<str>,
    /// What to warn every client of.
    pub warning: Option<Box<str>>,
}

/// A printer column of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomColumn {
    /// Name, type, path and priority.
    pub column: Column,
    /// OpenAPI format.
    pub format: Box<str>,
    /// For people.
    pub description: Box<str>,
}

/// Paths of the scale subresource, as their members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScalePaths {
    /// Wanted replicas.
    pub spec: Vec<Box<str>>,
    /// Present replicas.
    pub status: Vec<Box<str>>,
    /// The selector as text, if the kind has one.
    pub selector: Option<Vec<Box<str>>>,
}

impl Custom {
    /// The schema as written.
    pub fn raw_schema(&self) -> Value {
        // It was written from a tree.
        serde_json::from_str(&self.raw).unwrap_or_default()
    }
}

/// Two are the same if they are of the same state of the same definition.
impl PartialEq for Custom {
    fn eq(&self, other: &Custom) -> bool {
        (&self.uid, self.since, &self.raw) == (&other.uid, other.since, &other.raw)
    }
}

impl Eq for Custom {}

/// The served resources of a definition; none if it is not established. `revision` is that of the stored definition.
pub fn resources(table: &TypeTable, definition: &Value, revision: u64) -> Vec<Resource> {
    let spec = definition.get("spec").cloned().unwrap_or_default();
    if !status::is_true(definition, ESTABLISHED) {
        return Vec::new();
    }
    let Some(of_type) = table.type_named(METADATA_TYPE) else {
        return Vec::new();
    };
    let group = text(&spec, "group");
    let names = definition
        .pointer("/status/acceptedNames")
        .cloned()
        .unwrap_or_default();
    let list = |key: &str| -> Vec<Box<str>> {
        let list = names.get(key).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).map(Box::from).collect()
    };
    let (plural, kind) = (text(&names, "plural"), text(&names, "kind"));
    let all: Arc<[(Box<str>, Arc<Schema>)]> = versions(&spec)
        .iter()
        .map(|v| {
            (
                format!("{group}/{}", text(v, "name")).into(),
                Arc::new(compiled(v)),
            )
        })
        .collect();
    let stored = versions(&spec).iter().find(|v| is_set(v, "storage"));
    let stored = stored.map(|v| text(v, "name")).unwrap_or_default();
    let has_webhook = spec.pointer("/conversion/strategy").and_then(Value::as_str) == Some("Webhook");
    let mut served: Vec<(&Value, Arc<Schema>)> = versions(&spec)
        .iter()
        .zip(all.iter())
        .filter(|(v, _)| is_set(v, "served") && (!has_webhook || text(v, "name") == stored))
        .map(|(v, (_, schema))| (v, schema.clone()))
        .collect();
    served.sort_by(|(a, _), (b, _)| version::compare(text(b, "name"), text(a, "name")));
    // Whatever an object says it is in, it is shown in the version asked for.
    let shared_storage = versions(&spec).len() > 1;
    let make = |(raw, schema): (&Value, Arc<Schema>)| {
        let name = text(raw, "name");
        let custom = Custom {
            definition: crate::admission::name_of(definition).into(),
            uid: text(&definition["metadata"], "uid").into(),
            since: revision,
            is_ending: crate::admission::is_deleting(definition) || status::is_true(definition, TERMINATING),
            stored_as: format!("{group}/{stored}").into(),
            schema,
            all: all.clone(),
            raw: raw
                .pointer("/schema/openAPIV3Schema")
                .map_or_else(|| "{}".into(), |schema| schema.to_string().into()),
            selectable: selectable(raw),
            scale: scale(raw),
            columns: columns(raw),
            list_kind: text(&names, "listKind").into(),
            warning: warning(&spec, raw, has_webhook),
        };
        Resource {
            group: group.into(),
            version: name.into(),
            plural: plural.into(),
            singular: text(&names, "singular").into(),
            kind: kind.into(),
            namespaced: text(&spec, "scope") == "Namespaced",
            short_names: list("shortNames"),
            categories: list("categories"),
            verbs: VERBS.map(Box::from).to_vec(),
            of_type,
            storage_version_hash: storage_hash(group, stored, kind),
            subresources: subresources(raw, group, kind),
            storage: (group.into(), plural.into()),
            shared_storage,
            is_built_in: false,
            columns: Vec::new(),
            custom: Some(Arc::new(custom)),
        }
    };
    served.into_iter().map(make).collect()
}

/// The schema of a version with its rules.
fn compiled(version: &Value) -> Schema {
    let raw = version
        .pointer("/schema/openAPIV3Schema")
        .cloned()
        .unwrap_or_default();
    let mut schema = Schema::read(&raw);
    with_rules(&mut schema, &raw, "", true, Some(1));
    schema
}

/// Compiles the rules of a schema that was checked before.
fn with_rules(schema: &mut Schema, raw: &Value, path: &str, is_root: bool, most: Option<u64>) {
    let place = Place {
        path,
        is_root,
        most,
        uncorrelated: None,
    };
    schema.rules = rules::compile(raw, place, None).ok().flatten();
    schema.has_rules = schema.rules.is_some();
    let mut has_rules = schema.has_rules;
    for_below(raw, path, most, &mut |of, at, most| {
        let rest = &at[path.len()..];
        let below = match rest
            .strip_prefix(".properties[")
            .and_then(|r| r.strip_suffix(']'))
        {
            Some(name) => schema.properties.get_mut(name),
            None if rest == ".items" => schema.items.as_deref_mut(),
            None => match &mut schema.additional {
                super::schema::Additional::Of(of) => Some(&mut **of),
                _ => None,
            },
        };
        if let Some(below) = below {
            with_rules(below, of, at, false, most);
            has_rules |= below.has_rules;
        }
    });
    schema.has_rules = has_rules;
}

/// As discovery's hash of the version in which objects are stored.
fn storage_hash(group: &str, version: &str, kind: &str) -> Box<str> {
    let digest = shared::ids::Digest::of(format!("{group}/{version}/{kind}").as_bytes());
    base64::engine::general_purpose::STANDARD
        .encode(&digest.0[..8])
        .into()
}

fn subresources(raw: &Value, group: &str, kind: &str) -> Vec<Subresource> {
    let verbs = || ["get", "patch", "update"].map(Box::from).to_vec();
    let has = |name: &str| {
        raw.pointer(&format!("/subresources/{name}"))
            .is_some_and(|s| !s.is_null())
    };
    let mut out = Vec::new();
    if has("status") {
        out.push(Subresource {
            name: "status".into(),
            group: group.into(),
            version: text(raw, "name").into(),
            kind: kind.into(),
            verbs: verbs(),
        });
    }
    if has("scale") {
        out.push(Subresource {
            name: "scale".into(),
            group: "autoscaling".into(),
            version: "v1".into(),
            kind: "Scale".into(),
            verbs: verbs(),
        });
    }
    out
}

fn members_of(path: &str) -> Vec<Box<str>> {
    path.trim_start_matches('.').split('.').map(Box::from).collect()
}

fn selectable(raw: &Value) -> Vec<Box<str>> {
    let fields = raw
        .get("selectableFields")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    fields
        .map(|f| text(f, "jsonPath").trim_start_matches('.').into())
        .collect()
}

fn scale(raw: &Value) -> Option<ScalePaths> {
    let scale = raw.pointer("/subresources/scale").filter(|s| !s.is_null())?;
    let selector = text(scale, "labelSelectorPath");
    Some(ScalePaths {
        spec: members_of(text(scale, "specReplicasPath")),
        status: members_of(text(scale, "statusReplicasPath")),
        selector: (!selector.is_empty()).then(|| members_of(selector)),
    })
}

fn columns(raw: &Value) -> Vec<CustomColumn> {
    let all = raw
        .get("additionalPrinterColumns")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let column = |raw: &Value| CustomColumn {
        column: Column {
            name: text(raw, "name").into(),
            kind: text(raw, "type").into(),
            path: text(raw, "jsonPath").into(),
            priority: raw
                .get("priority")
                .and_then(Value::as_i64)
                .and_then(|n| i32::try_from(n).ok())
                .unwrap_or(0),
        },
        format: text(raw, "format").into(),
        description: text(raw, "description").into(),
    };
    all.map(column).collect()
}

/// That a version is deprecated, or not converted by the webhook that the definition names.
fn warning(spec: &Value, raw: &Value, has_webhook: bool) -> Option<Box<str>> {
    if has_webhook {
        let kind = spec
            .pointer("/names/kind")
            .and_then(Value::as_str)
            .unwrap_or_default();
        return Some(
            format!("this hub calls no conversion webhook: {kind} is served in its storage version only")
                .into(),
        );
    }
    if !is_set(raw, "deprecated") {
        return None;
    }
    if let Some(own) = raw.get("deprecationWarning").and_then(Value::as_str) {
        return Some(own.into());
    }
    let (group, name) = (text(spec, "group"), text(raw, "name"));
    let kind = spec
        .pointer("/names/kind")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let mut newer: Vec<&str> = versions(spec)
        .iter()
        .filter(|v| is_set(v, "served") && !is_set(v, "deprecated"))
        .map(|v| text(v, "name"))
        .filter(|v| version::compare(name, v).is_lt())
        .collect();
    newer.sort_by(|a, b| version::compare(b, a));
    Some(match newer.first() {
        Some(best) => format!("{group}/{name} {kind} is deprecated; use {group}/{best} {kind}").into(),
        None => format!("{group}/{name} {kind} is deprecated").into(),
    })
}
