//! Lists that a schema says are sets, or have keys: `==` does not see their order, and `+` puts them together.
//! Source: apiserver `cel/common/valuesunstructured.go`.
//!
//! A value does not say what kind of list it is: that is known by where it is. A list is shared by all that refer to it,
//! and those that are known here are kept until the evaluation is over.

use super::value::{as_optional, list, to_json};
use kube_cel::cel::Value;
use kube_cel::cel::objects::Key;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// Kind of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListKind {
    /// In order.
    Atomic,
    /// Without an order and without doubles.
    Set,
    /// By the names of its keys, as expressions see them.
    Keyed(Arc<[String]>),
}

/// The lists of an evaluation that are more than lists.
#[derive(Debug, Default)]
pub struct Lists {
    known: RefCell<HashMap<usize, (ListKind, Value)>>,
}

fn place(items: &Arc<Vec<Value>>) -> usize {
    Arc::as_ptr(items).addr()
}

/// What makes an item of a set or of a list with keys the same as another.
fn identity(kind: &ListKind, item: &Value) -> String {
    let told = |value: &Value| to_json(value).map_or_else(|_| String::new(), |json| json.to_string());
    match (kind, item) {
        (ListKind::Keyed(keys), Value::Map(members)) => {
            let texts = keys.iter().map(|key| {
                let member = members.get(&Key::from(key.as_str()));
                member.map(&told).unwrap_or_default()
            });
            texts.collect::<Vec<_>>().join("\u{0}")
        }
        _ => told(item),
    }
}

impl Lists {
    /// Remembers what kind of list a value is.
    pub(super) fn remember(&self, kind: &ListKind, value: &Value) {
        if let (ListKind::Set | ListKind::Keyed(_), Value::List(items)) = (kind, value) {
            let known = (kind.clone(), value.clone());
            self.known.borrow_mut().insert(place(items), known);
        }
    }

    fn kind(&self, items: &Arc<Vec<Value>>) -> Option<ListKind> {
        let known = self.known.borrow();
        known.get(&place(items)).map(|(kind, _)| kind.clone())
    }

    /// Whether two values are equal.
    pub(super) fn equal(&self, left: &Value, right: &Value) -> bool {
        if self.known.borrow().is_empty() {
            return left == right;
        }
        match (left, right) {
            (Value::List(a), Value::List(b)) if a.len() == b.len() => match self.kind(a) {
                None | Some(ListKind::Atomic) => a.iter().zip(b.iter()).all(|(a, b)| self.equal(a, b)),
                Some(kind) => {
                    let own: HashMap<String, &Value> =
                        a.iter().map(|item| (identity(&kind, item), item)).collect();
                    b.iter().all(|item| {
                        let same = own.get(&identity(&kind, item));
                        same.is_some_and(|own| kind == ListKind::Set || self.equal(own, item))
                    })
                }
            },
            (Value::List(_), Value::List(_)) => false,
            (Value::Map(a), Value::Map(b)) => {
                let same = |(key, value): (&Key, &Value)| {
                    b.map.get(key).is_some_and(|other| self.equal(value, other))
                };
                a.map.len() == b.map.len() && a.map.iter().all(same)
            }
            _ => match (as_optional(left), as_optional(right)) {
                (Some(Some(a)), Some(Some(b))) => self.equal(a, b),
                _ => left == right,
            },
        }
    }

    /// Two lists put together, if the first one is more than a list.
    pub(super) fn sum(&self, left: &Value, right: &Value) -> Option<Value> {
        let (Value::List(a), Value::List(b)) = (left, right) else {
            return None;
        };
        let kind = self.kind(a)?;
        let mut out = a.to_vec();
        let mut places: HashMap<String, usize> = HashMap::with_capacity(out.len() + b.len());
        for (at, item) in out.iter().enumerate() {
            places.insert(identity(&kind, item), at);
        }
        for item in b.iter() {
            let name = identity(&kind, item);
            match places.get(&name).and_then(|at| out.get_mut(*at)) {
                // The later one counts; items of sets are the same.
                Some(slot) => *slot = item.clone(),
                None => {
                    if kind == ListKind::Set {
                        places.insert(name, out.len());
                    }
                    out.push(item.clone());
                }
            }
        }
        let made = list(out);
        self.remember(&kind, &made);
        Some(made)
    }
}
