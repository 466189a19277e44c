//! Resource rules: how to read replicas, health and status of a kind.
//!
//! Pure: no clock, no environment, no randomness; `now` is passed in. GetReplicas, ReviseReplica,
//! AggregateStatus and GetDependencies run on the hub, Retain, ReflectStatus and InterpretHealth on the
//! agent. Both take an [`Interpreter`]; [`Native`] has the rules of the built-in kinds and of many well-known others.

#![forbid(unsafe_code)]

mod customization;
mod customized;
mod defaults;
mod error;
mod fields;
mod health;
pub mod lua;
mod native;
mod quantity;
mod retained;
mod scripted;
mod thirdparty;
mod types;

pub use customization::{CUSTOMIZATION_GROUP, CUSTOMIZATION_KIND, Customization, NoCustomization, SLOTS};
pub use customized::Customized;
pub use defaults::effective;
pub use error::InterpretError;
pub use health::{Health, judged};
pub use native::Native;
pub use retained::{RetainHints, effective_desired, owned_part};
pub use types::{
    Component, Dependency, Kind, MemberItem, NodeClaim, Operation, ReplicaRequirements, Replicas,
};

use std::sync::Arc;

use serde_json::Value;

/// Annotation on a member object: the generation of the template it was made from, in the reference's
/// spelling. Ours is [`shared::owned::TEMPLATE_GENERATION`]; this one is read where ours is not there.
pub const TEMPLATE_GENERATION_ANNOTATION: &str = "resourcetemplate.karmada.io/generation";

/// Label on a template: its replicas belong to an autoscaler in the member.
pub const RETAIN_REPLICAS_LABEL: &str = "resourcetemplate.karmada.io/retain-replicas";

/// Reads and changes objects of the kinds it has rules for.
///
/// Every operation answers [`InterpretError::NoRule`] for a kind without a rule; ask [`Interpreter::supports`]
/// first where that is an ordinary case.
pub trait Interpreter: Send + Sync {
    /// Is there a rule of this kind for this operation?
    fn supports(&self, kind: &Kind<'_>, operation: Operation) -> bool;

    /// Desired replicas of a template and what one replica requires of a node.
    ///
    /// # Errors
    /// No rule for the kind, or a field of the wrong type.
    fn get_replicas(&self, template: &Value) -> Result<Replicas, InterpretError>;

    /// The kinds of pods that a workload with several of them consists of.
    ///
    /// # Errors
    /// No rule for the kind, or a field of the wrong type.
    fn get_components(&self, template: &Value) -> Result<Vec<Component>, InterpretError>;

    /// The template with its replica count set, where it has one.
    ///
    /// # Errors
    /// No rule for the kind, or a present count that is not an integer.
    fn revise_replica(&self, template: &Value, replicas: i64) -> Result<Value, InterpretError>;

    /// `desired` with the values that belong to the member taken from `observed`.
    ///
    /// # Errors
    /// No rule for the kind, or a field of the wrong type.
    fn retain(&self, desired: &Value, observed: &Value) -> Result<Value, InterpretError>;

    /// The part of a member object's status worth carrying to the hub; `None`: nothing collected.
    ///
    /// # Errors
    /// A field of the wrong type, or no readable template generation where the kind needs one.
    fn reflect_status(&self, object: &Value) -> Result<Option<Value>, InterpretError>;

    /// Is the member object healthy?
    ///
    /// # Errors
    /// No rule for the kind, or a field of the wrong type.
    fn interpret_health(&self, object: &Value) -> Result<bool, InterpretError>;

    /// Status of the template from what the members reflected; `None`: the template has no status and gets none.
    ///
    /// `items`: one per target cluster, also those without a status; `None`: not known yet.
    /// `now`: RFC 3339, for the transition time of conditions that appear.
    ///
    /// # Errors
    /// No rule for the kind, or a field of the wrong type.
    fn aggregate_status(
        &self,
        template: &Value,
        items: Option<&[MemberItem]>,
        now: &str,
    ) -> Result<Option<Value>, InterpretError>;

    /// Objects the template needs beside it, sorted, each once.
    ///
    /// # Errors
    /// No rule for the kind, or a field of the wrong type.
    fn get_dependencies(&self, template: &Value) -> Result<Vec<Dependency>, InterpretError>;
}

impl<T: Interpreter + ?Sized> Interpreter for Arc<T> {
    fn supports(&self, kind: &Kind<'_>, operation: Operation) -> bool {
        (**self).supports(kind, operation)
    }

    fn get_replicas(&self, template: &Value) -> Result<Replicas, InterpretError> {
        (**self).get_replicas(template)
    }

    fn get_components(&self, template: &Value) -> Result<Vec<Component>, InterpretError> {
        (**self).get_components(template)
    }

    fn revise_replica(&self, template: &Value, replicas: i64) -> Result<Value, InterpretError> {
        (**self).revise_replica(template, replicas)
    }

    fn retain(&self, desired: &Value, observed: &Value) -> Result<Value, InterpretError> {
        (**self).retain(desired, observed)
    }

    fn reflect_status(&self, object: &Value) -> Result<Option<Value>, InterpretError> {
        (**self).reflect_status(object)
    }

    fn interpret_health(&self, object: &Value) -> Result<bool, InterpretError> {
        (**self).interpret_health(object)
    }

    fn aggregate_status(
        &self,
        template: &Value,
        items: Option<&[MemberItem]>,
        now: &str,
    ) -> Result<Option<Value>, InterpretError> {
        (**self).aggregate_status(template, items, now)
    }

    fn get_dependencies(&self, template: &Value) -> Result<Vec<Dependency>, InterpretError> {
        (**self).get_dependencies(template)
    }
}
