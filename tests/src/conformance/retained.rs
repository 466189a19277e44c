//! The retain cases as the agent sends them: by server-side apply only what the content names goes out, with the value
//! that the rule wants, and a retained field that is not ours stays out.

use std::path::Path;

use agent_core::effective;
use interpreter::Native;
use serde_json::{Map, Value, json};

use super::cases::CaseSet;

fn retain_cases() -> Vec<(String, Value, Value, Value)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance/cases");
    let mut found = Vec::new();
    for path in super::cases::files(&root).unwrap() {
        let name = super::cases::set_name(&root, &path);
        if !(name.starts_with("interpreter/") || name.starts_with("thirdparty/")) {
            continue;
        }
        let set = CaseSet::read(&name, &path).unwrap();
        for case in set.cases.into_iter().filter(|case| case.op == "retain") {
            if case.expect["apiVersion"].is_string() {
                let (desired, observed) = (case.input["desired"].clone(), case.input["observed"].clone());
                found.push((format!("{name}: {}", case.name), desired, observed, case.expect));
            }
        }
    }
    found
}

/// The field set of a manager that owns everything a content names.
fn all_fields(value: &Value) -> Value {
    let Some(map) = value.as_object() else {
        return json!({});
    };
    let named = map
        .iter()
        .map(|(name, value)| (format!("f:{name}"), all_fields(value)));
    Value::Object(named.collect::<Map<_, _>>())
}

/// The agent never sends a status.
fn as_content(mut desired: Value) -> Value {
    if let Some(map) = desired.as_object_mut() {
        map.remove("status");
    }
    desired
}

fn sent(desired: &Value, observed: &Value, owned: bool) -> Value {
    let mut observed = observed.clone();
    let fields = if owned { all_fields(desired) } else { json!({}) };
    observed["metadata"]["resourceVersion"] = json!("7");
    observed["metadata"]["managedFields"] =
        json!([{"manager": "pinnace", "operation": "Apply", "fieldsV1": fields}]);
    let mut sent = effective::retained(&Native::default(), desired, &observed, false).unwrap();
    if let Some(metadata) = sent.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
    sent
}

/// Without members that say nothing: some cases leave them out.
fn bare(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept: Map<String, Value> = map
                .iter()
                .map(|(name, value)| (name.clone(), bare(value)))
                .filter(|(_, value)| !value.is_null())
                .collect();
            if kept.is_empty() {
                Value::Null
            } else {
                Value::Object(kept)
            }
        }
        Value::Array(list) if list.is_empty() => Value::Null,
        other => other.clone(),
    }
}

fn key(item: &Value) -> Option<&str> {
    item.get("name").and_then(Value::as_str)
}

/// Everything sent is named by the content and has the value that the rule wants.
fn check(at: &str, sent: &Value, desired: &Value, wanted: &Value) {
    match (sent, desired, wanted) {
        (Value::Object(sent), Value::Object(_), Value::Object(_)) => {
            for (name, value) in sent {
                assert!(
                    desired.get(name).is_some(),
                    "{at}.{name} is not named by the content"
                );
                check(&format!("{at}.{name}"), value, &desired[name], &wanted[name]);
            }
        }
        (Value::Array(items), Value::Array(named), Value::Array(all))
            if items
                .iter()
                .chain(named)
                .chain(all)
                .all(|item| key(item).is_some()) =>
        {
            for item in items {
                let of = |list: &[Value]| list.iter().find(|other| key(other) == key(item)).cloned();
                let (Some(named), Some(wanted)) = (of(named), of(all)) else {
                    panic!("{at}: {item} is not in the content or not wanted");
                };
                check(
                    &format!("{at}[{}]", key(item).unwrap_or_default()),
                    item,
                    &named,
                    &wanted,
                );
            }
        }
        _ => assert_eq!(bare(sent), bare(wanted), "{at}"),
    }
}

/// Values that the rule changes.
fn changed(desired: &Value, wanted: &Value, at: &str, found: &mut Vec<String>) {
    match (desired, wanted) {
        (Value::Object(desired), Value::Object(_)) => {
            for (name, value) in desired {
                changed(value, &wanted[name], &format!("{at}/{name}"), found);
            }
        }
        (a, b) if bare(a) != bare(b) => found.push(at.to_owned()),
        _ => {}
    }
}

#[test]
fn every_retain_case_holds_under_server_side_apply() {
    let cases = retain_cases();
    assert!(cases.len() > 30, "{} cases", cases.len());
    for (name, desired, observed, expected) in cases {
        let desired = as_content(desired);
        for owned in [true, false] {
            let sent = sent(&desired, &observed, owned);
            check(&name, &sent, &desired, &expected);
            let mut differing = Vec::new();
            changed(&desired, &expected, "", &mut differing);
            for path in differing {
                let value = sent.pointer(&path);
                match value {
                    // A list's items merge by key in the API server, so a list that is kept is sent either way.
                    Some(Value::Array(_)) => {}
                    Some(value) => {
                        assert!(owned, "{name}: {path} is sent and is not ours");
                        let wanted = expected.pointer(&path).unwrap_or(&Value::Null);
                        assert_eq!(bare(value), bare(wanted), "{name}: {path}");
                    }
                    None => assert!(
                        !owned || expected.pointer(&path).is_none(),
                        "{name}: {path} is ours and is not sent"
                    ),
                }
            }
        }
    }
}
