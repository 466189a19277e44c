//! `pinnace-agent rbac`: the least RBAC under which the agent can do what the site's guard allows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use agent_core::guard::{Guard, OWN_NAMESPACE, Rule, Verb};
use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::member::connect::connect;
use crate::member::dates::Confirmed;
use crate::member::kinds;

/// A kind as RBAC sees it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Served {
    /// API group; empty for the core group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Plural name.
    pub plural: String,
    /// Objects live in namespaces.
    pub namespaced: bool,
}

/// Built-in kinds that people propagate: group, kind, plural, namespaced. Events, Nodes and what the control plane
/// makes for itself are not among them.
const BUILT_IN: [(&str, &str, &str, bool); 36] = [
    ("", "ConfigMap", "configmaps", true),
    ("", "Endpoints", "endpoints", true),
    ("", "LimitRange", "limitranges", true),
    ("", "Namespace", "namespaces", false),
    ("", "PersistentVolume", "persistentvolumes", false),
    ("", "PersistentVolumeClaim", "persistentvolumeclaims", true),
    ("", "Pod", "pods", true),
    ("", "PodTemplate", "podtemplates", true),
    ("", "ReplicationController", "replicationcontrollers", true),
    ("", "ResourceQuota", "resourcequotas", true),
    ("", "Secret", "secrets", true),
    ("", "Service", "services", true),
    ("", "ServiceAccount", "serviceaccounts", true),
    (
        "admissionregistration.k8s.io",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        false,
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        false,
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        false,
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        false,
    ),
    (
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        false,
    ),
    ("apiregistration.k8s.io", "APIService", "apiservices", false),
    ("apps", "DaemonSet", "daemonsets", true),
    ("apps", "Deployment", "deployments", true),
    ("apps", "ReplicaSet", "replicasets", true),
    ("apps", "StatefulSet", "statefulsets", true),
    (
        "autoscaling",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        true,
    ),
    ("batch", "CronJob", "cronjobs", true),
    ("batch", "Job", "jobs", true),
    ("discovery.k8s.io", "EndpointSlice", "endpointslices", true),
    ("networking.k8s.io", "Ingress", "ingresses", true),
    ("networking.k8s.io", "IngressClass", "ingressclasses", false),
    ("networking.k8s.io", "NetworkPolicy", "networkpolicies", true),
    ("policy", "PodDisruptionBudget", "poddisruptionbudgets", true),
    ("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", false),
    (
        "rbac.authorization.k8s.io",
        "ClusterRoleBinding",
        "clusterrolebindings",
        false,
    ),
    ("rbac.authorization.k8s.io", "Role", "roles", true),
    ("rbac.authorization.k8s.io", "RoleBinding", "rolebindings", true),
    ("scheduling.k8s.io", "PriorityClass", "priorityclasses", false),
];

/// The built-in kinds that people propagate.
#[must_use]
pub fn built_in() -> Vec<Served> {
    BUILT_IN
        .iter()
        .map(|(group, kind, plural, namespaced)| Served {
            group: (*group).to_owned(),
            kind: (*kind).to_owned(),
            plural: (*plural).to_owned(),
            namespaced: *namespaced,
        })
        .collect()
}

/// The custom kinds that a member serves: those of groups with a dot that Kubernetes itself does not own.
///
/// # Errors
/// When the member cannot be asked.
pub async fn custom(kubeconfig: &Path) -> Result<Vec<Served>> {
    let api = connect(Some(kubeconfig), &Confirmed::default()).await?;
    let all = kinds::all(&api)
        .await
        .context("the kinds that the member serves")?;
    Ok(all
        .into_iter()
        .filter(|r| r.group().contains('.') && !r.group().ends_with(".k8s.io"))
        .map(|r| Served {
            group: r.group().to_owned(),
            kind: r.kind,
            plural: r.plural,
            namespaced: r.namespaced,
        })
        .collect())
}

/// All kinds of a group that is not served yet.
#[must_use]
pub fn whole_group(group: &str) -> Served {
    Served {
        group: group.to_owned(),
        kind: "*".to_owned(),
        plural: "*".to_owned(),
        namespaced: true,
    }
}

/// Whom the rights are given to, and whether the agent keeps its state in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grantee {
    /// Namespace of the ServiceAccount, and of anchor, mirror, lease and guard.
    pub namespace: String,
    /// Name of the ServiceAccount, of the cluster roles and of the lease.
    pub name: String,
    /// Name of the guard's ConfigMap.
    pub guard: String,
}

impl Default for Grantee {
    fn default() -> Self {
        Self {
            namespace: OWN_NAMESPACE.to_owned(),
            name: "pinnace-agent".to_owned(),
            guard: "pinnace-guard".to_owned(),
        }
    }
}

/// Verbs by group and plural name.
type Rights = BTreeMap<(String, String), BTreeSet<&'static str>>;

/// The objects, ready to apply, in order.
#[must_use]
pub fn objects(guard: &Guard, kinds: &[Served], to: &Grantee) -> Vec<Value> {
    let mut everywhere = Rights::new();
    let mut inside: BTreeMap<&str, Rights> = BTreeMap::new();
    for rule in &guard.allow {
        for kind in kinds.iter().filter(|k| covers(rule, k)) {
            let at = (kind.group.clone(), kind.plural.clone());
            // Watches and lists go over the whole cluster, by label.
            let reads = everywhere.entry(at.clone()).or_default();
            reads.extend(["get", "list", "watch"]);
            let writes = writes(&rule.verbs);
            match named_namespaces(rule, kind) {
                Some(names) => {
                    for name in names {
                        let rights = inside.entry(name).or_default();
                        rights.entry(at.clone()).or_default().extend(writes.iter());
                    }
                }
                None => reads.extend(writes.iter()),
            }
        }
    }
    // What capacity, identity and the watch for autoscalers need, whatever the guard says.
    for (group, plural, verbs) in [
        ("", "nodes", &["get", "list"][..]),
        ("", "pods", &["get", "list"]),
        ("autoscaling", "horizontalpodautoscalers", &["get", "list"]),
    ] {
        let rights = everywhere
            .entry((group.to_owned(), plural.to_owned()))
            .or_default();
        rights.extend(verbs.iter());
    }
    let mut rules = rules(&everywhere);
    rules.push(
        json!({"apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["kube-system"],
        "verbs": ["get"]}),
    );
    // Before a namespace is deleted, all that lives in it is looked at, of whatever kind: nothing foreign may be missed.
    let deletes = |r: &Rule| r.verbs.is_empty() || r.verbs.contains(&Verb::Delete);
    if guard
        .allow
        .iter()
        .any(|r| deletes(r) && r.namespaces.is_empty() && r.covers_kind("", "Namespace"))
    {
        rules.push(json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["list"]}));
    }
    let mut all = vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": to.namespace}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": to.name, "namespace": to.namespace}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": to.name}, "rules": rules}),
        binding("ClusterRoleBinding", "ClusterRole", "", to),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": to.name, "namespace": to.namespace}, "rules": own_rules(to)}),
        binding("RoleBinding", "Role", &to.namespace, to),
    ];
    for (namespace, rights) in &inside {
        all.push(
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": to.name, "namespace": namespace}, "rules": self::rules(rights)}),
        );
        all.push(binding("RoleBinding", "Role", namespace, to));
    }
    all
}

/// The objects as one file for `kubectl apply -f -`.
#[must_use]
pub fn printed(objects: &[Value]) -> String {
    objects.iter().map(|o| format!("---\n{o:#}\n")).collect()
}

/// Anchor and mirror are Secrets whose names begin alike, which RBAC cannot say: all Secrets of the agent's own
/// namespace, which holds nothing else.
fn own_rules(to: &Grantee) -> Value {
    json!([
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "create", "update", "delete"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": [to.name],
            "verbs": ["get", "update"]},
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [to.guard], "verbs": ["get"]},
    ])
}

fn binding(kind: &str, role: &str, namespace: &str, to: &Grantee) -> Value {
    let mut object = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
        "metadata": {"name": to.name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": to.name},
        "subjects": [{"kind": "ServiceAccount", "name": to.name, "namespace": to.namespace}]});
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}

fn writes(verbs: &[Verb]) -> Vec<&'static str> {
    let mut writes = Vec::new();
    if verbs.is_empty() || verbs.contains(&Verb::Apply) {
        writes.extend(["create", "patch"]);
    }
    if verbs.is_empty() || verbs.contains(&Verb::Delete) {
        writes.push("delete");
    }
    writes
}

/// The guard's own test of kinds, asked with an object of the kind.
fn covers(rule: &Rule, kind: &Served) -> bool {
    rule.covers_kind(&kind.group, &kind.kind) && kind.namespaced != rule.namespaces.is_empty()
}

/// The namespaces of a rule, if it names them one by one; none when it has patterns, or is about cluster scope.
fn named_namespaces<'a>(rule: &'a Rule, kind: &Served) -> Option<&'a [String]> {
    (kind.namespaced && rule.namespaces.iter().all(|n| !n.contains('*')))
        .then_some(rule.namespaces.as_slice())
}

/// Rights as RBAC rules: kinds of one group with the same verbs share one.
fn rules(rights: &Rights) -> Vec<Value> {
    let mut grouped: BTreeMap<(&str, Vec<&str>), Vec<&str>> = BTreeMap::new();
    for ((group, plural), verbs) in rights {
        let verbs = verbs.iter().copied().collect();
        grouped.entry((group, verbs)).or_default().push(plural);
    }
    grouped
        .into_iter()
        .map(|((group, verbs), plurals)| json!({"apiGroups": [group], "resources": plurals, "verbs": verbs}))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rights_of(objects: &[Value], kind: &str, namespace: &str) -> String {
        let found = objects.iter().find(|o| {
            o["kind"] == kind && o["metadata"]["namespace"].as_str().unwrap_or_default() == namespace
        });
        found.map(|o| o["rules"].to_string()).unwrap_or_default()
    }

    /// `pinnace token create --manifest` prints the shipped file; regenerate it with
    /// `pinnace-agent rbac > packaging/manifests/rbac.yaml`.
    #[test]
    fn the_shipped_file_is_what_the_default_guard_needs() {
        let all = objects(&Guard::default(), &built_in(), &Grantee::default());
        assert_eq!(include_str!("../../packaging/manifests/rbac.yaml"), printed(&all));
    }

    #[test]
    fn the_default_is_far_from_cluster_admin() {
        let all = objects(&Guard::default(), &built_in(), &Grantee::default());
        let look = r#"{"apiGroups":["*"],"resources":["*"],"verbs":["list"]}"#;
        let cluster = rights_of(&all, "ClusterRole", "");
        assert!(
            cluster.contains(look),
            "a namespace's content cannot be looked at: {cluster}"
        );
        let cluster = cluster.replace(look, "");
        assert!(!cluster.contains('*'), "{cluster}");
        for absent in [
            "clusterroles",
            "rolebindings",
            "persistentvolumes\"",
            "webhookconfigurations",
            "escalate",
            "bind",
        ] {
            assert!(!cluster.contains(absent), "{absent}: {cluster}");
        }
        for present in [
            "deployments",
            "customresourcedefinitions",
            "namespaces",
            "kube-system",
        ] {
            assert!(cluster.contains(present), "{present}: {cluster}");
        }
        let own = rights_of(&all, "Role", "pinnace-agent");
        assert!(own.contains("leases") && own.contains("pinnace-guard"), "{own}");
    }

    #[test]
    fn a_rule_with_named_namespaces_gives_rights_there_only() {
        let rule = Rule {
            kinds: vec!["ConfigMap".into()],
            namespaces: vec!["shop".into()],
            except_namespaces: vec![],
            names: vec![],
            verbs: vec![Verb::Apply],
        };
        let mut guard = Guard::default();
        guard.allow = vec![rule];
        let all = objects(&guard, &built_in(), &Grantee::default());
        let (cluster, shop) = (
            rights_of(&all, "ClusterRole", ""),
            rights_of(&all, "Role", "shop"),
        );
        assert_eq!(
            shop,
            json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "patch"]}])
                .to_string()
        );
        assert!(
            cluster.contains("configmaps") && !cluster.contains("patch"),
            "{cluster}"
        );
    }
}
