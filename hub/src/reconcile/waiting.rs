//! Templates that could not be placed, and what another try depends on: a report of more room in a cluster that may be
//! used, or a workload that they belong together with, or apart from, that moved.
//!
//! Lost entries cost at most the time to the next full pass.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use hub_core::plan::TemplatePlan;

use super::{Reconciler, TemplateKey, limits};

/// What a template waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Waits {
    /// More room in one of these clusters.
    clusters: BTreeSet<String>,
    /// Another workload of its namespace that moves.
    peers: bool,
}

/// Templates that wait.
#[derive(Debug, Default)]
pub(super) struct Waiting(Mutex<HashMap<TemplateKey, Waits>>);

impl Waiting {
    /// Notes what a plan waits for, or that it waits no more. Beyond the limit nothing is noted: the full pass finds it.
    fn note(&self, key: &TemplateKey, waits: Waits) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waits == Waits::default() {
            waiting.remove(key);
        } else if waiting.len() < limits::MARKED_KEYS || waiting.contains_key(key) {
            waiting.insert(key.clone(), waits);
        }
    }

    /// Those that wait for room in one of these clusters.
    fn for_room(&self, clusters: &BTreeSet<String>) -> Vec<TemplateKey> {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let concerned = waiting
            .iter()
            .filter(|(_, waits)| !waits.clusters.is_disjoint(clusters));
        concerned.map(|(key, _)| key.clone()).collect()
    }

    /// Those that wait for another workload of the namespace.
    fn for_peers(&self, namespace: &str) -> Vec<TemplateKey> {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let concerned = waiting
            .iter()
            .filter(|(key, waits)| waits.peers && key.namespace == namespace);
        concerned.map(|(key, _)| key.clone()).collect()
    }
}

impl Reconciler {
    /// Notes what the plan of a template waits for, and marks those that waited for it to move.
    pub(super) fn note_waiting(&self, key: &TemplateKey, plan: &TemplatePlan) {
        self.waiting.note(
            key,
            Waits {
                clusters: plan.waits_for.clone(),
                peers: plan.waits_for_peers,
            },
        );
        if plan.moves_peers {
            let peers = self.waiting.for_peers(&key.namespace);
            self.templates.mark(peers.into_iter().filter(|peer| peer != key));
        }
    }

    /// The room in these clusters is another than before.
    pub(super) fn room_changed_in(&self, clusters: &BTreeSet<String>) {
        self.templates.mark(self.waiting.for_room(clusters));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ResourceId;

    fn key(namespace: &str, name: &str) -> TemplateKey {
        TemplateKey {
            resource: ResourceId::new("apps", "deployments"),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    #[test]
    fn only_what_depends_on_a_cluster_is_tried_again() {
        let waiting = Waiting::default();
        let room = |clusters: &[&str]| Waits {
            clusters: clusters.iter().map(|name| (*name).to_owned()).collect(),
            peers: false,
        };
        waiting.note(&key("a", "one"), room(&["m1", "m2"]));
        waiting.note(&key("a", "two"), room(&["m3"]));
        let in_m2 = BTreeSet::from(["m2".to_owned()]);
        assert_eq!(waiting.for_room(&in_m2), [key("a", "one")]);
        waiting.note(&key("a", "one"), Waits::default());
        assert_eq!(waiting.for_room(&in_m2), []);
        let peers = Waits {
            peers: true,
            ..Waits::default()
        };
        waiting.note(&key("b", "three"), peers);
        assert_eq!(waiting.for_peers("b"), [key("b", "three")]);
        assert_eq!(waiting.for_peers("a"), []);
    }
}
