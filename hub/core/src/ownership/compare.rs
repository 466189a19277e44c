//! What differs between two states of an object, as sets of fields.

use super::items::{element_of, equal};
use super::path::Element;
use super::set::{FieldSet, Node};
use super::types::{Atom, ListKind, TypeView, View};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The difference of two states.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    /// Fields only in the new one.
    pub(super) added: FieldSet,
    /// Fields only in the old one.
    pub(super) removed: FieldSet,
    /// Leaves with another value.
    pub(super) modified: FieldSet,
}

impl Comparison {
    /// Without what writers of a part of the object do not change.
    pub(super) fn without_all_of(&self, ignored: &FieldSet) -> Comparison {
        Comparison {
            added: self.added.without_all_of(ignored),
            removed: self.removed.without_all_of(ignored),
            modified: self.modified.without_all_of(ignored),
        }
    }
}

#[derive(Default)]
struct Diff {
    added: Node,
    removed: Node,
    modified: Node,
}

impl Diff {
    fn put(&mut self, element: &Element, below: Diff) {
        self.added.below.put(element.clone(), below.added);
        self.removed.below.put(element.clone(), below.removed);
        self.modified.below.put(element.clone(), below.modified);
    }

    fn join(&mut self, other: Diff) {
        for (mine, theirs) in [
            (&mut self.added, other.added),
            (&mut self.removed, other.removed),
            (&mut self.modified, other.modified),
        ] {
            mine.is_member |= theirs.is_member;
            mine.below = mine.below.union(&theirs.below);
        }
    }
}

/// Compares two states of an object.
pub(super) fn compare<'s, T: TypeView<'s>>(view: View<T>, old: &Value, new: &Value) -> Comparison {
    let diff = walk(view, Some(old), Some(new));
    Comparison {
        added: diff.added.below,
        removed: diff.removed.below,
        modified: diff.modified.below,
    }
}

fn walk<'s, T: TypeView<'s>>(view: View<T>, old: Option<&Value>, new: Option<&Value>) -> Diff {
    let (before, after) = (view.atom(old), view.atom(new));
    let (mut diff, is_leaf) = match (old, new) {
        (_, None) => handle(view, before, old, new),
        (None, _) => handle(view, after, old, new),
        _ if before == after => handle(view, after, old, new),
        _ => {
            let (mut diff, _) = handle(view, before, old, new);
            let (second, is_leaf) = handle(view, after, old, new);
            diff.join(second);
            (diff, is_leaf)
        }
    };
    if !is_leaf {
        diff.added.is_member |= old.is_none();
        diff.removed.is_member |= new.is_none() && old.is_some();
    }
    diff
}

fn leaf(old: Option<&Value>, new: Option<&Value>) -> (Diff, bool) {
    let mut diff = Diff::default();
    match (old, new) {
        (None, _) => diff.added = Node::member(),
        (_, None) => diff.removed = Node::member(),
        (Some(old), Some(new)) if !equal(old, new) => diff.modified = Node::member(),
        _ => {}
    }
    (diff, true)
}

fn handle<'s, T: TypeView<'s>>(
    view: View<T>,
    atom: Atom,
    old: Option<&Value>,
    new: Option<&Value>,
) -> (Diff, bool) {
    match atom {
        Atom::Scalar(_) | Atom::Deduced => leaf(old, new),
        Atom::List(kind) => {
            let before = old.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let after = new.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            if kind == ListKind::Atomic || (before.is_empty() && after.is_empty()) {
                return leaf(old, new);
            }
            (list(view, kind, before, after), false)
        }
        Atom::Map { is_atomic } => {
            let before = old.and_then(Value::as_object);
            let after = new.and_then(Value::as_object);
            let is_empty = |map: Option<&Map<String, Value>>| map.is_none_or(Map::is_empty);
            if is_atomic || (is_empty(before) && is_empty(after)) {
                return leaf(old, new);
            }
            (map(view, before, after), false)
        }
    }
}

fn map<'s, T: TypeView<'s>>(
    view: View<T>,
    old: Option<&Map<String, Value>>,
    new: Option<&Map<String, Value>>,
) -> Diff {
    let mut diff = Diff::default();
    let in_old = old.into_iter().flat_map(Map::keys);
    let only_new = new
        .into_iter()
        .flat_map(Map::keys)
        .filter(|key| old.is_none_or(|old| !old.contains_key(*key)));
    for key in in_old.chain(only_new) {
        let Some((member, _)) = view.member(key) else {
            continue;
        };
        // In a Go struct some absent members are there, as zero.
        let before = old.and_then(|m| m.get(key).or_else(|| view.zero(key)));
        let after = new.and_then(|m| m.get(key).or_else(|| view.zero(key)));
        if before.is_none() && after.is_none() {
            continue;
        }
        diff.put(&Element::field(key), walk(member, before, after));
    }
    diff
}

fn by_element<'s, 'v, T: TypeView<'s>>(
    view: View<T>,
    kind: ListKind,
    items: &'v [Value],
) -> BTreeMap<Element, Vec<&'v Value>> {
    let mut out: BTreeMap<Element, Vec<&Value>> = BTreeMap::new();
    for item in items {
        if let Ok(element) = element_of(view, kind, item) {
            out.entry(element).or_default().push(item);
        }
    }
    out
}

fn list<'s, T: TypeView<'s>>(view: View<T>, kind: ListKind, old: &[Value], new: &[Value]) -> Diff {
    let mut diff = Diff::default();
    let before = by_element(view, kind, old);
    let mut after = by_element(view, kind, new);
    let none = Vec::new();
    let mut pairs: Vec<(Element, Vec<&Value>, Vec<&Value>)> = Vec::new();
    for (element, items) in before {
        let now = after.remove(&element).unwrap_or_default();
        pairs.push((element, items, now));
    }
    pairs.extend(
        after
            .into_iter()
            .map(|(element, items)| (element, none.clone(), items)),
    );
    for (element, before, after) in pairs {
        match (before.as_slice(), after.as_slice()) {
            ([] | [_], [] | [_]) => {
                let below = walk(view.items(), before.first().copied(), after.first().copied());
                diff.put(&element, below);
            }
            ([_, _, ..], [_, _, ..]) => {
                let same = before.len() == after.len() && before.iter().zip(&after).all(|(a, b)| equal(a, b));
                if !same {
                    diff.modified.below.put(element, Node::member());
                }
            }
            // Duplicates go or come: they count as one leaf.
            ([_, _, ..], _) => {
                if let Some(one) = after.first() {
                    diff.put(&element, walk(view.items(), None, Some(one)));
                }
                diff.removed.below.put(element, Node::member());
            }
            (_, [_, _, ..]) => {
                if let Some(one) = before.first() {
                    diff.put(&element, walk(view.items(), Some(one), None));
                }
                diff.added.below.put(element, Node::member());
            }
        }
    }
    diff
}
