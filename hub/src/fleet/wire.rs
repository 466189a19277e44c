//! Bodies of the group `fleet.pinnace.dev/v1alpha1`, shared by the routes and the command line.

use std::collections::BTreeMap;

pub use hub_core::explain::{GroupVerdict, PolicyVerdict, Verdict};
use serde::{Deserialize, Serialize};

/// `apiVersion` of every body.
pub const API_VERSION: &str = "fleet.pinnace.dev/v1alpha1";

/// A request for a join token, and the answer to it. The secret is in the answer only; the hub keeps its hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JoinToken {
    /// [`API_VERSION`].
    pub api_version: String,
    /// `JoinToken`.
    pub kind: String,
    /// What is asked for.
    pub spec: JoinTokenSpec,
    /// The hub's answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<JoinTokenStatus>,
}

/// What a token allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JoinTokenSpec {
    /// The one cluster that may join with it.
    pub cluster: String,
    /// Labels of the Cluster object.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// `spec.provider` of the Cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub provider: String,
    /// `spec.region` of the Cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub region: String,
    /// `spec.zones` of the Cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
    /// Seconds from now until it expires.
    pub ttl_seconds: i64,
    /// `HOST:PORT` in the join line, instead of the hub's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hub: Option<String>,
}

/// The token.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JoinTokenStatus {
    /// What to run on the member.
    pub join_line: String,
    /// RFC 3339.
    pub expires: String,
    /// What joining needs besides; absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// The tokens that have not expired.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenTokens {
    /// By cluster, those made first first.
    pub items: Vec<OpenToken>,
}

/// A token without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenToken {
    /// The beginning of its hash.
    pub id: String,
    /// The one cluster that may join with it.
    pub cluster: String,
    /// Seconds since it was made; absent: made before the hub noted that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<i64>,
    /// Seconds until it expires.
    pub expires_in_seconds: i64,
    /// An agent joined with it; only the same agent may repeat that.
    pub used: bool,
}

impl JoinToken {
    /// A request.
    #[must_use]
    pub fn request(spec: JoinTokenSpec) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: "JoinToken".to_owned(),
            spec,
            status: None,
        }
    }
}

/// How a cluster of state `HubBehind` is reconciled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReconcileMode {
    /// The hub wins; what it does not want becomes tombstones.
    PushHub,
    /// The member keeps what the hub does not want; it is no longer managed.
    KeepMember,
}

/// What `reconcile` with `PushHub` would take out of a member, as far as its agent said what it holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReconcilePreview {
    /// Objects to be deleted, if the agent made them.
    #[serde(default)]
    pub deleted: Vec<String>,
    /// Objects that stay and are managed no longer.
    #[serde(default)]
    pub released: Vec<String>,
}

/// Body of `clusters/NAME/` with `reconcile`, `revoke`, `replace` and `remove`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterAction {
    /// For `reconcile`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ReconcileMode>,
}

/// Objects of one held change that are listed.
pub const LOSSES_SHOWN: usize = 20;

/// Answer of `heldchanges`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldChanges {
    /// What waits, oldest first.
    pub items: Vec<HeldChange>,
}

/// A change that waits because it would delete too much.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldChange {
    /// What to confirm.
    pub id: u32,
    /// How long it waits.
    pub age_seconds: u64,
    /// How many objects it would delete.
    pub count: usize,
    /// The first of them: cluster and object.
    pub losses: Vec<String>,
    /// The DELETE that was refused; absent: what waits goes on by itself once it is confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A file on its way: answer of `clusters/NAME/export`, body of `clusters/NAME/receipt`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parcel {
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The bytes in base64.
    pub file: String,
}

/// Answer of `explanations/KIND/NAMESPACE/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// `Deployment.apps prod/web`.
    pub object: String,
    /// What the hub decided and why, one sentence each, most general first.
    pub decisions: Vec<Decision>,
    /// Each cluster that is, was or will be a target, by name.
    pub clusters: Vec<ClusterState>,
    /// Policies of the namespace and cluster-scoped ones, and what each has to do with the object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<PolicyVerdict>,
    /// Affinity groups in their order, or the only attempt: why each was used or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupVerdict>,
    /// Filter, score, estimate and division of every cluster, by name; empty if no policy holds the object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placement: Vec<Verdict>,
}

/// Answer of `renderings/KIND/NAMESPACE/NAME/CLUSTER`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rendering {
    /// `Deployment.apps prod/web`.
    pub object: String,
    /// The cluster.
    pub cluster: String,
    /// The template without what belongs to the hub.
    pub template: serde_json::Value,
    /// What the cluster shall have; absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<serde_json::Value>,
    /// Why it shall have nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// What the cluster last said; absent: nothing yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,
}

/// What a cluster last said of an object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Observed {
    /// The manifest it speaks of; absent if the hub does not keep it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<serde_json::Value>,
    /// The status in the member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<serde_json::Value>,
    /// Stable code.
    pub reason: String,
    /// How old this knowledge is, in seconds.
    pub age_seconds: i64,
    /// The age is a lower bound.
    #[serde(default)]
    pub at_least: bool,
}

/// One decision about the object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// Stable code.
    pub reason: String,
    /// The cluster it is about, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// For people.
    pub message: String,
}

/// State of the object in one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterState {
    /// The cluster.
    pub cluster: String,
    /// One word: `Applied`, `Waiting`, `Conflict`, …
    pub state: String,
    /// Stable code.
    pub reason: String,
    /// For people; may be empty.
    pub message: String,
    /// How old this knowledge is, in seconds; absent if nothing was ever heard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<i64>,
    /// The age is a lower bound.
    #[serde(default)]
    pub at_least: bool,
}
