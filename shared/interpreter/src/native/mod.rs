//! Rules that come with the program. Built-in kinds: one file per operation; this one says which kind has which. The
//! kinds of other projects are in `thirdparty`.

mod aggregate;
mod aggregate_balancers;
mod aggregate_phases;
mod aggregate_workloads;
mod dependencies;
mod healthy;
mod reflect;
mod replicas;
mod retain;
mod revise;

use serde_json::Value;

pub(crate) use dependencies::{Names, add as add_name, named, pod as pod_names};
pub(crate) use replicas::{node_claim, requirements};

use crate::thirdparty::{self, Rules};
use crate::{Component, Dependency, InterpretError, Interpreter, Kind, MemberItem, Operation, Replicas};

/// The rules of the built-in kinds and of well-known kinds of other projects.
#[derive(Debug, Clone, Copy, Default)]
pub struct Native {
    /// Carry the priority class of the pods in the requirements, for quota estimation.
    pub quota_estimate: bool,
}

/// Built-in kinds that have at least one rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Builtin {
    Deployment,
    StatefulSet,
    ReplicaSet,
    DaemonSet,
    Job,
    CronJob,
    Pod,
    Service,
    Ingress,
    PersistentVolumeClaim,
    PersistentVolume,
    PodDisruptionBudget,
    HorizontalPodAutoscaler,
    ServiceAccount,
    Secret,
    ServiceImport,
    WebhookConfiguration,
    CustomResourceDefinition,
    ApiService,
}

impl Builtin {
    /// By exact API version: another version of a group may have other fields.
    fn of(kind: &Kind<'_>) -> Option<Self> {
        Some(match (kind.api_version, kind.kind) {
            ("apps/v1", "Deployment") => Self::Deployment,
            ("apps/v1", "StatefulSet") => Self::StatefulSet,
            ("apps/v1", "ReplicaSet") => Self::ReplicaSet,
            ("apps/v1", "DaemonSet") => Self::DaemonSet,
            ("batch/v1", "Job") => Self::Job,
            ("batch/v1", "CronJob") => Self::CronJob,
            ("v1", "Pod") => Self::Pod,
            ("v1", "Service") => Self::Service,
            ("networking.k8s.io/v1", "Ingress") => Self::Ingress,
            ("v1", "PersistentVolumeClaim") => Self::PersistentVolumeClaim,
            ("v1", "PersistentVolume") => Self::PersistentVolume,
            ("policy/v1", "PodDisruptionBudget") => Self::PodDisruptionBudget,
            ("autoscaling/v2", "HorizontalPodAutoscaler") => Self::HorizontalPodAutoscaler,
            ("v1", "ServiceAccount") => Self::ServiceAccount,
            ("v1", "Secret") => Self::Secret,
            ("multicluster.x-k8s.io/v1alpha1", "ServiceImport") => Self::ServiceImport,
            (
                "admissionregistration.k8s.io/v1",
                "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
            ) => Self::WebhookConfiguration,
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition") => Self::CustomResourceDefinition,
            ("apiregistration.k8s.io/v1", "APIService") => Self::ApiService,
            _ => return None,
        })
    }

    fn has(self, operation: Operation) -> bool {
        use Builtin as B;
        match operation {
            Operation::InterpretReplica => {
                matches!(
                    self,
                    B::Deployment | B::StatefulSet | B::ReplicaSet | B::Job | B::Pod
                )
            }
            Operation::ReviseReplica => {
                matches!(self, B::Deployment | B::StatefulSet | B::ReplicaSet | B::Job)
            }
            Operation::Retain => matches!(
                self,
                B::Deployment
                    | B::Job
                    | B::Pod
                    | B::Service
                    | B::PersistentVolumeClaim
                    | B::PersistentVolume
                    | B::ServiceAccount
                    | B::Secret
                    | B::WebhookConfiguration
                    | B::CustomResourceDefinition
                    | B::ApiService
            ),
            Operation::AggregateStatus => matches!(
                self,
                B::Deployment
                    | B::StatefulSet
                    | B::ReplicaSet
                    | B::DaemonSet
                    | B::Job
                    | B::CronJob
                    | B::Pod
                    | B::Service
                    | B::Ingress
                    | B::PersistentVolumeClaim
                    | B::PersistentVolume
                    | B::PodDisruptionBudget
                    | B::HorizontalPodAutoscaler
            ),
            Operation::InterpretDependency => matches!(
                self,
                B::Deployment
                    | B::StatefulSet
                    | B::ReplicaSet
                    | B::DaemonSet
                    | B::Job
                    | B::CronJob
                    | B::Pod
                    | B::Ingress
                    | B::ServiceImport
            ),
            Operation::InterpretHealth => matches!(
                self,
                B::Deployment
                    | B::StatefulSet
                    | B::ReplicaSet
                    | B::DaemonSet
                    | B::Job
                    | B::Pod
                    | B::Service
                    | B::Ingress
                    | B::PersistentVolumeClaim
                    | B::PodDisruptionBudget
            ),
            Operation::InterpretStatus => true,
            Operation::InterpretComponent => false,
        }
    }
}

/// Whose rule it is.
enum Owner {
    Builtin(Builtin),
    ThirdParty(&'static Rules),
}

/// Who has a rule of the object's kind for the operation.
fn owner(object: &Value, operation: Operation) -> Result<Owner, InterpretError> {
    let kind = Kind::of(object)?;
    if let Some(builtin) = Builtin::of(&kind).filter(|builtin| builtin.has(operation)) {
        return Ok(Owner::Builtin(builtin));
    }
    thirdparty::rules(&kind)
        .filter(|rules| rules.has(operation))
        .map(Owner::ThirdParty)
        .ok_or_else(|| InterpretError::no_rule(&kind, operation))
}

impl Interpreter for Native {
    fn supports(&self, kind: &Kind<'_>, operation: Operation) -> bool {
        // Every kind has a status that can be carried as it is.
        operation == Operation::InterpretStatus
            || Builtin::of(kind).is_some_and(|builtin| builtin.has(operation))
            || thirdparty::rules(kind).is_some_and(|rules| rules.has(operation))
    }

    fn get_replicas(&self, template: &Value) -> Result<Replicas, InterpretError> {
        match owner(template, Operation::InterpretReplica)? {
            Owner::Builtin(kind) => replicas::get(kind, template, self.quota_estimate),
            Owner::ThirdParty(rules) => rules.get_replicas(template),
        }
    }

    fn get_components(&self, template: &Value) -> Result<Vec<Component>, InterpretError> {
        match owner(template, Operation::InterpretComponent)? {
            // No built-in kind has several pod templates.
            Owner::Builtin(_) => Ok(Vec::new()),
            Owner::ThirdParty(rules) => rules.get_components(template),
        }
    }

    fn revise_replica(&self, template: &Value, replicas: i64) -> Result<Value, InterpretError> {
        match owner(template, Operation::ReviseReplica)? {
            Owner::Builtin(kind) => revise::replicas(kind, template, replicas),
            Owner::ThirdParty(rules) => rules.revise_replica(template, replicas),
        }
    }

    fn retain(&self, desired: &Value, observed: &Value) -> Result<Value, InterpretError> {
        match owner(desired, Operation::Retain)? {
            Owner::Builtin(kind) => retain::retain(kind, desired, observed),
            Owner::ThirdParty(rules) => rules.retain(desired, observed),
        }
    }

    fn reflect_status(&self, object: &Value) -> Result<Option<Value>, InterpretError> {
        match owner(object, Operation::InterpretStatus) {
            Ok(Owner::Builtin(kind)) => reflect::status(Some(kind), object),
            Ok(Owner::ThirdParty(rules)) => rules.reflect_status(object),
            Err(InterpretError::NoRule { .. }) => reflect::status(None, object),
            Err(error) => Err(error),
        }
    }

    fn interpret_health(&self, object: &Value) -> Result<bool, InterpretError> {
        match owner(object, Operation::InterpretHealth)? {
            Owner::Builtin(kind) => healthy::healthy(kind, object),
            Owner::ThirdParty(rules) => rules.interpret_health(object),
        }
    }

    fn aggregate_status(
        &self,
        template: &Value,
        items: Option<&[MemberItem]>,
        now: &str,
    ) -> Result<Option<Value>, InterpretError> {
        match owner(template, Operation::AggregateStatus)? {
            Owner::Builtin(kind) => aggregate::status(kind, template, items, now),
            Owner::ThirdParty(rules) => rules.aggregate_status(template, items, now),
        }
    }

    fn get_dependencies(&self, template: &Value) -> Result<Vec<Dependency>, InterpretError> {
        match owner(template, Operation::InterpretDependency)? {
            Owner::Builtin(kind) => dependencies::list_of(kind, template),
            Owner::ThirdParty(rules) => rules.get_dependencies(template),
        }
    }
}
