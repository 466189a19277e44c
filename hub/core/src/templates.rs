//! Which stored objects are templates: what a policy may claim.
//!
//! Everything is, but the hub's own kinds, its bookkeeping and what it makes itself (design, section 5).

use std::collections::BTreeMap;

use crate::naming;

/// Groups whose objects are never templates: policies, results and settings of the hub.
const OWN_GROUPS: [&str; 9] = [
    "apps.karmada.io",
    "autoscaling.karmada.io",
    "cluster.karmada.io",
    "config.karmada.io",
    "fleet.pinnace.dev",
    "networking.karmada.io",
    "policy.karmada.io",
    "remedy.karmada.io",
    "work.karmada.io",
];

/// Whether objects of this resource can be templates at all.
pub fn resource_may_hold_templates(group: &str, plural: &str) -> bool {
    match group {
        "" => plural != "events",
        "events.k8s.io" => false,
        "coordination.k8s.io" => plural != "leases",
        _ => !OWN_GROUPS.contains(&group),
    }
}

/// Whether an object of such a resource is a template, or something the hub makes and keeps for itself.
pub fn is_template(
    group: &str,
    plural: &str,
    namespace: &str,
    name: &str,
    labels: &BTreeMap<String, String>,
) -> bool {
    if !resource_may_hold_templates(group, plural) || is_system_namespace(namespace) {
        return false;
    }
    let made_by_hub = match (group, plural) {
        ("", "serviceaccounts") => name == "default",
        ("", "configmaps") => name == "kube-root-ca.crt",
        ("", "services" | "endpoints") | ("discovery.k8s.io", "endpointslices") => {
            namespace == "default" && name == "kubernetes"
        }
        ("", "namespaces") => is_system_namespace(name),
        ("rbac.authorization.k8s.io", _) => labels
            .get("kubernetes.io/bootstrapping")
            .is_some_and(|value| value == "rbac-defaults"),
        _ => false,
    };
    !made_by_hub
}

/// Namespaces of Kubernetes and of the hub itself.
fn is_system_namespace(namespace: &str) -> bool {
    namespace.starts_with("kube-") || naming::is_reserved_namespace(namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_users_bring_is_a_template_and_what_the_hub_keeps_is_not() {
        let cases = [
            ("apps", "deployments", "prod", "web", true),
            ("", "configmaps", "prod", "settings", true),
            ("", "configmaps", "prod", "kube-root-ca.crt", false),
            ("", "serviceaccounts", "prod", "default", false),
            ("", "serviceaccounts", "prod", "runner", true),
            ("", "services", "default", "kubernetes", false),
            ("", "services", "prod", "kubernetes", true),
            ("", "namespaces", "", "prod", true),
            ("", "namespaces", "", "kube-system", false),
            ("", "namespaces", "", "karmada-es-shop-1", false),
            ("", "secrets", "kube-system", "token", false),
            ("", "events", "prod", "e", false),
            ("events.k8s.io", "events", "prod", "e", false),
            ("coordination.k8s.io", "leases", "prod", "l", false),
            ("policy.karmada.io", "propagationpolicies", "prod", "p", false),
            ("work.karmada.io", "resourcebindings", "prod", "b", false),
            ("example.io", "widgets", "prod", "w", true),
        ];
        for (group, plural, namespace, name, want) in cases {
            let got = is_template(group, plural, namespace, name, &BTreeMap::new());
            assert_eq!(got, want, "{plural}.{group} {namespace}/{name}");
        }
    }

    #[test]
    fn bootstrap_roles_stay_home_and_other_roles_travel() {
        let bootstrap = BTreeMap::from([(
            "kubernetes.io/bootstrapping".to_owned(),
            "rbac-defaults".to_owned(),
        )]);
        let group = "rbac.authorization.k8s.io";
        assert!(!is_template(
            group,
            "clusterroles",
            "",
            "cluster-admin",
            &bootstrap
        ));
        assert!(is_template(group, "clusterroles", "", "reader", &BTreeMap::new()));
    }
}
