//! One DELETE that takes everything of a Namespace or of a kind with it. What it would delete in members cannot be held
//! afterwards without losing the templates on the hub, so it is refused at once and asked for again once confirmed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;
use shared::ids::{ClusterName, ObjectKey};
use shared::time::Millis;

use super::{Breaker, Loss, WINDOW, weight};

/// Refused DELETEs that are remembered, and confirmed ones.
const ASKED_MAX: usize = 100;
/// Losses of a refused DELETE that are named; more only count.
const NAMED_MAX: usize = 100;

/// What one DELETE takes with it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// A Namespace and all that lives in it.
    Namespace(String),
    /// A CustomResourceDefinition and all objects of its kind.
    Kind {
        /// Name of the definition.
        definition: String,
        /// Group of its kind.
        group: String,
        /// Its kind.
        kind: String,
    },
}

impl Scope {
    /// The scope of a stored object; none if its deletion takes nothing else with it, or is under way already.
    #[must_use]
    pub fn of(object: &Value) -> Option<Self> {
        let key = shared::object::key(object)?;
        if !object["metadata"]["deletionTimestamp"].is_null() {
            return None;
        }
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        match (key.group.as_str(), key.kind.as_str()) {
            ("", "Namespace") => Some(Self::Namespace(key.name)),
            ("apiextensions.k8s.io", "CustomResourceDefinition") => Some(Self::Kind {
                group: text("/spec/group")?,
                kind: text("/spec/names/kind")?,
                definition: key.name,
            }),
            _ => None,
        }
    }

    /// Whether the DELETE takes this object with it.
    #[must_use]
    pub fn covers(&self, key: &ObjectKey) -> bool {
        match self {
            Self::Namespace(name) => {
                key.namespace == *name
                    || (key.group.is_empty() && key.kind == "Namespace" && key.name == *name)
            }
            Self::Kind {
                definition,
                group,
                kind,
            } => {
                (key.group == *group && key.kind == *kind)
                    || (key.group == "apiextensions.k8s.io"
                        && key.kind == "CustomResourceDefinition"
                        && key.name == *definition)
            }
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace(name) => write!(f, "Namespace {name}"),
            Self::Kind { definition, .. } => write!(f, "CustomResourceDefinition {definition}"),
        }
    }
}

/// A DELETE that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// What it would take with it.
    pub scope: Scope,
    /// When it was refused first.
    pub since: Millis,
    /// How many objects it would delete.
    pub count: usize,
    /// The first of them.
    pub losses: BTreeSet<Loss>,
}

/// DELETEs of whole scopes: those refused, by id, and those confirmed, with the time of their last use.
#[derive(Debug, Default)]
pub(super) struct Wholes {
    pub(super) asked: BTreeMap<u32, Asked>,
    open: BTreeMap<Scope, Millis>,
}

impl Wholes {
    /// Whether a person confirmed the deletion of what this belongs to. Using it keeps it open.
    pub(super) fn lets_go(&mut self, key: &ObjectKey, now: Millis) -> bool {
        self.open.retain(|_, last| now.since(*last) <= WINDOW.0);
        let open = self.open.iter_mut().find(|(scope, _)| scope.covers(key));
        open.is_some_and(|(_, last)| {
            *last = now;
            true
        })
    }

    /// A person confirms a refused DELETE; gives what may be deleted now.
    pub(super) fn confirm(&mut self, id: u32, now: Millis) -> Option<Scope> {
        let asked = self.asked.remove(&id)?;
        if self.open.len() >= ASKED_MAX {
            self.open.pop_first();
        }
        self.open.insert(asked.scope.clone(), now);
        Some(asked.scope)
    }
}

impl Breaker {
    /// Whether one DELETE may take all of `losses` with it at once. `entries`: how many each of their clusters has;
    /// `clusters`: how many the fleet has. Nothing is counted: what follows is weighed one by one.
    pub fn may_delete_whole(
        &mut self,
        scope: &Scope,
        losses: &[Loss],
        entries: &BTreeMap<ClusterName, u64>,
        clusters: u64,
        now: Millis,
    ) -> bool {
        self.wholes.open.retain(|_, last| now.since(*last) <= WINDOW.0);
        if self.wholes.open.contains_key(scope) {
            return true;
        }
        self.forget(now);
        let mut weights: BTreeMap<&ClusterName, u64> = BTreeMap::new();
        for loss in losses {
            let weight = weight(&loss.key);
            if weight > 0 {
                *weights.entry(&loss.cluster).or_default() += weight;
            }
        }
        let one = weights.iter().any(|(cluster, weight)| {
            self.is_too_much(cluster, *weight, entries.get(*cluster).copied().unwrap_or(0))
        });
        let fresh = weights
            .keys()
            .filter(|cluster| !self.lost.contains_key(**cluster));
        let hit = (fresh.count() + self.lost.len()) as u64;
        !one && (weights.is_empty() || !self.is_too_many(hit, clusters))
    }

    /// Remembers a refused DELETE; the id to confirm. The same DELETE keeps its id.
    pub fn refuse_whole(&mut self, scope: &Scope, losses: &[Loss], now: Millis) -> u32 {
        let known = self.wholes.asked.iter().find(|(_, asked)| asked.scope == *scope);
        let (id, since) = match known {
            Some((id, asked)) => (*id, asked.since),
            None => (self.next_id(), now),
        };
        if self.wholes.asked.len() >= ASKED_MAX {
            self.wholes.asked.pop_first();
        }
        let asked = Asked {
            scope: scope.clone(),
            since,
            count: losses.len(),
            losses: losses.iter().take(NAMED_MAX).cloned().collect(),
        };
        self.wholes.asked.insert(id, asked);
        id
    }

    /// Refused DELETEs that nobody confirmed, by id.
    #[must_use]
    pub fn asked(&self) -> &BTreeMap<u32, Asked> {
        &self.wholes.asked
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Confirmed, Limits, Sizes};
    use super::*;
    use serde_json::json;

    fn cluster(name: &str) -> ClusterName {
        ClusterName::new(name).unwrap()
    }

    fn losses(cluster_name: &str, count: usize) -> Vec<Loss> {
        let config = |n| ObjectKey::new("", "ConfigMap", "shop", &format!("n{n}"));
        let namespace = ObjectKey::new("", "Namespace", "", "shop");
        let keys = (0..count).map(config).chain([namespace]);
        keys.map(|key| Loss {
            cluster: cluster(cluster_name),
            key,
        })
        .collect()
    }

    fn entries(count: u64) -> BTreeMap<ClusterName, u64> {
        BTreeMap::from([(cluster("a"), count)])
    }

    #[test]
    fn scopes_cover_what_goes_with_them() {
        let namespace =
            Scope::of(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}))
                .unwrap();
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.io"}, "spec": {"group": "example.io", "names": {"kind": "Widget"}}});
        let kind = Scope::of(&definition).unwrap();
        let widget = ObjectKey::new("example.io", "Widget", "shop", "w");
        let other = ObjectKey::new("example.org", "Widget", "work", "w");
        assert!(namespace.covers(&widget) && kind.covers(&widget));
        assert!(!namespace.covers(&other) && !kind.covers(&other));
        assert!(namespace.covers(&ObjectKey::new("", "Namespace", "", "shop")));
        let itself = ObjectKey::new(
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            "",
            "widgets.example.io",
        );
        assert!(kind.covers(&itself) && !namespace.covers(&itself));
        let mut ending = definition;
        ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(Scope::of(&ending), None, "it was let go before");
        let config =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}});
        assert_eq!(Scope::of(&config), None);
    }

    #[test]
    fn a_confirmed_namespace_goes_whole_and_nothing_else_with_it() {
        let mut breaker = Breaker::new(Limits::default(), 40);
        let scope = Scope::Namespace("shop".into());
        let few = losses("a", 10);
        assert!(
            breaker.may_delete_whole(&scope, &few, &entries(50), 1, Millis(0)),
            "ten and ten are at the limit"
        );
        let many = losses("a", 11);
        assert!(!breaker.may_delete_whole(&scope, &many, &entries(50), 1, Millis(0)));
        assert!(
            breaker.may_delete_whole(&scope, &many, &entries(500), 1, Millis(0)),
            "less than a fifth"
        );
        let id = breaker.refuse_whole(&scope, &many, Millis(0));
        assert_eq!(
            breaker.refuse_whole(&scope, &many, Millis(5)),
            id,
            "asked twice, one id"
        );
        assert_eq!(
            (breaker.asked()[&id].count, breaker.asked()[&id].since),
            (12, Millis(0))
        );
        assert_eq!(
            breaker.confirm(id, Millis(10)),
            Some(Confirmed::MayBeDeleted(scope.clone()))
        );
        assert_eq!(breaker.confirm(id, Millis(10)), None);
        assert!(breaker.may_delete_whole(&scope, &many, &entries(50), 1, Millis(20)));
        let one = Sizes {
            entries: 50,
            clusters: 1,
        };
        for loss in losses("a", 40) {
            assert_eq!(breaker.weigh(&loss, one, Millis(30)), Ok(()), "{}", loss.key);
        }
        let elsewhere = |n: usize| Loss {
            cluster: cluster("a"),
            key: ObjectKey::new("", "ConfigMap", "work", &format!("n{n}")),
        };
        let passed = (0..30)
            .filter(|n| breaker.weigh(&elsewhere(*n), one, Millis(40)).is_ok())
            .count();
        assert_eq!(passed, 20, "other namespaces are counted as ever");
        let late = Millis(30 + 2 * WINDOW.0);
        assert!(
            !breaker.may_delete_whole(&scope, &many, &entries(50), 1, late),
            "a confirmation does not last"
        );
    }

    #[test]
    fn a_namespace_in_many_clusters_is_too_much_for_the_fleet() {
        let mut breaker = Breaker::new(Limits::default(), 0);
        let everywhere =
            |count: usize| -> Vec<Loss> { (0..count).flat_map(|n| losses(&format!("c{n}"), 0)).collect() };
        let scope = Scope::Namespace("shop".into());
        assert!(breaker.may_delete_whole(&scope, &everywhere(10), &BTreeMap::new(), 20, Millis(0)));
        assert!(!breaker.may_delete_whole(&scope, &everywhere(11), &BTreeMap::new(), 20, Millis(0)));
        assert!(breaker.may_delete_whole(&scope, &everywhere(11), &BTreeMap::new(), 100, Millis(0)));
        assert!(
            breaker.may_delete_whole(&scope, &[], &BTreeMap::new(), 20, Millis(0)),
            "nothing is lost"
        );
    }
}
