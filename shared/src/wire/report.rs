//! Reports: what the agent observed and did, coalesced and numbered.
//!
//! Ages are monotonic milliseconds at the moment of sending, never the member's clock; the hub computes times.
//! A report holds the state of each object it names, not a difference: a later one replaces an earlier one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::as_bytes;
use crate::ids::{BootId, Digest, ObjectKey, ReportSeq, Sequence};
use crate::limits;
use crate::reason::Code;

/// One report. The agent keeps at most one unanswered and repeats it until its `ReportAck`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Number within the session, from 1, without gaps.
    pub report_seq: ReportSeq,
    /// The process that observed.
    pub boot: BootId,
    /// Objects whose state changed since the last answered report.
    pub objects: Vec<ObjectReport>,
    /// Tombstones executed since the last answered report.
    pub tombstones_done: Vec<TombstoneDone>,
    /// Every stray, if the list changed; `None`: as before.
    pub strays: Option<Vec<ObjectKey>>,
    /// Capacity, if it changed materially.
    pub capacity: Option<Capacity>,
    /// With this report everything held has been reported in this session.
    pub full: bool,
}

/// State of one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectReport {
    /// The object.
    pub key: ObjectKey,
    /// Content that the state belongs to.
    pub digest: Digest,
    /// Template generation that the state belongs to.
    pub template_generation: u64,
    /// Whether it is in the member as wanted.
    pub applied: ApplyState,
    /// Its health.
    pub health: Health,
    /// Why it is so.
    pub reason: Code,
    /// For people, at most [`limits::MESSAGE_BYTES_MAX`].
    pub message: String,
    /// `metadata.uid` in the member; empty if it is not there.
    pub uid: String,
    /// Reflected status as JSON, if there is one; at most [`limits::STATUS_BYTES_MAX`].
    #[serde(with = "as_bytes")]
    pub status: Vec<u8>,
    /// How long it has been so, in milliseconds.
    pub age_ms: u64,
    /// The age began before this boot, so it is a lower bound.
    pub age_is_lower_bound: bool,
}

/// Whether an object is in the member as wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ApplyState {
    /// Not tried, or waiting for something.
    Pending,
    /// As wanted.
    Applied,
    /// Tried and refused.
    Failed,
    /// Suspended by the entry.
    Suspended,
}

/// Health of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Health {
    /// Not known.
    Unknown,
    /// Healthy.
    Healthy,
    /// Not healthy.
    Unhealthy,
}

/// A tombstone that the agent carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TombstoneDone {
    /// The object.
    pub key: ObjectKey,
    /// The tombstone's own sequence; it ends only that tombstone.
    pub sequence: Sequence,
    /// What happened.
    pub outcome: TombstoneOutcome,
}

/// What became of a tombstone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TombstoneOutcome {
    /// We created it and it is gone.
    Deleted,
    /// It stays and we no longer manage it.
    Released,
    /// It was not there, or never ours.
    Absent,
}

/// What the member has and uses. Quantities are Kubernetes quantity text by resource name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capacity {
    /// `gitVersion`.
    pub kubernetes_version: String,
    /// All nodes.
    pub nodes_total: u32,
    /// Nodes that are ready.
    pub nodes_ready: u32,
    /// Sum over ready nodes.
    pub allocatable: BTreeMap<String, String>,
    /// Sum of requests of pods that are bound to a node.
    pub allocated: BTreeMap<String, String>,
    /// Sum of requests of pods that wait for a node.
    pub allocating: BTreeMap<String, String>,
    /// Nodes by resource model.
    pub models: Vec<ModelCount>,
    /// Kinds that the member's API serves; empty: as reported before.
    pub apis: Vec<ApiEnablement>,
}

/// Nodes of one grade of the resource models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelCount {
    /// Grade.
    pub grade: u32,
    /// Nodes.
    pub count: u32,
}

/// Kinds of one group and version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiEnablement {
    /// For example `apps/v1`.
    pub group_version: String,
    /// Kind and plural resource name.
    pub resources: Vec<(String, String)>,
}

impl Report {
    pub(super) fn within_limits(&self) -> bool {
        let max = limits::REPORT_OBJECTS_MAX;
        self.objects.len() <= max
            && self.tombstones_done.len() <= max
            && self.strays.as_ref().is_none_or(|s| s.len() <= max)
            && self.objects.iter().all(|o| {
                o.message.len() <= limits::MESSAGE_BYTES_MAX && o.status.len() <= limits::STATUS_BYTES_MAX
            })
    }
}
