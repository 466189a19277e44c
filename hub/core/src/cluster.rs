//! What the planner knows about a cluster: read from its Cluster object.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use shared::reason::Reason;
use shared::time::UnixSeconds;

use crate::estimate::nodes::Node;
use crate::estimate::quotas::Quota;
use crate::estimate::{self, Grade, Summary};
use crate::policy::Toleration;

/// Condition: the list of what the cluster serves is complete.
const COMPLETE_APIS: &str = "CompleteAPIEnablements";
/// Annotation: when the cluster was last heard of.
const LAST_SEEN: &str = crate::view::LAST_SEEN;

/// A cluster as the planner sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Name.
    pub name: String,
    /// Labels of the Cluster object.
    pub labels: BTreeMap<String, String>,
    /// Provider; empty: unknown.
    pub provider: String,
    /// Region; empty: unknown.
    pub region: String,
    /// Zones. The deprecated single `zone` is folded into them when the Cluster object is admitted.
    pub zones: Vec<String>,
    /// Taints.
    pub taints: Vec<Taint>,
    /// Is it being removed? Nothing new goes there, and what is there is withdrawn.
    pub deleting: bool,
    /// Its enrolment was revoked: nothing new goes there, and what is there stays.
    pub revoked: bool,
    /// What it has and uses; `None`: it has not reported yet, so nothing is known to fit.
    pub summary: Option<Summary>,
    /// Its resource models.
    pub grades: Vec<Grade>,
    /// What it serves. `None`: it has not said yet, so it is not judged by this.
    pub apis: Option<Arc<Apis>>,
    /// Its nodes, if it names them one by one.
    pub nodes: Option<Vec<Node>>,
    /// Quotas of its namespaces, if it names them.
    pub quotas: Vec<Quota>,
    /// When it was last heard of; what is known of it is as old as that.
    pub last_seen: Option<UnixSeconds>,
    /// Clusters of a fleet with the same labels, provider, region and zones have the same number here, above zero; zero:
    /// nothing is known of others. What is asked about these is asked once for all of them.
    pub kin: u32,
}

/// What a cluster serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Apis {
    /// Kinds by group and version.
    pub kinds: BTreeMap<String, BTreeSet<String>>,
    /// The list may lack something: part of the discovery failed.
    pub partial: bool,
}

/// Does a cluster serve a kind?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enablement {
    /// It does.
    Enabled,
    /// It does not.
    Disabled,
    /// It is not on the list, and the list may not be complete.
    Unknown,
}

impl Enablement {
    /// The reference's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enabled => "APIEnabled",
            Self::Disabled => "APIDisabled",
            Self::Unknown => "APIUnknown",
        }
    }
}

impl Apis {
    /// Does the list name the kind?
    pub fn enablement(&self, group_version: &str, kind: &str) -> Enablement {
        let listed = self
            .kinds
            .get(group_version)
            .is_some_and(|kinds| kinds.contains(kind));
        match (listed, self.partial) {
            (true, _) => Enablement::Enabled,
            (false, false) => Enablement::Disabled,
            (false, true) => Enablement::Unknown,
        }
    }

    /// Reads `status.apiEnablements` with the condition that says whether they are complete; `None`: it was never said.
    fn read(status: &Value) -> Option<Self> {
        let mut kinds: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for group in status["apiEnablements"].as_array()? {
            let served = items(&group["resources"]).map(|resource| text(&resource["kind"]));
            kinds
                .entry(text(&group["groupVersion"]))
                .or_default()
                .extend(served);
        }
        let partial =
            items(&status["conditions"]).any(|one| one["type"] == COMPLETE_APIS && one["status"] != "True");
        Some(Self { kinds, partial })
    }
}

/// A taint of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taint {
    /// Key.
    pub key: String,
    /// Value.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
    /// Since when it is there, if it says so.
    pub added: Option<UnixSeconds>,
}

/// The condition Ready says so, which only the hub writes.
fn is_revoked(status: &Value) -> bool {
    items(&status["conditions"]).any(|one| one["type"] == "Ready" && one["reason"] == Reason::Revoked.code())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

impl Cluster {
    /// Reads a Cluster object of `cluster.karmada.io/v1alpha1`.
    pub fn read(object: &Value) -> Self {
        let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
        let revoked = is_revoked(status);
        Self {
            name: text(&metadata["name"]),
            labels: crate::policy::labels_of(object),
            provider: text(&spec["provider"]),
            region: text(&spec["region"]),
            zones: items(&spec["zones"]).map(text).collect(),
            taints: items(&spec["taints"])
                .map(|taint| Taint {
                    key: text(&taint["key"]),
                    value: text(&taint["value"]),
                    effect: text(&taint["effect"]),
                    added: taint["timeAdded"].as_str().and_then(UnixSeconds::parse_rfc3339),
                })
                .collect(),
            deleting: !metadata["deletionTimestamp"].is_null(),
            revoked,
            // Of a cluster that nobody speaks for, nothing is known to fit.
            summary: Some(&status["resourceSummary"])
                .filter(|s| s.is_object() && !revoked)
                .map(Summary::read),
            grades: estimate::grades(&spec["resourceModels"]),
            apis: Apis::read(status).map(Arc::new),
            nodes: None,
            quotas: Vec::new(),
            last_seen: metadata["annotations"][LAST_SEEN]
                .as_str()
                .and_then(UnixSeconds::parse_rfc3339),
            kin: 0,
        }
    }

    /// The first taint that keeps new work away and that no toleration covers. `PreferNoSchedule` keeps nothing away.
    pub fn untolerated<'a>(&'a self, tolerations: &[Toleration]) -> Option<&'a Taint> {
        self.taints
            .iter()
            .filter(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"))
            .find(|taint| !tolerations.iter().any(|toleration| toleration.tolerates(taint)))
    }
}

impl Toleration {
    /// Does it cover this taint? As in core: an empty operator means Equal, an empty effect all effects, an empty key with
    /// Exists every key.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        if !self.effect.is_empty() && self.effect != taint.effect {
            return false;
        }
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        match self.operator.as_str() {
            "" | "Equal" => !self.key.is_empty() && self.value == taint.value,
            "Exists" => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_a_cluster() {
        let cluster = Cluster::read(&json!({
            "metadata": {"name": "m1", "labels": {"tier": "gold"}, "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"provider": "p", "region": "r", "zones": ["a", "b"], "taints": [{"key": "k", "effect": "NoSchedule"}]},
            "status": {"apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}]}
        }));
        assert_eq!(
            (cluster.name.as_str(), cluster.deleting, cluster.zones.len()),
            ("m1", true, 2)
        );
        assert_eq!(
            cluster.apis.unwrap().enablement("apps/v1", "Deployment"),
            Enablement::Enabled
        );
        assert_eq!(Cluster::read(&json!({"metadata": {"name": "m2"}})).apis, None);
    }

    #[test]
    fn tolerations() {
        let taint = Taint {
            key: "maintenance".into(),
            value: "true".into(),
            effect: "NoSchedule".into(),
            ..Taint::default()
        };
        let cluster = Cluster {
            taints: vec![taint],
            ..Cluster::default()
        };
        for (json, covered) in [
            (
                json!({"key": "maintenance", "operator": "Equal", "value": "true", "effect": "NoSchedule"}),
                true,
            ),
            (json!({"key": "maintenance", "value": "true"}), true),
            (json!({"operator": "Exists"}), true),
            (
                json!({"key": "maintenance", "operator": "Exists", "effect": "NoExecute"}),
                false,
            ),
            (json!({"key": "maintenance", "value": "false"}), false),
            (json!({"key": "other", "operator": "Exists"}), false),
        ] {
            let toleration: Toleration = serde_json::from_value(json.clone()).unwrap();
            assert_eq!(cluster.untolerated(&[toleration]).is_none(), covered, "{json}");
        }
    }
}
