//! Withdrawals that would take too much out of the fleet wait here for `pinnace confirm`.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use hub_core::breaker::{Breaker, Loss, Sizes};
use hub_core::plan::{TemplatePlan, Withdrawal};
use shared::set::DeleteMode;

use super::Reconciler;
use crate::clock;
use crate::store::fleet::AdoptRefusal;
use crate::store::{BindingRef, StoreError};

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

/// What of a plan's withdrawals may be done now.
#[derive(Default)]
pub(super) struct LetGo<'a> {
    /// These may.
    pub(super) withdrawals: Vec<&'a Withdrawal>,
    /// Those of them that count as losses once they are adopted.
    losses: Vec<Loss>,
    /// The refusal of one that waits.
    pub(super) refused: Option<AdoptRefusal>,
}

impl Reconciler {
    /// Weighs what a plan takes out of clusters.
    pub(super) fn let_go<'a>(
        &self,
        binding: &BindingRef,
        plan: &'a TemplatePlan,
    ) -> Result<LetGo<'a>, StoreError> {
        self.note_kept(plan);
        let mut go = LetGo::default();
        if plan.withdraw.is_empty() {
            return Ok(go);
        }
        let clusters = self.store.enrolments()?.iter().filter(|e| !e.revoked).count() as u64;
        let young = self.young(binding)?;
        for withdrawal in &plan.withdraw {
            let loss = Loss {
                cluster: withdrawal.cluster.clone(),
                key: withdrawal.key.clone(),
            };
            // What is only let go is not deleted.
            if withdrawal.mode == DeleteMode::Release || young.contains(&loss) {
                go.withdrawals.push(withdrawal);
                continue;
            }
            let current = self.store.current_set(&loss.cluster)?;
            let sizes = Sizes {
                entries: current.map_or(0, |current| current.set.entries().len()) as u64,
                clusters,
            };
            match self.breaker().weigh(&loss, sizes, clock::monotonic()) {
                Ok(()) => {
                    go.withdrawals.push(withdrawal);
                    go.losses.push(loss);
                }
                Err(id) => {
                    go.refused.get_or_insert(AdoptRefusal::Held {
                        cluster: loss.cluster,
                        key: loss.key,
                        id,
                    });
                }
            }
        }
        Ok(go)
    }

    /// What clusters shall hold waits for nothing any more.
    fn note_kept(&self, plan: &TemplatePlan) {
        let mut breaker = self.breaker();
        if breaker.held().is_empty() {
            return;
        }
        for work in &plan.works {
            breaker.handle_kept(&Loss {
                cluster: work.cluster.clone(),
                key: work.entry.key.clone(),
            });
        }
    }

    /// What was made a moment ago and goes again is no loss: a try that is taken back, a test.
    fn young(&self, binding: &BindingRef) -> Result<BTreeSet<Loss>, StoreError> {
        let now = clock::wall().0;
        let age = i64::try_from(self.settings.mass_delete_age.as_secs()).unwrap_or(i64::MAX);
        let targets = self.store.targets_of(binding)?.into_iter();
        Ok(targets
            // A clock that went back makes nothing young.
            .filter(|t| (0..age).contains(&now.saturating_sub(t.created.0)))
            .map(|t| Loss {
                cluster: t.cluster,
                key: t.entry.key.clone(),
            })
            .collect())
    }

    /// These withdrawals were adopted.
    pub(super) fn lost(&self, go: &LetGo<'_>) {
        let mut breaker = self.breaker();
        for loss in &go.losses {
            breaker.handle_lost(loss);
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
