//! Stages 5 to 7 for one template: which policy holds it, where it goes, what each cluster must hold.
//!
//! A pure function of the world, the template and what was planned before. Planning the same twice gives the same bytes,
//! whatever the order of policies and clusters; an unrelated change moves nothing. The rule for a template whose policy is
//! gone: its claim is taken off, and what runs goes on unchanged until a policy selects the template again or the template
//! is deleted.

mod attached;
mod binding;
mod claims;
mod hopeless;
mod lazy;
mod moves;
mod names;
mod pass;
mod steer;
mod story;
mod template;
mod wanted;
mod works;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use interpreter::Interpreter;
use serde_json::Value;
use shared::ids::{ClusterName, ObjectKey};
use shared::reason::Reason;
use shared::set::{DeleteMode, Entry};

pub use binding::{
    AFFINITY_GROUP_ANNOTATION, APPLIED_PLACEMENT_ANNOTATION, BINDING_ID_LABEL, CLUSTER_BINDING_ID_LABEL,
    OBSERVED_GROUP, TEMPLATE_DIGEST_ANNOTATION, id_label, merge_suspension,
};
pub use claims::{ClaimNote, is_noted};
pub use lazy::LAZY_SINCE_ANNOTATION;
pub use names::{NameIndex, bound_object};
pub use story::{Occasion, Placing, Story};
pub use template::{Inert, Template};

use crate::cluster::Cluster;
use crate::dependencies::Referrer;
use crate::divide::Share;
use crate::estimate::Resources;
use crate::failover;
use crate::fleet::Fleet;
use crate::matching::{self, Passed, PassedOver, PolicyIndex};
use crate::policy::{AnyOverridePolicy, AnyPropagationPolicy, PolicyRef};
use crate::promises::{Added, Promises};
use crate::quota::Quota;
use crate::schedule::Refusal;

use binding::Former;
use pass::Pass;
use story::Pages;

/// Everything a plan reads besides the template.
#[derive(Clone, Debug, Default)]
pub struct World {
    policies: Arc<PolicyIndex>,
    overrides: Arc<[AnyOverridePolicy]>,
    fleet: Arc<Fleet>,
    /// Values of the PriorityClasses on the hub.
    priorities: Arc<BTreeMap<String, i64>>,
    skipped_namespaces: Arc<[String]>,
    quotas: Arc<BTreeMap<String, Vec<Quota>>>,
    unreadable: Arc<[(PolicyRef, String)]>,
}

impl World {
    /// Reads stored objects: propagation policies and override policies of both kinds, and Clusters. Their order does not
    /// matter. `skipped_namespaces` are not sent to the members by themselves, besides those that never are.
    pub fn read<'a>(
        propagation: impl IntoIterator<Item = &'a Value>,
        overrides: impl IntoIterator<Item = &'a Value>,
        clusters: impl IntoIterator<Item = &'a Value>,
        skipped_namespaces: Vec<String>,
    ) -> Self {
        let mut unreadable = Vec::new();
        let reference = |object: &Value| PolicyRef {
            namespace: object["metadata"]["namespace"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            name: object["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
        };
        let mut policies = Vec::new();
        for object in propagation {
            match AnyPropagationPolicy::read(object) {
                Ok(policy) => policies.push(policy),
                Err(error) => unreadable.push((reference(object), error.to_string())),
            }
        }
        let mut rules = Vec::new();
        for object in overrides {
            match AnyOverridePolicy::read(object) {
                Ok(policy) => rules.push(policy),
                Err(error) => unreadable.push((reference(object), error.to_string())),
            }
        }
        rules.sort_by(|a, b| a.reference.cmp(&b.reference));
        let clusters = clusters.into_iter().map(Cluster::read).collect();
        Self {
            policies: Arc::new(PolicyIndex::new(policies)),
            overrides: rules.into(),
            fleet: Arc::new(Fleet::new(clusters)),
            priorities: Arc::default(),
            skipped_namespaces: skipped_namespaces.into(),
            quotas: Arc::default(),
            unreadable: unreadable.into(),
        }
    }

    /// The same policies with other clusters: for a capacity report, which changes nothing else.
    #[must_use]
    pub fn with_clusters(&self, clusters: Vec<Cluster>) -> Self {
        Self {
            fleet: Arc::new(Fleet::new(clusters)),
            ..self.clone()
        }
    }

    /// With what is promised to clusters and not in their reports yet.
    #[must_use]
    pub fn with_promises(mut self, promises: &Promises) -> Self {
        let fleet = Arc::make_mut(&mut self.fleet);
        for cluster in promises.clusters() {
            fleet.recount(cluster, promises.of(cluster));
        }
        self
    }

    /// Counts the room of clusters anew whose promises ended.
    pub fn recount<'c>(&mut self, promises: &Promises, clusters: impl IntoIterator<Item = &'c str>) {
        let fleet = Arc::make_mut(&mut self.fleet);
        for cluster in clusters {
            fleet.recount(cluster, promises.of(cluster));
        }
    }

    /// What a decision promises takes its room for the next one.
    pub fn promise(&mut self, added: &Added) {
        let shares = added.shares.iter();
        let shares = shares.map(|(cluster, times)| (cluster.as_str(), *times));
        Arc::make_mut(&mut self.fleet).promise(&added.of, shares);
    }

    /// With the PriorityClass objects of the hub, which policies name in `schedulePriority`.
    #[must_use]
    pub fn with_priority_classes<'a>(self, classes: impl IntoIterator<Item = &'a Value>) -> Self {
        let value = |class: &Value| {
            let name = class["metadata"]["name"].as_str()?.to_owned();
            Some((name, class["value"].as_i64()?))
        };
        Self {
            priorities: Arc::new(classes.into_iter().filter_map(value).collect()),
            ..self
        }
    }

    /// With the federated quotas, which hold scheduling back.
    #[must_use]
    pub fn with_quotas<'a>(self, quotas: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut by_namespace: BTreeMap<String, Vec<Quota>> = BTreeMap::new();
        for quota in quotas.into_iter().map(Quota::read) {
            by_namespace
                .entry(quota.namespace.clone())
                .or_default()
                .push(quota);
        }
        Self {
            quotas: Arc::new(by_namespace),
            ..self
        }
    }

    /// The quotas of a namespace.
    pub fn quotas(&self, namespace: &str) -> &[Quota] {
        self.quotas.get(namespace).map(Vec::as_slice).unwrap_or_default()
    }

    /// Every propagation policy, sorted.
    pub fn policies(&self) -> &[AnyPropagationPolicy] {
        self.policies.all()
    }

    /// Clusters that a placement (JSON) names and that have not joined.
    pub fn not_joined<'p>(&self, placement: &'p Value) -> Vec<&'p str> {
        let named = crate::policy::named_clusters(placement);
        named
            .into_iter()
            .filter(|name| self.cluster_named(name).is_none())
            .collect()
    }

    fn cluster_named(&self, name: &str) -> Option<&Cluster> {
        self.fleet.get(name)
    }

    /// Propagation policies that are being deleted, with their permanent ids; they match nothing.
    pub fn leaving_policies(&self) -> impl Iterator<Item = (&PolicyRef, &str)> {
        self.policies.leaving()
    }

    /// Policies that could not be read, and why; they act on nothing.
    pub fn unreadable(&self) -> &[(PolicyRef, String)] {
        &self.unreadable
    }

    /// The clusters, sorted by name.
    pub fn clusters(&self) -> &[Cluster] {
        self.fleet.clusters()
    }
}

/// What was planned before, for the same template.
#[derive(Clone, Copy, Debug)]
pub struct Previous<'a> {
    /// The stored binding.
    pub binding: Option<&'a Value>,
    /// Clusters that have a work of this template now, suspended ones included; tombstones do not count.
    pub held: &'a BTreeSet<ClusterName>,
    /// What other bindings mean for it.
    pub around: Around<'a>,
    /// What its copies are like, if failover concerns it ([`failover::step::concerns`]); `None`: nothing is moved away.
    pub copies: Option<&'a failover::step::Seen>,
}

/// What the bindings of other templates mean for one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Around<'a> {
    /// Bindings whose templates need this one, by namespace and name.
    pub required: &'a [Referrer],
    /// What all bindings of the namespace use, this one's included, where a quota counts it.
    pub used: Option<&'a Resources>,
}

/// What to do with the stored binding.
#[derive(Clone, Debug, PartialEq)]
pub enum BindingChange {
    /// Nothing.
    Keep,
    /// Store this; it is the stored one with changes, or a new one without server fields.
    Put(Box<Value>),
    /// Delete it.
    Delete,
}

/// What one cluster must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// The cluster.
    pub cluster: ClusterName,
    /// Bookkeeping, with the digest of the content; clusters that hold the same share it.
    pub entry: Arc<Entry>,
    /// Canonical bytes of the manifest.
    pub content: Arc<[u8]>,
}

/// A cluster that must no longer hold the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withdrawal {
    /// The cluster.
    pub cluster: ClusterName,
    /// The object.
    pub key: ObjectKey,
    /// Delete or release.
    pub mode: DeleteMode,
}

/// A fact worth telling: for conditions, events and `why`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Stable code.
    pub reason: Reason,
    /// The cluster it is about, if it is about one.
    pub cluster: Option<String>,
    /// What happened and what to do, in words.
    pub message: String,
}

/// The `Scheduled` condition of a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduledCondition {
    /// Is it scheduled?
    pub status: bool,
    /// The reference's reason: `Success`, `NoClusterFit`, `Unschedulable`, `QuotaExceeded` or `SchedulerError`.
    pub reason: &'static str,
    /// In words.
    pub message: String,
}

/// The plan for one template.
#[derive(Clone, Debug, PartialEq)]
pub struct TemplatePlan {
    /// The object.
    pub key: ObjectKey,
    /// Name of its binding, in the object's namespace; also the name under which works without a binding object are kept.
    pub binding_name: String,
    /// The policy that holds it.
    pub holder: Option<PolicyRef>,
    /// Policies that select it, or held it, and why they do not hold it.
    pub passed: Vec<Passed>,
    /// What shall be written on the template about its claim; `None`: it is left as it is.
    pub claim: Option<ClaimNote>,
    /// What to do with the binding.
    pub binding: BindingChange,
    /// What clusters must hold now. A cluster that is neither here nor in `withdraw` keeps what it has.
    pub works: Vec<Work>,
    /// Clusters that must no longer hold it.
    pub withdraw: Vec<Withdrawal>,
    /// The condition; `None`: the binding was not scheduled in this pass.
    pub scheduled: Option<ScheduledCondition>,
    /// Where it goes, with replicas; what `spec.clusters` of the binding says.
    pub targets: Vec<Share>,
    /// Why no cluster fits, if none does.
    pub refused: Vec<(String, Refusal)>,
    /// Clusters whose room decides whether another try can work; empty: it was placed, or room is not what is missing.
    pub waits_for: BTreeSet<String>,
    /// It was not placed, and another workload of its affinity groups that moves may change that.
    pub waits_for_peers: bool,
    /// It belongs to affinity groups and its clusters are others than before, which may help those that wait.
    pub moves_peers: bool,
    /// Seconds until it must be planned again because time alone changes something; `None`: it does not.
    pub look_again_s: Option<i64>,
    /// Among templates that wait to be planned, those of higher priority go first.
    pub priority: i64,
    /// Reasons for everything else.
    pub notes: Vec<Note>,
}

impl TemplatePlan {
    /// The plan for an object that nothing is to be done about.
    #[must_use]
    pub fn nothing(key: &ObjectKey, binding_name: String) -> Self {
        Self {
            key: key.clone(),
            binding_name,
            holder: None,
            passed: Vec::new(),
            claim: None,
            binding: BindingChange::Keep,
            works: Vec::new(),
            withdraw: Vec::new(),
            scheduled: None,
            targets: Vec::new(),
            refused: Vec::new(),
            waits_for: BTreeSet::new(),
            waits_for_peers: false,
            moves_peers: false,
            look_again_s: None,
            priority: 0,
            notes: Vec::new(),
        }
    }

    fn note(&mut self, reason: Reason, message: impl Into<String>) {
        self.notes.push(Note {
            reason,
            cluster: None,
            message: message.into(),
        });
    }

    /// Policies that select the template, whether they hold it or not.
    pub fn selecting(&self) -> impl Iterator<Item = &PolicyRef> {
        let passed = self.passed.iter().filter(|passed| still_selects(passed));
        self.holder.iter().chain(passed.map(|passed| &passed.policy))
    }

    /// The warning for people when several policies select one object.
    pub fn warning(&self) -> Option<String> {
        let holder = self.holder.as_ref()?;
        let others: Vec<String> = self
            .passed
            .iter()
            .filter(|passed| still_selects(passed))
            .map(|passed| format!("{} ({})", passed.policy, passed.why.words()))
            .collect();
        (!others.is_empty()).then(|| {
            format!(
                "{} is held by {holder}; also selected by {}",
                self.key,
                others.join(", ")
            )
        })
    }
}

fn still_selects(passed: &Passed) -> bool {
    !matches!(
        passed.why,
        PassedOver::TakenOver | PassedOver::SelectsNoLonger | PassedOver::Gone
    )
}

/// Plans one template.
pub fn plan_template(
    world: &World,
    template: &Template,
    previous: Previous<'_>,
    interpreter: &dyn Interpreter,
    names: &mut NameIndex,
) -> TemplatePlan {
    planned(world, template, previous, interpreter, names, None)
}

/// [`plan_template`], with how it came about.
pub fn explain_template(
    world: &World,
    template: &Template,
    previous: Previous<'_>,
    interpreter: &dyn Interpreter,
    names: &mut NameIndex,
) -> (TemplatePlan, Story) {
    let pages = Pages::default();
    let plan = planned(world, template, previous, interpreter, names, Some(&pages));
    (plan, pages.into_inner())
}

fn planned(
    world: &World,
    template: &Template,
    previous: Previous<'_>,
    interpreter: &dyn Interpreter,
    names: &mut NameIndex,
    story: Option<&Pages>,
) -> TemplatePlan {
    let mut former = previous.binding.map(Former::read).unwrap_or_default();
    if former.claim.is_none() {
        // A template that a lazy policy claimed has no binding yet.
        let metadata = &template.object["metadata"];
        former.claim = binding::claim(&metadata["labels"], &metadata["annotations"]);
    }
    let inert = template.inert();
    let decision = match inert {
        Some(_) => matching::Decision::default(),
        None => matching::decide(&world.policies, &template.subject(), former.claim.as_ref()),
    };
    if let (Some(pages), None) = (story, inert) {
        pages.borrow_mut().policies = matching::survey(&world.policies, &template.subject(), &decision);
    }
    let everywhere = template.goes_everywhere(&world.skipped_namespaces);
    let concerned = decision.holder.is_some()
        || previous.binding.is_some()
        || everywhere
        || (inert.is_none() && !previous.around.required.is_empty())
        || (inert.is_none() && is_noted(&template.object));
    let name = match previous
        .binding
        .and_then(|binding| binding["metadata"]["name"].as_str())
    {
        Some(name) => name.to_owned(),
        None if concerned => names.binding_name(&template.key),
        None => String::new(),
    };
    let mut plan = TemplatePlan::nothing(&template.key, name);
    plan.passed = decision.passed;
    plan.holder = decision.holder.map(|policy| policy.reference.clone());
    if inert.is_none() {
        plan.claim = Some(
            decision
                .holder
                .map_or_else(ClaimNote::default, |policy| ClaimNote::of(policy, None)),
        );
    }
    let pass = Pass {
        world,
        template,
        previous,
        interpreter,
        former: &former,
        everywhere,
        story,
    };
    match decision.holder {
        Some(policy) => pass.held_by(policy, names, &mut plan),
        None => pass.without_policy(inert, names, &mut plan),
    }
    plan
}

/// Withdraws what a deleted template left behind. `held` as in [`Previous`]; `binding` if it is still stored.
pub fn plan_deletion(
    key: &ObjectKey,
    binding_name: &str,
    binding: Option<&Value>,
    held: &BTreeSet<ClusterName>,
    names: &mut NameIndex,
) -> TemplatePlan {
    let mut plan = TemplatePlan::nothing(key, binding_name.to_owned());
    let mode = delete_mode(binding.map(Former::read).is_some_and(|former| former.preserve));
    plan.withdraw = held
        .iter()
        .map(|cluster| Withdrawal {
            cluster: cluster.clone(),
            key: key.clone(),
            mode,
        })
        .collect();
    if let Some(binding) = binding {
        plan.binding = BindingChange::Delete;
        plan.moves_peers = binding["spec"]["workloadAffinityGroups"].is_object();
    }
    names.forget(key);
    plan
}

fn delete_mode(preserve: bool) -> DeleteMode {
    if preserve {
        DeleteMode::Release
    } else {
        DeleteMode::Delete
    }
}

#[cfg(test)]
mod tests;
