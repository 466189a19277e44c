//! Rules of Cluster, its taints, and ClusterTaintPolicy.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

use super::super::admit::{Errors, FieldError, FieldErrorType, Switches};
use super::super::fields::{is_label_value, is_qualified_name};
use super::super::propagation::ClusterAffinity;
use super::cluster_affinity;

/// Effects of a taint.
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Checks the taints of a Cluster.
pub fn check_taints(taints: &Value) -> Vec<FieldError> {
    let mut errors = Errors::default();
    check(taints, "spec.taints", &mut errors);
    errors.0
}

fn check(taints: &Value, path: &str, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, taint) in taints.as_array().into_iter().flatten().enumerate() {
        let path = format!("{path}[{index}]");
        let text = |key: &str| taint[key].as_str().unwrap_or_default();
        if !is_qualified_name(text("key")) {
            errors.invalid(
                format!("{path}.key"),
                format!("{:?} is not a valid key", text("key")),
            );
        }
        if !is_label_value(text("value")) {
            errors.invalid(
                format!("{path}.value"),
                format!("{:?} is not a valid value", text("value")),
            );
        }
        match text("effect") {
            "" => errors.required(format!("{path}.effect"), EFFECTS.join(", ")),
            effect if EFFECTS.contains(&effect) => {}
            effect => errors.add(
                FieldErrorType::NotSupported,
                format!("{path}.effect"),
                format!("{effect:?}; supported: {}", EFFECTS.join(", ")),
            ),
        }
        if !seen.insert((text("key"), text("effect"))) {
            errors.add(
                FieldErrorType::Duplicate,
                path,
                "key and effect together name a taint, and one before has the same",
            );
        }
    }
}

/// The rules of a Cluster.
pub(super) fn cluster(object: &Value, errors: &mut Errors) {
    let spec = &object["spec"];
    errors.0.extend(check_taints(&spec["taints"]));
    let mut place = |field: String, value: &Value| {
        let text = value.as_str().unwrap_or_default();
        if !is_label_value(text) {
            errors.invalid(field, format!("{text:?} is not a valid label value"));
        }
    };
    for field in ["provider", "region", "zone"] {
        place(format!("spec.{field}"), &spec[field]);
    }
    for (index, zone) in spec["zones"].as_array().into_iter().flatten().enumerate() {
        place(format!("spec.zones[{index}]"), zone);
    }
    let has_zone = spec["zone"].as_str().is_some_and(|zone| !zone.is_empty());
    if has_zone && spec["zones"].as_array().is_some_and(|zones| !zones.is_empty()) {
        errors.invalid("spec.zone", "is deprecated and cannot be combined with zones");
    }
    models(&spec["resourceModels"], errors);
}

/// Grades of nodes: each once, all of the same resources, ranges that follow one another.
fn models(models: &Value, errors: &mut Errors) {
    let path = "spec.resourceModels";
    let models: Vec<&Value> = models.as_array().into_iter().flatten().collect();
    let grades: BTreeSet<Option<i64>> = models.iter().map(|model| model["grade"].as_i64()).collect();
    if grades.len() < models.len() {
        errors.invalid(path, "every grade is given once");
    }
    let names = |model: &Value| -> BTreeSet<String> {
        let ranges = model["ranges"].as_array().into_iter().flatten();
        ranges
            .filter_map(|range| range["name"].as_str().map(str::to_owned))
            .collect()
    };
    if models.windows(2).any(|pair| names(pair[0]) != names(pair[1])) {
        errors.invalid(path, "every grade lists the same resources");
    }
    let bound = |model: &Value, name: &str, end: &str| {
        let ranges = model["ranges"].as_array().into_iter().flatten();
        let mut found = ranges.filter(|range| range["name"] == name);
        found
            .next()
            .and_then(|range| {
                range[end]
                    .as_str()
                    .map(str::to_owned)
                    .or_else(|| Some(range[end].to_string()))
            })
            .and_then(|text| text.parse::<shared::object::Quantity>().ok())
    };
    let mut sorted = models;
    sorted.sort_by_key(|model| model["grade"].as_i64());
    for pair in sorted.windows(2) {
        for name in names(pair[0]) {
            if bound(pair[0], &name, "max") != bound(pair[1], &name, "min") {
                errors.invalid(
                    path,
                    format!("{name}: the ranges of the grades do not follow one another"),
                );
            }
        }
    }
}

/// The rules of a ClusterTaintPolicy.
pub(super) fn policy(object: &Value, switches: Switches, errors: &mut Errors) {
    let spec = &object["spec"];
    if !spec["targetClusters"].is_null() {
        match ClusterAffinity::deserialize(&spec["targetClusters"]) {
            Ok(affinity) => cluster_affinity(&affinity, "spec.targetClusters", errors),
            Err(error) => errors.invalid("spec.targetClusters", error.to_string()),
        }
    }
    let taints = &spec["taints"];
    if taints.as_array().is_none_or(Vec::is_empty) {
        errors.required("spec.taints", "name at least one taint");
    }
    check(taints, "spec.taints", errors);
    for (index, taint) in taints.as_array().into_iter().flatten().enumerate() {
        if taint["effect"] == "NoExecute" && !switches.no_execute_taint_policies {
            errors.add(
                FieldErrorType::Forbidden,
                format!("spec.taints[{index}]"),
                "NoExecute taints evict; start the hub with --allow-no-execute-taint-policy to allow them",
            );
        }
    }
}
