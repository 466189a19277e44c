//! Override policies: the differences between the clusters, applied after the replicas were set.
//!
//! Order, as in the reference: cluster-scoped policies first, then those of the object's namespace; inside each list the
//! closer a policy names the object, the later it is applied, so that it wins; then by name. Inside a policy the rules in
//! the order written; inside a rule image, command, args, labels, annotations, field, plaintext.

mod containers;
mod document;
pub mod image;
mod metadata;
mod plaintext;

use serde_json::Value;

use crate::affinity;
use crate::cluster::Cluster;
use crate::matching::{Fit, Subject, best_fit};
use crate::policy::{AnyOverridePolicy, Overriders, PolicyRef, RuleWithCluster};

/// A rule that could not be applied: nothing of the work changes, the cluster keeps what it had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} {}: {overrider}[{index}] at {path:?}: {problem}", kind(.policy), name(.policy))]
pub struct OverrideError {
    /// The policy.
    pub policy: PolicyRef,
    /// Which list of the rule.
    pub overrider: &'static str,
    /// Position in the list.
    pub index: usize,
    /// Path in the object.
    pub path: String,
    /// What is wrong.
    pub problem: String,
}

fn kind(policy: &PolicyRef) -> &'static str {
    if policy.is_cluster_scoped() {
        "ClusterOverridePolicy"
    } else {
        "OverridePolicy"
    }
}

fn name(policy: &PolicyRef) -> String {
    if policy.is_cluster_scoped() {
        policy.name.clone()
    } else {
        format!("{}/{}", policy.namespace, policy.name)
    }
}

/// One overrider that could not be applied, before the policy is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    overrider: &'static str,
    index: usize,
    path: String,
    problem: String,
}

impl Failed {
    fn new(overrider: &'static str, index: usize, path: &str, problem: impl Into<String>) -> Self {
        Self {
            overrider,
            index,
            path: path.to_owned(),
            problem: problem.into(),
        }
    }
}

/// Applies every override policy that selects the object, for one cluster. The order of `policies` does not matter.
///
/// Answers the policies whose rules were applied, once per rule, in order.
///
/// # Errors
/// The first rule that cannot be applied; the object is then half changed and must be thrown away.
pub fn apply(
    object: &mut Value,
    subject: &Subject<'_>,
    cluster: &Cluster,
    policies: &[&AnyOverridePolicy],
) -> Result<Vec<PolicyRef>, OverrideError> {
    let mut applied = Vec::new();
    for policy in in_order(policies, subject) {
        for rule in rules(policy).iter() {
            let here = rule
                .target_cluster
                .as_ref()
                .is_none_or(|affinity| affinity::matches(cluster, affinity));
            if !here {
                continue;
            }
            apply_rule(object, &rule.overriders).map_err(|failed| OverrideError {
                policy: policy.reference.clone(),
                overrider: failed.overrider,
                index: failed.index,
                path: failed.path,
                problem: failed.problem,
            })?;
            applied.push(policy.reference.clone());
        }
    }
    Ok(applied)
}

/// Does the policy select this object? A namespaced policy never reaches beyond its namespace.
pub fn selects(policy: &AnyOverridePolicy, subject: &Subject<'_>) -> bool {
    let selectors = &policy.spec.resource_selectors;
    (policy.reference.is_cluster_scoped() || policy.reference.namespace == subject.namespace)
        && (selectors.is_empty() || best_fit(selectors, subject).is_some())
}

/// The policies that select the object, in the order in which they are applied.
fn in_order<'a>(
    policies: &[&'a AnyOverridePolicy],
    subject: &Subject<'_>,
) -> impl Iterator<Item = &'a AnyOverridePolicy> + use<'a> {
    let mut chosen: Vec<&AnyOverridePolicy> = policies
        .iter()
        .copied()
        .filter(|policy| selects(policy, subject))
        .collect();
    chosen.sort_by_cached_key(|policy| {
        let fit = best_fit(&policy.spec.resource_selectors, subject).unwrap_or(Fit::Kind);
        (
            !policy.reference.is_cluster_scoped(),
            fit,
            policy.reference.name.clone(),
        )
    });
    chosen.into_iter()
}

/// The rules of a policy; its older form counts as one rule.
fn rules(policy: &AnyOverridePolicy) -> std::borrow::Cow<'_, [RuleWithCluster]> {
    match &policy.spec.override_rules {
        Some(rules) => rules.into(),
        None => vec![RuleWithCluster {
            target_cluster: policy.spec.target_cluster.clone(),
            overriders: policy.spec.overriders.clone(),
        }]
        .into(),
    }
}

fn apply_rule(object: &mut Value, overriders: &Overriders) -> Result<(), Failed> {
    image::apply(object, &overriders.image_overrider)?;
    containers::apply(
        object,
        "commandOverrider",
        "command",
        &overriders.command_overrider,
    )?;
    containers::apply(object, "argsOverrider", "args", &overriders.args_overrider)?;
    metadata::apply(object, "labels", &overriders.labels_overrider);
    metadata::apply(object, "annotations", &overriders.annotations_overrider);
    document::apply(object, &overriders.field_overrider)?;
    plaintext::apply(object, &overriders.plaintext)
}
