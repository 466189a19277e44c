//! The task *services*: MultiClusterServices and MultiClusterIngresses say what the hub does not do for them.

use hub_core::networking;

use super::{Reconciler, limits};
use crate::clock;
use crate::store::{Expect, Op, ResourceId};

impl Reconciler {
    /// Looks by timer and poke, until dropped.
    pub(super) async fn services_forever(&self) {
        loop {
            self.services.wait(limits::RESYNC_EVERY).await;
            drop(self.services.take());
            self.services_pass().await;
        }
    }

    /// One pass over all of them. What cannot be stored is tried again by the resync, or by the change that was faster.
    pub(super) async fn services_pass(&self) {
        for plural in ["multiclusterservices", "multiclusteringresses"] {
            let resource = ResourceId::new("networking.karmada.io", plural);
            for stored in self.store.list(&resource, None).items {
                let mut object = stored.value();
                let Some(status) = networking::status(&object, &clock::wall().rfc3339()) else {
                    continue;
                };
                object["status"] = status;
                let op = Op::Put {
                    resource: resource.clone(),
                    namespace: stored.namespace.clone(),
                    name: stored.name.clone(),
                    expect: Expect::Revision(stored.revision),
                    object,
                };
                if let Err(error) = self.store.commit(vec![op]).await {
                    tracing::debug!(service = %stored.name, %error, "its condition is not stored");
                }
            }
        }
    }
}
