//! OpenAPI v2: one document with every definition, as JSON and in the protobuf form of gnostic. Old clients validate by
//! it, Argo CD and Terraform merge by its extensions. Paths stay empty: no client of v2 reads them.

use super::{META, list_schema, schema};
use crate::crd;
use crate::protobuf::wire;
use crate::types::{Resource, TypeTable};
use crate::yaml;
use serde_json::{Map, Value, json};

/// The document as JSON: all types of the table, and the custom resources among those served.
pub fn document(table: &TypeTable, served: &[&Resource]) -> Value {
    let mut definitions = Map::new();
    for of in table.types() {
        definitions.insert(of.name.to_string(), old(schema(table, of)));
    }
    for r in table.resources() {
        let model = &*table.get(r.of_type).name;
        let name = format!("{model}List");
        definitions
            .entry(name)
            .or_insert_with(|| old(list_schema(r, model)));
    }
    for r in served {
        if let Some(custom) = &r.custom {
            let (model, form) = (crd::openapi::model(r), crd::openapi::Form::V2);
            definitions.insert(format!("{model}List"), crd::openapi::list(r, form));
            definitions.insert(model, crd::openapi::schema(r, &custom.raw_schema(), form));
        }
    }
    debug_assert!(definitions.contains_key(&format!("{META}ObjectMeta")));
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": table.kubernetes},
        "paths": {},
        "definitions": definitions,
    })
}

/// A schema of v3 in the words of v2.
fn old(schema: Value) -> Value {
    match schema {
        Value::Array(items) => items.into_iter().map(old).collect(),
        Value::Object(mut members) => {
            // v2 has no alternatives: quantities and the like are texts there.
            if members.remove("oneOf").is_some() {
                members.entry("type").or_insert_with(|| json!("string"));
            }
            if let Some(Value::Array(all)) = members.remove("allOf") {
                for part in all {
                    members.extend(part.as_object().cloned().unwrap_or_default());
                }
            }
            let mut out = Map::new();
            for (key, value) in members {
                let value = match (key.as_str(), &value) {
                    ("$ref", Value::String(to)) => {
                        json!(to.replace("#/components/schemas/", "#/definitions/"))
                    }
                    ("default", _) => value,
                    // Names of fields, which may be any of these words.
                    ("properties", Value::Object(_)) => match value {
                        Value::Object(fields) => Value::Object(
                            fields
                                .into_iter()
                                .map(|(name, field)| (name, old(field)))
                                .collect(),
                        ),
                        other => other,
                    },
                    _ => old(value),
                };
                out.insert(key, value);
            }
            Value::Object(out)
        }
        plain => plain,
    }
}

/// A document of [`document`] as a gnostic `openapi.v2.Document`. Field numbers: gnostic's `OpenAPIv2.proto`.
pub fn encode(document: &Value) -> Vec<u8> {
    let text = |pointer: &str| {
        document
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let mut info = Vec::new();
    wire::bytes(&mut info, 1, text("/info/title").as_bytes());
    wire::bytes(&mut info, 2, text("/info/version").as_bytes());
    let mut definitions = Vec::new();
    let all = document.get("definitions").and_then(Value::as_object);
    for (name, schema) in all.into_iter().flatten() {
        wire::bytes(&mut definitions, 1, &named(name, &encode_schema(schema)));
    }
    let mut out = Vec::new();
    wire::bytes(&mut out, 1, text("/swagger").as_bytes());
    wire::bytes(&mut out, 2, &info);
    wire::bytes(&mut out, 8, &[]);
    wire::bytes(&mut out, 9, &definitions);
    out
}

fn named(name: &str, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    wire::bytes(&mut out, 1, name.as_bytes());
    wire::bytes(&mut out, 2, value);
    out
}

/// A value of any type, which gnostic keeps as YAML.
fn any(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    wire::bytes(&mut out, 2, yaml::write(value).as_bytes());
    out
}

fn encode_schema(schema: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for (key, value) in schema.as_object().into_iter().flatten() {
        let text = value.as_str().unwrap_or_default();
        match key.as_str() {
            "$ref" => wire::bytes(&mut out, 1, text.as_bytes()),
            "format" => wire::bytes(&mut out, 2, text.as_bytes()),
            "title" => wire::bytes(&mut out, 3, text.as_bytes()),
            "description" => wire::bytes(&mut out, 4, text.as_bytes()),
            "default" => wire::bytes(&mut out, 5, &any(value)),
            "required" => {
                for name in value.as_array().into_iter().flatten().filter_map(Value::as_str) {
                    wire::bytes(&mut out, 19, name.as_bytes());
                }
            }
            "enum" => {
                for value in value.as_array().into_iter().flatten() {
                    wire::bytes(&mut out, 20, &any(value));
                }
            }
            "additionalProperties" => {
                let mut inner = Vec::new();
                match value.as_bool() {
                    Some(allowed) => wire::varint(&mut inner, 2, allowed.into()),
                    None => wire::bytes(&mut inner, 1, &encode_schema(value)),
                }
                wire::bytes(&mut out, 21, &inner);
            }
            "type" => {
                let mut inner = Vec::new();
                wire::bytes(&mut inner, 1, text.as_bytes());
                wire::bytes(&mut out, 22, &inner);
            }
            "items" => {
                let mut inner = Vec::new();
                wire::bytes(&mut inner, 1, &encode_schema(value));
                wire::bytes(&mut out, 23, &inner);
            }
            "properties" => {
                let mut inner = Vec::new();
                for (name, property) in value.as_object().into_iter().flatten() {
                    wire::bytes(&mut inner, 1, &named(name, &encode_schema(property)));
                }
                wire::bytes(&mut out, 25, &inner);
            }
            extension if extension.starts_with("x-") => {
                wire::bytes(&mut out, 31, &named(extension, &any(value)));
            }
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_in_the_words_of_v2() {
        let document = document(TypeTable::built_in(), &[]);
        let text = document.to_string();
        assert!(
            !text.contains("#/components/") && !text.contains("\"oneOf\":[") && !text.contains("\"allOf\":[")
        );
        let props = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
        assert!(document["definitions"][props]["properties"]["oneOf"].is_object());
        let spec = &document["definitions"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
        assert_eq!(spec["x-kubernetes-patch-merge-key"], "name");
        assert_eq!(
            spec["items"]["$ref"],
            "#/definitions/io.k8s.api.core.v1.Container"
        );
        assert!(document["definitions"]["io.k8s.api.apps.v1.DeploymentList"].is_object());
        let quantity = &document["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"];
        assert_eq!(quantity["type"], "string");
        let bytes = encode(&document);
        assert!(bytes.starts_with(b"\x0a\x032.0\x12"));
        // Values of any type are in blocks, as gnostic writes them.
        assert_eq!(any(&json!([{"a": "b"}])), b"\x12\x07- a: b\n");
    }
}
