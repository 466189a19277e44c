//! Is a schema structural? Every field that is pruned, defaulted or validated has its type outside of alternatives, and
//! alternatives say nothing but conditions (source: `ValidateStructural` of the apiextensions API server).

use super::pattern;
use crate::status_error::Cause;
use serde_json::{Value, json};

/// Where a node stands: what it must say about its type is worded by that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// All breaches, sorted as upstream sorts them.
pub(super) fn check(schema: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    invariants(schema, Level::Root, path, &mut causes);
    complete(schema, schema, path, path, &mut causes);
    causes.sort_by_key(|c| format!("{}: {}", c.field, c.message));
    causes
}

/// The text of a member; empty if absent.
pub(super) fn text<'v>(node: &'v Value, key: &str) -> &'v str {
    node.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a member is true.
pub(super) fn is_set(node: &Value, key: &str) -> bool {
    node.get(key).and_then(Value::as_bool).unwrap_or(false)
}

/// Members of a member that is an object.
pub(super) fn members<'v>(node: &'v Value, key: &str) -> impl Iterator<Item = (&'v String, &'v Value)> {
    node.get(key).and_then(Value::as_object).into_iter().flatten()
}

/// Items of a member that is a list, with their paths.
fn items<'v>(node: &'v Value, key: &'static str, path: &str) -> Vec<(String, &'v Value)> {
    let list = node.get(key).and_then(Value::as_array).into_iter().flatten();
    list.enumerate()
        .map(|(at, item)| (format!("{path}.{key}[{at}]"), item))
        .collect()
}

fn invariants(node: &Value, level: Level, path: &str, causes: &mut Vec<Cause>) {
    let of_type = text(node, "type");
    let items_of = node.get("items").filter(|i| i.is_object());
    if of_type == "array" && items_of.is_none() && node.get("items").is_none() {
        causes.push(Cause::required(format!("{path}.items"), "must be specified"));
    }
    if let Some(of) = items_of {
        invariants(of, Level::Item, &format!("{path}.items"), causes);
    }
    for (name, of) in members(node, "properties") {
        invariants(of, Level::Field, &format!("{path}.properties[{name}]"), causes);
    }
    let additional = node.get("additionalProperties").filter(|a| !a.is_null());
    if let Some(of) = additional {
        let at = format!("{path}.additionalProperties");
        if level == Level::Root {
            causes.push(Cause::forbidden(at.clone(), "must not be used at the root"));
        }
        if of.is_object() {
            invariants(of, Level::Field, &at, causes);
        }
    }
    extensions(node, path, causes);
    values(
        node,
        is_int_or_string_any(node),
        is_int_or_string_all(node),
        path,
        causes,
    );
    types(node, level, path, causes);
    heads(node, level, path, causes);
}

/// What may stand beside `x-kubernetes-int-or-string`.
fn extensions(node: &Value, path: &str, causes: &mut Vec<Cause>) {
    if !is_set(node, "x-kubernetes-int-or-string") {
        return;
    }
    for key in [
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
    ] {
        if is_set(node, key) {
            let why = "must be false if x-kubernetes-int-or-string is true";
            causes.push(Cause::invalid(format!("{path}.{key}"), &json!(true), why));
        }
    }
}

fn types(node: &Value, level: Level, path: &str, causes: &mut Vec<Cause>) {
    let of_type = text(node, "type");
    let at = format!("{path}.type");
    let is_embedded = is_set(node, "x-kubernetes-embedded-resource");
    let keeps_unknown = is_set(node, "x-kubernetes-preserve-unknown-fields");
    if is_embedded && of_type != "object" {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        causes.push(match of_type {
            "" => Cause::required(at.clone(), why),
            other => Cause::invalid(at.clone(), &json!(other), why),
        });
    } else if of_type.is_empty() && !is_set(node, "x-kubernetes-int-or-string") && !keeps_unknown {
        let why = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        causes.push(Cause::required(at.clone(), why));
    }
    if is_embedded && node.get("additionalProperties").is_some_and(|a| !a.is_null()) {
        let why = "must not be used if x-kubernetes-embedded-resource is set";
        causes.push(Cause::forbidden(format!("{path}.additionalProperties"), why));
    }
    if level == Level::Root && !of_type.is_empty() && of_type != "object" {
        causes.push(Cause::invalid(at, &json!(of_type), "must be object at the root"));
    }
    if is_embedded && !keeps_unknown && members(node, "properties").next().is_none() {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without \
                   x-kubernetes-preserve-unknown-fields";
        causes.push(Cause::required(format!("{path}.properties"), why));
    }
}

/// What a schema may say about apiVersion, kind and metadata.
fn heads(node: &Value, level: Level, path: &str, causes: &mut Vec<Cause>) {
    let is_object = level == Level::Root || is_set(node, "x-kubernetes-embedded-resource");
    let property = |name: &str| node.get("properties").and_then(|p| p.get(name));
    for name in ["kind", "apiVersion"] {
        if let Some(of) = property(name).filter(|of| is_object && text(of, "type") != "string") {
            let at = format!("{path}.properties[{name}].type");
            causes.push(Cause::invalid(at, &json!(text(of, "type")), "must be string"));
        }
    }
    let Some(metadata) = property("metadata") else {
        return;
    };
    let at = format!("{path}.properties[metadata]");
    if is_object && text(metadata, "type") != "object" {
        let found = json!(text(metadata, "type"));
        causes.push(Cause::invalid(format!("{at}.type"), &found, "must be object"));
    }
    if level == Level::Root {
        let only_names =
            members(metadata, "properties").all(|(name, _)| name == "name" || name == "generateName");
        let others = metadata.as_object().into_iter().flatten().any(|(key, value)| {
            !matches!(key.as_str(), "type" | "properties" | "default" | "description") && !is_nothing(value)
        });
        // A description is part of what upstream compares.
        let is_described = !text(metadata, "description").is_empty();
        if !only_names || others || is_described {
            let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            causes.push(Cause::forbidden(at, why));
        }
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

fn is_any_of_both(any: Option<&Value>) -> bool {
    any == Some(&json!([{"type": "integer"}, {"type": "string"}]))
}

fn is_int_or_string_any(node: &Value) -> bool {
    is_any_of_both(node.get("anyOf"))
}

fn is_int_or_string_all(node: &Value) -> bool {
    is_any_of_both(node.pointer("/allOf/0/anyOf"))
}

fn values(node: &Value, skip_any: bool, skip_first_all: bool, path: &str, causes: &mut Vec<Cause>) {
    if !skip_any {
        for (at, of) in items(node, "anyOf", path) {
            nested(of, false, &at, causes);
        }
    }
    for (number, (at, of)) in items(node, "allOf", path).into_iter().enumerate() {
        nested(of, skip_first_all && number == 0, &at, causes);
    }
    for (at, of) in items(node, "oneOf", path) {
        nested(of, false, &at, causes);
    }
    if let Some(not) = node.get("not").filter(|n| n.is_object()) {
        nested(not, false, &format!("{path}.not"), causes);
    }
    let pattern = text(node, "pattern");
    if !pattern.is_empty()
        && let Err(error) = pattern::compile(pattern)
    {
        let why = format!("must be a valid regular expression, but isn't: {error}");
        causes.push(Cause::invalid(format!("{path}.pattern"), &json!(pattern), why));
    }
}

/// A schema under an alternative: it may only say conditions.
fn nested(node: &Value, skip_any: bool, path: &str, causes: &mut Vec<Cause>) {
    values(node, skip_any, false, path, causes);
    if let Some(of) = node.get("items").filter(|i| i.is_object()) {
        nested(of, false, &format!("{path}.items"), causes);
    }
    for (name, of) in members(node, "properties") {
        nested(of, false, &format!("{path}.properties[{name}]"), causes);
    }
    const MUST_NOT: [(&str, &str); 12] = [
        ("type", "must be empty to be structural"),
        ("additionalProperties", "must be undefined to be structural"),
        ("default", "must be undefined to be structural"),
        ("title", "must be empty to be structural"),
        ("description", "must be empty to be structural"),
        ("nullable", "must be false to be structural"),
        (
            "x-kubernetes-preserve-unknown-fields",
            "must be false to be structural",
        ),
        ("x-kubernetes-embedded-resource", "must be false to be structural"),
        ("x-kubernetes-int-or-string", "must be false to be structural"),
        ("x-kubernetes-list-map-keys", "must be empty to be structural"),
        ("x-kubernetes-list-type", "must be undefined to be structural"),
        ("x-kubernetes-map-type", "must be undefined to be structural"),
    ];
    for (key, why) in MUST_NOT {
        let is_said = match (key, node.get(key)) {
            (_, None | Some(Value::Null)) => false,
            (
                "additionalProperties" | "default" | "x-kubernetes-list-type" | "x-kubernetes-map-type",
                Some(_),
            ) => true,
            (_, Some(value)) => !is_nothing(value),
        };
        if is_said {
            causes.push(Cause::forbidden(format!("{path}.{key}"), why));
        }
    }
    if node
        .get("x-kubernetes-validations")
        .is_some_and(|v| !is_nothing(v))
    {
        let at = format!("{path}.x-kubernetes-validations");
        causes.push(Cause::forbidden(at, "must be empty to be structural"));
    }
    if node.pointer("/properties/metadata").is_some() {
        let at = format!("{path}.properties[metadata]");
        causes.push(Cause::forbidden(at, "must not be specified in a nested context"));
    }
}

/// Every field that an alternative speaks of is specified outside, too.
fn complete(node: &Value, outside: &Value, outside_path: &str, path: &str, causes: &mut Vec<Cause>) {
    let mut alternatives = Vec::new();
    if let Some(not) = node.get("not").filter(|n| n.is_object()) {
        alternatives.push((format!("{path}.not"), not));
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        alternatives.extend(items(node, key, path));
    }
    for (at, of) in alternatives {
        complete_nested(of, outside, outside_path, &at, causes);
    }
}

fn complete_nested(node: &Value, outside: &Value, outside_path: &str, path: &str, causes: &mut Vec<Cause>) {
    complete(node, outside, outside_path, path, causes);
    if let Some(of) = node.get("items").filter(|i| i.is_object()) {
        let (at, there) = (format!("{path}.items"), format!("{outside_path}.items"));
        match outside.get("items").filter(|i| i.is_object()) {
            Some(outside) => complete_nested(of, outside, &there, &at, causes),
            None => causes.push(Cause::required(there, &format!("because it is defined in {at}"))),
        }
    }
    for (name, of) in members(node, "properties") {
        let at = format!("{path}.properties[{name}]");
        let there = format!("{outside_path}.properties[{name}]");
        match outside.get("properties").and_then(|p| p.get(name)) {
            Some(outside) => complete_nested(of, outside, &there, &at, causes),
            None => causes.push(Cause::required(there, &format!("because it is defined in {at}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_structural_is_named_with_its_path() {
        let table = [
            (
                json!({"type": "object", "properties": {"a": {}}}),
                vec!["p.properties[a].type: Required value: must not be empty for specified object fields"],
            ),
            (
                json!({"properties": {}}),
                vec!["p.type: Required value: must not be empty at the root"],
            ),
            (
                json!({"type": "array"}),
                vec![
                    "p.items: Required value: must be specified",
                    "p.type: Invalid value: \"array\": must be object at the root",
                ],
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "anyOf": [{"properties": {"b": {"type": "string"}}}]}),
                vec![
                    "p.anyOf[0].properties[b].type: Forbidden: must be empty to be structural",
                    "p.properties[b]: Required value: because it is defined in p.anyOf[0].properties[b]",
                ],
            ),
            (
                json!({"type": "object", "properties": {"a": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}}}),
                vec![],
            ),
            (
                json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}}}}),
                vec![],
            ),
            (
                json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
                vec![
                    "p.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
                ],
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}),
                vec![
                    "p.properties[a].pattern: Invalid value: \"(\": must be a valid regular expression, but isn't: error: unclosed group",
                ],
            ),
        ];
        for (schema, expected) in table {
            let found: Vec<String> = check(&schema, "p")
                .iter()
                .map(|c| format!("{}: {}", c.field, c.message))
                .collect();
            assert_eq!(found, expected, "{schema}");
        }
    }
}
