//! WorkloadRebalancer: places workloads anew, once each.
//!
//! Source: the reference's workload rebalancer. Every workload of the list is told to its binding
//! (`spec.rescheduleTriggeredAt`) and gets one result; changing the list later adds what is new, and drops what failed and
//! is named no longer. Ours: `finishTime` is set once per list, not with every later write of the status.

use serde_json::{Map, Value, json};

/// What became of one workload's binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The binding is there.
    Binding,
    /// There is none.
    Nothing,
}

/// What a pass over one rebalancer asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// The workloads whose bindings are told to place anew, as the list names them.
    pub triggers: Vec<Value>,
    /// The status to store; `None`: it is as it should be.
    pub status: Option<Value>,
}

const FAILED: &str = "Failed";
const SUCCESSFUL: &str = "Successful";

/// One pass. `look` says whether a workload has a binding; `now` is RFC 3339.
pub fn turn(rebalancer: &Value, look: &mut dyn FnMut(&Value) -> Found, now: &str) -> Turn {
    let old = rebalancer["status"]["observedWorkloads"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let wanted = rebalancer["spec"]["workloads"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let known = |workload: &Value| {
        let decided = |one: &&Value| {
            one["workload"] == *workload && matches!(one["result"].as_str(), Some(FAILED | SUCCESSFUL))
        };
        old.iter().find(decided)
    };
    let mut triggers = Vec::new();
    let mut observed: Vec<Value> = Vec::new();
    for workload in wanted {
        if observed.iter().any(|one| one["workload"] == *workload) {
            continue;
        }
        let one = match known(workload) {
            Some(one) => one.clone(),
            None => match look(workload) {
                Found::Binding => {
                    triggers.push(workload.clone());
                    json!({"workload": workload, "result": SUCCESSFUL})
                }
                Found::Nothing => {
                    json!({"workload": workload, "result": FAILED, "reason": "ReferencedBindingNotFound"})
                }
            },
        };
        observed.push(one);
    }
    // What was done stays told, also if it is named no longer.
    for one in old {
        let is_named = wanted.contains(&one["workload"]);
        if !is_named && one["result"] == SUCCESSFUL {
            observed.push(one.clone());
        }
    }
    observed.sort_by_key(|one| {
        let text = |key: &str| one["workload"][key].as_str().unwrap_or_default().to_owned();
        (text("apiVersion"), text("kind"), text("namespace"), text("name"))
    });
    let generation = rebalancer["metadata"]["generation"].as_i64().unwrap_or(1);
    let mut status = Map::new();
    status.insert("observedGeneration".to_owned(), json!(generation));
    let is_same_list = rebalancer["status"]["observedGeneration"].as_i64() == Some(generation);
    let finished = match rebalancer["status"]["finishTime"].as_str() {
        Some(finished) if is_same_list => finished,
        _ => now,
    };
    status.insert("finishTime".to_owned(), json!(finished));
    status.insert("observedWorkloads".to_owned(), Value::Array(observed));
    let status = Value::Object(status);
    Turn {
        triggers,
        status: (status != rebalancer["status"]).then_some(status),
    }
}

/// Seconds since 1970 at which a finished rebalancer removes itself; `None`: it stays.
pub fn ends_at(rebalancer: &Value) -> Option<i64> {
    let ttl = rebalancer["spec"]["ttlSecondsAfterFinished"].as_i64()?;
    let finished = crate::timestamp::parse(rebalancer["status"]["finishTime"].as_str()?)?;
    Some(finished.saturating_add(ttl.max(0)))
}

/// Tells a binding to place anew; `None`: it was told as late before.
pub fn trigger(binding: &Value, rebalancer: &Value) -> Option<Value> {
    let at = rebalancer["metadata"]["creationTimestamp"].as_str()?;
    let seconds = |text: Option<&str>| text.and_then(crate::timestamp::parse);
    let before = seconds(binding["spec"]["rescheduleTriggeredAt"].as_str());
    if before.is_some_and(|before| seconds(Some(at)).is_none_or(|at| at <= before)) {
        return None;
    }
    let mut told = binding.clone();
    told["spec"]["rescheduleTriggeredAt"] = json!(at);
    Some(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(name: &str) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": name})
    }

    fn rebalancer(workloads: &[&str]) -> Value {
        json!({"metadata": {"name": "r", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"workloads": workloads.iter().map(|name| workload(name)).collect::<Vec<_>>()}})
    }

    fn only<'a>(there: &'a [&'a str]) -> impl FnMut(&Value) -> Found + 'a {
        move |workload| match workload["name"].as_str() {
            Some(name) if there.contains(&name) => Found::Binding,
            _ => Found::Nothing,
        }
    }

    #[test]
    fn every_workload_is_told_once() {
        let mut object = rebalancer(&["web", "gone"]);
        let first = turn(&object, &mut only(&["web"]), "2026-01-01T00:00:05Z");
        assert_eq!(first.triggers, [workload("web")]);
        object["status"] = first.status.unwrap();
        assert_eq!(
            object["status"]["observedWorkloads"],
            json!([
                {"workload": workload("gone"), "result": "Failed", "reason": "ReferencedBindingNotFound"},
                {"workload": workload("web"), "result": "Successful"},
            ])
        );
        assert_eq!(object["status"]["finishTime"], "2026-01-01T00:00:05Z");
        let again = turn(&object, &mut only(&["web", "gone"]), "2026-01-01T09:00:00Z");
        assert_eq!(
            again,
            Turn {
                triggers: Vec::new(),
                status: None
            }
        );
    }

    #[test]
    fn a_changed_list_adds_what_is_new_and_drops_what_failed() {
        let mut object = rebalancer(&["web", "gone"]);
        object["status"] = turn(&object, &mut only(&["web"]), "2026-01-01T00:00:05Z")
            .status
            .unwrap();
        object["spec"]["workloads"] = json!([workload("db")]);
        object["metadata"]["generation"] = json!(2);
        let second = turn(&object, &mut only(&["db"]), "2026-01-01T01:00:00Z");
        assert_eq!(second.triggers, [workload("db")]);
        let status = second.status.unwrap();
        let names: Vec<&Value> = status["observedWorkloads"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| &one["workload"]["name"])
            .collect();
        assert_eq!(names, ["db", "web"]);
        assert_eq!(
            (&status["observedGeneration"], &status["finishTime"]),
            (&json!(2), &json!("2026-01-01T01:00:00Z"))
        );
    }

    #[test]
    fn a_binding_is_told_only_forwards() {
        let object = rebalancer(&["web"]);
        let binding = json!({"spec": {"clusters": []}});
        let told = trigger(&binding, &object).unwrap();
        assert_eq!(told["spec"]["rescheduleTriggeredAt"], "2026-01-01T00:00:00Z");
        assert_eq!(trigger(&told, &object), None);
        let later = json!({"spec": {"rescheduleTriggeredAt": "2026-02-01T00:00:00Z"}});
        assert_eq!(trigger(&later, &object), None);
    }

    #[test]
    fn it_ends_after_its_time() {
        let mut object = rebalancer(&["web"]);
        assert_eq!(ends_at(&object), None);
        object["spec"]["ttlSecondsAfterFinished"] = json!(10);
        assert_eq!(ends_at(&object), None, "not finished yet");
        object["status"] = json!({"finishTime": "1970-01-01T00:00:05Z"});
        assert_eq!(ends_at(&object), Some(15));
    }
}
