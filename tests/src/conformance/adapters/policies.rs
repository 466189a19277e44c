//! What policies decide beside placing: priorities, quotas, names of attached bindings, taints as
//! people type them, and what the Work view shows.

use hub_core::divide::dynamic;
use hub_core::matching::{self, Claim, PolicyIndex, Subject};
use hub_core::policy::{self, AnyPropagationPolicy, PolicyRef, ReplicaScheduling};
use hub_core::schedule::{self, trigger};
use hub_core::view::{self, WorkMeta};
use hub_core::{naming, prune, quota};
use interpreter::{Interpreter, Native};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

use super::super::{Answer, Case};
use super::compact::{items, number, shares, strings, targets, text};

/// Asks the function behind an operation; `None`: it is not one of these.
pub(super) fn answer(case: &Case) -> Option<Answer> {
    let input = &case.input;
    Some(match case.op.as_str() {
        "policyDeprioritised" => deprioritised(input),
        "policyNameTie" => name_tie(input),
        "bindingResourceUsage" => usage(&input["binding"]),
        "names" => return name(input),
        "parseTaints" => taints(input),
        "binding.existingClusters" => {
            let existing = view::existing_clusters(input);
            Answer::Result(
                json!({"dispatchTo": existing.dispatch_to, "purgeDirectly": existing.purge_directly}),
            )
        }
        "binding.mergeClusters" => {
            let held = shares(&input["old"]);
            let mut merged = dynamic::merge(shares(&input["new"]), &held.iter().collect::<Vec<_>>());
            merged.sort();
            Answer::Result(targets(&merged))
        }
        "binding.replicasChanged" => replicas_changed(input),
        "binding.reschedule" => {
            let time = |key: &str| input[key].as_str();
            Answer::Result(json!(trigger::reschedule_required(
                time("rescheduleTriggeredAt"),
                time("lastScheduledTime")
            )))
        }
        "createWork" => create_work(input),
        _ => return None,
    })
}

/// A policy that selects the whole kind, and the object that it selects.
fn selecting(name: &str, priority: i64, preemption: &str) -> AnyPropagationPolicy {
    AnyPropagationPolicy::read(&json!({
        "metadata": {"name": name, "labels": {"clusterpropagationpolicy.karmada.io/permanent-id": name}},
        "spec": {"priority": priority, "preemption": preemption,
            "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}]},
    }))
    .expect("it has the shape of the API")
}

fn with_subject<T>(act: impl FnOnce(&Subject<'_>) -> T) -> T {
    let labels = BTreeMap::new();
    act(&Subject {
        api_version: "v1",
        kind: "ConfigMap",
        namespace: "demo",
        name: "c",
        labels: &labels,
    })
}

/// Policies that take over from one only since its priority was lowered.
fn deprioritised(input: &Value) -> Answer {
    let takes_over = |other: &Value, priority: i64| {
        let holder = selecting("the-holder", priority, "Never");
        let held = Claim {
            policy: holder.reference.clone(),
            id: holder.id.clone(),
        };
        let other = selecting(
            &text(&other["name"]),
            number(&other["priority"]),
            &text(&other["preemption"]),
        );
        let (mine, theirs) = (holder.reference.clone(), other.reference.clone());
        let index = PolicyIndex::new([holder, other]);
        let now: Option<PolicyRef> = with_subject(|subject| {
            matching::decide(&index, subject, Some(&held))
                .holder
                .map(|policy| policy.reference.clone())
        });
        now != Some(mine) && now == Some(theirs)
    };
    let (old, new) = (number(&input["oldPriority"]), number(&input["newPriority"]));
    let requeued = items(&input["others"]).filter(|other| takes_over(other, new) && !takes_over(other, old));
    Answer::Result(json!({"requeued": requeued.count()}))
}

fn name_tie(input: &Value) -> Answer {
    let both = [
        selecting(&text(&input["b"]), 0, "Never"),
        selecting(&text(&input["a"]), 0, "Never"),
    ];
    let winner = with_subject(|subject| {
        matching::select(&both, subject).map(|(policy, _)| policy.reference.name.clone())
    });
    Answer::Result(json!({"winner": winner}))
}

fn usage(binding: &Value) -> Answer {
    let used: Map<String, Value> = quota::usage(binding)
        .iter()
        .map(|(name, quantity)| (name.clone(), json!(quota::text(name, *quantity))))
        .collect();
    Answer::Result(json!({"usage": used}))
}

fn name(input: &Value) -> Option<Answer> {
    let arg = |index: usize| input["args"][index].as_str().unwrap_or_default();
    Some(Answer::Result(match input["fn"].as_str().unwrap_or_default() {
        "bindingReferenceKey" => json!(naming::binding_reference_key(arg(0), arg(1))),
        // The only place that needs the name is what an imported Service depends on.
        "derivedServiceName" => {
            let import = json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport",
                "metadata": {"namespace": "demo", "name": arg(0)}});
            let needs = Native::default().get_dependencies(&import).ok()?;
            json!(needs.iter().find(|need| need.kind == "Service")?.name)
        }
        _ => return None,
    }))
}

fn replicas_changed(input: &Value) -> Answer {
    let Ok(scheduling) = serde_json::from_value::<Option<ReplicaScheduling>>(input["strategy"].clone())
    else {
        return Answer::error();
    };
    let strategy = scheduling
        .as_ref()
        .map(|_| schedule::strategy(scheduling.as_ref()));
    let spec = &input["spec"];
    let changed =
        trigger::replicas_changed(strategy, number(&spec["replicas"]), 0, &shares(&spec["clusters"]));
    Answer::Result(json!(changed))
}

fn taints(input: &Value) -> Answer {
    let texts = strings(input);
    match policy::parse_taints(texts.iter().map(String::as_str)) {
        Ok(parsed) => {
            let shown = |list: &[hub_core::cluster::Taint]| -> Vec<Value> {
                list.iter()
                    .map(|taint| json!({"key": taint.key, "value": taint.value, "effect": taint.effect}))
                    .collect()
            };
            Answer::Result(json!({"add": shown(&parsed.add), "remove": shown(&parsed.remove)}))
        }
        Err(_) => Answer::error(),
    }
}

/// The manifest as the Work view shows it, made from what is sent.
fn create_work(input: &Value) -> Answer {
    let map = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let work = &input["work"];
    let (labels, annotations) = (map(&work["labels"]), map(&work["annotations"]));
    let (name, namespace) = (text(&work["name"]), text(&work["namespace"]));
    let template_uid = text(&input["object"]["metadata"]["uid"]);
    let mut content = input["object"].clone();
    prune::prune(&mut content);
    let shown = WorkMeta {
        name: &name,
        namespace: &namespace,
        labels: &labels,
        annotations: &annotations,
        template_uid: &template_uid,
        template_generation: 0,
    };
    Answer::Result(json!({
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {
            "workload": {"manifests": [shown.manifest(&content)]},
            "suspendDispatching": input["suspend"],
            "preserveResourcesOnDeletion": input["preserve"],
        },
    }))
}
