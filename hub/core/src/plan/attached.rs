//! Attached bindings: an object that other templates need (`propagateDeps`) goes where they go.
//!
//! Source: the reference's dependencies distributor. An object may have a policy of its own besides; then its clusters are
//! united with those it is needed in. Without one its attached binding has no placement, and goes when nobody needs the
//! object any more.

use std::collections::BTreeSet;

use interpreter::{Interpreter, Kind, Operation};
use serde_json::{Value, json};
use shared::reason::Reason;

use super::binding::{self, TEMPLATE_DIGEST_ANNOTATION, member, set_or_remove};
use super::names::{NameIndex, WORK_NAME_ANNOTATION};
use super::pass::Pass;
use super::template::Template;
use super::{BindingChange, TemplatePlan, Withdrawal, delete_mode, works};
use crate::cluster::Cluster;
use crate::dependencies::{DEPENDED_BY_LABEL_PREFIX, DEPENDENCIES_ANNOTATION, Referrer};
use crate::naming;
use crate::policy::{AnyPropagationPolicy, ConflictResolution, Suspension};

/// Writes down who needs the object: labels and `spec.requiredBy` of its binding.
pub(super) fn note_required(binding: &mut Value, required: &[Referrer]) {
    let labels = member(&mut binding["metadata"], "labels");
    labels.retain(|key, _| !key.starts_with(DEPENDED_BY_LABEL_PREFIX));
    for referrer in required {
        labels.insert(referrer.label(), json!(referrer.id));
    }
    let snapshots: Vec<Value> = required.iter().map(Referrer::snapshot).collect();
    set_or_remove(
        member(binding, "spec"),
        "requiredBy",
        (!snapshots.is_empty()).then(|| json!(snapshots)),
    );
}

/// Writes down what the template needs, if its policy carries that along. Answers why it cannot be told.
pub(super) fn note_needs(
    binding: &mut Value,
    policy: &AnyPropagationPolicy,
    template: &Template,
    interpreter: &dyn Interpreter,
) -> Option<String> {
    let carries = policy.carries_dependencies() && !template.key.namespace.is_empty();
    set_or_remove(
        member(binding, "spec"),
        "propagateDeps",
        carries.then_some(Value::Bool(true)),
    );
    let needs = if carries {
        needs(template, interpreter)
    } else {
        Ok(None)
    };
    let notes = member(&mut binding["metadata"], "annotations");
    match needs {
        Ok(needs) => {
            set_or_remove(notes, DEPENDENCIES_ANNOTATION, needs.map(|needs| json!(needs)));
            None
        }
        // What was found before goes on.
        Err(problem) => Some(problem),
    }
}

/// The references as JSON text; `None`: there are none.
fn needs(template: &Template, interpreter: &dyn Interpreter) -> Result<Option<String>, String> {
    let object = &*template.object;
    let kind = Kind::of(object).map_err(|error| error.to_string())?;
    if !interpreter.supports(&kind, Operation::InterpretDependency) {
        return Ok(None);
    }
    let found = interpreter
        .get_dependencies(&interpreter::effective(object))
        .map_err(|error| error.to_string())?;
    if found.is_empty() {
        return Ok(None);
    }
    serde_json::to_string(&found)
        .map(Some)
        .map_err(|error| error.to_string())
}

/// Clusters in which the object is needed beyond those in `chosen`, each once.
pub(super) fn further_clusters(required: &[Referrer], chosen: &BTreeSet<String>) -> Vec<String> {
    let mut seen = chosen.clone();
    let all = required.iter().flat_map(|referrer| &referrer.clusters);
    all.filter(|share| seen.insert(share.cluster.clone()))
        .map(|share| share.cluster.clone())
        .collect()
}

/// Dispatching is held back from a cluster if everybody who needs the object there holds back.
fn suspension(required: &[Referrer], clusters: &[&Cluster]) -> Option<Suspension> {
    let of = |referrer: &Referrer| -> Suspension {
        serde_json::from_value::<Option<Suspension>>(referrer.suspension.clone())
            .ok()
            .flatten()
            .unwrap_or_default()
    };
    let held: Vec<String> = clusters
        .iter()
        .map(|cluster| &cluster.name)
        .filter(|name| {
            let mut there = required
                .iter()
                .filter(|referrer| referrer.clusters.iter().any(|share| share.cluster == **name))
                .peekable();
            there.peek().is_some() && there.all(|referrer| of(referrer).holds(name))
        })
        .cloned()
        .collect();
    (!held.is_empty()).then(|| Suspension {
        dispatching_on_clusters: Some(crate::policy::SuspendClusters { cluster_names: held }),
        ..Suspension::default()
    })
}

impl Pass<'_> {
    /// Is the object needed by others, or was it until now?
    pub(super) fn is_attached(&self) -> bool {
        let was = self
            .previous
            .binding
            .is_some_and(|binding| binding["spec"]["requiredBy"].is_array());
        !self.previous.around.required.is_empty() || was
    }

    /// The plan for an object that no policy holds and that others need, or needed until now.
    pub(super) fn attached(&self, names: &mut NameIndex, plan: &mut TemplatePlan) {
        let required = self.previous.around.required;
        // What a policy that is gone had placed goes on unchanged.
        let kept: BTreeSet<String> = self
            .former
            .shares
            .iter()
            .map(|share| share.cluster.clone())
            .collect();
        plan.targets = self.former.shares.clone();
        let preserve = match required {
            [] => self.former.preserve,
            some => some.iter().any(|referrer| referrer.preserves),
        };
        if required.is_empty() && kept.is_empty() {
            plan.binding = match self.previous.binding {
                Some(_) => BindingChange::Delete,
                None => BindingChange::Keep,
            };
            plan.note(
                Reason::NoPolicy,
                "no policy selects the object, and nothing needs it any more",
            );
            self.withdraw_from(&BTreeSet::new(), preserve, plan);
            if matches!(plan.binding, BindingChange::Delete) {
                names.forget(&self.template.key);
            }
            return;
        }
        let work = names.work_name(&self.template.key);
        let overwrites = required.iter().any(|referrer| referrer.overwrites);
        let binding = self.attached_binding(&plan.binding_name, &work, overwrites, preserve);
        names.note(&binding);
        if self.previous.binding != Some(&binding) {
            plan.binding = BindingChange::Put(Box::new(binding.clone()));
        }
        let further = further_clusters(required, &kept);
        let wanted: Vec<&Cluster> = further
            .iter()
            .filter_map(|name| self.world.cluster_named(name))
            .collect();
        let by: Vec<String> = required
            .iter()
            .map(|referrer| format!("{}/{}", referrer.namespace, referrer.name))
            .collect();
        if !by.is_empty() {
            plan.note(Reason::Attached, format!("goes where {} goes", by.join(", ")));
        }
        let suspension = suspension(required, &wanted);
        let replicas = self.own_replicas();
        let render = works::Render {
            world: self.world,
            template: self.template,
            interpreter: self.interpreter,
            work,
            divides: replicas.is_some(),
            divided: false,
            conflict: if overwrites {
                ConflictResolution::Overwrite
            } else {
                ConflictResolution::Abort
            },
            suspension: suspension.as_ref(),
            preserve,
            binding: Some(&binding),
            carried: None,
        };
        let wanted: Vec<(&Cluster, i64)> = wanted
            .into_iter()
            .map(|cluster| (cluster, replicas.unwrap_or(0)))
            .collect();
        render.all(&wanted, plan);
        let keeps: BTreeSet<&str> = kept.iter().chain(&further).map(String::as_str).collect();
        self.withdraw_from(&keeps, preserve, plan);
    }

    /// Takes the object out of every cluster that holds it and is not in `keeps`: the one place that plans withdrawals
    /// of a placed or attached object.
    pub(super) fn withdraw_from(&self, keeps: &BTreeSet<&str>, preserve: bool, plan: &mut TemplatePlan) {
        plan.withdraw = self
            .previous
            .held
            .iter()
            .filter(|cluster| !keeps.contains(cluster.as_str()))
            .map(|cluster| Withdrawal {
                cluster: cluster.clone(),
                key: self.template.key.clone(),
                mode: delete_mode(preserve),
            })
            .collect();
    }

    /// Replicas of the template itself; `None`: the kind has none.
    pub(super) fn own_replicas(&self) -> Option<i64> {
        let object = &*self.template.object;
        let kind = Kind::of(object).ok()?;
        if !self.interpreter.supports(&kind, Operation::InterpretReplica) {
            return None;
        }
        let read = self
            .interpreter
            .get_replicas(&interpreter::effective(object))
            .ok()?;
        Some(read.replicas)
    }

    fn attached_binding(&self, name: &str, work: &str, overwrites: bool, preserve: bool) -> Value {
        let template = self.template;
        let key = &template.key;
        let mut binding = self
            .previous
            .binding
            .cloned()
            .unwrap_or_else(|| json!({"metadata": {}, "spec": {}}));
        binding::identify(&mut binding, template, name);
        binding::note_claim(&mut binding["metadata"], None);
        let notes = member(&mut binding["metadata"], "annotations");
        let digest = template.digest().to_string();
        let edited = notes.get(TEMPLATE_DIGEST_ANNOTATION).and_then(Value::as_str) != Some(&digest);
        notes.insert(TEMPLATE_DIGEST_ANNOTATION.to_owned(), json!(digest));
        let plain = naming::work_name(&key.kind, &key.name, &key.namespace);
        set_or_remove(notes, WORK_NAME_ANNOTATION, (work != plain).then(|| json!(work)));
        notes.remove(DEPENDENCIES_ANNOTATION);
        let resource = binding::resource(&binding, template, edited);
        let spec = member(&mut binding, "spec");
        spec.insert("resource".to_owned(), resource);
        spec.remove("propagateDeps");
        // A placement of its own, from a policy that is gone, keeps its own settings.
        if self.former.shares.is_empty() {
            let conflict = if overwrites { "Overwrite" } else { "Abort" };
            spec.insert("conflictResolution".to_owned(), json!(conflict));
            set_or_remove(
                spec,
                "preserveResourcesOnDeletion",
                preserve.then_some(Value::Bool(true)),
            );
            for field in [
                "placement",
                "replicas",
                "replicaRequirements",
                "schedulerName",
                "failover",
            ] {
                spec.remove(field);
            }
        }
        note_required(&mut binding, self.previous.around.required);
        binding
    }
}
