//! The task *rebalance*: WorkloadRebalancers tell bindings to be placed anew, and end when their time is over.

use std::time::Duration;

use hub_core::rebalance::{self, Found};
use serde_json::Value;
use shared::ids::ObjectKey;
use shared::object::split_api_version;

use super::metadata::fill_in;
use super::{Reconciler, binding_resource, limits};
use crate::clock;
use crate::store::{CommitError, Expect, Object, Op, ResourceId};

fn rebalancers() -> ResourceId {
    ResourceId::new("apps.karmada.io", "workloadrebalancers")
}

fn key_of(workload: &Value) -> ObjectKey {
    let text = |key: &str| workload[key].as_str().unwrap_or_default();
    ObjectKey::new(
        split_api_version(text("apiVersion")).0,
        text("kind"),
        text("namespace"),
        text("name"),
    )
}

impl Reconciler {
    /// Looks at rebalancers by timer and poke, until dropped.
    pub(super) async fn rebalance_forever(&self) {
        let mut wait = Duration::ZERO;
        loop {
            self.rebalancers.wait(wait).await;
            drop(self.rebalancers.take());
            wait = self.rebalance_pass().await;
        }
    }

    /// One pass over all of them; answers when the next one is due at the latest.
    pub(super) async fn rebalance_pass(&self) -> Duration {
        let mut next = limits::RESYNC_EVERY;
        for stored in self.store.list(&rebalancers(), None).items {
            match self.rebalance(&stored).await {
                Ok(None) => {}
                Ok(Some(seconds)) => next = next.min(Duration::from_secs(seconds)),
                Err(error) => {
                    tracing::debug!(rebalancer = stored.name, %error, "tried again later");
                    next = next.min(limits::RETRY_CEILING);
                }
            }
        }
        next.max(limits::REBALANCE_PAUSE)
    }

    /// One rebalancer; answers in how many seconds it ends, if it does.
    async fn rebalance(&self, stored: &Object) -> Result<Option<u64>, CommitError> {
        let mut object = stored.value();
        let mut look = |workload: &Value| match self.stored_binding(&key_of(workload)).1 {
            Some(_) => Found::Binding,
            None => Found::Nothing,
        };
        let turn = rebalance::turn(&object, &mut look, &clock::wall().rfc3339());
        // First the bindings, then that it was done: a crash in between does it once more, which changes nothing.
        for workload in &turn.triggers {
            self.trigger(workload, &object).await?;
        }
        let mut revision = stored.revision;
        if let Some(status) = turn.status {
            object["status"] = status;
            let put = Op::Put {
                resource: rebalancers(),
                namespace: String::new(),
                name: stored.name.clone(),
                expect: Expect::Revision(revision),
                object: object.clone(),
            };
            revision = self.store.commit(vec![put]).await?.remove(0).revision;
        }
        let Some(end) = rebalance::ends_at(&object) else {
            return Ok(None);
        };
        let left = end - clock::wall().0;
        if left > 0 {
            return Ok(u64::try_from(left).ok());
        }
        let delete = Op::Delete {
            resource: rebalancers(),
            namespace: String::new(),
            name: stored.name.clone(),
            expect: Expect::Revision(revision),
        };
        self.store.commit(vec![delete]).await.map(|_| None)
    }

    async fn trigger(&self, workload: &Value, rebalancer: &Value) -> Result<(), CommitError> {
        for _ in 0..limits::COMMIT_TRIES {
            let (Some(binding), Some(stored)) = self.stored_binding(&key_of(workload)) else {
                return Ok(());
            };
            let former = stored.value();
            let Some(mut told) = rebalance::trigger(&former, rebalancer) else {
                return Ok(());
            };
            fill_in(&mut told, Some(&former));
            let put = Op::Put {
                resource: binding_resource(&binding),
                namespace: binding.namespace.clone(),
                name: binding.name.clone(),
                expect: Expect::Revision(stored.revision),
                object: told,
            };
            match self.store.commit(vec![put]).await {
                Err(CommitError::Conflict { .. }) => {}
                other => return other.map(|_| ()),
            }
        }
        Ok(())
    }
}
