//! What an agent tells of its member besides objects: how the API stands, and where there is room, node by node.
//!
//! Both are states, not differences: they are told after each welcome and when they change, so a lost one is made
//! good by the next.

use serde::{Deserialize, Serialize};

use crate::limits;
use crate::reason::Code;

/// How the member's API stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MemberApi {
    /// It answers and is ready.
    Healthy,
    /// It answers, and says of itself that it is not ready, or answers with errors.
    NotHealthy,
    /// It does not answer.
    Unreachable,
    /// It answers and is another cluster than the one enrolled.
    Changed,
}

/// How the member's API stands, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberNote {
    /// The state.
    pub api: MemberApi,
    /// Why, by code; [`crate::reason::Reason::Healthy`] when it is.
    pub reason: Code,
    /// For people, at most [`limits::MESSAGE_BYTES_MAX`].
    pub message: String,
}

/// Free room by groups of nodes that look the same to a scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// Resource names in order; the columns of [`NodeRoom::free`]. `cpu` counts in thousandths, every other in whole
    /// units (bytes, devices, pods), rounded down.
    pub resources: Vec<String>,
    /// Labels that nodes carry, each once.
    pub labels: Vec<(String, String)>,
    /// The groups, most free `cpu` first.
    pub nodes: Vec<NodeRoom>,
    /// Ready nodes that found no place in `nodes`.
    pub more: u32,
    /// Addons found, by name.
    pub addons: Vec<Addon>,
}

/// Nodes that look the same to a scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRoom {
    /// How many.
    pub count: u32,
    /// What each has free at least, by the columns of [`Room::resources`].
    pub free: Vec<u64>,
    /// Positions in [`Room::labels`].
    pub labels: Vec<u32>,
    /// Taints that keep pods away.
    pub taints: Vec<Taint>,
}

/// A taint with effect `NoSchedule` or `NoExecute`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Taint {
    /// Key.
    pub key: String,
    /// Value, often empty.
    pub value: String,
    /// Effect.
    pub effect: String,
}

/// Something that clusters often have and policies ask for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Addon {
    /// For example `ingress-nginx`, `cert-manager`, `metrics-server`.
    pub name: String,
    /// Version as its image tag says; empty if unknown.
    pub version: String,
}

impl Room {
    pub(super) fn within_limits(&self) -> bool {
        let columns = self.resources.len();
        columns <= limits::ROOM_RESOURCES_MAX
            && self.labels.len() <= limits::ROOM_LABELS_MAX
            && self.nodes.len() <= limits::ROOM_GROUPS_MAX
            && self.addons.len() <= limits::ROOM_ADDONS_MAX
            && self.nodes.iter().all(|n| {
                n.free.len() == columns && n.labels.iter().all(|l| (*l as usize) < self.labels.len())
            })
    }
}
