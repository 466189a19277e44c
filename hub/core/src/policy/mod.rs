//! The policy kinds of `policy.karmada.io/v1alpha1`: their types, their admission and the label selectors they use.
//!
//! Source of fields, defaults and rules: the reference's API (see `data/karmada.json` for the complete schema). A field
//! the planner does not honour yet is refused by [`admit`], naming it, so that nothing is silently ignored.

mod admit;
mod check;
mod defaults;
mod fields;
mod overriding;
mod propagation;
mod selector;
mod unsupported;

pub use admit::{Admitted, FieldError, FieldErrorType, Operation, admit, admits, mutate, validate};
pub use overriding::{
    AnyOverridePolicy, ArgsOverrider, FieldOverrider, FieldPatch, ImageComponent, ImageOverrider,
    ImagePredicate, LabelOverrider, OverrideOperator, OverrideSpec, Overriders, PlaintextOverrider,
    RuleWithCluster,
};
pub(crate) use propagation::labels_of;
pub use propagation::{
    AnyPropagationPolicy, ClusterAffinity, ClusterAffinityTerm, ClusterPreferences, ConflictResolution,
    DivisionPreference, FieldSelector, Placement, PolicyRef, PropagationSpec, ReplicaScheduling,
    ResourceSelector, SchedulingType, SpreadConstraint, StaticWeight, SuspendClusters, Suspension,
    Toleration,
};
pub use selector::{LabelSelector, Requirement, SelectorError};

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
/// Annotation naming the ClusterPropagationPolicy that claimed an object.
pub const CLUSTER_POLICY_NAME_ANNOTATION: &str = "clusterpropagationpolicy.karmada.io/name";
