//! One pass over one template: from the decision who holds it to works and withdrawals.

use std::collections::BTreeSet;

use interpreter::{InterpretError, Interpreter, Kind, Operation, Replicas};
use serde_json::Value;
use shared::reason::Reason;

use super::binding::{self, Former, merge_suspension};
use super::names::NameIndex;
use super::template::{Inert, Template};
use super::{
    BindingChange, Previous, ScheduledCondition, TemplatePlan, Withdrawal, World, delete_mode, works,
};
use crate::cluster::Cluster;
use crate::divide::Share;
use crate::policy::{AnyPropagationPolicy, ConflictResolution, Suspension};
use crate::schedule::{self, EmptyShares, Request, ScheduleError};

/// One pass over one template.
pub(super) struct Pass<'a> {
    pub(super) world: &'a World,
    pub(super) template: &'a Template,
    pub(super) previous: Previous<'a>,
    pub(super) interpreter: &'a dyn Interpreter,
    pub(super) former: &'a Former,
    pub(super) everywhere: bool,
}

impl Pass<'_> {
    pub(super) fn without_policy(
        &self,
        inert: Option<Inert>,
        names: &mut NameIndex,
        plan: &mut TemplatePlan,
    ) {
        if let Some(binding) = self.previous.binding {
            if self.former.claim.is_some() {
                let mut released = binding.clone();
                binding::note_claim(&mut released["metadata"], None);
                plan.binding = BindingChange::Put(Box::new(released));
            }
            plan.targets = self.former.shares.clone();
            if !self.everywhere {
                plan.note(
                    Reason::PolicyGone,
                    "no policy selects the object any more; what runs goes on unchanged",
                );
            }
        } else if inert.is_none() && !self.everywhere {
            plan.note(Reason::NoPolicy, "no policy selects the object");
        }
        if self.everywhere {
            self.place(&[], None, names, plan);
        }
    }

    pub(super) fn held_by(
        &self,
        policy: &AnyPropagationPolicy,
        names: &mut NameIndex,
        plan: &mut TemplatePlan,
    ) {
        if let Some(missing) = self.missing_override(policy) {
            plan.targets = self.former.shares.clone();
            let kind = if policy.reference.is_cluster_scoped() {
                "ClusterOverridePolicy"
            } else {
                "OverridePolicy"
            };
            plan.note(
                Reason::AwaitingOverrides,
                format!(
                    "{} waits for {kind} {missing:?}, which it names in dependentOverrides",
                    policy.reference
                ),
            );
            return;
        }
        let replicas = match self.replicas() {
            Ok(replicas) => replicas,
            Err(problem) => {
                let message = problem.to_string();
                plan.targets = self.former.shares.clone();
                plan.note(problem.reason_or(Reason::RenderFailed), message.clone());
                plan.scheduled = Some(ScheduledCondition {
                    status: false,
                    reason: "SchedulerError",
                    message,
                });
                return;
            }
        };
        let suspension = merge_suspension(self.former.suspension.as_ref(), policy.spec.suspension.as_ref());
        let group = self.schedule(policy, replicas.as_ref(), suspension.as_ref(), plan);
        let work = names.work_name(&self.template.key);
        let state = binding::State {
            template: self.template,
            name: &plan.binding_name,
            work: &work,
            policy,
            replicas: replicas.as_ref().map_or(0, |r| r.replicas),
            requirements: replicas
                .as_ref()
                .and_then(|r| serde_json::to_value(r.requirements.as_ref()?).ok()),
            shares: &plan.targets,
            scheduled: plan
                .scheduled
                .as_ref()
                .is_some_and(|condition| matches!(condition.reason, "Success" | "NoClusterFit")),
            group: group.as_deref(),
            suspension: suspension.as_ref(),
        };
        let binding = binding::build(self.previous.binding, &state);
        names.note(&binding);
        if self.previous.binding != Some(&binding) {
            plan.binding = BindingChange::Put(Box::new(binding.clone()));
        }
        let divides = replicas.is_some();
        let targets = plan.targets.clone();
        let of_policy = OfPolicy {
            policy,
            suspension: suspension.as_ref(),
            binding: &binding,
            divides,
        };
        self.place(&targets, Some(&of_policy), names, plan);
    }

    fn missing_override<'p>(&self, policy: &'p AnyPropagationPolicy) -> Option<&'p str> {
        let exists = |name: &str| {
            self.world
                .overrides
                .iter()
                .any(|o| o.reference.namespace == policy.reference.namespace && o.reference.name == name)
        };
        policy
            .spec
            .dependent_overrides
            .iter()
            .map(String::as_str)
            .find(|name| !exists(name))
    }

    /// Replicas and requirements of the effective template; `None`: the kind has no replicas.
    fn replicas(&self) -> Result<Option<Replicas>, InterpretError> {
        let object = &*self.template.object;
        let kind = Kind::of(object)?;
        if !self.interpreter.supports(&kind, Operation::InterpretReplica) {
            return Ok(None);
        }
        self.interpreter
            .get_replicas(&interpreter::effective(object))
            .map(Some)
    }

    /// Fills in targets, refusals and condition; returns the affinity group in use.
    fn schedule(
        &self,
        policy: &AnyPropagationPolicy,
        replicas: Option<&Replicas>,
        suspension: Option<&Suspension>,
        plan: &mut TemplatePlan,
    ) -> Option<String> {
        if suspension.is_some_and(|suspension| suspension.scheduling == Some(true)) {
            plan.targets = self.former.shares.clone();
            plan.note(
                Reason::Suspended,
                "scheduling is suspended on the binding; clusters and replicas stay as they are",
            );
            return self.former.group.clone();
        }
        let requests = replicas.and_then(|r| r.requirements.as_ref()).map(|required| {
            let read = |(name, text): (&String, &String)| Some((name.clone(), text.parse().ok()?));
            required.resource_request.iter().filter_map(read).collect()
        });
        let request = Request {
            api_version: &self.template.api_version,
            kind: &self.template.key.kind,
            uid: &self.template.uid,
            replicas: replicas.map_or(0, |r| r.replicas),
            workload: replicas.is_some(),
            requests: requests.as_ref(),
            placement: &policy.spec.placement,
            previous: &self.former.shares,
            observed_group: self.former.group.as_deref(),
            fresh: self.former.asks_for_a_new_start,
            evicted: &self.former.evicted,
            empty_shares: EmptyShares::KeepAtZero,
        };
        match schedule::schedule(&self.world.clusters, &request) {
            Ok(placed) => {
                plan.scheduled = Some(ScheduledCondition {
                    status: true,
                    reason: "Success",
                    message: format!("placed by {}", policy.reference),
                });
                plan.note(Reason::Scheduled, words(&placed.targets, replicas.is_some()));
                plan.targets = in_former_order(placed.targets, &self.former.shares);
                plan.refused = placed.refused;
                placed.group
            }
            Err(error) => {
                let message = format!("{}: {error}", policy.reference);
                let reason = error.reason();
                let code = match error {
                    ScheduleError::NoClusterFit { refused, .. } => {
                        plan.refused = refused;
                        Reason::NoClusterFits
                    }
                    ScheduleError::Unschedulable(_) => Reason::Unschedulable,
                    ScheduleError::Spread(_) | ScheduleError::NoClusterSelected => Reason::SpreadNotMet,
                };
                if code != Reason::NoClusterFits {
                    plan.targets = self.former.shares.clone();
                }
                plan.note(code, message.clone());
                plan.scheduled = Some(ScheduledCondition {
                    status: false,
                    reason,
                    message,
                });
                self.former.group.clone()
            }
        }
    }

    /// Renders the works of the targets, and of all other clusters if the object goes everywhere; withdraws the rest.
    fn place(
        &self,
        targets: &[Share],
        of_policy: Option<&OfPolicy<'_>>,
        names: &mut NameIndex,
        plan: &mut TemplatePlan,
    ) {
        let mut wanted: Vec<(&Cluster, i64)> = targets
            .iter()
            .filter_map(|share| Some((self.world.cluster(&share.cluster)?, share.replicas)))
            .collect();
        if self.everywhere {
            let chosen: BTreeSet<&str> = targets.iter().map(|share| share.cluster.as_str()).collect();
            let rest = self
                .world
                .clusters
                .iter()
                .filter(|c| !c.deleting && !chosen.contains(c.name.as_str()));
            wanted.extend(rest.map(|cluster| (cluster, 0)));
            wanted.sort_by(|a, b| a.0.name.cmp(&b.0.name));
        }
        let policy = of_policy.map(|of| of.policy);
        let render = works::Render {
            world: self.world,
            template: self.template,
            interpreter: self.interpreter,
            work: names.work_name(&self.template.key),
            divides: of_policy.is_some_and(|of| of.divides),
            divided: policy.is_some_and(|policy| {
                let scheduling = policy.spec.placement.replica_scheduling.as_ref();
                schedule::strategy(scheduling) != schedule::Strategy::Duplicated
            }),
            // A namespace for all that is already there is adopted quietly, so never deleted by us.
            conflict: if self.everywhere {
                ConflictResolution::Overwrite
            } else {
                policy
                    .map(|policy| policy.spec.conflict_resolution)
                    .unwrap_or_default()
            },
            suspension: of_policy.and_then(|of| of.suspension),
            preserve: policy.is_some_and(|policy| policy.spec.preserve_resources_on_deletion == Some(true)),
            binding: of_policy.map(|of| of.binding),
        };
        render.all(&wanted, plan);
        let keeps: BTreeSet<&str> = wanted.iter().map(|(cluster, _)| cluster.name.as_str()).collect();
        let mode = delete_mode(render.preserve);
        plan.withdraw = self
            .previous
            .held
            .iter()
            .filter(|cluster| !keeps.contains(cluster.as_str()))
            .map(|cluster| Withdrawal {
                cluster: cluster.clone(),
                key: self.template.key.clone(),
                mode,
            })
            .collect();
    }
}

/// Clusters that were targets before keep their places, new ones follow: the list says where, not how good.
fn in_former_order(mut targets: Vec<Share>, former: &[Share]) -> Vec<Share> {
    let place = |share: &Share| former.iter().position(|known| known.cluster == share.cluster);
    targets.sort_by_cached_key(|share| place(share).unwrap_or(usize::MAX));
    targets
}

/// What a policy says about the works it makes.
struct OfPolicy<'a> {
    policy: &'a AnyPropagationPolicy,
    suspension: Option<&'a Suspension>,
    binding: &'a Value,
    divides: bool,
}

fn words(targets: &[Share], with_replicas: bool) -> String {
    let one = |share: &Share| match with_replicas {
        true => format!("{}:{}", share.cluster, share.replicas),
        false => share.cluster.clone(),
    };
    format!("{{{}}}", targets.iter().map(one).collect::<Vec<_>>().join(", "))
}
