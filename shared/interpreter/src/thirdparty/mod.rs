//! Rules of well-known kinds of other projects, as the reference ships them (there as scripts, here compiled).
//!
//! A kind is a [`Rules`] value: one function per operation, mostly a closure around a general rule of [`general`] or
//! [`merge`] with the kind's field names. Only this file says which kind has which.

mod argo;
mod flink;
mod flux;
mod general;
mod kruise;
mod kubeflow;
mod kyverno;
mod merge;
mod ray;
mod spark;
mod volcano;

use serde_json::Value;

use crate::{Component, Dependency, InterpretError, Kind, MemberItem, Operation, Replicas};

type Read<T> = Result<T, InterpretError>;

/// The rules of one kind; an operation without a rule is `None`.
pub(crate) struct Rules {
    replicas: Option<fn(&Value) -> Read<Replicas>>,
    components: Option<fn(&Value) -> Read<Vec<Component>>>,
    revise: Option<fn(&Value, i64) -> Read<Value>>,
    retain: Option<fn(&Value, &Value) -> Read<Value>>,
    aggregate: Option<Aggregate>,
    reflect: Option<fn(&Value) -> Read<Value>>,
    health: Option<fn(&Value) -> Read<bool>>,
    dependencies: Option<fn(&Value) -> Read<Vec<Dependency>>>,
}

/// Template, items (`None`: not known yet), now.
type Aggregate = fn(&Value, Option<&[MemberItem]>, &str) -> Read<Option<Value>>;

/// A kind without any rule, to build others from.
const NONE: Rules = Rules {
    replicas: None,
    components: None,
    revise: None,
    retain: None,
    aggregate: None,
    reflect: None,
    health: None,
    dependencies: None,
};

/// The rules of a kind, by exact API version.
pub(crate) fn rules(kind: &Kind<'_>) -> Option<&'static Rules> {
    Some(match (kind.api_version, kind.kind) {
        ("argoproj.io/v1alpha1", "Workflow") => &argo::WORKFLOW,
        ("apps.kruise.io/v1alpha1", "CloneSet") => &kruise::CLONE_SET,
        ("apps.kruise.io/v1beta1", "StatefulSet") => &kruise::STATEFUL_SET,
        ("apps.kruise.io/v1alpha1", "UnitedDeployment") => &kruise::UNITED_DEPLOYMENT,
        ("apps.kruise.io/v1alpha1", "DaemonSet") => &kruise::DAEMON_SET,
        ("apps.kruise.io/v1alpha1", "BroadcastJob") => &kruise::BROADCAST_JOB,
        ("apps.kruise.io/v1alpha1", "SidecarSet") => &kruise::SIDECAR_SET,
        ("apps.kruise.io/v1alpha1", "AdvancedCronJob") => &kruise::ADVANCED_CRON_JOB,
        ("batch.volcano.sh/v1alpha1", "Job") => &volcano::JOB,
        ("flink.apache.org/v1beta1", "FlinkDeployment") => &flink::DEPLOYMENT,
        ("helm.toolkit.fluxcd.io/v2beta1", "HelmRelease") => &flux::HELM_RELEASE,
        ("kustomize.toolkit.fluxcd.io/v1", "Kustomization") => &flux::KUSTOMIZATION,
        ("source.toolkit.fluxcd.io/v1", "GitRepository") => &flux::GIT_REPOSITORY,
        ("source.toolkit.fluxcd.io/v1beta2", "Bucket") => &flux::BUCKET,
        ("source.toolkit.fluxcd.io/v1beta2", "HelmChart") => &flux::HELM_CHART,
        ("source.toolkit.fluxcd.io/v1beta2", "HelmRepository") => &flux::HELM_REPOSITORY,
        ("source.toolkit.fluxcd.io/v1beta2", "OCIRepository") => &flux::OCI_REPOSITORY,
        ("kubeflow.org/v1", "PyTorchJob") => &kubeflow::PYTORCH_JOB,
        ("kubeflow.org/v1", "TFJob") => &kubeflow::TF_JOB,
        ("kubeflow.org/v2beta1", "MPIJob") => &kubeflow::MPI_JOB,
        ("kubeflow.org/v1", "Notebook") => &kubeflow::NOTEBOOK,
        ("kyverno.io/v1", "Policy" | "ClusterPolicy") => &kyverno::POLICY,
        ("ray.io/v1", "RayCluster") => &ray::CLUSTER,
        ("ray.io/v1", "RayJob") => &ray::JOB,
        ("ray.io/v1", "RayService") => &ray::SERVICE,
        ("sparkoperator.k8s.io/v1beta2", "SparkApplication") => &spark::APPLICATION,
        _ => return None,
    })
}

fn missing<T>(object: &Value, operation: Operation) -> Read<T> {
    Err(InterpretError::no_rule(&Kind::of(object)?, operation))
}

impl Rules {
    pub(crate) fn has(&self, operation: Operation) -> bool {
        match operation {
            Operation::InterpretReplica => self.replicas.is_some(),
            Operation::InterpretComponent => self.components.is_some(),
            Operation::ReviseReplica => self.revise.is_some(),
            Operation::Retain => self.retain.is_some(),
            Operation::AggregateStatus => self.aggregate.is_some(),
            Operation::InterpretDependency => self.dependencies.is_some(),
            Operation::InterpretStatus => self.reflect.is_some(),
            Operation::InterpretHealth => self.health.is_some(),
        }
    }

    pub(crate) fn get_replicas(&self, template: &Value) -> Read<Replicas> {
        match self.replicas {
            Some(rule) => rule(template),
            None => missing(template, Operation::InterpretReplica),
        }
    }

    pub(crate) fn get_components(&self, template: &Value) -> Read<Vec<Component>> {
        match self.components {
            Some(rule) => rule(template),
            None => missing(template, Operation::InterpretComponent),
        }
    }

    pub(crate) fn revise_replica(&self, template: &Value, replicas: i64) -> Read<Value> {
        match self.revise {
            Some(rule) => rule(template, replicas),
            None => missing(template, Operation::ReviseReplica),
        }
    }

    pub(crate) fn retain(&self, desired: &Value, observed: &Value) -> Read<Value> {
        match self.retain {
            Some(rule) => rule(desired, observed),
            None => missing(desired, Operation::Retain),
        }
    }

    pub(crate) fn aggregate_status(
        &self,
        template: &Value,
        items: Option<&[MemberItem]>,
        now: &str,
    ) -> Read<Option<Value>> {
        match self.aggregate {
            Some(rule) => rule(template, items, now),
            None => missing(template, Operation::AggregateStatus),
        }
    }

    pub(crate) fn reflect_status(&self, object: &Value) -> Read<Option<Value>> {
        match self.reflect {
            Some(rule) => rule(object).map(Some),
            None => missing(object, Operation::InterpretStatus),
        }
    }

    pub(crate) fn interpret_health(&self, object: &Value) -> Read<bool> {
        match self.health {
            Some(rule) => rule(object),
            None => missing(object, Operation::InterpretHealth),
        }
    }

    pub(crate) fn get_dependencies(&self, template: &Value) -> Read<Vec<Dependency>> {
        match self.dependencies {
            Some(rule) => rule(template),
            None => missing(template, Operation::InterpretDependency),
        }
    }
}
