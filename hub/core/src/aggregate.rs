//! From what the clusters reported to the status of binding and template.
//!
//! The binding's items follow the reference: what is not applied shows only why, with unknown health. The
//! template's status is merged by the interpreter; targets that are silent beyond the grace are left out of
//! its "has caught up" test, keep their last known counts, and are counted in a condition and an annotation.

use std::collections::HashSet;

use interpreter::{Health, InterpretError, Interpreter, Kind, MemberItem, Operation};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Annotation on a template: how many of its target clusters are silent beyond the grace. Absent: none.
/// It is the hub's own and never part of what members get.
pub const SILENT_CLUSTERS_ANNOTATION: &str = "fleet.pinnace.dev/silent-clusters";

/// Condition on a template's status while target clusters are silent beyond the grace.
pub const SILENT_CONDITION: &str = "fleet.pinnace.dev/SilentClusters";

/// Clusters named in one message; more are counted.
const NAMED_CLUSTERS: usize = 5;

/// One target cluster of a binding and what is known of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Target {
    /// Name of the cluster.
    pub cluster: String,
    /// Replicas assigned to it; 0 for what has none.
    pub replicas: i64,
    /// Silent beyond the grace.
    pub silent: bool,
    /// What it last reported; `None`: nothing yet.
    pub seen: Option<Seen>,
}

/// What a cluster last reported about its copy.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Seen {
    /// The copy is there as the hub wants it.
    pub applied: bool,
    /// Why not, for people; empty when applied.
    pub message: String,
    /// Health as its rule says; `None`: not judged yet.
    pub health: Option<Health>,
    /// Reflected status; `None`: nothing collected.
    pub status: Option<Value>,
}

/// One element of `status.aggregatedStatus` of a binding.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AggregatedItem {
    /// Name of the cluster.
    pub cluster_name: String,
    /// Reflected status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Value>,
    /// Is the copy applied?
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub applied: bool,
    /// Why it is not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub applied_message: String,
    /// Health.
    pub health: Health,
}

/// The binding's item of one target; `None`: the cluster has not reported yet.
pub fn item(target: &Target) -> Option<AggregatedItem> {
    let seen = target.seen.as_ref()?;
    let cluster_name = target.cluster.clone();
    Some(if seen.applied {
        AggregatedItem {
            cluster_name,
            status: seen.status.clone(),
            applied: true,
            applied_message: String::new(),
            health: seen.health.unwrap_or(Health::Unknown),
        }
    } else {
        AggregatedItem {
            cluster_name,
            status: None,
            applied: false,
            applied_message: seen.message.clone(),
            health: Health::Unknown,
        }
    })
}

/// All items of a binding, sorted by cluster.
pub fn items(targets: &[Target]) -> Vec<AggregatedItem> {
    let mut items: Vec<_> = targets.iter().filter_map(item).collect();
    items.sort_by(|a, b| a.cluster_name.cmp(&b.cluster_name));
    items
}

/// A condition without its times, which whoever stores it keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Type, such as `FullyApplied`.
    pub of_type: &'static str,
    /// True or false.
    pub status: bool,
    /// Reason, one word.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

/// Have all clusters that the binding goes to applied it? `wanted`: assigned clusters, those required by other
/// bindings and those being evicted other than directly. A binding that goes nowhere is not applied.
pub fn fully_applied<'a>(wanted: impl IntoIterator<Item = &'a str>, items: &[AggregatedItem]) -> Condition {
    let done = items.iter().filter(|item| item.applied);
    let done: HashSet<&str> = done.map(|item| item.cluster_name.as_str()).collect();
    let applied = |cluster: &str| done.contains(cluster);
    let mut total = 0;
    let mut missing = Vec::new();
    for cluster in wanted {
        total += 1;
        if !applied(cluster) {
            missing.push(cluster);
        }
    }
    if total > 0 && missing.is_empty() {
        let message = format!("Applied in all {total} clusters");
        return Condition {
            of_type: "FullyApplied",
            status: true,
            reason: "FullyAppliedSuccess",
            message,
        };
    }
    let message = if total == 0 {
        "No cluster is assigned".to_owned()
    } else {
        format!(
            "Applied in {} of {total} clusters; not in {}",
            total - missing.len(),
            named(&missing)
        )
    };
    Condition {
        of_type: "FullyApplied",
        status: false,
        reason: "FullyAppliedFailed",
        message,
    }
}

fn named(clusters: &[&str]) -> String {
    let shown = clusters
        .iter()
        .take(NAMED_CLUSTERS)
        .copied()
        .collect::<Vec<_>>()
        .join(", ");
    match clusters.len().saturating_sub(NAMED_CLUSTERS) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// What the hub writes onto a template.
#[derive(Debug, Clone, PartialEq)]
pub struct TemplateStatus {
    /// The whole `.status`; `None`: the template has none and gets none.
    pub status: Option<Value>,
    /// Target clusters silent beyond the grace.
    pub silent: usize,
}

/// Status of a template from its targets; `None`: its kind has no rule, so the hub writes no status.
///
/// # Errors
/// The rule could not read a reported status.
pub fn template_status(
    interpreter: &dyn Interpreter,
    template: &Value,
    targets: &[Target],
    now: &str,
) -> Result<Option<TemplateStatus>, InterpretError> {
    let kind = Kind::of(template)?;
    let silent = targets.iter().filter(|target| target.silent).count();
    if !interpreter.supports(&kind, Operation::AggregateStatus) {
        return Ok(None);
    }
    let members: Vec<MemberItem> = targets
        .iter()
        .map(|target| MemberItem {
            cluster: target.cluster.clone(),
            status: target.seen.as_ref().and_then(|seen| seen.status.clone()),
            silent: target.silent,
        })
        .collect();
    let mut status = interpreter.aggregate_status(template, Some(&members), now)?;
    if let Some(Value::Object(status)) = &mut status {
        let is_workload = kind.api_version == "apps/v1"
            && matches!(
                kind.kind,
                "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet"
            );
        if kind
            == (Kind {
                api_version: "apps/v1",
                kind: "Deployment",
            })
        {
            put_condition(status, &available(status, targets), now);
        }
        if is_workload {
            match silent_condition(targets, silent) {
                Some(condition) => put_condition(status, &condition, now),
                None => drop_condition(status, SILENT_CONDITION),
            }
        }
    }
    Ok(Some(TemplateStatus { status, silent }))
}

/// Like a Deployment controller would say it, over all clusters: `kubectl wait --for=condition=Available`.
fn available(status: &Map<String, Value>, targets: &[Target]) -> Condition {
    let wanted: i64 = targets.iter().map(|target| target.replicas).sum();
    let there = status
        .get("availableReplicas")
        .and_then(Value::as_i64)
        .unwrap_or(0);
    let yes = there >= wanted && !targets.is_empty();
    let reason = if yes {
        "MinimumReplicasAvailable"
    } else {
        "MinimumReplicasUnavailable"
    };
    let message = format!(
        "{there} of {wanted} replicas are available in {} clusters",
        targets.len()
    );
    Condition {
        of_type: "Available",
        status: yes,
        reason,
        message,
    }
}

fn silent_condition(targets: &[Target], silent: usize) -> Option<Condition> {
    if silent == 0 {
        return None;
    }
    let mut names: Vec<&str> = targets
        .iter()
        .filter(|t| t.silent)
        .map(|t| t.cluster.as_str())
        .collect();
    names.sort_unstable();
    let message = format!(
        "{silent} of {} clusters are silent, their last known counts are shown: {}",
        targets.len(),
        named(&names)
    );
    Some(Condition {
        of_type: SILENT_CONDITION,
        status: true,
        reason: "Silent",
        message,
    })
}

/// Sets a condition in place; the transition time only moves when its status changes, nothing moves when nothing
/// changes.
pub fn put_condition(status: &mut Map<String, Value>, condition: &Condition, now: &str) {
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(list) = conditions.as_array_mut() else {
        return;
    };
    let value = if condition.status { "True" } else { "False" };
    let existing = list.iter_mut().find(|other| other["type"] == condition.of_type);
    if let Some(old) = existing {
        if old["status"] != value {
            old["lastTransitionTime"] = now.into();
        }
        old["status"] = value.into();
        old["reason"] = condition.reason.into();
        old["message"] = condition.message.as_str().into();
    } else {
        list.push(json!({
            "type": condition.of_type, "status": value, "reason": condition.reason,
            "message": condition.message, "lastTransitionTime": now,
        }));
    }
}

fn drop_condition(status: &mut Map<String, Value>, of_type: &str) {
    if let Some(list) = status.get_mut("conditions").and_then(Value::as_array_mut) {
        list.retain(|condition| condition["type"] != of_type);
        if list.is_empty() {
            status.remove("conditions");
        }
    }
}

/// The object with the new status and annotation; `None`: nothing differs, nothing is written. Generation,
/// spec and all other metadata stay as they are in `newest`.
pub fn with_status(newest: &Value, new: &TemplateStatus) -> Option<Value> {
    let mut object = newest.clone();
    match &new.status {
        Some(status) => object["status"] = status.clone(),
        None => {
            object.as_object_mut()?.remove("status");
        }
    }
    let count = (new.silent > 0).then(|| Value::String(new.silent.to_string()));
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    match count {
        Some(count) => {
            let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
            annotations
                .as_object_mut()?
                .insert(SILENT_CLUSTERS_ANNOTATION.to_owned(), count);
        }
        None => {
            if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut)
                && annotations.remove(SILENT_CLUSTERS_ANNOTATION).is_some()
                && annotations.is_empty()
            {
                metadata.remove("annotations");
            }
        }
    }
    (object != *newest).then_some(object)
}

#[cfg(test)]
mod tests {
    use interpreter::Native;

    use super::*;

    const NOW: &str = "2026-01-01T00:00:00Z";
    const LATER: &str = "2026-01-01T00:00:09Z";

    fn target(cluster: &str, generation: i64, available: i64) -> Target {
        let status = json!({"replicas": 2, "updatedReplicas": 2, "availableReplicas": available, "generation": 1,
                            "observedGeneration": 1, "resourceTemplateGeneration": generation});
        let seen = Seen {
            applied: true,
            message: String::new(),
            health: Some(Health::Healthy),
            status: Some(status),
        };
        Target {
            cluster: cluster.to_owned(),
            replicas: 2,
            silent: false,
            seen: Some(seen),
        }
    }

    fn deployment() -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
               "metadata": {"name": "web", "generation": 5, "resourceVersion": "7"}, "spec": {"replicas": 4}})
    }

    fn status(template: &Value, targets: &[Target], now: &str) -> TemplateStatus {
        template_status(&Native::default(), template, targets, now)
            .expect("readable")
            .expect("a rule")
    }

    #[test]
    fn what_is_not_applied_shows_only_why() {
        let mut not_applied = target("b", 1, 1);
        if let Some(seen) = &mut not_applied.seen {
            seen.applied = false;
            seen.message = "foreign object".to_owned();
        }
        let silent = Target {
            cluster: "c".to_owned(),
            ..Target::default()
        };
        let got = json!(items(&[not_applied, target("a", 1, 1), silent]));
        assert_eq!(got[0]["clusterName"], "a");
        assert_eq!(
            got[1],
            json!({"clusterName": "b", "appliedMessage": "foreign object", "health": "Unknown"})
        );
        assert_eq!(got.as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn available_follows_the_assigned_replicas_and_keeps_its_transition_time() {
        let template = deployment();
        let first = status(&template, &[target("a", 5, 2), target("b", 5, 1)], NOW);
        let object = with_status(&template, &first).expect("a change");
        assert_eq!(object["status"]["observedGeneration"], 5);
        assert_eq!(object["status"]["conditions"][0]["status"], "False");
        assert_eq!(
            with_status(
                &object,
                &status(&object, &[target("a", 5, 2), target("b", 5, 1)], LATER)
            ),
            None
        );
        let second = with_status(
            &object,
            &status(&object, &[target("a", 5, 2), target("b", 5, 2)], LATER),
        );
        let condition = second.expect("a change")["status"]["conditions"][0].clone();
        assert_eq!(
            (
                condition["status"].as_str(),
                condition["lastTransitionTime"].as_str()
            ),
            (Some("True"), Some(LATER))
        );
    }

    /// Field report F145. Red if what a silent cluster last said were shown without saying so.
    #[test]
    fn silent_targets_are_counted_and_let_the_others_finish() {
        let mut dark = target("b", 4, 2);
        dark.silent = true;
        let template = deployment();
        let object =
            with_status(&template, &status(&template, &[target("a", 5, 2), dark], NOW)).expect("a change");
        assert_eq!(object["status"]["observedGeneration"], 5);
        assert_eq!(object["metadata"]["annotations"][SILENT_CLUSTERS_ANNOTATION], "1");
        let kinds = |object: &Value| -> Vec<String> {
            let list = object["status"]["conditions"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            list.iter()
                .filter_map(|c| c["type"].as_str().map(str::to_owned))
                .collect()
        };
        assert_eq!(kinds(&object), ["Available", SILENT_CONDITION]);
        let back = status(&object, &[target("a", 5, 2), target("b", 5, 2)], LATER);
        let object = with_status(&object, &back).expect("a change");
        assert_eq!(kinds(&object), ["Available"]);
        assert_eq!(object["metadata"].get("annotations"), None);
    }

    #[test]
    fn only_status_and_annotation_change() {
        let mut template = deployment();
        let got = with_status(&template, &status(&template, &[target("a", 5, 2)], NOW)).expect("a change");
        let mut without = got.clone();
        without.as_object_mut().expect("an object").remove("status");
        template.as_object_mut().expect("an object").remove("status");
        assert_eq!(without, template);
    }

    #[test]
    fn a_kind_without_rule_gets_no_status() {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
        assert_eq!(template_status(&Native::default(), &map, &[], NOW), Ok(None));
    }

    #[test]
    fn fully_applied_needs_exactly_the_wanted_clusters() {
        let applied = |cluster: &str| items(&[target(cluster, 1, 1)]);
        assert!(fully_applied(["a"], &applied("a")).status);
        assert!(!fully_applied(["a", "b"], &applied("a")).status);
        assert!(!fully_applied(["a"], &applied("b")).status);
        assert!(!fully_applied([], &[]).status);
        let many: Vec<String> = (0..9).map(|n| format!("m{n}")).collect();
        let message = fully_applied(many.iter().map(String::as_str), &[]).message;
        assert_eq!(
            message,
            "Applied in 0 of 9 clusters; not in m0, m1, m2, m3, m4 and 4 more"
        );
    }

    proptest::proptest! {
        /// Writing a status twice is writing it once, whatever was reported in whatever order, and the observed
        /// generation neither goes back nor runs ahead.
        #[test]
        fn a_status_settles_at_once(
            reported in proptest::collection::vec((0_i64..7, 0_i64..3, proptest::bool::ANY), 0..6),
            observed in 0_i64..5,
        ) {
            let mut targets: Vec<Target> = reported
                .iter()
                .enumerate()
                .map(|(n, (generation, available, silent))| {
                    Target { silent: *silent, ..target(&format!("m{n}"), *generation, *available) }
                })
                .collect();
            let mut template = deployment();
            template["status"] = json!({"observedGeneration": observed});
            let once = status(&template, &targets, NOW);
            targets.reverse();
            proptest::prop_assert_eq!(&status(&template, &targets, NOW).silent, &once.silent);
            let written = with_status(&template, &once).unwrap_or(template);
            proptest::prop_assert_eq!(with_status(&written, &status(&written, &targets, LATER)), None);
            let now_observed = written["status"]["observedGeneration"].as_i64().unwrap_or(0);
            proptest::prop_assert!(now_observed == observed || now_observed == 5);
            let behind = reported.iter().any(|(generation, _, silent)| *generation < 5 && !silent);
            proptest::prop_assert!(!(behind && now_observed == 5 && observed != 5));
        }
    }
}
