//! PropagationPolicy and ClusterPropagationPolicy: what of their specification the planner reads.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fields::or_default;
use super::selector::{LabelSelector, Requirement};
use super::{CLUSTER_POLICY_ID_LABEL, POLICY_ID_LABEL};
use crate::failover::Failover;
use crate::schedule::peers::WorkloadAffinity;

/// Names a propagation policy. The namespace is empty for a ClusterPropagationPolicy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyRef {
    /// Namespace; empty: a ClusterPropagationPolicy.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl PolicyRef {
    /// Is it a ClusterPropagationPolicy?
    pub fn is_cluster_scoped(&self) -> bool {
        self.namespace.is_empty()
    }

    /// The kind, as the API calls it.
    pub fn kind(&self) -> &'static str {
        if self.is_cluster_scoped() {
            "ClusterPropagationPolicy"
        } else {
            "PropagationPolicy"
        }
    }
}

impl fmt::Display for PolicyRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_cluster_scoped() {
            write!(f, "ClusterPropagationPolicy {}", self.name)
        } else {
            write!(f, "PropagationPolicy {}/{}", self.namespace, self.name)
        }
    }
}

/// A propagation policy of either kind, read from its stored object.
#[derive(Clone, Debug, PartialEq)]
pub struct AnyPropagationPolicy {
    /// Namespace and name.
    pub reference: PolicyRef,
    /// The permanent id its label carries; empty if the label is missing.
    pub id: String,
    /// Is it being deleted? Such a policy matches nothing.
    pub deleting: bool,
    /// When it was made, RFC 3339.
    pub created: String,
    /// `spec.failover.application` is set.
    pub moves_unhealthy: bool,
    /// The specification.
    pub spec: PropagationSpec,
    /// `spec.placement` as stored, for the binding: fields survive even if this version does not know them.
    pub placement_json: Value,
}

impl AnyPropagationPolicy {
    /// Reads a stored policy of either kind.
    ///
    /// # Errors
    /// The specification does not have the shape of the API; admission keeps such an object out of the store.
    pub fn read(object: &Value) -> Result<Self, serde_json::Error> {
        let metadata = &object["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let reference = PolicyRef {
            namespace: text(&metadata["namespace"]),
            name: text(&metadata["name"]),
        };
        let label = if reference.is_cluster_scoped() {
            CLUSTER_POLICY_ID_LABEL
        } else {
            POLICY_ID_LABEL
        };
        Ok(Self {
            id: text(&metadata["labels"][label]),
            deleting: !metadata["deletionTimestamp"].is_null(),
            created: text(&metadata["creationTimestamp"]),
            moves_unhealthy: object["spec"]["failover"]["application"].is_object(),
            spec: PropagationSpec::deserialize(&object["spec"])?,
            placement_json: object["spec"]["placement"].clone(),
            reference,
        })
    }

    /// Does what the selected objects need go along? Moving an application without what it needs makes no sense, so
    /// application failover implies it.
    pub fn carries_dependencies(&self) -> bool {
        self.spec.propagate_deps || self.moves_unhealthy
    }
}

/// Specification of a propagation policy: what it selects and where that goes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PropagationSpec {
    /// What the policy selects; any of them suffices.
    #[serde(default, deserialize_with = "or_default")]
    pub resource_selectors: Vec<ResourceSelector>,
    /// Does what the selected objects need go along?
    #[serde(default, deserialize_with = "or_default")]
    pub propagate_deps: bool,
    /// Where the selected objects go.
    #[serde(default, deserialize_with = "or_default")]
    pub placement: Placement,
    /// Among matching policies the highest claims the object.
    #[serde(default, deserialize_with = "or_default")]
    pub priority: i32,
    /// `Always`: takes objects over that a policy of lower priority holds.
    #[serde(default, deserialize_with = "or_default")]
    pub preemption: String,
    /// Override policies that must exist before the policy acts.
    #[serde(default, deserialize_with = "or_default")]
    pub dependent_overrides: Vec<String>,
    /// Who schedules; anything but `default-scheduler` is left to somebody else.
    #[serde(default, deserialize_with = "or_default")]
    pub scheduler_name: String,
    /// What happens if an object that we did not create is already there.
    #[serde(default, deserialize_with = "or_default")]
    pub conflict_resolution: ConflictResolution,
    /// `Lazy`: a change of the policy acts only when the object itself changes.
    #[serde(default, deserialize_with = "or_default")]
    pub activation_preference: String,
    /// Holds changes back from all or some clusters.
    #[serde(default)]
    pub suspension: Option<Suspension>,
    /// Keep the members' objects when the template goes away.
    #[serde(default)]
    pub preserve_resources_on_deletion: Option<bool>,
    /// How copies are moved away from trouble.
    #[serde(default)]
    pub failover: Option<Failover>,
    /// Among objects that wait for scheduling, those of higher priority go first.
    #[serde(default)]
    pub schedule_priority: Option<SchedulePriority>,
}

/// Where the priority of scheduling comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SchedulePriority {
    /// `KubePriorityClass`: the value of a PriorityClass on the hub.
    #[serde(default, deserialize_with = "or_default")]
    pub priority_class_source: String,
    /// Its name.
    #[serde(default, deserialize_with = "or_default")]
    pub priority_class_name: String,
}

/// What happens to an object in a member that we did not create.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConflictResolution {
    /// Leave it alone and report the conflict.
    #[default]
    Abort,
    /// Take it over.
    Overwrite,
}

impl ConflictResolution {
    /// The word of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Abort => "Abort",
            Self::Overwrite => "Overwrite",
        }
    }
}

/// Selects objects by kind and name, labels or neither.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSelector {
    /// Group and version, as in a manifest.
    #[serde(default, deserialize_with = "or_default")]
    pub api_version: String,
    /// Kind.
    #[serde(default, deserialize_with = "or_default")]
    pub kind: String,
    /// Namespace; empty: any (admission fills it in namespaced policies).
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub namespace: String,
    /// Name; if set, the label selector is not looked at.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub name: String,
    /// Labels; absent: every object of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
}

/// Holds changes back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Suspension {
    /// From every cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatching: Option<bool>,
    /// From the clusters listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatching_on_clusters: Option<SuspendClusters>,
    /// From scheduling; only bindings have it, policies do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<bool>,
}

impl Suspension {
    /// Are changes held back from this cluster?
    pub fn holds(&self, cluster: &str) -> bool {
        self.dispatching == Some(true)
            || self
                .dispatching_on_clusters
                .as_ref()
                .is_some_and(|on| on.cluster_names.iter().any(|n| n == cluster))
    }
}

/// Clusters from which changes are held back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SuspendClusters {
    /// Names of clusters.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub cluster_names: Vec<String>,
}

/// Where objects go, and how replicas are divided.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// Candidate clusters; absent, like `cluster_affinities`: all.
    #[serde(default)]
    pub cluster_affinity: Option<ClusterAffinity>,
    /// Groups of candidates, tried in order.
    #[serde(default)]
    pub cluster_affinities: Option<Vec<ClusterAffinityTerm>>,
    /// Taints of clusters that do not matter.
    #[serde(default, deserialize_with = "or_default")]
    pub cluster_tolerations: Vec<Toleration>,
    /// How many clusters, regions, zones or providers to use.
    #[serde(default, deserialize_with = "or_default")]
    pub spread_constraints: Vec<SpreadConstraint>,
    /// How replicas are divided; absent: every cluster gets all.
    #[serde(default)]
    pub replica_scheduling: Option<ReplicaScheduling>,
    /// By which labels workloads belong together, or apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_affinity: Option<WorkloadAffinity>,
}

/// Which clusters may be used. All given parts must hold; all absent: every cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAffinity {
    /// By labels of the Cluster object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// By provider, region and zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<FieldSelector>,
    /// By name; empty: any.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub cluster_names: Vec<String>,
    /// Names that never match.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub exclude: Vec<String>,
}

impl ClusterAffinity {
    /// Does it say nothing at all?
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Requirements on `provider`, `region` and `zone` of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldSelector {
    /// All of them must hold.
    #[serde(default, deserialize_with = "or_default")]
    pub match_expressions: Vec<Requirement>,
}

/// One group of `clusterAffinities`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAffinityTerm {
    /// Name of the group.
    #[serde(default, deserialize_with = "or_default")]
    pub affinity_name: String,
    /// Its clusters.
    #[serde(flatten)]
    pub affinity: ClusterAffinity,
    /// Further tiers that take what does not fit into the ones before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overflow_affinities: Option<Vec<ClusterAffinityTerm>>,
}

/// A toleration, as in core.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Toleration {
    /// Key of the taint; empty with `Exists`: every taint.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub key: String,
    /// `Equal` (or empty) or `Exists`.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub operator: String,
    /// Value to equal.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub value: String,
    /// Effect; empty: all.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub effect: String,
    /// How long a NoExecute taint is tolerated, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

/// How many groups of one kind to use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpreadConstraint {
    /// `cluster`, `region`, `zone` or `provider`.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub spread_by_field: String,
    /// Label whose values make the groups.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub spread_by_label: String,
    /// At most this many groups; 0: no limit given.
    #[serde(default, deserialize_with = "or_default")]
    pub max_groups: i64,
    /// At least this many groups.
    #[serde(default, deserialize_with = "or_default")]
    pub min_groups: i64,
}

/// How replicas are divided.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaScheduling {
    /// Every cluster gets all replicas, or they are divided. The schema's default, once the struct is present, is Divided.
    #[serde(default, deserialize_with = "or_default")]
    pub replica_scheduling_type: SchedulingType,
    /// How to divide.
    #[serde(default)]
    pub replica_division_preference: Option<DivisionPreference>,
    /// Weights, for `Weighted`.
    #[serde(default)]
    pub weight_preference: Option<ClusterPreferences>,
}

/// Duplicated or Divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SchedulingType {
    /// Every cluster runs all replicas.
    Duplicated,
    /// The clusters share them.
    #[default]
    Divided,
}

/// How replicas are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DivisionPreference {
    /// Over as few clusters as possible.
    Aggregated,
    /// By weights.
    Weighted,
}

/// Weights of clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPreferences {
    /// Fixed weights; the largest matching one counts.
    #[serde(default, deserialize_with = "or_default")]
    pub static_weight_list: Vec<StaticWeight>,
    /// `AvailableReplicas`: weights by free room.
    #[serde(default, deserialize_with = "or_default")]
    pub dynamic_weight: String,
}

/// A fixed weight for some clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StaticWeight {
    /// The clusters it is for.
    #[serde(default, deserialize_with = "or_default")]
    pub target_cluster: ClusterAffinity,
    /// The weight, at least 1.
    #[serde(default, deserialize_with = "or_default")]
    pub weight: i64,
}

/// Labels as a map; shared by readers of objects.
pub(crate) fn labels_of(object: &Value) -> BTreeMap<String, String> {
    object["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}
