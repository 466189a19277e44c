//! Reading and merging of the type tables' JSON.

use super::{
    Column, Declared, Field, Gvk, Patch, Plain, Resource, Shape, Special, Subresource, Type, TypeId,
    TypeTable,
};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

/// Why a table cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TypeTableError {
    /// Not the JSON of a table.
    #[error("type table {source_number}: {cause}")]
    Json {
        /// Which of the sources, from 0.
        source_number: usize,
        /// What serde says.
        cause: serde_json::Error,
    },
    /// A name that leads nowhere or says two things.
    #[error("type table: {at}: {why}")]
    Inconsistent {
        /// Resource, type or field.
        at: String,
        /// What is wrong.
        why: String,
    },
}

fn inconsistent(at: impl Into<String>, why: impl Into<String>) -> TypeTableError {
    TypeTableError::Inconsistent {
        at: at.into(),
        why: why.into(),
    }
}

#[derive(Deserialize)]
struct RawTable {
    kubernetes: Option<String>,
    resources: Vec<RawResource>,
    types: BTreeMap<Box<str>, RawType>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawResource {
    group: Box<str>,
    version: Box<str>,
    resource: Box<str>,
    singular: Box<str>,
    kind: Box<str>,
    namespaced: bool,
    #[serde(default)]
    short_names: Vec<Box<str>>,
    #[serde(default)]
    categories: Vec<Box<str>>,
    verbs: Vec<Box<str>>,
    #[serde(rename = "type")]
    of_type: Box<str>,
    #[serde(default)]
    storage_version_hash: Box<str>,
    #[serde(default)]
    subresources: Vec<RawSubresource>,
    #[serde(default)]
    columns: Vec<Column>,
}

#[derive(Deserialize)]
struct RawSubresource {
    name: Box<str>,
    group: Box<str>,
    version: Box<str>,
    kind: Box<str>,
    verbs: Vec<Box<str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawType {
    #[serde(default)]
    gvk: Vec<Gvk>,
    special: Option<Box<str>>,
    #[serde(default)]
    map_type: Box<str>,
    #[serde(default)]
    fields: Vec<RawField>,
}

#[derive(Deserialize)]
struct RawField {
    name: Box<str>,
    #[serde(default)]
    required: bool,
    default: Option<Value>,
    #[serde(default)]
    proto: u32,
    #[serde(default, rename = "in")]
    inside: Vec<u32>,
    #[serde(default)]
    ptr: bool,
    #[serde(default)]
    omitempty: bool,
    t: RawShape,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawShape {
    #[serde(default)]
    any: bool,
    #[serde(rename = "ref")]
    refers: Option<Box<str>>,
    p: Option<Box<str>>,
    #[serde(default)]
    format: Box<str>,
    list: Option<Box<RawShape>>,
    map: Option<Box<RawShape>>,
    #[serde(default)]
    list_type: Box<str>,
    #[serde(default)]
    keys: Vec<Box<str>>,
    #[serde(default)]
    map_type: Box<str>,
    #[serde(default)]
    patch: Box<str>,
    merge_key: Option<Box<str>>,
    #[serde(rename = "enum", default)]
    allowed: Vec<Box<str>>,
}

/// Subresources served. The table lists all of Kubernetes (`pods/exec`, ...); what this hub does not serve stays out of
/// the loaded table, so that discovery is honest.
const SERVED_SUBRESOURCES: [&str; 5] = ["status", "scale", "token", "approval", "finalize"];

/// Groups whose kinds are questions: answered on `create`, never stored.
const REVIEW_GROUPS: [&str; 2] = ["authentication.k8s.io", "authorization.k8s.io"];

/// Group and plural.
type GroupResource = (&'static str, &'static str);

/// Resources that are another name of something stored elsewhere.
const SAME_STORAGE: [(GroupResource, GroupResource); 1] = [(("events.k8s.io", "events"), ("", "events"))];

impl TypeTable {
    /// Reads and merges tables. A type that stands in several must be the same in name only once: the first wins.
    ///
    /// # Errors
    /// JSON that is not a table, names that lead nowhere, a resource given twice.
    pub fn load(sources: &[&[u8]]) -> Result<TypeTable, TypeTableError> {
        let mut raw_types = BTreeMap::new();
        let mut raw_resources = Vec::new();
        let mut kubernetes = String::new();
        for (source_number, source) in sources.iter().enumerate() {
            let table: RawTable = serde_json::from_slice(source)
                .map_err(|cause| TypeTableError::Json { source_number, cause })?;
            if kubernetes.is_empty() {
                kubernetes = table.kubernetes.unwrap_or_default();
            }
            raw_resources.extend(table.resources);
            for (name, of) in table.types {
                raw_types.entry(name).or_insert(of);
            }
        }
        let mut type_names: HashMap<Box<str>, TypeId> = HashMap::with_capacity(raw_types.len());
        for (at, name) in raw_types.keys().enumerate() {
            let at = u32::try_from(at).map_err(|_| inconsistent(&**name, "too many types"))?;
            type_names.insert(name.clone(), TypeId(at));
        }
        let mut types = Vec::with_capacity(raw_types.len());
        for (name, raw) in raw_types {
            types.push(read_type(name, raw, &type_names)?);
        }
        let resources = read_resources(raw_resources, &type_names)?;
        let mut by_path = HashMap::with_capacity(resources.len());
        for (at, r) in resources.iter().enumerate() {
            if by_path
                .insert((r.group.clone(), r.version.clone(), r.plural.clone()), at)
                .is_some()
            {
                return Err(inconsistent(
                    format!("{}/{} {}", r.group, r.version, r.plural),
                    "given twice",
                ));
            }
        }
        Ok(TypeTable {
            kubernetes,
            resources,
            types,
            type_names,
            by_path,
        })
    }
}

fn read_resources(
    raw: Vec<RawResource>,
    names: &HashMap<Box<str>, TypeId>,
) -> Result<Vec<Resource>, TypeTableError> {
    let mut resources = Vec::with_capacity(raw.len());
    for r in raw {
        // Other kinds that are answered and never stored (bindings of pods, componentstatuses) are not served.
        let is_stored = ["get", "list", "create"]
            .iter()
            .all(|needed| r.verbs.iter().any(|v| &**v == *needed));
        if !is_stored && !REVIEW_GROUPS.contains(&&*r.group) {
            continue;
        }
        let Some(of_type) = names.get(&r.of_type).copied() else {
            return Err(inconsistent(
                &*r.resource,
                format!("type {} is not in the table", r.of_type),
            ));
        };
        let subresources = r
            .subresources
            .into_iter()
            .filter(|s| SERVED_SUBRESOURCES.contains(&&*s.name));
        let subresources = subresources.map(|s| Subresource {
            name: s.name,
            group: s.group,
            version: s.version,
            kind: s.kind,
            verbs: s.verbs,
        });
        let same = SAME_STORAGE
            .iter()
            .find(|((g, p), _)| *g == &*r.group && *p == &*r.resource);
        let storage = match same {
            Some((_, (group, plural))) => ((*group).into(), (*plural).into()),
            None => (r.group.clone(), r.resource.clone()),
        };
        resources.push(Resource {
            group: r.group,
            version: r.version,
            plural: r.resource,
            singular: r.singular,
            kind: r.kind,
            namespaced: r.namespaced,
            short_names: r.short_names,
            categories: r.categories,
            verbs: r.verbs,
            of_type,
            storage_version_hash: r.storage_version_hash,
            subresources: subresources.collect(),
            storage,
            shared_storage: false,
            is_built_in: r.of_type.starts_with("io.k8s."),
            columns: r.columns,
            custom: None,
        });
    }
    let mut users: HashMap<(Box<str>, Box<str>), u32> = HashMap::new();
    for r in &resources {
        *users.entry(r.storage.clone()).or_default() += 1;
    }
    for r in &mut resources {
        r.shared_storage = users.get(&r.storage).is_some_and(|n| *n > 1);
    }
    Ok(resources)
}

fn read_type(
    name: Box<str>,
    raw: RawType,
    names: &HashMap<Box<str>, TypeId>,
) -> Result<Type, TypeTableError> {
    let special = match raw.special {
        None => None,
        Some(text) => {
            Some(special(&text).ok_or_else(|| inconsistent(&*name, format!("unknown special {text}")))?)
        }
    };
    let mut fields = Vec::with_capacity(raw.fields.len());
    for f in raw.fields {
        let at = || format!("{name}.{}", f.name);
        let patch = read_patch(&f.t);
        let allowed = f.t.allowed.clone();
        let shape = read_shape(f.t, names).map_err(|why| inconsistent(at(), why))?;
        fields.push(Field {
            name: f.name,
            required: f.required,
            default: f.default,
            shape,
            patch,
            allowed,
            declared: Declared {
                number: f.proto,
                inside: f.inside,
                is_pointer: f.ptr,
                omits_empty: f.omitempty,
            },
        });
    }
    fields.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some(pair) = fields.windows(2).find(|pair| pair[0].name == pair[1].name) {
        return Err(inconsistent(format!("{name}.{}", pair[0].name), "given twice"));
    }
    Ok(Type {
        name,
        kinds: raw.gvk,
        special,
        atomic: &*raw.map_type == "atomic",
        fields,
    })
}

fn read_patch(shape: &RawShape) -> Patch {
    let strategy = (!shape.patch.is_empty()).then(|| shape.patch.clone());
    let mut patch = Patch {
        key: shape.merge_key.clone(),
        strategy,
        ..Patch::default()
    };
    for word in shape.patch.split(',') {
        match word {
            "merge" => patch.merge = true,
            "replace" => patch.replace = true,
            "retainKeys" => patch.retain_keys = true,
            _ => {}
        }
    }
    patch
}

fn read_shape(raw: RawShape, names: &HashMap<Box<str>, TypeId>) -> Result<Shape, String> {
    let atomic = &*raw.map_type == "atomic";
    if let Some(name) = raw.refers {
        let to = names
            .get(&name)
            .copied()
            .ok_or_else(|| format!("type {name} is not in the table"))?;
        return Ok(Shape::Ref { to, atomic });
    }
    if let Some(items) = raw.list {
        let items = Box::new(read_shape(*items, names)?);
        return Ok(Shape::List {
            items,
            list_type: raw.list_type,
            keys: raw.keys,
        });
    }
    if let Some(values) = raw.map {
        return Ok(Shape::Map {
            values: Box::new(read_shape(*values, names)?),
            atomic,
        });
    }
    match raw.p.as_deref() {
        Some("string") => Ok(Shape::Plain {
            of: Plain::String,
            format: raw.format,
        }),
        Some("boolean") => Ok(Shape::Plain {
            of: Plain::Boolean,
            format: raw.format,
        }),
        Some("integer") => Ok(Shape::Plain {
            of: Plain::Integer,
            format: raw.format,
        }),
        Some("number") => Ok(Shape::Plain {
            of: Plain::Number,
            format: raw.format,
        }),
        Some(other) => Err(format!("unknown plain type {other}")),
        None if raw.any => Ok(Shape::Any),
        None => Err("no shape".to_owned()),
    }
}

fn special(text: &str) -> Option<Special> {
    Some(match text {
        "time" => Special::Time,
        "microtime" => Special::MicroTime,
        "duration" => Special::Duration,
        "fieldsv1" => Special::FieldsV1,
        "quantity" => Special::Quantity,
        "intorstring" => Special::IntOrString,
        "raw" => Special::Raw,
        "json" => Special::Json,
        "schemaorbool" => Special::SchemaOrBool,
        "schemaorarray" => Special::SchemaOrArray,
        "schemaorstrings" => Special::SchemaOrStrings,
        _ => return None,
    })
}
