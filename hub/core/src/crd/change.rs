//! What did not change in an update, as the API server sees it: such faults are not held against the writer (source: the
//! `CorrelatedObject` of apiserver). Only what the schema names can be compared with what was there before.

use super::schema::Schema;
use crate::ownership::ListKind;
use serde_json::Value;

/// A value with a value before it that stands for the same thing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair<'a> {
    /// Schema of both.
    pub(super) schema: &'a Schema,
    /// What stands there now.
    pub(super) now: &'a Value,
    /// What stood there.
    pub(super) before: &'a Value,
}

impl<'a> Pair<'a> {
    /// The same of a member; none if the schema or the value before does not know it.
    pub(super) fn member(self, name: &str) -> Option<Pair<'a>> {
        Some(Pair {
            schema: self.schema.member(name)?,
            now: self.now.get(name)?,
            before: self.before.get(name)?,
        })
    }

    /// The same of an item, which lists with keys alone can tell.
    pub(super) fn item(self, item: &'a Value) -> Option<Pair<'a>> {
        Some(Pair {
            schema: self.schema.items.as_deref()?,
            now: item,
            before: self.schema.item_before(item, Some(self.before))?,
        })
    }

    /// Whether nothing changed. The order of items with keys is no change; a member that the schema does not name is one.
    pub(super) fn is_same(self) -> bool {
        match (self.now, self.before) {
            (Value::Array(now), Value::Array(before)) => {
                now == before
                    || (self.schema.list_kind == Some(ListKind::Keyed)
                        && now.len() == before.len()
                        && now.iter().all(|item| self.item(item).is_some_and(Pair::is_same)))
            }
            (Value::Object(now), Value::Object(before)) => {
                now.len() == before.len()
                    && now
                        .keys()
                        .all(|name| self.member(name).is_some_and(Pair::is_same))
            }
            (now, before) => now == before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_the_schema_names_is_compared() {
        let schema = Schema::read(&json!({"type": "object", "properties": {
            "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"],
                "items": {"type": "object", "properties": {"port": {"type": "integer"}, "name": {"type": "string"}}}},
            "tags": {"type": "array", "items": {"type": "string"}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}));
        let table = [
            (json!({}), json!({}), true),
            (json!({"labels": {"a": "1"}}), json!({"labels": {"a": "1"}}), true),
            (
                json!({"labels": {"a": "1"}}),
                json!({"labels": {"a": "2"}}),
                false,
            ),
            (
                json!({"labels": {"a": "1"}}),
                json!({"labels": {"b": "1"}}),
                false,
            ),
            (
                json!({"ports": [{"port": 1, "name": "a"}, {"port": 2}]}),
                json!({"ports": [{"port": 2}, {"port": 1, "name": "a"}]}),
                true,
            ),
            (
                json!({"ports": [{"port": 1, "name": "a"}]}),
                json!({"ports": [{"port": 1, "name": "b"}]}),
                false,
            ),
            (json!({"tags": ["a", "b"]}), json!({"tags": ["a", "b"]}), true),
            (json!({"tags": ["a", "b"]}), json!({"tags": ["b", "a"]}), false),
            // Nothing is known of what the schema does not name.
            (json!({"open": {"x": 1}}), json!({"open": {"x": 1}}), false),
            (json!({"open": {}}), json!({"open": {}}), true),
            (json!({"open": []}), json!({"open": {}}), false),
        ];
        for (now, before, expected) in table {
            let pair = Pair {
                schema: &schema,
                now: &now,
                before: &before,
            };
            assert_eq!(pair.is_same(), expected, "{now} after {before}");
        }
    }
}
