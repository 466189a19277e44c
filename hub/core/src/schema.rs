//! The rules that a schema alone enforces: required members and enumerations. They bind the kinds that come from a
//! schema in the reference (the Karmada groups); built-in kinds are decoded into Go structs there, which have neither.

use crate::status_error::Cause;
use crate::types::{Shape, Type, TypeId, TypeTable};
use serde_json::Value;

/// Findings reported at most.
const MAX_CAUSES: usize = 32;

/// Whether a type is one that its schema checks.
pub fn is_checked(of: &Type) -> bool {
    !of.name.starts_with("io.k8s.")
}

/// All breaches in an object of that type; empty for built-in types.
pub fn check(table: &TypeTable, of: TypeId, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    type_(table, of, object, "", &mut causes);
    causes.truncate(MAX_CAUSES);
    causes
}

fn type_(table: &TypeTable, of: TypeId, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    let of = table.get(of);
    let (true, Value::Object(members)) = (is_checked(of), value) else {
        return;
    };
    for field in of.fields() {
        let at = if path.is_empty() {
            field.name.to_string()
        } else {
            format!("{path}.{}", field.name)
        };
        match members.get(&*field.name) {
            None if field.required && field.default.is_none() => causes.push(Cause::required(at, "")),
            None => {}
            Some(inner) => {
                let text = inner.as_str().unwrap_or_default();
                let is_allowed = field.allowed.is_empty() || field.allowed.iter().any(|a| &**a == text);
                // The zero value of an optional text means that it is not set.
                let is_unset = text.is_empty() && !field.required;
                if !is_allowed && !is_unset {
                    let known: Vec<&str> = field.allowed.iter().map(|a| &**a).collect();
                    causes.push(Cause::not_supported(at.clone(), inner, &known));
                }
                shape(table, &field.shape, inner, &at, causes);
            }
        }
    }
}

fn shape(table: &TypeTable, of: &Shape, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    match (of, value) {
        (Shape::Ref { to, .. }, _) => type_(table, *to, value, path, causes),
        (Shape::List { items, .. }, Value::Array(list)) => {
            for (at, item) in list.iter().enumerate() {
                shape(table, items, item, &format!("{path}[{at}]"), causes);
            }
        }
        (Shape::Map { values, .. }, Value::Object(map)) => {
            for (key, inner) in map {
                shape(table, values, inner, &format!("{path}.{key}"), causes);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn policies_are_checked_and_built_in_kinds_are_not() {
        let table = TypeTable::built_in();
        let policy = table
            .resource("policy.karmada.io", "v1alpha1", "propagationpolicies")
            .expect("policies")
            .of_type;
        let object =
            json!({"spec": {"resourceSelectors": [{"kind": "Deployment"}], "preemption": "Sometimes"}});
        let causes = check(table, policy, &object);
        let fields: Vec<&str> = causes.iter().map(|c| c.field.as_str()).collect();
        assert_eq!(
            fields,
            ["spec.preemption", "spec.resourceSelectors[0].apiVersion"]
        );
        let deployment = table
            .resource("apps", "v1", "deployments")
            .expect("deployments")
            .of_type;
        assert_eq!(check(table, deployment, &json!({"spec": {}})), []);
    }
}
