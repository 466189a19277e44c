//! What becomes of one custom object: how a body is taken, how a stored one is read, what is wrong with a new state.

use super::change::Pair;
use super::kind::Custom;
use super::rules::{Spent, Subject};
use super::schema::{Schema, member_path};
use super::{lists, shape, validate};
use crate::admission;
use crate::names;
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
        // A default may hold metadata with fields that no metadata has: they go, and nobody sent them.
        if self.schema.has_defaults {
            let mut of_defaults = Findings::default();
            embedded_metadata(table, metadata_type, &self.schema, object, "", &mut of_defaults)?;
        }
        Ok(())
    }

    /// Nulls that an apply puts where none may stand; in every other write they mean that nothing is said. `status` is left
    /// out where it is written through its own subresource.
    pub fn refused_nulls(&self, object: &Value, keeps_status: bool) -> Vec<Cause> {
        let mut causes = Vec::new();
        for (name, value) in object.as_object().into_iter().flatten() {
            if let Some(of) = self.schema.properties.get(name.as_str())
                && (keeps_status || name != "status")
            {
                refused_nulls(of, value, name, &mut causes);
            }
        }
        causes
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
        let pair = old.map(|before| Pair {
            schema: &self.schema,
            now: object,
            before,
        });
        let before = Before {
            value: old,
            own: pair,
            nearest: pair,
        };
        let mut asking = Asking {
            spent: Spent::default(),
            causes: &mut causes,
        };
        asking.node(&self.schema, object, before, "");
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

fn refused_nulls(schema: &Schema, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    match value {
        Value::Null if schema.default.is_none() => causes.extend(validate::check(schema, value, None, path)),
        Value::Object(members) => {
            for (name, inner) in members {
                if let Some(of) = schema.member(name) {
                    refused_nulls(of, inner, &member_path(path, name), causes);
                }
            }
        }
        Value::Array(items) => {
            if let Some(of) = &schema.items {
                for (at, item) in items.iter().enumerate() {
                    refused_nulls(of, item, &format!("{path}[{at}]"), causes);
                }
            }
        }
        _ => {}
    }
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
                    coerce(table, of, inner, &at, &mut inside)?;
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
                        coerce(table, of, item, &at, findings)?;
                    }
                    embedded_metadata(table, of, below, item, &at, findings)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// Checks `metadata` of an object within the object; what is wrong is told with its place.
fn coerce(
    table: &TypeTable,
    of: TypeId,
    object: &mut Value,
    path: &str,
    findings: &mut Findings,
) -> Result<(), String> {
    let metadata = object.get("metadata").map(Value::to_string).unwrap_or_default();
    check_metadata(table, of, object, findings).map_err(|why| {
        let why = why.replace("ObjectMeta.metadata.", "ObjectMeta.");
        format!("{path}.metadata: Invalid value: {metadata}: {why}")
    })
}

/// What is wrong with the `apiVersion` or `kind` of an object within the object.
fn misnomer(key: &str, text: &str) -> Option<String> {
    if text.is_empty() {
        return Some("must not be empty".to_owned());
    }
    if key == "apiVersion" {
        let parts = text.matches('/').count();
        return (parts > 1).then(|| format!("unexpected GroupVersion string: {text}"));
    }
    let why = names::dns_1035_label(&text.to_lowercase()).err()?;
    Some(format!("may have mixed case, but should otherwise match: {why}"))
}

/// Objects within the object say what they are, and their metadata is as that of every object.
fn embedded(schema: &Schema, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    if schema.is_embedded && value.is_object() {
        for key in ["apiVersion", "kind"] {
            let field = member_path(path, key);
            match value.get(key) {
                None => causes.push(Cause::required(field, "")),
                Some(Value::String(text)) => {
                    if let Some(why) = misnomer(key, text) {
                        causes.push(Cause::invalid(field, &json!(text), why));
                    }
                }
                Some(other) => causes.push(Cause::invalid(field, other, "must be a string")),
            }
        }
        causes.extend(admission::check_embedded_metadata(
            value,
            &member_path(path, "metadata"),
        ));
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

/// Asks the rules of all nodes.
struct Asking<'c> {
    spent: Spent,
    causes: &'c mut Vec<Cause>,
}

/// What stood at a node before.
#[derive(Clone, Copy)]
struct Before<'a> {
    /// What rules see as `oldSelf`.
    value: Option<&'a Value>,
    /// The node itself with what stood there.
    own: Option<Pair<'a>>,
    /// The node, or else the nearest around it, of which is known what stood there: if nothing changed in it, its faults are
    /// not held against the writer.
    nearest: Option<Pair<'a>>,
}

impl<'a> Before<'a> {
    fn below(self, value: Option<&'a Value>, own: Option<Pair<'a>>) -> Before<'a> {
        Before {
            value,
            own,
            nearest: own.or(self.nearest),
        }
    }

    fn member(self, schema: &Schema, name: &str) -> Before<'a> {
        let own = self.own.and_then(|pair| pair.member(name));
        self.below(schema.member_before(name, self.value), own)
    }

    fn item(self, schema: &Schema, item: &'a Value) -> Before<'a> {
        let own = self.own.and_then(|pair| pair.item(item));
        self.below(schema.item_before(item, self.value), own)
    }
}

impl Asking<'_> {
    fn node<'a>(&mut self, schema: &'a Schema, value: &'a Value, before: Before<'a>, path: &str) {
        if !schema.has_rules || value.is_null() {
            return;
        }
        if let Some(rules) = &schema.rules {
            let old = before.value;
            let is_same = || before.nearest.is_some_and(Pair::is_same);
            let found = rules.check(Subject { value, old, path }, is_same, &mut self.spent);
            self.causes.extend(found);
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
                    self.node(below, inner, before.member(schema, name), &at);
                }
            }
            Value::Array(items) => {
                if let Some(below) = &schema.items {
                    for (number, item) in items.iter().enumerate() {
                        let before = before.item(schema, item);
                        self.node(below, item, before, &format!("{path}[{number}]"));
                    }
                }
            }
            _ => {}
        }
    }
}
