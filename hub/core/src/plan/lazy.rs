//! Lazy activation (`activationPreference: Lazy`): a change of the policy acts on an object only when the object itself
//! changes next.
//!
//! The reference keeps this in events; here it follows from what is stored: the binding carries the digest of the template
//! it was made for, and a template that waits for its first binding carries the digest it had when it was claimed. So a
//! restart activates nothing.

use serde_json::Value;

use super::binding::TEMPLATE_DIGEST_ANNOTATION;
use super::template::Template;
use crate::policy::AnyPropagationPolicy;

/// Annotation on a template that a lazy policy claimed and did not act on: the digest it had then.
pub const LAZY_SINCE_ANNOTATION: &str = "fleet.pinnace.dev/lazy-since";

/// What a policy does to a template now.
pub(super) enum Activation {
    /// It acts as it stands.
    Acts,
    /// The binding goes on as the policy was when it last acted.
    Frozen(Box<AnyPropagationPolicy>),
    /// Nothing is placed before the template changes; the digest to note on it.
    Waits(String),
}

/// Decides it.
pub(super) fn activation(
    policy: &AnyPropagationPolicy,
    template: &Template,
    binding: Option<&Value>,
) -> Activation {
    if policy.spec.activation_preference != "Lazy" {
        return Activation::Acts;
    }
    let digest = template.digest().to_string();
    if let Some(binding) = binding.filter(|binding| !binding["spec"]["placement"].is_null()) {
        let made_for = binding["metadata"]["annotations"][TEMPLATE_DIGEST_ANNOTATION].as_str();
        return match made_for {
            Some(known) if known == digest => Activation::Frozen(Box::new(as_it_was(policy, binding))),
            _ => Activation::Acts,
        };
    }
    let metadata = &template.object["metadata"];
    let made = metadata["creationTimestamp"].as_str().unwrap_or_default();
    let since = metadata["annotations"][LAZY_SINCE_ANNOTATION].as_str();
    match since {
        Some(known) if known == digest => Activation::Waits(digest),
        Some(_) => Activation::Acts,
        // A template made after the policy was made for it.
        None if made >= policy.created.as_str() => Activation::Acts,
        None => Activation::Waits(digest),
    }
}

/// The policy as the binding has it.
fn as_it_was(policy: &AnyPropagationPolicy, binding: &Value) -> AnyPropagationPolicy {
    let spec = &binding["spec"];
    let mut was = policy.clone();
    was.placement_json = spec["placement"].clone();
    was.spec.placement = serde_json::from_value(spec["placement"].clone()).unwrap_or_default();
    was.spec.conflict_resolution =
        serde_json::from_value(spec["conflictResolution"].clone()).unwrap_or_default();
    was.spec.preserve_resources_on_deletion = spec["preserveResourcesOnDeletion"].as_bool();
    was.spec.propagate_deps = spec["propagateDeps"] == true;
    was.spec.scheduler_name = spec["schedulerName"].as_str().unwrap_or_default().to_owned();
    was.spec.suspension = serde_json::from_value(spec["suspension"].clone())
        .ok()
        .flatten()
        .map(
            |suspension: crate::policy::Suspension| crate::policy::Suspension {
                scheduling: None,
                ..suspension
            },
        );
    was.spec.failover = serde_json::from_value(spec["failover"].clone()).unwrap_or_default();
    was.spec.dependent_overrides.clear();
    was
}
