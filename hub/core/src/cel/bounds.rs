//! How large the values of a schema can get at most: what estimates of costs are made of.
//! Source: apiserver `cel/common/schemas.go` (`SchemaDeclType`), with its quirks: they decide which definitions are taken.

use super::escape::escape;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// The largest request, in bytes.
const REQUEST: u64 = 3 * 1024 * 1024;

/// A node of a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// Characters of a text, items of a list, members of a map; 0 where nothing is counted.
    pub(super) most: u64,
    /// The shortest value in JSON, in bytes.
    least: u64,
    pub(super) below: Below,
}

/// What is below a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Below {
    Nothing,
    Items(Box<Bounds>),
    Values(Box<Bounds>),
    /// By escaped names.
    Members(BTreeMap<String, Bounds>),
}

fn leaf(least: u64, most: u64) -> Bounds {
    Bounds {
        most,
        least,
        below: Below::Nothing,
    }
}

/// Of what expressions cannot look into.
impl Default for Bounds {
    fn default() -> Bounds {
        leaf(2, 0)
    }
}

impl Bounds {
    /// Reads a JSON schema; none if expressions cannot name what stands there. A root also has `apiVersion`, `kind` and the
    /// names in `metadata`.
    pub fn read(schema: &Json, is_root: bool) -> Option<Bounds> {
        let is_set = |key: &str| schema.get(key).and_then(Json::as_bool) == Some(true);
        let word = |key: &str| schema.get(key).and_then(Json::as_str).unwrap_or_default();
        let bound = |key: &str| {
            let given = schema.get(key).and_then(Json::as_i64);
            given.map(|n| u64::try_from(n).unwrap_or(0))
        };
        // Lengths are characters; sizes are bytes, of which a character has up to four.
        let bytes = || bound("maxLength").map(|most| most.saturating_mul(4));
        if is_set("x-kubernetes-int-or-string") {
            return Some(leaf(1, bytes().unwrap_or(REQUEST - 2)));
        }
        let is_root = is_root || is_set("x-kubernetes-embedded-resource");
        Some(match (word("type"), word("format")) {
            ("boolean", _) => leaf(4, 0),
            ("integer" | "number", _) => leaf(1, 0),
            ("string", "byte") => leaf(2, bound("maxLength").unwrap_or(REQUEST - 2)),
            ("string", "duration") => leaf(3, 32),
            ("string", "date") => leaf(12, 12),
            ("string", "date-time") => leaf(21, 32),
            ("string", _) => leaf(2, bytes().or_else(|| longest(schema)).unwrap_or(REQUEST - 2)),
            ("array", _) => {
                let items = Bounds::read(schema.get("items")?, false)?;
                let most = bound("maxItems").unwrap_or((REQUEST - 2) / (items.least + 1));
                Bounds {
                    most,
                    least: 2,
                    below: Below::Items(Box::new(items)),
                }
            }
            ("object", _) => match schema.get("additionalProperties") {
                Some(values @ Json::Object(_)) => {
                    let values = Bounds::read(values, false)?;
                    let most = bound("maxProperties").unwrap_or((REQUEST - 2) / (values.least + 6));
                    Bounds {
                        most,
                        least: 2,
                        below: Below::Values(Box::new(values)),
                    }
                }
                _ => object(schema, is_root),
            },
            _ => return None,
        })
    }

    /// How often values of this kind can stand in one request.
    pub fn times(&self) -> u64 {
        REQUEST / (self.least + 1)
    }
}

/// Of a text that is one of some.
fn longest(schema: &Json) -> Option<u64> {
    let values = schema
        .get("enum")?
        .as_array()
        .filter(|values| !values.is_empty())?;
    let lengths = values.iter().filter_map(Json::as_str).map(str::len);
    Some(lengths.max().unwrap_or(0) as u64)
}

fn object(schema: &Json, is_root: bool) -> Bounds {
    let text = || leaf(2, REQUEST - 2);
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Json::as_array)
        .into_iter()
        .flatten()
        .filter_map(Json::as_str)
        .collect();
    let mut members = BTreeMap::new();
    let mut least = 2;
    let mut add = |name: &str, of: Option<Bounds>, has_default: bool| {
        let Some(of) = of else { return };
        if required.contains(&name) && !has_default {
            least += name.len() as u64 + of.least + 4;
        }
        if let Some(escaped) = escape(name) {
            members.insert(escaped, of);
        }
    };
    for (name, of) in schema
        .get("properties")
        .and_then(Json::as_object)
        .into_iter()
        .flatten()
    {
        if is_root && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
            continue;
        }
        let has_default = of.get("default").is_some_and(|default| !default.is_null());
        add(name, Bounds::read(of, false), has_default);
    }
    if is_root {
        add("apiVersion", Some(text()), false);
        add("kind", Some(text()), false);
        let names = [("name".to_owned(), text()), ("generateName".to_owned(), text())];
        let metadata = Bounds {
            most: 0,
            least: 2,
            below: Below::Members(names.into()),
        };
        add("metadata", Some(metadata), false);
    }
    Bounds {
        most: 0,
        least,
        below: Below::Members(members),
    }
}
