//! `pinnace why`: gathers what the store knows about one object, and plans it once more to say why.

use std::collections::BTreeSet;
use std::sync::Arc;

use hub_core::aggregate;
use hub_core::dependencies::{DependencyIndex, Referrer};
use hub_core::estimate::Resources;
use hub_core::explain::{
    Claim, ClusterState, Explanation, Note, ReportFacts, TargetFacts, considered, sort, state,
};
use hub_core::plan::{
    Around, NameIndex, Previous, Template, TemplatePlan, World, assess_template, plan_template,
};
use hub_core::quota;
use serde_json::Value;
use shared::ids::{ClusterName, ObjectKey};
use shared::reason::{Code, Reason};
use shared::time::UnixSeconds;
use shared::wire::{ApplyState, Health};

use super::Reconciler;
use super::explain_gone::is_cluster;
use super::explain_policy::is_policy;
use super::feed::take_silence_off;
use super::status::wanted;
use crate::clock;
use crate::fleet::wire;
use crate::store::fleet::Target;
use crate::store::{ResourceId, StoreError};

/// Why nothing can be said.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// No such object, and no cluster holds one of its works either.
    #[error("{resource} {namespace}/{name} does not exist on the hub")]
    NotFound {
        /// What was asked for.
        resource: ResourceId,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Explains one object: who decided where it goes, and its state in every cluster, worst first.
///
/// # Errors
/// There is no such object, or the store.
pub fn explain(
    reconciler: &Reconciler,
    resource: &ResourceId,
    namespace: &str,
    name: &str,
) -> Result<Explanation, ExplainError> {
    let not_found = || ExplainError::NotFound {
        resource: resource.clone(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let object = reconciler
        .store
        .get(resource, namespace, name)
        .ok_or_else(not_found)?;
    if is_policy(resource) {
        return Ok(reconciler.explain_policy(&object)?);
    }
    if is_cluster(resource) {
        return Ok(reconciler.explain_cluster(&object)?);
    }
    let mut value = object.value();
    take_silence_off(&mut value);
    let template = Template::read(Arc::new(value)).ok_or_else(not_found)?;
    let (binding, stored) = reconciler.stored_binding(&template.key);
    let former = stored.as_ref().map(|stored| stored.value());
    let targets = match &binding {
        Some(binding) => reconciler.store.targets_of(binding)?,
        None => Vec::new(),
    };
    let targets: Vec<Target> = targets
        .into_iter()
        .filter(|target| target.entry.key == template.key)
        .collect();
    let held: BTreeSet<ClusterName> = targets.iter().map(|target| target.cluster.clone()).collect();
    let world = reconciler.read_world()?;
    let mut names = reconciler.neighbours(former.as_ref());
    let (required, used) = reconciler.around(&world, &template);
    let look = match (&binding, &former) {
        (Some(binding), Some(former)) => reconciler.look_at_copies(binding, former, &world)?,
        _ => None,
    };
    let previous = Previous {
        binding: former.as_ref(),
        held: &held,
        around: Around {
            required: &required,
            used: used.as_ref(),
        },
        copies: look.as_ref().map(|look| &look.seen),
    };
    let plan = plan_template(&world, &template, previous, &*reconciler.interpreter, &mut names);
    let (assessed, unit) = assess_template(
        &world,
        &template,
        former.as_ref(),
        &*reconciler.interpreter,
        &names,
    );
    let wall = clock::wall();
    let age = |cluster: &str| {
        let clusters = world.clusters();
        let place = clusters
            .binary_search_by(|one| one.name.as_str().cmp(cluster))
            .ok()?;
        let seen = clusters.get(place)?.last_seen?;
        u64::try_from(wall.0.saturating_sub(seen.0)).ok()
    };
    let considered = considered(&assessed, &plan.targets, unit, age);
    let status_trouble = reconciler.status_trouble(former.as_ref(), &template, &targets);
    let mut clusters = reconciler.cluster_states(&template.key, &plan, &targets)?;
    sort(&mut clusters);
    Ok(Explanation {
        api_version: template.api_version.clone(),
        kind: template.key.kind.clone(),
        namespace: template.key.namespace.clone(),
        name: template.key.name.clone(),
        generation: i64::try_from(template.generation).unwrap_or(i64::MAX),
        claim: claim(&plan),
        binding: stored.map(|stored| stored.name.clone()),
        notes: [notes(&plan), considered, status_trouble].concat(),
        clusters,
    })
}

impl Reconciler {
    /// The bindings that a template with affinity groups is compared with; none for one without.
    fn neighbours(&self, binding: Option<&Value>) -> NameIndex {
        let mut names = NameIndex::default();
        let Some(binding) = binding.filter(|binding| binding["spec"]["workloadAffinityGroups"].is_object())
        else {
            return names;
        };
        let resource = ResourceId::new("work.karmada.io", "resourcebindings");
        let namespace = shared::object::namespace(binding);
        for other in self.store.list(&resource, Some(namespace)).items {
            names.note(&other.value());
        }
        names
    }

    /// Why the status of the template does not follow what its clusters report, if it does not.
    fn status_trouble(&self, binding: Option<&Value>, template: &Template, targets: &[Target]) -> Vec<Note> {
        let Some(binding) = binding else {
            return Vec::new();
        };
        let wanted = wanted(binding, targets, |cluster| self.is_dark(cluster));
        let now = clock::wall().rfc3339();
        match aggregate::template_status(&*self.interpreter, &template.object, &wanted, &now) {
            Ok(_) => Vec::new(),
            Err(error) => vec![Note {
                reason: error.reason_or(Reason::RenderFailed).into(),
                message: format!("the status of the template is not updated: {error}"),
            }],
        }
    }
}

fn claim(plan: &TemplatePlan) -> Claim {
    let others = plan
        .passed
        .iter()
        .map(|passed| format!("{}: {}", passed.policy, passed.why.words()))
        .collect();
    match &plan.holder {
        Some(policy) => Claim::Policy {
            policy: policy.to_string(),
            why: "it selects the object".to_owned(),
            others,
        },
        None => {
            let found = plan
                .notes
                .iter()
                .find(|note| matches!(note.reason, Reason::NoPolicy | Reason::PolicyGone));
            let everywhere = !plan.works.is_empty();
            let (reason, message) = match found {
                Some(note) => (note.reason, note.message.clone()),
                None if everywhere => (
                    Reason::Scheduled,
                    "namespaces and customizations go to every cluster without a policy".to_owned(),
                ),
                None => (
                    Reason::NoPolicy,
                    "objects of this kind or place are never sent to clusters".to_owned(),
                ),
            };
            Claim::Nobody {
                reason: reason.into(),
                message,
            }
        }
    }
}

/// Notes about the whole.
fn notes(plan: &TemplatePlan) -> Vec<Note> {
    let told = plan
        .notes
        .iter()
        .filter(|note| !matches!(note.reason, Reason::NoPolicy | Reason::PolicyGone));
    let told = told.map(|note| {
        let place = note
            .cluster
            .as_ref()
            .map_or(String::new(), |cluster| format!("{cluster}: "));
        Note {
            reason: note.reason.into(),
            message: format!("{place}{}", note.message),
        }
    });
    told.collect()
}

impl Reconciler {
    /// What the other bindings of its namespace mean for a template, read anew.
    pub(super) fn around(&self, world: &World, template: &Template) -> (Vec<Referrer>, Option<Resources>) {
        let namespace = &template.key.namespace;
        if namespace.is_empty() {
            return (Vec::new(), None);
        }
        let mut index = DependencyIndex::default();
        let mut ledger = quota::Ledger::default();
        let bindings = ResourceId::new("work.karmada.io", "resourcebindings");
        for binding in self.store.list(&bindings, Some(namespace)).items {
            let value = binding.value();
            index.note(namespace, &binding.name, Some(&value));
            ledger.note(namespace, &binding.name, Some(&value));
        }
        let used = (!world.quotas(namespace).is_empty()).then(|| ledger.used(namespace));
        (index.required_by(&template.subject()), used)
    }

    pub(super) fn cluster_states(
        &self,
        key: &ObjectKey,
        plan: &TemplatePlan,
        targets: &[Target],
    ) -> Result<Vec<ClusterState>, StoreError> {
        let now = clock::monotonic();
        let wall = clock::wall();
        let mut names: BTreeSet<ClusterName> = targets.iter().map(|target| target.cluster.clone()).collect();
        names.extend(plan.works.iter().map(|work| work.cluster.clone()));
        names.extend(
            plan.targets
                .iter()
                .filter_map(|share| ClusterName::new(&share.cluster).ok()),
        );
        let mut leaving = BTreeSet::new();
        for enrolment in self.store.enrolments()? {
            let tombstones = self.store.tombstones_on(&enrolment.cluster)?;
            if tombstones.iter().any(|ordered| ordered.tombstone.key == *key) {
                leaving.insert(enrolment.cluster);
            }
        }
        names.extend(leaving.iter().cloned());
        let mut states = Vec::with_capacity(names.len());
        for cluster in names {
            let row = self.store.facts(&cluster)?;
            let set = self.store.current_set(&cluster)?;
            let target = targets.iter().find(|target| target.cluster == cluster);
            let work = plan.works.iter().find(|work| work.cluster == cluster);
            let share = plan
                .targets
                .iter()
                .find(|share| share.cluster == cluster.as_str());
            let adopted = match (target, work) {
                (Some(target), Some(work)) => target.entry == work.entry,
                (Some(_), None) => true,
                (None, _) => false,
            };
            let leaves = target.is_none() && leaving.contains(&cluster);
            let held = match leaves {
                true => self.store.held_deletions(&cluster)?,
                false => Vec::new(),
            };
            let held = held.into_iter().find(|held| held.key == *key);
            let seconds_ago = |time: UnixSeconds| u64::try_from(wall.0.saturating_sub(time.0)).unwrap_or(0);
            states.push(state(&TargetFacts {
                replicas: share.map(|share| share.replicas).filter(|replicas| *replicas > 0),
                enrolled: row.is_some(),
                revoked: row.as_ref().is_some_and(|row| row.revoked),
                unheard: self.presence.heard_ago(&cluster, now).is_none(),
                hub_behind: row.as_ref().is_some_and(|row| row.behind),
                silent_s: self.presence.silent_for(&cluster, now).as_secs(),
                adopted,
                offered: set.as_ref().map(|set| set.sequence.0),
                acknowledged: set.as_ref().map(|set| set.acked.0),
                suspended: target.is_some_and(|target| target.entry.suspended),
                leaving: leaves,
                report: match (target, held) {
                    (Some(target), _) => target.report.as_ref().map(|report| ReportFacts {
                        current: report.digest == target.entry.digest,
                        applied: report.applied == ApplyState::Applied,
                        reason: report.reason.clone(),
                        message: report.message.clone(),
                        health: health(report.health),
                        age_s: seconds_ago(report.observed),
                        age_is_lower_bound: report.observed_is_bound,
                    }),
                    (None, held) => held.map(|held| ReportFacts {
                        current: false,
                        applied: false,
                        reason: held.code(),
                        message: held.message,
                        health: None,
                        age_s: seconds_ago(held.observed),
                        age_is_lower_bound: held.observed_is_bound,
                    }),
                },
                cluster: cluster.to_string(),
            }));
        }
        Ok(states)
    }
}

fn health(health: Health) -> Option<String> {
    match health {
        Health::Healthy => Some("Healthy".to_owned()),
        Health::Unhealthy => Some("Unhealthy".to_owned()),
        Health::Unknown => None,
    }
}

impl From<Explanation> for wire::Explanation {
    fn from(explained: Explanation) -> Self {
        let group = shared::object::split_api_version(&explained.api_version).0;
        let key = ObjectKey::new(group, &explained.kind, &explained.namespace, &explained.name);
        let mut decisions = Vec::new();
        let mut decide = |reason: &Code, message: String| {
            decisions.push(wire::Decision {
                reason: reason.to_string(),
                message,
            });
        };
        match &explained.claim {
            Claim::Policy { policy, why, others } => {
                decide(
                    &Reason::Scheduled.into(),
                    format!("{policy} decides where it goes: {why}"),
                );
                for other in others {
                    decide(&Reason::PolicyConflict.into(), format!("passed over: {other}"));
                }
            }
            Claim::Holds { objects } if objects.is_empty() => {
                decide(&Reason::MatchesNothing.into(), "it holds no object".to_owned());
            }
            Claim::Holds { objects } => decide(
                &Reason::Scheduled.into(),
                format!("it holds {} objects: {}", objects.len(), objects.join(", ")),
            ),
            Claim::Nobody { reason, message } => decide(reason, message.clone()),
        }
        for note in &explained.notes {
            decide(&note.reason, note.message.clone());
        }
        let clusters = explained.clusters.into_iter().map(|state| {
            let mut message = state.message;
            if let Some(replicas) = state.replicas {
                message = format!("{replicas} replicas; {message}");
            }
            wire::ClusterState {
                cluster: state.cluster,
                state: word(&state.reason, state.leaving).to_owned(),
                reason: state.reason.to_string(),
                message,
                age_seconds: state.age_s.and_then(|age| i64::try_from(age).ok()),
                at_least: state.age_is_lower_bound,
            }
        });
        Self {
            object: key.to_string(),
            decisions,
            clusters: clusters.collect(),
            placement: Vec::new(),
        }
    }
}

/// The state in one word.
fn word(reason: &Code, leaving: bool) -> &'static str {
    match reason.known() {
        _ if leaving => "Leaving",
        Some(Reason::Applied | Reason::Healthy) => "Applied",
        Some(Reason::Unhealthy) => "Unhealthy",
        Some(Reason::Silent) => "Silent",
        Some(Reason::HubBehind) => "HubBehind",
        Some(Reason::Revoked) => "Revoked",
        Some(Reason::Suspended) => "Suspended",
        Some(Reason::Conflict) => "Conflict",
        Some(reason) if reason.retryable() => "Waiting",
        _ => "Failed",
    }
}
