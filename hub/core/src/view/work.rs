//! A Work made by a binding: what its cluster shall have, as the reference's API shows it.

use serde_json::{Map, Value, json};
use shared::wire::{ApplyState, Health};

use super::{WorkRow, said};
use crate::aggregate::{self, Condition};
use crate::naming;

/// A Work made by a binding, from its row and its content.
pub fn work(row: &WorkRow, manifest: &Value) -> Value {
    let mut annotations = Map::new();
    let prefix = if row.binding_namespace.is_empty() {
        "clusterresourcebinding"
    } else {
        "resourcebinding"
    };
    if !row.binding_namespace.is_empty() {
        annotations.insert(
            format!("{prefix}.karmada.io/namespace"),
            json!(row.binding_namespace),
        );
    }
    annotations.insert(format!("{prefix}.karmada.io/name"), json!(row.binding));
    let resolution = if row.overwrites { "overwrite" } else { "abort" };
    annotations.insert(CONFLICT_RESOLUTION.to_owned(), json!(resolution));
    let labels: Map<String, Value> = row
        .labels
        .iter()
        .map(|(key, value)| (key.clone(), json!(value)))
        .collect();
    let shown = WorkMeta {
        name: &row.work,
        namespace: &naming::execution_namespace(&row.cluster),
        labels: &labels,
        annotations: &annotations,
        template_uid: &row.template_uid,
        template_generation: row.template_generation,
    };
    let manifest = shown.manifest(manifest);
    let mut metadata = json!({
        "name": row.work,
        "namespace": naming::execution_namespace(&row.cluster),
        "uid": row.uid,
        "generation": 1,
        "creationTimestamp": row.created.rfc3339(),
        "annotations": annotations,
    });
    if !row.labels.is_empty() {
        metadata["labels"] = json!(row.labels);
    }
    let mut spec = json!({"workload": {"manifests": [manifest]}});
    if row.suspended {
        spec["suspendDispatching"] = json!(true);
    }
    if row.preserved {
        spec["preserveResourcesOnDeletion"] = json!(true);
    }
    json!({
        "apiVersion": "work.karmada.io/v1alpha1",
        "kind": "Work",
        "metadata": metadata,
        "spec": spec,
        "status": work_status(row, &manifest),
    })
}

/// Annotation: what happens to a foreign object of the same name.
const CONFLICT_RESOLUTION: &str = "work.karmada.io/conflict-resolution";

/// What a Work says of itself, as far as its manifest repeats it.
#[derive(Debug, Clone, Copy)]
pub struct WorkMeta<'a> {
    /// Name of the Work.
    pub name: &'a str,
    /// Its execution namespace.
    pub namespace: &'a str,
    /// Its labels.
    pub labels: &'a Map<String, Value>,
    /// Its annotations.
    pub annotations: &'a Map<String, Value>,
    /// Uid of the template.
    pub template_uid: &'a str,
    /// Generation of the template; 0: it has none.
    pub template_generation: u64,
}

impl WorkMeta<'_> {
    /// The manifest as the reference's Works show it: with the bookkeeping that the agent puts on the object in its own
    /// way, and the list of what is managed. What is sent to the cluster has none of it.
    pub fn manifest(&self, content: &Value) -> Value {
        let mut manifest = content.clone();
        if !manifest["metadata"].is_object() {
            return manifest;
        }
        let member = |manifest: &mut Value, key: &str| -> Map<String, Value> {
            manifest["metadata"][key].as_object().cloned().unwrap_or_default()
        };
        let mut labels = member(&mut manifest, "labels");
        labels.insert("karmada.io/managed".to_owned(), json!("true"));
        for (key, value) in self.labels.iter().filter(|(key, _)| key.ends_with(PERMANENT_ID)) {
            labels.insert(key.clone(), value.clone());
        }
        let mut annotations = member(&mut manifest, "annotations");
        let mut set = |key: &str, value: Value| annotations.insert(key.to_owned(), value);
        set("work.karmada.io/name", json!(self.name));
        set("work.karmada.io/namespace", json!(self.namespace));
        if self.template_generation > 0 {
            set(
                "resourcetemplate.karmada.io/generation",
                json!(self.template_generation.to_string()),
            );
        }
        set("resourcetemplate.karmada.io/uid", json!(self.template_uid));
        for key in [
            CONFLICT_RESOLUTION,
            "resourcebinding.karmada.io/namespace",
            "resourcebinding.karmada.io/name",
            "clusterresourcebinding.karmada.io/name",
        ] {
            if let Some(value) = self.annotations.get(key) {
                set(key, value.clone());
            }
        }
        let listed = |map: &Map<String, Value>, further: &[&str]| {
            let mut keys: Vec<&str> = map
                .keys()
                .map(String::as_str)
                .chain(further.iter().copied())
                .collect();
            keys.sort_unstable();
            keys.dedup();
            json!(keys.join(","))
        };
        let managed = [MANAGED_ANNOTATIONS, MANAGED_LABELS];
        let of_labels = listed(&labels, &[]);
        let of_annotations = listed(&annotations, &managed);
        annotations.insert(MANAGED_LABELS.to_owned(), of_labels);
        annotations.insert(MANAGED_ANNOTATIONS.to_owned(), of_annotations);
        manifest["metadata"]["labels"] = Value::Object(labels);
        manifest["metadata"]["annotations"] = Value::Object(annotations);
        manifest
    }
}

/// End of the labels that carry ids.
const PERMANENT_ID: &str = ".karmada.io/permanent-id";
/// Annotation on a manifest: the labels that are managed, as a sorted list.
const MANAGED_LABELS: &str = "resourcetemplate.karmada.io/managed-labels";
/// The same for annotations.
const MANAGED_ANNOTATIONS: &str = "resourcetemplate.karmada.io/managed-annotations";

fn work_status(row: &WorkRow, manifest: &Value) -> Value {
    let mut status = Map::new();
    let dispatching = if row.suspended {
        Condition {
            of_type: "Dispatching",
            status: false,
            reason: "SuspendDispatching",
            message: "Work dispatching is in a suspended state.".to_owned(),
        }
    } else {
        Condition {
            of_type: "Dispatching",
            status: true,
            reason: "Dispatching",
            message: "Work is being dispatched to member clusters.".to_owned(),
        }
    };
    aggregate::put_condition(&mut status, &dispatching, &row.created.rfc3339());
    let Some(report) = &row.report else {
        return Value::Object(status);
    };
    let applied = match report.applied {
        ApplyState::Applied => Some(Condition {
            of_type: "Applied",
            status: true,
            reason: "AppliedSuccessful",
            message: "Manifest has been successfully applied".to_owned(),
        }),
        ApplyState::Failed => Some(Condition {
            of_type: "Applied",
            status: false,
            reason: "AppliedFailed",
            message: said(report),
        }),
        // Not tried: nothing is claimed.
        ApplyState::Pending | ApplyState::Suspended => None,
    };
    if let Some(applied) = applied {
        aggregate::put_condition(&mut status, &applied, &report.observed.rfc3339());
    }
    if report.applied == ApplyState::Applied {
        let (group, version) = group_and_version(manifest["apiVersion"].as_str().unwrap_or_default());
        let health = match report.health {
            Health::Unknown => "Unknown",
            Health::Healthy => "Healthy",
            Health::Unhealthy => "Unhealthy",
        };
        let mut item = json!({
            "identifier": {"ordinal": 0, "group": group, "version": version, "kind": row.key.kind,
                "resource": "", "namespace": row.key.namespace, "name": row.key.name},
            "health": health,
        });
        if let Some(reflected) = &report.status {
            item["status"] = reflected.clone();
        }
        status.insert("manifestStatuses".to_owned(), json!([item]));
    }
    Value::Object(status)
}

fn group_and_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// What is left to say of a Work that is gone: its name, uid and labels.
pub fn work_gone(row: &WorkRow) -> Value {
    let mut gone = work(row, &Value::Null);
    gone["spec"] = json!({"workload": {}});
    gone
}
