//! What is written down about a running member, so that another task finds it again.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::node::RealNode;
use crate::process::Process;
use crate::workspace;

/// Ports of a member, all on loopback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ports {
    /// etcd for its clients.
    pub etcd: u16,
    /// etcd for its peers, of which there are none.
    pub etcd_peer: u16,
    /// The Kubernetes API.
    pub api: u16,
    /// The controller manager's health.
    pub controllers: u16,
    /// The scheduler's health.
    pub scheduler: u16,
    /// What kwok serves in a kubelet's place.
    pub kwok: u16,
    /// The proxy an agent dials.
    pub proxy: u16,
    /// The proxy's orders.
    pub control: u16,
}

/// A member's file `state.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Its ports.
    pub ports: Ports,
    /// Nodes it was made with.
    pub nodes: u32,
    /// The cluster was there before and is only used: nothing but the proxy is started and stopped.
    #[serde(default)]
    pub existing: bool,
    /// Its real node, if it was made with one.
    #[serde(default)]
    pub real: Option<RealNode>,
    /// Its processes in the order of their start.
    pub processes: Vec<Process>,
    /// Whether it once was ready: a start that broke off leaves `false`.
    pub ready: bool,
}

/// The directory of all members.
///
/// # Errors
/// When the workspace is not found.
pub(super) fn members() -> Result<PathBuf> {
    Ok(workspace::target()?.join("members"))
}

/// The directory of one member.
///
/// # Errors
/// When the name is no DNS label (it becomes a directory and a cluster's name).
pub(super) fn directory(name: &str) -> Result<PathBuf> {
    let fits = (1..=63).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-');
    if !fits {
        bail!("{name:?} cannot be a member's name: at most 63 of a-z, 0-9 and -, not - at an end");
    }
    Ok(members()?.join(name))
}

/// Reads a member's state; `None` if there is none.
///
/// # Errors
/// When it is there and cannot be read.
pub(super) fn read(directory: &Path) -> Result<Option<State>> {
    let file = directory.join("state.json");
    match std::fs::read(&file) {
        Ok(text) => Ok(Some(
            serde_json::from_slice(&text).with_context(|| format!("{} is damaged", file.display()))?,
        )),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", file.display())),
    }
}

/// Writes a member's state, whole or not at all.
///
/// # Errors
/// When the disk refuses.
pub(super) fn write(directory: &Path, state: &State) -> Result<()> {
    let unfinished = directory.join("state.json.unfinished");
    std::fs::write(&unfinished, serde_json::to_vec_pretty(state)?)
        .and_then(|()| std::fs::rename(&unfinished, directory.join("state.json")))
        .with_context(|| format!("the state in {} cannot be written", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_dns_labels() {
        for name in ["m1", "shop-17", "a"] {
            assert!(directory(name).is_ok(), "{name}");
        }
        for name in ["", "-a", "a-", "../x", "A", "a.b", &"x".repeat(64)] {
            assert!(directory(name).is_err(), "{name}");
        }
    }
}
