//! What a person may call a kind on the command line, as kubectl reads it.

use hub_core::types::TypeTable;

use crate::store::ResourceId;

/// Where objects of a kind are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) resource: ResourceId,
    pub(super) namespaced: bool,
}

/// Every stored resource that `text` may mean: plural, singular, short name or kind, of any case, optionally with
/// `.group` behind it. In the table's order, each once.
pub(super) fn find(table: &TypeTable, text: &str) -> Vec<Candidate> {
    let (name, group) = match text.split_once('.') {
        Some((name, group)) => (name.to_ascii_lowercase(), Some(group)),
        None => (text.to_ascii_lowercase(), None),
    };
    let mut found = Vec::new();
    for served in table.resources() {
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
        let table = TypeTable::built_in();
        let deployments = Candidate {
            resource: ResourceId::new("apps", "deployments"),
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
            assert_eq!(find(table, text), std::slice::from_ref(&deployments), "{text}");
        }
        let namespaces = find(table, "ns");
        assert!(!namespaces[0].namespaced && namespaces.len() == 1);
        for text in ["", "nothing", "deployments.batch", "deploy.apps.v1"] {
            assert_eq!(find(table, text), [], "{text}");
        }
    }
}
