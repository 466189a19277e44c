//! Federated quotas: what a binding uses, what a namespace uses, and whether a change still fits.
//!
//! Source: the reference's FederatedResourceQuota. A binding is charged for what it is assigned: the request of one
//! replica times the replicas over all clusters, or one set of its components per cluster. Two rules are ours: a change
//! that uses less of a resource is never refused, also not while the quota is overdrawn; and `requests.cpu` is the same
//! as `cpu`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use shared::ids::{Digest, ObjectKey};
use shared::object::{Quantity, canonical};
use shared::set::{ConflictResolution, DeleteMode, Entry};

use crate::estimate::{Resources, resources};
use crate::naming;

/// The resource that a key of a quota counts; `None`: the hub does not count it (limits, numbers of objects).
pub fn counted(key: &str) -> Option<&str> {
    let name = key.strip_prefix("requests.").unwrap_or(key);
    let is_counted = matches!(name, "cpu" | "memory" | "ephemeral-storage")
        || name.starts_with("hugepages-")
        || (name.contains('/') && !name.starts_with("count/"));
    is_counted.then_some(name)
}

/// What a binding (JSON) is charged for: nothing before it is scheduled.
pub fn usage(binding: &Value) -> Resources {
    let spec = &binding["spec"];
    let clusters = || spec["clusters"].as_array().into_iter().flatten();
    let components = spec["components"]
        .as_array()
        .filter(|components| !components.is_empty());
    let mut used = Resources::new();
    let mut charge = |request: &Value, times: i64| {
        for (name, quantity) in resources(request) {
            let slot = used.entry(name).or_default();
            *slot = slot.plus(quantity.times(times));
        }
    };
    match components {
        Some(components) => {
            let sets = i64::try_from(clusters().count()).unwrap_or(i64::MAX);
            for component in components {
                let replicas = component["replicas"].as_i64().unwrap_or(0);
                charge(
                    &component["replicaRequirements"]["resourceRequest"],
                    replicas.saturating_mul(sets),
                );
            }
        }
        None => {
            let replicas = clusters()
                .filter_map(|cluster| cluster["replicas"].as_i64())
                .sum();
            charge(&spec["replicaRequirements"]["resourceRequest"], replicas);
        }
    }
    used.retain(|_, quantity| !quantity.is_zero());
    used
}

/// Adds one usage to another.
pub fn add(to: &mut Resources, usage: &Resources) {
    for (name, quantity) in usage {
        let slot = to.entry(name.clone()).or_default();
        *slot = slot.plus(*quantity);
    }
}

/// A quota of one namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What may be used in all clusters together, by the key as the user wrote it.
    pub overall: Resources,
}

impl Quota {
    /// Reads a FederatedResourceQuota.
    pub fn read(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self {
            namespace: text(&object["metadata"]["namespace"]),
            name: text(&object["metadata"]["name"]),
            overall: resources(&object["spec"]["overall"]),
        }
    }

    /// Is there room for a binding that used `before` and wants `after`, where `used` is all that is used now, `before`
    /// included? The first resource that has none is told.
    ///
    /// # Errors
    /// Which resource of which quota would be exceeded.
    pub fn admit(&self, used: &Resources, before: &Resources, after: &Resources) -> Result<(), Exceeded> {
        for (key, limit) in &self.overall {
            let Some(name) = counted(key) else { continue };
            let of = |resources: &Resources| resources.get(name).copied().unwrap_or_default();
            if of(after) <= of(before) {
                continue;
            }
            let wanted = of(used).minus(of(before)).plus(of(after));
            if wanted > *limit {
                return Err(Exceeded {
                    quota: format!("{}/{}", self.namespace, self.name),
                    resource: key.clone(),
                    limit: text(name, *limit),
                    used: text(name, of(used)),
                    wanted: text(name, of(after).minus(of(before))),
                });
            }
        }
        Ok(())
    }

    /// `status.overallUsed`: what of the quota is used, by its own keys.
    pub fn overall_used(&self, used: &Resources) -> Value {
        let mut shown = Map::new();
        for key in self.overall.keys() {
            if let Some(name) = counted(key) {
                let quantity = used.get(name).copied().unwrap_or_default();
                shown.insert(key.clone(), Value::String(text(name, quantity)));
            }
        }
        Value::Object(shown)
    }
}

/// A quota that a change would exceed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "exceeded quota {quota}: {resource} allows {limit}, {used} is used and {wanted} more is asked for; raise the quota or lower what uses it"
)]
pub struct Exceeded {
    /// Namespace and name of the quota.
    pub quota: String,
    /// The key of the quota.
    pub resource: String,
    /// What it allows.
    pub limit: String,
    /// What is used.
    pub used: String,
    /// What is asked for on top.
    pub wanted: String,
}

/// A quantity as people write it for that resource: CPU in thousandths where needed, bytes in binary units.
pub fn text(name: &str, quantity: Quantity) -> String {
    if name == "cpu" {
        let millis = quantity.millis_ceil();
        return if millis % 1000 == 0 {
            (millis / 1000).to_string()
        } else {
            format!("{millis}m")
        };
    }
    let units = quantity.units_ceil();
    let bytes = matches!(name, "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    if bytes && units != 0 {
        for (power, suffix) in [(40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")] {
            if units % (1_i64 << power) == 0 {
                return format!("{}{suffix}", units >> power);
            }
        }
    }
    units.to_string()
}

/// The ResourceQuota that a static assignment gives a cluster: its entry in the set, and its content.
pub fn assignment(quota: &Value, hard: &Value) -> (Entry, Arc<[u8]>) {
    let metadata = &quota["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
    let object = json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"hard": hard},
    });
    let content = canonical(&object);
    let label = |end: &str| format!("federatedresourcequota.karmada.io/{end}");
    let entry = Entry {
        key: ObjectKey::new("", "ResourceQuota", &namespace, &name),
        digest: Digest::of(&content),
        length: u32::try_from(content.len()).expect("a list of quantities was in a request body"),
        work: naming::work_name("ResourceQuota", &name, &namespace),
        template_uid: text(&metadata["uid"]),
        template_generation: metadata["generation"].as_u64().unwrap_or(0),
        conflict_resolution: ConflictResolution::Abort,
        suspended: false,
        delete_mode: DeleteMode::Delete,
        retain_replicas: false,
        dependencies: Vec::new(),
        labels: BTreeMap::from([(label("namespace"), namespace), (label("name"), name)]),
    };
    (entry, content.into())
}

/// What the bindings of each namespace use, kept while planning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    bindings: BTreeMap<(String, String), Resources>,
    sums: BTreeMap<String, Resources>,
}

impl Ledger {
    /// Notes what a stored binding uses now; `None`: it is gone. Answers whether something became free.
    pub fn note(&mut self, namespace: &str, name: &str, binding: Option<&Value>) -> bool {
        let at = (namespace.to_owned(), name.to_owned());
        let after = binding.map(usage).unwrap_or_default();
        let before = if after.is_empty() {
            self.bindings.remove(&at)
        } else {
            self.bindings.insert(at, after.clone())
        }
        .unwrap_or_default();
        if before == after {
            return false;
        }
        let sum = self.sums.entry(namespace.to_owned()).or_default();
        for (name, quantity) in &before {
            let slot = sum.entry(name.clone()).or_default();
            *slot = slot.minus(*quantity);
        }
        add(sum, &after);
        sum.retain(|_, quantity| !quantity.is_zero());
        before
            .iter()
            .any(|(name, was)| after.get(name).copied().unwrap_or_default() < *was)
    }

    /// What all bindings of a namespace use.
    pub fn used(&self, namespace: &str) -> Resources {
        self.sums.get(namespace).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(cpu: &str, clusters: Value) -> Value {
        json!({"spec": {"replicaRequirements": {"resourceRequest": {"cpu": cpu}}, "clusters": clusters}})
    }

    fn quota(overall: Value) -> Quota {
        Quota::read(&json!({"metadata": {"namespace": "shop", "name": "q"}, "spec": {"overall": overall}}))
    }

    /// Turns red when `usage` leaves out the replicas or the clusters.
    #[test]
    fn field_report_169_use_is_clusters_times_replicas_times_request() {
        let used = usage(&binding(
            "500m",
            json!([{"name": "a", "replicas": 3}, {"name": "b", "replicas": 2}]),
        ));
        assert_eq!(text("cpu", used["cpu"]), "2500m");
        assert!(
            usage(&binding("1", json!([]))).is_empty(),
            "unscheduled is not charged"
        );
        let set = json!({"spec": {"clusters": [{"name": "a"}, {"name": "b"}], "components": [
            {"name": "head", "replicas": 1, "replicaRequirements": {"resourceRequest": {"memory": "1Gi"}}},
            {"name": "worker", "replicas": 3, "replicaRequirements": {"resourceRequest": {"memory": "1Gi"}}}]}});
        assert_eq!(text("memory", usage(&set)["memory"]), "8Gi");
    }

    /// Turns red when `counted` knows only the plain names.
    #[test]
    fn field_report_167_requests_keys_are_enforced_like_plain_ones() {
        let one = resources(&json!({"cpu": "1"}));
        let two = resources(&json!({"cpu": "2"}));
        for key in ["cpu", "requests.cpu"] {
            let quota = quota(json!({key: "1"}));
            assert_eq!(quota.admit(&Resources::new(), &Resources::new(), &one), Ok(()));
            let refused = quota
                .admit(&Resources::new(), &Resources::new(), &two)
                .unwrap_err();
            assert_eq!(refused.resource, key);
        }
        assert_eq!(counted("limits.memory"), None);
        assert_eq!(counted("count/deployments.apps"), None);
        assert_eq!(counted("requests.nvidia.com/gpu"), Some("nvidia.com/gpu"));
    }

    /// Turns red when `admit` compares the total alone: scaling down must always be possible.
    #[test]
    fn using_less_is_never_refused() {
        let quota = quota(json!({"cpu": "1"}));
        let r = |cpu: &str| resources(&json!({"cpu": cpu}));
        assert_eq!(quota.admit(&r("9"), &r("4"), &r("3")), Ok(()));
        assert_eq!(quota.admit(&r("9"), &r("4"), &r("4")), Ok(()));
        assert!(quota.admit(&r("9"), &r("4"), &r("5")).is_err());
    }

    #[test]
    fn the_ledger_keeps_sums() {
        let mut ledger = Ledger::default();
        let two = binding("1", json!([{"name": "a", "replicas": 2}]));
        let five = binding("1", json!([{"name": "a", "replicas": 5}]));
        assert!(!ledger.note("shop", "x", Some(&five)));
        assert!(!ledger.note("shop", "y", Some(&two)));
        assert!(!ledger.note("other", "y", Some(&two)));
        assert_eq!(text("cpu", ledger.used("shop")["cpu"]), "7");
        assert!(ledger.note("shop", "x", Some(&two)), "three became free");
        assert!(ledger.note("shop", "y", None));
        assert_eq!(text("cpu", ledger.used("shop")["cpu"]), "2");
        assert!(ledger.note("shop", "x", None));
        assert!(ledger.used("shop").is_empty());
    }

    #[test]
    fn what_is_used_is_shown_under_the_quotas_own_keys() {
        let quota = quota(json!({"requests.cpu": "4", "memory": "1Gi", "pods": "3"}));
        let used = resources(&json!({"cpu": "1500m", "nvidia.com/gpu": "1"}));
        assert_eq!(
            quota.overall_used(&used),
            json!({"requests.cpu": "1500m", "memory": "0"})
        );
    }
}
