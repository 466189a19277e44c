//! Follows the store's history and marks what changed. Carries no state: a mark is only a name.

use hub_core::aggregate::SILENT_CLUSTERS_ANNOTATION;
use hub_core::cluster::Cluster;
use hub_core::plan::bound_object;
use hub_core::schedule::trigger;
use hub_core::templates;
use serde_json::Value;

use super::quotas::is_of_quota;
use super::{BindingRef, Reconciler, TemplateKey, limits};
use crate::store::{Event, EventKind, Note, Object};

impl Reconciler {
    /// Marks whatever the store says has changed, until it is closed.
    pub(super) async fn follow(&self) {
        let mut notes = self.store.subscribe_changes();
        loop {
            // First the place in the history, then everything marked: nothing can fall between.
            let cursor = self.store.watch(None, self.store.revision());
            self.mark_everything();
            let Ok(mut cursor) = cursor else { continue };
            loop {
                tokio::select! {
                    event = cursor.next() => {
                        let Ok(event) = event else { break };
                        let mut marks = Vec::new();
                        self.collect(&event, &mut marks);
                        for _ in 1..limits::FEED_BATCH {
                            match cursor.try_next() {
                                Ok(Some(event)) => self.collect(&event, &mut marks),
                                // A compacted history is met again by `next`.
                                Ok(None) | Err(_) => break,
                            }
                        }
                        self.templates.mark(marks);
                    }
                    note = notes.next() => match note {
                        None => return,
                        Some(Note::Binding(binding)) if is_of_quota(&binding) => self.quotas.mark([()]),
                        Some(Note::Binding(binding)) => {
                            self.copies_reported(&binding);
                            self.bindings.mark([binding]);
                        }
                        Some(Note::Cluster(_)) => self.clusters.mark([()]),
                        Some(Note::Set(_)) => {}
                        Some(Note::Everything) => {
                            self.bindings.mark_all();
                            self.reported.mark_all();
                            self.clusters.mark([()]);
                            self.quotas.mark([()]);
                        }
                    },
                }
            }
        }
    }

    pub(super) fn collect(&self, event: &Event, marks: &mut Vec<TemplateKey>) {
        let object = &event.object;
        let (group, plural) = (&*object.resource.group, &*object.resource.resource);
        let is_binding =
            group == "work.karmada.io" && matches!(plural, "resourcebindings" | "clusterresourcebindings");
        match (group, plural) {
            ("apps.karmada.io", "workloadrebalancers") => self.rebalancers.mark([()]),
            ("policy.karmada.io", "federatedresourcequotas") => self.quotas.mark([()]),
            ("networking.karmada.io", _) => self.services.mark([()]),
            ("policy.karmada.io", "clustertaintpolicies") | ("cluster.karmada.io", "clusters") => {
                self.tainting.mark([()]);
            }
            _ => {}
        }
        if is_binding {
            self.quotas.mark([()]);
            let binding = BindingRef {
                namespace: object.namespace.clone(),
                name: object.name.clone(),
            };
            if self.own_writes.is_own(&binding, event.revision) {
                // The plan that wrote it marks it when its works are adopted.
                return;
            }
            self.bindings.mark([binding]);
        }
        let steers = group == "policy.karmada.io"
            || (group, plural) == ("cluster.karmada.io", "clusters")
            || (group, plural) == ("scheduling.k8s.io", "priorityclasses")
            || (group, plural) == (interpreter::CUSTOMIZATION_GROUP, templates::CUSTOMIZATIONS);
        let is_template = templates::resource_may_hold_templates(group, plural);
        if is_template && self.own_statuses.is_own(&template_key(object), event.revision) {
            // Known without a look: a status on top of what was there.
            return;
        }
        if !(is_binding || steers || is_template) || is_only_status(event) || concerns_nobody(event) {
            return;
        }
        if is_binding {
            let key = bound_object(&object.value());
            marks.extend(self.place_of(&key));
        } else if group == "policy.karmada.io" {
            self.policy_changed(event, marks);
        } else if steers {
            self.mark_world();
        } else {
            let key = template_key(object);
            if !self.own_claims.is_own(&key, event.revision) {
                marks.push(key);
            }
        }
    }
}

pub(super) fn template_key(object: &Object) -> TemplateKey {
    TemplateKey {
        resource: object.resource.clone(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
    }
}

/// Whether a cluster changed in a way that no binding looks at, such as an annotation.
fn concerns_nobody(event: &Event) -> bool {
    let (Some(previous), EventKind::Put) = (&event.previous, event.kind) else {
        return false;
    };
    if &*event.object.resource.resource != "clusters" {
        return false;
    }
    let state = |object: &Object| {
        let value = object.value();
        (Cluster::read(&value), shared::object::generation(&value))
    };
    let ((old, old_generation), (new, new_generation)) = (state(previous), state(&event.object));
    trigger::cluster_changed((&old, old_generation), (&new, new_generation)) == trigger::Concerns::default()
}

/// Whether nothing changed but status and bookkeeping of the server: planning it again would give the same.
fn is_only_status(event: &Event) -> bool {
    match (&event.previous, event.kind) {
        (Some(previous), EventKind::Put) => wanted_part(previous) == wanted_part(&event.object),
        _ => false,
    }
}

/// What planning reads of an object.
fn wanted_part(object: &Object) -> Value {
    let mut value = object.value();
    if let Some(map) = value.as_object_mut() {
        map.remove("status");
    }
    strip_bookkeeping(&mut value);
    value
}

/// Takes off what the server and the status reconciler write into metadata.
pub(super) fn strip_bookkeeping(value: &mut Value) {
    let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    metadata.remove("resourceVersion");
    metadata.remove("managedFields");
    take_silence_off_metadata(metadata);
}

/// Takes off the hub's own count of silent clusters, which never goes to members.
pub(super) fn take_silence_off(value: &mut Value) {
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        take_silence_off_metadata(metadata);
    }
}

fn take_silence_off_metadata(metadata: &mut serde_json::Map<String, Value>) {
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut)
        && annotations.remove(SILENT_CLUSTERS_ANNOTATION).is_some()
        && annotations.is_empty()
    {
        metadata.remove("annotations");
    }
}
