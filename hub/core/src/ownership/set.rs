//! Sets of fields: which fields someone owns, kept as a tree, written as `fieldsV1`.

use super::path::Element;
use crate::limits::MAX_FIELD_DEPTH;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A set of fields below one point.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet(BTreeMap<Element, Node>);

/// One field: whether it is in the set itself, and what below it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    /// The field itself.
    pub is_member: bool,
    /// Fields below it.
    pub below: FieldSet,
}

impl Node {
    /// A field with nothing below.
    pub fn member() -> Node {
        Node {
            is_member: true,
            below: FieldSet::default(),
        }
    }

    /// Nothing.
    pub fn is_empty(&self) -> bool {
        !self.is_member && self.below.is_empty()
    }
}

/// Why an encoded set cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldsError {
    /// Not an object of objects.
    #[error("fieldsV1: {0} is not an object")]
    NotAnObject(String),
    /// A key that is no path element.
    #[error("fieldsV1: {0:?} is not a path element")]
    Element(String),
    /// Nested too deeply.
    #[error("fieldsV1: nested deeper than {MAX_FIELD_DEPTH}")]
    TooDeep,
}

impl FieldSet {
    /// Nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts a field with all that is below it; empty nodes stay out.
    pub fn put(&mut self, element: Element, node: Node) {
        if node.is_empty() {
            return;
        }
        match self.0.entry(element) {
            std::collections::btree_map::Entry::Vacant(place) => {
                place.insert(node);
            }
            std::collections::btree_map::Entry::Occupied(mut place) => {
                let here = place.get_mut();
                here.is_member |= node.is_member;
                here.below = here.below.union(&node.below);
            }
        }
    }

    /// A set of paths of members.
    pub fn of_paths(paths: &[&[&str]]) -> FieldSet {
        let mut set = FieldSet::default();
        for path in paths {
            let mut node = Node::member();
            for (at, name) in path.iter().rev().enumerate() {
                if at + 1 == path.len() {
                    set.put(Element::field(name), std::mem::take(&mut node));
                } else {
                    let mut below = FieldSet::default();
                    below.put(Element::field(name), std::mem::take(&mut node));
                    node = Node {
                        is_member: false,
                        below,
                    };
                }
            }
        }
        set
    }

    /// The elements with their nodes, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Element, &Node)> {
        self.0.iter()
    }

    /// The node of an element.
    pub fn get(&self, element: &Element) -> Option<&Node> {
        self.0.get(element)
    }

    /// Whether the field at the end of a path of members is in the set.
    pub fn has_path(&self, path: &[&str]) -> bool {
        let Some((first, rest)) = path.split_first() else {
            return false;
        };
        match self.get(&Element::field(first)) {
            Some(node) if rest.is_empty() => node.is_member,
            Some(node) => node.below.has_path(rest),
            None => false,
        }
    }

    /// What is in either.
    pub fn union(&self, other: &FieldSet) -> FieldSet {
        let mut out = self.clone();
        for (element, node) in &other.0 {
            out.put(element.clone(), node.clone());
        }
        out
    }

    /// What is in both.
    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        let mut out = FieldSet::default();
        for (element, node) in &self.0 {
            if let Some(theirs) = other.get(element) {
                let both = Node {
                    is_member: node.is_member && theirs.is_member,
                    below: node.below.intersection(&theirs.below),
                };
                out.put(element.clone(), both);
            }
        }
        out
    }

    /// What is here and not there; what is below a field that is there stays.
    pub fn difference(&self, other: &FieldSet) -> FieldSet {
        let mut out = FieldSet::default();
        for (element, node) in &self.0 {
            let left = match other.get(element) {
                None => node.clone(),
                Some(theirs) => Node {
                    is_member: node.is_member && !theirs.is_member,
                    below: node.below.difference(&theirs.below),
                },
            };
            out.put(element.clone(), left);
        }
        out
    }

    /// What is here and neither there nor below a field that is there.
    pub fn without_all_of(&self, other: &FieldSet) -> FieldSet {
        if other.is_empty() {
            return self.clone();
        }
        let mut out = FieldSet::default();
        for (element, node) in &self.0 {
            match other.get(element) {
                None => out.put(element.clone(), node.clone()),
                Some(theirs) if theirs.is_member => {}
                Some(theirs) => {
                    let left = Node {
                        is_member: node.is_member,
                        below: node.below.without_all_of(&theirs.below),
                    };
                    out.put(element.clone(), left);
                }
            }
        }
        out
    }

    /// Paths of all members as text: those of one level before those below it.
    pub fn paths(&self) -> Vec<String> {
        let mut out = Vec::new();
        self.collect("", &mut out);
        out
    }

    fn collect(&self, prefix: &str, out: &mut Vec<String>) {
        for (element, node) in &self.0 {
            if node.is_member {
                out.push(format!("{prefix}{element}"));
            }
        }
        for (element, node) in &self.0 {
            if !node.below.is_empty() {
                node.below.collect(&format!("{prefix}{element}"), out);
            }
        }
    }

    /// Writes `fieldsV1`.
    pub fn encode(&self) -> Value {
        Value::Object(self.encoded(false))
    }

    fn encoded(&self, with_self: bool) -> Map<String, Value> {
        let mut out = Map::new();
        if with_self && !self.is_empty() {
            out.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for (element, node) in &self.0 {
            let below = node.below.encoded(node.is_member);
            out.insert(element.encode(), Value::Object(below));
        }
        out
    }

    /// Reads `fieldsV1`.
    ///
    /// # Errors
    /// Anything that is not an encoded set.
    pub fn decode(value: &Value) -> Result<FieldSet, FieldsError> {
        Ok(decode(value, 0)?.below)
    }
}

fn decode(value: &Value, depth: usize) -> Result<Node, FieldsError> {
    if depth > MAX_FIELD_DEPTH {
        return Err(FieldsError::TooDeep);
    }
    let map = value
        .as_object()
        .ok_or_else(|| FieldsError::NotAnObject(value.to_string()))?;
    // A field without anything below stands for itself.
    let mut node = Node {
        is_member: map.is_empty(),
        below: FieldSet::default(),
    };
    for (key, inner) in map {
        if key == "." {
            node.is_member = true;
            continue;
        }
        let element = Element::decode(key).ok_or_else(|| FieldsError::Element(key.clone()))?;
        node.below.put(element, decode(inner, depth + 1)?);
    }
    Ok(node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(value: Value) -> FieldSet {
        FieldSet::decode(&value).expect("a set")
    }

    #[test]
    fn sets_are_read_and_written() {
        let value = json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}},
            "f:spec": {"f:ports": {"k:{\"port\":80}": {".": {}, "f:port": {}}}, "f:finalizers": {"v:\"x\"": {}}}});
        assert_eq!(set(value.clone()).encode(), value);
        assert_eq!(set(json!({})).encode(), json!({}));
        assert!(FieldSet::decode(&json!({"f:a": 1})).is_err());
        assert!(FieldSet::decode(&json!({"a": {}})).is_err());
        let mut deep = json!({});
        for _ in 0..300 {
            deep = json!({"f:a": deep});
        }
        assert_eq!(FieldSet::decode(&deep), Err(FieldsError::TooDeep));
    }

    #[test]
    fn sets_are_combined() {
        let a = set(json!({"f:x": {".": {}, "f:y": {}}, "f:z": {}}));
        let b = set(json!({"f:x": {"f:y": {}, "f:w": {}}}));
        assert_eq!(a.difference(&b).encode(), json!({"f:x": {}, "f:z": {}}));
        assert_eq!(a.intersection(&b).encode(), json!({"f:x": {"f:y": {}}}));
        assert_eq!(
            a.union(&b).encode(),
            json!({"f:x": {".": {}, "f:y": {}, "f:w": {}}, "f:z": {}})
        );
        let x = FieldSet::of_paths(&[&["x"]]);
        assert_eq!(a.without_all_of(&x).encode(), json!({"f:z": {}}));
        assert_eq!(a.paths(), [".x", ".z", ".x.y"]);
        assert!(a.has_path(&["x", "y"]) && !a.has_path(&["x", "w"]));
    }
}
