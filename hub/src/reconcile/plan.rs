//! The task *plan*: plans marked templates, stores their bindings, adopts their works.
//!
//! Order, each step safe to repeat: the binding is stored, then works and withdrawals are adopted in one
//! transaction, and a binding is removed only after its withdrawals were adopted. A crash in between leaves the
//! template marked by the next start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::StreamExt;
use hub_core::plan::{BindingChange, NameIndex, Previous, Template, TemplatePlan, Work, World, bound_object};
use hub_core::{plan, templates};
use serde_json::{Value, json};
use shared::ids::{ClusterName, ObjectKey};
use shared::set::Entry;

use super::dirty::{Backoff, Marked};
use super::feed::{take_silence_off, template_key};
use super::metadata::{fill_in, generation_after};
use super::{BindingRef, Reconciler, TemplateKey, binding_resource, limits, noise, report_trouble};
use crate::store::fleet::{AdoptRefusal, Adoption};
use crate::store::{CommitError, Expect, Object, Op, ResourceId, StoreError};
use crate::{clock, crash};

/// What a pass keeps for the next one.
#[derive(Default)]
pub(super) struct Planner {
    world: Option<Arc<World>>,
    names: NameIndex,
}

/// Why a template's plan is not carried out yet; it is marked again.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Commit(#[from] CommitError),
    #[error("{0}")]
    Refused(Box<AdoptRefusal>),
}

/// A template to plan: by where it is stored, or the leftovers of one that is gone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Job {
    Stored(TemplateKey),
    Gone(ObjectKey, BindingRef),
}

impl Reconciler {
    /// Plans by timer and poke, until dropped.
    pub(super) async fn plan_forever(&self) {
        let mut planner = Planner::default();
        let mut backoff = Backoff::default();
        let mut resync = tokio::time::Instant::now() + self.settings.resync_every;
        let mut wait = self.settings.resync_every;
        loop {
            self.templates.wait(wait).await;
            if let Some(unreadable) = self.store.quarantined().first() {
                // It may be a template or a policy: what is placed stays as it is until it is known what it says.
                tracing::error!(%unreadable, "planning is held: create the object anew or restore a backup");
                wait = limits::HELD_PAUSE;
                continue;
            }
            if tokio::time::Instant::now() >= resync {
                self.mark_world();
                resync = tokio::time::Instant::now() + self.settings.resync_every;
            }
            let failed = self.plan_pass(&mut planner, self.templates.take()).await;
            wait = if failed.is_empty() {
                backoff.reset();
                self.settings.resync_every
            } else {
                // Not poked: they wait their turn, unless something else happens first.
                let pause = backoff.next(noise());
                self.templates.remember(failed);
                pause
            };
        }
    }

    /// One pass. Answers the templates to try again.
    pub(super) async fn plan_pass(
        &self,
        planner: &mut Planner,
        marked: Marked<TemplateKey>,
    ) -> Vec<TemplateKey> {
        if marked.is_empty() {
            return Vec::new();
        }
        let all = |error: StoreError| {
            report_trouble("plan", "world", &error);
            self.mark_world();
            Vec::new()
        };
        planner.world = match self.world(planner.world.take()) {
            Ok(world) => Some(world),
            Err(error) => return all(error),
        };
        let jobs = if marked.all {
            match self.all_jobs(&mut planner.names) {
                Ok(jobs) => jobs,
                Err(error) => return all(error),
            }
        } else {
            marked.keys.iter().cloned().map(Job::Stored).collect()
        };
        let mut failed = Vec::new();
        for chunk in jobs.chunks(limits::PLANNED_TOGETHER) {
            let mut carried = Vec::new();
            for job in chunk {
                match self.plan_job(planner, job) {
                    Ok(Some(planned)) => carried.push((job.clone(), planned)),
                    Ok(None) => {}
                    Err(error) => {
                        report_trouble("plan", "template", &error);
                        failed.extend(self.key_of(job));
                    }
                }
            }
            let outcomes = futures::stream::iter(carried)
                .map(|(job, planned)| async move { (job, self.carry_out(planned).await) })
                .buffer_unordered(limits::CARRIED_OUT_TOGETHER)
                .collect::<Vec<_>>()
                .await;
            for (job, outcome) in outcomes {
                if let Err(trouble) = outcome {
                    tracing::debug!(?job, %trouble, "a plan is tried again");
                    failed.extend(self.key_of(&job));
                }
            }
            tokio::task::yield_now().await;
        }
        if marked.all
            && let Some(world) = &planner.world
        {
            self.release_policies(world).await;
        }
        failed
    }

    /// Every template, and what templates that are gone left behind. Names and bindings are learnt anew.
    fn all_jobs(&self, names: &mut NameIndex) -> Result<Vec<Job>, StoreError> {
        let mut jobs = BTreeSet::new();
        for resource in self.store.resources() {
            if templates::resource_may_hold_templates(&resource.group, &resource.resource) {
                jobs.extend(
                    self.store
                        .list(&resource, None)
                        .items
                        .iter()
                        .map(|object| Job::Stored(template_key(object))),
                );
            }
        }
        let mut bound = std::collections::HashMap::new();
        bound.extend(self.store.held_objects()?);
        *names = NameIndex::default();
        for plural in ["resourcebindings", "clusterresourcebindings"] {
            for object in self
                .store
                .list(&ResourceId::new("work.karmada.io", plural), None)
                .items
            {
                let value = object.value();
                names.note(&value);
                let binding = BindingRef {
                    namespace: object.namespace.clone(),
                    name: object.name.clone(),
                };
                bound.insert(bound_object(&value), binding);
            }
        }
        for (key, binding) in &bound {
            match self.resource_of(&key.group, &key.kind) {
                Some(resource) => {
                    let at = TemplateKey {
                        resource,
                        namespace: key.namespace.clone(),
                        name: key.name.clone(),
                    };
                    if !jobs.contains(&Job::Stored(at)) {
                        jobs.insert(Job::Gone(key.clone(), binding.clone()));
                    }
                }
                None => {
                    jobs.insert(Job::Gone(key.clone(), binding.clone()));
                }
            }
        }
        *self
            .bound
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner) = bound;
        Ok(jobs.into_iter().collect())
    }

    /// The name to mark for another try. What is left of a kind that has no object any more is found again by the
    /// next full pass.
    fn key_of(&self, job: &Job) -> Option<TemplateKey> {
        match job {
            Job::Stored(key) => Some(key.clone()),
            Job::Gone(key, _) => self.place_of(key),
        }
    }

    /// Where an object is stored, if the store holds any of its kind.
    pub(super) fn place_of(&self, key: &ObjectKey) -> Option<TemplateKey> {
        Some(TemplateKey {
            resource: self.resource_of(&key.group, &key.kind)?,
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        })
    }

    /// Plans one template; `None`: nothing to do.
    fn plan_job(&self, planner: &mut Planner, job: &Job) -> Result<Option<Planned>, StoreError> {
        match job {
            Job::Gone(key, binding) => self.plan_gone(planner, key, binding).map(Some),
            Job::Stored(at) => match self.store.get(&at.resource, &at.namespace, &at.name) {
                Some(object) => self.plan_stored(planner, &object),
                None => match self.leftover(at) {
                    Some((key, binding)) => self.plan_gone(planner, &key, &binding).map(Some),
                    None => Ok(None),
                },
            },
        }
    }

    /// The binding of a template that is gone, by where it was stored.
    fn leftover(&self, at: &TemplateKey) -> Option<(ObjectKey, BindingRef)> {
        let bound = self
            .bound
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let here = |key: &ObjectKey| {
            key.namespace == at.namespace && key.name == at.name && *key.group == *at.resource.group
        };
        let found: Vec<_> = bound
            .iter()
            .filter(|(key, _)| here(key))
            .map(|(key, binding)| (key.clone(), binding.clone()))
            .collect();
        drop(bound);
        found.into_iter().find(|(key, _)| {
            self.resource_of(&key.group, &key.kind)
                .is_none_or(|r| r == at.resource)
        })
    }

    fn plan_gone(
        &self,
        planner: &mut Planner,
        key: &ObjectKey,
        binding: &BindingRef,
    ) -> Result<Planned, StoreError> {
        let stored = self
            .store
            .get(&binding_resource(binding), &binding.namespace, &binding.name);
        let former = stored.as_ref().map(|stored| stored.value());
        // A binding of that name that is for another object is not ours to delete.
        let former = former.filter(|former| bound_object(former) == *key);
        let adopted = self.store.entries_of(binding, key)?;
        let held = adopted.keys().cloned().collect();
        let plan = plan::plan_deletion(key, &binding.name, former.as_ref(), &held, &mut planner.names);
        Ok(Planned {
            plan,
            binding: binding.clone(),
            stored,
            former,
            adopted,
            template: None,
        })
    }

    fn plan_stored(
        &self,
        planner: &mut Planner,
        object: &Arc<Object>,
    ) -> Result<Option<Planned>, StoreError> {
        let Some(world) = planner.world.clone() else {
            return Ok(None);
        };
        let mut value = object.value();
        take_silence_off(&mut value);
        let Some(template) = Template::read(Arc::new(value)) else {
            return Ok(None);
        };
        let (binding, stored) = self.stored_binding(&template.key);
        let former = stored.as_ref().map(|stored| stored.value());
        let adopted = match &binding {
            Some(binding) => self.store.entries_of(binding, &template.key)?,
            None => Adopted::new(),
        };
        let held = adopted.keys().cloned().collect();
        let previous = Previous {
            binding: former.as_ref(),
            held: &held,
        };
        let plan = plan::plan_template(
            &world,
            &template,
            previous,
            &*self.interpreter,
            &mut planner.names,
        );
        if plan.binding_name.is_empty() {
            return Ok(None);
        }
        let namespace = template.key.namespace.clone();
        let binding = BindingRef {
            namespace,
            name: plan.binding_name.clone(),
        };
        Ok(Some(Planned {
            plan,
            binding,
            stored,
            former,
            adopted,
            template: Some(template),
        }))
    }

    /// Binding reference and stored binding of an object, if it has them.
    pub(super) fn stored_binding(&self, key: &ObjectKey) -> (Option<BindingRef>, Option<Arc<Object>>) {
        let plain = || BindingRef {
            namespace: key.namespace.clone(),
            name: hub_core::naming::binding_name(&key.kind, &key.name),
        };
        let binding = self.binding_of(key).unwrap_or_else(plain);
        let stored = self
            .store
            .get(&binding_resource(&binding), &binding.namespace, &binding.name);
        match stored {
            Some(stored) if bound_object(&stored.value()) == *key => (Some(binding), Some(stored)),
            Some(_) => (self.binding_of(key), None),
            None => (Some(binding), None),
        }
    }

    async fn carry_out(&self, planned: Planned) -> Result<(), Trouble> {
        let Planned {
            plan,
            binding,
            stored,
            former,
            adopted,
            template,
        } = planned;
        let mut written = None;
        if let BindingChange::Put(new) = &plan.binding {
            let object = with_condition((**new).clone(), former.as_ref(), &plan);
            written = Some(
                self.put_binding(&plan.key, &binding, stored.as_deref(), former.as_ref(), object)
                    .await?,
            );
        } else if let (Some(former), Some(stored)) = (&former, &stored)
            && plan.binding == BindingChange::Keep
        {
            let object = with_condition(former.clone(), Some(former), &plan);
            if object != *former {
                written = Some(
                    self.put_binding(&plan.key, &binding, Some(stored), Some(former), object)
                        .await?,
                );
            }
        }
        crash::point("reconcile.bindings.after");
        let refused = self.adopt(&binding, &plan, &adopted).await?;
        if plan.binding == BindingChange::Delete
            && refused.is_none()
            && let Some(stored) = &stored
        {
            let op = Op::Delete {
                resource: binding_resource(&binding),
                namespace: binding.namespace.clone(),
                name: binding.name.clone(),
                expect: Expect::Revision(stored.revision),
            };
            match self.store.commit(vec![op]).await {
                Ok(_) | Err(CommitError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        match &template {
            Some(template) => {
                self.note_bound(&plan.key, Some(binding.clone()));
                self.tell(
                    template,
                    &plan,
                    written.as_deref(),
                    former.as_ref(),
                    refused.as_ref(),
                )
                .await;
                self.bindings.mark([binding]);
            }
            None => self.note_bound(&plan.key, refused.is_some().then_some(binding)),
        }
        refused.map_or(Ok(()), |refusal| Err(Trouble::Refused(Box::new(refusal))))
    }

    async fn put_binding(
        &self,
        object_key: &ObjectKey,
        binding: &BindingRef,
        stored: Option<&Object>,
        former: Option<&Value>,
        mut object: Value,
    ) -> Result<Arc<Object>, CommitError> {
        fill_in(&mut object, former);
        let op = Op::Put {
            resource: binding_resource(binding),
            namespace: binding.namespace.clone(),
            name: binding.name.clone(),
            expect: stored.map_or(Expect::Absent, |stored| Expect::Revision(stored.revision)),
            object,
        };
        self.own_writes.begin(binding);
        let written = self
            .store
            .commit(vec![op])
            .await
            .map(|mut written| written.remove(0));
        let revision = written.as_ref().ok().map(|written| written.revision);
        if self.own_writes.end(binding, revision) {
            // Somebody else wrote it meanwhile.
            self.templates.mark(self.place_of(object_key));
        }
        written
    }

    /// Adopts works that differ from what is adopted, and withdrawals. Answers the first refusal that is worth trying again.
    async fn adopt(
        &self,
        binding: &BindingRef,
        plan: &TemplatePlan,
        adopted: &Adopted,
    ) -> Result<Option<AdoptRefusal>, StoreError> {
        let is_new = |work: &&Work| {
            adopted
                .get(&work.cluster)
                .is_none_or(|entry| *entry != work.entry)
        };
        let mut adoptions: Vec<Adoption> = plan
            .works
            .iter()
            .filter(is_new)
            .map(|work| Adoption {
                cluster: work.cluster.clone(),
                upserts: vec![(work.entry.clone(), work.content.clone())],
                withdraw: Vec::new(),
            })
            .collect();
        adoptions.extend(plan.withdraw.iter().map(|withdrawal| Adoption {
            cluster: withdrawal.cluster.clone(),
            upserts: Vec::new(),
            withdraw: vec![(withdrawal.key.clone(), withdrawal.mode)],
        }));
        if adoptions.is_empty() {
            return Ok(None);
        }
        let answers = self.store.adopt(binding, adoptions).await?;
        Ok(answers
            .into_iter()
            .filter_map(|(_, answer)| answer.err())
            .find(|refusal| {
                // Works of a cluster that joins later are planned when it joins; a revoked one holds nothing of ours.
                !matches!(refusal, AdoptRefusal::NotEnrolled(_))
            }))
    }
}

/// A plan with what it was made from.
struct Planned {
    plan: TemplatePlan,
    binding: BindingRef,
    stored: Option<Arc<Object>>,
    former: Option<Value>,
    adopted: Adopted,
    template: Option<Template>,
}

/// Works of one object by cluster.
type Adopted = BTreeMap<ClusterName, Arc<Entry>>;

/// The binding with what scheduling said, as stored `status`: the condition Scheduled, when it was last scheduled,
/// and the generation that was. What clusters report is never stored here; the view adds it when read.
fn with_condition(mut object: Value, former: Option<&Value>, plan: &TemplatePlan) -> Value {
    let Some(scheduled) = &plan.scheduled else {
        return object;
    };
    let now = clock::wall().rfc3339();
    let old_status = former.map_or(&Value::Null, |former| &former["status"]);
    let spec_changed = former.is_none_or(|former| former["spec"]["clusters"] != object["spec"]["clusters"]);
    let word = if scheduled.status { "True" } else { "False" };
    let old = old_status["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|c| c["type"] == "Scheduled");
    let since = match old {
        Some(old) if old["status"] == word => old["lastTransitionTime"].clone(),
        _ => json!(now),
    };
    let last = match &old_status["lastScheduledTime"] {
        Value::Null => json!(now),
        _ if spec_changed && scheduled.status => json!(now),
        last => last.clone(),
    };
    let generation = generation_after(&object, former);
    object["status"] = json!({
        "schedulerObservedGeneration": generation,
        "lastScheduledTime": last,
        "conditions": [{
            "type": "Scheduled", "status": word, "reason": scheduled.reason, "message": scheduled.message,
            "lastTransitionTime": since,
        }],
    });
    object
}
