//! The task *plan*: plans marked templates, stores their bindings, adopts their works.
//!
//! Order, each step safe to repeat: the binding is stored, then works and withdrawals are adopted in one
//! transaction, and a binding is removed only after its withdrawals were adopted. A crash in between leaves the
//! template marked by the next start.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, PoisonError};

use futures::StreamExt;
use hub_core::dependencies::DependencyIndex;
use hub_core::plan::{
    Around, BindingChange, ClaimNote, NameIndex, Previous, Template, TemplatePlan, Work, World, bound_object,
};
use hub_core::policy::PolicyRef;
use hub_core::promises::Added;
use hub_core::{plan, quota, templates};
use interpreter::Dependency;
use serde_json::Value;
use shared::ids::{ClusterName, ObjectKey};
use shared::object::split_api_version;
use shared::reason::Reason;
use shared::set::Entry;

use super::conditions::with_conditions;
use super::dirty::{Backoff, Marked};
use super::feed::{take_silence_off, template_key};
use super::metadata::fill_in;
use super::quotas::is_of_quota;
use super::{BindingRef, Reconciler, TemplateKey, binding_resource, limits, noise, report_trouble};
use crate::crash;
use crate::store::fleet::{AdoptRefusal, Adoption};
use crate::store::{CommitError, Expect, Object, Op, ResourceId, StoreError};

/// What a pass keeps for the next one.
#[derive(Default)]
pub(super) struct Planner {
    world: Option<Arc<World>>,
    names: NameIndex,
    /// What goes along with what.
    dependencies: DependencyIndex,
    /// What bindings use, for the quotas.
    used: quota::Ledger,
    /// Templates that a quota has no room for; tried again when something becomes free.
    over_quota: BTreeSet<TemplateKey>,
    /// Policies that selected something in the full pass that runs.
    matched: BTreeSet<PolicyRef>,
    /// Workloads of this chunk that run nowhere, since no policy selects them.
    homeless: Vec<(Template, TemplatePlan)>,
    /// Priorities that policies gave to templates, other than 0.
    priorities: HashMap<TemplateKey, i64>,
    /// What was promised before this process is learnt.
    knows_promises: bool,
}

impl Planner {
    /// What a decision promises takes its room for the next template of this pass.
    pub(super) fn promise(&mut self, added: &Added) {
        if let Some(world) = self.world.as_mut().filter(|_| !added.shares.is_empty()) {
            Arc::make_mut(world).promise(added);
        }
    }
}

impl Planner {
    /// Notes what a plan makes of a binding. Answers what of it others depend on.
    fn note(&mut self, binding: &BindingRef, object: Option<&Value>) -> Touched {
        Touched {
            needs: self.dependencies.note(&binding.namespace, &binding.name, object),
            freed: self.used.note(&binding.namespace, &binding.name, object),
        }
    }
}

/// What a changed binding means for other templates.
struct Touched {
    /// Objects that go, or went, along with it.
    needs: Vec<Dependency>,
    /// It uses less than before.
    freed: bool,
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
        let steered: BTreeSet<PolicyRef> = {
            let steered = self.steered.lock().unwrap_or_else(PoisonError::into_inner);
            steered.iter().map(|(_, policy)| policy.clone()).collect()
        };
        if marked.is_empty() && steered.is_empty() {
            return Vec::new();
        }
        let all = |error: StoreError| {
            report_trouble("plan", "world", &error);
            self.mark_world();
            Vec::new()
        };
        if !planner.knows_promises
            && let Err(error) = self.restore_promises()
        {
            return all(error);
        }
        planner.knows_promises = true;
        planner.world = match self.world(planner.world.take()) {
            Ok(world) => Some(world),
            Err(error) => return all(error),
        };
        let mut jobs = if marked.all {
            planner.matched.clear();
            match self.all_jobs(planner) {
                Ok(jobs) => jobs,
                Err(error) => return all(error),
            }
        } else {
            marked.keys.iter().cloned().map(Job::Stored).collect()
        };
        if !planner.priorities.is_empty() {
            let priority = |job: &Job| match job {
                Job::Stored(key) => planner.priorities.get(key).copied().unwrap_or(0),
                Job::Gone(..) => 0,
            };
            jobs.sort_by_cached_key(|job| std::cmp::Reverse(priority(job)));
        }
        let mut failed = Vec::new();
        for chunk in jobs.chunks(limits::PLANNED_TOGETHER) {
            let mut carried = Vec::new();
            for job in chunk {
                match self.plan_job(planner, job) {
                    Ok(Some(planned)) => {
                        self.note_planned(planner, job, &planned.plan);
                        carried.push((job.clone(), planned));
                    }
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
            for (template, plan) in std::mem::take(&mut planner.homeless) {
                self.tell(&template, &plan, None, None, None).await;
            }
            tokio::task::yield_now().await;
        }
        self.retry_where_freed();
        if let Some(world) = &planner.world {
            // What held a policy may have gone in any pass, also after the one that saw the policy being deleted.
            self.release_policies(world).await;
            if marked.all || !steered.is_empty() {
                let changed = (!marked.all).then_some(&steered);
                self.tell_of_policies(world, &planner.matched, changed).await;
            }
        }
        failed
    }

    /// Notes what later passes need of a plan: its priority, and what it waits for.
    fn note_planned(&self, planner: &mut Planner, job: &Job, plan: &TemplatePlan) {
        match job {
            Job::Stored(key) => {
                if plan.priority == 0 {
                    planner.priorities.remove(key);
                } else {
                    planner.priorities.insert(key.clone(), plan.priority);
                }
                self.note_waiting(key, plan);
            }
            Job::Gone(..) => {
                if let Some(key) = self.key_of(job) {
                    planner.priorities.remove(&key);
                    self.note_waiting(&key, plan);
                }
            }
        }
    }

    /// Every template, and what templates that are gone left behind. Names and bindings are learnt anew.
    fn all_jobs(&self, planner: &mut Planner) -> Result<Vec<Job>, StoreError> {
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
        let held = self.store.held_objects()?.into_iter();
        bound.extend(held.filter(|(_, binding)| !is_of_quota(binding)));
        planner.names = NameIndex::default();
        planner.dependencies = DependencyIndex::default();
        planner.used = quota::Ledger::default();
        for plural in ["resourcebindings", "clusterresourcebindings"] {
            for object in self
                .store
                .list(&ResourceId::new("work.karmada.io", plural), None)
                .items
            {
                let value = object.value();
                planner.names.note(&value);
                let binding = BindingRef {
                    namespace: object.namespace.clone(),
                    name: object.name.clone(),
                };
                planner.note(&binding, Some(&value));
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
        *self.bound.lock().unwrap_or_else(PoisonError::into_inner) = bound;
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
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let of_kind = kinds.iter().find(|(_, resource)| **resource == at.resource);
        let key = of_kind.map(|((group, kind), _)| ObjectKey::new(group, kind, &at.namespace, &at.name));
        drop(kinds);
        if let Some(key) = key {
            return self.binding_of(&key).map(|binding| (key, binding));
        }
        let bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
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
        if former.is_some() {
            let touched = planner.note(binding, None);
            self.mark_touched(planner, &binding.namespace, touched);
        }
        self.promise(planner, binding, former.as_ref(), None);
        Ok(Planned {
            plan,
            binding: binding.clone(),
            stored,
            former,
            adopted,
            template: None,
            object: None,
        })
    }

    /// Marks what a changed binding means for others.
    fn mark_touched(&self, planner: &Planner, namespace: &str, touched: Touched) {
        let mut marks = Vec::new();
        for need in touched.needs {
            let (group, _) = split_api_version(&need.api_version);
            let Some(resource) = self.resource_of(group, &need.kind) else {
                // None of its kind is stored; one that comes is planned as it comes.
                continue;
            };
            let namespace = need.namespace.unwrap_or_default();
            match need.name.filter(|name| !name.is_empty()) {
                Some(name) => marks.push(TemplateKey {
                    resource,
                    namespace,
                    name,
                }),
                None => {
                    let all = self.store.list(&resource, Some(&namespace)).items;
                    marks.extend(all.iter().map(|object| template_key(object)));
                }
            }
        }
        if touched.freed {
            let waiting = planner.over_quota.iter().filter(|key| key.namespace == namespace);
            marks.extend(waiting.cloned());
        }
        self.templates.mark(marks);
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
        let required = planner.dependencies.required_by(&template.subject());
        let namespace = template.key.namespace.clone();
        let used = (!world.quotas(&namespace).is_empty()).then(|| planner.used.used(&namespace));
        let look = match (&binding, &former) {
            (Some(binding), Some(former)) => self.look_at_copies(binding, former, &world)?,
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
        let began = std::time::Instant::now();
        let plan = plan::plan_template(
            &world,
            &template,
            previous,
            &*self.interpreter,
            &mut planner.names,
        );
        planner.matched.extend(plan.selecting().cloned());
        self.metrics.planned(began.elapsed());
        if let Some(scheduled) = &plan.scheduled {
            self.metrics.scheduled(scheduled.status);
        }
        if plan.binding_name.is_empty() {
            if self.runs_nowhere(&template, &plan) {
                planner.homeless.push((template, plan));
            }
            return Ok(None);
        }
        let binding = BindingRef {
            namespace,
            name: plan.binding_name.clone(),
        };
        self.watch_copies(&template_key(object), &binding, former.as_ref(), &plan, look);
        let is_over = plan
            .notes
            .iter()
            .any(|note| note.reason == Reason::FederatedQuotaExceeded);
        if is_over {
            planner.over_quota.insert(template_key(object));
        } else {
            planner.over_quota.remove(&template_key(object));
        }
        // Noted as planned, before it is stored: the next template of this pass sees it.
        let touched = match &plan.binding {
            BindingChange::Put(new) => Some(planner.note(&binding, Some(new))),
            BindingChange::Delete => Some(planner.note(&binding, None)),
            BindingChange::Keep => None,
        };
        if let Some(touched) = touched {
            self.mark_touched(planner, &binding.namespace, touched);
            // It is changed in place, and not copied, if nobody else has it.
            drop(world);
            let planned = match &plan.binding {
                BindingChange::Put(new) => Some(&**new),
                BindingChange::Delete => None,
                BindingChange::Keep => former.as_ref(),
            };
            self.promise(planner, &binding, former.as_ref(), planned);
        }
        Ok(Some(Planned {
            plan,
            binding,
            stored,
            former,
            adopted,
            template: Some(template),
            object: Some(object.clone()),
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
            object,
        } = planned;
        let new = match (&plan.binding, &former) {
            (BindingChange::Put(new), _) => Some(with_conditions((**new).clone(), former.as_ref(), &plan)),
            (BindingChange::Keep, Some(former)) => {
                Some(with_conditions(former.clone(), Some(former), &plan)).filter(|new| new != former)
            }
            _ => None,
        };
        // The binding and the note on its template are one write: neither claims what the other does not.
        let mut ops = Vec::new();
        let writes_binding = new.is_some();
        ops.extend(new.map(|new| put_binding(&binding, stored.as_deref(), former.as_ref(), new)));
        if let (Some(note), Some(object)) = (&plan.claim, &object) {
            ops.extend(noted(object, note));
        }
        let written = self
            .write_plan(&plan.key, &binding, object.as_deref(), ops, writes_binding)
            .await
            .inspect_err(|_| self.promised_for_nothing(&binding, &plan.targets, former.as_ref()))?;
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

    /// Stores a binding, if there is one to store (the first of the operations), and the note on its template. Answers the
    /// stored binding. Neither starts the next plan, unless somebody else wrote meanwhile.
    async fn write_plan(
        &self,
        key: &ObjectKey,
        binding: &BindingRef,
        template: Option<&Object>,
        ops: Vec<Op>,
        writes_binding: bool,
    ) -> Result<Option<Arc<Object>>, CommitError> {
        if ops.is_empty() {
            return Ok(None);
        }
        let noted = template
            .filter(|_| ops.len() > usize::from(writes_binding))
            .map(template_key);
        if writes_binding {
            self.own_writes.begin(binding);
        }
        if let Some(noted) = &noted {
            self.own_claims.begin(noted);
        }
        let written = self.store.commit(ops).await;
        let at = |index: usize| {
            written
                .as_ref()
                .ok()
                .and_then(|written| written.get(index))
                .cloned()
        };
        let stored = at(0).filter(|_| writes_binding);
        let mut by_others = false;
        if writes_binding {
            let revision = stored.as_ref().map(|stored| stored.revision);
            by_others |= self.own_writes.end(binding, revision);
        }
        if let Some(noted) = &noted {
            let revision = at(usize::from(writes_binding)).map(|stored| stored.revision);
            by_others |= self.own_claims.end(noted, revision);
        }
        if by_others {
            self.templates.mark(self.place_of(key));
        }
        written.map(|_| stored)
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
        let go = self.let_go(binding, plan)?;
        adoptions.extend(go.withdrawals.iter().map(|withdrawal| Adoption {
            cluster: withdrawal.cluster.clone(),
            upserts: Vec::new(),
            withdraw: vec![(withdrawal.key.clone(), withdrawal.mode)],
        }));
        if adoptions.is_empty() {
            return Ok(go.refused);
        }
        let answers = self.store.adopt(binding, adoptions).await?;
        tracing::debug!(
            namespace = binding.namespace,
            name = binding.name,
            "works adopted"
        );
        self.lost(&go);
        Ok(answers
            .into_iter()
            .filter_map(|(_, answer)| answer.err())
            .find(|refusal| {
                // Works of a cluster that joins later are planned when it joins; a revoked one holds nothing of ours.
                !matches!(refusal, AdoptRefusal::NotEnrolled(_))
            })
            .or(go.refused))
    }
}

/// The write of a binding.
fn put_binding(
    binding: &BindingRef,
    stored: Option<&Object>,
    former: Option<&Value>,
    mut object: Value,
) -> Op {
    fill_in(&mut object, former);
    Op::Put {
        resource: binding_resource(binding),
        namespace: binding.namespace.clone(),
        name: binding.name.clone(),
        expect: stored.map_or(Expect::Absent, |stored| Expect::Revision(stored.revision)),
        object,
    }
}

/// The write of a claim on its template; `None`: it is written already.
fn noted(object: &Object, note: &ClaimNote) -> Option<Op> {
    let mut value = object.value();
    note.write(&mut value).then(|| Op::Put {
        resource: object.resource.clone(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
        expect: Expect::Revision(object.revision),
        object: value,
    })
}

/// A plan with what it was made from.
struct Planned {
    plan: TemplatePlan,
    binding: BindingRef,
    stored: Option<Arc<Object>>,
    former: Option<Value>,
    adopted: Adopted,
    template: Option<Template>,
    /// The template as stored.
    object: Option<Arc<Object>>,
}

/// Works of one object by cluster.
type Adopted = BTreeMap<ClusterName, Arc<Entry>>;
