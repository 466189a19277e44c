//! Fields that cannot change once set (source: the validation of the API groups). A member would refuse the change;
//! the hub refuses it at once, so that who writes the template hears it.

use crate::status_error::Cause;
use crate::types::Resource;
use serde_json::{Value, json};

const IMMUTABLE: &str = "field is immutable";

/// Fields of a kind that may not change at all.
fn fixed(resource: &Resource) -> &'static [&'static str] {
    match (&*resource.group, &*resource.plural) {
        ("apps", "deployments" | "daemonsets" | "replicasets") => &["/spec/selector"],
        ("apps", "statefulsets") => &[
            "/spec/selector",
            "/spec/serviceName",
            "/spec/podManagementPolicy",
            "/spec/volumeClaimTemplates",
        ],
        ("apps", "controllerrevisions") => &["/data"],
        ("batch", "jobs") => &["/spec/selector", "/spec/completionMode"],
        ("", "secrets") => &["/type"],
        ("", "persistentvolumeclaims") => {
            &["/spec/accessModes", "/spec/storageClassName", "/spec/volumeMode"]
        }
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => &["/roleRef"],
        ("storage.k8s.io", "storageclasses") => &[
            "/provisioner",
            "/parameters",
            "/reclaimPolicy",
            "/volumeBindingMode",
        ],
        ("scheduling.k8s.io", "priorityclasses") => &["/value"],
        ("certificates.k8s.io", "certificatesigningrequests") => &["/spec"],
        ("networking.k8s.io", "ingressclasses") => &["/spec/controller"],
        _ => &[],
    }
}

pub(super) fn check(resource: &Resource, old: &Value, new: &Value) -> Vec<Cause> {
    let dotted = |pointer: &str| pointer[1..].replace('/', ".");
    let mut causes = Vec::new();
    for pointer in fixed(resource) {
        let (before, after) = (old.pointer(pointer), new.pointer(pointer));
        if before != after && *pointer == "/roleRef" {
            let text = |key: &str| after.and_then(|role| role.get(key)).cloned().unwrap_or_default();
            let (group, kind, name) = (text("apiGroup"), text("kind"), text("name"));
            let role = json!({"APIGroup": group, "Kind": kind, "Name": name});
            causes.push(Cause::invalid("roleRef", &role, "cannot change roleRef"));
        } else if before != after {
            causes.push(Cause::invalid(
                dotted(pointer),
                after.unwrap_or(&Value::Null),
                IMMUTABLE,
            ));
        }
    }
    // The template of a Job may change only while it is suspended.
    let is_job = (&*resource.group, &*resource.plural) == ("batch", "jobs");
    let suspended = old.pointer("/spec/suspend") == Some(&Value::Bool(true));
    let template = |v: &Value| v.pointer("/spec/template").cloned();
    if is_job && !suspended && template(old) != template(new) {
        let after = template(new).unwrap_or_default();
        causes.push(Cause::invalid("spec.template", &after, IMMUTABLE));
    }
    let is_data = resource.group.is_empty() && matches!(&*resource.plural, "secrets" | "configmaps");
    if is_data && old.get("immutable") == Some(&Value::Bool(true)) {
        let why = "field is immutable when `immutable` is set";
        let changed = |key: &&str| old.get(*key) != new.get(*key);
        let fields = ["data", "binaryData", "immutable"];
        causes.extend(
            fields
                .iter()
                .filter(|k| changed(k))
                .map(|k| Cause::forbidden(*k, why)),
        );
    }
    causes
}
