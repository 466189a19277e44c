//! What a schema makes of an object before it is checked: unknown fields go, defaults come.

use super::schema::{Additional, Schema, member_path};
use serde_json::{Map, Value};

/// Members of an object that its schema need not name.
const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Unknown fields named at most.
const MAX_UNKNOWN: usize = 64;

/// Takes out what the schema does not know; apiVersion, kind and metadata of the root and of embedded objects stay. Gives the
/// paths of what went, sorted.
pub(super) fn prune(schema: &Schema, object: &mut Value) -> Vec<String> {
    let mut gone = Vec::new();
    if let Value::Object(members) = object {
        prune_members(schema, true, members, "", &mut gone);
    }
    gone.sort();
    gone.truncate(MAX_UNKNOWN);
    gone
}

/// The same for a default: a value that is no whole object.
pub(super) fn prune_default(schema: &Schema, value: &mut Value) -> Vec<String> {
    let mut gone = Vec::new();
    prune_value(Some(schema), value, "", &mut gone);
    gone
}

fn prune_value(schema: Option<&Schema>, value: &mut Value, path: &str, gone: &mut Vec<String>) {
    match value {
        Value::Object(members) => match schema {
            Some(schema) => prune_members(schema, schema.is_embedded, members, path, gone),
            None => {
                gone.extend(members.keys().map(|key| member_path(path, key)));
                members.clear();
            }
        },
        Value::Array(items) => {
            let of = schema.and_then(|s| s.items.as_deref());
            let keeps = schema.is_some_and(|s| s.preserves_unknown);
            for (at, item) in items.iter_mut().enumerate() {
                if of.is_some() || !keeps {
                    prune_value(of, item, &format!("{path}[{at}]"), gone);
                }
            }
        }
        _ => {}
    }
}

fn prune_members(
    schema: &Schema,
    is_object: bool,
    members: &mut Map<String, Value>,
    path: &str,
    gone: &mut Vec<String>,
) {
    members.retain(|key, value| {
        if is_object && META.contains(&key.as_str()) {
            return true;
        }
        match (schema.member(key), &schema.additional) {
            (Some(of), _) => prune_value(Some(of), value, &member_path(path, key), gone),
            (None, Additional::Any | Additional::Refused) => {
                prune_value(None, value, &member_path(path, key), gone);
            }
            (None, _) if schema.preserves_unknown => {}
            (None, _) => {
                gone.push(member_path(path, key));
                return false;
            }
        }
        true
    });
}

/// Puts defaults where nothing is said, at any depth that is there; nulls that may not be null and have no default go.
pub(super) fn fill(schema: &Schema, object: &mut Value) {
    drop_nulls(Some(schema), object);
    if schema.has_defaults {
        fill_value(schema, object);
    }
}

fn is_empty_null(value: &Value, schema: &Schema) -> bool {
    value.is_null() && !schema.is_nullable
}

fn drop_nulls(schema: Option<&Schema>, value: &mut Value) {
    match value {
        Value::Object(members) => members.retain(|key, inner| {
            let of = schema.and_then(|s| s.member(key));
            if of.is_some_and(|of| is_empty_null(inner, of) && of.default.is_none()) {
                return false;
            }
            if of.is_some() {
                drop_nulls(of, inner);
            }
            true
        }),
        Value::Array(items) => {
            if let Some(of) = schema.and_then(|s| s.items.as_deref()) {
                items.iter_mut().for_each(|item| drop_nulls(Some(of), item));
            }
        }
        _ => {}
    }
}

fn fill_value(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, of) in &schema.properties {
                let Some(default) = &of.default else { continue };
                if members.get(&**name).is_none_or(|v| is_empty_null(v, of)) {
                    members.insert(name.to_string(), default.clone());
                }
            }
            for (name, inner) in members.iter_mut() {
                if let Some(of) = schema.member(name).filter(|of| of.has_defaults) {
                    fill_one(of, inner);
                }
            }
        }
        Value::Array(items) => {
            if let Some(of) = schema.items.as_deref().filter(|of| of.has_defaults) {
                items.iter_mut().for_each(|item| fill_one(of, item));
            }
        }
        _ => {}
    }
}

fn fill_one(of: &Schema, value: &mut Value) {
    if let Some(default) = of.default.as_ref().filter(|_| is_empty_null(value, of)) {
        *value = default.clone();
    }
    fill_value(of, value);
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// A schema with everything that pruning and defaults look at.
    pub(in crate::crd) fn rich() -> Value {
        json!({"type": "object", "properties": {
            "spec": {"type": "object", "default": {}, "properties": {
                "size": {"type": "integer", "default": 1, "minimum": 0, "maximum": 9},
                "name": {"type": "string", "nullable": true, "maxLength": 3},
                "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"known": {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}}},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "any": {"type": "object", "additionalProperties": true},
                "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"],
                    "items": {"type": "object", "required": ["port"], "properties": {
                        "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP", "enum": ["TCP", "UDP"]}}}},
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "object": {"type": "object", "x-kubernetes-embedded-resource": true,
                    "properties": {"spec": {"type": "object", "properties": {"x": {"type": "integer"}}}}},
                "amount": {"x-kubernetes-int-or-string": true}}}}})
    }

    #[test]
    fn unknown_fields_go() {
        let schema = Schema::read(&rich());
        let mut object = json!({"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "x"}, "more": 1,
            "spec": {"sise": 2, "open": {"what": {"ever": 1}, "known": {"a": "1", "b": 2}},
                "any": {"a": 1, "b": {"c": 1}}, "labels": {"k": "v"},
                "ports": [{"port": 1, "x": 1}, {"port": 2}],
                "object": {"apiVersion": "v1", "kind": "B", "metadata": {"q": 1}, "spec": {"x": 1, "y": 2}, "z": 1}}});
        let gone = prune(&schema, &mut object);
        assert_eq!(
            gone,
            [
                "more",
                "spec.any.b.c",
                "spec.object.spec.y",
                "spec.object.z",
                "spec.open.known.b",
                "spec.ports[0].x",
                "spec.sise"
            ]
        );
        assert_eq!(
            object["spec"]["open"],
            json!({"what": {"ever": 1}, "known": {"a": "1"}})
        );
        assert_eq!(object["spec"]["object"]["metadata"], json!({"q": 1}));
        assert_eq!(prune(&schema, &mut object), Vec::<String>::new());
    }

    #[test]
    fn defaults_come_at_every_depth() {
        let schema = Schema::read(&rich());
        let cases = [
            (json!({}), json!({"spec": {"size": 1}})),
            (
                json!({"spec": {"size": null, "name": null}}),
                json!({"spec": {"size": 1, "name": null}}),
            ),
            (
                json!({"spec": {"size": 2, "labels": null, "open": {"known": {}}}}),
                json!({"spec": {"size": 2, "open": {"known": {"a": "x"}}}}),
            ),
            (
                json!({"spec": {"size": 2, "ports": [{"port": 1}, {"port": 2, "protocol": "UDP"}]}}),
                json!({"spec": {"size": 2, "ports": [{"port": 1, "protocol": "TCP"}, {"port": 2, "protocol": "UDP"}]}}),
            ),
        ];
        for (mut object, expected) in cases {
            fill(&schema, &mut object);
            assert_eq!(object, expected);
        }
    }

    /// Objects that a schema knows in part, of any types.
    pub(in crate::crd) fn any_object() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-3_i64..12).prop_map(Value::from),
            "[a-z]{0,4}".prop_map(Value::from),
            Just(json!("TCP")),
        ];
        let name = prop_oneof![
            Just("spec"),
            Just("size"),
            Just("name"),
            Just("open"),
            Just("known"),
            Just("ports"),
            Just("port"),
            Just("protocol"),
            Just("tags"),
            Just("any"),
            Just("labels"),
            Just("object"),
            Just("amount"),
            Just("a"),
            Just("kind"),
        ];
        leaf.prop_recursive(4, 40, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(name.clone(), inner, 0..5).prop_map(|members| {
                    Value::Object(members.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn pruning_and_defaults_are_done_once_for_all(spec in any_object()) {
            let schema = Schema::read(&rich());
            let mut once = json!({"apiVersion": "a/v1", "kind": "A", "metadata": {}, "spec": spec});
            prune(&schema, &mut once);
            fill(&schema, &mut once);
            let mut twice = once.clone();
            prop_assert_eq!(prune(&schema, &mut twice), Vec::<String>::new());
            fill(&schema, &mut twice);
            prop_assert_eq!(once, twice);
        }
    }
}
