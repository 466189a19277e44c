//! Values against schemas, told as the API server's own validator told them: `cases.jsonl` beside this file holds what it
//! was asked and what it said.

use super::check;
use crate::crd::Schema;
use serde_json::Value;

const CASES: &str = include_str!("cases.jsonl");

#[test]
fn faults_are_told_as_the_reference_tells_them() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in CASES.lines() {
        let case: Value = serde_json::from_str(line).expect("a case");
        let schema = Schema::read(&case["schema"]);
        let found = check(&schema, &case["object"], None, "");
        let mut found: Vec<Value> = found
            .into_iter()
            .map(|cause| Value::from(format!("{}: {}", cause.field, cause.message)))
            .collect();
        let mut expected = case["errors"].as_array().expect("errors").clone();
        if case["ordered"] == false {
            // Members in no order are told in no order.
            found.sort_by_key(Value::to_string);
            expected.sort_by_key(Value::to_string);
        }
        count += 1;
        if found != expected {
            let (found, expected) = (Value::from(found), Value::from(expected));
            wrong.push(format!(
                "{} {}\n  wanted {expected}\n  found  {found}",
                case["schema"], case["object"]
            ));
        }
    }
    let some = wrong.iter().take(20).cloned().collect::<Vec<_>>();
    assert!(
        wrong.is_empty(),
        "{} of {count}:\n{}",
        wrong.len(),
        some.join("\n")
    );
    assert!(count >= 300, "{count}");
}
