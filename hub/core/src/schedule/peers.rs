//! Affinity between workloads: which other bindings of the namespace belong to the same group, and where they are.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `placement.workloadAffinity` of a policy: by which labels of the template workloads belong together or apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadAffinity {
    /// Together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<GroupBy>,
    /// Apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anti_affinity: Option<GroupBy>,
}

/// The label whose value makes the group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupBy {
    /// Key of the label.
    #[serde(default)]
    pub group_by_label_key: String,
}

/// `spec.workloadAffinityGroups` of a binding: the groups it belongs to, as `key=value`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AffinityGroups {
    /// Goes where these are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity_group: Option<String>,
    /// Goes where none of these is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anti_affinity_group: Option<String>,
}

impl AffinityGroups {
    /// The groups of a template with these labels; a template without the label belongs to none.
    pub fn of(rules: &WorkloadAffinity, labels: &BTreeMap<String, String>) -> Self {
        let group = |by: &Option<GroupBy>| {
            let key = &by.as_ref()?.group_by_label_key;
            Some(format!("{key}={}", labels.get(key)?))
        };
        Self {
            affinity_group: group(&rules.affinity),
            anti_affinity_group: group(&rules.anti_affinity),
        }
    }

    /// Does it belong to none?
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Another binding of the same namespace: its groups and where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// The groups it belongs to.
    pub groups: AffinityGroups,
    /// Clusters it is assigned to.
    pub clusters: Vec<String>,
}

/// What the peers of a binding allow. Made once, asked for every cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    /// Clusters that every assigned peer of the affinity group is in; `None`: there is no such peer, so any will do.
    together: Option<Vec<String>>,
    /// Clusters that a peer of the other group is in.
    taken: Vec<String>,
}

impl Peers {
    /// What these peers, the binding itself not among them, allow to a member of the groups.
    pub fn of<'p>(groups: &AffinityGroups, peers: impl IntoIterator<Item = &'p Peer>) -> Self {
        let mut allowed = Self::default();
        for peer in peers {
            let shares = |ours: &Option<String>, theirs: &Option<String>| ours.is_some() && ours == theirs;
            if shares(&groups.affinity_group, &peer.groups.affinity_group) && !peer.clusters.is_empty() {
                match &mut allowed.together {
                    Some(common) => common.retain(|cluster| peer.clusters.contains(cluster)),
                    none => *none = Some(peer.clusters.clone()),
                }
            }
            if shares(&groups.anti_affinity_group, &peer.groups.anti_affinity_group) {
                allowed.taken.extend(peer.clusters.iter().cloned());
            }
        }
        for list in allowed.together.iter_mut().chain([&mut allowed.taken]) {
            list.sort();
            list.dedup();
        }
        allowed
    }

    /// Are all of its affinity group there?
    pub fn are_in(&self, cluster: &str) -> bool {
        self.together
            .as_ref()
            .is_none_or(|common| common.binary_search_by(|name| name.as_str().cmp(cluster)).is_ok())
    }

    /// Is one of the others there?
    pub fn keep_away_from(&self, cluster: &str) -> bool {
        self.taken
            .binary_search_by(|name| name.as_str().cmp(cluster))
            .is_ok()
    }
}
