//! The index over stored roles and bindings, and the decision it leads to.

use super::{Attributes, MASTERS, Rule, User, service_account_of};
use crate::select::LabelSelector;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;

/// API group of roles and bindings.
pub const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
/// A role or binding with this label set to `true` is a template for members alone and grants nothing on the hub.
pub const TEMPLATE_ONLY_LABEL: &str = "fleet.pinnace.dev/template-only";

/// Namespace (empty for cluster-scoped) and name.
type Key = (String, String);

/// Whether a stored role or binding counts on the hub.
pub fn acts(object: &Value) -> bool {
    let labels = object.pointer("/metadata/labels");
    labels.and_then(|l| l.get(TEMPLATE_ONLY_LABEL)) != Some(&Value::String("true".to_owned()))
}

/// Who a binding names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Subject {
    User(String),
    Group(String),
    Account(String, String),
}

impl Subject {
    fn read(value: &Value, namespace: &str) -> Option<Subject> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
        let name = text("name").to_owned();
        match text("kind") {
            "User" => Some(Subject::User(name)),
            "Group" => Some(Subject::Group(name)),
            "ServiceAccount" => {
                let given = text("namespace");
                let namespace = if given.is_empty() { namespace } else { given };
                Some(Subject::Account(namespace.to_owned(), name))
            }
            _ => None,
        }
    }

    /// As the API server names it in a reason.
    fn told(&self) -> String {
        match self {
            Subject::User(name) => format!("User {name:?}"),
            Subject::Group(name) => format!("Group {name:?}"),
            Subject::Account(namespace, name) => {
                format!("ServiceAccount {:?}", format!("{name}/{namespace}"))
            }
        }
    }
}

#[derive(Debug)]
struct Binding {
    subjects: Vec<Subject>,
    /// Key of the role: with a namespace a Role, without a ClusterRole.
    role: Key,
}

#[derive(Debug)]
struct ClusterRole {
    labels: BTreeMap<String, String>,
    own: Vec<Rule>,
    /// Selectors of `aggregationRule`; `None` if it does not aggregate.
    aggregates: Option<Vec<LabelSelector>>,
}

/// The answer to a wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Whether it is allowed.
    pub allowed: bool,
    /// Which binding allows it, or which role a binding names in vain; may be empty.
    pub reason: String,
}

/// Everything a user is allowed in a namespace.
#[derive(Debug, Default)]
pub struct Allowed {
    /// The rules.
    pub rules: Vec<Rule>,
    /// Roles that bindings name and that do not exist.
    pub errors: Vec<String>,
}

/// All roles and bindings that act, ready to be asked.
#[derive(Debug, Default)]
pub struct Rbac {
    roles: BTreeMap<Key, Vec<Rule>>,
    cluster_roles: BTreeMap<String, ClusterRole>,
    /// Rules of ClusterRoles after aggregation.
    effective: BTreeMap<String, Vec<Rule>>,
    bindings: BTreeMap<Key, Binding>,
    by_subject: HashMap<Subject, BTreeSet<Key>>,
}

impl Rbac {
    /// Takes a stored object in; `None` takes it out. `plural` is one of the four kinds, others change nothing.
    pub fn set(&mut self, plural: &str, namespace: &str, name: &str, object: Option<&Value>) {
        let object = object.filter(|o| acts(o));
        let key = (namespace.to_owned(), name.to_owned());
        match plural {
            "roles" => match object {
                Some(object) => drop(self.roles.insert(key, Rule::read_all(object))),
                None => drop(self.roles.remove(&key)),
            },
            "clusterroles" => {
                match object {
                    Some(object) => drop(self.cluster_roles.insert(key.1, ClusterRole::read(object))),
                    None => drop(self.cluster_roles.remove(&key.1)),
                }
                self.effective = aggregate(&self.cluster_roles);
            }
            "rolebindings" | "clusterrolebindings" => {
                if let Some(old) = self.bindings.remove(&key) {
                    for subject in old.subjects {
                        if let Some(keys) = self.by_subject.get_mut(&subject) {
                            keys.remove(&key);
                            if keys.is_empty() {
                                self.by_subject.remove(&subject);
                            }
                        }
                    }
                }
                if let Some(binding) = object.and_then(|o| read_binding(o, namespace)) {
                    for subject in &binding.subjects {
                        let keys = self.by_subject.entry(subject.clone()).or_default();
                        keys.insert(key.clone());
                    }
                    self.bindings.insert(key, binding);
                }
            }
            _ => {}
        }
    }

    /// Rules of a ClusterRole that aggregates others, as they should stand in it; for every such role.
    pub fn aggregated(&self) -> impl Iterator<Item = (&str, &[Rule])> {
        self.cluster_roles
            .iter()
            .filter(|(_, role)| role.aggregates.is_some())
            .map(|(name, _)| {
                let rules = self.effective.get(name).map_or(&[][..], Vec::as_slice);
                (name.as_str(), rules)
            })
    }

    /// Rules of a role (with a namespace) or a ClusterRole (without).
    pub fn rules_of_role(&self, namespace: &str, name: &str) -> Option<&[Rule]> {
        if namespace.is_empty() {
            self.effective.get(name).map(Vec::as_slice)
        } else {
            let key = (namespace.to_owned(), name.to_owned());
            self.roles.get(&key).map(Vec::as_slice)
        }
    }

    /// Whether a user may do it.
    pub fn decide(&self, user: &User, wish: &Attributes) -> Decision {
        if user.is_in(MASTERS) {
            return Decision {
                allowed: true,
                reason: format!("group {MASTERS}"),
            };
        }
        let mut missing = Vec::new();
        let found = self
            .bound(user, &wish.namespace)
            .find_map(
                |(key, binding, subject)| match self.rules_of_role(&binding.role.0, &binding.role.1) {
                    Some(rules) => rules
                        .iter()
                        .any(|r| r.allows(wish))
                        .then_some((key, binding, subject)),
                    None => {
                        missing.push(told_missing(&binding.role));
                        None
                    }
                },
            );
        match found {
            Some((key, binding, subject)) => {
                let role = &binding.role;
                let kind = if role.0.is_empty() { "ClusterRole" } else { "Role" };
                let by = if key.0.is_empty() {
                    format!("ClusterRoleBinding {:?}", key.1)
                } else {
                    format!("RoleBinding {:?}", format!("{}/{}", key.1, key.0))
                };
                Decision {
                    allowed: true,
                    reason: format!(
                        "RBAC: allowed by {by} of {kind} {:?} to {}",
                        role.1,
                        subject.told()
                    ),
                }
            }
            None => {
                let mut reason = String::new();
                if !missing.is_empty() {
                    missing.sort();
                    missing.dedup();
                    // Writing to a String cannot fail.
                    let _infallible = write!(reason, "RBAC: [{}]", missing.join(", "));
                    if missing.len() == 1 {
                        reason = format!("RBAC: {}", missing[0]);
                    }
                }
                Decision {
                    allowed: false,
                    reason,
                }
            }
        }
    }

    /// Everything a user is allowed in a namespace (empty: at the cluster scope).
    pub fn rules_of(&self, user: &User, namespace: &str) -> Allowed {
        let mut out = Allowed::default();
        if user.is_in(MASTERS) {
            out.rules.push(Rule::of(&["*"], &["*"], &["*"]));
            out.rules.push(Rule::of_paths(&["*"], &["*"]));
            return out;
        }
        for (_, binding, _) in self.bound(user, namespace) {
            match self.rules_of_role(&binding.role.0, &binding.role.1) {
                Some(rules) => {
                    for rule in rules {
                        if !out.rules.contains(rule) {
                            out.rules.push(rule.clone());
                        }
                    }
                }
                None => out.errors.push(told_missing(&binding.role)),
            }
        }
        out
    }

    /// Bindings that name a user and count in a namespace: those of the cluster first.
    fn bound<'r>(
        &'r self,
        user: &User,
        namespace: &'r str,
    ) -> impl Iterator<Item = (&'r Key, &'r Binding, &'r Subject)> + use<'r> {
        let mut subjects = vec![Subject::User(user.name.clone())];
        subjects.extend(user.groups.iter().map(|g| Subject::Group(g.clone())));
        if let Some((namespace, name)) = service_account_of(&user.name) {
            subjects.push(Subject::Account(namespace.to_owned(), name.to_owned()));
        }
        let named: Vec<(&Subject, &BTreeSet<Key>)> = subjects
            .iter()
            .filter_map(|s| self.by_subject.get_key_value(s))
            .collect();
        let in_scope = move |scope: &'r str| {
            named.clone().into_iter().flat_map(move |(subject, keys)| {
                let first = (scope.to_owned(), String::new());
                keys.range(first..)
                    .take_while(move |key| key.0 == scope)
                    .filter_map(move |key| Some((key, self.bindings.get(key)?, subject)))
            })
        };
        let of_namespace = (!namespace.is_empty()).then(|| in_scope(namespace));
        in_scope("").chain(of_namespace.into_iter().flatten())
    }
}

fn told_missing(role: &Key) -> String {
    let kind = if role.0.is_empty() { "clusterrole" } else { "role" };
    format!("{kind}.{RBAC_GROUP} {:?} not found", role.1)
}

fn read_binding(object: &Value, namespace: &str) -> Option<Binding> {
    let role = |key: &str| object.pointer(&format!("/roleRef/{key}")).and_then(Value::as_str);
    let name = role("name")?.to_owned();
    let scope = match role("kind")? {
        "ClusterRole" => String::new(),
        // A ClusterRoleBinding cannot name a Role.
        "Role" if !namespace.is_empty() => namespace.to_owned(),
        _ => return None,
    };
    let subjects = object.get("subjects").and_then(Value::as_array);
    Some(Binding {
        subjects: subjects
            .into_iter()
            .flatten()
            .filter_map(|s| Subject::read(s, namespace))
            .collect(),
        role: (scope, name),
    })
}

impl ClusterRole {
    fn read(object: &Value) -> ClusterRole {
        let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
        let aggregates = object
            .get("aggregationRule")
            .filter(|r| !r.is_null())
            .map(|rule| {
                let selectors = rule.get("clusterRoleSelectors").and_then(Value::as_array);
                selectors
                    .into_iter()
                    .flatten()
                    .filter_map(|s| LabelSelector::parse(&selector_text(s)).ok())
                    .collect()
            });
        ClusterRole {
            labels: labels
                .into_iter()
                .flatten()
                .filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())))
                .collect(),
            own: Rule::read_all(object),
            aggregates,
        }
    }
}

/// A `LabelSelector` object in the grammar of queries; an empty one selects everything, as in Kubernetes.
fn selector_text(selector: &Value) -> String {
    let mut terms = Vec::new();
    for (key, value) in selector
        .get("matchLabels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        terms.push(format!("{key}={}", value.as_str().unwrap_or_default()));
    }
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    for expression in expressions.into_iter().flatten() {
        let text = |key: &str| expression.get(key).and_then(Value::as_str).unwrap_or_default();
        let values = expression
            .get("values")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let values: Vec<&str> = values.filter_map(Value::as_str).collect();
        let (key, values) = (text("key"), values.join(","));
        terms.push(match text("operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            // Not in the grammar: the selector selects nothing.
            other => format!("{key} {other}"),
        });
    }
    terms.join(",")
}

/// Rules of every ClusterRole; those that aggregate have the rules of all they select, also over several steps.
fn aggregate(roles: &BTreeMap<String, ClusterRole>) -> BTreeMap<String, Vec<Rule>> {
    let mut effective: BTreeMap<String, Vec<Rule>> = roles
        .iter()
        .filter(|(_, role)| role.aggregates.is_none())
        .map(|(name, role)| (name.clone(), role.own.clone()))
        .collect();
    let aggregating: Vec<(&String, Vec<&String>)> = roles
        .iter()
        .filter_map(|(name, role)| {
            let selectors = role.aggregates.as_ref()?;
            let selected = roles
                .iter()
                .filter(|(other, r)| *other != name && selectors.iter().any(|s| s.matches(&r.labels)));
            Some((name, selected.map(|(other, _)| other).collect()))
        })
        .collect();
    for (name, _) in &aggregating {
        effective.insert((*name).clone(), Vec::new());
    }
    // Each round carries rules one step further; they only grow, so it ends.
    loop {
        let mut grew = false;
        for (name, selected) in &aggregating {
            let mut union: Vec<Rule> = Vec::new();
            for rule in selected
                .iter()
                .filter_map(|other| effective.get(*other))
                .flatten()
            {
                if !union.contains(rule) {
                    union.push(rule.clone());
                }
            }
            let known = effective.entry((*name).clone()).or_default();
            if union.len() > known.len() {
                *known = union;
                grew = true;
            }
        }
        if !grew {
            return effective;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn user(name: &str, groups: &[&str]) -> User {
        User {
            name: name.to_owned(),
            groups: groups.iter().map(|g| (*g).to_owned()).collect(),
            ..User::default()
        }
    }

    fn role(rules: Value) -> Value {
        json!({"metadata": {}, "rules": rules})
    }

    fn binding(kind: &str, role: &str, subjects: Value) -> Value {
        json!({"metadata": {}, "roleRef": {"apiGroup": RBAC_GROUP, "kind": kind, "name": role}, "subjects": subjects})
    }

    fn index() -> Rbac {
        let mut rbac = Rbac::default();
        let reads = json!([{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}]);
        rbac.set("clusterroles", "", "reader", Some(&role(reads.clone())));
        rbac.set("roles", "shop", "reader", Some(&role(reads)));
        let ann = json!([{"kind": "User", "name": "ann"}]);
        let robot = json!([{"kind": "ServiceAccount", "name": "robot"}, {"kind": "Group", "name": "dev"}]);
        rbac.set(
            "clusterrolebindings",
            "",
            "all",
            Some(&binding("ClusterRole", "reader", ann)),
        );
        rbac.set(
            "rolebindings",
            "shop",
            "here",
            Some(&binding("Role", "reader", robot)),
        );
        rbac
    }

    fn may(rbac: &Rbac, who: &User, namespace: &str) -> bool {
        rbac.decide(who, &Attributes::resource("get", "", "pods", namespace, "x"))
            .allowed
    }

    #[test]
    fn bindings_count_where_they_are() {
        let rbac = index();
        let robot = User::service_account("shop", "robot", "u");
        let table = [
            (user("ann", &[]), "", true),
            (user("ann", &[]), "shop", true),
            (user("bob", &[]), "shop", false),
            (user("bob", &["dev"]), "shop", true),
            (user("bob", &["dev"]), "other", false),
            (user("bob", &["dev"]), "", false),
            (user("root", &[MASTERS]), "", true),
            (robot, "shop", true),
            (User::service_account("other", "robot", "u"), "shop", false),
        ];
        for (who, namespace, expected) in table {
            assert_eq!(
                may(&rbac, &who, namespace),
                expected,
                "{} in {namespace:?}",
                who.name
            );
        }
        let told = rbac.decide(
            &user("ann", &[]),
            &Attributes::resource("get", "", "pods", "shop", ""),
        );
        assert_eq!(
            told.reason,
            "RBAC: allowed by ClusterRoleBinding \"all\" of ClusterRole \"reader\" to User \"ann\""
        );
    }

    #[test]
    fn what_is_taken_out_or_only_a_template_grants_nothing() {
        let mut rbac = index();
        let ann = user("ann", &[]);
        rbac.set("clusterroles", "", "reader", None);
        let refused = rbac.decide(&ann, &Attributes::resource("get", "", "pods", "shop", ""));
        assert_eq!(
            refused.reason,
            "RBAC: clusterrole.rbac.authorization.k8s.io \"reader\" not found"
        );
        let mut rbac = index();
        rbac.set("clusterrolebindings", "", "all", None);
        assert!(!may(&rbac, &ann, "shop") && rbac.by_subject.len() == 2);
        let mut template = binding("ClusterRole", "reader", json!([{"kind": "User", "name": "ann"}]));
        template["metadata"]["labels"] = json!({TEMPLATE_ONLY_LABEL: "true"});
        rbac.set("clusterrolebindings", "", "all", Some(&template));
        assert!(!may(&rbac, &ann, "shop"));
    }

    #[test]
    fn roles_aggregate_over_several_steps() {
        let mut rbac = Rbac::default();
        let aggregating = |label: &str, labels: Value| {
            json!({"metadata": {"labels": labels},
                "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]}, "rules": null})
        };
        rbac.set(
            "clusterroles",
            "",
            "admin",
            Some(&aggregating("to-admin", json!({}))),
        );
        rbac.set(
            "clusterroles",
            "",
            "edit",
            Some(&aggregating("to-edit", json!({"to-admin": "true"}))),
        );
        let mut leaf = role(json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]));
        leaf["metadata"]["labels"] = json!({"to-edit": "true"});
        rbac.set("clusterroles", "", "leaf", Some(&leaf));
        for name in ["admin", "edit", "leaf"] {
            assert_eq!(rbac.rules_of_role("", name).map(<[Rule]>::len), Some(1), "{name}");
        }
        assert_eq!(
            rbac.aggregated().map(|(name, _)| name).collect::<Vec<_>>(),
            ["admin", "edit"]
        );
        rbac.set("clusterroles", "", "leaf", None);
        assert_eq!(rbac.rules_of_role("", "admin").map(<[Rule]>::len), Some(0));
    }
}
