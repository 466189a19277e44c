//! Whether an object fits its types closely enough that its fields can be owned, and the set of the fields in it.

use super::items::element_of;
use super::path::Element;
use super::set::{FieldSet, Node};
use super::types::{Atom, ListKind, Scalar, TypeView, View};
use serde_json::Value;
use std::collections::BTreeSet;

/// Misfits reported at most.
const MAX_ERRORS: usize = 16;

/// Misfits of a value, in the words of structured-merge-diff: `.spec.x: field not declared in schema`.
pub(super) fn check<'s, T: TypeView<'s>>(
    view: View<T>,
    value: &Value,
    allow_duplicates: bool,
) -> Vec<String> {
    let mut errors = Vec::new();
    walk(view, value, allow_duplicates, "", &mut errors);
    errors
}

/// Several misfits as one text.
pub(super) fn joined(errors: &[String]) -> String {
    match errors {
        [one] => one.clone(),
        many => format!(
            "errors:\n{}",
            many.iter()
                .map(|e| format!("  {e}"))
                .collect::<Vec<_>>()
                .join("\n")
        ),
    }
}

/// A value as Go prints it in messages.
pub fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_text).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let members: Vec<String> = map.iter().map(|(k, v)| format!("{k}:{}", go_text(v))).collect();
            format!("map[{}]", members.join(" "))
        }
        other => other.to_string(),
    }
}

/// A value as Go prints it behind a pointer.
fn go(value: &Value) -> String {
    format!("&{{{}}}", go_text(value))
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::Null => "<nil>",
    }
}

fn literal(value: &Value) -> String {
    let text = match value {
        Value::String(text) => format!("{text:?}"),
        Value::Array(_) | Value::Object(_) => format!("{}{{}}", go_type(value)),
        other => other.to_string(),
    };
    format!("&value.valueUnstructured{{Value:{text}}}")
}

fn walk<'s, T: TypeView<'s>>(
    view: View<T>,
    value: &Value,
    allow_duplicates: bool,
    path: &str,
    errors: &mut Vec<String>,
) {
    if errors.len() >= MAX_ERRORS || value.is_null() {
        return;
    }
    let mut wrong = |what: String| errors.push(format!("{path}: {what}"));
    match (view.atom(Some(value)), value) {
        (Atom::Scalar(scalar), _) => match (scalar, value) {
            (Scalar::Numeric, Value::Number(_))
            | (Scalar::String, Value::String(_))
            | (Scalar::Boolean, Value::Bool(_))
            | (Scalar::Any, Value::Number(_) | Value::String(_) | Value::Bool(_)) => {}
            (Scalar::Numeric, _) => {
                wrong(format!("expected numeric (int or float), got {}", go_type(value)));
            }
            (Scalar::String, _) => wrong(format!("expected string, got {}", literal(value))),
            (Scalar::Boolean, _) => wrong(format!("expected boolean, got {}", go(value))),
            (Scalar::Any, _) => wrong(format!("expected any scalar, got {}", go(value))),
        },
        (Atom::List(kind), Value::Array(items)) => {
            let mut seen = BTreeSet::new();
            for (at, item) in items.iter().enumerate() {
                let element = if kind == ListKind::Atomic {
                    Element::Index(i64::try_from(at).unwrap_or(i64::MAX))
                } else {
                    match element_of(view, kind, item) {
                        Ok(element) => element,
                        Err(why) => {
                            errors.push(format!("{path}: element {at}: {why}"));
                            return;
                        }
                    }
                };
                let below = format!("{path}{element}");
                if kind != ListKind::Atomic && !seen.insert(element.clone()) && !allow_duplicates {
                    errors.push(format!("{path}: duplicate entries for key {element}"));
                }
                walk(view.items(), item, allow_duplicates, &below, errors);
            }
        }
        (Atom::List(_), _) => wrong(format!("expected list, got {}", go(value))),
        (Atom::Map { .. }, Value::Object(members)) => {
            for (key, inner) in members {
                let below = format!("{path}.{key}");
                match view.member(key) {
                    None => {
                        errors.push(format!("{below}: field not declared in schema"));
                        return;
                    }
                    Some((member, _)) => walk(member, inner, allow_duplicates, &below, errors),
                }
            }
        }
        (Atom::Map { .. }, _) => wrong(format!("expected map, got {}", go(value))),
        (Atom::Deduced, _) => {}
    }
}

/// The fields of a value: what an apply of it owns.
pub(super) fn fields<'s, T: TypeView<'s>>(view: View<T>, value: &Value) -> FieldSet {
    node(view, value).below
}

fn node<'s, T: TypeView<'s>>(view: View<T>, value: &Value) -> Node {
    let mut below = FieldSet::default();
    match (view.atom(Some(value)), value) {
        (Atom::Scalar(_) | Atom::List(ListKind::Atomic) | Atom::Map { is_atomic: true }, _) => {
            return Node::member();
        }
        (Atom::List(kind), Value::Array(items)) => {
            for item in items {
                if let Ok(element) = element_of(view, kind, item) {
                    let mut inner = node(view.items(), item);
                    inner.is_member = true;
                    below.put(element, inner);
                }
            }
        }
        (Atom::Map { .. }, Value::Object(members)) => {
            for (key, value) in members {
                let Some((member, is_declared)) = view.member(key) else {
                    continue;
                };
                let mut inner = node(member, value);
                let is_bare = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                inner.is_member |= is_bare || !is_declared;
                below.put(Element::field(key), inner);
            }
        }
        _ => {}
    }
    Node {
        is_member: false,
        below,
    }
}

/// The set with every declared member on its paths in it too, so that removing it removes those.
pub(super) fn with_named<'s, T: TypeView<'s>>(view: View<T>, set: &FieldSet) -> FieldSet {
    let mut out = FieldSet::default();
    for (element, node) in set.iter() {
        let (below, is_declared) = match element {
            Element::Field(name) => view.member(name).unwrap_or((View::Deduced, false)),
            _ => (view.items(), false),
        };
        let named = Node {
            is_member: node.is_member || (is_declared && !node.below.is_empty()),
            below: with_named(below, &node.below),
        };
        out.put(element.clone(), named);
    }
    out
}
