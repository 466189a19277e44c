//! Rules of the built-in kinds. One file per operation; this one says which kind has which.

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

use crate::{Dependency, InterpretError, Interpreter, Kind, MemberItem, Operation, Replicas};

/// The rules of the built-in kinds.
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

/// The built-in kind of the object, if it has a rule for the operation.
fn rule(object: &Value, operation: Operation) -> Result<Builtin, InterpretError> {
    let kind = Kind::of(object)?;
    Builtin::of(&kind)
        .filter(|builtin| builtin.has(operation))
        .ok_or_else(|| InterpretError::NoRule {
            api_version: kind.api_version.to_owned(),
            kind: kind.kind.to_owned(),
            operation,
        })
}

impl Interpreter for Native {
    fn supports(&self, kind: &Kind<'_>, operation: Operation) -> bool {
        // Every kind has a status that can be carried as it is.
        operation == Operation::InterpretStatus
            || Builtin::of(kind).is_some_and(|builtin| builtin.has(operation))
    }

    fn get_replicas(&self, template: &Value) -> Result<Replicas, InterpretError> {
        replicas::get(
            rule(template, Operation::InterpretReplica)?,
            template,
            self.quota_estimate,
        )
    }

    fn revise_replica(&self, template: &Value, replicas: i64) -> Result<Value, InterpretError> {
        revise::replicas(rule(template, Operation::ReviseReplica)?, template, replicas)
    }

    fn retain(&self, desired: &Value, observed: &Value) -> Result<Value, InterpretError> {
        retain::retain(rule(desired, Operation::Retain)?, desired, observed)
    }

    fn reflect_status(&self, object: &Value) -> Result<Option<Value>, InterpretError> {
        reflect::status(Builtin::of(&Kind::of(object)?), object)
    }

    fn interpret_health(&self, object: &Value) -> Result<bool, InterpretError> {
        healthy::healthy(rule(object, Operation::InterpretHealth)?, object)
    }

    fn aggregate_status(
        &self,
        template: &Value,
        items: Option<&[MemberItem]>,
        now: &str,
    ) -> Result<Option<Value>, InterpretError> {
        aggregate::status(rule(template, Operation::AggregateStatus)?, template, items, now)
    }

    fn get_dependencies(&self, template: &Value) -> Result<Vec<Dependency>, InterpretError> {
        dependencies::list_of(rule(template, Operation::InterpretDependency)?, template)
    }
}
