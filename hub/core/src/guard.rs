//! What clients may write to the kinds that the hub itself makes: clusters, bindings, works (design section 5).

use crate::naming;
use crate::status_error::{Cause, StatusError};
use crate::types::Resource;
use serde_json::{Value, json};

/// What a client wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Make a new object.
    Create,
    /// Change one.
    Update,
    /// Change the status of one.
    UpdateStatus,
    /// Remove one.
    Delete,
}

/// Fields of a Cluster that would let the hub reach into a member. The hub holds no member credentials, so that there
/// is nothing to steal; members dial out.
const CREDENTIALS: [&str; 6] = [
    "apiEndpoint",
    "secretRef",
    "impersonatorSecretRef",
    "proxyURL",
    "proxyHeader",
    "insecureSkipTLSVerification",
];

/// Refuses what clients may not write.
///
/// # Errors
/// 403 naming who writes the object instead, 422 for fields that cannot be honoured.
pub fn check(
    resource: &Resource,
    wish: Wish,
    old: Option<&Value>,
    new: Option<&Value>,
) -> Result<(), StatusError> {
    match (&*resource.group, &*resource.plural) {
        ("cluster.karmada.io", "clusters") => cluster(resource, wish, old, new),
        ("work.karmada.io", "resourcebindings" | "clusterresourcebindings") => {
            binding(resource, wish, old, new)
        }
        ("work.karmada.io", "works") => Err(work(resource, old.or(new))),
        ("", "namespaces") if naming::cluster_of_execution_namespace(name_of(old.or(new))).is_some() => {
            Err(forbidden(
                resource,
                old.or(new),
                "the hub shows one such namespace for each cluster; nobody writes it",
            ))
        }
        _ => Ok(()),
    }
}

fn name_of(object: Option<&Value>) -> &str {
    object
        .and_then(|o| o.pointer("/metadata/name"))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn forbidden(resource: &Resource, object: Option<&Value>, why: &str) -> StatusError {
    StatusError::forbidden(&resource.group, &resource.plural, name_of(object), why)
}

const BINDING: &str = "bindings are made by the hub from templates and policies: change those";

/// What clients may write to a binding: `spec.suspension.scheduling`, `spec.rescheduleTriggeredAt`, `suppressDeletion` of an
/// eviction task (the decision what becomes of an old copy under purge mode Never), and labels and annotations that are not the hub's; under another scheduler's name also `spec.clusters` and the status.
fn binding(
    resource: &Resource,
    wish: Wish,
    old: Option<&Value>,
    new: Option<&Value>,
) -> Result<(), StatusError> {
    let Some(old) = old else {
        return Err(forbidden(resource, new, BINDING));
    };
    let scheduler = old["spec"]["schedulerName"].as_str().unwrap_or_default();
    let is_foreign = !matches!(scheduler, "" | "default-scheduler");
    match (wish, new) {
        (Wish::UpdateStatus, _) if is_foreign => Ok(()),
        (Wish::Update, Some(new)) => {
            let strip = |object: &Value| {
                let mut spec = object["spec"].clone();
                if let Some(spec) = spec.as_object_mut() {
                    spec.remove("rescheduleTriggeredAt");
                    let tasks = spec.get_mut("gracefulEvictionTasks");
                    for task in tasks.and_then(Value::as_array_mut).into_iter().flatten() {
                        if let Some(task) = task.as_object_mut() {
                            task.remove("suppressDeletion");
                        }
                    }
                    if is_foreign {
                        spec.remove("clusters");
                    }
                    let is_empty = spec
                        .get_mut("suspension")
                        .and_then(Value::as_object_mut)
                        .is_some_and(|s| {
                            s.remove("scheduling");
                            s.is_empty()
                        });
                    if is_empty {
                        spec.remove("suspension");
                    }
                }
                spec
            };
            let (before, after) = (strip(old), strip(new));
            let fields = |spec: &Value| spec.as_object().cloned().unwrap_or_default();
            let (before, after) = (fields(&before), fields(&after));
            let changed = before
                .keys()
                .chain(after.keys())
                .find(|field| before.get(*field) != after.get(*field));
            if let Some(field) = changed {
                let why = match field.as_str() {
                    "suspension" => "suspend dispatching in the policy; on the binding only spec.suspension.scheduling is yours".to_owned(),
                    "clusters" => "the hub's scheduler decides spec.clusters; a policy with another schedulerName leaves them to that scheduler".to_owned(),
                    field => format!("spec.{field} cannot be written: {BINDING}"),
                };
                return Err(forbidden(resource, Some(old), &why));
            }
            let ours = |object: &Value, member: &str| -> Vec<(String, Value)> {
                let map = object["metadata"][member].as_object().into_iter().flatten();
                map.filter(|(key, _)| key.contains("karmada.io/") || key.contains("pinnace.dev/"))
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect()
            };
            for member in ["labels", "annotations"] {
                if ours(old, member) != ours(new, member) {
                    let why = format!("metadata.{member} of the hub's own cannot be written: {BINDING}");
                    return Err(forbidden(resource, Some(old), &why));
                }
            }
            Ok(())
        }
        _ => Err(forbidden(resource, Some(old), BINDING)),
    }
}

/// Annotations of a Work that name where it comes from.
const TEMPLATE: [&str; 2] = [
    "resourcetemplate.karmada.io/kind",
    "resourcetemplate.karmada.io/name",
];
const POLICY: [&str; 4] = [
    "propagationpolicy.karmada.io/namespace",
    "propagationpolicy.karmada.io/name",
    "clusterpropagationpolicy.karmada.io/name",
    "fleet.pinnace.dev/policy",
];

fn work(resource: &Resource, object: Option<&Value>) -> StatusError {
    let annotations = object.and_then(|o| o.pointer("/metadata/annotations"));
    let named = |keys: &[&str]| {
        let texts = keys.iter().filter_map(|k| annotations?.get(*k)?.as_str());
        texts.collect::<Vec<_>>().join("/")
    };
    let source = match (named(&TEMPLATE), named(&POLICY)) {
        (template, _) if template.is_empty() => "the hub makes works from templates and policies".to_owned(),
        (template, policy) if policy.is_empty() => format!("it is made from the template {template}"),
        (template, policy) => format!("it is made from the template {template} and the policy {policy}"),
    };
    forbidden(resource, object, &format!("{source}: change those"))
}

fn cluster(
    resource: &Resource,
    wish: Wish,
    old: Option<&Value>,
    new: Option<&Value>,
) -> Result<(), StatusError> {
    let name = name_of(old.or(new));
    if let Some(new) = new {
        let join = format!(
            "members dial the hub and it holds no credentials of theirs; run `pinnace token create {name}` and the join line it prints"
        );
        let mut causes = Vec::new();
        for field in CREDENTIALS {
            let given = new
                .pointer("/spec")
                .and_then(|s| s.get(field))
                .filter(|v| !is_zero(v));
            if given.is_some() {
                causes.push(Cause::forbidden(format!("spec.{field}"), &join));
            }
        }
        if new.pointer("/spec/syncMode").and_then(Value::as_str) == Some("Push") {
            causes.push(Cause::invalid("spec.syncMode", &json!("Push"), &join));
        }
        if !causes.is_empty() {
            return Err(StatusError::invalid(
                &resource.group,
                &resource.kind,
                name,
                causes,
            ));
        }
    }
    match wish {
        Wish::Create => {
            let why = format!("a cluster appears when it joins: run `pinnace token create {name}`");
            Err(forbidden(resource, new, &why))
        }
        Wish::Delete => {
            let why = format!(
                "a cluster leaves by `pinnace cluster revoke {name}`, which ends its access, and `pinnace cluster remove {name}`, which takes it off the hub"
            );
            Err(forbidden(resource, old, &why))
        }
        Wish::UpdateStatus => Err(forbidden(
            resource,
            old,
            "the status of a cluster is what its agent reports",
        )),
        Wish::Update => Ok(()),
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(set) => !set,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::TypeTable;

    fn resource(group: &str, plural: &str) -> &'static Resource {
        TypeTable::built_in()
            .preferred(group, plural)
            .unwrap_or_else(|| panic!("{plural}"))
    }

    #[test]
    fn clusters_hold_no_credentials() {
        let clusters = resource("cluster.karmada.io", "clusters");
        let plain = json!({"metadata": {"name": "a"}, "spec": {"syncMode": "Pull", "region": "r", "apiEndpoint": ""}});
        assert_eq!(check(clusters, Wish::Update, Some(&plain), Some(&plain)), Ok(()));
        for (field, value) in [
            ("apiEndpoint", json!("https://x")),
            ("secretRef", json!({"name": "s"})),
            ("insecureSkipTLSVerification", json!(true)),
            ("syncMode", json!("Push")),
        ] {
            let mut new = plain.clone();
            new["spec"][field] = value;
            let error = check(clusters, Wish::Update, Some(&plain), Some(&new)).expect_err(field);
            assert_eq!(error.code(), 422);
            assert!(error.message.contains("pinnace token create a"), "{error}");
        }
        let error = check(clusters, Wish::Create, None, Some(&plain)).expect_err("clusters join");
        assert_eq!(error.code(), 403);
    }

    /// Field reports F33 and F35: a Work cannot be deleted by hand, it is made from rows whenever it is read. Red if a write
    /// of one were let through.
    #[test]
    fn a_work_names_its_template_and_policy() {
        let works = resource("work.karmada.io", "works");
        let object = json!({"metadata": {"name": "w", "annotations": {"resourcetemplate.karmada.io/kind": "Deployment",
            "resourcetemplate.karmada.io/name": "web", "propagationpolicy.karmada.io/namespace": "ns",
            "propagationpolicy.karmada.io/name": "p"}}});
        let error = check(works, Wish::Delete, Some(&object), None).expect_err("a view");
        assert_eq!(error.code(), 403);
        assert!(
            error.message.contains("Deployment/web") && error.message.contains("ns/p"),
            "{error}"
        );
    }

    #[test]
    fn what_may_be_written_to_a_binding() {
        let bindings = resource("work.karmada.io", "resourcebindings");
        let old = json!({"metadata": {"name": "b", "labels": {"resourcebinding.karmada.io/permanent-id": "i"}},
            "spec": {"schedulerName": "default-scheduler", "clusters": [{"name": "a"}], "replicas": 2}});
        let update = |old: &Value, change: &dyn Fn(&mut Value)| {
            let mut new = old.clone();
            change(&mut new);
            check(bindings, Wish::Update, Some(old), Some(&new)).map_err(|error| error.code())
        };
        assert_eq!(
            update(&old, &|b| b["spec"]["suspension"] = json!({"scheduling": true})),
            Ok(())
        );
        assert_eq!(
            update(&old, &|b| b["spec"]["rescheduleTriggeredAt"] =
                json!("2026-01-01T00:00:00Z")),
            Ok(())
        );
        assert_eq!(
            update(&old, &|b| b["metadata"]["labels"]["team"] = json!("x")),
            Ok(())
        );
        assert_eq!(
            update(&old, &|b| b["spec"]["suspension"] = json!({"dispatching": true})),
            Err(403)
        );
        assert_eq!(update(&old, &|b| b["spec"]["replicas"] = json!(3)), Err(403));
        assert_eq!(update(&old, &|b| b["spec"]["clusters"] = json!([])), Err(403));
        assert_eq!(
            update(
                &old,
                &|b| b["metadata"]["labels"]["resourcebinding.karmada.io/permanent-id"] = json!("j")
            ),
            Err(403)
        );
        let mut foreign = old.clone();
        foreign["spec"]["schedulerName"] = json!("mine");
        assert_eq!(
            update(&foreign, &|b| b["spec"]["clusters"] = json!([{"name": "z"}])),
            Ok(())
        );
        assert_eq!(
            check(bindings, Wish::UpdateStatus, Some(&foreign), Some(&foreign)),
            Ok(())
        );
        assert!(check(bindings, Wish::UpdateStatus, Some(&old), Some(&old)).is_err());
        assert!(check(bindings, Wish::Delete, Some(&old), None).is_err());
        assert!(check(bindings, Wish::Create, None, Some(&old)).is_err());
    }

    #[test]
    fn templates_and_policies_are_free() {
        let object = json!({"metadata": {"name": "a"}});
        for (group, plural) in [
            ("apps", "deployments"),
            ("policy.karmada.io", "propagationpolicies"),
        ] {
            assert_eq!(
                check(resource(group, plural), Wish::Create, None, Some(&object)),
                Ok(())
            );
        }
    }
}
