//! What a schema may say at all, node by node, and whether its defaults fit it (source:
//! `ValidateCustomResourceDefinitionOpenAPISchema` of the apiextensions API server).

use super::rules::{self, Estimates, Place};
use super::schema::Schema;
use super::structural::{self, is_set, members, text};
use super::{lists, shape, validate};
use crate::status_error::Cause;
use serde_json::{Value, json};

/// Nodes of one schema at most; a definition is one object of at most 3 MiB, so this bounds what is made of it.
const MAX_NODES: usize = 200_000;

/// What may stand at the root beside a status subresource, so that the schema of the status can be taken out of it.
const AT_ROOT: [&str; 23] = [
    "description",
    "type",
    "format",
    "title",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "required",
    "items",
    "properties",
    "externalDocs",
    "example",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
    "nullable",
];

const AT_ROOT_GO: &str = "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength \
    MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example \
    XPreserveUnknownFields XValidations]";

/// All that is wrong with the schema of a version. `path` is that of the field that holds `openAPIV3Schema`;
/// `is_unchanged` if the same schema is stored.
pub(super) fn check(schema: &Value, has_status: bool, is_unchanged: bool, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let at = format!("{path}.openAPIV3Schema");
    if has_status {
        at_root(schema, &at, &mut causes);
    }
    if is_set(schema, "nullable") {
        causes.push(Cause::forbidden(
            format!("{at}.nullable"),
            "nullable cannot be true at the root",
        ));
    }
    let mut budget = MAX_NODES;
    if !within(schema, &mut budget) {
        causes.push(Cause::forbidden(at, "the schema has too many nodes"));
        return causes;
    }
    let broken = structural::check(schema, &at);
    let is_structural = broken.is_empty();
    causes.extend(broken);
    if is_structural {
        defaults(schema, &at, false, &mut causes);
    }
    let mut walk = Walk { causes: Vec::new() };
    walk.node(
        schema,
        Context {
            is_root: true,
            ..Context::default()
        },
        &at,
    );
    causes.extend(walk.causes);
    if causes.is_empty() {
        let mut estimates = Estimates::new(is_unchanged);
        let place = Place {
            path: &at,
            is_root: true,
            most: Some(1),
            uncorrelated: None,
        };
        compile(schema, place, &mut estimates, &mut causes);
        causes.extend(estimates.refusals(&at));
    }
    causes
}

fn within(node: &Value, budget: &mut usize) -> bool {
    *budget = budget.saturating_sub(1);
    match node {
        _ if *budget == 0 => false,
        Value::Object(members) => members.values().all(|v| within(v, budget)),
        Value::Array(items) => items.iter().all(|v| within(v, budget)),
        _ => true,
    }
}

fn at_root(schema: &Value, at: &str, causes: &mut Vec<Cause>) {
    for (key, value) in schema.as_object().into_iter().flatten() {
        if value.is_null() || *value == json!(false) || *value == json!([]) || *value == json!({}) {
            continue;
        }
        if key == "type" && value != "object" {
            let why = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
            causes.push(Cause::invalid(format!("{at}.type"), value, why));
            return;
        }
        if !AT_ROOT.contains(&key.as_str()) {
            let why = format!(
                "only {AT_ROOT_GO} fields are allowed at the root of the schema if the status subresource is enabled"
            );
            causes.push(Cause::invalid(at.to_owned(), schema, why));
            return;
        }
    }
}

/// Defaults hold nothing unknown and fit their own schema. Within the metadata of an embedded object what is unknown goes
/// when the default is used.
fn defaults(node: &Value, path: &str, is_in_metadata: bool, causes: &mut Vec<Cause>) {
    if let Some(default) = node.get("default").filter(|d| !d.is_null()) {
        let (schema, at) = (Schema::read(node), format!("{path}.default"));
        let mut pruned = default.clone();
        if !is_in_metadata && !shape::prune_default(&schema, &mut pruned).is_empty() {
            causes.push(Cause::invalid(
                at.clone(),
                default,
                "must not have unknown fields",
            ));
        }
        let breaches = validate::check(&schema, default, None, "");
        causes.extend(
            breaches
                .into_iter()
                .chain(lists::check(&schema, default))
                .map(|mut cause| {
                    cause.field = match cause.field.as_str() {
                        "<nil>" | "" => at.clone(),
                        inner => format!("{at}.{inner}"),
                    };
                    cause
                }),
        );
        return;
    }
    let is_embedded = is_set(node, "x-kubernetes-embedded-resource");
    for (name, of) in members(node, "properties") {
        let is_in_metadata = is_in_metadata || (is_embedded && name == "metadata");
        defaults(of, &format!("{path}.properties[{name}]"), is_in_metadata, causes);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(of) = node.get(key).filter(|n| n.is_object()) {
            defaults(of, &format!("{path}.{key}"), is_in_metadata, causes);
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Context {
    is_root: bool,
    /// Why no default may stand here.
    no_default: Option<&'static str>,
    /// Inside apiVersion, kind or metadata.
    in_meta: bool,
}

struct Walk {
    causes: Vec<Cause>,
}

impl Walk {
    fn forbid(&mut self, at: String, why: &str) {
        self.causes.push(Cause::forbidden(at, why));
    }

    fn node(&mut self, node: &Value, context: Context, path: &str) {
        self.words(node, context, path);
        let below = Context {
            is_root: false,
            ..context
        };
        if let Some(additional) = node.get("additionalProperties").filter(|a| !a.is_null()) {
            let at = format!("{path}.additionalProperties");
            if members(node, "properties").next().is_some() && *additional != json!(true) {
                self.forbid(
                    at.clone(),
                    "additionalProperties and properties are mutual exclusive",
                );
            }
            if additional.is_object() {
                let no_default = if context.in_meta {
                    Some("inside additionalProperties applying to object metadata")
                } else {
                    context.no_default
                };
                self.node(additional, Context { no_default, ..below }, &at);
            }
        }
        for (name, of) in members(node, "properties") {
            let mut inner = below;
            let heads: [(&str, &'static str); 3] = [
                ("metadata", "in top-level metadata"),
                ("kind", "in top-level kind"),
                ("apiVersion", "in top-level apiVersion"),
            ];
            let head = heads.iter().find(|(head, _)| head == name);
            if let Some((_, why)) = head
                && (context.is_root || is_set(node, "x-kubernetes-embedded-resource"))
            {
                inner.in_meta = true;
                if context.is_root {
                    inner.no_default = Some(why);
                }
            }
            self.node(of, inner, &format!("{path}.properties[{name}]"));
        }
        if let Some(not) = node.get("not").filter(|n| n.is_object()) {
            self.node(not, below, &format!("{path}.not"));
        }
        for key in ["allOf", "oneOf", "anyOf"] {
            let list = node.get(key).and_then(Value::as_array).into_iter().flatten();
            for (at, of) in list.enumerate() {
                self.node(of, below, &format!("{path}.{key}[{at}]"));
            }
        }
        if let Some(of) = node.get("items").filter(|i| i.is_object()) {
            self.node(of, below, &format!("{path}.items"));
        }
        self.merging(node, path);
        self.rules(node, path);
    }

    /// Words of JSON schema that are not taken.
    fn words(&mut self, node: &Value, context: Context, path: &str) {
        let of_type = text(node, "type");
        const TYPES: [&str; 7] = [
            "array", "boolean", "integer", "null", "number", "object", "string",
        ];
        if !of_type.is_empty()
            && !TYPES[..3].contains(&of_type)
            && !TYPES[4..].contains(&of_type)
            && of_type != "null"
        {
            let known = ["array", "boolean", "integer", "number", "object", "string"];
            self.causes.push(Cause::not_supported(
                format!("{path}.type"),
                &json!(of_type),
                &known,
            ));
        }
        if let (true, Some(why)) = (
            node.get("default").is_some_and(|d| !d.is_null()),
            context.no_default,
        ) {
            self.forbid(format!("{path}.default"), &format!("must not be set {why}"));
        }
        for key in [
            "id",
            "additionalItems",
            "patternProperties",
            "definitions",
            "dependencies",
            "$ref",
        ] {
            let is_said = node
                .get(key)
                .is_some_and(|v| !v.is_null() && *v != json!("") && *v != json!({}));
            if is_said {
                self.forbid(format!("{path}.{key}"), &format!("{key} is not supported"));
            }
        }
        if of_type == "null" {
            let why = "type cannot be set to null, use nullable as an alternative";
            self.forbid(format!("{path}.type"), why);
        }
        if node.get("items").is_some_and(Value::is_array) {
            self.forbid(
                format!("{path}.items"),
                "items must be a schema object and not an array",
            );
        }
        if context.in_meta && is_set(node, "x-kubernetes-embedded-resource") {
            let at = format!("{path}.x-kubernetes-embedded-resource");
            self.forbid(at, "must not be used inside of resource meta");
        }
        if is_set(node, "uniqueItems") {
            let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.forbid(format!("{path}.uniqueItems"), why);
        }
        if node.get("x-kubernetes-preserve-unknown-fields") == Some(&json!(false)) {
            let at = format!("{path}.x-kubernetes-preserve-unknown-fields");
            self.causes
                .push(Cause::invalid(at, &json!(false), "must be true or undefined"));
        }
    }

    /// An extension that belongs to one type only.
    fn of_type(&mut self, node: &Value, path: &str, extension: &str, wanted: &str) -> bool {
        let found = text(node, "type");
        if node.get(extension).is_none_or(Value::is_null) || found == wanted {
            return true;
        }
        let why = format!("must be {wanted} if {extension} is specified");
        let at = format!("{path}.type");
        self.causes.push(match found {
            "" => Cause::required(at, &why),
            other => Cause::invalid(at, &json!(other), why),
        });
        false
    }

    /// How lists and maps merge.
    fn merging(&mut self, node: &Value, path: &str) {
        let (map, list) = ("x-kubernetes-map-type", "x-kubernetes-list-type");
        self.of_type(node, path, map, "object");
        if let Some(kind) = node.get(map).and_then(Value::as_str)
            && !["atomic", "granular"].contains(&kind)
        {
            let at = format!("{path}.{map}");
            self.causes
                .push(Cause::not_supported(at, &json!(kind), &["atomic", "granular"]));
        }
        let fits = self.of_type(node, path, list, "array");
        let kind = node.get(list).and_then(Value::as_str);
        let items = node.get("items").filter(|i| i.is_object());
        if let (true, Some("set"), Some(items)) = (fits, kind, items) {
            let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
            match text(items, "type") {
                "array" if !["", "atomic"].contains(&text(items, list)) => {
                    let at = format!("{path}.items.{list}");
                    self.causes
                        .push(Cause::invalid(at, &json!(text(items, list)), why));
                }
                "object" if text(items, map) != "atomic" => {
                    let value = items.get(list).cloned().unwrap_or_default();
                    self.causes
                        .push(Cause::invalid(format!("{path}.items.{map}"), &value, why));
                }
                _ => {}
            }
        }
        if let Some(kind) = kind.filter(|k| !["atomic", "set", "map"].contains(k)) {
            let at = format!("{path}.{list}");
            self.causes
                .push(Cause::not_supported(at, &json!(kind), &["atomic", "set", "map"]));
        }
        self.keys(node, kind, items, path);
    }

    fn keys(&mut self, node: &Value, kind: Option<&str>, items: Option<&Value>, path: &str) {
        let list = "x-kubernetes-list-type";
        let at = format!("{path}.x-kubernetes-list-map-keys");
        let given = node
            .get("x-kubernetes-list-map-keys")
            .cloned()
            .unwrap_or_default();
        let keys: Vec<&str> = given
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        if !keys.is_empty() && kind != Some("map") {
            let why = "must be map if x-kubernetes-list-map-keys is non-empty";
            let at = format!("{path}.{list}");
            self.causes.push(match kind {
                None => Cause::required(at, why),
                Some(other) => Cause::invalid(at, &json!(other), why),
            });
        }
        if kind == Some("map") {
            if keys.is_empty() {
                self.causes.push(Cause::required(
                    at.clone(),
                    "must not be empty if x-kubernetes-list-type is map",
                ));
            }
            match items {
                None => {
                    let why = "must have a schema if x-kubernetes-list-type is map";
                    self.causes.push(Cause::required(format!("{path}.items"), why));
                }
                Some(items) if text(items, "type") != "object" => {
                    let why = "must be object if parent array's x-kubernetes-list-type is map";
                    self.causes.push(Cause::invalid(
                        format!("{path}.items.type"),
                        &json!(text(items, "type")),
                        why,
                    ));
                }
                Some(items) => self.key_fields(items, &given, &keys, &at, path),
            }
        }
        let Some(items) = items.filter(|_| matches!(kind, Some("set" | "map"))) else {
            return;
        };
        if is_set(items, "nullable") {
            let why = format!(
                "cannot be nullable when x-kubernetes-list-type is {}",
                kind.unwrap_or_default()
            );
            self.forbid(format!("{path}.items.nullable"), &why);
        }
        if kind == Some("map") {
            let required = items.get("required").cloned().unwrap_or_default();
            let is_required = |key: &str| required.as_array().is_some_and(|r| r.iter().any(|n| n == key));
            for key in &keys {
                let Some(of) = items.get("properties").and_then(|p| p.get(key)) else {
                    continue;
                };
                let at = format!("{path}.items.properties[{key}]");
                if !is_required(key) && of.get("default").is_none_or(Value::is_null) {
                    let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required \
                               property";
                    self.causes.push(Cause::required(format!("{at}.default"), why));
                }
                if is_set(of, "nullable") {
                    let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                    self.forbid(format!("{at}.nullable"), why);
                }
            }
        }
    }

    fn key_fields(&mut self, items: &Value, given: &Value, keys: &[&str], at: &str, path: &str) {
        for (number, key) in keys.iter().enumerate() {
            match items.get("properties").and_then(|p| p.get(key)) {
                Some(of) if ["array", "object"].contains(&text(of, "type")) => {
                    let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    let at = format!("{path}.items.properties[{key}].type");
                    self.causes
                        .push(Cause::invalid(at, &json!(text(items, "type")), why));
                }
                Some(_) => {}
                None => {
                    self.causes.push(Cause::invalid(
                        at.to_owned(),
                        given,
                        "entries must all be names of item properties",
                    ));
                }
            }
            if keys[..number].contains(key) {
                self.causes.push(Cause::invalid(
                    at.to_owned(),
                    given,
                    "must not contain duplicate entries",
                ));
            }
        }
    }

    /// The form of rules; what they say is checked when they are compiled.
    fn rules(&mut self, node: &Value, path: &str) {
        let list = node
            .get("x-kubernetes-validations")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        for (number, rule) in list.enumerate() {
            let at = format!("{path}.x-kubernetes-validations[{number}]");
            let (said, message) = (text(rule, "rule").trim(), text(rule, "message"));
            let breaks = |text: &str| text.contains(['\n', '\r']);
            if said.is_empty() {
                self.causes
                    .push(Cause::required(format!("{at}.rule"), "rule is not specified"));
            } else if !message.is_empty() && message.trim().is_empty() {
                let why = "must be non-empty if specified";
                self.causes
                    .push(Cause::invalid(format!("{at}.message"), &json!(message), why));
            } else if breaks(message.trim()) {
                let why = "must not contain line breaks";
                self.causes
                    .push(Cause::invalid(format!("{at}.message"), &json!(message), why));
            } else if breaks(said) && message.trim().is_empty() {
                let why = "message must be specified if rule contains line breaks";
                self.causes.push(Cause::required(format!("{at}.message"), why));
            }
            let reason = text(rule, "reason");
            let known = [
                "FieldValueDuplicate",
                "FieldValueForbidden",
                "FieldValueInvalid",
                "FieldValueRequired",
            ];
            if !reason.is_empty() && !known.contains(&reason) {
                self.causes.push(Cause::not_supported(
                    format!("{at}.reason"),
                    &json!(reason),
                    &known,
                ));
            }
        }
    }
}

/// Compiles the rules of all nodes to see that they compile, those below a node before its own.
fn compile(node: &Value, place: Place<'_>, estimates: &mut Estimates, causes: &mut Vec<Cause>) {
    for_below(node, place.path, place.most, &mut |of, at, most| {
        let is_told_apart = match &at[place.path.len()..] {
            ".items" => text(node, "x-kubernetes-list-type") == "map",
            ".additionalProperties" => true,
            _ => text(node, "x-kubernetes-map-type") != "atomic",
        };
        let place = Place {
            path: at,
            is_root: false,
            most,
            uncorrelated: place.uncorrelated.or((!is_told_apart).then_some(place.path)),
        };
        compile(of, place, estimates, causes);
    });
    if let Err(broken) = rules::compile(node, place, Some(estimates)) {
        causes.extend(broken);
    }
}

/// Visits the structure below a node with paths, and how often each can stand in one object.
pub(super) fn for_below(
    node: &Value,
    path: &str,
    most: Option<u64>,
    visit: &mut dyn FnMut(&Value, &str, Option<u64>),
) {
    for (name, of) in members(node, "properties") {
        visit(of, &format!("{path}.properties[{name}]"), most);
    }
    for (key, bound) in [("items", "maxItems"), ("additionalProperties", "maxProperties")] {
        if let Some(of) = node.get(key).filter(|n| n.is_object()) {
            let bound = node.get(bound).and_then(Value::as_u64);
            let most = most.zip(bound).map(|(most, bound)| most.saturating_mul(bound));
            visit(of, &format!("{path}.{key}"), most);
        }
    }
}
