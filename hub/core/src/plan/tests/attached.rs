//! Dependencies: what goes along, what happens once nobody needs it.

use super::*;
use crate::dependencies::{DEPENDENCIES_ANNOTATION, Referrer};

fn config(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"},
        "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"), "resourceVersion": "3"}})
}

/// A Deployment that mounts the ConfigMap `cfg`, with the policy that carries it along.
fn referrer(hub: &mut Hub) -> Value {
    let mut web = deployment("web", 2);
    web["spec"]["template"]["spec"]["volumes"] = json!([{"name": "c", "configMap": {"name": "cfg"}}]);
    for policy in &mut hub.policies {
        policy["spec"]["propagateDeps"] = json!(true);
    }
    hub.plan(&web);
    hub.binding.clone().unwrap()
}

fn needed_by(binding: &Value) -> Vec<Referrer> {
    Referrer::read(binding).into_iter().collect()
}

#[test]
fn a_binding_names_what_its_template_needs() {
    let mut hub = Hub::with(&["m1", "m2"], vec![policy("p", named(&["m1"]))]);
    let binding = referrer(&mut hub);
    assert_eq!(binding["spec"]["propagateDeps"], true);
    let needs: Value = serde_json::from_str(
        binding["metadata"]["annotations"][DEPENDENCIES_ANNOTATION]
            .as_str()
            .unwrap(),
    )
    .unwrap();
    assert_eq!(
        needs,
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "cfg"}])
    );
    hub.policies[0]["spec"]["propagateDeps"] = json!(false);
    let mut web = deployment("web", 2);
    web["spec"]["template"]["spec"]["volumes"] = json!([{"name": "c", "configMap": {"name": "cfg"}}]);
    hub.plan(&web);
    let binding = hub.binding.unwrap();
    assert!(binding["spec"]["propagateDeps"].is_null());
    assert!(binding["metadata"]["annotations"][DEPENDENCIES_ANNOTATION].is_null());
}

/// Turns red when the agent is not told what to apply first.
#[test]
fn the_entry_of_a_template_names_what_goes_along_with_it() {
    let mut hub = Hub::with(&["m1"], vec![policy("p", named(&["m1"]))]);
    referrer(&mut hub);
    let mut web = deployment("web", 2);
    web["spec"]["template"]["spec"]["volumes"] = json!([{"name": "c", "configMap": {"name": "cfg"}}]);
    let needs = |plan: &TemplatePlan| plan.works[0].entry.dependencies.clone();
    let cfg = ObjectKey::new("", "ConfigMap", "shop", "cfg");
    assert_eq!(needs(&hub.plan(&web)), [cfg]);
    hub.policies[0]["spec"]["propagateDeps"] = json!(false);
    assert_eq!(needs(&hub.plan(&web)), [], "it is not carried along");
}

#[test]
fn what_is_needed_goes_along_and_goes_away_with_it() {
    let mut web = Hub::with(&["m1", "m2"], vec![policy("p", named(&["m1"]))]);
    let binding = referrer(&mut web);
    let mut hub = Hub::with(&["m1", "m2"], Vec::new());
    hub.required = needed_by(&binding);
    let plan = hub.plan(&config("cfg"));
    assert_eq!(clusters_of(&plan), ["m1"]);
    let attached = hub.binding.clone().unwrap();
    assert_eq!(
        attached["spec"]["requiredBy"],
        json!([{"namespace": "shop", "name": "web-deployment", "clusters": [{"name": "m1", "replicas": 2}]}])
    );
    let label = hub.required[0].label();
    assert_eq!(attached["metadata"]["labels"][&label], hub.required[0].id);
    assert!(attached["spec"]["placement"].is_null() && attached["spec"]["clusters"].is_null());
    assert!(plan.scheduled.is_none());
    assert_eq!(
        hub.plan(&config("cfg")).binding,
        BindingChange::Keep,
        "planning again changes nothing"
    );
    hub.required.clear();
    let plan = hub.plan(&config("cfg"));
    assert_eq!((plan.works.len(), plan.withdraw.len()), (0, 1));
    assert_eq!(plan.withdraw[0].mode, DeleteMode::Delete);
    assert_eq!(hub.binding, None);
}

/// Turns red when an attached binding has a conflict rule of its own.
#[test]
fn field_report_34_the_conflict_rule_of_the_referrer_holds_for_what_it_needs() {
    let mut web = Hub::with(&["m1"], vec![policy("p", named(&["m1"]))]);
    web.policies[0]["spec"]["conflictResolution"] = json!("Overwrite");
    web.policies[0]["spec"]["preserveResourcesOnDeletion"] = json!(true);
    let binding = referrer(&mut web);
    let mut hub = Hub::with(&["m1"], Vec::new());
    hub.required = needed_by(&binding);
    let plan = hub.plan(&config("cfg"));
    assert_eq!(
        plan.works[0].entry.conflict_resolution,
        ConflictResolution::Overwrite
    );
    assert_eq!(plan.works[0].entry.delete_mode, DeleteMode::Release);
}

/// Turns red when a binding that nobody needs any more stays.
#[test]
fn field_report_66_without_a_cluster_nothing_is_carried_along() {
    let mut web = Hub::with(&["m1"], vec![policy("p", named(&["nowhere"]))]);
    let binding = referrer(&mut web);
    assert_eq!(needed_by(&binding), []);
    let mut hub = Hub::with(&["m1"], Vec::new());
    let plan = hub.plan(&config("cfg"));
    assert!(plan.binding_name.is_empty() && hub.binding.is_none());
}

#[test]
fn clusters_of_its_own_policy_and_of_those_who_need_it_are_united() {
    let mut web = Hub::with(&["m1", "m2", "m3"], vec![policy("p", named(&["m1", "m3"]))]);
    let binding = referrer(&mut web);
    let mut own = policy("own", named(&["m2", "m3"]));
    own["spec"]["resourceSelectors"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop"}]);
    let mut hub = Hub::with(&["m1", "m2", "m3"], vec![own]);
    hub.required = needed_by(&binding);
    let plan = hub.plan(&config("cfg"));
    assert_eq!(clusters_of(&plan), ["m2", "m3", "m1"]);
    let united = hub.binding.clone().unwrap();
    assert_eq!(
        united["spec"]["clusters"],
        json!([{"name": "m2"}, {"name": "m3"}])
    );
    // its policy goes: what it placed stays, and what is needed stays too
    hub.policies.clear();
    let plan = hub.plan(&config("cfg"));
    assert_eq!(plan.withdraw, []);
    assert_eq!(hub.held.len(), 3);
    // nobody needs it any more: only what the policy had placed stays
    hub.required.clear();
    let plan = hub.plan(&config("cfg"));
    let gone: Vec<&str> = plan.withdraw.iter().map(|w| w.cluster.as_str()).collect();
    assert_eq!(gone, ["m1"]);
}

#[test]
fn a_failover_of_the_application_implies_what_it_needs() {
    let mut hub = Hub::with(&["m1"], vec![policy("p", named(&["m1"]))]);
    let mut web = deployment("web", 1);
    web["spec"]["template"]["spec"]["volumes"] = json!([{"name": "c", "configMap": {"name": "cfg"}}]);
    hub.policies[0]["spec"]["failover"] =
        json!({"application": {"decisionConditions": {"tolerationSeconds": 30}}});
    hub.plan(&web);
    assert_eq!(hub.binding.unwrap()["spec"]["propagateDeps"], true);
}
