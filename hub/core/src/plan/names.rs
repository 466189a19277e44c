//! Which names of bindings and works are taken, and by whom.
//!
//! The reference's names are not injective (two groups, two kinds or two namespaces can give the same one). Whoever has the
//! plain name keeps it; another object gets the name with a hash of its whole identity.
//!
//! Beside the names it is kept which bindings belong to groups of workload affinity, and where they are.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use shared::ids::ObjectKey;
use shared::object::split_api_version;

use crate::naming::{self, Identity};
use crate::schedule::peers::{AffinityGroups, Peer, Peers};

/// Annotation on a binding: the name of its works, where it is not the plain one.
pub(super) const WORK_NAME_ANNOTATION: &str = "fleet.pinnace.dev/work-name";

/// Taken names. The driver keeps one, filled from the stored bindings; planning adds to it.
#[derive(Clone, Debug, Default)]
pub struct NameIndex {
    bindings: BTreeMap<(String, String), ObjectKey>,
    works: BTreeMap<String, ObjectKey>,
    /// Bindings with groups, by namespace and name.
    peers: BTreeMap<String, BTreeMap<String, Peer>>,
}

fn identity(key: &ObjectKey) -> Identity<'_> {
    Identity {
        group: &key.group,
        kind: &key.kind,
        namespace: &key.namespace,
        name: &key.name,
    }
}

/// The object a binding is for.
pub fn bound_object(binding: &Value) -> ObjectKey {
    let resource = &binding["spec"]["resource"];
    let text = |key: &str| resource[key].as_str().unwrap_or_default();
    ObjectKey::new(
        split_api_version(text("apiVersion")).0,
        text("kind"),
        text("namespace"),
        text("name"),
    )
}

impl NameIndex {
    /// Notes the names of a stored binding.
    pub fn note(&mut self, binding: &Value) {
        let key = bound_object(binding);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &binding["metadata"];
        let work = match metadata["annotations"][WORK_NAME_ANNOTATION].as_str() {
            Some(name) => name.to_owned(),
            None => naming::work_name(&key.kind, &key.name, &key.namespace),
        };
        self.works.entry(work).or_insert_with(|| key.clone());
        let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
        self.note_groups(&namespace, &name, binding);
        self.bindings.insert((namespace, name), key);
    }

    fn note_groups(&mut self, namespace: &str, name: &str, binding: &Value) {
        let groups =
            AffinityGroups::deserialize(&binding["spec"]["workloadAffinityGroups"]).unwrap_or_default();
        if groups.is_empty() {
            if let Some(peers) = self.peers.get_mut(namespace) {
                peers.remove(name);
            }
            return;
        }
        let clusters = binding["spec"]["clusters"].as_array().into_iter().flatten();
        let peer = Peer {
            groups,
            clusters: clusters
                .filter_map(|target| target["name"].as_str().map(str::to_owned))
                .collect(),
        };
        self.peers
            .entry(namespace.to_owned())
            .or_default()
            .insert(name.to_owned(), peer);
    }

    /// What the other bindings of the namespace allow to a member of these groups.
    pub fn peers(&self, namespace: &str, binding: &str, groups: &AffinityGroups) -> Peers {
        let others = self.peers.get(namespace).into_iter().flatten();
        Peers::of(
            groups,
            others.filter(|(name, _)| *name != binding).map(|(_, peer)| peer),
        )
    }

    /// Forgets the names of an object whose binding is gone.
    pub fn forget(&mut self, key: &ObjectKey) {
        if let Some(peers) = self.peers.get_mut(&key.namespace) {
            let bindings = &self.bindings;
            peers.retain(|name, _| bindings.get(&(key.namespace.clone(), name.clone())) != Some(key));
        }
        self.bindings.retain(|_, holder| holder != key);
        self.works.retain(|_, holder| holder != key);
    }

    /// Name of the object's binding: the one it has, else the plain one, else the one with a hash.
    pub fn binding_name(&mut self, key: &ObjectKey) -> String {
        let plain = naming::binding_name(&key.kind, &key.name);
        let full = identity(key).disambiguate(&plain);
        let at = |name: &str| (key.namespace.clone(), name.to_owned());
        let has_full = self.bindings.get(&at(&full)) == Some(key);
        let plain_is_free = self.bindings.get(&at(&plain)).is_none_or(|holder| holder == key);
        let name = if !has_full && plain_is_free { plain } else { full };
        self.bindings.insert(at(&name), key.clone());
        name
    }

    /// Name of the object's works, by the same rule.
    pub fn work_name(&mut self, key: &ObjectKey) -> String {
        let plain = naming::work_name(&key.kind, &key.name, &key.namespace);
        let full = identity(key).disambiguate(&plain);
        let has_full = self.works.get(&full) == Some(key);
        let plain_is_free = self.works.get(&plain).is_none_or(|holder| holder == key);
        let name = if !has_full && plain_is_free { plain } else { full };
        self.works.insert(name.clone(), key.clone());
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Turns red when a name is given without looking who has it.
    #[test]
    fn field_report_25_two_groups_never_share_a_name() {
        let mut names = NameIndex::default();
        let ours = ObjectKey::new("apps", "StatefulSet", "shop", "db");
        let theirs = ObjectKey::new("apps.example.io", "StatefulSet", "shop", "db");
        assert_eq!(names.binding_name(&ours), "db-statefulset");
        let other = names.binding_name(&theirs);
        assert!(other.starts_with("db-statefulset-") && other != "db-statefulset");
        assert_ne!(names.work_name(&ours), names.work_name(&theirs));
        // the one that has the plain name keeps it, the other keeps its own, also once the plain one is free
        assert_eq!(names.binding_name(&ours), "db-statefulset");
        names.forget(&ours);
        assert_eq!(names.binding_name(&theirs), other);
    }

    /// Turns red when names are made unique by joining parts with dashes.
    #[test]
    fn field_report_25_dashes_in_names_and_namespaces() {
        let mut names = NameIndex::default();
        let first = ObjectKey::new("apps", "Deployment", "c", "a-b");
        let second = ObjectKey::new("apps", "Deployment", "c-a", "b");
        assert_ne!(names.work_name(&first), names.work_name(&second));
        assert_eq!(names.binding_name(&first), "a-b-deployment");
        assert_eq!(names.binding_name(&second), "b-deployment");
    }
}
