//! Compares an answer with what a case expects, by the rules of the cases' README.

use serde_json::Value;
use shared::object::Quantity;

use super::Answer;
use super::cases::{Case, Compare};

/// Does the answer hold?
///
/// # Errors
/// The difference, for people.
pub(super) fn check(case: &Case, answer: &Answer) -> Result<(), String> {
    let expected_error = match &case.expect["error"] {
        Value::Null | Value::Bool(false) => None,
        error => Some(error),
    };
    match (expected_error, answer) {
        (Some(error), Answer::Error { kind, code }) => {
            let differs = |key: &str, found: &str| error[key].as_str().is_some_and(|wanted| wanted != found);
            if differs("kind", kind) || differs("code", code) {
                return Err(format!("error {kind} {code}, expected {error}"));
            }
            Ok(())
        }
        (Some(error), other) => Err(format!("{other:?}, expected the error {error}")),
        (None, Answer::Error { kind, code }) => Err(format!("error {kind} {code}, expected {}", case.expect)),
        (None, Answer::Result(result)) => result_holds(case, result),
        (None, Answer::Unsupported) => Err("not supported".to_owned()),
    }
}

fn result_holds(case: &Case, result: &Value) -> Result<(), String> {
    let expected = &case.expect;
    let holds = match expected.get("anyOf").and_then(Value::as_array) {
        Some(choices) => choices.iter().any(|choice| equal(choice, result, case.compare)),
        None => equal(expected, result, case.compare),
    };
    if holds {
        Ok(())
    } else {
        Err(format!("{result}, expected {expected}"))
    }
}

fn equal(expected: &Value, found: &Value, compare: Compare) -> bool {
    match compare {
        Compare::Exact => same(expected, found),
        Compare::IgnoreEmpty => same(&without_empty(expected, false), &without_empty(found, false)),
        Compare::IgnoreZero => same(&without_empty(expected, true), &without_empty(found, true)),
        Compare::Set => unordered(expected, found),
    }
}

/// The outermost lists are compared as sets; they are the value itself or members of it.
fn unordered(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::Array(a), Value::Array(b)) => {
            let mut open: Vec<&Value> = b.iter().collect();
            a.len() == b.len()
                && a.iter()
                    .all(|wanted| match open.iter().position(|item| same(wanted, item)) {
                        Some(at) => {
                            open.swap_remove(at);
                            true
                        }
                        None => false,
                    })
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, value)| b.get(key).is_some_and(|other| unordered(value, other)))
        }
        _ => same(expected, found),
    }
}

/// Deep equality; numbers by value, and placeholders stand for what they describe.
fn same(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::String(a), Value::String(b)) => a == b || stands_for(a, b),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            let member = |key: &str, value: &Value, other: &Value| {
                if QUANTITIES.contains(&key) {
                    same_quantities(value, other)
                } else {
                    same(value, other)
                }
            };
            a.len() == b.len()
                && a.iter()
                    .all(|(key, value)| b.get(key).is_some_and(|other| member(key, value, other)))
        }
        _ => expected == found,
    }
}

/// Members whose values are quantities by resource.
const QUANTITIES: [&str; 6] = [
    "resourceRequest",
    "allocatable",
    "allocated",
    "allocating",
    "resources",
    "usage",
];

/// Quantities are compared by value: `1000m` is `1`.
fn same_quantities(expected: &Value, found: &Value) -> bool {
    let quantity = |value: &Value| value.as_str().and_then(|text| text.parse::<Quantity>().ok());
    let equal = |a: &Value, b: &Value| match (quantity(a), quantity(b)) {
        (Some(a), Some(b)) => a == b,
        _ => same(a, b),
    };
    match (expected, found) {
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, value)| b.get(key).is_some_and(|other| equal(value, other)))
        }
        _ => same(expected, found),
    }
}

fn stands_for(placeholder: &str, found: &str) -> bool {
    let Some(inner) = placeholder
        .strip_prefix('<')
        .and_then(|rest| rest.strip_suffix('>'))
    else {
        return false;
    };
    let mut words = inner.split(' ');
    match words.next() {
        Some("uuid" | "now") => !found.is_empty(),
        Some("text") => words.all(|word| found.contains(word)),
        _ => false,
    }
}

fn without_empty(value: &Value, zeros: bool) -> Value {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Number(number) => zeros && number.as_f64() == Some(0.0),
        Value::Bool(_) => false,
    };
    match value {
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (key.clone(), without_empty(value, zeros)))
            .filter(|(_, value)| !empty(value))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Array(list) => list.iter().map(|value| without_empty(value, zeros)).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn comparisons() {
        assert!(equal(&json!({"a": 1}), &json!({"a": 1.0}), Compare::Exact));
        assert!(!equal(&json!([1, 2]), &json!([2, 1]), Compare::Exact));
        assert!(equal(
            &json!({"targets": [1, 2]}),
            &json!({"targets": [2, 1]}),
            Compare::Set
        ));
        assert!(!equal(&json!([1, 1]), &json!([1, 2]), Compare::Set));
        assert!(equal(
            &json!({"a": {"b": []}}),
            &json!({"a": null, "c": ""}),
            Compare::IgnoreEmpty
        ));
        assert!(!equal(&json!({"a": 0}), &json!({}), Compare::IgnoreEmpty));
        assert!(equal(&json!({"a": 0}), &json!({}), Compare::IgnoreZero));
        assert!(equal(&json!("<text a b>"), &json!("b and a"), Compare::Exact));
        assert!(!equal(&json!("<text a b>"), &json!("b"), Compare::Exact));
    }
}
