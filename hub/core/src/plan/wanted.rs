//! What a template wants of clusters: replicas, requirements, components, and the groups it belongs to.

use interpreter::{InterpretError, Interpreter, Kind, Operation, ReplicaRequirements};

use super::binding::Former;
use super::names::NameIndex;
use super::template::Template;
use crate::estimate::{Component, Resources};
use crate::explain::Unit;
use crate::policy::AnyPropagationPolicy;
use crate::schedule::peers::{AffinityGroups, Peers};
use crate::schedule::{EmptyShares, Request, component};

/// What a template wants.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// Has the kind replicas that are set per cluster?
    pub(super) divides: bool,
    /// Wanted replicas.
    pub(super) replicas: i64,
    /// Requirements of one replica.
    pub(super) requirements: Option<ReplicaRequirements>,
    /// The kinds of pods of a workload with several, as the interpreter read them.
    pub(super) components: Vec<interpreter::Component>,
    /// The groups of workload affinity it belongs to.
    pub(super) groups: AffinityGroups,
    requests: Option<Resources>,
    sets: Vec<Component>,
}

impl Wanted {
    /// Reads the effective template. A kind with components is read as such if it has no replicas, or if the policy wants
    /// whole sets.
    pub(super) fn read(
        template: &Template,
        policy: &AnyPropagationPolicy,
        interpreter: &dyn Interpreter,
    ) -> Result<Self, InterpretError> {
        let object = &*template.object;
        let kind = Kind::of(object)?;
        let placement = &policy.spec.placement;
        let mut wanted = Self::default();
        if !template.key.namespace.is_empty()
            && let Some(rules) = &placement.workload_affinity
        {
            wanted.groups = AffinityGroups::of(rules, &template.labels);
        }
        let has = |operation| interpreter.supports(&kind, operation);
        let (has_replicas, has_components) = (
            has(Operation::InterpretReplica),
            has(Operation::InterpretComponent),
        );
        if has_components && (!has_replicas || component::wants_one_cluster(placement)) {
            wanted.components = interpreter.get_components(&interpreter::effective(object))?;
            let read = |one: &interpreter::Component| {
                Component::read(&one.name, one.replicas, one.replica_requirements.as_ref())
            };
            wanted.sets = wanted.components.iter().map(read).collect();
        } else if has_replicas {
            let read = interpreter.get_replicas(&interpreter::effective(object))?;
            wanted.divides = true;
            wanted.replicas = read.replicas;
            wanted.requests = read.requirements.as_ref().map(|required| {
                let parse = |(name, text): (&String, &String)| Some((name.clone(), text.parse().ok()?));
                required.resource_request.iter().filter_map(parse).collect()
            });
            wanted.requirements = read.requirements;
        }
        Ok(wanted)
    }

    /// What estimates count for it.
    pub(super) fn unit(&self, policy: &AnyPropagationPolicy) -> Unit {
        if component::are_whole_sets(&self.sets, &policy.spec.placement) {
            Unit::Sets
        } else if self.divides {
            Unit::Replicas
        } else {
            Unit::Nothing
        }
    }

    /// What the other members of its groups allow; `None`: it belongs to no group.
    pub(super) fn peers(&self, template: &Template, binding: &str, names: &NameIndex) -> Option<Peers> {
        (!self.groups.is_empty()).then(|| names.peers(&template.key.namespace, binding, &self.groups))
    }

    /// The request to the scheduler.
    pub(super) fn request<'a>(
        &'a self,
        template: &'a Template,
        policy: &'a AnyPropagationPolicy,
        former: &'a Former,
        peers: Option<&'a Peers>,
    ) -> Request<'a> {
        let required = self.requirements.as_ref();
        Request {
            api_version: &template.api_version,
            kind: &template.key.kind,
            namespace: &template.key.namespace,
            uid: &template.uid,
            replicas: self.replicas,
            workload: self.divides,
            requests: self.requests.as_ref(),
            claim: required.and_then(|required| required.node_claim.as_ref()),
            priority_class: required
                .and_then(|required| required.priority_class_name.as_deref())
                .unwrap_or_default(),
            components: &self.sets,
            placement: &policy.spec.placement,
            previous: &former.shares,
            observed_group: former.group.as_deref(),
            fresh: former.asks_for_a_new_start,
            evicted: &former.evicted,
            unavailable: &former.unavailable,
            peers,
            empty_shares: EmptyShares::KeepAtZero,
        }
    }
}
