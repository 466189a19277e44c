//! Merging an applied configuration into the live object, and taking fields out of an object.

use super::items::element_of;
use super::path::Element;
use super::set::FieldSet;
use super::types::{Atom, ListKind, TypeView, View};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The live object with the configuration on top. Both were checked against the schema.
pub(super) fn merge<'s, T: TypeView<'s>>(view: View<T>, live: &Value, config: &Value) -> Value {
    walk(view, Some(live), Some(config)).unwrap_or(Value::Null)
}

fn walk<'s, T: TypeView<'s>>(view: View<T>, live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
    let Some(new) = config else {
        // What the configuration does not name stays.
        return live.cloned();
    };
    match view.atom(Some(new)) {
        Atom::Scalar(_) | Atom::Deduced | Atom::List(ListKind::Atomic) | Atom::Map { is_atomic: true } => {
            Some(new.clone())
        }
        Atom::List(kind) => {
            let old = live.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let items = new.as_array().map_or(&[][..], Vec::as_slice);
            if old.is_empty() && items.is_empty() {
                return Some(new.clone());
            }
            let out = list(view, kind, old, items);
            (!out.is_empty()).then_some(Value::Array(out))
        }
        Atom::Map { .. } => {
            let old = live.and_then(Value::as_object);
            let members = new.as_object();
            if old.is_none_or(Map::is_empty) && members.is_none_or(Map::is_empty) {
                return Some(new.clone());
            }
            let mut out = old.cloned().unwrap_or_default();
            for (key, value) in members.into_iter().flatten() {
                let member = view.member(key).map_or(View::Deduced, |(member, _)| member);
                match walk(member, old.and_then(|m| m.get(key)), Some(value)) {
                    Some(merged) => out.insert(key.clone(), merged),
                    None => out.remove(key),
                };
            }
            (!out.is_empty()).then_some(Value::Object(out))
        }
    }
}

struct Indexed<'v> {
    order: Vec<Element>,
    /// `None`: several items have the element, so none of them is merged with.
    items: BTreeMap<Element, Option<&'v Value>>,
}

fn indexed<'s, 'v, T: TypeView<'s>>(view: View<T>, kind: ListKind, items: &'v [Value]) -> Indexed<'v> {
    let mut out = Indexed {
        order: Vec::new(),
        items: BTreeMap::new(),
    };
    for item in items {
        let Ok(element) = element_of(view, kind, item) else {
            continue;
        };
        out.items
            .entry(element.clone())
            .and_modify(|known| *known = None)
            .or_insert(Some(item));
        out.order.push(element);
    }
    out
}

/// The order of structured-merge-diff: the configuration's, with what only the live list has kept near its neighbours.
fn list<'s, T: TypeView<'s>>(view: View<T>, kind: ListKind, live: &[Value], config: &[Value]) -> Vec<Value> {
    let (left, right) = (indexed(view, kind, live), indexed(view, kind, config));
    let mut shared = right.order.iter().filter(|e| left.items.contains_key(*e));
    let mut next_shared = shared.next();
    let mut merged: BTreeSet<&Element> = BTreeSet::new();
    let mut out = Vec::with_capacity(left.order.len().max(right.order.len()));
    let take = |element: &Element, with_config: bool| {
        let old = left.items.get(element).copied().flatten();
        let new = right
            .items
            .get(element)
            .copied()
            .flatten()
            .filter(|_| with_config);
        walk(view.items(), old, new)
    };
    let (mut l, mut r) = (0, 0);
    while l < left.order.len() || r < right.order.len() {
        if let (Some(ours), Some(theirs)) = (left.order.get(l), right.order.get(r)) {
            if ours == theirs {
                merged.insert(theirs);
                out.extend(take(ours, true));
                l += 1;
                r += 1;
                next_shared = shared.next();
                continue;
            }
            let waits = next_shared.is_some_and(|next| next != ours);
            if right.items.contains_key(ours) && waits {
                // Shared, but its turn comes later.
                l += 1;
                continue;
            }
        }
        if let Some(ours) = left.order.get(l) {
            if !right.items.contains_key(ours) {
                out.extend(take(ours, false));
                l += 1;
                continue;
            }
            if merged.contains(ours) {
                l += 1;
            }
        }
        if let Some(theirs) = right.order.get(r) {
            merged.insert(theirs);
            out.extend(take(theirs, true));
            r += 1;
            if next_shared == Some(theirs) {
                next_shared = shared.next();
            }
        }
    }
    out
}

/// The object without those fields. What becomes empty by it is null.
pub(super) fn remove<'s, T: TypeView<'s>>(view: View<T>, value: &Value, gone: &FieldSet) -> Option<Value> {
    if gone.is_empty() {
        return Some(value.clone());
    }
    match (view.atom(Some(value)), value) {
        (Atom::List(ListKind::Atomic) | Atom::Map { is_atomic: true }, _) => None,
        (Atom::List(kind), Value::Array(items)) => {
            let mut out = Vec::new();
            for item in items {
                let node = element_of(view, kind, item).ok().and_then(|e| gone.get(&e));
                match node {
                    Some(node) if node.is_member => {}
                    Some(node) => out.push(remove(view.items(), item, &node.below).unwrap_or(Value::Null)),
                    None => out.push(item.clone()),
                }
            }
            (!out.is_empty()).then_some(Value::Array(out))
        }
        (Atom::Map { .. }, Value::Object(members)) => {
            let mut out = Map::new();
            for (key, inner) in members {
                match gone.get(&Element::field(key)) {
                    Some(node) if node.is_member => {}
                    Some(node) => {
                        let member = view.member(key).map_or(View::Deduced, |(member, _)| member);
                        // What was emptied stays as null until it was compared: it is not removed itself.
                        let left = remove(member, inner, &node.below).unwrap_or(Value::Null);
                        out.insert(key.clone(), left);
                    }
                    None => {
                        out.insert(key.clone(), inner.clone());
                    }
                }
            }
            (!out.is_empty()).then_some(Value::Object(out))
        }
        (Atom::Scalar(_) | Atom::Deduced, _) => Some(value.clone()),
        _ => None,
    }
}
