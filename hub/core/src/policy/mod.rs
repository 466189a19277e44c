//! The policy kinds of `policy.karmada.io/v1alpha1`: their types and the label selectors they use; and the admission of
//! these and of the reference's other kinds.
//!
//! Source of fields, defaults and rules: the reference's API (see `data/karmada.json` for the complete schema). A field
//! the hub does not honour yet is refused or warned about by [`admit`], naming it, so that nothing is silently ignored.

mod admit;
mod check;
mod defaults;
mod fields;
mod overriding;
mod propagation;
mod selector;
mod unsupported;

pub use admit::{
    Admitted, FieldError, FieldErrorType, Operation, Refused, Request, Stored, Switches, admit, admits,
    mutate, validate,
};
pub use check::{ParsedTaints, TaintTextError, check_taints, parse_taints};
pub use overriding::{
    AnyOverridePolicy, ArgsOverrider, FieldOverrider, FieldPatch, ImageComponent, ImageOverrider,
    ImagePredicate, LabelOverrider, OverrideOperator, OverrideSpec, Overriders, PlaintextOverrider,
    RuleWithCluster,
};
pub(crate) use propagation::labels_of;
pub use propagation::{
    AnyPropagationPolicy, ClusterAffinity, ClusterAffinityTerm, ClusterPreferences, ConflictResolution,
    DivisionPreference, FieldSelector, Placement, PolicyRef, PropagationSpec, ReplicaScheduling,
    ResourceSelector, SchedulePriority, SchedulingType, SpreadConstraint, StaticWeight, SuspendClusters,
    Suspension, Toleration,
};
pub use selector::{LabelSelector, Requirement, SelectorError, Unheld};

/// Group of the policy kinds.
pub const POLICY_GROUP: &str = "policy.karmada.io";
/// Version of the policy kinds.
pub const POLICY_VERSION: &str = "v1alpha1";
/// Label that carries the identity of a PropagationPolicy, on the policy and on what it claimed.
pub const POLICY_ID_LABEL: &str = "propagationpolicy.karmada.io/permanent-id";
/// Annotation naming the namespace of the PropagationPolicy that claimed an object.
pub const POLICY_NAMESPACE_ANNOTATION: &str = "propagationpolicy.karmada.io/namespace";
/// Annotation naming the PropagationPolicy that claimed an object.
pub const POLICY_NAME_ANNOTATION: &str = "propagationpolicy.karmada.io/name";
/// Label that carries the identity of a ClusterPropagationPolicy, on the policy and on what it claimed.
pub const CLUSTER_POLICY_ID_LABEL: &str = "clusterpropagationpolicy.karmada.io/permanent-id";
/// Finalizer of a PropagationPolicy: it goes once nothing carries the policy's claim any more.
pub const POLICY_FINALIZER: &str = "karmada.io/propagation-policy-controller";
/// The same of a ClusterPropagationPolicy.
pub const CLUSTER_POLICY_FINALIZER: &str = "karmada.io/cluster-propagation-policy-controller";
/// Label with the permanent id of a MultiClusterService.
pub const SERVICE_ID_LABEL: &str = "multiclusterservice.karmada.io/permanent-id";
/// Annotation naming the ClusterPropagationPolicy that claimed an object.
pub const CLUSTER_POLICY_NAME_ANNOTATION: &str = "clusterpropagationpolicy.karmada.io/name";

/// Names of clusters that a placement (JSON) lists in its affinities, each once, sorted.
pub fn named_clusters(placement: &serde_json::Value) -> Vec<&str> {
    let mut names = Vec::new();
    collect_names(&placement["clusterAffinity"], &mut names);
    for term in placement["clusterAffinities"].as_array().into_iter().flatten() {
        collect_names(term, &mut names);
        for tier in term["overflowAffinities"].as_array().into_iter().flatten() {
            collect_names(tier, &mut names);
        }
    }
    names.sort_unstable();
    names.dedup();
    names
}

fn collect_names<'a>(affinity: &'a serde_json::Value, names: &mut Vec<&'a str>) {
    names.extend(
        affinity["clusterNames"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(serde_json::Value::as_str),
    );
}

#[cfg(test)]
mod tests;
