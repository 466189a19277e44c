//! The binding object: ResourceBinding or ClusterResourceBinding of `work.karmada.io/v1alpha2`.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::names::WORK_NAME_ANNOTATION;
use super::template::Template;
use super::wanted::Wanted;
use crate::divide::Share;
use crate::failover::{EvictionTask, PurgeMode};
use crate::matching::Claim;
use crate::naming;
use crate::policy::{
    AnyPropagationPolicy, CLUSTER_POLICY_ID_LABEL, CLUSTER_POLICY_NAME_ANNOTATION, POLICY_ID_LABEL,
    POLICY_NAME_ANNOTATION, POLICY_NAMESPACE_ANNOTATION, PolicyRef, Suspension,
};
use crate::schedule::trigger::reschedule_required;

/// Label with the binding's own id, on the binding and its works.
pub const BINDING_ID_LABEL: &str = "resourcebinding.karmada.io/permanent-id";
/// The same for a ClusterResourceBinding.
pub const CLUSTER_BINDING_ID_LABEL: &str = "clusterresourcebinding.karmada.io/permanent-id";
/// Annotation with the placement of the last scheduling, as JSON.
pub const APPLIED_PLACEMENT_ANNOTATION: &str = "policy.karmada.io/applied-placement";
/// Annotation with the affinity group of the last scheduling; the view shows it as `status.schedulerObservingAffinityName`.
pub const AFFINITY_GROUP_ANNOTATION: &str = "fleet.pinnace.dev/affinity-group";
/// Field of the status with the same.
pub const OBSERVED_GROUP: &str = "schedulerObservingAffinityName";
/// Annotation with the digest of the template that the works were rendered from; it tells a user's edit from a new status.
pub const TEMPLATE_DIGEST_ANNOTATION: &str = "fleet.pinnace.dev/template-digest";

/// Annotation with the `rescheduleTriggeredAt` that was followed last, so that each is followed once.
const RESCHEDULED_ANNOTATION: &str = "fleet.pinnace.dev/rescheduled-for";

/// The label that carries the id of a binding of this scope.
pub fn id_label(namespace: &str) -> &'static str {
    if namespace.is_empty() {
        CLUSTER_BINDING_ID_LABEL
    } else {
        BINDING_ID_LABEL
    }
}

/// What a plan reads of the stored binding.
#[derive(Clone, Debug, Default)]
pub(super) struct Former {
    pub(super) claim: Option<Claim>,
    pub(super) shares: Vec<Share>,
    pub(super) group: Option<String>,
    pub(super) suspension: Option<Suspension>,
    /// Clusters it is being moved away from.
    pub(super) evicted: Vec<String>,
    /// Those of them whose copy stays for now.
    pub(super) staying: Vec<String>,
    /// Why it is moved away from each.
    pub(super) tasks: Vec<EvictionTask>,
    /// Nothing is moved there: silent clusters it is not assigned to.
    pub(super) unavailable: Vec<String>,
    /// The placement it was scheduled by, as JSON.
    pub(super) applied_placement: Option<String>,
    pub(super) preserve: bool,
    /// `rescheduleTriggeredAt` was set since the last scheduling.
    pub(super) asks_for_a_new_start: bool,
}

fn text<'a>(map: &'a Value, key: &str) -> Option<&'a str> {
    map[key].as_str().filter(|text| !text.is_empty())
}

impl Former {
    pub(super) fn read(binding: &Value) -> Self {
        let (labels, notes) = (
            &binding["metadata"]["labels"],
            &binding["metadata"]["annotations"],
        );
        let spec = &binding["spec"];
        let items = |key: &str| spec[key].as_array().into_iter().flatten();
        let tasks: Vec<EvictionTask> = items("gracefulEvictionTasks")
            .filter_map(|task| EvictionTask::deserialize(task).ok())
            .collect();
        let (evicted, staying) = leaving(&tasks);
        Self {
            evicted,
            staying,
            tasks,
            unavailable: Vec::new(),
            claim: claim(labels, notes),
            shares: items("clusters")
                .filter_map(|target| {
                    Some(Share {
                        cluster: text(target, "name")?.to_owned(),
                        replicas: target["replicas"].as_i64().unwrap_or(0),
                    })
                })
                .collect(),
            // Another scheduler that had it before wrote its group into the status.
            group: text(notes, AFFINITY_GROUP_ANNOTATION)
                .or_else(|| text(&binding["status"], OBSERVED_GROUP))
                .map(str::to_owned),
            suspension: serde_json::from_value(spec["suspension"].clone()).ok().flatten(),
            applied_placement: text(notes, APPLIED_PLACEMENT_ANNOTATION).map(str::to_owned),
            preserve: spec["preserveResourcesOnDeletion"] == true,
            asks_for_a_new_start: text(spec, "rescheduleTriggeredAt").is_some_and(|trigger| {
                reschedule_required(Some(trigger), binding["status"]["lastScheduledTime"].as_str())
                    && text(notes, RESCHEDULED_ANNOTATION) != Some(trigger)
            }),
        }
    }
}

/// Clusters that tasks move a binding away from, and those of them whose copy stays for now.
pub(super) fn leaving(tasks: &[EvictionTask]) -> (Vec<String>, Vec<String>) {
    let names = |tasks: &mut dyn Iterator<Item = &EvictionTask>| -> Vec<String> {
        tasks.map(|task| task.from_cluster.clone()).collect()
    };
    let stays = |task: &&EvictionTask| task.purge_mode != Some(PurgeMode::Directly);
    (names(&mut tasks.iter()), names(&mut tasks.iter().filter(stays)))
}

/// The claim that labels and annotations note down.
pub(super) fn claim(labels: &Value, notes: &Value) -> Option<Claim> {
    let namespaced = || {
        let namespace = text(notes, POLICY_NAMESPACE_ANNOTATION)?.to_owned();
        let policy = PolicyRef {
            namespace,
            name: text(notes, POLICY_NAME_ANNOTATION)?.to_owned(),
        };
        Some(Claim {
            policy,
            id: text(labels, POLICY_ID_LABEL)?.to_owned(),
        })
    };
    let cluster_scoped = || {
        let name = text(notes, CLUSTER_POLICY_NAME_ANNOTATION)?.to_owned();
        let policy = PolicyRef {
            namespace: String::new(),
            name,
        };
        Some(Claim {
            policy,
            id: text(labels, CLUSTER_POLICY_ID_LABEL)?.to_owned(),
        })
    };
    namespaced().or_else(cluster_scoped)
}

/// Every label and annotation by which claims are noted down.
const CLAIM_LABELS: [&str; 2] = [POLICY_ID_LABEL, CLUSTER_POLICY_ID_LABEL];
const CLAIM_ANNOTATIONS: [&str; 3] = [
    POLICY_NAMESPACE_ANNOTATION,
    POLICY_NAME_ANNOTATION,
    CLUSTER_POLICY_NAME_ANNOTATION,
];

pub(super) fn member<'a>(map: &'a mut Value, key: &str) -> &'a mut Map<String, Value> {
    if !map[key].is_object() {
        map[key] = json!({});
    }
    map[key]
        .as_object_mut()
        .expect("it was made an object on the line above")
}

/// Notes a claim down in metadata; `None` removes it.
pub(super) fn note_claim(metadata: &mut Value, claim: Option<&Claim>) {
    let labels = member(metadata, "labels");
    CLAIM_LABELS.iter().for_each(|label| {
        labels.remove(*label);
    });
    if let Some(claim) = claim {
        let label = if claim.policy.is_cluster_scoped() {
            CLUSTER_POLICY_ID_LABEL
        } else {
            POLICY_ID_LABEL
        };
        labels.insert(label.to_owned(), json!(claim.id));
    }
    let notes = member(metadata, "annotations");
    CLAIM_ANNOTATIONS.iter().for_each(|note| {
        notes.remove(*note);
    });
    if let Some(PolicyRef { namespace, name }) = claim.map(|claim| &claim.policy) {
        if namespace.is_empty() {
            notes.insert(CLUSTER_POLICY_NAME_ANNOTATION.to_owned(), json!(name));
        } else {
            notes.insert(POLICY_NAMESPACE_ANNOTATION.to_owned(), json!(namespace));
            notes.insert(POLICY_NAME_ANNOTATION.to_owned(), json!(name));
        }
    }
}

/// A policy's suspension on a binding. The scheduling flag is the binding's own and survives; all else is the policy's.
pub fn merge_suspension(binding: Option<&Suspension>, policy: Option<&Suspension>) -> Option<Suspension> {
    let merged = Suspension {
        scheduling: binding.and_then(|suspension| suspension.scheduling),
        ..policy.cloned().unwrap_or_default()
    };
    (merged != Suspension::default()).then_some(merged)
}

/// What a new state of the binding says.
pub(super) struct State<'a> {
    pub(super) template: &'a Template,
    pub(super) name: &'a str,
    pub(super) work: &'a str,
    pub(super) policy: &'a AnyPropagationPolicy,
    pub(super) wanted: &'a Wanted,
    pub(super) shares: &'a [Share],
    /// Was scheduled in this pass, so that placement and group are noted down.
    pub(super) noted: bool,
    pub(super) group: Option<&'a str>,
    /// The tasks by which it is moved away from clusters; `None`: those on the binding stay.
    pub(super) tasks: Option<&'a [EvictionTask]>,
    /// Each target has one whole set of components.
    pub(super) whole_sets: bool,
    /// The priority of the class that the policy names.
    pub(super) priority: Option<i64>,
    pub(super) suspension: Option<&'a Suspension>,
}

/// The binding as it must be stored now, made from the stored one, so that what others wrote stays.
pub(super) fn build(former: Option<&Value>, state: &State<'_>) -> Value {
    let template = state.template;
    let namespace = template.key.namespace.as_str();
    let mut binding = former
        .cloned()
        .unwrap_or_else(|| json!({"metadata": {}, "spec": {}}));
    identify(&mut binding, template, state.name);
    let metadata = &mut binding["metadata"];
    let claim = Claim {
        policy: state.policy.reference.clone(),
        id: state.policy.id.clone(),
    };
    note_claim(metadata, Some(&claim));
    let notes = member(metadata, "annotations");
    let digest = template.digest().to_string();
    let edited = notes.get(TEMPLATE_DIGEST_ANNOTATION).and_then(Value::as_str) != Some(&digest);
    notes.insert(TEMPLATE_DIGEST_ANNOTATION.to_owned(), json!(digest));
    let plain = naming::work_name(&template.key.kind, &template.key.name, namespace);
    set_or_remove(
        notes,
        WORK_NAME_ANNOTATION,
        (state.work != plain).then(|| json!(state.work)),
    );
    if state.noted {
        let placement = match &state.policy.placement_json {
            Value::Null => "{}".to_owned(),
            placement => placement.to_string(),
        };
        notes.insert(APPLIED_PLACEMENT_ANNOTATION.to_owned(), json!(placement));
        set_or_remove(
            notes,
            AFFINITY_GROUP_ANNOTATION,
            state.group.map(|group| json!(group)),
        );
        let trigger = former.and_then(|former| text(&former["spec"], "rescheduleTriggeredAt"));
        set_or_remove(
            notes,
            RESCHEDULED_ANNOTATION,
            trigger.map(|trigger| json!(trigger)),
        );
    }
    spec(&mut binding, state, edited);
    binding
}

/// What every binding of a template has: kind, name, owner and permanent id.
pub(super) fn identify(binding: &mut Value, template: &Template, name: &str) {
    let namespace = template.key.namespace.as_str();
    binding["apiVersion"] = json!("work.karmada.io/v1alpha2");
    binding["kind"] = json!(if namespace.is_empty() {
        "ClusterResourceBinding"
    } else {
        "ResourceBinding"
    });
    let metadata = &mut binding["metadata"];
    metadata["name"] = json!(name);
    if !namespace.is_empty() {
        metadata["namespace"] = json!(namespace);
    }
    metadata["ownerReferences"] = json!([{
        "apiVersion": template.api_version, "kind": template.key.kind, "name": template.key.name, "uid": template.uid,
        "controller": true, "blockOwnerDeletion": true,
    }]);
    member(metadata, "labels")
        .entry(id_label(namespace))
        .or_insert_with(|| json!(permanent_id(template)));
}

/// `spec.resource`: a new resourceVersion of the template is only worth a new binding if the user changed something.
pub(super) fn resource(binding: &Value, template: &Template, edited: bool) -> Value {
    let version = match text(&binding["spec"]["resource"], "resourceVersion") {
        Some(known) if !edited => known.to_owned(),
        _ => template.resource_version.clone(),
    };
    let mut resource = json!({
        "apiVersion": template.api_version, "kind": template.key.kind, "name": template.key.name,
        "uid": template.uid, "resourceVersion": version,
    });
    if !template.key.namespace.is_empty() {
        resource["namespace"] = json!(template.key.namespace);
    }
    resource
}

pub(super) fn set_or_remove(map: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    match value {
        Some(value) => map.insert(key.to_owned(), value),
        None => map.remove(key),
    };
}

fn spec(binding: &mut Value, state: &State<'_>, edited: bool) {
    let template = state.template;
    let policy = &state.policy.spec;
    let resource = resource(binding, template, edited);
    let clusters: Vec<Value> = state
        .shares
        .iter()
        .map(|share| {
            let mut row = json!({"name": share.cluster});
            if share.replicas != 0 {
                row["replicas"] = json!(share.replicas);
            }
            if state.whole_sets {
                let components = state.wanted.components.iter();
                row["components"] = components
                    .map(|one| json!({"name": one.name, "replicas": one.replicas}))
                    .collect();
            }
            row
        })
        .collect();
    let scheduler = if policy.scheduler_name.is_empty() {
        "default-scheduler"
    } else {
        &policy.scheduler_name
    };
    let spec = member(binding, "spec");
    spec.insert("resource".to_owned(), resource);
    spec.insert("schedulerName".to_owned(), json!(scheduler));
    spec.insert("conflictResolution".to_owned(), json!(policy.conflict_resolution));
    let placement = &state.policy.placement_json;
    spec.insert(
        "placement".to_owned(),
        if placement.is_null() {
            json!({})
        } else {
            placement.clone()
        },
    );
    let wanted = state.wanted;
    set_or_remove(
        spec,
        "replicas",
        (wanted.replicas != 0).then(|| json!(wanted.replicas)),
    );
    set_or_remove(
        spec,
        "replicaRequirements",
        wanted.requirements.as_ref().map(|required| json!(required)),
    );
    set_or_remove(
        spec,
        "components",
        (!wanted.components.is_empty()).then(|| json!(wanted.components)),
    );
    set_or_remove(
        spec,
        "workloadAffinityGroups",
        (!wanted.groups.is_empty()).then(|| json!(wanted.groups)),
    );
    set_or_remove(
        spec,
        "schedulePriority",
        state.priority.map(|priority| json!({"priority": priority})),
    );
    set_or_remove(
        spec,
        "failover",
        policy.failover.as_ref().map(|failover| json!(failover)),
    );
    if let Some(tasks) = state.tasks {
        set_or_remove(
            spec,
            "gracefulEvictionTasks",
            (!tasks.is_empty()).then(|| json!(tasks)),
        );
    }
    set_or_remove(spec, "clusters", (!clusters.is_empty()).then(|| json!(clusters)));
    set_or_remove(
        spec,
        "suspension",
        state.suspension.map(|suspension| json!(suspension)),
    );
    set_or_remove(
        spec,
        "preserveResourcesOnDeletion",
        policy
            .preserve_resources_on_deletion
            .map(|preserve| json!(preserve)),
    );
}

/// The binding's permanent id: a UUID derived from the template's uid, so that planning twice gives the same.
fn permanent_id(template: &Template) -> String {
    let mut seed = b"pinnace/1 binding id:".to_vec();
    seed.extend_from_slice(template.uid.as_bytes());
    seed.extend_from_slice(template.key.to_string().as_bytes());
    crate::uuid::derived(&seed)
}
