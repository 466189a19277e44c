//! Which policy claims a template, and why the others do not.
//!
//! Source of the rules: the reference's detector. A claim is sticky: a policy keeps what it holds as long as it still
//! selects it, unless a policy that asks for it (`preemption: Always`) has a strictly higher priority.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use crate::policy::{AnyPropagationPolicy, PolicyRef, ResourceSelector, Unheld};
use crate::schedule::Unmet;

/// An object that policies may select.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Group and version.
    pub api_version: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
    /// Labels.
    pub labels: &'a BTreeMap<String, String>,
}

/// How closely a selector names an object; the closer one wins between policies of equal priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// It selects the whole kind.
    Kind,
    /// By labels.
    Labels,
    /// By name.
    Name,
}

impl Fit {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Kind => "with its whole kind",
            Self::Labels => "by its labels",
            Self::Name => "by its name",
        }
    }
}

/// How a selector fits an object; `None`: not at all. If the selector has a name, its labels are not looked at.
pub fn fit(selector: &ResourceSelector, subject: &Subject<'_>) -> Option<Fit> {
    judge(selector, subject).ok()
}

/// Why a selector does not fit an object; the later, the closer it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit<'s> {
    /// It selects another kind, or another version of it.
    Kind(&'s str, &'s str),
    /// It selects in another namespace.
    Namespace(&'s str),
    /// It names another object.
    Name(&'s str),
    /// Its label selector is invalid, and so matches nothing.
    Invalid,
    /// A label is not as it has to be.
    Label(Unheld<'s>),
}

impl Misfit<'_> {
    fn closeness(&self) -> u8 {
        match self {
            Self::Kind(..) => 0,
            Self::Namespace(_) => 1,
            Self::Name(_) => 2,
            Self::Invalid | Self::Label(_) => 3,
        }
    }

    /// In words.
    pub fn words(&self, subject: &Subject<'_>) -> String {
        match self {
            Self::Kind(version, kind) => format!("it selects {version} {kind}"),
            Self::Namespace(namespace) => format!("it selects in the namespace {namespace}"),
            Self::Name(name) => format!("it selects the {} {name}", subject.kind),
            Self::Invalid => "its label selector is invalid and matches nothing".to_owned(),
            Self::Label(part) => {
                let found = subject.labels.get(part.key()).map(String::as_str);
                Unmet::label(part, found).to_string()
            }
        }
    }
}

/// How a selector fits an object.
///
/// # Errors
/// The first thing that does not.
pub fn judge<'s>(selector: &'s ResourceSelector, subject: &Subject<'_>) -> Result<Fit, Misfit<'s>> {
    if selector.api_version != subject.api_version || selector.kind != subject.kind {
        return Err(Misfit::Kind(&selector.api_version, &selector.kind));
    }
    if !(selector.namespace.is_empty() || selector.namespace == subject.namespace) {
        return Err(Misfit::Namespace(&selector.namespace));
    }
    if !selector.name.is_empty() {
        let named = selector.name == subject.name;
        return named.then_some(Fit::Name).ok_or(Misfit::Name(&selector.name));
    }
    match &selector.label_selector {
        None => Ok(Fit::Kind),
        Some(labels) if labels.check().is_err() => Err(Misfit::Invalid),
        Some(labels) => labels
            .unheld(subject.labels)
            .map_or(Ok(Fit::Labels), |part| Err(Misfit::Label(part))),
    }
}

/// The closest fit of several selectors.
pub fn best_fit(selectors: &[ResourceSelector], subject: &Subject<'_>) -> Option<Fit> {
    selectors
        .iter()
        .filter_map(|selector| fit(selector, subject))
        .max()
}

/// Among policies of one kind that select the object: higher priority, then closer fit, then the smaller name.
pub fn select<'a>(
    policies: impl IntoIterator<Item = &'a AnyPropagationPolicy>,
    subject: &Subject<'_>,
) -> Option<(&'a AnyPropagationPolicy, Fit)> {
    policies
        .into_iter()
        .filter(|policy| !policy.deleting)
        .filter_map(|policy| Some((policy, best_fit(&policy.spec.resource_selectors, subject)?)))
        .max_by_key(|(policy, fit)| (policy.spec.priority, *fit, Reverse(&policy.reference.name)))
}

/// The policies of a hub, found by kind of object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyIndex {
    policies: Vec<AnyPropagationPolicy>,
    by_kind: HashMap<String, Vec<usize>>,
}

impl PolicyIndex {
    /// Builds the index. The order of the policies does not matter.
    pub fn new(policies: impl IntoIterator<Item = AnyPropagationPolicy>) -> Self {
        let mut policies: Vec<_> = policies.into_iter().collect();
        policies.sort_by(|a, b| a.reference.cmp(&b.reference));
        let mut by_kind: HashMap<String, Vec<usize>> = HashMap::new();
        for (index, policy) in policies.iter().enumerate() {
            for selector in &policy.spec.resource_selectors {
                let slot = by_kind.entry(selector.kind.clone()).or_default();
                if slot.last() != Some(&index) {
                    slot.push(index);
                }
            }
        }
        Self { policies, by_kind }
    }

    /// The policy of this name.
    pub fn get(&self, reference: &PolicyRef) -> Option<&AnyPropagationPolicy> {
        let index = self
            .policies
            .binary_search_by(|policy| policy.reference.cmp(reference))
            .ok()?;
        self.policies.get(index)
    }

    /// All of them, sorted by reference.
    pub fn all(&self) -> &[AnyPropagationPolicy] {
        &self.policies
    }

    /// Adds a policy; one of its name must have been removed.
    pub(crate) fn put(&mut self, policy: AnyPropagationPolicy) {
        let at = self
            .policies
            .partition_point(|other| other.reference < policy.reference);
        for index in self.by_kind.values_mut().flatten().filter(|index| **index >= at) {
            *index += 1;
        }
        for selector in &policy.spec.resource_selectors {
            let slot = self.by_kind.entry(selector.kind.clone()).or_default();
            let place = slot.partition_point(|index| *index < at);
            if slot.get(place) != Some(&at) {
                slot.insert(place, at);
            }
        }
        self.policies.insert(at, policy);
    }

    /// Removes a policy, if it is there.
    pub(crate) fn remove(&mut self, reference: &PolicyRef) {
        let Ok(at) = self
            .policies
            .binary_search_by(|policy| policy.reference.cmp(reference))
        else {
            return;
        };
        self.policies.remove(at);
        self.by_kind.retain(|_, slot| {
            slot.retain(|index| *index != at);
            for index in slot.iter_mut().filter(|index| **index > at) {
                *index -= 1;
            }
            !slot.is_empty()
        });
    }

    /// Policies that are being deleted, with their permanent ids.
    pub fn leaving(&self) -> impl Iterator<Item = (&PolicyRef, &str)> {
        let leaving = self.policies.iter().filter(|policy| policy.deleting);
        leaving.map(|policy| (&policy.reference, policy.id.as_str()))
    }

    /// Policies that may select the object: of its namespace and cluster-scoped ones, of its kind.
    fn reachable<'a>(&'a self, subject: &Subject<'a>) -> impl Iterator<Item = &'a AnyPropagationPolicy> {
        let namespace = subject.namespace;
        self.by_kind
            .get(subject.kind)
            .into_iter()
            .flatten()
            .filter_map(|index| self.policies.get(*index))
            .filter(move |policy| {
                policy.reference.is_cluster_scoped() || policy.reference.namespace == namespace
            })
    }
}

/// A claim that is written down: on the binding and on the template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The policy.
    pub policy: PolicyRef,
    /// Its permanent id.
    pub id: String,
}

/// Why a policy that selects the object does not hold it, or no longer does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The policy.
    pub policy: PolicyRef,
    /// The rule that decided.
    pub why: PassedOver,
}

/// The rule by which a policy was passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PassedOver {
    /// The object is already held, and the policy does not take objects over (`preemption: Never`).
    AlreadyHeld,
    /// It would take objects over, but its priority is not strictly higher than the holder's.
    PriorityNotHigher,
    /// A policy of the object's namespace goes before cluster-scoped ones.
    NamespacedFirst,
    /// Its priority is lower.
    LowerPriority,
    /// Another selector names the object more closely.
    LooserFit,
    /// Everything is equal; the smaller name decides.
    LaterName,
    /// It held the object until a policy with a higher priority took it over.
    TakenOver,
    /// It held the object but selects it no longer.
    SelectsNoLonger,
    /// It held the object and is gone, or another policy of this name came in its place.
    Gone,
}

impl PassedOver {
    /// The rule in words, for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::AlreadyHeld => {
                "another policy already holds the object; preemption: Always and a higher priority would take it over"
            }
            Self::PriorityNotHigher => {
                "its priority is not higher than that of the policy that holds the object"
            }
            Self::NamespacedFirst => "a policy of the object's namespace goes before cluster-scoped ones",
            Self::LowerPriority => "its priority is lower",
            Self::LooserFit => "another policy names the object more closely",
            Self::LaterName => "priority and closeness are equal; the smaller name decides",
            Self::TakenOver => "a policy with a higher priority and preemption: Always took the object over",
            Self::SelectsNoLonger => "it no longer selects the object",
            Self::Gone => "it was deleted",
        }
    }
}

/// Who holds an object.
#[derive(Clone, Debug, Default)]
pub struct Decision<'a> {
    /// The policy that holds the object now.
    pub holder: Option<&'a AnyPropagationPolicy>,
    /// Policies that select the object or held it, and why they do not hold it. Sorted by policy.
    pub passed: Vec<Passed>,
}

/// Decides who holds the object. `held` is the claim of the last plan.
pub fn decide<'a>(index: &'a PolicyIndex, subject: &Subject<'a>, held: Option<&Claim>) -> Decision<'a> {
    let mut passed = Vec::new();
    let keeper = held.and_then(|claim| {
        match index
            .get(&claim.policy)
            .filter(|p| p.id == claim.id && !p.deleting)
        {
            Some(policy) if best_fit(&policy.spec.resource_selectors, subject).is_some() => Some(policy),
            found => {
                let why = if found.is_some() {
                    PassedOver::SelectsNoLonger
                } else {
                    PassedOver::Gone
                };
                passed.push(Passed {
                    policy: claim.policy.clone(),
                    why,
                });
                None
            }
        }
    });
    let (holder, sticky) = match keeper {
        Some(keeper) => match preemptor(index, subject, keeper) {
            Some(taker) => {
                passed.push(Passed {
                    policy: keeper.reference.clone(),
                    why: PassedOver::TakenOver,
                });
                (Some(taker), false)
            }
            None => (Some(keeper), true),
        },
        None => (first_match(index, subject), false),
    };
    if let Some(holder) = holder {
        for rival in rivals(index, subject, holder) {
            if passed.iter().all(|p| p.policy != rival.reference) {
                passed.push(Passed {
                    policy: rival.reference.clone(),
                    why: compare(holder, rival, subject, sticky),
                });
            }
        }
    }
    passed.sort_by(|a, b| a.policy.cmp(&b.policy));
    Decision { holder, passed }
}

/// A policy in reach of an object, and what it has to do with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surveyed {
    /// The policy.
    pub policy: PolicyRef,
    /// Does it hold the object?
    pub holds: bool,
    /// Does it select the kind at all?
    pub selects_kind: bool,
    /// Why it holds the object, or why not, in words.
    pub why: String,
}

/// What every policy in reach (of the object's namespace, and cluster-scoped ones) has to do with the object, given who
/// holds it. Those that held it and are gone are among them. Sorted by policy.
pub fn survey(index: &PolicyIndex, subject: &Subject<'_>, decision: &Decision<'_>) -> Vec<Surveyed> {
    let namespace = subject.namespace;
    let in_reach = |policy: &&AnyPropagationPolicy| {
        policy.reference.is_cluster_scoped() || policy.reference.namespace == namespace
    };
    let passed = |reference: &PolicyRef| decision.passed.iter().find(|one| one.policy == *reference);
    let mut all: Vec<Surveyed> = index
        .all()
        .iter()
        .filter(in_reach)
        .map(|policy| surveyed(policy, subject, decision, passed(&policy.reference)))
        .collect();
    let gone = decision
        .passed
        .iter()
        .filter(|one| index.get(&one.policy).is_none());
    all.extend(gone.map(|one| Surveyed {
        policy: one.policy.clone(),
        holds: false,
        selects_kind: true,
        why: one.why.words().to_owned(),
    }));
    all.sort_by(|a, b| a.policy.cmp(&b.policy));
    all
}

fn surveyed(
    policy: &AnyPropagationPolicy,
    subject: &Subject<'_>,
    decision: &Decision<'_>,
    passed: Option<&Passed>,
) -> Surveyed {
    let selectors = &policy.spec.resource_selectors;
    let holds = decision
        .holder
        .is_some_and(|holder| holder.reference == policy.reference);
    let misfits = selectors.iter().filter_map(|one| judge(one, subject).err());
    let closest = misfits.max_by_key(Misfit::closeness);
    let fit = best_fit(selectors, subject);
    let why = match (holds, fit, passed, closest) {
        (true, Some(fit), ..) => format!("it selects the object {}", fit.words()),
        (true, None, ..) => "it holds the object".to_owned(),
        (false, None, _, Some(misfit)) => misfit.words(subject),
        (false, _, Some(passed), _) => passed.why.words().to_owned(),
        (false, ..) if policy.deleting => "it is being deleted".to_owned(),
        (false, ..) => "it selects nothing".to_owned(),
    };
    Surveyed {
        policy: policy.reference.clone(),
        holds,
        selects_kind: fit.is_some() || closest.is_some_and(|misfit| misfit.closeness() > 0),
        why,
    }
}

fn first_match<'a>(index: &'a PolicyIndex, subject: &Subject<'a>) -> Option<&'a AnyPropagationPolicy> {
    let of_scope = |cluster: bool| {
        index
            .reachable(subject)
            .filter(move |p| p.reference.is_cluster_scoped() == cluster)
    };
    select(of_scope(false), subject)
        .or_else(|| select(of_scope(true), subject))
        .map(|(policy, _)| policy)
}

/// The policy that takes the object from its holder: it asks for that, and has a strictly higher priority. A namespaced
/// policy takes from a cluster-scoped one whatever the priorities; never the other way round.
fn preemptor<'a>(
    index: &'a PolicyIndex,
    subject: &Subject<'a>,
    holder: &AnyPropagationPolicy,
) -> Option<&'a AnyPropagationPolicy> {
    let takers = |cluster: bool| {
        let held_by_cluster = holder.reference.is_cluster_scoped();
        let from = holder.spec.priority;
        index.reachable(subject).filter(move |policy| {
            policy.spec.preemption == "Always"
                && policy.reference.is_cluster_scoped() == cluster
                && match (cluster, held_by_cluster) {
                    (false, true) => true,
                    (true, false) => false,
                    _ => policy.spec.priority > from,
                }
        })
    };
    select(takers(false), subject)
        .or_else(|| select(takers(true), subject))
        .map(|(policy, _)| policy)
}

fn rivals<'a>(
    index: &'a PolicyIndex,
    subject: &Subject<'a>,
    holder: &'a AnyPropagationPolicy,
) -> impl Iterator<Item = &'a AnyPropagationPolicy> {
    index.reachable(subject).filter(move |policy| {
        policy.reference != holder.reference
            && !policy.deleting
            && best_fit(&policy.spec.resource_selectors, subject).is_some()
    })
}

fn compare(
    holder: &AnyPropagationPolicy,
    rival: &AnyPropagationPolicy,
    subject: &Subject<'_>,
    sticky: bool,
) -> PassedOver {
    if sticky {
        return if rival.spec.preemption == "Always" {
            PassedOver::PriorityNotHigher
        } else {
            PassedOver::AlreadyHeld
        };
    }
    let fit = |policy: &AnyPropagationPolicy| best_fit(&policy.spec.resource_selectors, subject);
    if rival.reference.is_cluster_scoped() && !holder.reference.is_cluster_scoped() {
        PassedOver::NamespacedFirst
    } else if rival.spec.priority < holder.spec.priority {
        PassedOver::LowerPriority
    } else if fit(rival) < fit(holder) {
        PassedOver::LooserFit
    } else if rival.spec.priority > holder.spec.priority || fit(rival) > fit(holder) {
        // Only a hand-over gets here: the taker asked for it, this one did not.
        PassedOver::AlreadyHeld
    } else {
        PassedOver::LaterName
    }
}
