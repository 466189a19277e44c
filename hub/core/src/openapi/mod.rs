//! OpenAPI v3 documents of each group version, made from the type table and the schemas of custom resources: schemas with the extensions that merge tools
//! read, and the paths by which kubectl finds a kind and learns that the server validates fields.

pub mod v2;

use crate::crd;
use crate::types::{Field, Plain, Resource, Shape, Special, Type, TypeId, TypeTable};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Type names that every document needs beside those of its resources.
pub(crate) const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// The document of one group version; `None` if none of its resources is served.
pub fn document(table: &TypeTable, served: &[&Resource], group: &str, version: &str) -> Option<Value> {
    let resources: Vec<&Resource> = served
        .iter()
        .copied()
        .filter(|r| &*r.group == group && &*r.version == version)
        .collect();
    if resources.is_empty() {
        return None;
    }
    let mut wanted = Vec::new();
    let mut schemas = Map::new();
    for name in ["Status", "DeleteOptions", "ObjectMeta", "ListMeta"] {
        wanted.extend(table.type_named(&format!("{META}{name}")));
    }
    let mut paths = Map::new();
    for r in &resources {
        let model = match &r.custom {
            None => {
                wanted.push(r.of_type);
                let model = table.get(r.of_type).name.to_string();
                schemas.insert(format!("{model}List"), list_schema(r, &model));
                model
            }
            Some(custom) => {
                let model = crd::openapi::model(r);
                let form = crd::openapi::Form::V3;
                schemas.insert(model.clone(), crd::openapi::schema(r, &custom.raw_schema(), form));
                schemas.insert(format!("{model}List"), crd::openapi::list(r, form));
                model
            }
        };
        for s in &r.subresources {
            wanted.extend(kind_model(table, &s.group, &s.version, &s.kind));
        }
        add_paths(table, r, &model, &mut paths);
    }
    let mut seen = BTreeSet::new();
    while let Some(id) = wanted.pop() {
        if seen.insert(id) {
            let of = table.get(id);
            refs_of_type(of, &mut wanted);
            schemas.insert(of.name.to_string(), schema(table, of));
        }
    }
    if let Some(metadata) = schemas.get_mut(&format!("{META}ObjectMeta")) {
        crd::openapi::describe_metadata(metadata);
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": table.kubernetes},
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}

/// The type of a kind, also of one that no served resource has (Scale).
fn kind_model(table: &TypeTable, group: &str, version: &str, kind: &str) -> Option<TypeId> {
    let name = match (group, version, kind) {
        ("autoscaling", "v1", "Scale") => "io.k8s.api.autoscaling.v1.Scale",
        _ => return table.of_kind(group, version, kind).map(|r| r.of_type),
    };
    table.type_named(name)
}

fn refs_of_type(of: &Type, out: &mut Vec<TypeId>) {
    for field in of.fields() {
        refs_of_shape(&field.shape, out);
    }
}

fn refs_of_shape(shape: &Shape, out: &mut Vec<TypeId>) {
    match shape {
        Shape::Ref { to, .. } => out.push(*to),
        Shape::List { items, .. } => refs_of_shape(items, out),
        Shape::Map { values, .. } => refs_of_shape(values, out),
        Shape::Plain { .. } | Shape::Any => {}
    }
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn schema(table: &TypeTable, of: &Type) -> Value {
    if let Some(special) = of.special {
        return special_schema(special);
    }
    let mut properties = Map::new();
    let mut required = Vec::new();
    if !of.kinds.is_empty() {
        for name in ["apiVersion", "kind"] {
            properties.insert(name.to_owned(), json!({"type": "string"}));
        }
    }
    for field in of.fields() {
        properties.insert(field.name.to_string(), property(table, field));
        if field.required {
            required.push(&*field.name);
        }
    }
    let mut out = json!({"type": "object"});
    if !properties.is_empty() {
        out["properties"] = Value::Object(properties);
    }
    if !required.is_empty() {
        out["required"] = json!(required);
    }
    if of.atomic {
        out["x-kubernetes-map-type"] = json!("atomic");
    }
    if !of.kinds.is_empty() {
        let kinds: Vec<Value> = of
            .kinds
            .iter()
            .map(|k| json!({"group": k.group, "version": k.version, "kind": k.kind}))
            .collect();
        out["x-kubernetes-group-version-kind"] = Value::Array(kinds);
    }
    out
}

fn special_schema(special: Special) -> Value {
    match special {
        Special::Time | Special::MicroTime => json!({"type": "string", "format": "date-time"}),
        Special::Duration => json!({"type": "string"}),
        Special::Quantity => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        Special::IntOrString => {
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
        Special::FieldsV1 | Special::Raw => json!({"type": "object"}),
        Special::Json | Special::SchemaOrBool | Special::SchemaOrArray | Special::SchemaOrStrings => {
            json!({})
        }
    }
}

fn property(table: &TypeTable, field: &Field) -> Value {
    let mut out = shape_schema(table, &field.shape);
    if let Some(default) = &field.default {
        if let Some(target) = out.get("$ref").cloned() {
            out = json!({"allOf": [{"$ref": target}]});
        }
        out["default"] = default.clone();
    }
    if let Some(strategy) = &field.patch.strategy {
        out["x-kubernetes-patch-strategy"] = json!(strategy);
    }
    if let Some(key) = &field.patch.key {
        out["x-kubernetes-patch-merge-key"] = json!(key);
    }
    out
}

fn shape_schema(table: &TypeTable, shape: &Shape) -> Value {
    match shape {
        Shape::Any => json!({"x-kubernetes-preserve-unknown-fields": true}),
        Shape::Ref { to, .. } => reference(&table.get(*to).name),
        Shape::Plain { of, format } => {
            let kind = match of {
                Plain::String => "string",
                Plain::Boolean => "boolean",
                Plain::Integer => "integer",
                Plain::Number => "number",
            };
            if format.is_empty() {
                json!({"type": kind})
            } else {
                json!({"type": kind, "format": format})
            }
        }
        Shape::List {
            items,
            list_type,
            keys,
        } => {
            let mut out = json!({"type": "array", "items": shape_schema(table, items)});
            if !list_type.is_empty() {
                out["x-kubernetes-list-type"] = json!(list_type);
            }
            if !keys.is_empty() {
                out["x-kubernetes-list-map-keys"] = json!(keys);
            }
            out
        }
        Shape::Map { values, atomic } => {
            let mut out = json!({"type": "object", "additionalProperties": shape_schema(table, values)});
            if *atomic {
                out["x-kubernetes-map-type"] = json!("atomic");
            }
            out
        }
    }
}

fn list_schema(r: &Resource, model: &str) -> Value {
    json!({
        "type": "object", "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"}, "kind": {"type": "string"},
            "metadata": reference(&format!("{META}ListMeta")),
            "items": {"type": "array", "items": reference(model)},
        },
        "x-kubernetes-group-version-kind":
            [{"group": r.group, "version": r.version, "kind": format!("{}List", r.kind)}],
    })
}

fn query(name: &str, kind: &str) -> Value {
    json!({"in": "query", "name": name, "schema": {"type": kind, "uniqueItems": true}})
}

fn path_parameter(name: &str) -> Value {
    json!({"in": "path", "name": name, "required": true, "schema": {"type": "string", "uniqueItems": true}})
}

fn write_parameters() -> Vec<Value> {
    vec![
        query("dryRun", "string"),
        query("fieldManager", "string"),
        query("fieldValidation", "string"),
    ]
}

/// Content types of patches; kubectl sends a strategic merge patch where it is offered.
fn patch_types(is_built_in: bool) -> &'static [&'static str] {
    const ALL: [&str; 4] = [
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
    ];
    if is_built_in { &ALL } else { &ALL[..3] }
}

/// Operations of one resource and its subresources.
fn add_paths(table: &TypeTable, r: &Resource, model: &str, paths: &mut Map<String, Value>) {
    let root = if r.group.is_empty() {
        format!("/api/{}", r.version)
    } else {
        format!("/apis/{}/{}", r.group, r.version)
    };
    let all = format!("{root}/{}", r.plural);
    let gvk = json!({"group": r.group, "version": r.version, "kind": r.kind});
    let list = format!("{model}List");
    let (collection, prefix) = if r.namespaced {
        let op = operation(&gvk, "list", &list, None, list_parameters());
        paths.insert(all, json!({"get": op}));
        (
            format!("{root}/namespaces/{{namespace}}/{}", r.plural),
            vec![path_parameter("namespace")],
        )
    } else {
        (all, Vec::new())
    };
    paths.insert(
        collection.clone(),
        json!({
            "get": operation(&gvk, "list", &list, None, list_parameters()),
            "post": operation(&gvk, "post", model, Some(model), write_parameters()),
            "delete": operation(&gvk, "deletecollection", &format!("{META}Status"), None, list_parameters()),
        }),
    );
    if let Some(path) = paths.get_mut(&collection) {
        put_parameters(path, prefix.clone());
    }
    let mut named = prefix;
    named.push(path_parameter("name"));
    let one = format!("{collection}/{{name}}");
    let mut item = single(&gvk, model, &named, r.is_built_in);
    item["delete"] = operation(
        &gvk,
        "delete",
        &format!("{META}Status"),
        Some(&format!("{META}DeleteOptions")),
        vec![query("dryRun", "string"), query("propagationPolicy", "string")],
    );
    paths.insert(one.clone(), item);
    for s in &r.subresources {
        let kind = json!({"group": s.group, "version": s.version, "kind": s.kind});
        let of = kind_model(table, &s.group, &s.version, &s.kind).map_or(model, |id| &*table.get(id).name);
        paths.insert(
            format!("{one}/{}", s.name),
            single(&kind, of, &named, r.is_built_in),
        );
    }
}

/// get, put and patch of one object.
fn single(gvk: &Value, model: &str, parameters: &[Value], is_built_in: bool) -> Value {
    let mut patch_parameters = write_parameters();
    patch_parameters.push(query("force", "boolean"));
    let mut patch = operation(gvk, "patch", model, None, patch_parameters);
    let bodies: Map<String, Value> = patch_types(is_built_in)
        .iter()
        .map(|t| ((*t).to_owned(), json!({"schema": {"type": "object"}})))
        .collect();
    patch["requestBody"] = json!({"required": true, "content": bodies});
    json!({
        "parameters": parameters,
        "get": operation(gvk, "get", model, None, Vec::new()),
        "put": operation(gvk, "put", model, Some(model), write_parameters()),
        "patch": patch,
    })
}

fn list_parameters() -> Vec<Value> {
    let mut out = Vec::new();
    for name in [
        "labelSelector",
        "fieldSelector",
        "continue",
        "resourceVersion",
        "resourceVersionMatch",
    ] {
        out.push(query(name, "string"));
    }
    out.push(query("limit", "integer"));
    out.push(query("watch", "boolean"));
    out
}

/// Readers write a document without empty lists, and some compare.
fn put_parameters(of: &mut Value, parameters: Vec<Value>) {
    if !parameters.is_empty() {
        of["parameters"] = Value::Array(parameters);
    }
}

fn operation(gvk: &Value, action: &str, answer: &str, body: Option<&str>, parameters: Vec<Value>) -> Value {
    let mut out = json!({
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": gvk,
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": reference(answer)}}}},
    });
    put_parameters(&mut out, parameters);
    if let Some(body) = body {
        out["requestBody"] =
            json!({"required": true, "content": {"application/json": {"schema": reference(body)}}});
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refs(value: &Value, out: &mut BTreeSet<String>) {
        match value {
            Value::Object(members) => {
                for (key, inner) in members {
                    match inner.as_str() {
                        Some(target) if key == "$ref" => {
                            out.insert(target.trim_start_matches("#/components/schemas/").to_owned());
                        }
                        _ => refs(inner, out),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|i| refs(i, out)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_of_every_document_leads_somewhere() {
        let table = TypeTable::built_in();
        let served: Vec<&Resource> = table.resources().iter().collect();
        for (group, versions) in table.groups() {
            for version in versions {
                let document =
                    document(table, &served, group, version).expect("a listed version has a document");
                let mut named = BTreeSet::new();
                refs(&document, &mut named);
                for name in named {
                    assert!(
                        document["components"]["schemas"].get(&name).is_some(),
                        "{group}/{version}: {name}"
                    );
                }
            }
        }
    }

    #[test]
    fn kubectl_finds_the_patch_operation_and_the_list_keys() {
        let table = TypeTable::built_in();
        let served: Vec<&Resource> = table.resources().iter().collect();
        let document = document(table, &served, "apps", "v1").expect("apps/v1");
        let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
        assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Deployment");
        let parameters: Vec<&str> = patch["parameters"]
            .as_array()
            .expect("parameters")
            .iter()
            .filter_map(|p| p["name"].as_str())
            .collect();
        assert!(parameters.contains(&"fieldValidation"), "{parameters:?}");
        let text = document.to_string();
        assert!(!text.contains("\"parameters\":[]"), "an empty list is left out");
        let spec = &document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"];
        assert_eq!(
            spec["properties"]["containers"]["x-kubernetes-patch-merge-key"],
            "name"
        );
        assert_eq!(spec["required"], json!(["containers"]));
    }
}
