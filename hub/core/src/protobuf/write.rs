//! JSON into protobuf.

use super::{MAGIC, special, wire};
use crate::types::{Field, Plain, Shape, Special, TypeId, TypeTable};
use base64::Engine as _;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Writes an object of a type as a body. Members that the type does not have are left out.
pub fn encode(table: &TypeTable, of: TypeId, object: &Value) -> Vec<u8> {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let mut meta = Vec::new();
    wire::bytes(&mut meta, 1, text("apiVersion").as_bytes());
    wire::bytes(&mut meta, 2, text("kind").as_bytes());
    let nothing = Map::new();
    let content = message(table, of, object.as_object().unwrap_or(&nothing));
    let mut out = MAGIC.to_vec();
    wire::bytes(&mut out, 1, &meta);
    wire::bytes(&mut out, 2, &content);
    wire::bytes(&mut out, 3, &[]);
    wire::bytes(&mut out, 4, &[]);
    out
}

/// The type of JSON schemas in definitions.
pub(super) fn schema_type(table: &TypeTable) -> Option<TypeId> {
    table.type_named("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
}

/// A message and those embedded in it.
#[derive(Default)]
struct Tree {
    content: Vec<u8>,
    embedded: BTreeMap<u32, Tree>,
}

impl Tree {
    fn at(&mut self, path: &[u32]) -> &mut Vec<u8> {
        match path.split_first() {
            None => &mut self.content,
            Some((number, rest)) => self.embedded.entry(*number).or_default().at(rest),
        }
    }

    fn finish(self) -> Vec<u8> {
        let mut out = self.content;
        for (number, tree) in self.embedded {
            wire::bytes(&mut out, number, &tree.finish());
        }
        out
    }
}

fn message(table: &TypeTable, of: TypeId, members: &Map<String, Value>) -> Vec<u8> {
    let mut tree = Tree::default();
    let mut fields: Vec<&Field> = table.get(of).fields().iter().collect();
    fields.sort_by_key(|f| f.declared.number);
    for field in fields {
        let Some(given) = members.get(&*field.name).filter(|v| !v.is_null()) else {
            continue;
        };
        let (out, number) = (tree.at(&field.declared.inside), field.declared.number);
        match (&field.shape, given) {
            (Shape::List { items, .. }, Value::Array(list)) => {
                for item in list {
                    value(table, items, number, item, out);
                }
            }
            (Shape::Map { values, .. }, Value::Object(map)) => {
                for (key, inner) in map {
                    let mut entry = Vec::new();
                    wire::bytes(&mut entry, 1, key.as_bytes());
                    value(table, values, 2, inner, &mut entry);
                    wire::bytes(out, number, &entry);
                }
            }
            (shape, given) => value(table, shape, number, given, out),
        }
    }
    tree.finish()
}

fn value(table: &TypeTable, shape: &Shape, number: u32, given: &Value, out: &mut Vec<u8>) {
    match shape {
        Shape::Plain { of, format } => match of {
            Plain::String if &**format == "byte" => {
                let text = given.as_str().unwrap_or_default();
                let bytes = base64::engine::general_purpose::STANDARD.decode(text);
                wire::bytes(out, number, &bytes.unwrap_or_default());
            }
            Plain::String => wire::bytes(out, number, given.as_str().unwrap_or_default().as_bytes()),
            Plain::Boolean => wire::varint(out, number, given.as_bool().unwrap_or_default().into()),
            Plain::Integer => wire::varint(out, number, given.as_i64().unwrap_or_default().cast_unsigned()),
            Plain::Number => wire::fixed64(out, number, given.as_f64().unwrap_or_default().to_bits()),
        },
        Shape::Ref { to, .. } => {
            let nothing = Map::new();
            let inner = match table.get(*to).special {
                None => message(table, *to, given.as_object().unwrap_or(&nothing)),
                Some(
                    special @ (Special::SchemaOrBool | Special::SchemaOrArray | Special::SchemaOrStrings),
                ) => schema_or(table, special, given),
                Some(special) => special::write(special, given),
            };
            wire::bytes(out, number, &inner);
        }
        Shape::List { items, .. } => {
            let mut inner = Vec::new();
            for item in given.as_array().into_iter().flatten() {
                value(table, items, 1, item, &mut inner);
            }
            wire::bytes(out, number, &inner);
        }
        Shape::Any => wire::bytes(out, number, &special::write(Special::Raw, given)),
        // Maps of maps do not exist in the kinds.
        Shape::Map { .. } => {}
    }
}

fn schema_or(table: &TypeTable, special: Special, given: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    let schema = |value: &Value| match (schema_type(table), value.as_object()) {
        (Some(of), Some(members)) => message(table, of, members),
        _ => Vec::new(),
    };
    match (special, given) {
        (Special::SchemaOrBool, Value::Bool(allows)) => wire::varint(&mut out, 1, (*allows).into()),
        (Special::SchemaOrBool, _) => {
            wire::varint(&mut out, 1, 1);
            wire::bytes(&mut out, 2, &schema(given));
        }
        (Special::SchemaOrStrings, Value::Array(texts)) => {
            for text in texts.iter().filter_map(Value::as_str) {
                wire::bytes(&mut out, 2, text.as_bytes());
            }
        }
        (_, Value::Array(schemas)) => schemas.iter().for_each(|s| wire::bytes(&mut out, 2, &schema(s))),
        _ => wire::bytes(&mut out, 1, &schema(given)),
    }
    out
}
