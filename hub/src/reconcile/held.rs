//! Withdrawals that would take too much out of the fleet wait here for `pinnace confirm`; a DELETE that would do so in one
//! step is refused until then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use hub_core::breaker::{Breaker, Confirmed, Loss, Scope, Sizes};
use hub_core::plan::{TemplatePlan, Withdrawal};
use shared::ids::{ClusterName, ObjectKey};
use shared::reason::Reason;
use shared::set::DeleteMode;
use shared::time::UnixSeconds;

use super::Reconciler;
use crate::clock;
use crate::store::fleet::{AdoptRefusal, Target};
use crate::store::{BindingRef, StoreError};

/// A change that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldChange {
    /// What to confirm.
    pub id: u32,
    /// How long it waits, in seconds.
    pub age_seconds: u64,
    /// How many objects it would delete.
    pub count: usize,
    /// Clusters and objects, `CLUSTER: KIND NAMESPACE/NAME`; of many, the first.
    pub losses: Vec<String>,
    /// The DELETE that was refused; none: what waits goes on by itself once it is confirmed.
    pub refused: Option<String>,
}

fn named<'a>(losses: impl IntoIterator<Item = &'a Loss>) -> Vec<String> {
    losses
        .into_iter()
        .map(|loss| format!("{}: {}", loss.cluster, loss.key))
        .collect()
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
        let now = clock::wall();
        let targets = self.store.targets_of(binding)?.into_iter();
        Ok(targets
            .filter(|t| self.is_young(t, now))
            .map(|t| Loss {
                cluster: t.cluster,
                key: t.entry.key.clone(),
            })
            .collect())
    }

    fn is_young(&self, target: &Target, now: UnixSeconds) -> bool {
        let age = i64::try_from(self.settings.mass_delete_age.as_secs()).unwrap_or(i64::MAX);
        // A clock that went back makes nothing young.
        (0..age).contains(&now.0.saturating_sub(target.created.0))
    }

    /// These withdrawals were adopted.
    pub(super) fn lost(&self, go: &LetGo<'_>) {
        let mut breaker = self.breaker();
        for loss in &go.losses {
            breaker.handle_lost(loss);
        }
    }

    /// Changes that wait, oldest id first.
    pub fn held(&self) -> Vec<HeldChange> {
        let now = clock::monotonic();
        let breaker = self.breaker();
        let held = breaker.held().iter().map(|(id, held)| HeldChange {
            id: *id,
            age_seconds: now.since(held.since) / 1_000,
            count: held.losses.len(),
            losses: named(&held.losses),
            refused: None,
        });
        let asked = breaker.asked().iter().map(|(id, asked)| HeldChange {
            id: *id,
            age_seconds: now.since(asked.since) / 1_000,
            count: asked.count,
            losses: named(&asked.losses),
            refused: Some(asked.scope.to_string()),
        });
        let mut all: Vec<HeldChange> = held.chain(asked).collect();
        all.sort_by_key(|change| change.id);
        all
    }

    /// The id under which the withdrawal of an object from any cluster waits.
    pub(super) fn held_under(&self, key: &ObjectKey) -> Option<u32> {
        let breaker = self.breaker();
        let mut held = breaker.held().iter();
        held.find(|(_, held)| held.losses.iter().any(|loss| loss.key == *key))
            .map(|(id, _)| *id)
    }

    /// A person confirms what waits under an id. None: nothing does.
    pub fn confirm(&self, id: u32) -> Option<Confirmed> {
        let confirmed = self.breaker().confirm(id, clock::monotonic())?;
        self.mark_world();
        Some(confirmed)
    }

    /// Whether a DELETE may take with it what clusters hold of a Namespace or a kind; if not, why. A dry run leaves
    /// nothing to confirm.
    ///
    /// # Errors
    /// The store.
    pub fn may_delete(&self, scope: &Scope, is_dry: bool) -> Result<Option<String>, StoreError> {
        let enrolments = self.store.enrolments()?;
        let live: BTreeSet<&ClusterName> = enrolments
            .iter()
            .filter(|e| !e.revoked)
            .map(|e| &e.cluster)
            .collect();
        let (now, wall) = (clock::monotonic(), clock::wall());
        let (mut entries, mut losses) = (BTreeMap::new(), Vec::new());
        for target in self.store.all_targets()? {
            if !live.contains(&target.cluster) {
                continue;
            }
            *entries.entry(target.cluster.clone()).or_default() += 1;
            let stays = target.entry.delete_mode == DeleteMode::Release || self.is_young(&target, wall);
            if scope.covers(&target.entry.key) && !stays {
                losses.push(Loss {
                    cluster: target.cluster,
                    key: target.entry.key.clone(),
                });
            }
        }
        let mut breaker = self.breaker();
        if breaker.may_delete_whole(scope, &losses, &entries, live.len() as u64, now) {
            return Ok(None);
        }
        let clusters: BTreeSet<&ClusterName> = losses.iter().map(|loss| &loss.cluster).collect();
        let what = format!(
            "it would delete {} objects in {} clusters at once ({})",
            losses.len(),
            clusters.len(),
            Reason::MassDeleteHeld
        );
        Ok(Some(match is_dry {
            true => format!("{what}; it needs to be confirmed with `pinnace confirm`"),
            false => {
                let id = breaker.refuse_whole(scope, &losses, now);
                format!(
                    "{what}; look at it with `pinnace confirm`, allow it with `pinnace confirm {id}`, then delete it again"
                )
            }
        }))
    }

    fn breaker(&self) -> std::sync::MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
