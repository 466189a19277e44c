//! Rules of a schema (`x-kubernetes-validations`): compiled when the definition is checked, asked for every object.
//!
//! The walk over an object and its schema is [`super`]'s: it comes to a node, finds what stood there before (list items by
//! their keys, as list-type map says) and asks the rules of the node. Which language they are written in is known here alone.

use crate::status_error::Cause;
use serde_json::Value;

/// Where in a definition a node of its schema is.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Path of the node, such as `spec.versions[0].schema.openAPIV3Schema.properties[spec]`.
    pub path: &'a str,
    /// The root of the schema: `apiVersion`, `kind` and `metadata` can be read there, even if the schema names none.
    pub is_root: bool,
    /// The product of `maxItems`, `maxProperties` and the like around the node: how often its rules may be asked for one
    /// object; `None` if nothing bounds it.
    pub most: Option<u64>,
}

/// The value that rules are asked about.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// What stands at the node now.
    pub value: &'a Value,
    /// What stood there before; none for a create, for an item that was not there, and in lists without keys. Rules about
    /// changes (`oldSelf`) are not asked then, but for those with `optionalOldSelf`.
    pub old: Option<&'a Value>,
    /// Path of the value in the object, such as `spec.ports[0]`; empty at the root.
    pub path: &'a str,
}

/// What the rules of one object have cost together; bounded for the object as a whole.
#[derive(Debug, Default)]
pub struct Spent {
    /// In the unit of the language's cost model.
    pub cost: u64,
}

/// The rules of one node of a schema.
#[derive(Debug, Clone)]
pub struct NodeRules {
    never: std::convert::Infallible,
}

/// Compiles the rules of a node. `node` is the node's whole JSON schema with everything below it (types for the rules).
///
/// # Errors
/// What is wrong with them, as causes of the definition.
pub fn compile(node: &Value, place: Place<'_>) -> Result<Option<NodeRules>, Vec<Cause>> {
    match node.get("x-kubernetes-validations").and_then(Value::as_array) {
        None => Ok(None),
        Some(rules) if rules.is_empty() => Ok(None),
        Some(_) => {
            let field = match place.path {
                "" => "x-kubernetes-validations".to_owned(),
                path => format!("{path}.x-kubernetes-validations"),
            };
            let why = "this hub does not evaluate rules of schemas yet, and does not ignore them silently";
            Err(vec![Cause::forbidden(field, why)])
        }
    }
}

impl NodeRules {
    /// Asks all rules of the node; the causes of those that fail.
    pub fn check(&self, _subject: Subject<'_>, _spent: &mut Spent) -> Vec<Cause> {
        match self.never {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rules_are_never_ignored_silently() {
        let place = Place {
            path: "schema",
            is_root: true,
            most: Some(1),
        };
        let none = compile(&json!({"type": "object"}), place).expect("nothing to compile");
        assert!(none.is_none());
        let some = json!({"type": "object", "x-kubernetes-validations": [{"rule": "true"}]});
        let causes = compile(&some, place).expect_err("not evaluated yet");
        assert_eq!(causes[0].field, "schema.x-kubernetes-validations");
    }
}
