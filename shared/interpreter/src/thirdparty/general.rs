//! Rules that many kinds share: counts, pod templates, picked status fields, conditions, references.

use serde_json::{Map, Value};

use super::Read;
use crate::fields::{annotation, get, int, list, map, set, text};
use crate::native::{Names, add_name, named, pod_names, requirements};
use crate::{
    Component, Dependency, InterpretError, ReplicaRequirements, Replicas, TEMPLATE_GENERATION_ANNOTATION,
};

/// The count at `path` and what the pods of the template at `pods` require. Without a count: `default`, or an error.
pub(super) fn replicas(template: &Value, path: &str, default: Option<i64>, pods: &str) -> Read<Replicas> {
    let replicas = int(template, path)?
        .or(default)
        .ok_or_else(|| InterpretError::Missing {
            path: path.to_owned(),
            purpose: "count the replicas",
        })?;
    Ok(Replicas {
        replicas,
        requirements: of_template(get(template, pods)?)?,
    })
}

/// What the pods of a pod template require.
pub(super) fn of_template(template: Option<&Value>) -> Read<Option<ReplicaRequirements>> {
    match template
        .map(|template| get(template, "spec"))
        .transpose()?
        .flatten()
    {
        Some(spec) => requirements(spec, false),
        None => Ok(None),
    }
}

/// The template with its count set, also where it had none.
pub(super) fn revise(template: &Value, path: &str, replicas: i64) -> Read<Value> {
    let mut revised = template.clone();
    set(&mut revised, path, replicas.into());
    Ok(revised)
}

/// The values at `paths` of the member, where it has them.
pub(super) fn keep(desired: &Value, observed: &Value, paths: &[&str]) -> Read<Value> {
    let mut result = desired.clone();
    for path in paths {
        if let Some(value) = get(observed, path)? {
            set(&mut result, path, value.clone());
        }
    }
    Ok(result)
}

/// The named fields of the status; an object without status gives an empty one.
pub(super) fn pick(object: &Value, names: &[&str]) -> Read<Value> {
    let mut picked = Map::new();
    if let Some(status) = map(object, "status")? {
        for name in names {
            if let Some(value) = status.get(*name).filter(|value| !value.is_null()) {
                picked.insert((*name).to_owned(), value.clone());
            }
        }
    }
    Ok(Value::Object(picked))
}

/// The named fields, the generation of the member object and that of the template it was made from. An unreadable
/// annotation is skipped.
pub(super) fn pick_with_generations(object: &Value, names: &[&str]) -> Read<Value> {
    let mut picked = pick(object, names)?;
    if map(object, "status")?.is_some() {
        picked["generation"] = match get(object, "metadata.generation")? {
            Some(generation) => generation.clone(),
            None => return Ok(picked),
        };
        if let Some(generation) = annotation(object, TEMPLATE_GENERATION_ANNOTATION)
            .and_then(|text| text.trim().parse::<i64>().ok())
        {
            picked["resourceTemplateGeneration"] = generation.into();
        }
    }
    Ok(picked)
}

/// Is there a condition of the type with status True and one of the reasons?
pub(super) fn condition_with_reason(object: &Value, of_type: &str, reasons: &[&str]) -> Read<bool> {
    Ok(list(object, "status.conditions")?.iter().any(|condition| {
        condition["type"] == of_type
            && condition["status"] == "True"
            && condition["reason"]
                .as_str()
                .is_some_and(|reason| reasons.contains(&reason))
    }))
}

/// What the pod templates at `paths` refer to.
pub(super) fn pod_dependencies(template: &Value, paths: &[&str]) -> Read<Vec<Dependency>> {
    let mut names = Names::new();
    for path in paths {
        if let Some(pods) = get(template, path)? {
            pod_names(&mut names, get(pods, "spec")?)?;
        }
    }
    dependencies(template, names)
}

/// Names as references in the template's own namespace.
pub(super) fn dependencies(template: &Value, names: Names) -> Read<Vec<Dependency>> {
    let namespace = text(template, "metadata.namespace")?;
    Ok(named(
        names,
        Some(namespace).filter(|namespace| !namespace.is_empty()),
    ))
}

/// Kind and path of each single reference.
pub(super) fn references(template: &Value, paths: &[(&'static str, &str)]) -> Read<Vec<Dependency>> {
    let mut names = Names::new();
    for (kind, path) in paths {
        add_name(&mut names, kind, template, path)?;
    }
    dependencies(template, names)
}

/// A count that may be written as text; absent or unreadable gives the default.
pub(super) fn number(value: &Value, path: &str, default: i64) -> Read<i64> {
    Ok(match get(value, path)? {
        Some(Value::String(text)) => text.trim().parse().unwrap_or(default),
        Some(value) => value.as_i64().unwrap_or(default),
        None => default,
    })
}

/// One component from a group with `replicas` and `template`.
pub(super) fn component(name: String, group: &Value, default: i64) -> Read<Component> {
    Ok(Component {
        name,
        replicas: number(group, "replicas", default)?,
        replica_requirements: of_template(get(group, "template")?)?,
    })
}
