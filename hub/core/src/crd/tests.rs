//! Definitions and their objects as a whole.

use super::shape::tests::{any_object, rich};
use super::*;
use crate::admission::{self, Part, Target, Updated};
use crate::ownership::{FieldSet, Writer, apply};
use crate::status_error::Cause;
use crate::strict::Findings;
use crate::types::TypeTable;
use proptest::prelude::*;
use serde_json::{Value, json};

fn definition(schema: &Value) -> Value {
    let mut out = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.io", "uid": "u"},
        "spec": {"group": "example.io", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
                "selectableFields": [{"jsonPath": ".spec.name"}]}]}});
    definition::fill(&mut out);
    status::settle(&mut out, None, &status::Taken::default(), 0);
    out
}

fn texts(causes: &[Cause]) -> Vec<String> {
    causes
        .iter()
        .map(|c| format!("{}: {}", c.field, c.message))
        .collect()
}

fn widget(schema: &Value) -> Resource {
    let definition = definition(schema);
    assert_eq!(texts(&definition::check(&definition, None)), Vec::<String>::new());
    resources(TypeTable::built_in(), &definition, 1).remove(0)
}

#[test]
fn a_definition_becomes_a_resource() {
    let served = widget(&rich());
    assert_eq!(
        (&*served.singular, &*served.kind, served.namespaced),
        ("widget", "Widget", true)
    );
    assert_eq!(served.short_names, [Box::from("wd")]);
    assert!(served.subresource("status").is_some() && served.subresource("scale").is_some());
    assert_eq!(openapi::model(&served), "io.example.v1.Widget");
    let list = crate::discovery::resource_list(&[&served], "example.io", "v1").expect("a group version");
    assert_eq!(list["resources"].as_array().map(Vec::len), Some(3));
    let custom = served.custom.as_ref().expect("a custom resource");
    assert_eq!(custom.selectable, [Box::from("spec.name")]);
    let mut gone = definition(&rich());
    gone["status"]["conditions"] = json!([]);
    assert_eq!(resources(TypeTable::built_in(), &gone, 1), []);
}

#[test]
fn wrong_definitions_are_told_by_field() {
    let change = |pointer: &str, value: Value| {
        let mut out = definition(&json!({"type": "object"}));
        out["spec"]["versions"][0]["selectableFields"] = json!([]);
        *out.pointer_mut(pointer).expect(pointer) = value;
        out
    };
    let schema = "/spec/versions/0/schema/openAPIV3Schema";
    let cases = [
        (
            change("/spec/group", json!("example")),
            vec![
                "metadata.name: Invalid value: \"widgets.example.io\": must be spec.names.plural+\".\"+spec.group",
                "spec.group: Invalid value: \"example\": should be a domain with at least one dot",
            ],
        ),
        (
            change("/spec/scope", json!("World")),
            vec!["spec.scope: Unsupported value: \"World\": supported values: \"Cluster\", \"Namespaced\""],
        ),
        (
            change("/spec/names/kind", json!("WidgetList")),
            vec!["spec.names.listKind: Invalid value: \"WidgetList\": kind and listKind may not be the same"],
        ),
        (
            change(
                schema,
                json!({"type": "object", "properties": {"a": {"type": "string", "default": 1}}}),
            ),
            vec![
                "spec.validation.openAPIV3Schema.properties[a].default: Invalid value: \"integer\":  in body must be of type string: \"integer\"",
            ],
        ),
        (
            change(
                schema,
                json!({"type": "object", "properties": {"a": {"type": "strin"}}}),
            ),
            vec![
                "spec.validation.openAPIV3Schema.properties[a].type: Unsupported value: \"strin\": supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\"",
            ],
        ),
        (
            change(
                schema,
                json!({"type": "object", "properties": {"l": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}}}}}}),
            ),
            vec![
                "spec.validation.openAPIV3Schema.properties[l].items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            ],
        ),
        (change("/spec/versions/0/storage", json!(false)), vec![]),
    ];
    for (wrong, expected) in cases {
        let found = texts(&definition::check(&wrong, None));
        if expected.is_empty() {
            assert!(
                found
                    .iter()
                    .any(|t| t.ends_with("must have exactly one version marked as storage version")),
                "{found:?}"
            );
        } else {
            assert_eq!(found, expected);
        }
    }
    let old = definition(&rich());
    let mut new = old.clone();
    new["spec"]["scope"] = json!("Cluster");
    new["spec"]["versions"][0]["name"] = json!("v2");
    let found = texts(&definition::check(&new, Some(&old)));
    assert_eq!(
        found[0],
        "spec.scope: Invalid value: \"Cluster\": field is immutable"
    );
    assert!(
        found[1].starts_with("status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions"),
        "{found:?}"
    );
}

#[test]
fn objects_are_checked_with_the_words_of_the_api_server() {
    let schema = json!({"type": "object", "required": ["spec"], "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 5, "format": "int32"},
        "ratio": {"type": "number", "exclusiveMinimum": true, "minimum": 0.5, "multipleOf": 0.5},
        "name": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"},
        "mode": {"type": "string", "enum": ["on", "off"]},
        "when": {"type": "string", "format": "date-time"},
        "list": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}},
        "map": {"type": "object", "maxProperties": 1, "minProperties": 1, "additionalProperties": {"type": "integer"}},
        "amount": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^[0-9]+%$"},
        "choice": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        "none": {"type": "string", "nullable": true, "not": {"enum": ["x"]}}}}}});
    let served = widget(&schema);
    let custom = served.custom.as_ref().expect("custom");
    let cases = [
        (json!({}), vec!["spec: Required value"]),
        (
            json!({"spec": {"size": 0}}),
            vec!["spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"],
        ),
        (
            json!({"spec": {"size": 9}}),
            vec!["spec.size: Invalid value: 9: spec.size in body should be less than or equal to 5"],
        ),
        (
            json!({"spec": {"size": "1"}}),
            vec![
                "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
                ".spec.size: Invalid value: 0: .spec.size accessor error: 1 is of the type string, expected int64",
            ],
        ),
        (
            json!({"spec": {"ratio": 0.5}}),
            vec!["spec.ratio: Invalid value: 0.5: spec.ratio in body should be greater than 0.5"],
        ),
        (
            json!({"spec": {"ratio": 0.75}}),
            vec!["spec.ratio: Invalid value: 0.75: spec.ratio in body should be a multiple of 0.5"],
        ),
        (json!({"spec": {"ratio": 1.0}}), vec![]),
        (
            json!({"spec": {"ratio": 1}}),
            vec![
                "spec.ratio: Invalid value: 0: factor MultipleOf declared for spec.ratio must be positive: 0",
            ],
        ),
        (
            json!({"spec": {"name": "a"}}),
            vec!["spec.name: Invalid value: \"a\": spec.name in body should be at least 2 chars long"],
        ),
        (
            json!({"spec": {"name": "abcde"}}),
            vec!["spec.name: Too long: may not be more than 4 bytes"],
        ),
        (
            json!({"spec": {"name": "AB"}}),
            vec!["spec.name: Invalid value: \"AB\": spec.name in body should match '^[a-z]+$'"],
        ),
        (
            json!({"spec": {"mode": "auto"}}),
            vec!["spec.mode: Unsupported value: \"auto\": supported values: \"on\", \"off\""],
        ),
        (
            json!({"spec": {"when": "now"}}),
            vec!["spec.when: Invalid value: \"now\": spec.when in body must be of type date-time: \"now\""],
        ),
        (
            json!({"spec": {"list": []}}),
            vec!["spec.list: Invalid value: 0: spec.list in body should have at least 1 items"],
        ),
        (
            json!({"spec": {"list": ["a", "b", 3]}}),
            vec![
                "spec.list[2]: Invalid value: \"integer\": spec.list[2] in body must be of type string: \"integer\"",
                "spec.list: Too many: 3: must have at most 2 items",
            ],
        ),
        (
            json!({"spec": {"map": {"a": "x"}}}),
            vec![
                "spec.map.a: Invalid value: \"string\": spec.map.a in body must be of type integer: \"string\"",
            ],
        ),
        (
            json!({"spec": {"map": {"a": 1, "b": 2}}}),
            vec!["spec.map: Too many: 2: must have at most 1 item"],
        ),
        (json!({"spec": {"amount": "5%"}}), vec![]),
        (json!({"spec": {"amount": 5}}), vec![]),
        (
            json!({"spec": {"amount": true}}),
            vec![
                "spec.amount: Invalid value: \"boolean\": spec.amount in body must be of type integer,string: \"boolean\"",
                "<nil>: Invalid value: \"\": \"spec.amount\" must validate at least one schema (anyOf)",
                "spec.amount: Invalid value: \"boolean\": spec.amount in body must be of type integer: \"boolean\"",
            ],
        ),
        (
            json!({"spec": {"choice": {}}}),
            vec![
                "<nil>: Invalid value: \"\": \"spec.choice\" must validate one and only one schema (oneOf). Found none valid",
                "spec.choice.a: Required value",
            ],
        ),
        (
            json!({"spec": {"choice": {"a": "", "b": ""}}}),
            vec![
                "<nil>: Invalid value: \"\": \"spec.choice\" must validate one and only one schema (oneOf). Found 2 valid alternatives",
            ],
        ),
        (json!({"spec": {"none": null}}), vec![]),
        (
            json!({"spec": {"none": "x"}}),
            vec!["<nil>: Invalid value: \"\": \"spec.none\" must not validate the schema (not)"],
        ),
    ];
    for (object, expected) in cases {
        assert_eq!(
            texts(&custom.check(&object, None, Written::Whole)),
            expected,
            "{object}"
        );
    }
    // What was wrong before and did not change is not held against the writer.
    let old = json!({"spec": {"name": "A", "size": 9, "list": ["a", "b", "c"]}});
    let mut new = old.clone();
    assert_eq!(custom.check(&new, Some(&old), Written::Whole), []);
    new["spec"]["size"] = json!(8);
    let found = texts(&custom.check(&new, Some(&old), Written::Whole));
    assert_eq!(
        found,
        ["spec.size: Invalid value: 8: spec.size in body should be less than or equal to 5"]
    );
}

#[test]
fn objects_live_by_their_schema() {
    let served = widget(&rich());
    let custom = served.custom.as_ref().expect("custom");
    let (table, of) = (TypeTable::built_in(), served.of_type);
    let mut object = json!({"apiVersion": "example.io/v1", "kind": "Widget",
        "metadata": {"name": "a", "namespace": "n", "bogus": 1}, "spec": {"sise": 1}, "status": {"x": 1}});
    let mut findings = Findings::default();
    assert_eq!(custom.take(table, of, &mut object, &mut findings), Ok(()));
    assert_eq!(
        findings.unknown,
        [
            "unknown field \"metadata.bogus\"",
            "unknown field \"spec.sise\"",
            "unknown field \"status\""
        ]
    );
    assert_eq!(object["spec"], json!({"size": 1}));
    let target = Target {
        resource: &served,
        namespace: "n",
        now: 0,
    };
    let stored = admission::create(target, object, "u", &mut String::new).expect("it is right");
    assert_eq!(stored["metadata"]["generation"], 1);
    let mut larger = stored.clone();
    larger["spec"]["size"] = json!(2);
    let Ok(Updated::Changed(larger)) = admission::update(target, &stored, larger, Part::Main) else {
        panic!("an update");
    };
    assert_eq!(larger["metadata"]["generation"], 2);
    let mut wrong = larger.clone();
    wrong["spec"]["size"] = json!(10);
    let refused = admission::update(target, &larger, wrong, Part::Main).expect_err("too large");
    assert_eq!(
        refused.message,
        "Widget.example.io \"a\" is invalid: spec.size: Invalid value: 10: spec.size in body should be less than or equal to 9"
    );
    let scale = crate::scale::of(&served, &larger);
    assert_eq!(scale["spec"]["replicas"], 2);
    let mut scaled = larger.clone();
    crate::scale::into(&served, &mut scaled, &json!({"spec": {"replicas": 5}}));
    assert_eq!(scaled["spec"]["size"], 5);
}

#[test]
fn another_version_differs_in_its_name_alone() {
    let mut raw = definition(&rich());
    let mut second = raw["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    second["storage"] = json!(false);
    second["deprecated"] = json!(true);
    raw["spec"]["versions"]
        .as_array_mut()
        .expect("versions")
        .push(second);
    let served = resources(TypeTable::built_in(), &raw, 1);
    let names: Vec<&str> = served.iter().map(|r| &*r.version).collect();
    assert_eq!(names, ["v2", "v1"]);
    let custom = served[0].custom.as_ref().expect("custom");
    assert_eq!(
        custom.warning.as_deref(),
        Some("example.io/v2 Widget is deprecated")
    );
    let mut object = json!({"apiVersion": "example.io/v2", "kind": "Widget", "spec": {"size": 1}});
    custom.to_storage(&mut object);
    assert_eq!(object["apiVersion"], "example.io/v1");
    assert_eq!(
        crate::convert::to(&served[0], object)["apiVersion"],
        "example.io/v2"
    );
}

#[test]
fn lists_merge_by_the_types_of_the_schema() {
    let served = widget(&rich());
    let custom = served.custom.as_ref().expect("custom");
    let versions = CustomVersions {
        table: TypeTable::built_in(),
        metadata: served.of_type,
        custom,
    };
    let ignored = FieldSet::default();
    let writer = |manager| Writer {
        manager,
        subresource: "",
        api_version: "example.io/v1",
        now: 0,
        ignored: &ignored,
    };
    let object = |spec: Value| json!({"apiVersion": "example.io/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec});
    let first = object(json!({"tags": ["a"], "ports": [{"port": 1, "protocol": "TCP"}]}));
    let one = apply(&versions, &writer("one"), None, &first, false).expect("created");
    let second = object(json!({"tags": ["b"], "ports": [{"port": 2}]}));
    let both = apply(&versions, &writer("two"), Some(&one), &second, false).expect("merged");
    assert_eq!(both["spec"]["tags"], json!(["a", "b"]));
    assert_eq!(
        both["spec"]["ports"],
        json!([{"port": 1, "protocol": "TCP"}, {"port": 2}])
    );
    let clash = object(json!({"ports": [{"port": 1, "protocol": "UDP"}]}));
    let error = apply(&versions, &writer("two"), Some(&both), &clash, false).expect_err("a conflict");
    assert!(
        error.to_string().contains(".spec.ports[port=1].protocol"),
        "{error}"
    );
    let unknown = object(json!({"sise": 1}));
    let error = apply(&versions, &writer("two"), Some(&both), &unknown, false).expect_err("unknown");
    assert!(
        error.to_string().contains("field not declared in schema"),
        "{error}"
    );
}

#[test]
fn documents_show_the_schema() {
    let served = widget(&rich());
    let document =
        crate::openapi::document(TypeTable::built_in(), &[&served], "example.io", "v1").expect("a document");
    let schema = &document["components"]["schemas"]["io.example.v1.Widget"];
    assert_eq!(schema["properties"]["spec"]["properties"]["size"]["maximum"], 9);
    assert_eq!(schema["x-kubernetes-group-version-kind"][0]["kind"], "Widget");
    let patch = &document["paths"]["/apis/example.io/v1/namespaces/{namespace}/widgets/{name}"]["patch"];
    assert!(
        patch["requestBody"]["content"]
            .get("application/strategic-merge-patch+json")
            .is_none()
    );
    let older = openapi::schema(
        &served,
        &served.custom.as_ref().expect("custom").raw_schema(),
        openapi::Form::V2,
    );
    assert_eq!(
        older["properties"]["spec"]["properties"]["name"].get("type"),
        None
    );
    assert_eq!(
        older["properties"]["spec"]["properties"]["open"].get("properties"),
        None
    );
}

proptest! {
    /// What is valid with its defaults said is valid with them filled in.
    #[test]
    fn defaults_break_nothing(spec in any_object()) {
        let served = widget(&rich());
        let custom = served.custom.as_ref().expect("custom");
        let mut object = json!({"apiVersion": "example.io/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec});
        let mut findings = Findings::default();
        prop_assert_eq!(custom.take(TypeTable::built_in(), served.of_type, &mut object, &mut findings).is_ok(), true);
        let first = custom.check(&object, None, Written::Whole);
        let again = custom.read("example.io/v1", object.clone());
        prop_assert_eq!(&again, &object);
        prop_assert_eq!(first, custom.check(&again, None, Written::Whole));
        // No change, no breach; only objects within the object must say what they are on every write, and what the Scale
        // reads (its paths begin with a dot) must be readable.
        let kept = custom.check(&object, Some(&object), Written::Whole);
        let asked_always = |field: &str| field.ends_with(".apiVersion") || field.ends_with(".kind") || field.starts_with('.');
        prop_assert!(kept.iter().all(|c| asked_always(&c.field)), "{:?}", kept);
    }
}

/// What is wrong with an update of a widget, as text.
fn faults(served: &Resource, old: &Value, new: &Value) -> Vec<String> {
    let custom = served.custom.as_ref().expect("a custom resource");
    texts(&custom.check(new, Some(old), Written::Whole))
}

fn of_spec(spec: Value) -> Value {
    json!({"apiVersion": "example.io/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec})
}

#[test]
fn what_did_not_change_is_held_against_nobody() {
    let served = widget(
        &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "name": {"type": "string"},
        "once": {"type": "string", "x-kubernetes-validations": [{"rule": "self != oldSelf", "message": "must change"}]},
        "few": {"type": "string", "x-kubernetes-validations": [{"rule": "self.size() < 3", "message": "too long"}]},
        "tags": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "string",
            "x-kubernetes-validations": [{"rule": "self.startsWith('a')", "message": "no a"}]}},
        "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"], "maxItems": 1,
            "items": {"type": "object", "required": ["port"], "properties": {"port": {"type": "integer"}}}}}}}}),
    );
    let cases = [
        // A rule about changes is asked whatever changes.
        (
            json!({"once": "x"}),
            json!({"once": "x", "name": "b"}),
            vec!["spec.once: Invalid value: \"x\": must change"],
        ),
        (
            json!({"few": "long"}),
            json!({"few": "long", "name": "b"}),
            vec![],
        ),
        (
            json!({"few": "long"}),
            json!({"few": "longer"}),
            vec!["spec.few: Invalid value: \"longer\": too long"],
        ),
        // Items of a list without keys are unchanged if the whole list is.
        (
            json!({"tags": ["b", "c"]}),
            json!({"tags": ["b", "c"], "name": "b"}),
            vec![],
        ),
        (
            json!({"tags": ["b", "a"]}),
            json!({"tags": ["b"]}),
            vec!["spec.tags[0]: Invalid value: \"b\": no a"],
        ),
        // The order of items with keys is no change.
        (
            json!({"ports": [{"port": 1}, {"port": 2}]}),
            json!({"ports": [{"port": 2}, {"port": 1}]}),
            vec![],
        ),
        (
            json!({"ports": [{"port": 1}, {"port": 2}]}),
            json!({"ports": [{"port": 2}, {"port": 3}]}),
            vec![
                "spec.ports: Too many: 2: must have at most 1 item",
                "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the \
                 existing errors to complete validation",
            ],
        ),
    ];
    for (old, new, expected) in cases {
        assert_eq!(
            faults(&served, &of_spec(old.clone()), &of_spec(new.clone())),
            expected,
            "{old} {new}"
        );
    }
}

#[test]
fn objects_within_objects_have_names_and_metadata_like_all() {
    let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
    let served = widget(
        &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "name": {"type": "string"}, "template": embedded, "all": {"type": "array", "items": embedded}, "given": {"type": "object",
            "x-kubernetes-embedded-resource": true, "properties": {"metadata": {"type": "object",
                "default": {"name": "x", "strange": 1}}}}}}}}),
    );
    let custom = served.custom.as_ref().expect("a custom resource");
    let wrong = of_spec(json!({
        "template": {"apiVersion": "a/b/c", "kind": "%", "metadata": {"name": "..", "labels": {"a": "x y"}}},
        "all": [{"apiVersion": "v1", "kind": "", "metadata": {"finalizers": ["plain"]}}]}));
    let found = texts(&custom.check(&wrong, None, Written::Whole));
    let starts = [
        "spec.all[0].kind: Invalid value: \"\": must not be empty",
        "spec.template.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
        "spec.template.kind: Invalid value: \"%\": may have mixed case, but should otherwise match: a DNS-1035 label",
        "spec.template.metadata.name: Invalid value: \"..\": may not be '..'",
        "spec.template.metadata.labels: Invalid value: \"x y\": a valid label",
    ];
    assert_eq!(found.len(), starts.len(), "{found:?}");
    for (text, start) in found.iter().zip(starts) {
        assert!(text.starts_with(start), "{text}");
    }
    let take = |mut object: Value| {
        let table = TypeTable::built_in();
        custom
            .take(table, served.of_type, &mut object, &mut Findings::default())
            .map(|()| object)
    };
    let mistyped =
        of_spec(json!({"template": {"apiVersion": "v1", "kind": "A", "metadata": {"namespace": 42}}}));
    assert_eq!(
        take(mistyped),
        Err("spec.template.metadata: Invalid value: {\"namespace\":42}: json: cannot unmarshal number into Go struct \
             field ObjectMeta.namespace of type string"
            .to_owned())
    );
    // What a default says beyond metadata goes.
    let given = take(of_spec(json!({"given": {"apiVersion": "v1", "kind": "A"}}))).expect("taken");
    assert_eq!(given["spec"]["given"]["metadata"], json!({"name": "x"}));
}

#[test]
fn an_apply_puts_null_only_where_it_may_stand() {
    let served = widget(&rich());
    let custom = served.custom.as_ref().expect("a custom resource");
    let applied = of_spec(json!({"size": null, "name": null, "labels": null, "ports": [{"port": null}]}));
    let found = texts(&custom.refused_nulls(&applied, false));
    assert_eq!(
        found,
        [
            "spec.labels: Invalid value: \"null\": spec.labels in body must be of type object: \"null\"",
            "spec.ports[0].port: Invalid value: \"null\": spec.ports[0].port in body must be of type integer: \"null\"",
        ]
    );
}

#[test]
fn a_body_of_another_kind_is_refused_in_the_words_of_custom_resources() {
    let served = widget(&rich());
    let mut other = json!({"apiVersion": "example.io/v2", "kind": "Widget", "metadata": {"name": "a"}});
    let error = admission::check_kind(&served, &mut other).expect_err("another version");
    assert_eq!(
        (error.code(), error.message.as_str()),
        (
            400,
            "the API version in the data (example.io/v2) does not match the expected API version (example.io/v1)"
        )
    );
    let mut other = json!({"apiVersion": "example.io/v1", "kind": "Gadget", "metadata": {"name": "a"}});
    let error = admission::check_kind(&served, &mut other).expect_err("another kind");
    assert_eq!(
        (error.code(), error.message.as_str()),
        (
            422,
            "Gadget.example.io \"a\" is invalid: kind: Invalid value: \"Gadget\": must be Widget"
        )
    );
}

#[test]
fn finalizers_of_custom_resources_need_no_domain_but_a_word_is_said() {
    let served = widget(&rich());
    let with = |finalizers: Value| json!({"metadata": {"name": "a", "finalizers": finalizers}});
    let old = with(json!(["held"]));
    let new = with(json!(["held", "a.io/b", "orphan", "plain", "a.io"]));
    assert_eq!(
        admission::warnings(&served, &new, Some(&old)),
        [
            "metadata.finalizers: \"a.io\": prefer a domain-qualified finalizer name including a path (/) to avoid accidental \
             conflicts with other finalizer writers",
            "metadata.finalizers: \"plain\": prefer a domain-qualified finalizer name to avoid accidental conflicts with other \
             finalizer writers",
        ]
    );
    let pods = TypeTable::built_in().resource("", "v1", "pods").expect("pods");
    assert_eq!(admission::warnings(pods, &new, None), Vec::<String>::new());
}
