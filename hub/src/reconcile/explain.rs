//! `pinnace why`: gathers what the store knows about one object, and plans it once more to say why.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hub_core::aggregate;
use hub_core::dependencies::{DependencyIndex, Referrer};
use hub_core::estimate::Resources;
use hub_core::explain::{
    self, Claim, ClusterState, Explanation, Note, PolicyVerdict, ReportFacts, TargetFacts, sort, state,
};
use hub_core::matching::Surveyed;
use hub_core::plan::{Around, NameIndex, Previous, Story, Template, TemplatePlan, World, explain_template};
use hub_core::quota;
use serde_json::Value;
use shared::ids::{ClusterName, ObjectKey};
use shared::reason::Reason;
use shared::time::UnixSeconds;
use shared::wire::{ApplyState, Health};

use super::Reconciler;
use super::explain_gone::is_cluster;
use super::explain_policy::is_policy;
use super::feed::take_silence_off;
use super::status::wanted;
use crate::clock;
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
    let (plan, story) = explain_template(&world, &template, previous, &*reconciler.interpreter, &mut names);
    let ages = reconciler.ages(&world)?;
    let wall = clock::wall();
    let mut notes = notes(&plan);
    let (mut groups, mut placement) = (Vec::new(), Vec::new());
    if let Some(placing) = &story.placing {
        let last = placing.last_scheduled.as_deref();
        let last = last
            .and_then(UnixSeconds::parse_rfc3339)
            .map(|at| seconds_since(wall, at));
        notes.push(Note {
            reason: Reason::Scheduled.into(),
            cluster: None,
            message: explain::occasion(placing, last),
        });
        groups = explain::groups(placing);
        placement = explain::verdicts(placing, &plan.targets, |cluster| ages.get(cluster).copied());
    }
    let status_trouble = reconciler.status_trouble(former.as_ref(), &template, &targets);
    let mut clusters = reconciler.cluster_states(&template.key, &plan, &targets)?;
    sort(&mut clusters);
    Ok(Explanation {
        api_version: template.api_version.clone(),
        kind: template.key.kind.clone(),
        namespace: template.key.namespace.clone(),
        name: template.key.name.clone(),
        generation: i64::try_from(template.generation).unwrap_or(i64::MAX),
        claim: claim(&plan, &story),
        binding: stored.map(|stored| stored.name.clone()),
        notes: [notes, status_trouble].concat(),
        policies: story.policies.iter().map(policy_verdict).collect(),
        groups,
        placement,
        clusters,
    })
}

fn seconds_since(now: UnixSeconds, then: UnixSeconds) -> u64 {
    u64::try_from(now.0.saturating_sub(then.0)).unwrap_or(0)
}

fn policy_verdict(surveyed: &Surveyed) -> PolicyVerdict {
    PolicyVerdict {
        policy: surveyed.policy.to_string(),
        holds: surveyed.holds,
        selects_kind: surveyed.selects_kind,
        message: surveyed.why.clone(),
    }
}

impl Reconciler {
    /// Seconds since each cluster was last heard: in this life of the hub to the second; of a former one, as it was written
    /// down. Who was never heard is absent.
    fn ages(&self, world: &World) -> Result<BTreeMap<String, u64>, StoreError> {
        let (now, wall) = (clock::monotonic(), clock::wall());
        let mut ages = BTreeMap::new();
        for cluster in world.clusters() {
            let Ok(name) = ClusterName::new(&cluster.name) else {
                continue;
            };
            let heard = self.presence.heard_ago(&name, now).map(|ago| ago.as_secs());
            let age = match heard {
                Some(age) => Some(age),
                None => {
                    let row = self.store.facts(&name)?;
                    row.and_then(|row| row.last_seen)
                        .map(|at| seconds_since(wall, at))
                }
            };
            ages.extend(age.map(|age| (cluster.name.clone(), age)));
        }
        Ok(ages)
    }

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
                cluster: None,
                message: format!("the status of the template is not updated: {error}"),
            }],
        }
    }
}

fn claim(plan: &TemplatePlan, story: &Story) -> Claim {
    let others = plan
        .passed
        .iter()
        .map(|passed| format!("{}: {}", passed.policy, passed.why.words()))
        .collect();
    match &plan.holder {
        Some(policy) => Claim::Policy {
            policy: policy.to_string(),
            why: story
                .policies
                .iter()
                .find(|one| one.holds)
                .map_or_else(|| "it holds the object".to_owned(), |one| one.why.clone()),
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
    let told = told.map(|note| Note {
        reason: note.reason.into(),
        cluster: note.cluster.clone(),
        message: note.message.clone(),
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
                failed: plan
                    .notes
                    .iter()
                    .find(|note| is_broken(note.reason) && note.cluster.as_deref() == Some(cluster.as_str()))
                    .map(|note| (note.reason, note.message.clone())),
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

/// What a cluster shall have could not be made.
fn is_broken(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::OverrideFailed | Reason::RenderFailed | Reason::ContentTooLarge
    )
}

fn health(health: Health) -> Option<String> {
    match health {
        Health::Healthy => Some("Healthy".to_owned()),
        Health::Unhealthy => Some("Unhealthy".to_owned()),
        Health::Unknown => None,
    }
}
