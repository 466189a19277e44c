//! What the rules take and give: kinds, operations, replicas, member items, dependencies.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::InterpretError;

/// API version and kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kind<'a> {
    /// Group and version, such as `apps/v1`.
    pub api_version: &'a str,
    /// Kind, such as `Deployment`.
    pub kind: &'a str,
}

impl<'a> Kind<'a> {
    /// Reads them off an object.
    ///
    /// # Errors
    /// [`InterpretError::NoKind`] when one of both is missing.
    pub fn of(object: &'a Value) -> Result<Self, InterpretError> {
        match (object["apiVersion"].as_str(), object["kind"].as_str()) {
            (Some(api_version), Some(kind)) => Ok(Self { api_version, kind }),
            _ => Err(InterpretError::NoKind),
        }
    }
}

/// What can be asked of an [`crate::Interpreter`]. The names are those of the `config.karmada.io` API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Read the replica count and requirements.
    InterpretReplica,
    /// Read the components of a workload with several pod templates.
    InterpretComponent,
    /// Set the replica count.
    ReviseReplica,
    /// Keep what belongs to the member.
    Retain,
    /// Merge the members' statuses into the template's.
    AggregateStatus,
    /// List the objects a template needs.
    InterpretDependency,
    /// Pick the status worth carrying.
    InterpretStatus,
    /// Judge health.
    InterpretHealth,
}

impl Operation {
    /// The operation of that name in the `config.karmada.io` API.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "InterpretReplica" => Self::InterpretReplica,
            "InterpretComponent" => Self::InterpretComponent,
            "ReviseReplica" => Self::ReviseReplica,
            "Retain" => Self::Retain,
            "AggregateStatus" => Self::AggregateStatus,
            "InterpretDependency" => Self::InterpretDependency,
            "InterpretStatus" => Self::InterpretStatus,
            "InterpretHealth" => Self::InterpretHealth,
            _ => return None,
        })
    }
}

/// Replica count of a template and the requirements of one replica.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Replicas {
    /// Desired replicas; absent in the template counts 0 (fill defaults first: [`crate::effective`]).
    pub replicas: i64,
    /// Requirements; `None`: nothing is required.
    pub requirements: Option<ReplicaRequirements>,
}

/// `spec.replicaRequirements` of a binding.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaRequirements {
    /// Which nodes a replica can run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_claim: Option<NodeClaim>,
    /// Quantities by resource name, in canonical form.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resource_request: BTreeMap<String, String>,
    /// Namespace of the workload; only carried for quota estimation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Priority class of the pods; only carried for quota estimation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
}

/// Which nodes a replica can run on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaim {
    /// The *required* node affinity, as it is in the pod template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hard_node_affinity: Option<Value>,
    /// Node labels that must match.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Tolerations, as they are in the pod template.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Value>,
}

/// What one target cluster contributes to the status of a template.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemberItem {
    /// Name of the cluster.
    pub cluster: String,
    /// Reflected status; `None`: none known.
    pub status: Option<Value>,
    /// Silent beyond the grace: left out of the "has caught up" test, its last known counts stay.
    pub silent: bool,
}

/// Statuses that are there, with the cluster's name.
pub(crate) fn reported(items: &[MemberItem]) -> impl Iterator<Item = (&str, &Value)> {
    items
        .iter()
        .filter_map(|item| Some((item.cluster.as_str(), item.status.as_ref()?)))
}

/// One of several kinds of pods that a workload consists of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Component {
    /// Name, unique in the workload.
    pub name: String,
    /// Desired replicas.
    pub replicas: i64,
    /// Requirements of one replica; `None`: nothing is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_requirements: Option<ReplicaRequirements>,
}

/// An object that a template needs beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Dependency {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; `None` when the owner has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name, unless chosen by labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Label selector, unless chosen by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<Value>,
}
