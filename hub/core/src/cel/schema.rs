//! A schema of a custom resource as expressions see it: which members can be named, of which types, and the values.
//! Source: apiserver `cel/common/schemas.go` and `values.go`.

use super::escape::escape;
use super::lists::{ListKind, Lists};
use super::types::{ObjectType, Type};
use super::value::{self, from_json, map, text};
use kube_cel::cel::Value;
use kube_cel::cel::objects::Key;
use serde_json::Value as Json;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A node of a schema.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// Anything: integers or texts, or what the schema says nothing about.
    Any,
    /// `boolean`.
    Bool,
    /// `integer`.
    Int,
    /// `number`.
    Double,
    /// `string` with its format.
    Text(Option<String>),
    /// `array` with its kind.
    List(Box<Shape>, ListKind),
    /// `object` with `additionalProperties`.
    Map(Box<Shape>),
    /// `object` with members: their names and, where expressions can name them, their escaped names.
    Object(BTreeMap<String, (String, Shape)>),
}

impl Shape {
    /// Reads a JSON schema; a root also has `apiVersion`, `kind` and the names in `metadata`.
    pub fn read(schema: &Json, is_root: bool) -> Shape {
        Shape::node(schema, is_root).unwrap_or(Shape::Any)
    }

    /// None if expressions cannot name what stands there.
    fn node(schema: &Json, is_root: bool) -> Option<Shape> {
        let is_set = |key: &str| schema.get(key).and_then(Json::as_bool) == Some(true);
        let word = |key: &str| schema.get(key).and_then(Json::as_str).unwrap_or_default();
        if is_set("x-kubernetes-int-or-string") {
            return Some(Shape::Any);
        }
        Some(match word("type") {
            "boolean" => Shape::Bool,
            "integer" => Shape::Int,
            "number" => Shape::Double,
            "string" => Shape::Text(Some(word("format").to_owned()).filter(|f| !f.is_empty())),
            "array" => Shape::List(
                Box::new(Shape::node(schema.get("items")?, false)?),
                list_kind(schema),
            ),
            "object" => match schema.get("additionalProperties") {
                Some(values @ Json::Object(_)) => Shape::Map(Box::new(Shape::node(values, false)?)),
                _ => Shape::Object(members(
                    schema,
                    is_root || is_set("x-kubernetes-embedded-resource"),
                )),
            },
            _ => return None,
        })
    }

    /// The type of values of this shape.
    pub fn to_type(&self) -> Type {
        match self {
            Shape::Any => Type::Dyn,
            Shape::Bool => Type::plain("bool"),
            Shape::Int => Type::plain("int"),
            Shape::Double => Type::plain("double"),
            Shape::Text(format) => Type::plain(match format.as_deref() {
                Some("byte") => "bytes",
                Some("date" | "date-time") => "timestamp",
                Some("duration") => "duration",
                _ => "string",
            }),
            Shape::List(items, _) => Type::list(items.to_type()),
            Shape::Map(values) => Type::map(values.to_type()),
            Shape::Object(members) => {
                let fields = members
                    .values()
                    .map(|(escaped, shape)| (escaped.clone(), shape.to_type()));
                Type::Object(Arc::new(ObjectType {
                    name: "object".to_owned(),
                    fields: fields.collect(),
                }))
            }
        }
    }

    /// A document of this shape as a value; what its lists are is told to `lists`.
    pub fn value(&self, json: &Json, lists: &Lists) -> Value {
        match (self, json) {
            (Shape::Text(Some(format)), Json::String(s)) => value::of_format(format, s),
            (Shape::Text(None), Json::String(s)) => text(s.as_str()),
            (Shape::Double, Json::Number(n)) => n.as_f64().map_or(Value::Null, Value::Float),
            (Shape::Int, Json::Number(n)) if n.is_f64() => match n.as_f64() {
                #[expect(clippy::cast_possible_truncation, reason = "whole numbers in range only")]
                Some(n) if n.fract() == 0.0 && n.abs() < 9e18 => Value::Int(n as i64),
                _ => from_json(json),
            },
            (Shape::List(shape, kind), Json::Array(items)) => {
                let value = value::list(items.iter().map(|item| shape.value(item, lists)).collect());
                lists.remember(kind, &value);
                value
            }
            (Shape::Map(shape), Json::Object(members)) => {
                let members = members
                    .iter()
                    .map(|(name, member)| (Key::from(name.as_str()), shape.value(member, lists)));
                map(members.collect())
            }
            (Shape::Object(known), Json::Object(members)) => {
                let mut out = HashMap::with_capacity(members.len());
                for (name, member) in members {
                    if let Some((escaped, shape)) = known.get(name) {
                        out.insert(Key::from(escaped.as_str()), shape.value(member, lists));
                    }
                }
                map(out)
            }
            _ => from_json(json),
        }
    }
}

fn list_kind(schema: &Json) -> ListKind {
    let texts = |key: &str| schema.get(key).and_then(Json::as_array).into_iter().flatten();
    match schema.get("x-kubernetes-list-type").and_then(Json::as_str) {
        Some("set") => ListKind::Set,
        Some("map") => {
            let keys = texts("x-kubernetes-list-map-keys").filter_map(Json::as_str);
            ListKind::Keyed(
                keys.map(|key| escape(key).unwrap_or_else(|| key.to_owned()))
                    .collect(),
            )
        }
        _ => ListKind::Atomic,
    }
}

fn members(schema: &Json, is_resource: bool) -> BTreeMap<String, (String, Shape)> {
    let mut out = BTreeMap::new();
    for (name, member) in schema
        .get("properties")
        .and_then(Json::as_object)
        .into_iter()
        .flatten()
    {
        if is_resource && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
            continue;
        }
        if let (Some(escaped), Some(shape)) = (escape(name), Shape::node(member, false)) {
            out.insert(name.clone(), (escaped, shape));
        }
    }
    if is_resource {
        let plain = |name: &str| (name.to_owned(), (name.to_owned(), Shape::Text(None)));
        out.extend([plain("apiVersion"), plain("kind")]);
        let metadata = Shape::Object([plain("name"), plain("generateName")].into());
        out.insert("metadata".to_owned(), ("metadata".to_owned(), metadata));
    }
    out
}
