//! Schemas of custom resources in OpenAPI documents (source: the builder of the apiextensions API server).

use crate::openapi::META;
use crate::types::Resource;
use serde_json::{Map, Value, json};

/// Which document a schema is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `/openapi/v3`.
    V3,
    /// `/openapi/v2`, whose readers know neither alternatives nor null and take unknown fields for errors.
    V2,
}

/// The model name of a custom kind: its group backwards, version, kind.
pub fn model(resource: &Resource) -> String {
    let parts: Vec<&str> = resource.group.rsplit('.').collect();
    format!("{}.{}.{}", parts.join("."), resource.version, resource.kind)
}

fn reference(name: &str, form: Form) -> Value {
    let root = match form {
        Form::V3 => "#/components/schemas/",
        Form::V2 => "#/definitions/",
    };
    json!(format!("{root}{META}{name}"))
}

const ABOUT_METADATA: &str = "Standard object's metadata. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
const ABOUT_VERSION: &str = "APIVersion defines the version of the schema that this object is written in.";
const ABOUT_KIND: &str = "Kind names what this object is, in CamelCase. It cannot be changed.";

fn metadata(form: Form) -> Value {
    match form {
        Form::V3 => {
            json!({"description": ABOUT_METADATA, "allOf": [{"$ref": reference("ObjectMeta", form)}], "default": {}})
        }
        Form::V2 => json!({"description": ABOUT_METADATA, "$ref": reference("ObjectMeta", form)}),
    }
}

/// The schema of a custom kind as a document shows it.
pub fn schema(resource: &Resource, raw: &Value, form: Form) -> Value {
    let keeps_unknown = raw.get("x-kubernetes-preserve-unknown-fields") == Some(&json!(true));
    let mut out = if form == Form::V2 && keeps_unknown {
        // Any member beside would make kubectl refuse all others.
        json!({"type": "object"})
    } else {
        let mut out = node(raw, form);
        if let Some(properties) = object(&mut out, "properties") {
            properties.insert("metadata".to_owned(), metadata(form));
            properties.insert(
                "apiVersion".to_owned(),
                json!({"type": "string", "description": ABOUT_VERSION}),
            );
            properties.insert(
                "kind".to_owned(),
                json!({"type": "string", "description": ABOUT_KIND}),
            );
        }
        out
    };
    out["x-kubernetes-group-version-kind"] =
        json!([{"group": resource.group, "version": resource.version, "kind": resource.kind}]);
    if let Some(custom) = resource.custom.as_ref().filter(|c| !c.selectable.is_empty()) {
        let fields: Vec<Value> = custom
            .selectable
            .iter()
            .map(|path| json!({"fieldPath": path}))
            .collect();
        out["x-kubernetes-selectable-fields"] = json!(fields);
    }
    out
}

/// A member that is an object, made if absent.
fn object<'v>(value: &'v mut Value, key: &str) -> Option<&'v mut Map<String, Value>> {
    let members = value.as_object_mut()?;
    let found = members.entry(key).or_insert_with(|| json!({}));
    found.as_object_mut()
}

fn node(raw: &Value, form: Form) -> Value {
    let Some(members) = raw.as_object() else {
        return raw.clone();
    };
    let mut out = Map::new();
    for (key, value) in members {
        let value = match key.as_str() {
            "properties" => {
                let fields = value.as_object().into_iter().flatten();
                Value::Object(fields.map(|(name, of)| (name.clone(), node(of, form))).collect())
            }
            "items" | "additionalProperties" => node(value, form),
            "allOf" | "anyOf" | "oneOf" | "not" if form == Form::V2 => continue,
            _ => value.clone(),
        };
        out.insert(key.clone(), value);
    }
    if out.get("x-kubernetes-int-or-string") == Some(&json!(true)) {
        // Without a type: neither of both alone.
        out.remove("type");
    }
    if form == Form::V2 {
        older(&mut out);
    }
    let mut out = Value::Object(out);
    let keeps_unknown = out.get("x-kubernetes-preserve-unknown-fields") == Some(&json!(true));
    if out.get("x-kubernetes-embedded-resource") == Some(&json!(true)) && !(form == Form::V2 && keeps_unknown)
    {
        if let Some(properties) = object(&mut out, "properties") {
            properties.insert("metadata".to_owned(), metadata(form));
            properties.insert(
                "apiVersion".to_owned(),
                json!({"type": "string", "description": ABOUT_VERSION}),
            );
            properties.insert(
                "kind".to_owned(),
                json!({"type": "string", "description": ABOUT_KIND}),
            );
        }
        let mut required = out
            .get("required")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|r| r == name) {
                required.push(json!(name));
            }
        }
        out["required"] = Value::Array(required);
    }
    out
}

/// What readers of v2 stumble over goes.
fn older(out: &mut Map<String, Value>) {
    let keeps_unknown = out.get("x-kubernetes-preserve-unknown-fields") == Some(&json!(true));
    let mut not_required: Vec<String> = Vec::new();
    if out.remove("nullable") == Some(json!(true)) {
        out.remove("type");
        out.remove("items");
        out.remove("properties");
        out.insert("x-nullable-before".to_owned(), json!(true));
    }
    if keeps_unknown {
        out.remove("items");
        out.remove("properties");
    }
    let of_type = out
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if (of_type == "array" && !out.contains_key("items")) || (keeps_unknown && of_type == "object") {
        out.remove("type");
    }
    let is_mark = |value: &Value| value.get("x-nullable-before").is_some();
    if let Some(fields) = out.get_mut("properties").and_then(Value::as_object_mut) {
        for (name, of) in fields.iter_mut().filter(|(_, of)| is_mark(of)) {
            not_required.push(name.clone());
            unmark(of);
        }
    }
    let mut drops_all = false;
    for key in ["items", "additionalProperties"] {
        if let Some(of) = out.get_mut(key).filter(|of| is_mark(of)) {
            drops_all |= key == "additionalProperties";
            unmark(of);
        }
    }
    if let Some(required) = out.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !drops_all && !not_required.iter().any(|n| name == n));
        if required.is_empty() {
            out.remove("required");
        }
    }
}

fn unmark(of: &mut Value) {
    if let Some(members) = of.as_object_mut() {
        members.remove("x-nullable-before");
    }
}

/// The schema of a list of a custom kind.
pub fn list(resource: &Resource, form: Form) -> Value {
    let root = match form {
        Form::V3 => "#/components/schemas/",
        Form::V2 => "#/definitions/",
    };
    let list_kind = resource.custom.as_ref().map_or("", |c| &*c.list_kind);
    json!({
        "type": "object", "required": ["items"],
        "description": format!("{list_kind} is a list of {}", resource.kind),
        "properties": {
            "apiVersion": {"type": "string", "description": ABOUT_VERSION},
            "kind": {"type": "string", "description": ABOUT_KIND},
            "metadata": {"$ref": reference("ListMeta", form)},
            "items": {"type": "array", "items": {"$ref": format!("{root}{}", model(resource))}},
        },
        "x-kubernetes-group-version-kind":
            [{"group": resource.group, "version": resource.version, "kind": list_kind}],
    })
}

/// What the fields of metadata are, for `kubectl explain`: the type table has no texts.
pub fn describe_metadata(schema: &mut Value) {
    const ABOUT: [(&str, &str); 15] = [
        (
            "annotations",
            "Annotations are texts of any kind that tools keep with the object. They cannot be selected by.",
        ),
        (
            "creationTimestamp",
            "CreationTimestamp is a timestamp set by the server when the object was created.",
        ),
        (
            "deletionGracePeriodSeconds",
            "DeletionGracePeriodSeconds is how long the object may take to end, in seconds.",
        ),
        (
            "deletionTimestamp",
            "DeletionTimestamp is when the object is deleted; set by the server when its deletion is asked for.",
        ),
        (
            "finalizers",
            "Finalizers hold an object that is being deleted until each of them is taken off.",
        ),
        (
            "generateName",
            "GenerateName is a prefix from which the server makes a name if none is given.",
        ),
        (
            "generation",
            "Generation counts the changes of what is wanted of the object.",
        ),
        (
            "labels",
            "Labels are keys and values by which objects are selected.",
        ),
        (
            "managedFields",
            "ManagedFields says who last decided which field.",
        ),
        ("name", "Name is unique within a namespace and cannot be changed."),
        (
            "namespace",
            "Namespace is the space within which the name is unique.",
        ),
        (
            "ownerReferences",
            "OwnerReferences are the objects on which this one depends: without them it is collected.",
        ),
        (
            "resourceVersion",
            "ResourceVersion changes with every write; for comparing and for watches.",
        ),
        ("selfLink", "SelfLink is no longer filled in."),
        (
            "uid",
            "UID is unique among all objects that ever were; set by the server.",
        ),
    ];
    schema["description"] = json!("ObjectMeta is what every stored object has.");
    for (name, text) in ABOUT {
        let Some(field) = schema.pointer_mut(&format!("/properties/{name}")) else {
            continue;
        };
        if field.get("$ref").is_some() {
            *field = json!({"allOf": [field.clone()]});
        }
        field["description"] = json!(text);
    }
}
