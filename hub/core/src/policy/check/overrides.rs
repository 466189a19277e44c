//! Rules of OverridePolicy and ClusterOverridePolicy.

use serde::Deserialize;
use serde_json::Value;

use super::super::admit::Errors;
use super::super::fields::is_json_pointer;
use super::super::overriding::{FieldPatch, OverrideOperator, OverrideSpec, Overriders};
use super::{cluster_affinity, label_map};

/// Members that are the identity of an object: an override cannot change them, it would mean another object.
const IDENTITY: [&str; 4] = ["/apiVersion", "/kind", "/metadata/name", "/metadata/namespace"];

pub(super) fn spec(spec: &Value, errors: &mut Errors) {
    let typed = match OverrideSpec::deserialize(spec) {
        Ok(typed) => typed,
        Err(error) => return errors.invalid("spec", error.to_string()),
    };
    let rules = typed.override_rules.as_deref();
    if rules.is_some() {
        let instead = "is deprecated and cannot be combined with overrideRules; write it as one more rule";
        if typed.target_cluster.is_some() {
            errors.invalid("spec.targetCluster", instead);
        }
        if typed.overriders != Overriders::default() {
            errors.invalid("spec.overriders", instead);
        }
    }
    if let Some(affinity) = &typed.target_cluster {
        cluster_affinity(affinity, "spec.targetCluster", errors);
    }
    overriders(&typed.overriders, &spec["overriders"], "spec.overriders", errors);
    for (index, rule) in rules.unwrap_or_default().iter().enumerate() {
        let path = format!("spec.overrideRules[{index}]");
        if let Some(affinity) = &rule.target_cluster {
            cluster_affinity(affinity, &format!("{path}.targetCluster"), errors);
        }
        let raw = &spec["overrideRules"][index]["overriders"];
        overriders(&rule.overriders, raw, &format!("{path}.overriders"), errors);
    }
}

/// Prefix of the labels and annotations by which hub and agent find their own objects.
const OWN_MARKS: &str = "fleet.pinnace.dev/";
/// The same inside a JSON pointer.
const OWN_MARKS_IN_POINTER: &str = "/fleet.pinnace.dev~1";

fn not_ours(map: &Value) -> Result<(), String> {
    match map
        .as_object()
        .into_iter()
        .flatten()
        .find(|(key, _)| key.starts_with(OWN_MARKS))
    {
        Some((key, _)) => Err(format!("{key:?} is one of the hub's own marks")),
        None => Ok(()),
    }
}

fn overriders(overriders: &Overriders, raw: &Value, path: &str, errors: &mut Errors) {
    for (index, patch) in overriders.plaintext.iter().enumerate() {
        let field = format!("{path}.plaintext[{index}].path");
        let identity = |member: &&&str| is_same_or_above(&patch.path, member);
        if !is_json_pointer(&patch.path) {
            errors.invalid(field, format!("{:?} is not a JSON pointer", patch.path));
        } else if patch.path.contains(OWN_MARKS_IN_POINTER) {
            errors.invalid(field, format!("{:?} is one of the hub's own marks", patch.path));
        } else if let Some(member) = IDENTITY.iter().find(identity) {
            errors.invalid(
                field,
                format!(
                    "{:?} would change {member}: the identity of an object cannot be overridden",
                    patch.path
                ),
            );
        }
    }
    for (index, image) in overriders.image_overrider.iter().enumerate() {
        if let Some(predicate) = &image.predicate
            && (!is_json_pointer(&predicate.path) || predicate.path.is_empty())
        {
            errors.invalid(
                format!("{path}.imageOverrider[{index}].predicate.path"),
                format!("{:?} is not a JSON pointer to an image", predicate.path),
            );
        }
    }
    for kind in ["labelsOverrider", "annotationsOverrider"] {
        for (index, item) in raw[kind].as_array().into_iter().flatten().enumerate() {
            let checked = if kind == "labelsOverrider" {
                label_map(&item["value"])
            } else {
                item["value"]
                    .as_object()
                    .into_iter()
                    .flatten()
                    .try_for_each(|(key, _)| {
                        // Annotation keys may be upper case in the prefix; values are free.
                        super::super::fields::is_qualified_name(&key.to_lowercase())
                            .then_some(())
                            .ok_or_else(|| format!("{key:?} is not a valid annotation key"))
                    })
            };
            if let Err(problem) = checked.and_then(|()| not_ours(&item["value"])) {
                errors.invalid(format!("{path}.{kind}[{index}].value"), problem);
            }
        }
    }
    for (index, field) in overriders.field_overrider.iter().enumerate() {
        let path = format!("{path}.fieldOverrider[{index}]");
        if !is_json_pointer(&field.field_path) || field.field_path.is_empty() {
            errors.invalid(
                format!("{path}.fieldPath"),
                format!("{:?} is not a JSON pointer to a field", field.field_path),
            );
        }
        if field.json.is_empty() == field.yaml.is_empty() {
            errors.invalid(&*path, "give either json or yaml");
        }
        document_patch(&field.json, &format!("{path}.json"), errors);
        document_patch(&field.yaml, &format!("{path}.yaml"), errors);
    }
}

fn document_patch(patch: &[FieldPatch], path: &str, errors: &mut Errors) {
    for (index, operation) in patch.iter().enumerate() {
        let path = format!("{path}[{index}]");
        if !is_json_pointer(&operation.sub_path) {
            errors.invalid(
                format!("{path}.subPath"),
                format!("{:?} is not a JSON pointer", operation.sub_path),
            );
        }
        match (operation.operator, &operation.value) {
            (OverrideOperator::Remove, Some(_)) => {
                errors.invalid(format!("{path}.value"), "remove takes no value")
            }
            (OverrideOperator::Add | OverrideOperator::Replace, None) => {
                errors.invalid(format!("{path}.value"), "add and replace need a value");
            }
            _ => {}
        }
    }
}

/// Does a change at `path` reach `member`: is it the member itself, something inside it, or an object around it?
fn is_same_or_above(path: &str, member: &str) -> bool {
    let within = |inner: &str, outer: &str| {
        inner == outer || inner.strip_prefix(outer).is_some_and(|r| r.starts_with('/'))
    };
    within(path, member) || within(member, path)
}
