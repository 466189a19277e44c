//! Plans of workloads that depend on each other, of sets of components, and of what others decide.

use serde_json::{Value, json};
use shared::reason::Reason;

use super::*;

fn grouped(kind: &str) -> Value {
    json!({"workloadAffinity": {kind: {"groupByLabelKey": "group"}},
           "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]})
}

fn member(name: &str) -> Value {
    let mut template = deployment(name, 1);
    template["metadata"]["labels"]["group"] = json!("g");
    template
}

/// Plans one template of several, keeping what a driver would keep.
fn plan_among(hub: &mut Hub, bindings: &mut Vec<Value>, template: &Value) -> TemplatePlan {
    let name = format!("{}-deployment", template["metadata"]["name"].as_str().unwrap());
    let known = bindings
        .iter()
        .position(|binding| binding["metadata"]["name"] == name);
    hub.binding = known.map(|at| bindings.remove(at));
    hub.held.clear();
    let plan = hub.plan(template);
    bindings.extend(hub.binding.take());
    plan
}

#[test]
fn workloads_that_belong_apart_never_share_a_cluster() {
    let mut hub = Hub::with(&["a", "b"], vec![policy("p", grouped("antiAffinity"))]);
    let mut bindings = Vec::new();
    let first = plan_among(&mut hub, &mut bindings, &member("one"));
    let second = plan_among(&mut hub, &mut bindings, &member("two"));
    assert_ne!(clusters_of(&first), clusters_of(&second));
    assert!(first.moves_peers && !first.waits_for_peers);
    let third = plan_among(&mut hub, &mut bindings, &member("three"));
    assert_eq!(clusters_of(&third), Vec::<String>::new());
    assert!(
        third.waits_for_peers,
        "it is tried again when one of the others moves"
    );
    assert_eq!(third.scheduled.unwrap().reason, "NoClusterFit");
    assert_eq!(
        bindings[0]["spec"]["workloadAffinityGroups"],
        json!({"antiAffinityGroup": "group=g"})
    );
    // planning one again moves nothing
    assert_eq!(
        plan_among(&mut hub, &mut bindings, &member("one")).binding,
        BindingChange::Keep
    );
}

#[test]
fn workloads_that_belong_together_follow_the_first() {
    let mut hub = Hub::with(&["a", "b"], vec![policy("p", grouped("affinity"))]);
    let mut bindings = Vec::new();
    let mut first = member("one");
    first["metadata"]["labels"]["group"] = json!("other");
    plan_among(&mut hub, &mut bindings, &first);
    hub.policies = vec![policy("p", {
        let mut placement = grouped("affinity");
        placement["clusterAffinity"] = json!({"clusterNames": ["b"]});
        placement
    })];
    assert_eq!(
        clusters_of(&plan_among(&mut hub, &mut bindings, &member("two"))),
        ["b"]
    );
    hub.policies = vec![policy("p", grouped("affinity"))];
    assert_eq!(
        clusters_of(&plan_among(&mut hub, &mut bindings, &member("three"))),
        ["b"]
    );
}

#[test]
fn another_scheduler_decides_and_the_hub_keeps_it() {
    let mut theirs = policy("p", named(&["a", "b"]));
    theirs["spec"]["schedulerName"] = json!("their-scheduler");
    let mut hub = Hub::with(&["a", "b"], vec![theirs]);
    let plan = hub.plan(&deployment("web", 2));
    assert_eq!(clusters_of(&plan), Vec::<String>::new());
    assert!(
        plan.notes
            .iter()
            .any(|note| note.reason == Reason::AwaitingScheduler)
    );
    let binding = hub.binding.as_mut().unwrap();
    assert_eq!(binding["spec"]["schedulerName"], "their-scheduler");
    binding["spec"]["clusters"] = json!([{"name": "b", "replicas": 2}]);
    let plan = hub.plan(&deployment("web", 2));
    assert_eq!(
        (clusters_of(&plan), plan.binding),
        (vec!["b".to_owned()], BindingChange::Keep)
    );
}

#[test]
fn the_priority_of_a_class_is_noted_on_the_binding() {
    let mut urgent = policy("p", named(&["a"]));
    urgent["spec"]["schedulePriority"] =
        json!({"priorityClassSource": "KubePriorityClass", "priorityClassName": "urgent"});
    let mut hub = Hub::with(&["a"], vec![urgent]);
    let plan = hub.plan(&deployment("web", 1));
    assert_eq!(plan.priority, 0);
    assert!(
        plan.notes
            .iter()
            .any(|note| note.reason == Reason::AwaitingPriorityClass)
    );
    hub.classes = vec![json!({"metadata": {"name": "urgent"}, "value": 1000})];
    assert_eq!(hub.plan(&deployment("web", 1)).priority, 1000);
    assert_eq!(
        hub.binding.unwrap()["spec"]["schedulePriority"],
        json!({"priority": 1000})
    );
}

#[test]
fn a_job_of_several_kinds_of_pods_goes_whole_to_one_cluster() {
    let roomy = |name: &str, cpu: &str| {
        json!({"metadata": {"name": name},
               "status": {"resourceSummary": {"allocatable": {"cpu": cpu, "pods": "50"}}}})
    };
    let pods =
        |cpu: &str| json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}});
    let job = json!({
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
        "metadata": {"name": "train", "namespace": "shop", "uid": "u", "generation": 1, "resourceVersion": "1"},
        "spec": {"tasks": [{"name": "master", "replicas": 1, "minAvailable": 1, "template": pods("1")},
                           {"name": "worker", "replicas": 3, "minAvailable": 3, "template": pods("2")}]},
    });
    let mut placement = json!({"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
        "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}});
    let mut of_jobs = policy("p", placement.take());
    of_jobs["spec"]["resourceSelectors"] =
        json!([{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}]);
    let mut hub = Hub {
        policies: vec![of_jobs],
        ..Hub::default()
    };
    hub.clusters = vec![roomy("a", "6"), roomy("b", "8")];
    let plan = hub.plan(&job);
    assert_eq!(
        clusters_of(&plan),
        ["b"],
        "a has room for most of it, which is not enough"
    );
    assert_eq!(
        hub.binding.as_ref().unwrap()["spec"]["clusters"],
        json!([{"name": "b", "components": [{"name": "master", "replicas": 1}, {"name": "worker", "replicas": 3}]}])
    );
    hub.binding = None;
    hub.clusters = vec![roomy("a", "6")];
    let plan = hub.plan(&job);
    assert_eq!((clusters_of(&plan).len(), plan.waits_for.len()), (0, 1));
}

#[test]
fn the_old_copy_stays_while_it_is_moved_away_gracefully() {
    let mut hub = Hub::with(&["a", "b"], vec![policy("p", weighted(&[("a", 1), ("b", 1)]))]);
    hub.plan(&deployment("web", 2));
    let binding = hub.binding.as_mut().unwrap();
    binding["spec"]["clusters"] = json!([{"name": "b", "replicas": 1}]);
    binding["spec"]["gracefulEvictionTasks"] =
        json!([{"fromCluster": "a", "purgeMode": "Gracefully", "reason": "r", "producer": "p"}]);
    let plan = hub.plan(&deployment("web", 2));
    assert_eq!(
        hub.binding.as_ref().unwrap()["spec"]["clusters"],
        json!([{"name": "b", "replicas": 2}])
    );
    assert_eq!(plan.withdraw.len(), 0, "a keeps its copy until the task ends");
    hub.binding.as_mut().unwrap()["spec"]["gracefulEvictionTasks"] = json!([]);
    assert_eq!(hub.plan(&deployment("web", 2)).withdraw[0].cluster.as_str(), "a");
}
