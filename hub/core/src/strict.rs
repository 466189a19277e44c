//! Reading of request bodies: JSON with every duplicate key noticed, then checked against the type table. Unknown
//! fields are dropped as a Kubernetes API server drops them, and named, so that `fieldValidation` Strict can refuse and
//! Warn can warn. A value of the wrong type is always refused.

use crate::timestamp;
use crate::types::{Plain, Shape, Special, TypeId, TypeTable};
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::cell::RefCell;
use std::fmt;

/// Findings kept per body; more are counted as one.
pub const MAX_FINDINGS: usize = 64;

/// What a body holds beyond its value.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// `unknown field "spec.x"`, in the order of the body.
    pub unknown: Vec<String>,
    /// `duplicate field "spec.x"`.
    pub duplicate: Vec<String>,
}

impl Findings {
    /// Both lists, duplicates last, as Kubernetes joins them.
    pub fn all(&self) -> impl Iterator<Item = &String> {
        self.unknown.iter().chain(&self.duplicate)
    }

    /// Nothing found.
    pub fn is_empty(&self) -> bool {
        self.unknown.is_empty() && self.duplicate.is_empty()
    }
}

fn note(list: &mut Vec<String>, text: String) {
    if list.len() < MAX_FINDINGS {
        list.push(text);
    }
}

/// Reads JSON; the last of duplicate keys wins, each duplicate is noted with its path.
///
/// # Errors
/// Not JSON, or nested deeper than serde_json allows (128).
pub fn parse(body: &[u8], findings: &mut Findings) -> Result<Value, serde_json::Error> {
    let duplicates = RefCell::new(Vec::new());
    let mut from = serde_json::Deserializer::from_slice(body);
    let value = Seed {
        path: String::new(),
        duplicates: &duplicates,
    }
    .deserialize(&mut from)?;
    from.end()?;
    findings.duplicate.append(&mut duplicates.into_inner());
    Ok(value)
}

struct Seed<'a> {
    path: String,
    duplicates: &'a RefCell<Vec<String>>,
}

fn member(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<Value, E> {
        Number::from_f64(v)
            .map(Value::Number)
            .ok_or_else(|| E::custom("not a finite number"))
    }

    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(Value::String(v.to_owned()))
    }

    fn visit_string<E>(self, v: String) -> Result<Value, E> {
        Ok(Value::String(v))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            let path = format!("{}[{}]", self.path, items.len());
            match seq.next_element_seed(Seed {
                path,
                duplicates: self.duplicates,
            })? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let path = member(&self.path, &key);
            let value = map.next_value_seed(Seed {
                path: path.clone(),
                duplicates: self.duplicates,
            })?;
            if members.insert(key, value).is_some() {
                note(
                    &mut self.duplicates.borrow_mut(),
                    format!("duplicate field \"{path}\""),
                );
            }
        }
        // serde_json limits depth, not width; the caller limits the body.
        if members.len() > crate::limits::MAX_MEMBERS {
            return Err(A::Error::custom("too many members in one object"));
        }
        Ok(Value::Object(members))
    }
}

/// Checks an object against its type: drops unknown fields and nulls, notes the former, refuses wrong types.
///
/// # Errors
/// A value of the wrong type, as Go's decoder words it.
pub fn check(
    table: &TypeTable,
    of: TypeId,
    object: &mut Value,
    findings: &mut Findings,
) -> Result<(), String> {
    let mut walk = Walk {
        table,
        findings,
        within: "",
    };
    walk.type_(of, object, "")
}

struct Walk<'a> {
    table: &'a TypeTable,
    findings: &'a mut Findings,
    /// Go name of the innermost struct.
    within: &'a str,
}

/// Last part of a model name: the Go name.
fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or_default()
}

/// A type of the table as Go names it: `v1.PodSpec`.
fn go_type(table: &TypeTable, shape: &Shape) -> String {
    match shape {
        Shape::Any => "interface {}".to_owned(),
        Shape::Ref { to, .. } => {
            let mut parts = table.get(*to).name.rsplit('.');
            let name = parts.next().unwrap_or_default();
            format!("{}.{name}", parts.next().unwrap_or_default())
        }
        Shape::Plain { of, format } => match of {
            Plain::String if &**format == "byte" => "[]uint8".to_owned(),
            Plain::String => "string".to_owned(),
            Plain::Boolean => "bool".to_owned(),
            Plain::Number => "float64".to_owned(),
            Plain::Integer => format.to_string(),
        },
        Shape::List { items, .. } => format!("[]{}", go_type(table, items)),
        Shape::Map { values, .. } => format!("map[string]{}", go_type(table, values)),
    }
}

/// A path without the places in lists, as Go's decoder has it.
fn placeless(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut is_place = false;
    for c in path.chars() {
        match c {
            '[' => is_place = true,
            ']' => is_place = false,
            c if !is_place => out.push(c),
            _ => {}
        }
    }
    out
}

/// The kind of a JSON value, as Go's decoder names it.
pub fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn wrong(within: &str, value: &Value, path: &str, go: &str) -> String {
    format!(
        "json: cannot unmarshal {} into Go struct field {within}.{} of type {go}",
        json_kind(value),
        placeless(path)
    )
}

impl<'a> Walk<'a> {
    fn type_(&mut self, id: TypeId, value: &mut Value, path: &str) -> Result<(), String> {
        let table: &'a TypeTable = self.table;
        let of = table.get(id);
        if let Some(special) = of.special {
            return check_special(special, self.within, value, path);
        }
        let Value::Object(members) = value else {
            let go = go_type(
                table,
                &Shape::Ref {
                    to: id,
                    atomic: false,
                },
            );
            return Err(wrong(self.within, value, path, &go));
        };
        let around = std::mem::replace(&mut self.within, short(&of.name));
        let has_kind = path.is_empty() || !of.kinds.is_empty();
        let mut dropped = Vec::new();
        for (key, inner) in members.iter_mut() {
            if has_kind && (key == "apiVersion" || key == "kind") {
                if !inner.is_string() {
                    return Err(wrong(self.within, inner, &member(path, key), "string"));
                }
                continue;
            }
            match of.field(key) {
                None => {
                    note(
                        &mut self.findings.unknown,
                        format!("unknown field \"{}\"", member(path, key)),
                    );
                    dropped.push(key.clone());
                }
                Some(_) if inner.is_null() => dropped.push(key.clone()),
                Some(field) => self.shape(&field.shape, inner, &member(path, key))?,
            }
        }
        for key in dropped {
            members.remove(&key);
        }
        self.within = around;
        Ok(())
    }

    fn shape(&mut self, shape: &Shape, value: &mut Value, path: &str) -> Result<(), String> {
        match shape {
            Shape::Any => Ok(()),
            Shape::Ref { to, .. } => self.type_(*to, value, path),
            Shape::Plain { of, format } => check_plain(*of, format, self.within, value, path),
            Shape::List { items, .. } => {
                let Value::Array(list) = value else {
                    return Err(wrong(self.within, value, path, &go_type(self.table, shape)));
                };
                for (at, item) in list.iter_mut().enumerate() {
                    self.shape(items, item, &format!("{path}[{at}]"))?;
                }
                Ok(())
            }
            Shape::Map { values, .. } => {
                let Value::Object(map) = value else {
                    return Err(wrong(self.within, value, path, &go_type(self.table, shape)));
                };
                let plain_text = matches!(
                    **values,
                    Shape::Plain {
                        of: Plain::String,
                        ..
                    }
                );
                for (key, inner) in map.iter_mut() {
                    if inner.is_null() && plain_text {
                        // Go decodes null into the zero value.
                        *inner = Value::String(String::new());
                    }
                    self.shape(values, inner, &member(path, key))?;
                }
                Ok(())
            }
        }
    }
}

fn check_plain(of: Plain, format: &str, within: &str, value: &Value, path: &str) -> Result<(), String> {
    match (of, value) {
        (Plain::String, Value::String(text)) => match format {
            "byte" => check_base64(text),
            _ => Ok(()),
        },
        (Plain::String, _) => Err(wrong(within, value, path, "string")),
        (Plain::Boolean, Value::Bool(_)) | (Plain::Number, Value::Number(_)) => Ok(()),
        (Plain::Boolean, _) => Err(wrong(within, value, path, "bool")),
        (Plain::Number, _) => Err(wrong(within, value, path, "float64")),
        (Plain::Integer, Value::Number(n)) => {
            let fits = match (format, n.as_i64()) {
                ("int32", Some(n)) => i32::try_from(n).is_ok(),
                (_, Some(_)) => true,
                (_, None) => false,
            };
            if fits {
                Ok(())
            } else {
                Err(format!(
                    "json: cannot unmarshal number {n} into Go struct field {within}.{} of type {format}",
                    placeless(path)
                ))
            }
        }
        (Plain::Integer, _) => Err(wrong(within, value, path, format)),
    }
}

fn check_special(special: Special, within: &str, value: &Value, path: &str) -> Result<(), String> {
    match (special, value) {
        (Special::Time | Special::MicroTime, Value::String(text)) if timestamp::parse(text).is_none() => Err(
            format!("parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {path}"),
        ),
        (Special::Time | Special::MicroTime | Special::Duration, Value::String(_) | Value::Null) => Ok(()),
        (Special::Time | Special::MicroTime | Special::Duration, _) => {
            Err(wrong(within, value, path, "string"))
        }
        (Special::Quantity, Value::String(text)) if !is_quantity(text) => Err(format!(
            "{path}: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )),
        (Special::Quantity | Special::IntOrString, Value::String(_) | Value::Number(_)) => Ok(()),
        (Special::Quantity | Special::IntOrString, _) => {
            Err(wrong(within, value, path, "intstr.IntOrString"))
        }
        _ => Ok(()),
    }
}

/// The grammar of quantities, without the check of their range.
fn is_quantity(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let number_ok = number.bytes().any(|b| b.is_ascii_digit()) && number.matches('.').count() <= 1;
    let exponent = || {
        let rest = suffix.strip_prefix(['e', 'E'])?;
        let rest = rest.strip_prefix(['+', '-']).unwrap_or(rest);
        Some(!rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    const SUFFIXES: [&str; 16] = [
        "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
    ];
    number_ok && (SUFFIXES.contains(&suffix) || exponent() == Some(true))
}

fn check_base64(text: &str) -> Result<(), String> {
    use base64::{DecodeError, Engine as _};
    match base64::engine::general_purpose::STANDARD.decode(text) {
        Ok(_) => Ok(()),
        Err(DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _)) => {
            Err(format!("illegal base64 data at input byte {at}"))
        }
        Err(_) => Err(format!(
            "illegal base64 data at input byte {}",
            text.len() / 4 * 4
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn deployment(body: &Value) -> (Value, Findings, Result<(), String>) {
        let table = TypeTable::built_in();
        let of = table
            .resource("apps", "v1", "deployments")
            .expect("deployments")
            .of_type;
        let mut object = body.clone();
        let mut findings = Findings::default();
        let result = check(table, of, &mut object, &mut findings);
        (object, findings, result)
    }

    #[test]
    fn duplicates_are_named_with_their_path() {
        let mut findings = Findings::default();
        let body = br#"{"spec":{"a":1,"l":[{"x":1,"x":2}],"a":3}}"#;
        let value = parse(body, &mut findings).expect("JSON");
        assert_eq!(value["spec"]["a"], 3);
        assert_eq!(
            findings.duplicate,
            ["duplicate field \"spec.l[0].x\"", "duplicate field \"spec.a\""]
        );
        assert!(parse(b"{} x", &mut findings).is_err());
    }

    #[test]
    fn unknown_fields_are_dropped_and_named() {
        let body = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {
            "replicaz": 1, "replicas": null, "template": {"spec": {"containers": [{"name": "a", "imag": "b"}]}}}});
        let (object, findings, result) = deployment(&body);
        assert_eq!(result, Ok(()));
        assert_eq!(
            findings.unknown,
            [
                "unknown field \"spec.replicaz\"",
                "unknown field \"spec.template.spec.containers[0].imag\"",
            ]
        );
        assert_eq!(
            object["spec"],
            json!({"template": {"spec": {"containers": [{"name": "a"}]}}})
        );
    }

    #[test]
    fn wrong_types_are_refused() {
        let container = |key: &str, value: Value| json!({"spec": {"template": {"spec": {"containers": [{"name": "a", key: value}]}}}});
        let table = [
            (json!({"spec": {"replicas": "3"}}), "of type int32"),
            (json!({"spec": {"replicas": 3_000_000_000_i64}}), "of type int32"),
            (json!({"spec": {"paused": 1}}), "of type bool"),
            (
                json!({"metadata": {"labels": {"a": 1}}}),
                "ObjectMeta.metadata.labels.a of type string",
            ),
            (json!({"metadata": {"creationTimestamp": "now"}}), "parsing time"),
            (
                container("ports", json!({})),
                "Container.spec.template.spec.containers.ports of type []v1.ContainerPort",
            ),
            (
                container("resources", json!({"limits": {"cpu": "a lot"}})),
                "quantities must match",
            ),
            (json!([]), "array"),
        ];
        for (body, expected) in table {
            let (_, _, result) = deployment(&body);
            let error = result.expect_err(expected);
            assert!(error.contains(expected), "{error}");
        }
        for (key, value) in [
            (
                "resources",
                json!({"limits": {"cpu": "100m", "memory": "1.5Gi", "x": 2, "y": "1e3"}}),
            ),
            ("livenessProbe", json!({"httpGet": {"port": "http"}})),
        ] {
            assert_eq!(deployment(&container(key, value)).2, Ok(()));
        }
    }
}
