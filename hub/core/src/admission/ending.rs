//! What a namespace that ends says about itself (source: the namespace controller of Kubernetes).

use crate::timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What is left of one resource in a namespace that ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remaining {
    /// `configmaps.` or `deployments.apps`.
    pub resource: String,
    /// How many objects.
    pub objects: usize,
    /// How many objects each finalizer holds.
    pub finalizers: BTreeMap<String, usize>,
}

/// Kinds whose objects go first: what runs must not outlive what it was told.
pub fn goes_first(group: &str, plural: &str) -> bool {
    group.is_empty() && plural == "pods"
}

/// The finalizers of a namespace after its content is gone: only those of others stay.
pub fn finalizers_left(namespace: &Value) -> Vec<String> {
    let list = namespace.pointer("/spec/finalizers").and_then(Value::as_array);
    let texts = list.into_iter().flatten().filter_map(Value::as_str);
    texts.filter(|f| *f != "kubernetes").map(str::to_owned).collect()
}

/// The namespace with its conditions; times move only where a status does.
pub fn with_conditions(
    mut namespace: Value,
    remaining: &[Remaining],
    failure: Option<&str>,
    now: i64,
) -> Value {
    let left: Vec<String> = remaining
        .iter()
        .map(|r| format!("{} has {} resource instances", r.resource, r.objects))
        .collect();
    let mut held: BTreeMap<&str, usize> = BTreeMap::new();
    for (finalizer, objects) in remaining.iter().flat_map(|r| &r.finalizers) {
        *held.entry(finalizer).or_default() += objects;
    }
    let held: Vec<String> = held
        .iter()
        .map(|(finalizer, objects)| format!("{finalizer} in {objects} resource instances"))
        .collect();
    let conditions = [
        (
            "NamespaceDeletionDiscoveryFailure",
            None,
            "ResourcesDiscovered",
            "All resources successfully discovered".to_owned(),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            None,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed".to_owned(),
        ),
        (
            "NamespaceDeletionContentFailure",
            failure.map(|f| {
                (
                    "ContentDeletionFailed",
                    format!("Failed to delete all resource types: {f}"),
                )
            }),
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization".to_owned(),
        ),
        (
            "NamespaceContentRemaining",
            (!left.is_empty()).then(|| {
                (
                    "SomeResourcesRemain",
                    format!("Some resources are remaining: {}", left.join(", ")),
                )
            }),
            "ContentRemoved",
            "All content successfully removed".to_owned(),
        ),
        (
            "NamespaceFinalizersRemaining",
            (!held.is_empty()).then(|| {
                (
                    "SomeFinalizersRemain",
                    format!(
                        "Some content in the namespace has finalizers remaining: {}",
                        held.join(", ")
                    ),
                )
            }),
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished".to_owned(),
        ),
    ];
    let mut list = namespace
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    for (kind, problem, fine, all_well) in conditions {
        let (status, reason, message) = match problem {
            Some((reason, message)) => ("True", reason, message),
            None => ("False", fine, all_well),
        };
        let found = list.iter_mut().find(|c| c["type"] == kind);
        let condition = json!({"type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": timestamp::format(now)});
        match found {
            Some(old) if old["status"] == status => {
                old["reason"] = json!(reason);
                old["message"] = json!(message);
            }
            Some(old) => *old = condition,
            None => list.push(condition),
        }
    }
    if !namespace["status"].is_object() {
        namespace["status"] = json!({});
    }
    namespace["status"]["conditions"] = json!(list);
    namespace
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_tell_what_is_left_and_keep_their_times() {
        let remaining = [Remaining {
            resource: "configmaps.".to_owned(),
            objects: 2,
            finalizers: BTreeMap::from([("a/b".to_owned(), 1)]),
        }];
        let first = with_conditions(json!({"status": {"phase": "Terminating"}}), &remaining, None, 0);
        assert_eq!(first["status"]["conditions"][3]["status"], "True");
        assert_eq!(
            with_conditions(first.clone(), &remaining, None, 50),
            first,
            "nothing moved"
        );
        let last = with_conditions(first, &[], Some("x"), 60);
        let conditions = &last["status"]["conditions"];
        assert_eq!(conditions.as_array().map(Vec::len), Some(5));
        assert_eq!(conditions[3]["status"], "False");
        assert_eq!(conditions[3]["lastTransitionTime"], "1970-01-01T00:01:00Z");
        assert_eq!(conditions[2]["message"], "Failed to delete all resource types: x");
        assert_eq!(conditions[0]["lastTransitionTime"], "1970-01-01T00:00:00Z");
    }

    #[test]
    fn finalizers_of_others_stay() {
        let namespace = json!({"spec": {"finalizers": ["kubernetes", "a/b"]}});
        assert_eq!(finalizers_left(&namespace), ["a/b"]);
    }
}
