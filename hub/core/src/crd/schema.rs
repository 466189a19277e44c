//! A structural schema in the form in which objects are walked by it: read once from the JSON of a definition.

use super::formats::Format;
use super::pattern::Pattern;
use super::rules::NodeRules;
use crate::ownership::ListKind;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// One node of a schema with everything below it.
#[derive(Debug, Clone, Default)]
pub struct Schema {
    /// The JSON type that values must have; none if any may stand here.
    pub of_type: Option<Box<str>>,
    /// `x-kubernetes-int-or-string`.
    pub is_int_or_string: bool,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub preserves_unknown: bool,
    /// `x-kubernetes-embedded-resource`: apiVersion, kind and metadata are there without being said.
    pub is_embedded: bool,
    /// Null may stand here.
    pub is_nullable: bool,
    /// What stands here if nothing is given.
    pub default: Option<Value>,
    /// Members by name.
    pub properties: BTreeMap<Box<str>, Schema>,
    /// All other members.
    pub additional: Additional,
    /// Items of a list.
    pub items: Option<Box<Schema>>,
    /// `x-kubernetes-list-type`; none if not said, which is atomic.
    pub list_kind: Option<ListKind>,
    /// `x-kubernetes-list-map-keys`.
    pub list_keys: Vec<Box<str>>,
    /// `x-kubernetes-map-type: atomic`.
    pub is_atomic_map: bool,
    /// What values must satisfy beyond their type.
    pub checks: Checks,
    /// Alternatives and the like.
    pub junctors: Junctors,
    /// `x-kubernetes-validations`.
    pub rules: Option<NodeRules>,
    /// Whether this node or one below it has a default.
    pub has_defaults: bool,
    /// Whether this node or one below it has rules.
    pub has_rules: bool,
}

/// Members that `properties` does not name.
#[derive(Debug, Clone, Default)]
pub enum Additional {
    /// Not said: they are unknown fields.
    #[default]
    Unsaid,
    /// `false`: refused.
    Refused,
    /// `true`: plain values of any kind.
    Any,
    /// Of this schema.
    Of(Box<Schema>),
}

/// Conditions on values.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "the names are those of JSON schema")]
pub struct Checks {
    pub format: Option<Format>,
    pub allowed: Vec<Value>,
    pub minimum: Option<f64>,
    pub maximum: Option<f64>,
    pub exclusive_minimum: bool,
    pub exclusive_maximum: bool,
    pub multiple_of: Option<f64>,
    pub min_length: Option<u64>,
    pub max_length: Option<u64>,
    pub pattern: Option<Pattern>,
    pub min_items: Option<u64>,
    pub max_items: Option<u64>,
    pub min_properties: Option<u64>,
    pub max_properties: Option<u64>,
    pub required: Vec<Box<str>>,
}

/// Schemas that hold together with this one.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "the names are those of JSON schema")]
pub struct Junctors {
    pub all_of: Vec<Schema>,
    pub any_of: Vec<Schema>,
    pub one_of: Vec<Schema>,
    pub not: Option<Box<Schema>>,
}

fn flag(raw: &Map<String, Value>, key: &str) -> bool {
    raw.get(key).and_then(Value::as_bool).unwrap_or(false)
}

fn count(raw: &Map<String, Value>, key: &str) -> Option<u64> {
    // Negative bounds hold for everything below them.
    raw.get(key)?.as_i64().map(|n| u64::try_from(n).unwrap_or(0))
}

fn texts(raw: &Map<String, Value>, key: &str) -> Vec<Box<str>> {
    let list = raw.get(key).and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(Box::from).collect()
}

fn all(raw: &Map<String, Value>, key: &str) -> Vec<Schema> {
    let list = raw.get(key).and_then(Value::as_array).into_iter().flatten();
    list.map(Schema::read).collect()
}

impl Schema {
    /// Reads a schema that was checked before; what is not understood is left out. Rules are not compiled here.
    pub fn read(raw: &Value) -> Schema {
        let Some(raw) = raw.as_object() else {
            return Schema::default();
        };
        let mut out = Schema {
            of_type: raw
                .get("type")
                .and_then(Value::as_str)
                .filter(|t| !t.is_empty())
                .map(Box::from),
            is_int_or_string: flag(raw, "x-kubernetes-int-or-string"),
            preserves_unknown: flag(raw, "x-kubernetes-preserve-unknown-fields"),
            is_embedded: flag(raw, "x-kubernetes-embedded-resource"),
            is_nullable: flag(raw, "nullable"),
            default: raw.get("default").filter(|d| !d.is_null()).cloned(),
            additional: match raw.get("additionalProperties") {
                Some(Value::Bool(true)) => Additional::Any,
                Some(Value::Bool(false)) => Additional::Refused,
                Some(of @ Value::Object(_)) => Additional::Of(Box::new(Schema::read(of))),
                _ => Additional::Unsaid,
            },
            items: raw
                .get("items")
                .filter(|i| i.is_object())
                .map(|i| Box::new(Schema::read(i))),
            list_kind: match raw.get("x-kubernetes-list-type").and_then(Value::as_str) {
                Some("set") => Some(ListKind::Set),
                Some("map") => Some(ListKind::Keyed),
                Some("atomic") => Some(ListKind::Atomic),
                _ => None,
            },
            list_keys: texts(raw, "x-kubernetes-list-map-keys"),
            is_atomic_map: raw.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic"),
            junctors: Junctors {
                all_of: all(raw, "allOf"),
                any_of: all(raw, "anyOf"),
                one_of: all(raw, "oneOf"),
                not: raw
                    .get("not")
                    .filter(|n| n.is_object())
                    .map(|n| Box::new(Schema::read(n))),
            },
            ..Schema::default()
        };
        let members = raw
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten();
        out.properties = members
            .map(|(name, of)| (Box::from(name.as_str()), Schema::read(of)))
            .collect();
        out.checks = Checks {
            format: raw
                .get("format")
                .and_then(Value::as_str)
                .and_then(|name| Format::of(name, out.of_type.as_deref())),
            allowed: raw
                .get("enum")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default(),
            minimum: raw.get("minimum").and_then(Value::as_f64),
            maximum: raw.get("maximum").and_then(Value::as_f64),
            exclusive_minimum: flag(raw, "exclusiveMinimum"),
            exclusive_maximum: flag(raw, "exclusiveMaximum"),
            multiple_of: raw.get("multipleOf").and_then(Value::as_f64),
            min_length: count(raw, "minLength"),
            max_length: count(raw, "maxLength"),
            pattern: raw
                .get("pattern")
                .and_then(Value::as_str)
                .filter(|p| !p.is_empty())
                .map(Pattern::new),
            min_items: count(raw, "minItems"),
            max_items: count(raw, "maxItems"),
            min_properties: count(raw, "minProperties"),
            max_properties: count(raw, "maxProperties"),
            required: texts(raw, "required"),
        };
        out.has_defaults = out.default.is_some() || out.below().any(|s| s.has_defaults);
        out
    }

    /// The nodes directly below in the structure, junctors left out.
    pub fn below(&self) -> impl Iterator<Item = &Schema> {
        let additional = match &self.additional {
            Additional::Of(of) => Some(&**of),
            _ => None,
        };
        self.properties
            .values()
            .chain(additional)
            .chain(self.items.as_deref())
    }

    /// The schema of a member: `None` if the schema says nothing of it.
    pub fn member(&self, name: &str) -> Option<&Schema> {
        match (self.properties.get(name), &self.additional) {
            (Some(of), _) => Some(of),
            (None, Additional::Of(of)) => Some(of),
            (None, _) => None,
        }
    }

    /// The types that a value may have, as they are named in messages.
    pub(super) fn type_names(&self) -> String {
        if self.is_int_or_string {
            "integer,string".to_owned()
        } else {
            self.of_type.as_deref().unwrap_or_default().to_owned()
        }
    }

    /// Whether a value of that JSON type may stand here; true if no type is said.
    pub(super) fn takes(&self, json_type: &str) -> bool {
        match &self.of_type {
            _ if self.is_int_or_string => matches!(json_type, "integer" | "string"),
            None => true,
            Some(of) => &**of == json_type,
        }
    }

    /// The old value of an item of a list, by its keys; none for lists without keys.
    pub(super) fn item_before<'v>(&self, item: &Value, before: Option<&'v Value>) -> Option<&'v Value> {
        if self.list_kind != Some(ListKind::Keyed) {
            return None;
        }
        let same = |other: &Value| {
            self.list_keys
                .iter()
                .all(|key| item.get(&**key) == other.get(&**key))
        };
        before?.as_array()?.iter().find(|other| same(other))
    }

    /// The old value of a member.
    pub(super) fn member_before<'v>(&self, name: &str, before: Option<&'v Value>) -> Option<&'v Value> {
        if self.is_atomic_map {
            return None;
        }
        before?.as_object()?.get(name)
    }
}

/// Path of a member of the value at `path`; the root's path is empty.
pub(super) fn member_path(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}
