//! What becomes of one custom object: how a body is taken, how a stored one is read, what is wrong with a new state.

use super::kind::Custom;
use super::rules::{Spent, Subject};
use super::schema::{Schema, member_path};
use super::{lists, shape, validate};
use crate::status_error::Cause;
use crate::strict::{self, Findings};
use crate::types::{TypeId, TypeTable};
use serde_json::{Map, Value, json};

/// Which part of an object a write may change, for its checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// The object.
    Whole,
    /// Its status alone.
    Status,
}

impl Custom {
    /// Takes a body: wrong types in metadata are refused, unknown fields go and are noted, defaults come.
    ///
    /// # Errors
    /// A value of the wrong type in metadata, as Go's decoder words it.
    pub fn take(
        &self,
        table: &TypeTable,
        metadata_type: TypeId,
        object: &mut Value,
        findings: &mut Findings,
    ) -> Result<(), String> {
        check_metadata(table, metadata_type, object, findings)?;
        embedded_metadata(table, metadata_type, &self.schema, object, "", findings)?;
        let gone = shape::prune(&self.schema, object);
        findings
            .unknown
            .extend(gone.iter().map(|path| format!("unknown field \"{path}\"")));
        findings.unknown.sort();
        findings.unknown.truncate(strict::MAX_FINDINGS);
        shape::fill(&self.schema, object);
        Ok(())
    }

    /// A stored object as this version shows it: shaped by the schema that is in force now.
    pub fn read(&self, api_version: &str, mut object: Value) -> Value {
        let stored = self.of_version(&self.stored_as);
        shape::prune(stored, &mut object);
        shape::fill(stored, &mut object);
        if let Some(members) = object.as_object_mut() {
            members.insert("apiVersion".to_owned(), json!(api_version));
        }
        object
    }

    /// An object as it is stored: in the storage version, without what that does not know.
    pub fn to_storage(&self, object: &mut Value) {
        let Some(members) = object.as_object_mut() else {
            return;
        };
        let is_stored = members.get("apiVersion").and_then(Value::as_str) == Some(&*self.stored_as);
        if !is_stored {
            members.insert("apiVersion".to_owned(), json!(self.stored_as));
            shape::prune(self.of_version(&self.stored_as), object);
        }
    }

    /// Whether the bytes of an object stored at that revision can be shown as they are.
    pub fn is_current(&self, revision: u64) -> bool {
        revision > self.since
    }

    /// The schema of a version, this one's if there is no such version.
    pub fn of_version(&self, api_version: &str) -> &Schema {
        let found = self.all.iter().find(|(name, _)| **name == *api_version);
        found.map_or(&self.schema, |(_, schema)| schema)
    }

    /// All that is wrong with a new state; `old` is the state before it.
    pub fn check(&self, object: &Value, old: Option<&Value>, written: Written) -> Vec<Cause> {
        let mut causes = Vec::new();
        match written {
            Written::Whole => {
                causes.extend(validate::check(&self.schema, object, old, ""));
                causes.extend(self.check_replicas(object));
            }
            Written::Status => {
                if let (Some(of), Some(status)) = (self.schema.properties.get("status"), object.get("status"))
                {
                    let before = old.and_then(|old| old.get("status"));
                    let found = validate::check(of, status, before, "");
                    causes.extend(found.into_iter().map(|mut cause| {
                        cause.field = match cause.field.as_str() {
                            "<nil>" => "status".to_owned(),
                            inner => format!("status.{inner}"),
                        };
                        cause
                    }));
                }
            }
        }
        causes.extend(self.check_present(object));
        embedded(&self.schema, object, "", &mut causes);
        let doubles = lists::check(&self.schema, object);
        // What was there twice before is not held against the writer.
        if old.is_none_or(|old| lists::check(&self.schema, old).is_empty()) {
            causes.extend(doubles);
        }
        self.ask(object, old, causes)
    }

    /// Rules are asked about objects that are whole; the answer says so if they are not.
    fn ask(&self, object: &Value, old: Option<&Value>, mut causes: Vec<Cause>) -> Vec<Cause> {
        if !self.schema.has_rules {
            return causes;
        }
        let blocks = |c: &Cause| {
            [
                "FieldValueRequired",
                "FieldValueTooLong",
                "FieldValueTooMany",
                "FieldValueTypeInvalid",
            ]
            .contains(&c.reason)
        };
        if causes.iter().any(blocks) {
            causes.push(Cause {
                reason: "FieldValueInvalid",
                message: "Invalid value: null: some validation rules were not checked because the object was invalid; correct \
                          the existing errors to complete validation"
                    .to_owned(),
                field: "<nil>".to_owned(),
            });
            return causes;
        }
        let mut spent = Spent::default();
        ask(&self.schema, object, old, "", &mut spent, &mut causes);
        causes
    }

    /// Replicas of the scale subresource are whole numbers that are not negative.
    fn check_replicas(&self, object: &Value) -> Option<Cause> {
        let path = &self.scale.as_ref()?.spec;
        replicas(object, path)
    }

    fn check_present(&self, object: &Value) -> Option<Cause> {
        let path = &self.scale.as_ref()?.status;
        replicas(object, path)
    }
}

/// The value at a path of members.
pub(super) fn at<'v>(object: &'v Value, path: &[Box<str>]) -> Option<&'v Value> {
    path.iter().try_fold(object, |value, key| value.get(&**key))
}

fn replicas(object: &Value, path: &[Box<str>]) -> Option<Cause> {
    let found = at(object, path)?;
    let field = format!(".{}", path.join("."));
    let Some(count) = found.as_i64() else {
        let go = match found {
            Value::String(_) => "string",
            Value::Bool(_) => "bool",
            Value::Number(_) => "float64",
            Value::Array(_) => "[]interface {}",
            Value::Object(_) => "map[string]interface {}",
            Value::Null => "<nil>",
        };
        let shown = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
        let why = format!("{field} accessor error: {shown} is of the type {go}, expected int64");
        return Some(Cause::invalid(field, &json!(0), why));
    };
    if count < 0 {
        return Some(Cause::invalid(field, found, "should be a non-negative integer"));
    }
    let most = i64::from(i32::MAX);
    (count > most).then(|| Cause::invalid(field, found, format!("should be less than or equal to {most}")))
}

/// Checks `metadata` as that of every kind.
fn check_metadata(
    table: &TypeTable,
    of: TypeId,
    object: &mut Value,
    findings: &mut Findings,
) -> Result<(), String> {
    let Some(metadata) = object.get_mut("metadata") else {
        return Ok(());
    };
    let mut alone = Value::Object(Map::from_iter([("metadata".to_owned(), metadata.take())]));
    let checked = strict::check(table, of, &mut alone, findings);
    match alone.get_mut("metadata") {
        Some(checked) => *metadata = checked.take(),
        // Null is no metadata.
        None => *metadata = json!({}),
    }
    checked
}

/// The same for objects within the object.
fn embedded_metadata(
    table: &TypeTable,
    of: TypeId,
    schema: &Schema,
    value: &mut Value,
    path: &str,
    findings: &mut Findings,
) -> Result<(), String> {
    match value {
        Value::Object(members) => {
            for (name, inner) in members.iter_mut() {
                let Some(below) = schema.member(name) else {
                    continue;
                };
                let at = member_path(path, name);
                if below.is_embedded && inner.get("metadata").is_some_and(Value::is_object) {
                    let mut inside = Findings::default();
                    check_metadata(table, of, inner, &mut inside)?;
                    let with_path = |text: &String| text.replacen('"', &format!("\"{at}."), 1);
                    findings.unknown.extend(inside.unknown.iter().map(with_path));
                }
                embedded_metadata(table, of, below, inner, &at, findings)?;
            }
        }
        Value::Array(items) => {
            if let Some(below) = &schema.items {
                for (number, item) in items.iter_mut().enumerate() {
                    let at = format!("{path}[{number}]");
                    if below.is_embedded && item.get("metadata").is_some_and(Value::is_object) {
                        check_metadata(table, of, item, findings)?;
                    }
                    embedded_metadata(table, of, below, item, &at, findings)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// Objects within the object say what they are.
fn embedded(schema: &Schema, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    if schema.is_embedded && value.is_object() {
        for key in ["apiVersion", "kind"] {
            let field = member_path(path, key);
            match value.get(key) {
                Some(Value::String(text)) if !text.is_empty() => {}
                None => causes.push(Cause::required(field, "")),
                Some(Value::String(_)) => causes.push(Cause::required(field, "must not be empty")),
                Some(other) => causes.push(Cause::invalid(field, other, "must be a string")),
            }
        }
    }
    match value {
        Value::Object(members) => {
            for (name, inner) in members {
                if let Some(below) = schema.member(name) {
                    embedded(below, inner, &member_path(path, name), causes);
                }
            }
        }
        Value::Array(items) => {
            if let Some(below) = &schema.items {
                for (number, item) in items.iter().enumerate() {
                    embedded(below, item, &format!("{path}[{number}]"), causes);
                }
            }
        }
        _ => {}
    }
}

/// Asks the rules of all nodes. What did not change is not held against the writer.
fn ask(
    schema: &Schema,
    value: &Value,
    old: Option<&Value>,
    path: &str,
    spent: &mut Spent,
    causes: &mut Vec<Cause>,
) {
    if !schema.has_rules || value.is_null() {
        return;
    }
    if let Some(rules) = &schema.rules {
        let found = rules.check(Subject { value, old, path }, spent);
        if old != Some(value) {
            causes.extend(found);
        }
    }
    match value {
        Value::Object(members) => {
            for (name, inner) in members {
                let Some(below) = schema.member(name) else {
                    continue;
                };
                let at = if schema.properties.contains_key(name.as_str()) {
                    member_path(path, name)
                } else {
                    format!("{path}[{name}]")
                };
                ask(below, inner, schema.member_before(name, old), &at, spent, causes);
            }
        }
        Value::Array(items) => {
            if let Some(below) = &schema.items {
                for (number, item) in items.iter().enumerate() {
                    let before = schema.item_before(item, old);
                    ask(below, item, before, &format!("{path}[{number}]"), spent, causes);
                }
            }
        }
        _ => {}
    }
}
