//! The cases of `tests/conformance/cases/interpreter` through the rules that hub and agent use.

use interpreter::{InterpretError, Interpreter, Kind, MemberItem, Native, Operation};
use serde_json::{Map, Value, json};

const NOW: &str = "2026-01-01T00:00:00Z";

/// A missing `items` key means "no list", an empty one an empty list.
fn items(input: &Value) -> Option<Vec<MemberItem>> {
    let item = |item: &Value| MemberItem {
        cluster: item["clusterName"].as_str().unwrap_or_default().to_owned(),
        status: item.get("status").filter(|status| !status.is_null()).cloned(),
        silent: false,
    };
    Some(input["items"].as_array()?.iter().map(item).collect())
}

fn run(op: &str, input: &Value) -> Result<Value, InterpretError> {
    let native = Native {
        quota_estimate: input["featureGates"]["ResourceQuotaEstimate"] == true,
    };
    let object = &input["object"];
    Ok(match op {
        "getReplicas" => json!(native.get_replicas(object)?),
        "reviseReplica" => native.revise_replica(object, input["replicas"].as_i64().unwrap_or(0))?,
        "retain" => native.retain(&input["desired"], &input["observed"])?,
        "reflectStatus" => native.reflect_status(object)?.unwrap_or(Value::Null),
        "interpretHealth" => native.interpret_health(object)?.into(),
        "getDependencies" => json!(native.get_dependencies(object)?),
        "aggregateStatus" => native
            .aggregate_status(object, items(input).as_deref(), NOW)?
            .unwrap_or(Value::Null),
        "hookEnabled" => {
            let operation = input["operation"]
                .as_str()
                .and_then(Operation::parse)
                .expect("a known operation");
            native.supports(&Kind::of(object)?, operation).into()
        }
        other => panic!("unknown operation {other}"),
    })
}

/// Drops empty members (and zero ones) recursively, as the case files define it.
fn without_empty(value: &Value, zero_too: bool) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| (key.clone(), without_empty(value, zero_too)))
                .filter(|(_, value)| match value {
                    Value::Null => false,
                    Value::String(text) => !text.is_empty(),
                    Value::Array(list) => !list.is_empty(),
                    Value::Object(map) => !map.is_empty(),
                    Value::Number(number) => !zero_too || number.as_f64() != Some(0.0),
                    Value::Bool(_) => true,
                })
                .collect::<Map<_, _>>(),
        ),
        Value::Array(list) => list.iter().map(|value| without_empty(value, zero_too)).collect(),
        other => other.clone(),
    }
}

fn same(want: &Value, got: &Value) -> bool {
    match (want, got) {
        (Value::String(want), Value::String(got)) => match want.as_str() {
            "<now>" => got == NOW,
            "<text>" => true,
            _ => want == got,
        },
        (Value::Object(want), Value::Object(got)) => {
            want.len() == got.len()
                && want
                    .iter()
                    .all(|(key, value)| got.get(key).is_some_and(|other| same(value, other)))
        }
        (Value::Array(want), Value::Array(got)) => {
            want.len() == got.len() && want.iter().zip(got).all(|(a, b)| same(a, b))
        }
        _ => want == got,
    }
}

fn agrees(compare: &str, want: &Value, got: &Value) -> bool {
    match compare {
        "ignore-empty" | "ignore-zero" => {
            let zero = compare == "ignore-zero";
            // Nothing at all and an empty object are not the same result.
            want.is_null() == got.is_null() && same(&without_empty(want, zero), &without_empty(got, zero))
        }
        "set" => {
            let sorted = |value: &Value| {
                let mut list: Vec<String> = value
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(Value::to_string)
                    .collect();
                list.sort();
                list
            };
            sorted(want) == sorted(got)
        }
        _ => same(want, got),
    }
}

#[test]
fn every_case_of_the_interpreter_sets_holds() {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/conformance/cases/interpreter"
    );
    let (mut cases, mut failures) = (0, Vec::new());
    for file in std::fs::read_dir(folder).expect("the case files are part of the repository") {
        let path = file.expect("a readable folder").path();
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let set: Value = serde_json::from_str(&text).expect("JSON");
        for case in set["cases"].as_array().expect("cases") {
            cases += 1;
            let got = run(case["op"].as_str().expect("an operation"), &case["input"]);
            let holds = match (&got, case["expect"].get("result")) {
                (Ok(got), Some(want)) => agrees(case["compare"].as_str().unwrap_or(""), want, got),
                (Err(_), None) => true,
                _ => false,
            };
            if !holds {
                failures.push(format!(
                    "{}: {}\n  want {}\n  got  {got:?}",
                    case["op"], case["name"], case["expect"]
                ));
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {cases} failed:\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert!(cases >= 200, "only {cases} cases found");
}
