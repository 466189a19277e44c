//! The end of policies: one that is being deleted goes once nothing carries its claim any more.

use hub_core::plan::World;
use hub_core::policy::{
    CLUSTER_POLICY_FINALIZER, CLUSTER_POLICY_ID_LABEL, POLICY_FINALIZER, POLICY_ID_LABEL, PolicyRef,
};
use hub_core::templates;
use serde_json::Value;

use super::Reconciler;
use crate::store::{CommitError, Expect, Op, ResourceId};

/// Resource, finalizer and label of a policy's kind.
fn facts(policy: &PolicyRef) -> (ResourceId, &'static str, &'static str) {
    let (plural, finalizer, label) = if policy.is_cluster_scoped() {
        (
            "clusterpropagationpolicies",
            CLUSTER_POLICY_FINALIZER,
            CLUSTER_POLICY_ID_LABEL,
        )
    } else {
        ("propagationpolicies", POLICY_FINALIZER, POLICY_ID_LABEL)
    };
    (ResourceId::new("policy.karmada.io", plural), finalizer, label)
}

impl Reconciler {
    /// Takes our finalizer off policies that are being deleted and that nothing is claimed by any more. Called after
    /// each pass; a policy that still holds something is looked at again after the next.
    pub(super) async fn release_policies(&self, world: &World) {
        for (policy, id) in world.leaving_policies() {
            if self.holds_something(policy, id) {
                continue;
            }
            if let Err(error) = self.release(policy).await {
                tracing::debug!(%policy, %error, "a deleted policy is released with the next full pass");
            }
        }
    }

    fn holds_something(&self, policy: &PolicyRef, id: &str) -> bool {
        let (_, _, label) = facts(policy);
        let claimed = |resource: &ResourceId| {
            let all = self.store.list(resource, None).items;
            all.iter()
                .any(|object| object.labels.get(label).is_some_and(|held| held == id))
        };
        let is_binding = |resource: &ResourceId| {
            &*resource.group == "work.karmada.io"
                && matches!(
                    &*resource.resource,
                    "resourcebindings" | "clusterresourcebindings"
                )
        };
        !id.is_empty()
            && self.store.resources().iter().any(|resource| {
                let holds = is_binding(resource)
                    || templates::resource_may_hold_templates(&resource.group, &resource.resource);
                holds && claimed(resource)
            })
    }

    async fn release(&self, policy: &PolicyRef) -> Result<(), CommitError> {
        let (resource, finalizer, _) = facts(policy);
        let Some(stored) = self.store.get(&resource, &policy.namespace, &policy.name) else {
            return Ok(());
        };
        let mut object = stored.value();
        let Some(rest) = without(&mut object, finalizer) else {
            return Ok(());
        };
        let (namespace, name) = (policy.namespace.clone(), policy.name.clone());
        let expect = Expect::Revision(stored.revision);
        let op = if rest == 0 {
            Op::Delete {
                resource,
                namespace,
                name,
                expect,
            }
        } else {
            Op::Put {
                resource,
                namespace,
                name,
                expect,
                object,
            }
        };
        self.store.commit(vec![op]).await.map(|_| ())
    }
}

/// Takes a finalizer off; answers how many are left, or `None` if it was not there.
fn without(object: &mut Value, finalizer: &str) -> Option<usize> {
    let list = object
        .get_mut("metadata")?
        .get_mut("finalizers")?
        .as_array_mut()?;
    let before = list.len();
    list.retain(|known| known != finalizer);
    (list.len() < before).then_some(list.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_our_finalizer_is_taken_off() {
        let mut object = json!({"metadata": {"finalizers": [POLICY_FINALIZER, "other/one"]}});
        assert_eq!(without(&mut object, POLICY_FINALIZER), Some(1));
        assert_eq!(without(&mut object, POLICY_FINALIZER), None);
        assert_eq!(object["metadata"]["finalizers"], json!(["other/one"]));
    }
}
