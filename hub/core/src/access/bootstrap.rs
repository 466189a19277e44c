//! The roles and bindings that every cluster has, and how stored ones follow a newer release: what is missing is added,
//! what people added stays, and the annotation `autoupdate: "false"` keeps an object as it is (source: the RBAC
//! bootstrap policy and its reconciliation in the Kubernetes API server).

use super::{AUTHENTICATED, MASTERS, RBAC_GROUP, Rule, SERVICE_ACCOUNTS};
use serde_json::{Map, Value, json};

/// Annotation that lets the hub bring an object up to date.
const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";
/// Label of everything made here.
const LABEL: (&str, &str) = ("kubernetes.io/bootstrapping", "rbac-defaults");

const READ: [&str; 3] = ["get", "list", "watch"];
const WRITE: [&str; 5] = ["create", "delete", "deletecollection", "patch", "update"];
const EVERYTHING: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// Resources that `view` reads, by group.
const VIEWED: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "bindings",
            "configmaps",
            "endpoints",
            "events",
            "limitranges",
            "namespaces",
            "namespaces/status",
            "persistentvolumeclaims",
            "persistentvolumeclaims/status",
            "pods",
            "pods/log",
            "pods/status",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "replicationcontrollers/status",
            "resourcequotas",
            "resourcequotas/status",
            "serviceaccounts",
            "services",
            "services/status",
        ],
    ),
    ("discovery.k8s.io", &["endpointslices"]),
    (
        "apps",
        &[
            "controllerrevisions",
            "daemonsets",
            "daemonsets/status",
            "deployments",
            "deployments/scale",
            "deployments/status",
            "replicasets",
            "replicasets/scale",
            "replicasets/status",
            "statefulsets",
            "statefulsets/scale",
            "statefulsets/status",
        ],
    ),
    (
        "autoscaling",
        &["horizontalpodautoscalers", "horizontalpodautoscalers/status"],
    ),
    ("batch", &["cronjobs", "cronjobs/status", "jobs", "jobs/status"]),
    ("policy", &["poddisruptionbudgets", "poddisruptionbudgets/status"]),
    (
        "networking.k8s.io",
        &["ingresses", "ingresses/status", "networkpolicies"],
    ),
    ("policy.karmada.io", &["overridepolicies", "propagationpolicies"]),
    ("work.karmada.io", &["resourcebindings"]),
    ("fleet.pinnace.dev", &["explanations", "renderings"]),
];

/// Resources that `edit` writes, by group.
const EDITED: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "configmaps",
            "endpoints",
            "events",
            "persistentvolumeclaims",
            "pods",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "secrets",
            "serviceaccounts",
            "services",
        ],
    ),
    (
        "apps",
        &[
            "daemonsets",
            "deployments",
            "deployments/scale",
            "replicasets",
            "replicasets/scale",
            "statefulsets",
            "statefulsets/scale",
        ],
    ),
    ("autoscaling", &["horizontalpodautoscalers"]),
    ("batch", &["cronjobs", "jobs"]),
    ("policy", &["poddisruptionbudgets"]),
    ("networking.k8s.io", &["ingresses", "networkpolicies"]),
    ("policy.karmada.io", &["overridepolicies", "propagationpolicies"]),
];

fn rules(verbs: &[&str], groups: &[(&str, &[&str])]) -> Vec<Rule> {
    groups
        .iter()
        .map(|(group, resources)| Rule::of(verbs, &[group], resources))
        .collect()
}

fn metadata(name: &str, labels: &[(&str, &str)]) -> Value {
    let mut all = Map::new();
    all.insert(LABEL.0.to_owned(), json!(LABEL.1));
    for (key, value) in labels {
        all.insert((*key).to_owned(), json!(value));
    }
    json!({"name": name, "labels": all, "annotations": {AUTOUPDATE: "true"}})
}

fn role(name: &str, labels: &[(&str, &str)], rules: &[Rule]) -> Value {
    let rules: Vec<Value> = rules.iter().map(Rule::to_value).collect();
    json!({"apiVersion": format!("{RBAC_GROUP}/v1"), "kind": "ClusterRole", "metadata": metadata(name, labels),
        "rules": rules})
}

fn aggregating(name: &str, labels: &[(&str, &str)], selected: &str) -> Value {
    json!({"apiVersion": format!("{RBAC_GROUP}/v1"), "kind": "ClusterRole", "metadata": metadata(name, labels),
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {selected: "true"}}]}, "rules": []})
}

fn binding(name: &str, groups: &[&str]) -> Value {
    let subjects: Vec<Value> = groups
        .iter()
        .map(|group| json!({"apiGroup": RBAC_GROUP, "kind": "Group", "name": group}))
        .collect();
    json!({"apiVersion": format!("{RBAC_GROUP}/v1"), "kind": "ClusterRoleBinding", "metadata": metadata(name, &[]),
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": name}, "subjects": subjects})
}

/// The ClusterRoles.
pub fn cluster_roles() -> Vec<Value> {
    const TO_ADMIN: &str = "rbac.authorization.k8s.io/aggregate-to-admin";
    const TO_EDIT: &str = "rbac.authorization.k8s.io/aggregate-to-edit";
    const TO_VIEW: &str = "rbac.authorization.k8s.io/aggregate-to-view";
    let information = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
    let mut edit = rules(&WRITE, EDITED);
    edit.push(Rule::of(&READ, &[""], &["secrets"]));
    edit.push(Rule::of(
        &["get"],
        &[""],
        &[
            "pods/attach",
            "pods/exec",
            "pods/portforward",
            "pods/proxy",
            "services/proxy",
        ],
    ));
    edit.push(Rule::of(
        &["create", "delete", "deletecollection", "patch", "update"],
        &[""],
        &[
            "pods/attach",
            "pods/exec",
            "pods/portforward",
            "pods/proxy",
            "services/proxy",
        ],
    ));
    edit.push(Rule::of(
        &["create"],
        &[""],
        &["pods/eviction", "serviceaccounts/token"],
    ));
    edit.push(Rule::of(&["impersonate"], &[""], &["serviceaccounts"]));
    edit.push(Rule::of(&EVERYTHING, &["coordination.k8s.io"], &["leases"]));
    let admin = [
        Rule::of(
            &["create"],
            &["authorization.k8s.io"],
            &["localsubjectaccessreviews"],
        ),
        Rule::of(&EVERYTHING, &[RBAC_GROUP], &["rolebindings", "roles"]),
    ];
    vec![
        role(
            "cluster-admin",
            &[],
            &[Rule::of(&["*"], &["*"], &["*"]), Rule::of_paths(&["*"], &["*"])],
        ),
        role(
            "system:discovery",
            &[],
            &[Rule::of_paths(
                &["get"],
                &[
                    "/api",
                    "/api/*",
                    "/apis",
                    "/apis/*",
                    "/healthz",
                    "/livez",
                    "/openapi",
                    "/openapi/*",
                    "/readyz",
                    "/version",
                    "/version/",
                ],
            )],
        ),
        role(
            "system:basic-user",
            &[],
            &[
                Rule::of(
                    &["create"],
                    &["authorization.k8s.io"],
                    &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
                ),
                Rule::of(&["create"], &["authentication.k8s.io"], &["selfsubjectreviews"]),
            ],
        ),
        role(
            "system:public-info-viewer",
            &[],
            &[Rule::of_paths(&["get"], &information)],
        ),
        role(
            "system:monitoring",
            &[],
            &[Rule::of_paths(
                &["get"],
                &[
                    "/healthz",
                    "/healthz/*",
                    "/livez",
                    "/livez/*",
                    "/metrics",
                    "/readyz",
                    "/readyz/*",
                ],
            )],
        ),
        role(
            "system:auth-delegator",
            &[],
            &[
                Rule::of(&["create"], &["authentication.k8s.io"], &["tokenreviews"]),
                Rule::of(&["create"], &["authorization.k8s.io"], &["subjectaccessreviews"]),
            ],
        ),
        role(
            "system:certificates.k8s.io:kube-apiserver-client-approver",
            &[],
            &[{
                let mut rule = Rule::of(&["approve"], &["certificates.k8s.io"], &["signers"]);
                rule.names = vec!["kubernetes.io/kube-apiserver-client".to_owned()];
                rule
            }],
        ),
        role(
            "system:service-account-issuer-discovery",
            &[],
            &[Rule::of_paths(
                &["get"],
                &[
                    "/.well-known/openid-configuration",
                    "/openid/v1/jwks",
                    "/openid/v1/jwks/",
                ],
            )],
        ),
        aggregating("admin", &[], TO_ADMIN),
        aggregating("edit", &[(TO_ADMIN, "true")], TO_EDIT),
        aggregating("view", &[(TO_EDIT, "true")], TO_VIEW),
        role("system:aggregate-to-admin", &[(TO_ADMIN, "true")], &admin),
        role("system:aggregate-to-edit", &[(TO_EDIT, "true")], &edit),
        role(
            "system:aggregate-to-view",
            &[(TO_VIEW, "true")],
            &rules(&READ, VIEWED),
        ),
    ]
}

/// The ClusterRoleBindings.
pub fn cluster_role_bindings() -> Vec<Value> {
    vec![
        binding("cluster-admin", &[MASTERS]),
        binding("system:discovery", &[AUTHENTICATED]),
        binding("system:basic-user", &[AUTHENTICATED]),
        binding("system:public-info-viewer", &[AUTHENTICATED]),
        binding("system:monitoring", &["system:monitoring"]),
        binding("system:service-account-issuer-discovery", &[SERVICE_ACCOUNTS]),
    ]
}

/// What becomes of a stored object that the hub made once.
#[derive(Debug, Clone, PartialEq)]
pub enum Followed {
    /// It is as it should be, or people said to leave it.
    Kept,
    /// Store this.
    Changed(Value),
    /// Its role is another one: remove it and create the expected one.
    Replaced,
}

/// Brings a stored role or binding up to date with the expected one.
pub fn follow(stored: &Value, expected: &Value) -> Followed {
    let autoupdate = stored
        .pointer("/metadata/annotations")
        .and_then(|a| a.get(AUTOUPDATE));
    if autoupdate != Some(&json!("true")) {
        return Followed::Kept;
    }
    if stored.get("roleRef") != expected.get("roleRef") {
        return Followed::Replaced;
    }
    let mut changed = stored.clone();
    for part in ["labels", "annotations"] {
        let wanted = expected
            .pointer(&format!("/metadata/{part}"))
            .and_then(Value::as_object);
        for (key, value) in wanted.into_iter().flatten() {
            let is_there = changed
                .pointer(&format!("/metadata/{part}"))
                .is_some_and(Value::is_object);
            if !is_there {
                changed["metadata"][part] = json!({});
            }
            let at = &mut changed["metadata"][part];
            if at.get(key).is_none() {
                at[key] = value.clone();
            }
        }
    }
    if let Some(rule) = expected.get("aggregationRule") {
        add_missing(
            &mut changed["aggregationRule"],
            rule,
            "clusterRoleSelectors",
            |have, wanted| have.contains(wanted),
        );
    } else {
        add_missing(&mut changed, expected, "rules", |have, wanted| {
            let owned: Vec<Rule> = have.iter().map(Rule::read).collect();
            super::escalation::missing(&owned, &[Rule::read(wanted)]).is_empty()
        });
    }
    add_missing(&mut changed, expected, "subjects", |have, wanted| {
        let same = |s: &Value| {
            ["kind", "name", "namespace"]
                .iter()
                .all(|k| s.get(k) == wanted.get(k))
        };
        have.iter().any(same)
    });
    if changed == *stored {
        Followed::Kept
    } else {
        Followed::Changed(changed)
    }
}

fn add_missing(to: &mut Value, from: &Value, key: &str, has: impl Fn(&[Value], &Value) -> bool) {
    let Some(wanted) = from.get(key).and_then(Value::as_array).filter(|w| !w.is_empty()) else {
        return;
    };
    if to.get(key).and_then(Value::as_array).is_none() {
        to[key] = json!([]);
    }
    if let Some(have) = to[key].as_array_mut() {
        for item in wanted {
            if !has(have, item) {
                have.push(item.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Attributes, Rbac, User};
    use super::*;

    fn index() -> Rbac {
        let mut rbac = Rbac::default();
        let name = |v: &Value| v["metadata"]["name"].as_str().map(str::to_owned).expect("a name");
        for role in cluster_roles() {
            rbac.set("clusterroles", "", &name(&role), Some(&role));
        }
        for binding in cluster_role_bindings() {
            rbac.set("clusterrolebindings", "", &name(&binding), Some(&binding));
        }
        rbac
    }

    #[test]
    fn everybody_may_look_around_and_admins_of_a_namespace_may_work() {
        let mut rbac = index();
        let ann = User {
            name: "ann".to_owned(),
            groups: vec![AUTHENTICATED.to_owned()],
            ..User::default()
        };
        let may = |rbac: &Rbac, wish: &Attributes| rbac.decide(&ann, wish).allowed;
        assert!(may(&rbac, &Attributes::path("get", "/apis/apps/v1")));
        assert!(!may(&rbac, &Attributes::path("get", "/metrics")));
        let review = Attributes::resource(
            "create",
            "authorization.k8s.io",
            "selfsubjectaccessreviews",
            "",
            "",
        );
        assert!(may(&rbac, &review));
        let table = [
            ("view", "get", "apps", "deployments", true),
            ("view", "get", "", "secrets", false),
            ("view", "delete", "", "pods", false),
            ("edit", "get", "", "secrets", true),
            ("edit", "create", "policy.karmada.io", "propagationpolicies", true),
            ("edit", "create", RBAC_GROUP, "roles", false),
            ("admin", "create", RBAC_GROUP, "roles", true),
            ("admin", "list", "apps", "deployments", true),
            ("admin", "update", "", "namespaces", false),
            ("cluster-admin", "anything", "example.io", "widgets", true),
        ];
        for (role, verb, group, resource, expected) in table {
            let binding = json!({"metadata": {}, "roleRef": {"kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "User", "name": "ann"}]});
            rbac.set("rolebindings", "shop", "ann", Some(&binding));
            let wish = Attributes::resource(verb, group, resource, "shop", "x");
            assert_eq!(may(&rbac, &wish), expected, "{role} {verb} {resource}");
            assert!(
                !may(&rbac, &Attributes::resource(verb, group, resource, "other", "x")),
                "{role} elsewhere"
            );
        }
    }

    #[test]
    fn stored_roles_follow_and_additions_stay() {
        let expected = role("r", &[], &[Rule::of(&["get", "list"], &[""], &["pods"])]);
        assert_eq!(follow(&expected, &expected), Followed::Kept);
        let mut old = role(
            "r",
            &[],
            &[
                Rule::of(&["get"], &[""], &["pods"]),
                Rule::of(&["x"], &["y"], &["z"]),
            ],
        );
        let Followed::Changed(new) = follow(&old, &expected) else {
            panic!("a rule is missing")
        };
        assert_eq!(new["rules"].as_array().map(Vec::len), Some(3));
        assert_eq!(follow(&new, &expected), Followed::Kept);
        old["metadata"]["annotations"][AUTOUPDATE] = json!("false");
        assert_eq!(follow(&old, &expected), Followed::Kept);
        let (wanted, mut other) = (binding("b", &["g"]), binding("b", &["h"]));
        let Followed::Changed(both) = follow(&other, &wanted) else {
            panic!("a subject is missing")
        };
        assert_eq!(both["subjects"].as_array().map(Vec::len), Some(2));
        other["roleRef"]["name"] = json!("c");
        assert_eq!(follow(&other, &wanted), Followed::Replaced);
    }
}
