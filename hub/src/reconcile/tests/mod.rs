//! A hub in a directory, and what users and agents do to it; the cases are in their own file.

mod cases;
mod customizations;
mod facts;
mod failover;
mod held;
mod policies;
mod promises;
mod reports;
mod revoked;

use std::collections::BTreeMap;
use std::sync::Arc;

use interpreter::{Customized, Native};
use serde_json::{Value, json};
use shared::ids::{BootId, ClusterName, Digest, Incarnation, ObjectKey, PublicKey, ReportSeq, Session};
use shared::reason::Reason;
use shared::time::UnixSeconds;
use shared::wire::{ApplyState, Health, ObjectReport, Report};

use super::dirty::Marked;
use super::liveness::LastLook;
use super::plan::Planner;
use super::*;
use crate::store::fleet::{EnrolRequest, Target, Terms, Token};
use crate::store::{Expect, Op};

const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

fn rules() -> Arc<Customized> {
    Arc::new(Customized::new(Native::default(), Arc::new(|| NOW)))
}

fn name(cluster: &str) -> ClusterName {
    ClusterName::new(cluster).unwrap()
}

/// A store, its reconcilers, and what a user and agents do to them.
struct Hub {
    _dir: tempfile::TempDir,
    store: Store,
    reconciler: Reconciler,
    planner: Planner,
    look: LastLook,
    reports: BTreeMap<String, u64>,
}

impl Hub {
    async fn with(clusters: &[&str]) -> Hub {
        let dir = tempfile::tempdir().unwrap();
        Store::create(dir.path()).unwrap();
        let store = Store::open(dir.path(), NOW).unwrap();
        let presence = Arc::new(Presence::new(clock::monotonic(), Thresholds::default()));
        // Everything in these tests is a moment old.
        let settings = Settings {
            mass_delete_age: Duration::ZERO,
            ..Settings::default()
        };
        let reconciler = Reconciler::new(store.clone(), rules(), presence, settings);
        let mut hub = Hub {
            _dir: dir,
            store,
            reconciler,
            planner: Planner::default(),
            look: LastLook::default(),
            reports: BTreeMap::new(),
        };
        for cluster in clusters {
            hub.join(cluster).await;
        }
        hub
    }

    /// Enrols a cluster, begins a session, and makes its Cluster object.
    async fn join(&mut self, cluster: &str) {
        let seed = Digest::of(cluster.as_bytes());
        let token = Token {
            digest: seed,
            cluster: name(cluster),
            expires: NOW.plus(60),
            terms: Terms {
                labels: BTreeMap::from([("site".to_owned(), cluster.to_owned())]),
                ..Terms::default()
            },
            used_by: None,
        };
        self.store.create_token(token, NOW).await.unwrap();
        let request = EnrolRequest {
            token: seed,
            cluster: name(cluster),
            identity: PublicKey(seed.0),
            kube_system_uid: format!("uid-{cluster}"),
            incarnation: Incarnation([seed.0[0]; 16]),
            now: NOW,
        };
        self.store.enrol(request).await.unwrap().unwrap();
        self.store
            .begin_session(&name(cluster), BootId([1; 16]), Session(1), NOW)
            .await
            .unwrap();
        self.reconciler.presence.heard(&name(cluster), clock::monotonic());
        self.reconciler.clusters.mark([()]);
        self.reconciler.liveness_turn(&mut self.look).await.unwrap();
    }

    async fn put(&self, resource: &ResourceId, object: Value) -> Arc<crate::store::Object> {
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        let op = Op::Put {
            resource: resource.clone(),
            namespace,
            name,
            expect: Expect::Any,
            object,
        };
        self.store.commit(vec![op]).await.unwrap().remove(0)
    }

    async fn delete(&self, resource: &ResourceId, namespace: &str, name: &str) {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        let op = Op::Delete {
            resource: resource.clone(),
            namespace,
            name,
            expect: Expect::Any,
        };
        self.store.commit(vec![op]).await.unwrap();
    }

    /// A full pass of planning.
    async fn plan(&mut self) {
        self.reconciler.world_changed.store(true, Ordering::SeqCst);
        let everything = Marked {
            all: true,
            keys: Default::default(),
        };
        let failed = self.reconciler.plan_pass(&mut self.planner, everything).await;
        assert_eq!(failed, [], "every plan is carried out");
    }

    /// A pass of one template.
    async fn plan_only(&mut self, resource: &ResourceId, namespace: &str, name: &str) -> Vec<TemplateKey> {
        let key = TemplateKey {
            resource: resource.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        self.reconciler
            .plan_pass(
                &mut self.planner,
                Marked {
                    all: false,
                    keys: [key].into(),
                },
            )
            .await
    }

    async fn aggregate(&self) {
        let everything = Marked {
            all: true,
            keys: Default::default(),
        };
        assert_eq!(self.reconciler.status_pass(everything).await, []);
    }

    fn targets(&self, binding: &str) -> Vec<Target> {
        self.store
            .targets_of(&BindingRef {
                namespace: "shop".to_owned(),
                name: binding.to_owned(),
            })
            .unwrap()
    }

    fn places(&self, binding: &str) -> Vec<String> {
        self.targets(binding)
            .iter()
            .map(|target| target.cluster.to_string())
            .collect()
    }

    fn content(&self, binding: &str, cluster: &str) -> Value {
        let targets = self.targets(binding);
        let target = targets
            .iter()
            .find(|target| target.cluster.as_str() == cluster)
            .unwrap();
        serde_json::from_slice(&self.store.content(&target.entry.digest).unwrap().unwrap()).unwrap()
    }

    /// The agent of a cluster says what its copy is.
    async fn report(&mut self, binding: &str, cluster: &str, status: Option<Value>) {
        let targets = self.targets(binding);
        let target = targets
            .iter()
            .find(|target| target.cluster.as_str() == cluster)
            .unwrap();
        let number = self.reports.entry(cluster.to_owned()).or_default();
        *number += 1;
        let object = ObjectReport {
            key: target.entry.key.clone(),
            digest: target.entry.digest,
            template_generation: target.entry.template_generation,
            applied: ApplyState::Applied,
            health: Health::Healthy,
            reason: Reason::Applied.into(),
            message: String::new(),
            uid: "member-uid".to_owned(),
            status: status.map_or_else(Vec::new, |status| status.to_string().into_bytes()),
            age_ms: 0,
            age_is_lower_bound: false,
        };
        let report = Report {
            report_seq: ReportSeq(*number),
            boot: BootId([1; 16]),
            objects: vec![object],
            tombstones_done: vec![],
            strays: None,
            capacity: None,
            full: false,
        };
        self.store
            .ingest_report(&name(cluster), Session(1), report, NOW)
            .await
            .unwrap();
    }
}

fn deployments() -> ResourceId {
    ResourceId::new("apps", "deployments")
}

fn policies() -> ResourceId {
    ResourceId::new("policy.karmada.io", "propagationpolicies")
}

fn bindings() -> ResourceId {
    ResourceId::new("work.karmada.io", "resourcebindings")
}

fn deployment(generation: i64, replicas: i64, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "uid": "uid-web", "generation": generation},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "web", "image": image}]}}},
    })
}

fn policy(clusters: &[(&str, i64)]) -> Value {
    let names: Vec<&str> = clusters.iter().map(|(cluster, _)| *cluster).collect();
    let weights: Vec<Value> = clusters
        .iter()
        .map(|(cluster, weight)| json!({"targetCluster": {"clusterNames": [cluster]}, "weight": weight}))
        .collect();
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "web", "namespace": "shop", "uid": "uid-policy",
                     "labels": {"propagationpolicy.karmada.io/permanent-id": "id-web"}},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}],
            "placement": {
                "clusterAffinity": {"clusterNames": names},
                "replicaScheduling": {
                    "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                    "weightPreference": {"staticWeightList": weights},
                },
            },
        },
    })
}

fn member_status(template_generation: i64, replicas: i64) -> Value {
    json!({"replicas": replicas, "readyReplicas": replicas, "updatedReplicas": replicas,
           "availableReplicas": replicas, "generation": 2, "observedGeneration": 2,
           "resourceTemplateGeneration": template_generation})
}

async fn two_to_one() -> Hub {
    let mut hub = Hub::with(&["a", "b", "c"]).await;
    hub.put(&policies(), policy(&[("a", 2), ("b", 1)])).await;
    hub.put(&deployments(), deployment(1, 3, "web:1")).await;
    hub.plan().await;
    hub
}

/// Waits for a state: it is looked at again whenever something was stored.
async fn until(store: &Store, holds: impl Fn() -> bool) {
    let mut arrivals = store.arrivals();
    let waited = tokio::time::timeout(Duration::from_secs(60), async {
        while !holds() {
            arrivals.changed().await.expect("the store is open");
        }
    });
    waited.await.expect("the state is reached");
}
