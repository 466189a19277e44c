//! Estimates that the reference compiler was asked for: `estimates.txt` beside this file holds its numbers.

use super::super::{Bounds, Names, Program, Shape};
use serde_json::{Value, json};

/// The schema that the expressions are about.
pub(super) fn node() -> Value {
    json!({"type": "object", "required": ["name", "ports"], "properties": {
        "name": {"type": "string", "maxLength": 63}, "free": {"type": "string"}, "mode": {"type": "string", "enum": ["a", "longer"]},
        "n": {"type": "integer"}, "ratio": {"type": "number"}, "on": {"type": "boolean"},
        "at": {"type": "string", "format": "date-time"}, "wait": {"type": "string", "format": "duration"},
        "day": {"type": "string", "format": "date"}, "raw": {"type": "string", "format": "byte", "maxLength": 100},
        "port": {"x-kubernetes-int-or-string": true}, "short": {"x-kubernetes-int-or-string": true, "maxLength": 10},
        "tags": {"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 20}},
        "words": {"type": "array", "items": {"type": "string"}},
        "numbers": {"type": "array", "items": {"type": "integer"}},
        "nested": {"type": "array", "maxItems": 5, "items": {"type": "array", "maxItems": 7, "items": {"type": "integer"}}},
        "labels": {"type": "object", "maxProperties": 6, "additionalProperties": {"type": "string", "maxLength": 9}},
        "all": {"type": "object", "additionalProperties": {"type": "object", "required": ["x"], "properties": {"x": {"type": "integer"}}}},
        "ports": {"type": "array", "maxItems": 4, "items": {"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string", "maxLength": 15}, "port": {"type": "integer"}, "host-ip": {"type": "string"}}}}}})
}

const ESTIMATES: &str = include_str!("estimates.txt");

#[test]
fn estimates_are_those_of_the_reference() {
    let node = node();
    let (shape, bounds) = (
        Shape::read(&node, false),
        Bounds::read(&node, false).expect("bounds"),
    );
    let names = Names::default()
        .with("self", shape.to_type())
        .with("oldSelf", shape.to_type());
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in ESTIMATES.lines().filter(|line| !line.is_empty()) {
        let (cost, source) = line.split_once(' ').expect("a cost and an expression");
        let program = Program::parse(source).unwrap_or_else(|e| panic!("{source}: {e}"));
        let (_, found) = program
            .check_with_cost(&names, &bounds)
            .unwrap_or_else(|e| panic!("{source}: {e}"));
        count += 1;
        if found.to_string() != cost {
            wrong.push(format!("{source}: {cost}, not {found}"));
        }
    }
    assert!(count > 100, "only {count} estimates");
    assert!(
        wrong.is_empty(),
        "{} of {count}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert_eq!(bounds.times(), 131_072);
}
