//! Records the condition Ready of clusters, makes their Cluster objects when they join, and marks what silence
//! changes: templates whose status a dark cluster no longer holds back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use shared::ids::ClusterName;
use shared::reason::Reason;
use tokio::time::MissedTickBehavior;

use super::metadata::fill_in;
use super::world::{room_facts, world_facts};
use super::{Reconciler, Turned, limits, report_trouble};
use crate::clock;
use crate::store::fleet::{ClusterRow, Enrolment, ReadyFact};
use crate::store::{CommitError, Expect, Op, ResourceId, StoreError};

fn says_revoked(row: &ClusterRow) -> bool {
    let ready = row.facts.ready.as_ref();
    ready.is_some_and(|ready| ready.reason == Reason::Revoked.code())
}

impl Reconciler {
    /// Looks at the clusters by timer and poke, until dropped.
    pub(super) async fn liveness_forever(&self) {
        let mut ticks = tokio::time::interval(limits::LIVENESS_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = LastLook::default();
        loop {
            if let Err(error) = self.liveness_turn(&mut last).await {
                report_trouble("liveness", "clusters", &error);
            }
            ticks.tick().await;
            crate::memory::give_back();
        }
    }

    /// One look. Rows are read only after a notice about a cluster; an idle fleet costs nothing here.
    pub(super) async fn liveness_turn(&self, last: &mut LastLook) -> Result<(), StoreError> {
        let now = clock::monotonic();
        if !self.clusters.take().is_empty()
            && let Err(error) = self.look_at_rows(last).await
        {
            self.clusters.mark([()]);
            return Err(error);
        }
        self.settle_promises();
        let known = last.known.iter().map(|(cluster, heard)| (cluster, *heard));
        for turned in self.presence.turn(known, now) {
            self.record_ready(turned).await?;
            self.tainting.mark([()]);
        }
        let grace = self.settings.status_grace;
        // A revoked cluster will never catch up; nothing waits for it.
        let beyond: BTreeSet<ClusterName> = last
            .known
            .keys()
            .filter(|cluster| self.presence.silent_for(cluster, now) > grace)
            .chain(&last.revoked)
            .cloned()
            .collect();
        for cluster in beyond.symmetric_difference(&last.dark) {
            let targets = self.store.targets_on(cluster)?;
            self.bindings
                .mark(targets.into_iter().map(|target| target.binding));
        }
        last.dark = beyond;
        if let Err(error) = self.taints_turn().await {
            self.tainting.mark([()]);
            return Err(error);
        }
        Ok(())
    }

    async fn look_at_rows(&self, last: &mut LastLook) -> Result<(), StoreError> {
        let rows = self.store.all_facts()?;
        self.make_cluster_objects(&rows).await?;
        let served = world_facts(&rows);
        if last.served.replace(served) != Some(served) {
            self.mark_world();
        }
        let room = room_facts(&rows);
        let differs = |cluster: &&String| last.room.get(*cluster) != room.get(*cluster);
        let changed: BTreeSet<String> = room
            .keys()
            .chain(last.room.keys())
            .filter(differs)
            .cloned()
            .collect();
        if !changed.is_empty() {
            // What is placed stays where it is; what could not be placed may fit now.
            self.room_changed.store(true, Ordering::SeqCst);
            self.promises_reported(&changed);
            self.room_changed_in(&changed);
            last.room = room;
        }
        for row in rows.iter().filter(|row| row.revoked && !says_revoked(row)) {
            self.record_revoked(&row.cluster).await?;
        }
        // A name that was known and has no condition was taken by another agent in between.
        let anew = |row: &&ClusterRow| row.facts.ready.is_none() && last.known.contains_key(&row.cluster);
        for row in rows.iter().filter(anew) {
            self.presence.begin_anew(&row.cluster);
        }
        let (revoked, known): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.revoked);
        last.revoked = revoked.into_iter().map(|row| row.cluster).collect();
        self.revoked
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .clone_from(&last.revoked);
        last.known = known
            .into_iter()
            .map(|row| (row.cluster, row.last_seen.is_some()))
            .collect();
        Ok(())
    }

    /// Nobody is listened to under this name any more; that is known, not silence.
    async fn record_revoked(&self, cluster: &ClusterName) -> Result<(), StoreError> {
        let now = clock::wall();
        self.store
            .update_facts(cluster, None, move |facts| {
                facts.ready = Some(ReadyFact {
                    status: "False".to_owned(),
                    reason: Reason::Revoked.code().to_owned(),
                    message: "the enrolment was revoked; the workloads stay as they are".to_owned(),
                    since: now,
                });
            })
            .await?;
        Ok(())
    }

    async fn record_ready(&self, turned: Turned) -> Result<(), StoreError> {
        let now = clock::wall();
        let message = match turned.reason {
            "ClusterReady" => "the agent is connected and the cluster's API is healthy",
            "ClusterNotReady" => "the agent is connected, the cluster's API is not healthy",
            "ClusterNotReachable" => "the agent is connected, it does not reach the cluster's API",
            "ClusterStatusNeverUpdated" => "no agent of this cluster was ever heard",
            _ => "nothing is heard of the cluster; what it runs is unknown and nothing is withdrawn",
        };
        self.store
            .update_facts(&turned.cluster, None, move |facts| {
                let status = turned.ready.as_str();
                let since = match &facts.ready {
                    Some(ready) if ready.status == status => ready.since,
                    _ => now,
                };
                facts.ready = Some(ReadyFact {
                    status: status.to_owned(),
                    reason: turned.reason.to_owned(),
                    message: message.to_owned(),
                    since,
                });
            })
            .await?;
        Ok(())
    }

    /// Makes the Cluster object of each new enrolment. New is one whose condition was never recorded: an object
    /// that a user deleted later is not made again, since that would bring its works back.
    async fn make_cluster_objects(&self, rows: &[ClusterRow]) -> Result<(), StoreError> {
        let resource = ResourceId::new("cluster.karmada.io", "clusters");
        for row in rows.iter().filter(|row| row.facts.ready.is_none()) {
            let name = row.cluster.to_string();
            let Some(enrolment) = self.store.enrolment(&row.cluster)? else {
                continue;
            };
            if enrolment.revoked || self.store.get(&resource, "", &name).is_some() {
                continue;
            }
            let op = Op::Put {
                resource: resource.clone(),
                namespace: String::new(),
                name,
                expect: Expect::Absent,
                object: cluster_object(&enrolment),
            };
            match self.store.commit(vec![op]).await {
                Ok(_) | Err(CommitError::AlreadyExists { .. }) => {}
                Err(CommitError::Store(error)) => return Err(error),
                Err(error) => {
                    tracing::warn!(cluster = %enrolment.cluster, %error, "no Cluster object could be made")
                }
            }
        }
        Ok(())
    }
}

/// What the last look found.
#[derive(Debug, Default)]
pub(super) struct LastLook {
    /// Enrolled clusters, and whether each was ever heard of.
    known: BTreeMap<ClusterName, bool>,
    /// Clusters whose enrolment was revoked.
    revoked: BTreeSet<ClusterName>,
    /// Clusters silent beyond the grace, and revoked ones.
    dark: BTreeSet<ClusterName>,
    /// Who is enrolled and what they serve, as a fingerprint.
    served: Option<u64>,
    /// What each cluster has and uses, as a fingerprint.
    room: BTreeMap<String, u64>,
}

/// The Cluster object of an enrolment, with what the token said of it.
fn cluster_object(enrolment: &Enrolment) -> Value {
    let terms = &enrolment.terms;
    let mut spec = json!({"id": enrolment.kube_system_uid, "syncMode": "Pull"});
    for (field, value) in [("provider", &terms.provider), ("region", &terms.region)] {
        if !value.is_empty() {
            spec[field] = json!(value);
        }
    }
    if !terms.zones.is_empty() {
        spec["zones"] = json!(terms.zones);
    }
    let mut object = json!({
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": enrolment.cluster.as_str()},
        "spec": spec,
    });
    if !terms.labels.is_empty() {
        object["metadata"]["labels"] = json!(terms.labels);
    }
    fill_in(&mut object, None);
    object
}
