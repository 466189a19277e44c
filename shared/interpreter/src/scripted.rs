//! What scripts are given and what they answer, as the operations have it.

use serde_json::{Map, Value};
use shared::object::Quantity;

use crate::customized::item;
use crate::quantity::canonical;
use crate::{Component, Dependency, MemberItem, NodeClaim, ReplicaRequirements, Replicas};

type Read<T> = Result<T, String>;

/// Items as scripts see them; not known yet is nil.
pub(crate) fn items(items: Option<&[MemberItem]>) -> Value {
    items.map_or(Value::Null, |items| items.iter().map(item).collect())
}

/// An object of a kind.
pub(crate) fn object(value: Value) -> Read<Value> {
    let has = |name: &str| value.get(name).is_some_and(Value::is_string);
    if has("kind") && has("apiVersion") {
        Ok(value)
    } else {
        Err(format!(
            "{} instead of an object with apiVersion and kind",
            word(&value)
        ))
    }
}

/// A status: a table with names. An empty one is an empty status.
pub(crate) fn status(value: Value) -> Read<Value> {
    match value {
        Value::Object(_) => Ok(value),
        Value::Array(list) if list.is_empty() => Ok(Value::Object(Map::new())),
        other => Err(format!("{} instead of a status", word(&other))),
    }
}

/// A count, and what one replica requires.
pub(crate) fn replicas([count, requirements]: [Value; 2]) -> Read<Replicas> {
    Ok(Replicas {
        replicas: whole(&count)?,
        requirements: self::requirements(requirements)?,
    })
}

fn whole(count: &Value) -> Read<i64> {
    // Fractions are cut; a number beyond the range stops at its ends.
    count
        .as_i64()
        .or_else(|| count.as_f64().map(|count| count as i64))
        .ok_or_else(|| format!("{} instead of a count", word(count)))
}

fn requirements(value: Value) -> Read<Option<ReplicaRequirements>> {
    let given = match value {
        Value::Null => return Ok(None),
        Value::Array(list) if list.is_empty() => return Ok(None),
        Value::Object(given) => given,
        other => return Err(format!("{} instead of requirements", word(&other))),
    };
    let mut read = ReplicaRequirements::default();
    for (name, value) in given {
        match (name.as_str(), value) {
            ("nodeClaim", Value::Object(claim)) => {
                let claim: NodeClaim =
                    serde_json::from_value(claim.into()).map_err(|e| format!("a nodeClaim in which {e}"))?;
                read.node_claim = (claim != NodeClaim::default()).then_some(claim);
            }
            ("resourceRequest", Value::Object(amounts)) => {
                for (resource, amount) in amounts {
                    let text = match &amount {
                        Value::String(text) => text.clone(),
                        Value::Number(number) => number.to_string(),
                        other => return Err(format!("{} as amount of {resource}", word(other))),
                    };
                    let parsed: Quantity = text
                        .parse()
                        .map_err(|error| format!("an amount of {resource}: {error}"))?;
                    read.resource_request
                        .insert(resource, canonical(parsed, text.ends_with('i')));
                }
            }
            ("namespace", Value::String(text)) => read.namespace = Some(text).filter(|text| !text.is_empty()),
            ("priorityClassName", Value::String(text)) => {
                read.priority_class_name = Some(text).filter(|text| !text.is_empty());
            }
            (name, other) => return Err(format!("requirements with {} as {name}", word(&other))),
        }
    }
    Ok(Some(read))
}

/// A list of components; nothing is an empty one.
pub(crate) fn components(value: Value) -> Read<Vec<Component>> {
    let list = match value {
        Value::Null => Vec::new(),
        Value::Array(list) => list,
        other => return Err(format!("{} instead of a list of components", word(&other))),
    };
    list.into_iter()
        .map(|entry| {
            let mut fields = match entry {
                Value::Object(fields) => fields,
                other => return Err(format!("{} as a component", word(&other))),
            };
            let name = match fields.remove("name") {
                Some(Value::String(name)) => name,
                _ => return Err("a component without a name".to_owned()),
            };
            Ok(Component {
                name,
                replicas: whole(fields.get("replicas").unwrap_or(&Value::from(0)))?,
                replica_requirements: requirements(fields.remove("replicaRequirements").unwrap_or_default())?,
            })
        })
        .collect()
}

/// A list of references; each by name or by labels.
pub(crate) fn dependencies(value: Value) -> Read<Vec<Dependency>> {
    let list = match value {
        Value::Array(list) => list,
        other => return Err(format!("{} instead of a list of references", word(&other))),
    };
    let mut read = Vec::with_capacity(list.len());
    for entry in list {
        let one: Dependency =
            serde_json::from_value(entry).map_err(|error| format!("a reference in which {error}"))?;
        let by_name = one.name.as_ref().is_some_and(|name| !name.is_empty());
        if one.api_version.is_empty() || one.kind.is_empty() || !(by_name || one.label_selector.is_some()) {
            return Err("a reference without apiVersion, kind, or a name or label selector".to_owned());
        }
        read.push(Dependency {
            namespace: one.namespace.filter(|namespace| !namespace.is_empty()),
            ..one
        });
    }
    sort(&mut read);
    Ok(read)
}

/// By API version, kind, namespace and name; each once.
pub(crate) fn sort(all: &mut Vec<Dependency>) {
    let key = |one: &Dependency| {
        (
            one.api_version.clone(),
            one.kind.clone(),
            one.namespace.clone(),
            one.name.clone(),
            one.label_selector.as_ref().map(Value::to_string),
        )
    };
    all.sort_by_cached_key(key);
    all.dedup();
}

fn word(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a table",
    }
}
