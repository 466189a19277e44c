//! The type table: every kind this hub serves, its fields, and how lists and maps in it merge. One table answers
//! discovery, OpenAPI, field validation, patches and storage names; nowhere else is a list of kinds kept.
//!
//! `data/kubernetes.json` is printed by the member's Go module from the Kubernetes sources; `data/karmada.json` has
//! the Karmada groups in the same shape. Both are compiled in and merged at first use.

mod load;

pub use load::TypeTableError;

use crate::crd::Custom;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// Index of a [`Type`] in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(u32);

/// Group, version and plural.
type ResourcePath = (Box<str>, Box<str>, Box<str>);

/// All kinds and types.
#[derive(Debug)]
pub struct TypeTable {
    /// The Kubernetes release the table was printed from, such as `v1.36.3`.
    pub kubernetes: String,
    resources: Vec<Resource>,
    types: Vec<Type>,
    type_names: HashMap<Box<str>, TypeId>,
    by_path: HashMap<ResourcePath, usize>,
}

/// One resource in one version: a line of discovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// API group, empty for core.
    pub group: Box<str>,
    /// API version, such as `v1`.
    pub version: Box<str>,
    /// Plural name in paths.
    pub plural: Box<str>,
    /// Singular name.
    pub singular: Box<str>,
    /// Kind.
    pub kind: Box<str>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Short names for kubectl.
    pub short_names: Vec<Box<str>>,
    /// Categories such as `all`.
    pub categories: Vec<Box<str>>,
    /// Verbs served.
    pub verbs: Vec<Box<str>>,
    /// Type of its objects; for custom resources one that has their metadata alone.
    pub of_type: TypeId,
    /// `storageVersionHash` of discovery.
    pub storage_version_hash: Box<str>,
    /// Subresources served.
    pub subresources: Vec<Subresource>,
    /// Group and plural under which objects are stored: two versions, and two names of one thing, share them.
    pub storage: (Box<str>, Box<str>),
    /// Whether more than one served resource reads the same stored objects.
    pub shared_storage: bool,
    /// Whether the kind is one of Kubernetes' own, with merge keys for strategic merge patches; custom resources of the
    /// reference (the Karmada groups) have none.
    pub is_built_in: bool,
    /// Printer columns that the table itself gives (the Karmada kinds); built-in kinds have theirs in `table`.
    pub columns: Vec<Column>,
    /// Set for a custom resource: what its definition says of it.
    pub custom: Option<Arc<Custom>>,
}

/// A printer column read by a path.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
pub struct Column {
    /// Heading.
    pub name: Box<str>,
    /// `string`, `integer`, `boolean` or `date` (prints an age).
    #[serde(rename = "type")]
    pub kind: Box<str>,
    /// Path of the value, such as `.status.conditions[?(@.type=="Ready")].status`.
    #[serde(rename = "jsonPath")]
    pub path: Box<str>,
    /// Above 0: only with `-o wide`.
    #[serde(default)]
    pub priority: i32,
}

impl Resource {
    /// `apps/v1` or `v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Whether the verb is served.
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| &**v == verb)
    }

    /// The subresource of that name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| &*s.name == name)
    }
}

/// A subresource and the kind it is read and written as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subresource {
    /// Name in paths.
    pub name: Box<str>,
    /// Group of its kind.
    pub group: Box<str>,
    /// Version of its kind.
    pub version: Box<str>,
    /// Its kind.
    pub kind: Box<str>,
    /// Verbs served.
    pub verbs: Vec<Box<str>>,
}

/// Group, version and kind.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
pub struct Gvk {
    /// API group.
    pub group: Box<str>,
    /// API version.
    pub version: Box<str>,
    /// Kind.
    pub kind: Box<str>,
}

/// One struct, or one type with a way of its own to be written.
#[derive(Debug)]
pub struct Type {
    /// OpenAPI model name.
    pub name: Box<str>,
    /// Kinds that are this type; a type with a kind has `apiVersion` and `kind` beside its fields.
    pub kinds: Vec<Gvk>,
    /// Set for types that are not plain structs.
    pub special: Option<Special>,
    /// `atomic` for structs that are replaced whole.
    pub atomic: bool,
    fields: Vec<Field>,
}

impl Type {
    /// The fields in the order of their names.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The field of that JSON name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields
            .binary_search_by(|f| (*f.name).cmp(name))
            .ok()
            .map(|at| &self.fields[at])
    }
}

/// Types that write themselves to JSON in their own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// RFC 3339 time.
    Time,
    /// RFC 3339 time with microseconds.
    MicroTime,
    /// Go duration text.
    Duration,
    /// Set of owned fields.
    FieldsV1,
    /// Resource quantity: text or number.
    Quantity,
    /// Integer or text.
    IntOrString,
    /// Any object.
    Raw,
    /// Any JSON.
    Json,
    /// JSON schema or boolean.
    SchemaOrBool,
    /// JSON schema or list of them.
    SchemaOrArray,
    /// JSON schema or list of texts.
    SchemaOrStrings,
}

/// One JSON member of a type.
#[derive(Debug)]
pub struct Field {
    /// JSON name.
    pub name: Box<str>,
    /// Whether OpenAPI calls it required.
    pub required: bool,
    /// Default of the schema.
    pub default: Option<Value>,
    /// Type of the value.
    pub shape: Shape,
    /// How it merges in a strategic merge patch.
    pub patch: Patch,
    /// The only texts allowed; empty if any is.
    pub allowed: Vec<Box<str>>,
    /// How the Go struct declares it.
    pub declared: Declared,
}

/// What the Go struct says about a field beyond its type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Declared {
    /// Number of the field in protobuf; 0 for kinds without protobuf.
    pub number: u32,
    /// Numbers of the embedded messages around it in protobuf, outermost first; JSON has none of them.
    pub inside: Vec<u32>,
    /// A pointer: absent differs from zero.
    pub is_pointer: bool,
    /// Left out of JSON if it is zero.
    pub omits_empty: bool,
}

/// Strategic merge settings of a field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Patch {
    /// Lists: merge instead of replace.
    pub merge: bool,
    /// Maps: replace instead of merge.
    pub replace: bool,
    /// Fields that the patch does not name go (`$retainKeys`).
    pub retain_keys: bool,
    /// Key of the items of a merged list; `None` for lists of plain values.
    pub key: Option<Box<str>>,
    /// The strategy text of the source, for OpenAPI.
    pub strategy: Option<Box<str>>,
}

/// Type of a value.
#[derive(Debug)]
pub enum Shape {
    /// A type of the table.
    Ref {
        /// Which.
        to: TypeId,
        /// Replaced whole by an apply.
        atomic: bool,
    },
    /// `string`, `boolean`, `integer` or `number`.
    Plain {
        /// JSON type.
        of: Plain,
        /// OpenAPI format, such as `int32` or `byte`.
        format: Box<str>,
    },
    /// A list.
    List {
        /// Its items.
        items: Box<Shape>,
        /// `atomic`, `set` or `map`; empty if not said.
        list_type: Box<str>,
        /// Keys of a `map` list.
        keys: Vec<Box<str>>,
    },
    /// A map with free keys.
    Map {
        /// Its values.
        values: Box<Shape>,
        /// Replaced whole by an apply.
        atomic: bool,
    },
    /// Anything.
    Any,
}

/// JSON types of plain values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of JSON schema")]
pub enum Plain {
    String,
    Boolean,
    Integer,
    Number,
}

/// The compiled-in tables.
const SOURCES: [&[u8]; 2] = [
    include_bytes!("../../data/kubernetes.json"),
    include_bytes!("../../data/karmada.json"),
];

static BUILT_IN: LazyLock<TypeTable> = LazyLock::new(|| {
    TypeTable::load(&SOURCES)
        .expect("the compiled-in type tables load: the test `the_built_in_tables_load` guards it")
});

impl TypeTable {
    /// The compiled-in table.
    pub fn built_in() -> &'static TypeTable {
        &BUILT_IN
    }

    /// The texts that [`TypeTable::built_in`] is read from, for a fingerprint of the documents made from it.
    pub fn built_in_sources() -> [&'static [u8]; 2] {
        SOURCES
    }

    /// The resources in the order of discovery.
    pub fn resources(&self) -> &[Resource] {
        &self.resources
    }

    /// The resource behind a path.
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<&Resource> {
        self.by_path
            .get(&(group.into(), version.into(), plural.into()))
            .map(|at| &self.resources[*at])
    }

    /// The resource of a kind.
    pub fn of_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Resource> {
        self.resources
            .iter()
            .find(|r| &*r.kind == kind && &*r.group == group && &*r.version == version)
    }

    /// The type of a kind, also of one that no served resource has (Scale, DeleteOptions).
    pub fn type_of_kind(&self, group: &str, version: &str, kind: &str) -> Option<TypeId> {
        let is = |k: &Gvk| &*k.kind == kind && &*k.version == version && &*k.group == group;
        let at = self.types.iter().position(|t| t.kinds.iter().any(is))?;
        u32::try_from(at).ok().map(TypeId)
    }

    /// The resource of that group and plural in its preferred version.
    pub fn preferred(&self, group: &str, plural: &str) -> Option<&Resource> {
        self.resources
            .iter()
            .find(|r| &*r.plural == plural && &*r.group == group)
    }

    /// Groups with their versions, both in the order of discovery.
    pub fn groups(&self) -> Vec<(&str, Vec<&str>)> {
        groups(self.resources.iter())
    }

    /// A type by its index.
    pub fn get(&self, id: TypeId) -> &Type {
        &self.types[id.0 as usize]
    }

    /// All types, by name.
    pub fn types(&self) -> &[Type] {
        &self.types
    }

    /// A type by its OpenAPI model name.
    pub fn type_named(&self, name: &str) -> Option<TypeId> {
        self.type_names.get(name).copied()
    }
}

/// Groups of resources with their versions: in the order in which they come, versions that custom resources add by
/// preference.
pub fn groups<'r>(resources: impl Iterator<Item = &'r Resource>) -> Vec<(&'r str, Vec<&'r str>)> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut mixed: Vec<usize> = Vec::new();
    for resource in resources {
        let at = groups
            .iter()
            .position(|(name, _)| *name == &*resource.group)
            .unwrap_or_else(|| {
                groups.push((&resource.group, Vec::new()));
                groups.len() - 1
            });
        if !groups[at].1.contains(&&*resource.version) {
            groups[at].1.push(&resource.version);
            if resource.custom.is_some() {
                mixed.push(at);
            }
        }
    }
    for at in mixed {
        groups[at].1.sort_by(|a, b| crate::crd::version::compare(b, a));
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_tables_load() {
        let table = TypeTable::built_in();
        let deployment = table.resource("apps", "v1", "deployments").expect("deployments");
        assert_eq!((&*deployment.kind, deployment.namespaced), ("Deployment", true));
        assert!(deployment.subresource("status").is_some() && deployment.subresource("scale").is_some());
        let spec = table.type_named("io.k8s.api.core.v1.PodSpec").expect("PodSpec");
        let containers = table.get(spec).field("containers").expect("containers");
        assert_eq!(containers.patch.key.as_deref(), Some("name"));
        let policy = table
            .resource("policy.karmada.io", "v1alpha1", "propagationpolicies")
            .expect("policies");
        assert_eq!(policy.short_names, [Box::from("pp")]);
    }

    #[test]
    fn names_of_one_thing_share_storage() {
        let table = TypeTable::built_in();
        let core = table.resource("", "v1", "events").expect("core events");
        let new = table
            .resource("events.k8s.io", "v1", "events")
            .expect("new events");
        assert_eq!(core.storage, new.storage);
        assert!(core.shared_storage && new.shared_storage);
        let config = table.resource("", "v1", "configmaps").expect("configmaps");
        assert!(!config.shared_storage);
    }

    #[test]
    fn a_broken_table_is_refused_by_name() {
        let dangling =
            br#"{"kubernetes":"v1","resources":[],"types":{"A":{"fields":[{"name":"b","t":{"ref":"B"}}]}}}"#;
        let error = TypeTable::load(&[dangling]).expect_err("B is missing");
        assert!(error.to_string().contains('B'), "{error}");
    }
}
