//! What a person may call a kind on the command line, as kubectl reads it.

use hub_core::crd::{self, definition};
use hub_core::types::{Resource, TypeTable};

use crate::store::{ResourceId, Store};

/// Where objects of a kind are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) resource: ResourceId,
    pub(super) kind: String,
    pub(super) namespaced: bool,
}

/// Every stored resource that `text` may mean: plural, singular, short name or kind, of any case, optionally with
/// `.group` behind it. In the table's order, then custom resources, each once.
pub(super) fn find(table: &TypeTable, store: &Store, text: &str) -> Vec<Candidate> {
    let stored = store.list(&ResourceId::new(definition::GROUP, definition::PLURAL), None);
    let custom: Vec<Resource> = stored
        .items
        .iter()
        .flat_map(|object| crd::resources(table, &object.value(), object.revision.0))
        .collect();
    among(table.resources().iter().chain(&custom), text)
}

fn among<'r>(resources: impl Iterator<Item = &'r Resource>, text: &str) -> Vec<Candidate> {
    let (name, group) = match text.split_once('.') {
        Some((name, group)) => (name.to_ascii_lowercase(), Some(group)),
        None => (text.to_ascii_lowercase(), None),
    };
    let mut found = Vec::new();
    for served in resources {
        let names = [&served.plural, &served.singular]
            .into_iter()
            .chain(&served.short_names);
        let called = served.kind.eq_ignore_ascii_case(&name) || names.into_iter().any(|n| **n == *name);
        if !called || group.is_some_and(|group| *group != *served.group) {
            continue;
        }
        let (group, plural) = &served.storage;
        let candidate = Candidate {
            resource: ResourceId::new(group, plural),
            kind: served.kind.to_string(),
            namespaced: served.namespaced,
        };
        if !found.contains(&candidate) {
            found.push(candidate);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_by_every_usual_name() {
        let find = |text: &str| among(TypeTable::built_in().resources().iter(), text);
        let deployments = Candidate {
            resource: ResourceId::new("apps", "deployments"),
            kind: "Deployment".to_owned(),
            namespaced: true,
        };
        for text in [
            "Deployment",
            "deployment",
            "deployments",
            "deploy",
            "deployments.apps",
            "deploy.apps",
        ] {
            assert_eq!(find(text), std::slice::from_ref(&deployments), "{text}");
        }
        let namespaces = find("ns");
        assert!(!namespaces[0].namespaced && namespaces.len() == 1);
        for text in ["", "nothing", "deployments.batch", "deploy.apps.v1"] {
            assert_eq!(find(text), [], "{text}");
        }
    }
}
