//! `metadata.managedFields`: who owns which fields, read and written. Identity of an entry is manager, operation,
//! subresource and, for updates, the version; the rules are those of apimachinery's `managedfields`.

use super::set::{FieldSet, FieldsError};
use crate::limits::{MAX_MANAGED_FIELDS_ENTRIES, MAX_UPDATE_MANAGERS};
use crate::timestamp;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Under this name the oldest updates are kept together.
const ANCIENT: &str = "ancient-changes";

/// How a manager came to own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are those of Kubernetes")]
pub enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// Identity of an entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManagerId {
    /// Name of the manager.
    pub manager: String,
    /// How it writes.
    pub operation: Operation,
    /// Version it writes in; empty for applies, which have one entry in all versions.
    pub api_version: String,
    /// Subresource it writes through; empty for the object itself.
    pub subresource: String,
}

impl ManagerId {
    /// The manager in messages about conflicts.
    pub fn describe(&self) -> String {
        let mut text = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            text.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if self.operation == Operation::Update {
            text.push_str(&format!(" using {}", self.api_version));
        }
        text
    }
}

/// What one manager owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owned {
    /// Its fields.
    pub fields: FieldSet,
    /// The version in whose terms they are.
    pub api_version: String,
    /// When the set last changed, as text; none if the entry has no time.
    pub time: Option<String>,
}

/// All owners of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owners(pub BTreeMap<ManagerId, Owned>);

/// Why managedFields cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// Neither Apply nor Update.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    /// No version.
    #[error("apiVersion must not be empty")]
    ApiVersion,
    /// No or another encoding.
    #[error("invalid fieldsType {fields_type:?} in managed fields entry {at}")]
    FieldsType {
        /// What it says.
        fields_type: String,
        /// Which entry.
        at: usize,
    },
    /// More entries than an object may have.
    #[error("more than {MAX_MANAGED_FIELDS_ENTRIES} entries")]
    TooMany,
    /// The set itself.
    #[error("error decoding set: {0}")]
    Fields(#[from] FieldsError),
}

fn text<'v>(entry: &'v Value, key: &str) -> &'v str {
    entry.get(key).and_then(Value::as_str).unwrap_or_default()
}

impl Owners {
    /// Reads `metadata.managedFields`; absent is nobody.
    ///
    /// # Errors
    /// The first entry that is none.
    pub fn decode(managed: Option<&Value>) -> Result<Owners, EntryError> {
        let mut owners = Owners::default();
        let entries = managed.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if entries.len() > MAX_MANAGED_FIELDS_ENTRIES {
            return Err(EntryError::TooMany);
        }
        for (at, entry) in entries.iter().enumerate() {
            let operation = match text(entry, "operation") {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return Err(EntryError::Operation),
            };
            let api_version = text(entry, "apiVersion");
            if api_version.is_empty() {
                return Err(EntryError::ApiVersion);
            }
            let fields_type = text(entry, "fieldsType");
            if fields_type != "FieldsV1" {
                return Err(EntryError::FieldsType {
                    fields_type: fields_type.to_owned(),
                    at,
                });
            }
            let fields = match entry.get("fieldsV1") {
                None | Some(Value::Null) => FieldSet::default(),
                Some(encoded) => FieldSet::decode(encoded)?,
            };
            let id = ManagerId {
                manager: text(entry, "manager").to_owned(),
                operation,
                api_version: match operation {
                    Operation::Apply => String::new(),
                    Operation::Update => api_version.to_owned(),
                },
                subresource: text(entry, "subresource").to_owned(),
            };
            let owned = Owned {
                fields,
                api_version: api_version.to_owned(),
                time: entry.get("time").and_then(Value::as_str).map(str::to_owned),
            };
            owners.0.insert(id, owned);
        }
        Ok(owners)
    }

    /// Writes `metadata.managedFields`; null if nobody owns anything.
    pub fn encode(&self) -> Value {
        if self.0.is_empty() {
            return Value::Null;
        }
        let seconds = |owned: &Owned| owned.time.as_deref().and_then(timestamp::parse).unwrap_or(0);
        let mut all: Vec<(&ManagerId, &Owned)> = self.0.iter().collect();
        all.sort_by_key(|(id, owned)| {
            (
                id.operation,
                seconds(owned),
                &id.manager,
                &owned.api_version,
                &id.subresource,
            )
        });
        all.into_iter().map(|(id, owned)| entry(id, owned)).collect()
    }

    /// Takes fields from one owner; who owns nothing any more goes.
    pub(super) fn take(&mut self, id: &ManagerId, fields: &FieldSet) {
        if let Some(owned) = self.0.get_mut(id) {
            owned.fields = owned.fields.difference(fields);
            if owned.fields.is_empty() {
                self.0.remove(id);
            }
        }
    }

    /// Folds the oldest updates into one entry per version until at most [`MAX_UPDATE_MANAGERS`] are left.
    pub(super) fn cap_updates(&mut self) {
        let mut updates: Vec<(i64, ManagerId)> = self
            .0
            .iter()
            .filter(|(id, _)| id.operation == Operation::Update)
            .map(|(id, owned)| {
                let seconds = owned.time.as_deref().and_then(timestamp::parse).unwrap_or(0);
                (seconds, id.clone())
            })
            .collect();
        let mut left = updates.len();
        if left <= MAX_UPDATE_MANAGERS {
            return;
        }
        updates.sort();
        let mut first: BTreeMap<String, ManagerId> = BTreeMap::new();
        for (_, id) in updates {
            if left <= MAX_UPDATE_MANAGERS {
                break;
            }
            let Some(owned) = self.0.get(&id).cloned() else {
                continue;
            };
            let Some(earlier) = first.get(&owned.api_version).cloned() else {
                first.insert(owned.api_version.clone(), id);
                continue;
            };
            let bucket = ManagerId {
                manager: ANCIENT.to_owned(),
                operation: Operation::Update,
                api_version: owned.api_version.clone(),
                subresource: String::new(),
            };
            if !self.0.contains_key(&bucket)
                && let Some(moved) = self.0.remove(&earlier)
            {
                self.0.insert(bucket.clone(), moved);
            }
            if let Some(into) = self.0.get_mut(&bucket) {
                into.fields = into.fields.union(&owned.fields);
                into.time = owned.time;
            }
            if id != bucket {
                self.0.remove(&id);
            }
            left -= 1;
        }
    }
}

fn entry(id: &ManagerId, owned: &Owned) -> Value {
    let mut out = Map::new();
    let texts = [
        ("manager", id.manager.as_str()),
        ("operation", id.operation.as_str()),
        ("apiVersion", &owned.api_version),
        ("time", owned.time.as_deref().unwrap_or_default()),
        ("fieldsType", "FieldsV1"),
        ("subresource", &id.subresource),
    ];
    for (key, text) in texts {
        if !text.is_empty() {
            out.insert(key.to_owned(), json!(text));
        }
    }
    out.insert("fieldsV1".to_owned(), owned.fields.encode());
    Value::Object(out)
}

/// Whether a client asks for all ownership to be forgotten: no entry in a list that is there, or one empty entry.
pub(super) fn is_reset(managed: Option<&Value>) -> bool {
    let Some(Value::Array(entries)) = managed else {
        return false;
    };
    entries.is_empty()
        || matches!(entries.as_slice(), [Value::Object(only)] if only.values().all(|v| v.is_null() || v.as_str() == Some("")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry_of(manager: &str, second: u32) -> Value {
        json!({"manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "time": format!("2026-01-01T00:00:{second:02}Z"), "fieldsV1": {"f:data": {format!("f:{manager}"): {}}}})
    }

    #[test]
    fn entries_are_read_and_written_in_order() {
        let apply = json!({"manager": "z", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "time": "2027-01-01T00:00:00Z", "fieldsV1": {"f:data": {"f:a": {}}}, "subresource": "status"});
        let given = json!([entry_of("b", 2), entry_of("a", 1), apply]);
        let owners = Owners::decode(Some(&given)).expect("entries");
        assert_eq!(
            owners.encode(),
            json!([apply, entry_of("a", 1), entry_of("b", 2)])
        );
        let described: Vec<String> = owners.0.keys().map(ManagerId::describe).collect();
        assert_eq!(
            described,
            [
                "\"a\" using v1",
                "\"b\" using v1",
                "\"z\" with subresource \"status\""
            ]
        );
        assert_eq!(Owners::default().encode(), Value::Null);
        assert!(
            is_reset(Some(&json!([{}])))
                && is_reset(Some(&json!([])))
                && !is_reset(None)
                && !is_reset(Some(&given))
        );
        for bad in [
            json!([{"operation": "x"}]),
            json!([{"operation": "Apply"}]),
            json!([{"operation": "Apply", "apiVersion": "v1"}]),
            json!([{"operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"x": {}}}]),
        ] {
            assert!(Owners::decode(Some(&bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_oldest_updates_are_folded() {
        let all: Vec<Value> = (0..14).map(|n| entry_of(&format!("m{n:02}"), n)).collect();
        let mut owners = Owners::decode(Some(&json!(all))).expect("entries");
        owners.cap_updates();
        assert_eq!(owners.0.len(), MAX_UPDATE_MANAGERS);
        let ancient = owners
            .0
            .iter()
            .find(|(id, _)| id.manager == ANCIENT)
            .expect("folded");
        assert_eq!(ancient.1.fields.paths().len(), 5);
    }
}
