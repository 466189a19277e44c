//! A user's object on the hub, and whether policies may claim it at all.

use std::collections::BTreeMap;
use std::sync::Arc;

use interpreter::Customization;
use serde_json::Value;
use shared::ids::{Digest, ObjectKey};
use shared::object::{canonical, split_api_version};

use super::lazy::LAZY_SINCE_ANNOTATION;
use crate::matching::Subject;
use crate::naming;
use crate::policy::labels_of;

/// Label that keeps policies away from an object that something else propagates.
const CLAIMED_BY_LABEL: &str = "resourcetemplate.karmada.io/claimed-by";
/// Label on a Namespace that is not sent to the members by itself.
const SKIP_AUTO_PROPAGATION_LABEL: &str = "namespace.karmada.io/skip-auto-propagation";
/// Label of the RBAC objects the hub makes at its first start.
const BOOTSTRAP_LABEL: &str = "kubernetes.io/bootstrapping";

/// API groups whose objects steer the hub and are never sent to members.
const STEERING_GROUPS: [&str; 10] = [
    "apps.karmada.io",
    "autoscaling.karmada.io",
    "cluster.karmada.io",
    "config.karmada.io",
    "coordination.k8s.io",
    "events.k8s.io",
    "fleet.pinnace.dev",
    "networking.karmada.io",
    "policy.karmada.io",
    "work.karmada.io",
];

/// The hub's own note of a claim on the template is bookkeeping, never content.
pub(super) fn take_claim_off(object: &mut Value) {
    let of_claim = |key: &String| {
        key.starts_with("propagationpolicy.karmada.io/")
            || key.starts_with("clusterpropagationpolicy.karmada.io/")
            || key == LAZY_SINCE_ANNOTATION
    };
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    for field in ["labels", "annotations"] {
        let Some(map) = metadata.get_mut(field).and_then(Value::as_object_mut) else {
            continue;
        };
        let before = map.len();
        map.retain(|key, _| !of_claim(key));
        if map.is_empty() && before > 0 {
            metadata.remove(field);
        }
    }
}

/// A user's object on the hub.
#[derive(Clone, Debug)]
pub struct Template {
    /// The object as stored.
    pub object: Arc<Value>,
    /// Group, kind, namespace and name.
    pub key: ObjectKey,
    /// Group and version.
    pub api_version: String,
    /// Its uid.
    pub uid: String,
    /// Its generation; 0 for kinds that have none.
    pub generation: u64,
    /// Its resource version.
    pub resource_version: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// Why an object is no template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inert {
    /// Its kind steers the hub.
    SteersTheHub,
    /// It lies in a namespace of the hub itself, or is such a namespace.
    ReservedNamespace,
    /// The hub made it.
    MadeByTheHub,
    /// Its label says that something else propagates it.
    ClaimedByLabel,
}

impl Template {
    /// Reads a stored object; `None` if it has no kind or name.
    pub fn read(object: Arc<Value>) -> Option<Self> {
        let key = shared::object::key(&object)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        Some(Self {
            key,
            api_version: text(&object["apiVersion"]),
            uid: text(&metadata["uid"]),
            generation: metadata["generation"].as_u64().unwrap_or(0),
            resource_version: text(&metadata["resourceVersion"]),
            labels: labels_of(&object),
            object,
        })
    }

    /// The object as selectors see it.
    pub fn subject(&self) -> Subject<'_> {
        Subject {
            api_version: &self.api_version,
            kind: &self.key.kind,
            namespace: &self.key.namespace,
            name: &self.key.name,
            labels: &self.labels,
        }
    }

    /// Why policies may not claim it; `None`: they may.
    pub fn inert(&self) -> Option<Inert> {
        let (group, _) = split_api_version(&self.api_version);
        let core = |kind: &str| group.is_empty() && self.key.kind == kind;
        if STEERING_GROUPS.contains(&group) || core("Event") {
            return Some(Inert::SteersTheHub);
        }
        let space = if core("Namespace") {
            &self.key.name
        } else {
            &self.key.namespace
        };
        if naming::is_reserved_namespace(space) || space.starts_with("kube-") {
            return Some(Inert::ReservedNamespace);
        }
        let made_by_the_hub = (core("ServiceAccount") && self.key.name == "default")
            || (core("ConfigMap") && self.key.name == "kube-root-ca.crt")
            || (core("Service") && self.key.namespace == "default" && self.key.name == "kubernetes")
            || (group == "rbac.authorization.k8s.io" && self.labels.contains_key(BOOTSTRAP_LABEL))
            || (group == "scheduling.k8s.io" && self.key.name.starts_with("system-"));
        if made_by_the_hub {
            return Some(Inert::MadeByTheHub);
        }
        self.labels
            .contains_key(CLAIMED_BY_LABEL)
            .then_some(Inert::ClaimedByLabel)
    }

    /// Does it go to every cluster without a policy? Namespaces do (`skipped` are further names that do not), and
    /// customizations, whose scripts the agents need.
    pub fn goes_everywhere(&self, skipped: &[String]) -> bool {
        let (group, _) = split_api_version(&self.api_version);
        if Customization::is_one(group, &self.key.kind) {
            return true;
        }
        let skip = self
            .labels
            .get(SKIP_AUTO_PROPAGATION_LABEL)
            .is_some_and(|value| value.eq_ignore_ascii_case("true"));
        group.is_empty()
            && self.key.kind == "Namespace"
            && self.key.name != "default"
            && !naming::stays_on_the_hub(&self.key.name)
            && !skip
            && !skipped.contains(&self.key.name)
            && self.inert().is_none()
    }

    /// Digest of what the user wrote: without status, bookkeeping of the server and the claim that the hub itself notes
    /// down. A change of status does not change it.
    pub fn digest(&self) -> Digest {
        let mut object = (*self.object).clone();
        if let Some(map) = object.as_object_mut() {
            map.remove("status");
            if let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut) {
                for field in ["managedFields", "resourceVersion", "generation"] {
                    metadata.remove(field);
                }
            }
        }
        take_claim_off(&mut object);
        Digest::of(&canonical(&object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn template(json: Value) -> Template {
        Template::read(Arc::new(json)).unwrap()
    }

    #[test]
    fn what_is_never_claimed() {
        let object = |api_version: &str, kind: &str, namespace: &str, name: &str| {
            template(
                json!({"apiVersion": api_version, "kind": kind, "metadata": {"namespace": namespace, "name": name}}),
            )
        };
        for (template, inert) in [
            (object("apps/v1", "Deployment", "shop", "web"), None),
            (object("v1", "ServiceAccount", "shop", "web"), None),
            (
                object("v1", "ServiceAccount", "shop", "default"),
                Some(Inert::MadeByTheHub),
            ),
            (
                object("v1", "ConfigMap", "shop", "kube-root-ca.crt"),
                Some(Inert::MadeByTheHub),
            ),
            (
                object("v1", "Service", "default", "kubernetes"),
                Some(Inert::MadeByTheHub),
            ),
            (object("v1", "Service", "shop", "kubernetes"), None),
            (
                object("v1", "ConfigMap", "kube-system", "x"),
                Some(Inert::ReservedNamespace),
            ),
            (
                object("work.karmada.io/v1alpha1", "Work", "karmada-es-m1", "x"),
                Some(Inert::SteersTheHub),
            ),
            (
                object("v1", "ConfigMap", "karmada-es-m1", "x"),
                Some(Inert::ReservedNamespace),
            ),
            (object("v1", "Event", "shop", "x"), Some(Inert::SteersTheHub)),
            (
                object("v1", "Namespace", "", "kube-public"),
                Some(Inert::ReservedNamespace),
            ),
        ] {
            assert_eq!(template.inert(), inert, "{}", template.key);
        }
        let claimed = template(json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "x", "namespace": "shop", "labels": {"resourcetemplate.karmada.io/claimed-by": "mcs"}}}));
        assert_eq!(claimed.inert(), Some(Inert::ClaimedByLabel));
    }

    #[test]
    fn namespaces_for_all() {
        let namespace = |name: &str, labels: Value| {
            template(
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}),
            )
        };
        assert!(namespace("shop", json!({})).goes_everywhere(&[]));
        assert!(!namespace("shop", json!({})).goes_everywhere(&["shop".into()]));
        for name in ["default", "kube-app-prod", "karmada-system", "karmada-x"] {
            assert!(!namespace(name, json!({})).goes_everywhere(&[]), "{name}");
        }
        assert!(
            !namespace(
                "shop",
                json!({"namespace.karmada.io/skip-auto-propagation": "True"})
            )
            .goes_everywhere(&[])
        );
    }

    #[test]
    fn status_does_not_change_the_digest() {
        let one = template(
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "resourceVersion": "1"}}),
        );
        let two = template(
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "resourceVersion": "2"},
            "status": {"loadBalancer": {}}}),
        );
        assert_eq!(one.digest(), two.digest());
    }
}
