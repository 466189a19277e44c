//! Kubernetes Events about planning, for `kubectl describe`: on the template and on its binding.
//!
//! The name of an event follows from what it says, so telling the same again is one event with a count.

use std::collections::BTreeSet;

use hub_core::plan::{Template, TemplatePlan, World};
use hub_core::policy::{AnyPropagationPolicy, PolicyRef};
use hub_core::schedule::outcome::{self, About};
use interpreter::{InterpretError, Interpreter, Kind, Operation};
use serde_json::{Value, json};
use shared::ids::Digest;
use shared::reason::Reason;

use super::Reconciler;
use super::metadata::fill_in;
use crate::clock;
use crate::store::fleet::AdoptRefusal;
use crate::store::{Expect, Object, Op, ResourceId};

/// Longest name of an object an event name is made from, so that the name stays within 253 characters.
const NAME_PART: usize = 200;

/// One thing to tell.
struct Tale {
    warning: bool,
    reason: String,
    message: String,
    /// Told because it changed, so a repetition counts; otherwise it is told once.
    is_change: bool,
}

impl Reconciler {
    /// Does no policy select a workload? Workloads are there to run somewhere; much else on a hub is not meant for clusters.
    pub(super) fn runs_nowhere(&self, template: &Template, plan: &TemplatePlan) -> bool {
        let kind = Kind {
            api_version: &template.api_version,
            kind: &template.key.kind,
        };
        plan.notes.iter().any(|note| note.reason == Reason::NoPolicy)
            && self.interpreter.supports(&kind, Operation::InterpretReplica)
    }

    /// Tells what a plan did. An event that cannot be stored is not missed by anything.
    pub(super) async fn tell(
        &self,
        template: &Template,
        plan: &TemplatePlan,
        written: Option<&Object>,
        former: Option<&Value>,
        refused: Option<&AdoptRefusal>,
    ) {
        let binding = written.map(|written| written.value());
        let mut tales = Vec::new();
        if let (Some(scheduled), Some(binding)) = (&plan.scheduled, &binding) {
            let condition = |object: &Value| object["status"]["conditions"][0].clone();
            let clusters = |object: &Value| object["spec"]["clusters"].clone();
            let same = |former: &Value| {
                condition(former) == condition(binding) && clusters(former) == clusters(binding)
            };
            if !former.is_some_and(same) {
                let outcome = match scheduled.status {
                    true => Ok(plan.targets.as_slice()),
                    false => Err(scheduled.message.as_str()),
                };
                let told = outcome::event(outcome, &scheduled.message);
                tales.push(Tale {
                    warning: told.warning,
                    reason: told.reason.to_owned(),
                    message: told.message,
                    is_change: told.on.contains(&About::Binding),
                });
            }
        }
        let mut once = |reason: String, message: String| {
            tales.push(Tale {
                warning: true,
                reason,
                message,
                is_change: false,
            });
        };
        if let Some(warning) = plan.warning() {
            once(Reason::PolicyConflict.to_string(), warning);
        }
        for note in &plan.notes {
            let told_already = note.reason == Reason::NoClusterFits && plan.scheduled.is_some();
            let silent = matches!(
                note.reason,
                Reason::Scheduled
                    | Reason::Suspended
                    | Reason::Attached
                    | Reason::AwaitingChange
                    | Reason::FederatedQuotaExceeded
            ) || told_already
                || (note.reason == Reason::NoPolicy && !self.runs_nowhere(template, plan));
            if !silent {
                let place = note
                    .cluster
                    .as_ref()
                    .map_or(String::new(), |cluster| format!("{cluster}: "));
                once(note.reason.to_string(), format!("{place}{}", note.message));
            }
        }
        if let Some(refusal) = refused {
            let reason = match refusal {
                AdoptRefusal::KeyTaken { .. } => Reason::Conflict,
                AdoptRefusal::Held { .. } => Reason::MassDeleteHeld,
                AdoptRefusal::Set { .. } => Reason::SetFull,
                AdoptRefusal::Content { .. } => Reason::ContentTooLarge,
                AdoptRefusal::NotEnrolled(_) => Reason::AwaitingCluster,
            };
            once(reason.to_string(), refusal.to_string());
        }
        let about_template = json!({
            "apiVersion": template.api_version, "kind": template.key.kind, "namespace": template.key.namespace,
            "name": template.key.name, "uid": template.uid,
        });
        for tale in &tales {
            self.store_event(&about_template, tale).await;
            if let Some(binding) = binding.as_ref().filter(|_| tale.is_change) {
                self.store_event(&reference(binding), tale).await;
            }
        }
    }

    /// Tells, on the template and on its binding, that the template's status does not follow what clusters report.
    pub(super) async fn tell_status_trouble(
        &self,
        template: &Value,
        binding: &Value,
        error: &InterpretError,
    ) {
        let tale = Tale {
            warning: true,
            reason: error.reason_or(Reason::RenderFailed).to_string(),
            message: format!("the status is not updated: {error}"),
            is_change: false,
        };
        for about in [template, binding] {
            self.store_event(&reference(about), &tale).await;
        }
    }

    /// Tells of policies that select nothing, of those that name clusters which have not joined, and of those that no cluster
    /// can satisfy. Each is told once.
    pub(super) async fn tell_of_policies(
        &self,
        world: &World,
        matched: &BTreeSet<PolicyRef>,
        changed: Option<&BTreeSet<PolicyRef>>,
    ) {
        let concerned = |policy: &&AnyPropagationPolicy| {
            !policy.deleting && changed.is_none_or(|changed| changed.contains(&policy.reference))
        };
        for policy in world.policies().iter().filter(concerned) {
            let mut tales = Vec::new();
            if !matched.contains(&policy.reference) {
                let message = "selects no object on the hub yet".to_owned();
                tales.push((false, Reason::MatchesNothing, message));
            }
            let missing = world.not_joined(&policy.placement_json);
            if !missing.is_empty() {
                let message = format!("names clusters that have not joined: {}", missing.join(", "));
                tales.push((true, Reason::UnknownCluster, message));
            }
            if let Some((reason, message)) = world.hopeless(policy) {
                tales.push((true, reason, message));
            }
            let plural = if policy.reference.is_cluster_scoped() {
                "clusterpropagationpolicies"
            } else {
                "propagationpolicies"
            };
            let resource = ResourceId::new("policy.karmada.io", plural);
            for (warning, reason, message) in tales {
                let (namespace, name) = (&policy.reference.namespace, &policy.reference.name);
                let Some(stored) = self.store.get(&resource, namespace, name) else {
                    continue;
                };
                let tale = Tale {
                    warning,
                    reason: reason.to_string(),
                    message,
                    is_change: false,
                };
                self.store_event(&reference(&stored.value()), &tale).await;
            }
        }
    }

    async fn store_event(&self, about: &Value, tale: &Tale) {
        let text = |key: &str| about[key].as_str().unwrap_or_default();
        let namespace = Some(text("namespace"))
            .filter(|ns| !ns.is_empty())
            .unwrap_or("default")
            .to_owned();
        let name = event_name(about, tale);
        let resource = ResourceId::new("", "events");
        let now = clock::wall().rfc3339();
        let former = self.store.get(&resource, &namespace, &name);
        let mut event = match &former {
            Some(_) if !tale.is_change => return,
            Some(former) => former.value(),
            None => json!({
                "apiVersion": "v1", "kind": "Event",
                "metadata": {"name": name, "namespace": namespace},
                "involvedObject": about,
                "reason": tale.reason, "message": tale.message,
                "type": if tale.warning { "Warning" } else { "Normal" },
                "source": {"component": "pinnace-hub"},
                "reportingComponent": "pinnace-hub", "reportingInstance": "",
                "firstTimestamp": now,
            }),
        };
        event["count"] = json!(event["count"].as_i64().unwrap_or(0).saturating_add(1));
        event["lastTimestamp"] = json!(now);
        fill_in(&mut event, None);
        if let Some(metadata) = event["metadata"].as_object_mut() {
            metadata.remove("generation");
        }
        let expect = former.map_or(Expect::Absent, |former| Expect::Revision(former.revision));
        if let Err(error) = self
            .store
            .commit(vec![Op::Put {
                resource,
                namespace,
                name,
                expect,
                object: event,
            }])
            .await
        {
            tracing::debug!(%error, "an event is not stored");
        }
    }
}

fn reference(object: &Value) -> Value {
    json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"],
        "namespace": shared::object::namespace(object), "uid": object["metadata"]["uid"],
    })
}

fn event_name(about: &Value, tale: &Tale) -> String {
    let said = format!(
        "{}\n{}\n{}\n{}",
        about["kind"], about["uid"], tale.reason, tale.message
    );
    let digest: String = Digest::of(said.as_bytes()).to_string().chars().take(16).collect();
    let name = about["name"].as_str().unwrap_or_default().replace(':', ".");
    format!("{}.{digest}", name.chars().take(NAME_PART).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_tale_has_the_same_name_and_another_has_not() {
        let about = json!({"kind": "Deployment", "name": "web", "uid": "u"});
        let tale = |message: &str| Tale {
            warning: false,
            reason: "ScheduleBindingSucceed".to_owned(),
            message: message.to_owned(),
            is_change: true,
        };
        assert_eq!(event_name(&about, &tale("a")), event_name(&about, &tale("a")));
        assert_ne!(event_name(&about, &tale("a")), event_name(&about, &tale("b")));
        assert!(event_name(&json!({"name": "x".repeat(253)}), &tale("a")).len() <= 253);
    }
}
