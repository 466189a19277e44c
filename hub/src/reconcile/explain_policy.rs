//! `pinnace why propagationpolicy/NAME`: what a policy holds, and what of it acts on nothing.

use std::sync::Arc;

use hub_core::explain::{Claim, Explanation, Note};
use hub_core::matching::fit;
use hub_core::plan::{Template, bound_object};
use hub_core::policy::{AnyPropagationPolicy, CLUSTER_POLICY_ID_LABEL, POLICY_ID_LABEL, ResourceSelector};
use serde_json::Value;
use shared::object::split_api_version;
use shared::reason::Reason;

use super::Reconciler;
use crate::store::{Object, ResourceId, StoreError};

/// Is it a kind of policy that is explained here?
pub(super) fn is_policy(resource: &ResourceId) -> bool {
    &*resource.group == "policy.karmada.io"
        && matches!(
            &*resource.resource,
            "propagationpolicies" | "clusterpropagationpolicies"
        )
}

impl Reconciler {
    /// Explains a stored policy: the objects it holds, selectors that select nothing, clusters that have not joined.
    pub(super) fn explain_policy(&self, stored: &Object) -> Result<Explanation, StoreError> {
        let object = stored.value();
        let mut notes = Vec::new();
        let mut note = |reason: Reason, message: String| {
            notes.push(Note {
                reason: reason.into(),
                cluster: None,
                message,
            });
        };
        let mut objects = Vec::new();
        match AnyPropagationPolicy::read(&object) {
            Err(error) => note(
                Reason::RenderFailed,
                format!("it cannot be read and acts on nothing: {error}"),
            ),
            Ok(policy) => {
                objects = self.held_by(&policy);
                for (index, selector) in policy.spec.resource_selectors.iter().enumerate() {
                    if !self.selects_something(&policy, selector) {
                        note(
                            Reason::MatchesNothing,
                            format!(
                                "resourceSelectors[{index}] ({}) selects no object on the hub",
                                words(selector)
                            ),
                        );
                    }
                }
                let world = self.read_world()?;
                if let Some((reason, message)) = world.hopeless(&policy) {
                    note(reason, message);
                }
                let missing = world.not_joined(&policy.placement_json).join(", ");
                if !missing.is_empty() {
                    note(
                        Reason::UnknownCluster,
                        format!("no cluster has joined under the name {missing}"),
                    );
                }
            }
        }
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        Ok(Explanation {
            api_version: text("/apiVersion"),
            kind: text("/kind"),
            namespace: stored.namespace.clone(),
            name: stored.name.clone(),
            generation: shared::object::generation(&object),
            claim: Claim::Holds { objects },
            binding: None,
            notes,
            policies: Vec::new(),
            groups: Vec::new(),
            placement: Vec::new(),
            clusters: Vec::new(),
        })
    }

    /// The objects whose bindings carry the policy's id.
    fn held_by(&self, policy: &AnyPropagationPolicy) -> Vec<String> {
        let label = if policy.reference.is_cluster_scoped() {
            CLUSTER_POLICY_ID_LABEL
        } else {
            POLICY_ID_LABEL
        };
        let mut held: Vec<String> = ["resourcebindings", "clusterresourcebindings"]
            .iter()
            .flat_map(|plural| {
                self.store
                    .list(&ResourceId::new("work.karmada.io", plural), None)
                    .items
            })
            .filter(|binding| binding.labels.get(label).is_some_and(|id| *id == policy.id))
            .map(|binding| bound_object(&binding.value()).to_string())
            .collect();
        held.sort();
        held
    }

    fn selects_something(&self, policy: &AnyPropagationPolicy, selector: &ResourceSelector) -> bool {
        let (group, _) = split_api_version(&selector.api_version);
        let Some(resource) = self.resource_of(group, &selector.kind) else {
            return false;
        };
        let namespace = Some(policy.reference.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        self.store.list(&resource, namespace).items.iter().any(|object| {
            Template::read(Arc::new(object.value())).is_some_and(|template| {
                template.inert().is_none() && fit(selector, &template.subject()).is_some()
            })
        })
    }
}

fn words(selector: &ResourceSelector) -> String {
    let mut words = format!("{} {}", selector.api_version, selector.kind);
    if !selector.name.is_empty() {
        words.push_str(&format!(" {}", selector.name));
    } else if selector.label_selector.is_some() {
        words.push_str(" by labels");
    }
    words
}
