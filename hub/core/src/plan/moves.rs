//! Failover in a plan: copies that are given up are only given up if the same plan places them elsewhere.
//!
//! The assignment without them is planned first. If nothing fits, the plan is made as if nothing had been given up, and says
//! so: the last copy stays.

use std::collections::BTreeMap;

use interpreter::{Kind, Operation};
use serde::Deserialize;
use serde_json::Value;
use shared::reason::Reason;

use super::binding::{self, Former};
use super::names::NameIndex;
use super::pass::Pass;
use super::{Note, TemplatePlan};
use crate::cluster::Taint;
use crate::divide::Share;
use crate::failover::step::{self, Before, Seen, Step};
use crate::failover::{EvictionTask, PurgeMode};
use crate::policy::AnyPropagationPolicy;

impl Pass<'_> {
    /// Plans what a policy holds, away from copies that are given up.
    pub(super) fn held_by(
        &self,
        policy: &AnyPropagationPolicy,
        names: &mut NameIndex,
        plan: &mut TemplatePlan,
    ) {
        let Some(seen) = self.previous.copies else {
            return self.placed_by(policy, names, plan);
        };
        let step = self.look(policy, seen, true);
        if step.given_up.is_empty() {
            return self.after(&step, seen, policy, names, plan);
        }
        let mut attempt = plan.clone();
        self.after(&step, seen, policy, names, &mut attempt);
        let placed = attempt
            .scheduled
            .as_ref()
            .is_some_and(|scheduled| scheduled.status);
        if placed && !attempt.targets.is_empty() {
            for gone in &step.given_up {
                attempt.notes.push(Note {
                    reason: Reason::MovedAway,
                    cluster: Some(gone.cluster.clone()),
                    message: gone.why.clone(),
                });
            }
            *plan = attempt;
            return;
        }
        let why = attempt.scheduled.map_or_else(
            || "nothing is scheduled now".to_owned(),
            |scheduled| scheduled.message,
        );
        let stays = self.look(policy, seen, false);
        self.after(&stays, seen, policy, names, plan);
        for gone in step.given_up {
            plan.notes.push(Note {
                reason: Reason::NoReplacement,
                cluster: Some(gone.cluster),
                message: format!(
                    "{}; it stays, since there is no other place for it: {why}",
                    gone.why
                ),
            });
        }
    }

    fn look(&self, policy: &AnyPropagationPolicy, seen: &Seen, moves: bool) -> Step {
        let no_resource = Value::Null;
        let before = Before {
            resource: self
                .previous
                .binding
                .map_or(&no_resource, |binding| &binding["spec"]["resource"]),
            clusters: &self.former.shares,
            tasks: &self.former.tasks,
            applied: self.former.applied_placement.as_deref(),
            failover: policy.spec.failover.as_ref(),
        };
        let taints_of = |cluster: &str| -> &[Taint] {
            let known = self.world.cluster_named(cluster);
            known.map_or(&[], |cluster| &cluster.taints)
        };
        let health_is_known = |api_version: &str, kind: &str| {
            let kind = Kind { api_version, kind };
            self.interpreter.supports(&kind, Operation::InterpretHealth)
        };
        step::look(before, seen, moves, taints_of, health_is_known)
    }

    /// Plans with the assignment and tasks of a look.
    fn after(
        &self,
        step: &Step,
        seen: &Seen,
        policy: &AnyPropagationPolicy,
        names: &mut NameIndex,
        plan: &mut TemplatePlan,
    ) {
        let (evicted, staying) = binding::leaving(&step.tasks);
        let holds = |cluster: &&String| step.clusters.iter().any(|share| share.cluster == **cluster);
        let unavailable = match policy.spec.failover {
            Some(_) => seen
                .silent
                .iter()
                .filter(|cluster| !holds(cluster))
                .cloned()
                .collect(),
            None => Vec::new(),
        };
        let former = Former {
            shares: step.clusters.clone(),
            tasks: step.tasks.clone(),
            evicted,
            staying,
            unavailable,
            ..self.former.clone()
        };
        Pass {
            former: &former,
            ..*self
        }
        .placed_by(policy, names, plan);
        plan.look_again_s = step.look_again_s;
        for cluster in &step.ended {
            plan.notes.push(Note {
                reason: Reason::MovedAway,
                cluster: Some(cluster.clone()),
                message: "the old copy is ordered away: a healthy one is elsewhere, or its time is over"
                    .to_owned(),
            });
        }
        for cluster in &step.waiting {
            plan.notes.push(Note {
                reason: Reason::MovedAway,
                cluster: Some(cluster.clone()),
                message: "a NoExecute taint drives the copy away; it waits its turn, since only so many are moved at a time \
                          (--resource-eviction-rate)"
                    .to_owned(),
            });
        }
        if let Some(problem) = &step.problem {
            plan.note(Reason::NoReplacement, format!("nothing is moved: {problem}"));
        }
    }

    /// Labels that the only new copy gets from the one that was given up, if that one was to go at once.
    pub(super) fn carried(&self, targets: &[Share], binding: &Value) -> Option<BTreeMap<String, String>> {
        let [target] = targets else { return None };
        let task = binding["spec"]["gracefulEvictionTasks"].as_array()?.last()?;
        let task = EvictionTask::deserialize(task).ok()?;
        let is_new = !task.clusters_before_failover.contains(&target.cluster);
        (task.purge_mode == Some(PurgeMode::Directly) && is_new && !task.preserved_label_state.is_empty())
            .then_some(task.preserved_label_state)
    }
}
