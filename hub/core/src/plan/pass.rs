//! One pass over one template: from the decision who holds it to works and withdrawals.

use std::collections::BTreeSet;

use interpreter::Interpreter;
use serde_json::{Value, json};
use shared::reason::Reason;

use super::attached::{further_clusters, note_needs, note_required};
use super::binding::{self, Former, merge_suspension};
use super::claims::ClaimNote;
use super::lazy::{Activation, activation};
use super::names::NameIndex;
use super::story::{Occasion, Pages};
use super::template::{Inert, Template};
use super::wanted::Wanted;
use super::{BindingChange, Previous, ScheduledCondition, TemplatePlan, World, works};
use crate::cluster::Cluster;
use crate::divide::Share;
use crate::policy::{AnyPropagationPolicy, ConflictResolution, Suspension};
use crate::quota;
use crate::schedule::outcome::{self, Attempt};
use crate::schedule::{self, ScheduleError, component, trigger};

/// One pass over one template.
#[derive(Clone, Copy)]
pub(super) struct Pass<'a> {
    pub(super) world: &'a World,
    pub(super) template: &'a Template,
    pub(super) previous: Previous<'a>,
    pub(super) interpreter: &'a dyn Interpreter,
    pub(super) former: &'a Former,
    pub(super) everywhere: bool,
    /// Where it is written down how the plan comes about, if somebody wants to know.
    pub(super) story: Option<&'a Pages>,
}

impl Pass<'_> {
    pub(super) fn without_policy(
        &self,
        inert: Option<Inert>,
        names: &mut NameIndex,
        plan: &mut TemplatePlan,
    ) {
        if inert.is_none() && !self.everywhere && self.is_attached() {
            return self.attached(names, plan);
        }
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

    /// Plans what a policy holds, with its copies where they are.
    pub(super) fn placed_by(
        &self,
        policy: &AnyPropagationPolicy,
        names: &mut NameIndex,
        plan: &mut TemplatePlan,
    ) {
        let frozen;
        let policy = match activation(policy, self.template, self.previous.binding) {
            Activation::Acts => policy,
            Activation::Frozen(was) => {
                frozen = was;
                plan.note(
                    Reason::AwaitingChange,
                    format!(
                        "{} is lazy: changes of it act when the object changes next",
                        policy.reference
                    ),
                );
                &*frozen
            }
            Activation::Waits(digest) => {
                plan.claim = Some(ClaimNote::of(policy, Some(digest)));
                plan.note(
                    Reason::AwaitingChange,
                    format!(
                        "{} is lazy: it places the object when the object changes next",
                        policy.reference
                    ),
                );
                if self.is_attached() {
                    self.attached(names, plan);
                }
                return;
            }
        };
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
        let wanted = match Wanted::read(self.template, policy, self.interpreter) {
            Ok(wanted) => wanted,
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
        plan.priority = self.priority(policy, plan);
        let suspension = merge_suspension(self.former.suspension.as_ref(), policy.spec.suspension.as_ref());
        let result = self.schedule(policy, &wanted, suspension.as_ref(), names, plan);
        if let Err(exceeded) = self.charge(&plan.targets, &wanted) {
            return self.over_quota(policy, &exceeded, plan);
        }
        if !wanted.groups.is_empty() {
            plan.waits_for_peers = plan.scheduled.as_ref().is_some_and(|scheduled| !scheduled.status);
            plan.moves_peers = plan.targets != self.former.shares;
        }
        let work = names.work_name(&self.template.key);
        let state = binding::State {
            template: self.template,
            name: &plan.binding_name,
            work: &work,
            policy,
            wanted: &wanted,
            shares: &plan.targets,
            noted: result.noted,
            group: result.group.as_deref(),
            tasks: self.previous.copies.map(|_| self.former.tasks.as_slice()),
            whole_sets: result.whole_sets,
            priority: policy.spec.schedule_priority.as_ref().map(|_| plan.priority),
            suspension: suspension.as_ref(),
        };
        let mut binding = binding::build(self.previous.binding, &state);
        if let Some(problem) = note_needs(&mut binding, policy, self.template, self.interpreter) {
            plan.note(
                Reason::RenderFailed,
                format!("what the object needs beside it cannot be told: {problem}"),
            );
        }
        note_required(&mut binding, self.previous.around.required);
        names.note(&binding);
        if self.previous.binding != Some(&binding) {
            plan.binding = BindingChange::Put(Box::new(binding.clone()));
        }
        let targets = plan.targets.clone();
        let of_policy = OfPolicy {
            policy,
            suspension: suspension.as_ref(),
            binding: &binding,
            divides: wanted.divides,
        };
        self.place(&targets, Some(&of_policy), names, plan);
    }

    /// The priority of the class that the policy names; 0 without one. A class that is not there counts as 0 and is told.
    fn priority(&self, policy: &AnyPropagationPolicy, plan: &mut TemplatePlan) -> i64 {
        let Some(wanted) = &policy.spec.schedule_priority else {
            return 0;
        };
        let name = &wanted.priority_class_name;
        match self.world.priorities.get(name) {
            Some(value) => *value,
            None => {
                plan.note(
                    Reason::AwaitingPriorityClass,
                    format!(
                        "{} names PriorityClass {name:?}, which is not on the hub; its priority counts as 0",
                        policy.reference
                    ),
                );
                0
            }
        }
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

    /// Fills in targets, refusals and condition.
    fn schedule(
        &self,
        policy: &AnyPropagationPolicy,
        wanted: &Wanted,
        suspension: Option<&Suspension>,
        names: &NameIndex,
        plan: &mut TemplatePlan,
    ) -> Scheduled {
        let kept = Scheduled {
            group: self.former.group.clone(),
            whole_sets: component::are_counted(wanted.components.len(), &policy.spec.placement),
            noted: false,
        };
        let peers = wanted.peers(self.template, &plan.binding_name, names);
        let request = wanted.request(self.template, policy, self.former, peers.as_ref());
        if suspension.is_some_and(|suspension| suspension.scheduling == Some(true)) {
            self.tell(Occasion::Suspended, policy, wanted, &request, None);
            plan.targets = self.former.shares.clone();
            plan.note(
                Reason::Suspended,
                "scheduling is suspended on the binding; clusters and replicas stay as they are",
            );
            return kept;
        }
        let scheduler = policy.spec.scheduler_name.as_str();
        if !is_our_scheduler(scheduler) {
            self.tell(
                Occasion::Foreign(scheduler.to_owned()),
                policy,
                wanted,
                &request,
                None,
            );
            plan.targets = self.former.shares.clone();
            plan.note(
                Reason::AwaitingScheduler,
                format!("the scheduler {scheduler:?} decides; clusters and replicas are what it wrote on the binding"),
            );
            return kept;
        }
        let state = trigger::State {
            placement: &policy.spec.placement,
            applied: self.former.applied_placement.as_deref(),
            observed_group: self.former.group.as_deref(),
            replicas: wanted.replicas,
            has_requirements: wanted.divides,
            components: wanted.components.len(),
            shares: &self.former.shares,
            fresh: self.former.asks_for_a_new_start,
        };
        let success = ScheduledCondition {
            status: true,
            reason: "Success",
            message: format!("placed by {}{}", policy.reference, self.not_joined(policy)),
        };
        let Some(trigger) = trigger::trigger(&self.world.fleet, &state) else {
            self.tell(Occasion::Kept, policy, wanted, &request, None);
            plan.targets = self.former.shares.clone();
            plan.note(Reason::Scheduled, words(&plan.targets, wanted.divides));
            plan.scheduled = Some(success);
            return kept;
        };
        let mut record = self.record();
        let outcome = schedule::schedule(&self.world.fleet, &request, record.as_mut());
        self.tell(Occasion::Trigger(trigger), policy, wanted, &request, record);
        match outcome {
            Ok(placed) => {
                if let Err(exceeded) = self.charge(&placed.targets, wanted) {
                    let message = format!("{}: {exceeded}", policy.reference);
                    plan.targets = self.former.shares.clone();
                    plan.note(Reason::FederatedQuotaExceeded, message.clone());
                    plan.scheduled = Some(ScheduledCondition {
                        status: false,
                        reason: "QuotaExceeded",
                        message,
                    });
                    return kept;
                }
                plan.scheduled = Some(success);
                plan.note(Reason::Scheduled, words(&placed.targets, wanted.divides));
                plan.targets = in_former_order(placed.targets, &self.former.shares);
                Scheduled {
                    group: placed.group,
                    whole_sets: placed.whole_sets,
                    noted: true,
                }
            }
            Err(error) => {
                let message = format!("{}: {error}{}", policy.reference, self.not_joined(policy));
                let verdict = Attempt {
                    failed: Some(&error),
                    not_stored: None,
                }
                .verdict();
                let code = match &error {
                    ScheduleError::NoClusterFit { .. } => Reason::NoClusterFits,
                    ScheduleError::Unschedulable(_) => Reason::Unschedulable,
                    ScheduleError::Spread(_) | ScheduleError::NoClusterSelected => Reason::SpreadNotMet,
                    ScheduleError::QuotaExceeded(_) => Reason::QuotaExceeded,
                };
                let drops = matches!(error, ScheduleError::NoClusterFit { .. });
                if drops {
                    if let ScheduleError::NoClusterFit { refused, .. } = error {
                        plan.refused = refused;
                    }
                } else {
                    plan.targets = self.former.shares.clone();
                    plan.waits_for = schedule::candidates(&self.world.fleet, &request);
                }
                plan.note(code, message.clone());
                plan.scheduled = Some(ScheduledCondition {
                    status: verdict.scheduled,
                    reason: verdict.reason,
                    message,
                });
                Scheduled { noted: drops, ..kept }
            }
        }
    }

    /// What is placed asks for more than a quota has: binding and clusters keep what they have, as the reference refuses to
    /// write such a binding.
    fn over_quota(&self, policy: &AnyPropagationPolicy, exceeded: &quota::Exceeded, plan: &mut TemplatePlan) {
        let message = format!(
            "{}: {exceeded}; the clusters keep what they have",
            policy.reference
        );
        plan.targets = self.former.shares.clone();
        plan.notes
            .retain(|note| !matches!(note.reason, Reason::Scheduled | Reason::FederatedQuotaExceeded));
        plan.note(Reason::FederatedQuotaExceeded, message.clone());
        plan.scheduled = Some(ScheduledCondition {
            status: false,
            reason: "QuotaExceeded",
            message,
        });
    }

    /// Is there room in the quotas of the namespace for these targets instead of the former ones?
    fn charge(&self, targets: &[Share], wanted: &Wanted) -> Result<(), quota::Exceeded> {
        let quotas = self.world.quotas(&self.template.key.namespace);
        let (Some(used), false) = (self.previous.around.used, quotas.is_empty()) else {
            return Ok(());
        };
        let clusters = targets
            .iter()
            .map(|share| json!({"name": share.cluster, "replicas": share.replicas}));
        let after = quota::usage(&json!({"spec": {
            "clusters": clusters.collect::<Vec<_>>(),
            "replicaRequirements": wanted.requirements,
            "components": wanted.components,
        }}));
        let before = self.previous.binding.map(quota::usage).unwrap_or_default();
        quotas
            .iter()
            .try_for_each(|quota| quota.admit(used, &before, &after))
    }

    /// Clusters that the placement names and that have not joined, in words; empty if there are none.
    fn not_joined(&self, policy: &AnyPropagationPolicy) -> String {
        match self.world.not_joined(&policy.placement_json).as_slice() {
            [] => String::new(),
            names => format!("; not joined yet: {}", names.join(", ")),
        }
    }

    /// Clusters that dispatching is held back from: nothing is taken away there either.
    fn paused<'w>(&'w self, suspension: Option<&'w Suspension>) -> impl Iterator<Item = &'w str> {
        suspension.into_iter().flat_map(|suspension| {
            let clusters = self.world.clusters().iter();
            clusters
                .filter(|cluster| !cluster.deleting && suspension.holds(&cluster.name))
                .map(|cluster| cluster.name.as_str())
        })
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
            .filter_map(|share| Some((self.world.fleet.get(&share.cluster)?, share.replicas)))
            .collect();
        let further = further_clusters(
            self.previous.around.required,
            &targets.iter().map(|share| share.cluster.clone()).collect(),
        );
        if !further.is_empty() && !self.everywhere {
            let replicas = self.own_replicas().unwrap_or(0);
            let clusters = further.iter().filter_map(|name| self.world.cluster_named(name));
            wanted.extend(clusters.map(|cluster| (cluster, replicas)));
        }
        if self.everywhere {
            let chosen: BTreeSet<&str> = targets.iter().map(|share| share.cluster.as_str()).collect();
            let rest = self
                .world
                .clusters()
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
            carried: of_policy.and_then(|of| self.carried(targets, of.binding)),
        };
        render.all(&wanted, plan);
        // The old copy stays while the object is being moved away gracefully.
        let keeps: BTreeSet<&str> = wanted
            .iter()
            .map(|(cluster, _)| cluster.name.as_str())
            .chain(self.former.staying.iter().map(String::as_str))
            .chain(self.paused(of_policy.and_then(|of| of.suspension)))
            .collect();
        self.withdraw_from(&keeps, render.preserve, plan);
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

/// How scheduling ended, beside the targets.
struct Scheduled {
    group: Option<String>,
    /// Each target has one whole set of components.
    whole_sets: bool,
    /// Placement and group are noted down on the binding.
    noted: bool,
}

/// Is it the hub's own scheduler?
fn is_our_scheduler(name: &str) -> bool {
    matches!(name, "" | "default-scheduler")
}

fn words(targets: &[Share], with_replicas: bool) -> String {
    if with_replicas {
        return format!("{{{}}}", outcome::words(targets));
    }
    let names: Vec<&str> = targets.iter().map(|share| share.cluster.as_str()).collect();
    format!("{{{}}}", names.join(", "))
}
