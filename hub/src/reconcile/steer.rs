//! What a change of a policy concerns: the templates that it selected before or selects now, and no others.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use hub_core::matching::{Subject, fit};
use hub_core::policy::{AnyOverridePolicy, AnyPropagationPolicy, PolicyRef, ResourceSelector};
use shared::object::split_api_version;

use super::{Reconciler, TemplateKey, limits};
use crate::store::{Event, EventKind, Object, ResourceId};

/// Policies that changed since the world was last read, by where they are stored.
pub(super) type Steered = BTreeSet<(ResourceId, PolicyRef)>;

/// Templates that a change concerns.
enum Concerned {
    These(Vec<TemplateKey>),
    All,
}

impl Reconciler {
    /// Takes in a change of an object in the group of policies: marks what it concerns. Kinds that are not looked at one by
    /// one change the whole world.
    pub(super) fn policy_changed(&self, event: &Event, marks: &mut Vec<TemplateKey>) {
        let object = &event.object;
        let concerned = match &*object.resource.resource {
            "propagationpolicies" | "clusterpropagationpolicies" => self.of_propagation(event),
            "overridepolicies" | "clusteroverridepolicies" => self.of_override(event),
            _ => return self.mark_world(),
        };
        let reference = PolicyRef {
            namespace: object.namespace.clone(),
            name: object.name.clone(),
        };
        let mut steered = self.steered.lock().unwrap_or_else(PoisonError::into_inner);
        steered.insert((object.resource.clone(), reference));
        let too_many = steered.len() > limits::MARKED_KEYS;
        drop(steered);
        match concerned {
            _ if too_many => self.mark_world(),
            Concerned::These(keys) => {
                marks.extend(keys);
                // Nothing may be concerned; the policy itself may still have to go.
                self.templates.poke();
            }
            Concerned::All => self.templates.mark_all(),
        }
    }

    fn of_propagation(&self, event: &Event) -> Concerned {
        let mut keys = Vec::new();
        for object in states(event) {
            let value = object.value();
            let Ok(policy) = AnyPropagationPolicy::read(&value) else {
                return Concerned::All;
            };
            if value["spec"]["propagateDeps"] == true {
                // What follows its dependents is of any kind.
                return Concerned::All;
            }
            self.selected(&policy.reference, &policy.spec.resource_selectors, &mut keys);
        }
        Concerned::These(keys)
    }

    fn of_override(&self, event: &Event) -> Concerned {
        // One that comes or goes may be what a propagation policy waits for by name.
        if event.previous.is_none() || event.kind == EventKind::Delete {
            return Concerned::All;
        }
        let mut keys = Vec::new();
        for object in states(event) {
            let Ok(policy) = AnyOverridePolicy::read(&object.value()) else {
                return Concerned::All;
            };
            if policy.spec.resource_selectors.is_empty() {
                return Concerned::All;
            }
            self.selected(&policy.reference, &policy.spec.resource_selectors, &mut keys);
        }
        Concerned::These(keys)
    }

    /// Stored objects that selectors of a policy select.
    fn selected(&self, policy: &PolicyRef, selectors: &[ResourceSelector], keys: &mut Vec<TemplateKey>) {
        for selector in selectors {
            let (group, _) = split_api_version(&selector.api_version);
            let Some(resource) = self.resource_of(group, &selector.kind) else {
                continue;
            };
            let namespace = [&policy.namespace, &selector.namespace]
                .into_iter()
                .find(|namespace| !namespace.is_empty());
            if let (Some(namespace), false) = (namespace, selector.name.is_empty()) {
                // Named: there is at most one, and planning finds out whether it is there.
                keys.push(TemplateKey {
                    resource,
                    namespace: namespace.clone(),
                    name: selector.name.clone(),
                });
                continue;
            }
            for object in self.store.list(&resource, namespace.map(String::as_str)).items {
                let subject = Subject {
                    api_version: &selector.api_version,
                    kind: &selector.kind,
                    namespace: &object.namespace,
                    name: &object.name,
                    labels: &object.labels,
                };
                if fit(selector, &subject).is_some() {
                    keys.push(super::feed::template_key(&object));
                }
            }
        }
    }
}

/// The states of before and after.
fn states(event: &Event) -> impl Iterator<Item = &Object> {
    let previous = event.previous.as_deref();
    previous.into_iter().chain([&*event.object])
}
