//! What clusters are and have changes all the time. Planning what a change concerns gives the same as planning everything.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use shared::wire::{ApiEnablement, Capacity};

use super::*;
use crate::store::Cursor;
use crate::store::fleet::ReadyFact;

const CLUSTERS: [&str; 3] = ["a", "b", "c"];
const TEMPLATES: [&str; 3] = ["everywhere", "by-room", "few"];

/// One change of a cluster, by its number, or of a template.
#[derive(Debug, Clone, Copy)]
enum Step {
    Label(usize, bool),
    Taint(usize, bool),
    Serves(usize, bool),
    Room(usize, u8),
    Ready(usize, bool),
    Replicas(usize, i64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..3_usize, any::<bool>()).prop_map(|(cluster, yes)| Step::Label(cluster, yes)),
        (0..3_usize, any::<bool>()).prop_map(|(cluster, yes)| Step::Taint(cluster, yes)),
        (0..3_usize, any::<bool>()).prop_map(|(cluster, yes)| Step::Serves(cluster, yes)),
        (0..3_usize, 0..9_u8).prop_map(|(cluster, cpus)| Step::Room(cluster, cpus)),
        (0..3_usize, any::<bool>()).prop_map(|(cluster, yes)| Step::Ready(cluster, yes)),
        (0..3_usize, 0..7_i64).prop_map(|(template, replicas)| Step::Replicas(template, replicas)),
    ];
    prop::collection::vec(step, 1..10)
}

fn clusters() -> ResourceId {
    ResourceId::new("cluster.karmada.io", "clusters")
}

pub(super) fn template(name: &str, generation: i64, replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"), "generation": generation},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [
            {"name": "web", "image": "web:1", "resources": {"requests": {"cpu": "1"}}}]}}},
    })
}

pub(super) fn policy_of(name: &str) -> Value {
    let placement = match name {
        "everywhere" => json!({"clusterAffinity": {"labelSelector": {"matchLabels": {"tier": "gold"}}}}),
        "by-room" => json!({"replicaScheduling": {"replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Weighted", "weightPreference": {"dynamicWeight": "AvailableReplicas"}}}),
        _ => json!({"replicaScheduling": {"replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Aggregated"}, "spreadConstraints": [
            {"spreadByField": "cluster", "minGroups": 1, "maxGroups": 2}]}),
    };
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-of-{name}"),
                     "labels": {"propagationpolicy.karmada.io/permanent-id": format!("id-{name}")}},
        "spec": {"placement": placement, "resourceSelectors": [
            {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}]},
    })
}

/// What a cluster says it has and serves.
pub(super) fn capacity(cpus: u8, serves: bool) -> Capacity {
    let amounts = |cpu: String, pods: &str| -> BTreeMap<String, String> {
        [("cpu".to_owned(), cpu), ("pods".to_owned(), pods.to_owned())].into()
    };
    let kinds = |group: &str, kind: &str| ApiEnablement {
        group_version: group.to_owned(),
        resources: vec![(kind.to_owned(), format!("{}s", kind.to_lowercase()))],
    };
    let mut apis = vec![kinds("v1", "ConfigMap")];
    if serves {
        apis.push(kinds("apps/v1", "Deployment"));
    }
    Capacity {
        kubernetes_version: "v1.36.0".to_owned(),
        nodes_total: 1,
        nodes_ready: 1,
        allocatable: amounts(cpus.to_string(), "110"),
        allocated: amounts("0".to_owned(), "0"),
        allocating: BTreeMap::new(),
        models: Vec::new(),
        apis,
    }
}

/// A hub whose reconcilers see changes as the running ones do.
struct Watched {
    hub: Hub,
    cursor: Cursor,
    said: [(u8, bool); 3],
    generation: i64,
}

impl Watched {
    async fn start() -> Self {
        let mut hub = Hub::with(&CLUSTERS).await;
        hub.plan().await;
        let cursor = hub.store.watch(None, hub.store.revision()).unwrap();
        let watched = Self {
            hub,
            cursor,
            said: [(4, true); 3],
            generation: 1,
        };
        for cluster in 0..CLUSTERS.len() {
            watched.say(cluster).await;
        }
        for name in TEMPLATES {
            watched.hub.put(&policies(), policy_of(name)).await;
            watched.hub.put(&deployments(), template(name, 1, 3)).await;
        }
        watched
    }

    async fn say(&self, cluster: usize) {
        let (cpus, serves) = self.said[cluster];
        let told = move |facts: &mut crate::store::fleet::ClusterFacts| {
            facts.capacity = Some(capacity(cpus, serves));
        };
        let cluster = name(CLUSTERS[cluster]);
        self.hub.store.update_facts(&cluster, None, told).await.unwrap();
    }

    async fn edit(&mut self, cluster: usize, edit: impl FnOnce(&mut Value)) {
        let stored = self.hub.store.get(&clusters(), "", CLUSTERS[cluster]).unwrap();
        let mut object = stored.value();
        edit(&mut object);
        self.hub.put(&clusters(), object).await;
    }

    async fn take(&mut self, step: Step) {
        self.generation += 1;
        let generation = self.generation;
        match step {
            Step::Label(cluster, gold) => {
                let tier = if gold { "gold" } else { "silver" };
                self.edit(cluster, |object| {
                    object["metadata"]["labels"]["tier"] = json!(tier)
                })
                .await;
            }
            Step::Taint(cluster, tainted) => {
                let taint = json!({"key": "maintenance", "value": "yes", "effect": "NoSchedule"});
                self.edit(cluster, |object| {
                    object["spec"]["taints"] = if tainted { json!([taint]) } else { json!([]) };
                    object["metadata"]["generation"] = json!(generation);
                })
                .await;
            }
            Step::Serves(cluster, serves) => {
                self.said[cluster].1 = serves;
                self.say(cluster).await;
            }
            Step::Room(cluster, cpus) => {
                self.said[cluster].0 = cpus;
                self.say(cluster).await;
            }
            Step::Ready(cluster, ready) => {
                let told = move |facts: &mut crate::store::fleet::ClusterFacts| {
                    facts.ready = Some(ReadyFact {
                        status: if ready { "True" } else { "Unknown" }.to_owned(),
                        reason: "ClusterReady".to_owned(),
                        message: String::new(),
                        since: NOW,
                    });
                };
                let cluster = name(CLUSTERS[cluster]);
                self.hub.store.update_facts(&cluster, None, told).await.unwrap();
            }
            Step::Replicas(at, replicas) => {
                let edited = template(TEMPLATES[at], generation, replicas);
                self.hub.put(&deployments(), edited).await;
            }
        }
    }

    /// Plans what the changes since the last time concern, until nothing is marked.
    async fn settle(&mut self) {
        for _ in 0..20 {
            let mut marks = Vec::new();
            while let Some(event) = self.cursor.try_next().unwrap() {
                self.hub.reconciler.collect(&event, &mut marks);
            }
            self.hub.reconciler.templates.mark(marks);
            self.hub.reconciler.clusters.mark([()]);
            self.hub
                .reconciler
                .liveness_turn(&mut self.hub.look)
                .await
                .unwrap();
            let marked = self.hub.reconciler.templates.take();
            if marked.is_empty() {
                return;
            }
            let failed = self.hub.reconciler.plan_pass(&mut self.hub.planner, marked).await;
            assert_eq!(failed, [], "every plan is carried out");
        }
        panic!("planning does not settle");
    }

    /// What was decided, and what every cluster holds.
    fn decided(&self) -> Vec<(Value, Value, Vec<(String, Digest)>)> {
        let binding = |name: &&str| {
            let binding = format!("{name}-deployment");
            let stored = self.hub.store.get(&bindings(), "shop", &binding);
            let value = stored.map(|stored| stored.value()).unwrap_or_default();
            let held = self.hub.targets(&binding);
            let held = held
                .iter()
                .map(|target| (target.cluster.to_string(), target.entry.digest));
            (
                value["spec"].clone(),
                value["status"]["conditions"][0]["reason"].clone(),
                held.collect(),
            )
        };
        TEMPLATES.iter().map(binding).collect()
    }
}

/// Turns red when a change of a cluster's labels, taints, kinds or room does not mark a template that it concerns.
#[test]
fn planning_what_a_change_of_a_cluster_concerns_is_planning_everything() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let config = Config {
        cases: 16,
        failure_persistence: None,
        ..Config::default()
    };
    let run = TestRunner::new(config).run(&steps(), |steps| {
        runtime.block_on(async {
            let mut watched = Watched::start().await;
            watched.settle().await;
            for step in steps {
                watched.take(step).await;
                watched.settle().await;
                let decided = watched.decided();
                // A hub that starts now: nothing is known but what is stored.
                watched.hub.planner = Planner::default();
                watched.hub.plan().await;
                prop_assert_eq!(decided, watched.decided(), "after {:?}", step);
            }
            Ok(())
        })
    });
    run.unwrap();
}
