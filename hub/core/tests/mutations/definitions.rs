//! Definitions of custom resources, and objects against their schemas.

use super::{assert_told, corpus, timed};
use hub_core::crd::definition::{check, fill};
use hub_core::crd::status::{Taken, settle};
use hub_core::crd::{Custom, Written, columns, openapi, resources};
use hub_core::strict::Findings;
use hub_core::types::{Resource, TypeTable};
use mutation::{Random, mutate_json, mutate_text, seeds};
use serde_json::{Value, json};
use std::sync::Arc;

const DEFINITIONS: u64 = 2_500;
const OBJECTS: u64 = 12_000;

const PIECES: &[&str] = &[
    "\"type\":\"object\"",
    "\"type\":\"array\"",
    "\"items\":{}",
    "\"properties\":{}",
    "\"additionalProperties\":true",
    "\"x-kubernetes-preserve-unknown-fields\":true",
    "\"nullable\":true",
    "\"default\":{}",
    "\"maxLength\":-1",
    "\"pattern\":\"(\"",
    "\"pattern\":\"(a{1000}){1000}\"",
    "\"$ref\":\"#\"",
    "\"allOf\":[{}]",
    "\"not\":{}",
    "null",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\"x-kubernetes-list-type\":\"map\"",
    "\"x-kubernetes-validations\":[{\"rule\":\"self.x\"}]",
    "1e400",
    "-0",
];

fn served(definition: &Value) -> Vec<Resource> {
    let mut definition = definition.clone();
    settle(&mut definition, None, &Taken::default(), 0);
    resources(TypeTable::built_in(), &definition, 1)
}

fn custom(resource: &Resource) -> Arc<Custom> {
    resource.custom.clone().expect("a custom resource")
}

/// Takes an object as a write does and tells what is wrong with it.
fn take(seed: u64, resource: &Resource, object: &Value) {
    let (table, custom) = (TypeTable::built_in(), custom(resource));
    let mut taken = object.clone();
    if custom
        .take(table, resource.of_type, &mut taken, &mut Findings::default())
        .is_err()
    {
        return;
    }
    let mut again = taken.clone();
    let mut findings = Findings::default();
    let outcome = custom.take(table, resource.of_type, &mut again, &mut findings);
    assert_eq!(outcome, Ok(()), "seed {seed}: what was taken is refused");
    assert_eq!(
        again, taken,
        "seed {seed}: pruning and defaults twice are not as once"
    );
    assert!(findings.unknown.is_empty(), "seed {seed}: {:?}", findings.unknown);
    let causes = timed(seed, "checking", || custom.check(&taken, None, Written::Whole));
    assert_told(seed, &causes);
    assert_told(seed, &custom.check(&taken, Some(object), Written::Status));
    if causes.is_empty() {
        let same = custom.check(&taken, Some(&taken), Written::Whole);
        // Rules about changes are asked now; nothing else is new.
        assert!(
            same.iter().all(|cause| cause.field.starts_with("spec")),
            "seed {seed}: {same:?}"
        );
    }
    columns::cells(&custom, &taken, 0);
    // What is stored in another version is shaped by that one's schema.
    if *custom.stored_as == *format!("{}/{}", resource.group, resource.version) {
        let read = custom.read(&custom.stored_as, taken.clone());
        taken["apiVersion"] = json!(custom.stored_as);
        assert_eq!(read, taken, "seed {seed}");
    }
}

#[test]
fn a_definition_is_served_or_told_by_field() {
    let table = TypeTable::built_in();
    let base = corpus::definition();
    let (mut good, mut bad) = (0, 0);
    for seed in seeds(DEFINITIONS) {
        let mut random = Random::new(seed);
        let mut definition = base.clone();
        if random.index(3) == 0 {
            let text = mutate_text(
                &base["spec"]["versions"][0]["schema"].to_string(),
                PIECES,
                3,
                &mut random,
            );
            if let Ok(schema) = serde_json::from_str(&text) {
                definition["spec"]["versions"][0]["schema"] = schema;
            }
        } else {
            for _ in 0..1 + random.index(3) {
                mutate_json(&mut definition["spec"]["versions"], &mut random);
            }
        }
        let definitions = table
            .resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
            .unwrap();
        // As a request: of the right types, unknown fields gone.
        if hub_core::strict::check(
            table,
            definitions.of_type,
            &mut definition,
            &mut Findings::default(),
        )
        .is_err()
        {
            bad += 1;
            continue;
        }
        fill(&mut definition);
        let causes = timed(seed, "checking", || check(&definition, None));
        assert_told(seed, &causes);
        assert_told(seed, &check(&definition, Some(&base)));
        if !causes.is_empty() {
            bad += 1;
            continue;
        }
        good += 1;
        for resource in served(&definition) {
            openapi::schema(&resource, &custom(&resource).raw_schema(), openapi::Form::V3);
            take(seed, &resource, &corpus::widget());
        }
    }
    println!("{good} definitions served, {bad} refused");
    assert!(good > 0 && bad > 0, "the mutations try too little: {good} {bad}");
}

#[test]
fn an_object_is_shaped_once_and_told_by_field() {
    let mut definition = corpus::definition();
    fill(&mut definition);
    assert_eq!(check(&definition, None), vec![]);
    let served = served(&definition);
    let resource = served.iter().find(|r| &*r.version == "v1").unwrap();
    let (mut good, mut bad) = (0, 0);
    for seed in seeds(OBJECTS) {
        let mut random = Random::new(seed);
        let mut object = corpus::widget();
        for _ in 0..random.index(5) {
            mutate_json(&mut object["spec"], &mut random);
        }
        if random.index(10) == 0 {
            mutate_json(&mut object["metadata"], &mut random);
        }
        if !object["metadata"].is_object() {
            object["metadata"] = json!({"name": "w"});
        }
        take(seed, resource, &object);
        if custom(resource).check(&object, None, Written::Whole).is_empty() {
            good += 1;
        } else {
            bad += 1;
        }
    }
    println!("{good} objects are right, {bad} are not");
    assert!(good > 0 && bad > 0, "the mutations try too little: {good} {bad}");
}
