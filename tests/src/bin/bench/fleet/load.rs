//! What the simulated clusters have, and what is applied to the hub.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use shared::wire::{ApiEnablement, Capacity, ModelCount};

/// Nodes of every simulated cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// How many.
    pub(crate) nodes: u32,
    /// CPUs of each.
    pub(crate) cpus: u32,
}

impl Shape {
    /// The report of a cluster of such nodes: sums, resource models and what the API serves, as a real agent sends it.
    pub(crate) fn capacity(self) -> Capacity {
        let amounts = |pairs: [(&str, String); 4]| -> BTreeMap<String, String> {
            pairs
                .into_iter()
                .map(|(name, amount)| (name.to_owned(), amount))
                .collect()
        };
        let Self { nodes, cpus } = self;
        Capacity {
            kubernetes_version: "v1.36.0".to_owned(),
            nodes_total: nodes,
            nodes_ready: nodes,
            allocatable: amounts([
                ("cpu", format!("{}", nodes * cpus)),
                ("memory", format!("{}Gi", nodes * cpus * 4)),
                ("pods", format!("{}", nodes * 110)),
                ("ephemeral-storage", format!("{}Gi", nodes * 100)),
            ]),
            allocated: amounts([
                ("cpu", format!("{}m", nodes * 150)),
                ("memory", format!("{}Mi", nodes * 200)),
                ("pods", format!("{}", nodes * 3)),
                ("ephemeral-storage", "0".to_owned()),
            ]),
            allocating: BTreeMap::new(),
            models: vec![ModelCount {
                grade: u32::BITS - cpus.leading_zeros() - 1,
                count: nodes,
            }],
            apis: served(),
        }
    }
}

/// Kinds of an ordinary Kubernetes.
fn served() -> Vec<ApiEnablement> {
    let groups: [(&str, &[&str]); 14] = [
        (
            "v1",
            &[
                "ConfigMap",
                "Endpoints",
                "Event",
                "LimitRange",
                "Namespace",
                "Node",
                "PersistentVolume",
                "PersistentVolumeClaim",
                "Pod",
                "PodTemplate",
                "ReplicationController",
                "ResourceQuota",
                "Secret",
                "Service",
                "ServiceAccount",
            ],
        ),
        (
            "apps/v1",
            &[
                "ControllerRevision",
                "DaemonSet",
                "Deployment",
                "ReplicaSet",
                "StatefulSet",
            ],
        ),
        ("batch/v1", &["CronJob", "Job"]),
        ("autoscaling/v2", &["HorizontalPodAutoscaler"]),
        (
            "networking.k8s.io/v1",
            &["Ingress", "IngressClass", "NetworkPolicy"],
        ),
        ("policy/v1", &["PodDisruptionBudget"]),
        (
            "rbac.authorization.k8s.io/v1",
            &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"],
        ),
        (
            "storage.k8s.io/v1",
            &["CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"],
        ),
        ("apiextensions.k8s.io/v1", &["CustomResourceDefinition"]),
        (
            "admissionregistration.k8s.io/v1",
            &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"],
        ),
        ("coordination.k8s.io/v1", &["Lease"]),
        ("discovery.k8s.io/v1", &["EndpointSlice"]),
        ("scheduling.k8s.io/v1", &["PriorityClass"]),
        ("node.k8s.io/v1", &["RuntimeClass"]),
    ];
    groups
        .into_iter()
        .map(|(group_version, kinds)| ApiEnablement {
            group_version: group_version.to_owned(),
            resources: kinds
                .iter()
                .map(|kind| ((*kind).to_owned(), format!("{}s", kind.to_lowercase())))
                .collect(),
        })
        .collect()
}

/// How replicas are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// All replicas in every cluster.
    Duplicated,
    /// Ten replicas divided by free room.
    Divided,
}

/// Where `count` Deployments go, each by its own policy of the same name.
pub(crate) fn policy(namespace: &str, name: &str, mode: Mode) -> Value {
    let scheduling = match mode {
        Mode::Duplicated => json!({"replicaSchedulingType": "Duplicated"}),
        Mode::Divided => json!({
            "replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Weighted",
            "weightPreference": {"dynamicWeight": "AvailableReplicas"},
        }),
    };
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": name}],
            "placement": {"clusterAffinity": {}, "replicaScheduling": scheduling},
        },
    })
}

/// A Deployment as people write them, about 2,800 bytes.
pub(crate) fn deployment(namespace: &str, name: &str) -> Value {
    let labels = json!({
        "app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "shop", "app.kubernetes.io/component": "web",
    });
    let probe = |path: &str, delay: u32| {
        json!({
            "httpGet": {"path": path, "port": "http", "scheme": "HTTP"},
            "initialDelaySeconds": delay, "periodSeconds": 10, "timeoutSeconds": 2, "failureThreshold": 3,
        })
    };
    let environment: Vec<Value> = (0..12)
        .map(|n| json!({"name": format!("SHOP_SETTING_{n:02}"), "value": format!("value-{n:02}-of-{name}")}))
        .collect();
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": name, "namespace": namespace, "labels": labels,
            "annotations": {"example.com/owner": "team-shop", "example.com/runbook": format!("https://runbooks.example.com/{name}")},
        },
        "spec": {
            "replicas": 10,
            "revisionHistoryLimit": 5,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}},
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "9102"}},
                "spec": {
                    "serviceAccountName": "shop",
                    "terminationGracePeriodSeconds": 45,
                    "securityContext": {"runAsNonRoot": true, "runAsUser": 10001, "fsGroup": 10001},
                    "topologySpreadConstraints": [{
                        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
                        "labelSelector": {"matchLabels": labels},
                    }],
                    "containers": [
                        {
                            "name": "web", "image": "registry.example.com/shop/web:1.27.3",
                            "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
                            "env": environment,
                            "resources": {"requests": {"cpu": "200m", "memory": "192Mi"}, "limits": {"memory": "384Mi"}},
                            "readinessProbe": probe("/ready", 3),
                            "livenessProbe": probe("/live", 15),
                            "volumeMounts": [{"name": "settings", "mountPath": "/etc/shop", "readOnly": true}],
                        },
                        {
                            "name": "metrics", "image": "registry.example.com/shop/exporter:0.9.1",
                            "args": ["--listen=:9102", "--target=http://127.0.0.1:8080/metrics"],
                            "ports": [{"name": "metrics", "containerPort": 9102}],
                            "resources": {"requests": {"cpu": "70m", "memory": "32Mi"}},
                        },
                    ],
                    "volumes": [{"name": "settings", "configMap": {"name": format!("{name}-settings")}}],
                },
            },
        },
    })
}
