//! Tests of whole plans.

use std::collections::BTreeSet;
use std::sync::Arc;

use interpreter::Native;
use serde_json::{Value, json};
use shared::ids::ClusterName;
use shared::reason::Reason;
use shared::set::{ConflictResolution, DeleteMode};

use super::*;
use crate::matching::PassedOver;
use crate::schedule::outcome;

mod attached;
mod failing;
mod held;
mod lazy;
mod properties;
mod quotas;
mod reports;
mod room;
mod story;
mod workloads;

fn cluster(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"name": name}}, "spec": {"provider": "p", "region": "r"}})
}

fn deployment(name: &str, replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": name, "namespace": "shop", "uid": format!("uid-{name}"), "generation": 1, "resourceVersion": "7",
            "labels": {"app": name}, "managedFields": [{"manager": "kubectl"}], "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "c", "image": "nginx:1.27"}]}}},
        "status": {"replicas": 1},
    })
}

fn policy(name: &str, placement: Value) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop", "labels": {"propagationpolicy.karmada.io/permanent-id": format!("id-{name}")}},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop"}],
            "placement": placement,
        },
    })
}

fn named(clusters: &[&str]) -> Value {
    json!({"clusterAffinity": {"clusterNames": clusters}})
}

fn weighted(weights: &[(&str, i64)]) -> Value {
    let rules: Vec<Value> = weights
        .iter()
        .map(|(name, w)| json!({"targetCluster": {"clusterNames": [name]}, "weight": w}))
        .collect();
    json!({"replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": rules},
    }})
}

/// Plans again and again, keeping what a driver would keep.
#[derive(Default)]
struct Hub {
    policies: Vec<Value>,
    overrides: Vec<Value>,
    clusters: Vec<Value>,
    classes: Vec<Value>,
    binding: Option<Value>,
    held: BTreeSet<ClusterName>,
    names: NameIndex,
    required: Vec<Referrer>,
    used: Option<Resources>,
    quotas: Vec<Value>,
    copies: Option<failover::step::Seen>,
}

impl Hub {
    fn with(clusters: &[&str], policies: Vec<Value>) -> Self {
        Self {
            clusters: clusters.iter().map(|name| cluster(name)).collect(),
            policies,
            ..Self::default()
        }
    }

    fn world(&self) -> World {
        let world = World::read(&self.policies, &self.overrides, &self.clusters, Vec::new());
        assert_eq!(world.unreadable(), []);
        world
            .with_priority_classes(&self.classes)
            .with_quotas(&self.quotas)
    }

    fn previous(&self) -> Previous<'_> {
        Previous {
            binding: self.binding.as_ref(),
            held: &self.held,
            around: Around {
                required: &self.required,
                used: self.used.as_ref(),
            },
            copies: self.copies.as_ref(),
        }
    }

    /// The plan and how it comes about; nothing is kept.
    fn explain(&self, template: &Value) -> (TemplatePlan, Story) {
        let template = Template::read(Arc::new(template.clone())).unwrap();
        let mut names = self.names.clone();
        explain_template(
            &self.world(),
            &template,
            self.previous(),
            &Native::default(),
            &mut names,
        )
    }

    fn plan(&mut self, template: &Value) -> TemplatePlan {
        let world = self.world();
        let explained = self.explain(template).0;
        let template = Template::read(Arc::new(template.clone())).unwrap();
        let mut names = self.names.clone();
        let plan = plan_template(&world, &template, self.previous(), &Native::default(), &mut names);
        assert_eq!(explained, plan, "to be written down changes nothing");
        self.names = names;
        match &plan.binding {
            BindingChange::Keep => {}
            BindingChange::Put(binding) => self.binding = Some((**binding).clone()),
            BindingChange::Delete => self.binding = None,
        }
        if let (Some(binding), Some(scheduled)) = (&mut self.binding, &plan.scheduled) {
            let noted = outcome::Noted {
                scheduled: scheduled.status,
                reason: scheduled.reason,
                message: &scheduled.message,
                moved: false,
            };
            binding["status"] = outcome::status(&binding["status"], 1, &noted, "2025-12-31T00:00:00Z");
        }
        self.held
            .extend(plan.works.iter().map(|work| work.cluster.clone()));
        for gone in &plan.withdraw {
            self.held.remove(&gone.cluster);
        }
        plan
    }
}

fn clusters_of(plan: &TemplatePlan) -> Vec<String> {
    plan.works.iter().map(|work| work.cluster.to_string()).collect()
}

fn manifest(work: &Work) -> Value {
    serde_json::from_slice(&work.content).unwrap()
}

#[test]
fn duplicated_over_named_clusters() {
    let mut hub = Hub::with(&["m1", "m2", "m3"], vec![policy("p", named(&["m1", "m3"]))]);
    let plan = hub.plan(&deployment("web", 3));
    assert_eq!(clusters_of(&plan), ["m1", "m3"]);
    assert_eq!(plan.binding_name, "web-deployment");
    let work = &plan.works[0];
    assert_eq!(
        work.entry.work,
        crate::naming::work_name("Deployment", "web", "shop")
    );
    assert_eq!(
        work.content, plan.works[1].content,
        "the same content is one bundle"
    );
    let content = manifest(work);
    assert_eq!(content["spec"]["replicas"], 3);
    assert_eq!(
        content["metadata"],
        json!({"name": "web", "namespace": "shop", "labels": {"app": "web"}})
    );
    assert!(content["status"].is_null());
    let binding = hub.binding.as_ref().unwrap();
    assert_eq!(
        binding["spec"]["clusters"],
        json!([{"name": "m1", "replicas": 3}, {"name": "m3", "replicas": 3}])
    );
    assert_eq!(binding["spec"]["resource"]["uid"], "uid-web");
    assert_eq!(binding["metadata"]["ownerReferences"][0]["uid"], "uid-web");
    assert_eq!(
        binding["metadata"]["annotations"]["propagationpolicy.karmada.io/name"],
        "p"
    );
    assert_eq!(
        binding["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"],
        "id-p"
    );
    assert_eq!(
        serde_json::from_str::<Value>(
            binding["metadata"]["annotations"][APPLIED_PLACEMENT_ANNOTATION]
                .as_str()
                .unwrap()
        )
        .unwrap(),
        named(&["m1", "m3"])
    );
    let story = hub.explain(&deployment("web", 3)).1;
    let placing = story.placing.unwrap();
    let refused: Vec<_> = placing.record.tries[0]
        .judged
        .iter()
        .filter_map(|one| Some((one.cluster.as_str(), one.refusal.clone()?)))
        .collect();
    assert_eq!(
        refused,
        [("m2", Refusal::Affinity(crate::affinity::Mismatch::NotNamed))]
    );
}

#[test]
fn planning_again_changes_nothing() {
    let mut hub = Hub::with(
        &["m1", "m2"],
        vec![policy("p", weighted(&[("m1", 2), ("m2", 1)]))],
    );
    let first = hub.plan(&deployment("web", 3));
    let mut changed_status = deployment("web", 3);
    changed_status["metadata"]["resourceVersion"] = json!("9");
    changed_status["status"] = json!({"replicas": 3});
    let second = hub.plan(&changed_status);
    assert_eq!(second.binding, BindingChange::Keep, "a status moves nothing");
    assert_eq!((first.works, second.withdraw.len()), (second.works, 0));
}

#[test]
fn static_weights_divide_and_an_edit_of_replicas_divides_again() {
    let mut hub = Hub::with(
        &["cn", "eu", "us"],
        vec![policy("p", weighted(&[("us", 2), ("cn", 1)]))],
    );
    for (replicas, expected) in [
        (3, [("cn", 1), ("us", 2)]),
        (10, [("cn", 3), ("us", 7)]),
        (15, [("cn", 5), ("us", 10)]),
    ] {
        let plan = hub.plan(&deployment("web", replicas));
        let got: Vec<(String, i64)> = plan
            .works
            .iter()
            .map(|work| {
                (
                    work.cluster.to_string(),
                    manifest(work)["spec"]["replicas"].as_i64().unwrap(),
                )
            })
            .collect();
        let expected: Vec<(String, i64)> = expected
            .iter()
            .map(|(name, n)| ((*name).to_owned(), *n))
            .collect();
        assert_eq!(got, expected);
        assert_eq!(plan.withdraw, []);
    }
}

#[test]
fn scaling_to_zero_deletes_nothing() {
    for placement in [named(&["m1"]), weighted(&[("m1", 2), ("m2", 1)])] {
        let mut hub = Hub::with(&["m1", "m2", "m3"], vec![policy("p", placement)]);
        let before = clusters_of(&hub.plan(&deployment("web", 3)));
        let plan = hub.plan(&deployment("web", 0));
        assert_eq!((clusters_of(&plan), plan.withdraw.len()), (before, 0));
        assert!(
            plan.works
                .iter()
                .all(|work| manifest(work)["spec"]["replicas"] == 0)
        );
    }
}

#[test]
fn a_missing_replica_count_means_one() {
    let mut hub = Hub::with(
        &["m1", "m2"],
        vec![policy("p", weighted(&[("m1", 1), ("m2", 1)]))],
    );
    let mut template = deployment("web", 1);
    template["spec"].as_object_mut().unwrap().remove("replicas");
    assert_eq!(
        hub.plan(&template)
            .targets
            .iter()
            .map(|share| share.replicas)
            .sum::<i64>(),
        1
    );
}

/// Turns red when `withdraw_from` leaves a held cluster out that is no target any more.
#[test]
fn field_report_3_a_cluster_taken_out_of_the_policy_loses_its_copy_and_nobody_else() {
    let mut hub = Hub::with(&["m1", "m2", "m3"], vec![policy("p", named(&["m1", "m2"]))]);
    let before = hub.plan(&deployment("web", 2));
    hub.policies = vec![policy("p", named(&["m2"]))];
    let plan = hub.plan(&deployment("web", 2));
    assert_eq!(plan.works, before.works[1..], "m2 is untouched");
    assert_eq!(plan.withdraw.len(), 1);
    assert_eq!(
        (plan.withdraw[0].cluster.as_str(), plan.withdraw[0].mode),
        ("m1", DeleteMode::Delete)
    );
}

/// Turns red when `trigger` does not look at what goes to every cluster each time.
#[test]
fn field_report_5_a_cluster_that_joins_later_is_used() {
    let mut hub = Hub::with(&["m1"], vec![policy("p", named(&["m1", "m9"]))]);
    assert_eq!(clusters_of(&hub.plan(&deployment("web", 1))), ["m1"]);
    hub.clusters.push(cluster("m9"));
    assert_eq!(clusters_of(&hub.plan(&deployment("web", 1))), ["m1", "m9"]);
}

/// Turns red when `trigger` does not see that a target is gone (`TargetLeaves`).
#[test]
fn field_report_2_a_cluster_that_leaves_the_fleet_leaves_the_binding() {
    let mut hub = Hub::with(
        &["m1", "m2"],
        vec![policy("p", weighted(&[("m1", 1), ("m2", 1)]))],
    );
    hub.plan(&deployment("web", 4));
    hub.clusters.remove(0);
    let plan = hub.plan(&deployment("web", 4));
    assert_eq!(
        hub.binding.unwrap()["spec"]["clusters"],
        json!([{"name": "m2", "replicas": 4}])
    );
    assert_eq!(plan.withdraw[0].cluster.as_str(), "m1");
}

#[test]
fn a_deleted_policy_leaves_everything_running() {
    let mut hub = Hub::with(&["m1"], vec![policy("p", named(&["m1"]))]);
    hub.plan(&deployment("web", 2));
    hub.policies.clear();
    let plan = hub.plan(&deployment("web", 5));
    assert_eq!((plan.works.len(), plan.withdraw.len()), (0, 0));
    assert_eq!(
        plan.passed,
        [Passed {
            policy: PolicyRef {
                namespace: "shop".into(),
                name: "p".into()
            },
            why: PassedOver::Gone
        }]
    );
    let binding = hub.binding.clone().unwrap();
    assert!(binding["metadata"]["annotations"]["propagationpolicy.karmada.io/name"].is_null());
    assert_eq!(
        binding["spec"]["clusters"],
        json!([{"name": "m1", "replicas": 2}])
    );
    assert_eq!(plan.notes[0].reason, Reason::PolicyGone);
    // planning again is quiet, and another policy takes it up
    assert_eq!(hub.plan(&deployment("web", 5)).binding, BindingChange::Keep);
    hub.policies = vec![policy("q", named(&["m1"]))];
    assert_eq!(
        manifest(&hub.plan(&deployment("web", 5)).works[0])["spec"]["replicas"],
        5
    );
}

/// Turns red when `matching::decide` asks for the best match instead of the holder first.
#[test]
fn field_report_1_a_claim_is_sticky_unless_taken_over_on_purpose() {
    let mut hub = Hub::with(&["east", "west"], vec![policy("pp-a", named(&["east"]))]);
    hub.plan(&deployment("web", 2));
    let mut closer = policy("pp-b", named(&["west"]));
    closer["spec"]["resourceSelectors"][0]["name"] = json!("web");
    closer["spec"]["priority"] = json!(5);
    hub.policies.push(closer.clone());
    let plan = hub.plan(&deployment("web", 3));
    assert_eq!(clusters_of(&plan), ["east"]);
    assert_eq!(plan.passed[0].why, PassedOver::AlreadyHeld);
    assert!(plan.warning().unwrap().contains("pp-b"));
    closer["spec"]["preemption"] = json!("Always");
    hub.policies[1] = closer;
    let plan = hub.plan(&deployment("web", 3));
    assert_eq!(
        (clusters_of(&plan), plan.withdraw.len()),
        (vec!["west".to_owned()], 1)
    );
    assert_eq!(plan.passed[0].why, PassedOver::TakenOver);
    assert_eq!(plan.warning(), None, "the former holder asks for nothing");
}

#[test]
fn a_deleted_template_is_withdrawn_by_its_policys_rule() {
    for (preserve, mode) in [(false, DeleteMode::Delete), (true, DeleteMode::Release)] {
        let mut keeping = policy("p", named(&["m1"]));
        keeping["spec"]["preserveResourcesOnDeletion"] = json!(preserve);
        let mut hub = Hub::with(&["m1"], vec![keeping]);
        let plan = hub.plan(&deployment("web", 1));
        assert_eq!(plan.works[0].entry.delete_mode, mode);
        let gone = plan_deletion(
            &plan.key,
            &plan.binding_name,
            hub.binding.as_ref(),
            &hub.held,
            &mut hub.names,
        );
        assert_eq!(
            (gone.binding, gone.withdraw[0].mode),
            (BindingChange::Delete, mode)
        );
    }
}

#[test]
fn suspension_holds_back_clusters_and_scheduling() {
    let mut held = policy("p", named(&["m1", "m2"]));
    held["spec"]["suspension"] = json!({"dispatchingOnClusters": {"clusterNames": ["m2"]}});
    let mut hub = Hub::with(&["m1", "m2", "m3"], vec![held]);
    let plan = hub.plan(&deployment("web", 1));
    assert_eq!(
        plan.works
            .iter()
            .map(|work| work.entry.suspended)
            .collect::<Vec<_>>(),
        [false, true]
    );
    hub.binding.as_mut().unwrap()["spec"]["suspension"]["scheduling"] = json!(true);
    hub.policies = vec![policy("p", named(&["m3"]))];
    let plan = hub.plan(&deployment("web", 1));
    assert_eq!(
        (clusters_of(&plan), plan.scheduled),
        (vec!["m1".to_owned(), "m2".to_owned()], None)
    );
    assert_eq!(
        hub.binding.unwrap()["spec"]["suspension"],
        json!({"scheduling": true})
    );
}

#[test]
fn no_cluster_fits_says_why() {
    let mut hub = Hub::with(&["m1"], vec![policy("p", named(&["m9"]))]);
    let plan = hub.plan(&deployment("web", 1));
    let condition = plan.scheduled.unwrap();
    assert_eq!((condition.status, condition.reason), (false, "NoClusterFit"));
    assert!(condition.message.contains("0/1") && condition.message.contains("not among the named clusters"));
    assert_eq!(plan.works, []);
}

#[test]
fn a_failing_override_leaves_its_cluster_with_what_it_had() {
    let mut hub = Hub::with(&["cn", "us"], vec![policy("p", named(&["cn", "us"]))]);
    hub.plan(&deployment("web", 1));
    hub.overrides = vec![json!({
        "metadata": {"name": "o", "namespace": "shop"},
        "spec": {"overrideRules": [
            {"targetCluster": {"clusterNames": ["us"]}, "overriders": {"plaintext": [
                {"path": "/spec/replicas", "operator": "replace", "value": 7},
                {"path": "/spec/template/spec/containers/0/env/0/value", "operator": "replace", "value": "us"}]}},
            {"targetCluster": {"clusterNames": ["cn"]}, "overriders": {"imageOverrider": [
                {"component": "Registry", "operator": "replace", "value": "r.cn.example"}]}},
        ]},
    })];
    let plan = hub.plan(&deployment("web", 1));
    assert_eq!(
        (clusters_of(&plan), plan.withdraw.len()),
        (vec!["cn".to_owned()], 0)
    );
    assert_eq!(
        manifest(&plan.works[0])["spec"]["template"]["spec"]["containers"][0]["image"],
        "r.cn.example/nginx:1.27"
    );
    let note = plan
        .notes
        .iter()
        .find(|note| note.reason == Reason::OverrideFailed)
        .unwrap();
    assert_eq!(note.cluster.as_deref(), Some("us"));
    assert!(note.message.contains("OverridePolicy shop/o") && note.message.contains("/env/0/value"));
    // field report 14: without the override the field is back at once
    hub.overrides.clear();
    let plan = hub.plan(&deployment("web", 1));
    assert_eq!(
        manifest(&plan.works[0])["spec"]["template"]["spec"]["containers"][0]["image"],
        "nginx:1.27"
    );
}

/// Turns red when `works::content` sets the replicas after the overrides.
#[test]
fn field_report_16_overrides_come_after_the_replicas() {
    let mut hub = Hub::with(&["c1", "c2"], vec![policy("p", named(&["c1", "c2"]))]);
    hub.overrides = vec![json!({
        "metadata": {"name": "o", "namespace": "shop"},
        "spec": {"overrideRules": [{"targetCluster": {"clusterNames": ["c1"]}, "overriders": {"plaintext": [
            {"path": "/spec/replicas", "operator": "replace", "value": 7}]}}]},
    })];
    let plan = hub.plan(&deployment("web", 2));
    let replicas: Vec<Value> = plan
        .works
        .iter()
        .map(|work| manifest(work)["spec"]["replicas"].clone())
        .collect();
    assert_eq!(replicas, [json!(7), json!(2)]);
}

#[test]
fn namespaces_go_everywhere_and_are_adopted_quietly() {
    let mut hub = Hub::with(&["m1", "m2"], Vec::new());
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "shop", "uid": "u", "resourceVersion": "1"}, "spec": {"finalizers": ["kubernetes"]}});
    let plan = hub.plan(&namespace);
    assert_eq!(
        (clusters_of(&plan), &plan.binding),
        (vec!["m1".to_owned(), "m2".to_owned()], &BindingChange::Keep)
    );
    assert!(
        plan.works
            .iter()
            .all(|work| work.entry.conflict_resolution == ConflictResolution::Overwrite)
    );
    assert_eq!(plan.notes, []);
    hub.clusters.push(cluster("m3"));
    assert_eq!(clusters_of(&hub.plan(&namespace)), ["m1", "m2", "m3"]);
    let mut skipped = namespace.clone();
    skipped["metadata"]["labels"] = json!({"namespace.karmada.io/skip-auto-propagation": "true"});
    assert_eq!(Hub::with(&["m1"], Vec::new()).plan(&skipped).works, []);
}

#[test]
fn a_policy_on_a_namespace_shares_the_one_entry() {
    let claims = json!({
        "metadata": {"name": "ns", "labels": {"clusterpropagationpolicy.karmada.io/permanent-id": "i"}},
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "Namespace", "name": "shop"}],
                 "placement": {"clusterAffinity": {"clusterNames": ["m2"]}}},
    });
    let mut hub = Hub::with(&["m1", "m2"], vec![claims]);
    let plan =
        hub.plan(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "u"}}));
    assert_eq!(clusters_of(&plan), ["m1", "m2"]);
    let binding = hub.binding.unwrap();
    assert_eq!(
        (&binding["kind"], &binding["spec"]["clusters"]),
        (&json!("ClusterResourceBinding"), &json!([{"name": "m2"}]))
    );
}

#[test]
fn what_the_hub_made_is_never_claimed() {
    let all = json!({
        "metadata": {"name": "all", "labels": {"clusterpropagationpolicy.karmada.io/permanent-id": "i"}},
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}, {"apiVersion": "v1", "kind": "ServiceAccount"}]},
    });
    let mut hub = Hub::with(&["m1"], vec![all]);
    let root = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt", "namespace": "shop"}});
    let plan = hub.plan(&root);
    assert_eq!(
        (plan.holder, plan.works.len(), plan.binding),
        (None, 0, BindingChange::Keep)
    );
    let own = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "own", "namespace": "shop"}, "data": {}});
    assert_eq!(hub.plan(&own).works.len(), 1);
}

#[test]
fn a_policy_waits_for_its_overrides() {
    let mut waits = policy("p", named(&["m1"]));
    waits["spec"]["dependentOverrides"] = json!(["o"]);
    let mut hub = Hub::with(&["m1"], vec![waits]);
    let plan = hub.plan(&deployment("web", 1));
    assert_eq!(
        (plan.works.len(), plan.notes[0].reason),
        (0, Reason::AwaitingOverrides)
    );
    hub.overrides =
        vec![json!({"metadata": {"name": "o", "namespace": "shop"}, "spec": {"overrideRules": []}})];
    assert_eq!(hub.plan(&deployment("web", 1)).works.len(), 1);
}

#[test]
fn a_claim_noted_on_the_template_is_not_content() {
    let mut hub = Hub::with(&["m1"], vec![policy("p", named(&["m1"]))]);
    let before = hub.plan(&deployment("web", 1));
    let mut claimed = deployment("web", 1);
    claimed["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"] = json!("id-p");
    claimed["metadata"]["annotations"] = json!({"propagationpolicy.karmada.io/name": "p"});
    let after = hub.plan(&claimed);
    assert_eq!((before.works, after.binding), (after.works, BindingChange::Keep));
}

#[test]
fn a_divided_job_divides_its_completions() {
    let mut jobs = policy("p", weighted(&[("m1", 2), ("m2", 1)]));
    jobs["spec"]["resourceSelectors"][0]["apiVersion"] = json!("batch/v1");
    jobs["spec"]["resourceSelectors"][0]["kind"] = json!("Job");
    let mut hub = Hub::with(&["m1", "m2"], vec![jobs]);
    let plan = hub.plan(&json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "shop", "uid": "u"},
        "spec": {"parallelism": 3, "completions": 12, "template": {"spec": {"containers": []}}},
    }));
    let got: Vec<(Value, Value)> = plan
        .works
        .iter()
        .map(|work| {
            (
                manifest(work)["spec"]["parallelism"].clone(),
                manifest(work)["spec"]["completions"].clone(),
            )
        })
        .collect();
    assert_eq!(got, [(json!(2), json!(8)), (json!(1), json!(4))]);
}
