//! Withdrawals that would take too much out of the fleet wait here for `pinnace confirm`.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use hub_core::breaker::{Breaker, Loss, Sizes};
use hub_core::plan::{TemplatePlan, Withdrawal};
use shared::ids::ClusterName;
use shared::set::DeleteMode;

use super::Reconciler;
use crate::clock;
use crate::store::StoreError;
use crate::store::fleet::AdoptRefusal;

/// A change that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldChange {
    /// What to confirm.
    pub id: u32,
    /// How long it waits, in seconds.
    pub age_seconds: u64,
    /// Clusters and objects, `CLUSTER: KIND NAMESPACE/NAME`.
    pub losses: Vec<String>,
}

impl Reconciler {
    /// What of a plan's withdrawals may be done now, and if not all, the refusal of one that waits.
    pub(super) fn let_go<'a>(
        &self,
        plan: &'a TemplatePlan,
    ) -> Result<(Vec<&'a Withdrawal>, Option<AdoptRefusal>), StoreError> {
        let wanted: BTreeSet<&ClusterName> = plan.works.iter().map(|w| &w.cluster).collect();
        if plan.withdraw.is_empty() && wanted.is_empty() {
            return Ok((Vec::new(), None));
        }
        let clusters = if plan.withdraw.is_empty() {
            0
        } else {
            self.store.enrolments()?.iter().filter(|e| !e.revoked).count()
        };
        let mut go = Vec::new();
        let mut refused = None;
        for withdrawal in &plan.withdraw {
            let loss = loss(withdrawal);
            let entries = match withdrawal.mode {
                DeleteMode::Delete => self
                    .store
                    .current_set(&loss.cluster)?
                    .map_or(0, |current| current.set.entries().len()),
                // Nothing is deleted.
                DeleteMode::Release => {
                    go.push(withdrawal);
                    continue;
                }
            };
            let sizes = Sizes {
                entries: entries as u64,
                clusters: clusters as u64,
            };
            match self.breaker().weigh(&loss, sizes, clock::monotonic()) {
                Ok(()) => go.push(withdrawal),
                Err(id) => {
                    refused.get_or_insert(AdoptRefusal::Held {
                        cluster: loss.cluster,
                        key: loss.key,
                        id,
                    });
                }
            }
        }
        let mut breaker = self.breaker();
        if !breaker.held().is_empty() {
            for work in &plan.works {
                breaker.handle_kept(&Loss {
                    cluster: work.cluster.clone(),
                    key: work.entry.key.clone(),
                });
            }
        }
        Ok((go, refused))
    }

    /// These withdrawals were adopted.
    pub(super) fn lost(&self, withdrawals: &[&Withdrawal]) {
        let mut breaker = self.breaker();
        for withdrawal in withdrawals.iter().filter(|w| w.mode == DeleteMode::Delete) {
            breaker.handle_lost(&loss(withdrawal), clock::monotonic());
        }
    }

    /// Changes that wait, oldest first.
    pub fn held(&self) -> Vec<HeldChange> {
        let now = clock::monotonic();
        let breaker = self.breaker();
        breaker
            .held()
            .iter()
            .map(|(id, held)| HeldChange {
                id: *id,
                age_seconds: now.since(held.since) / 1_000,
                losses: held
                    .losses
                    .iter()
                    .map(|l| format!("{}: {}", l.cluster, l.key))
                    .collect(),
            })
            .collect()
    }

    /// A person confirms what waits under an id; how many objects that are. None: nothing does.
    pub fn confirm(&self, id: u32) -> Option<usize> {
        let confirmed = self.breaker().confirm(id)?;
        self.mark_world();
        Some(confirmed.len())
    }

    fn breaker(&self) -> std::sync::MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn loss(withdrawal: &Withdrawal) -> Loss {
    Loss {
        cluster: withdrawal.cluster.clone(),
        key: withdrawal.key.clone(),
    }
}
