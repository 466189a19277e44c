//! The status that a new object of a built-in kind has: its Go struct with nothing set, as it is written to JSON.

use crate::types::{Plain, Resource, Shape, TypeId, TypeTable};
use serde_json::{Map, Value, json};

/// The empty status of a kind; none if the kind has no status.
pub(super) fn status(table: &TypeTable, resource: &Resource) -> Option<Value> {
    match &table.get(resource.of_type).field("status")?.shape {
        Shape::Ref { to, .. } => Some(zero(table, *to)),
        _ => None,
    }
}

fn zero(table: &TypeTable, of: TypeId) -> Value {
    let mut out = Map::new();
    for field in table.get(of).fields() {
        let declared = &field.declared;
        let value = match &field.shape {
            _ if declared.is_pointer => continue,
            // Go does not leave out structs.
            Shape::Ref { to, .. } if table.get(*to).special.is_none() => zero(table, *to),
            _ if declared.omits_empty => continue,
            Shape::Plain { of, .. } => match of {
                Plain::String => json!(""),
                Plain::Integer | Plain::Number => json!(0),
                Plain::Boolean => json!(false),
            },
            _ => continue,
        };
        out.insert(field.name.to_string(), value);
    }
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_statuses_are_those_of_go() {
        let table = TypeTable::built_in();
        let of =
            |group: &str, plural: &str| status(table, table.resource(group, "v1", plural).expect("a kind"));
        assert_eq!(of("apps", "deployments"), Some(json!({})));
        assert_eq!(of("", "services"), Some(json!({"loadBalancer": {}})));
        assert_eq!(
            of("apps", "statefulsets"),
            Some(json!({"replicas": 0, "availableReplicas": 0}))
        );
        assert_eq!(of("", "configmaps"), None);
    }
}
