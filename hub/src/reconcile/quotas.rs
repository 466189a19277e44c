//! FederatedResourceQuotas: what is used goes into their status, and their static assignments go to the clusters as
//! ResourceQuotas.
//!
//! The works of a quota belong to a name that no binding can have (`NAME.federatedresourcequota`), so they are found again
//! when the quota is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hub_core::quota::{self, Quota};
use serde_json::{Value, json};
use shared::ids::ClusterName;
use shared::set::{DeleteMode, Entry};

use super::{BindingRef, Reconciler, limits, report_trouble};
use crate::store::fleet::{Adoption, Target};
use crate::store::{CommitError, Expect, Object, Op, ResourceId, StoreError};

/// End of the name under which the works of a quota are kept.
const SUFFIX: &str = ".federatedresourcequota";

/// Are the works under this name those of a quota?
pub(super) fn is_of_quota(binding: &BindingRef) -> bool {
    binding.name.ends_with(SUFFIX)
}

fn quotas() -> ResourceId {
    ResourceId::new("policy.karmada.io", "federatedresourcequotas")
}

impl Reconciler {
    /// Looks at quotas by timer and poke, until dropped.
    pub(super) async fn quotas_forever(&self) {
        // Names under which works of quotas are kept, learnt once; a quota that goes later was seen before.
        let mut known = None;
        loop {
            drop(self.quotas.take());
            if let Err(error) = self.quotas_pass(&mut known).await {
                report_trouble("quotas", "pass", &error);
            }
            tokio::time::sleep(limits::QUOTAS_PAUSE).await;
            self.quotas.wait(self.settings.resync_every).await;
        }
    }

    /// Brings every quota's works and status up to date.
    pub(super) async fn quotas_pass(
        &self,
        known: &mut Option<BTreeSet<BindingRef>>,
    ) -> Result<(), StoreError> {
        let known = match known {
            Some(known) => known,
            None => {
                let all = self.store.all_targets()?.into_iter().map(|target| target.binding);
                known.insert(all.filter(is_of_quota).collect())
            }
        };
        let stored = self.store.list(&quotas(), None).items;
        let used = self.used(&stored);
        let mut there = BTreeSet::new();
        for stored in stored {
            let binding = BindingRef {
                namespace: stored.namespace.clone(),
                name: format!("{}{SUFFIX}", stored.name),
            };
            if let Err(error) = self.quota(&stored, &binding, &used).await {
                tracing::debug!(quota = stored.name, %error, "tried again with the next pass");
                self.quotas.remember([()]);
            }
            there.insert(binding);
        }
        for binding in known.difference(&there) {
            self.assign(binding, Vec::new()).await?;
        }
        *known = there;
        Ok(())
    }

    /// What the bindings of the namespaces with quotas use.
    fn used(&self, quotas: &[Arc<Object>]) -> quota::Ledger {
        let mut ledger = quota::Ledger::default();
        let namespaces: BTreeSet<&str> = quotas.iter().map(|quota| quota.namespace.as_str()).collect();
        let bindings = ResourceId::new("work.karmada.io", "resourcebindings");
        for namespace in namespaces {
            for binding in self.store.list(&bindings, Some(namespace)).items {
                ledger.note(namespace, &binding.name, Some(&binding.value()));
            }
        }
        ledger
    }

    async fn quota(
        &self,
        stored: &Object,
        binding: &BindingRef,
        used: &quota::Ledger,
    ) -> Result<(), CommitError> {
        let object = stored.value();
        self.assign(binding, works(&object)).await?;
        let targets = self.store.targets_of(binding)?;
        let status = status(&object, &used.used(&stored.namespace), &targets);
        if object["status"] == status {
            return Ok(());
        }
        let mut new = object;
        new["status"] = status;
        let put = Op::Put {
            resource: quotas(),
            namespace: stored.namespace.clone(),
            name: stored.name.clone(),
            expect: Expect::Revision(stored.revision),
            object: new,
        };
        match self.store.commit(vec![put]).await {
            // Somebody was faster; the pass that follows their write looks again.
            Ok(_) | Err(CommitError::Conflict { .. } | CommitError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Adopts the works of a quota where they differ, and withdraws those it no longer wants.
    async fn assign(
        &self,
        binding: &BindingRef,
        wanted: Vec<(ClusterName, Entry, Arc<[u8]>)>,
    ) -> Result<(), StoreError> {
        let held: BTreeMap<ClusterName, Arc<Entry>> = self
            .store
            .targets_of(binding)?
            .into_iter()
            .map(|target| (target.cluster, target.entry))
            .collect();
        let gone = held
            .iter()
            .filter(|(cluster, _)| wanted.iter().all(|(other, _, _)| other != *cluster));
        let mut adoptions: Vec<Adoption> = gone
            .map(|(cluster, entry)| Adoption {
                cluster: cluster.clone(),
                upserts: Vec::new(),
                withdraw: vec![(entry.key.clone(), DeleteMode::Delete)],
            })
            .collect();
        let new = wanted
            .into_iter()
            .filter(|(cluster, entry, _)| held.get(cluster).is_none_or(|held| **held != *entry));
        adoptions.extend(new.map(|(cluster, entry, content)| Adoption {
            cluster,
            upserts: vec![(Arc::new(entry), content)],
            withdraw: Vec::new(),
        }));
        if adoptions.is_empty() {
            return Ok(());
        }
        for (cluster, answer) in self.store.adopt(binding, adoptions).await? {
            if let Err(refusal) = answer {
                tracing::debug!(%cluster, %refusal, "the assignment waits");
            }
        }
        Ok(())
    }
}

/// The ResourceQuota of each cluster that has a static assignment.
fn works(quota: &Value) -> Vec<(ClusterName, Entry, Arc<[u8]>)> {
    let assignments = quota["spec"]["staticAssignments"]
        .as_array()
        .into_iter()
        .flatten();
    assignments
        .filter_map(|assignment| {
            let cluster = ClusterName::new(assignment["clusterName"].as_str()?).ok()?;
            let (entry, content) = quota::assignment(quota, &assignment["hard"]);
            Some((cluster, entry, content))
        })
        .collect()
}

/// The status: what is used of the whole, and what the clusters said of their parts.
fn status(object: &Value, used: &hub_core::estimate::Resources, targets: &[Target]) -> Value {
    let quota = Quota::read(object);
    let mut parts: Vec<Value> = targets
        .iter()
        .filter_map(|target| {
            let report = target.report.as_ref()?;
            let said: Value = serde_json::from_slice(report.status.as_ref()?).ok()?;
            Some(json!({"clusterName": target.cluster.as_str(), "hard": said["hard"], "used": said["used"]}))
        })
        .collect();
    parts.sort_by_key(|part| part["clusterName"].as_str().unwrap_or_default().to_owned());
    let mut status = json!({"overall": object["spec"]["overall"], "overallUsed": quota.overall_used(used)});
    if !parts.is_empty() {
        status["aggregatedStatus"] = json!(parts);
    }
    status
}
