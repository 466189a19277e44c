//! The local guard: what the site lets a hub do in its cluster. It binds what comes in sets; the agent's own objects
//! (anchor, mirror, lease) are no business of it.
//!
//! An allow-list of rules, with denials that no rule can lift: whatever the agent itself lives by.

use serde::{Deserialize, Serialize};
use shared::ids::ObjectKey;

/// The group of RBAC kinds: a wildcard does not reach them, a rule has to name the group.
const RBAC: &str = "rbac.authorization.k8s.io";
/// Beginning of the names of the agent's own cluster roles and bindings.
const OWN_ROLES: &str = "pinnace-agent";
/// The agent's own namespace where it is not told another.
pub const OWN_NAMESPACE: &str = "pinnace-agent";
/// Rules of one guard.
const RULES_MAX: usize = 256;

/// What is to be done to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Create, change, adopt or release.
    Apply,
    /// Delete.
    Delete,
}

/// One rule. An object passes a rule when its kind, its scope and the verb fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// `Kind` (core group), `Kind.group`, `*.group`, or `*` for every kind outside the RBAC group.
    pub kinds: Vec<String>,
    /// Namespaces, `*` inside a name stands for any part. Empty: the rule is about cluster-scoped objects. A Namespace
    /// object counts as cluster-scoped and must also fit `names`.
    #[serde(default)]
    pub namespaces: Vec<String>,
    /// Namespaces taken out again.
    #[serde(default)]
    pub except_namespaces: Vec<String>,
    /// Names of cluster-scoped objects; empty: any.
    #[serde(default)]
    pub names: Vec<String>,
    /// What may be done; empty: everything.
    #[serde(default)]
    pub verbs: Vec<Verb>,
}

/// The file or ConfigMap of a site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Guard {
    /// An object passes when any rule lets it.
    pub allow: Vec<Rule>,
    /// The namespace that the agent runs in; it and all in it are untouchable.
    #[serde(skip, default = "own_namespace")]
    own_namespace: String,
}

fn own_namespace() -> String {
    OWN_NAMESPACE.to_owned()
}

/// A guard that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GuardError {
    /// More rules than are looked at for each action.
    #[error("the guard has {0} rules, at most {RULES_MAX} are allowed")]
    TooMany(usize),
    /// A rule that lets nothing through is a mistake of its author.
    #[error("rule {0} of the guard names no kind")]
    NoKind(usize),
}

impl Default for Guard {
    /// Namespaced kinds outside `kube-*`; of the cluster-scoped, Namespace and CustomResourceDefinition; no RBAC.
    fn default() -> Self {
        let texts = |all: &[&str]| all.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
        Self {
            allow: vec![
                Rule {
                    kinds: texts(&["*"]),
                    namespaces: texts(&["*"]),
                    except_namespaces: texts(&["kube-*"]),
                    names: vec![],
                    verbs: vec![],
                },
                Rule {
                    kinds: texts(&["Namespace", "CustomResourceDefinition.apiextensions.k8s.io"]),
                    namespaces: vec![],
                    except_namespaces: texts(&["kube-*"]),
                    names: vec![],
                    verbs: vec![],
                },
            ],
            own_namespace: own_namespace(),
        }
    }
}

impl Guard {
    /// Checks a guard that was read, and binds it to the namespace the agent runs in (none: outside a cluster).
    ///
    /// # Errors
    /// [`GuardError`].
    pub fn bound(mut self, namespace: Option<&str>) -> Result<Self, GuardError> {
        if self.allow.len() > RULES_MAX {
            return Err(GuardError::TooMany(self.allow.len()));
        }
        if let Some(at) = self.allow.iter().position(|r| r.kinds.is_empty()) {
            return Err(GuardError::NoKind(at + 1));
        }
        self.own_namespace = namespace.map_or_else(own_namespace, str::to_owned);
        Ok(self)
    }

    /// Whether `verb` may be done to `key`; if not, why, in words.
    ///
    /// # Errors
    /// The reason for the report.
    pub fn check(&self, verb: Verb, key: &ObjectKey) -> Result<(), String> {
        if let Some(what) = self.untouchable(key) {
            return Err(format!("{what} is never touched by what a hub sends"));
        }
        if self.allow.iter().any(|r| r.lets(verb, key)) {
            return Ok(());
        }
        let verb = match verb {
            Verb::Apply => "applying",
            Verb::Delete => "deleting",
        };
        Err(format!("no rule of this site's guard allows {verb} {key}"))
    }

    /// What the agent lives by.
    fn untouchable(&self, key: &ObjectKey) -> Option<&'static str> {
        let own = self.own_namespace.as_str();
        if key.namespace == own || (is_namespace(key) && key.name == own) {
            return Some("the agent's own namespace");
        }
        if key.group == RBAC && key.name.starts_with(OWN_ROLES) {
            return Some("the agent's own RBAC");
        }
        if key.group == "coordination.k8s.io" && key.namespace == "kube-system" {
            return Some("a lease of the control plane");
        }
        None
    }
}

fn is_namespace(key: &ObjectKey) -> bool {
    key.group.is_empty() && key.kind == "Namespace"
}

impl Rule {
    /// Whether the rule is about a kind.
    #[must_use]
    pub fn covers_kind(&self, group: &str, kind: &str) -> bool {
        self.kinds.iter().any(|k| fits_kind(k, group, kind))
    }

    fn lets(&self, verb: Verb, key: &ObjectKey) -> bool {
        (self.verbs.is_empty() || self.verbs.contains(&verb))
            && self.covers_kind(&key.group, &key.kind)
            && self.fits_place(key)
    }

    fn fits_place(&self, key: &ObjectKey) -> bool {
        let any = |patterns: &[String], text: &str| patterns.iter().any(|p| fits(p, text));
        if key.namespace.is_empty() {
            let excepted = is_namespace(key) && any(&self.except_namespaces, &key.name);
            return self.namespaces.is_empty()
                && !excepted
                && (self.names.is_empty() || any(&self.names, &key.name));
        }
        any(&self.namespaces, &key.namespace) && !any(&self.except_namespaces, &key.namespace)
    }
}

fn fits_kind(pattern: &str, group: &str, kind: &str) -> bool {
    if pattern == "*" {
        return group != RBAC;
    }
    let (wanted, of) = pattern.split_once('.').unwrap_or((pattern, ""));
    of == group && (wanted == "*" || wanted == kind)
}

/// Whether a text fits a pattern in which `*` stands for any part. Linear in both, however many stars there are.
#[must_use]
pub fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.len() >= part.len() && rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(group: &str, kind: &str, namespace: &str, name: &str) -> ObjectKey {
        ObjectKey::new(group, kind, namespace, name)
    }

    #[test]
    fn the_default_lets_workloads_pass_and_nothing_else() {
        let guard = Guard::default();
        for (k, passes) in [
            (key("apps", "Deployment", "shop", "web"), true),
            (key("", "Secret", "shop", "s"), true),
            (key("example.org", "Widget", "shop", "w"), true),
            (key("", "Namespace", "", "shop"), true),
            (
                key(
                    "apiextensions.k8s.io",
                    "CustomResourceDefinition",
                    "",
                    "widgets.example.org",
                ),
                true,
            ),
            (key("apps", "Deployment", "kube-system", "coredns"), false),
            (key("", "Namespace", "", "kube-system"), false),
            (key(RBAC, "Role", "shop", "r"), false),
            (key(RBAC, "ClusterRoleBinding", "", "b"), false),
            (key("", "PersistentVolume", "", "pv"), false),
            (
                key(
                    "admissionregistration.k8s.io",
                    "ValidatingWebhookConfiguration",
                    "",
                    "w",
                ),
                false,
            ),
        ] {
            for verb in [Verb::Apply, Verb::Delete] {
                assert_eq!(guard.check(verb, &k).is_ok(), passes, "{k}");
            }
        }
    }

    #[test]
    fn no_rule_lifts_the_built_in_denials() {
        let all = Rule {
            kinds: vec!["*".into(), format!("*.{RBAC}"), "*.coordination.k8s.io".into()],
            namespaces: vec!["*".into()],
            except_namespaces: vec![],
            names: vec![],
            verbs: vec![],
        };
        let cluster = Rule {
            namespaces: vec![],
            ..all.clone()
        };
        let guard = Guard {
            allow: vec![all, cluster],
            ..Guard::default()
        }
        .bound(Some("edge"))
        .expect("two rules");
        for k in [
            key("", "Secret", "edge", "pinnace-anchor"),
            key("", "Namespace", "", "edge"),
            key("", "ConfigMap", "edge", "pinnace-guard"),
            key(RBAC, "ClusterRole", "", "pinnace-agent"),
            key(RBAC, "ClusterRoleBinding", "", "pinnace-agent-reads"),
            key("coordination.k8s.io", "Lease", "edge", "pinnace-agent"),
            key("coordination.k8s.io", "Lease", "kube-system", "kube-scheduler"),
        ] {
            assert!(guard.check(Verb::Apply, &k).is_err(), "{k}");
        }
        assert!(
            guard
                .check(Verb::Apply, &key(RBAC, "ClusterRole", "", "view-shop"))
                .is_ok()
        );
    }

    #[test]
    fn rules_bind_kinds_namespaces_and_verbs() {
        let guard = Guard {
            allow: vec![Rule {
                kinds: vec!["Deployment.apps".into(), "ConfigMap".into()],
                namespaces: vec!["shop-*".into()],
                except_namespaces: vec!["shop-till".into()],
                names: vec![],
                verbs: vec![Verb::Apply],
            }],
            ..Guard::default()
        };
        let web = key("apps", "Deployment", "shop-1", "web");
        assert!(guard.check(Verb::Apply, &web).is_ok());
        let refused = guard.check(Verb::Delete, &web).expect_err("only apply");
        assert!(
            refused.contains("deleting Deployment.apps shop-1/web"),
            "{refused}"
        );
        for k in [
            key("apps", "Deployment", "shop-till", "web"),
            key("apps", "Deployment", "other", "web"),
            key("apps", "StatefulSet", "shop-1", "db"),
            key("", "Namespace", "", "shop-1"),
        ] {
            assert!(guard.check(Verb::Apply, &k).is_err(), "{k}");
        }
    }

    #[test]
    fn a_guard_without_kinds_is_refused() {
        let rule = Rule {
            kinds: vec![],
            namespaces: vec![],
            except_namespaces: vec![],
            names: vec![],
            verbs: vec![],
        };
        let guard = Guard {
            allow: vec![rule],
            ..Guard::default()
        };
        assert_eq!(guard.bound(None), Err(GuardError::NoKind(1)));
    }

    /// The obvious recursion.
    fn slow(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, None) => true,
            (Some((b'*', rest)), _) if slow(rest, text) => true,
            (Some((b'*', _)), Some((_, more))) => slow(pattern, more),
            (Some((a, rest)), Some((b, more))) => a == b && slow(rest, more),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn patterns_mean_what_the_recursion_says(pattern in "[ab*]{0,6}", text in "[ab]{0,8}") {
            prop_assert_eq!(fits(&pattern, &text), slow(pattern.as_bytes(), text.as_bytes()));
        }
    }
}
