//! Who is there: the one table of what was heard of each cluster in this life of the hub.
//!
//! The courier writes it, views and status read it. It is lost with the process on purpose: a hub that was away
//! heard nobody, so silence is counted from its start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hub_core::liveness::{MemberApi, Ready, Thresholds, Watched};
use shared::ids::ClusterName;
use shared::time::Millis;

/// What was heard of each cluster.
#[derive(Debug)]
pub struct Presence {
    started: Millis,
    thresholds: Thresholds,
    clusters: Mutex<BTreeMap<ClusterName, Watched>>,
}

/// A cluster whose condition Ready is to be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turned {
    /// The cluster.
    pub cluster: ClusterName,
    /// Its status now.
    pub ready: Ready,
    /// The reason, one word.
    pub reason: &'static str,
}

impl Presence {
    /// Starts counting now.
    pub fn new(now: Millis, thresholds: Thresholds) -> Self {
        Self {
            started: now,
            thresholds,
            clusters: Mutex::default(),
        }
    }

    /// A sealed message of the cluster arrived.
    pub fn heard(&self, cluster: &ClusterName, now: Millis) {
        self.table()
            .entry(cluster.clone())
            .or_default()
            .presence
            .heard(now);
    }

    /// The cluster's session closed.
    pub fn closed(&self, cluster: &ClusterName, now: Millis) {
        self.table()
            .entry(cluster.clone())
            .or_default()
            .presence
            .closed(now);
    }

    /// What the agent says about the API of its member.
    pub fn member_api(&self, cluster: &ClusterName, api: MemberApi) {
        self.table()
            .entry(cluster.clone())
            .or_default()
            .presence
            .member_api = api;
    }

    /// How long the cluster has been silent; zero when it is not.
    pub fn silent_for(&self, cluster: &ClusterName, now: Millis) -> Duration {
        let silent = match self.table().get(cluster) {
            Some(watched) => watched.presence.silent_for(self.started, now),
            None => now.since(self.started),
        };
        Duration::from_millis(silent)
    }

    /// Clusters that are silent now.
    pub fn silent(&self, now: Millis) -> BTreeSet<ClusterName> {
        let table = self.table();
        let silent = table
            .iter()
            .filter(|(_, watched)| watched.presence.silent_since(self.started, now).is_some());
        silent.map(|(cluster, _)| cluster.clone()).collect()
    }

    /// How long ago the cluster last said something; none: nothing was heard in this life of the hub.
    pub fn heard_ago(&self, cluster: &ClusterName, now: Millis) -> Option<Duration> {
        let heard = self.table().get(cluster)?.presence.last_heard?;
        Some(Duration::from_millis(now.since(heard)))
    }

    /// Another agent has the name: its condition is to be recorded anew.
    pub fn begin_anew(&self, cluster: &ClusterName) {
        if let Some(watched) = self.table().get_mut(cluster) {
            let presence = watched.presence;
            *watched = Watched::default();
            watched.presence = presence;
        }
    }

    /// Looks at every enrolled cluster, forgets the others, and answers those whose condition changed. `known`:
    /// the enrolled clusters and whether each was ever heard of, also in former lives of the hub.
    pub fn turn<'a>(
        &self,
        known: impl IntoIterator<Item = (&'a ClusterName, bool)>,
        now: Millis,
    ) -> Vec<Turned> {
        let mut table = self.table();
        let mut former = std::mem::take(&mut *table);
        let mut turned = Vec::new();
        for (cluster, ever_heard) in known {
            let mut watched = former.remove(cluster).unwrap_or_default();
            watched.presence.ever_heard |= ever_heard;
            if let Some((ready, reason)) = watched.turn(self.started, now, self.thresholds) {
                turned.push(Turned {
                    cluster: cluster.clone(),
                    ready,
                    reason,
                });
            }
            table.insert(cluster.clone(), watched);
        }
        turned
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<ClusterName, Watched>> {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_clusters_are_forgotten_and_changes_told_once() {
        let presence = Presence::new(Millis(0), Thresholds::default());
        let name = ClusterName::new("shop-1").unwrap();
        let other = ClusterName::new("shop-2").unwrap();
        presence.heard(&name, Millis(10));
        presence.heard(&other, Millis(10));
        let turned = presence.turn([(&name, true)], Millis(20));
        assert_eq!(
            turned,
            [Turned {
                cluster: name.clone(),
                ready: Ready::True,
                reason: "ClusterReady"
            }]
        );
        assert_eq!(presence.turn([(&name, true)], Millis(30)), []);
        assert_eq!(
            presence.heard_ago(&name, Millis(30)),
            Some(Duration::from_millis(20))
        );
        assert_eq!(presence.silent_for(&name, Millis(30)), Duration::ZERO);
        assert_eq!(presence.silent_for(&other, Millis(30)), Duration::from_millis(30));
    }

    #[test]
    fn a_cluster_of_a_former_life_gets_time_to_come_back() {
        let presence = Presence::new(Millis(5), Thresholds::default());
        let name = ClusterName::new("shop-1").unwrap();
        assert_eq!(presence.turn([(&name, true)], Millis(5)), []);
        assert_eq!(presence.heard_ago(&name, Millis(9)), None);
        let turned = presence.turn([(&name, true)], Millis(5 + 30_000));
        assert_eq!(
            (turned[0].ready, turned[0].reason),
            (Ready::Unknown, "ClusterStatusUnknown")
        );
    }
}
