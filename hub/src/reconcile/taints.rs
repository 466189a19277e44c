//! Taints that follow from conditions: those of ClusterTaintPolicy objects and, where an operator wants it
//! (`--taint-unreachable`), those of the condition Ready. Runs with the look at liveness; writes only what differs.

use std::collections::BTreeMap;

use hub_core::cluster::{Cluster, Taint};
use hub_core::failover::taint_rules::{self, TaintPolicy};
use hub_core::liveness::Ready;
use serde_json::{Value, json};

use super::Reconciler;
use super::metadata::fill_in;
use crate::clock;
use crate::store::fleet::ClusterRow;
use crate::store::{CommitError, Expect, Op, ResourceId, StoreError};

impl Reconciler {
    /// Brings the taints of all clusters in line, if something they follow from changed.
    pub(super) async fn taints_turn(&self) -> Result<(), StoreError> {
        if self.tainting.take().is_empty() {
            return Ok(());
        }
        let resource = ResourceId::new("policy.karmada.io", "clustertaintpolicies");
        let mut policies = Vec::new();
        for object in self.store.list(&resource, None).items {
            match TaintPolicy::read(&object.value()) {
                Ok(policy) => policies.push(policy),
                Err(error) => tracing::warn!(name = %object.name, %error, "a taint policy acts on nothing"),
            }
        }
        if policies.is_empty() && !self.settings.taint_unreachable {
            return Ok(());
        }
        let rows = self.store.all_facts()?;
        let rows: BTreeMap<&str, &ClusterRow> = rows.iter().map(|row| (row.cluster.as_str(), row)).collect();
        let clusters = ResourceId::new("cluster.karmada.io", "clusters");
        for stored in self.store.list(&clusters, None).items {
            let former = stored.value();
            let ready = rows.get(&*stored.name).and_then(|row| row.facts.ready.as_ref());
            let ready = ready.map(|ready| ready.status.as_str());
            let Some(object) = self.tainted(&former, ready, &policies) else {
                continue;
            };
            let mut object = object;
            fill_in(&mut object, Some(&former));
            let op = Op::Put {
                resource: clusters.clone(),
                namespace: String::new(),
                name: stored.name.clone(),
                expect: Expect::Revision(stored.revision),
                object,
            };
            match self.store.commit(vec![op]).await {
                Ok(_) | Err(CommitError::NotFound { .. }) => {}
                Err(CommitError::Store(error)) => return Err(error),
                // Somebody was faster; that change marks it again.
                Err(error) => tracing::debug!(cluster = %stored.name, %error, "taints are tried again"),
            }
        }
        Ok(())
    }

    /// The Cluster object with the taints it has to have; `None`: it has them.
    fn tainted(&self, object: &Value, ready: Option<&str>, policies: &[TaintPolicy]) -> Option<Value> {
        let mut cluster = Cluster::read(object);
        if cluster.deleting {
            return None;
        }
        let now = clock::wall();
        let before = cluster.taints.clone();
        if self.settings.taint_unreachable {
            let ready = ready.and_then(Ready::parse);
            cluster.taints = taint_rules::by_readiness(ready, &cluster.taints, now);
        }
        let mut conditions: BTreeMap<String, String> = BTreeMap::new();
        for condition in object["status"]["conditions"].as_array().into_iter().flatten() {
            if let (Some(name), Some(status)) = (condition["type"].as_str(), condition["status"].as_str()) {
                conditions.insert(name.to_owned(), status.to_owned());
            }
        }
        conditions.extend(ready.map(|ready| ("Ready".to_owned(), ready.to_owned())));
        let after = taint_rules::by_policies(&cluster, &conditions, policies, now);
        (after != before).then(|| with_taints(object, &after))
    }
}

/// The object with these taints; those it has already stay as they are written.
fn with_taints(object: &Value, taints: &[Taint]) -> Value {
    let former = object["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let row = |taint: &Taint| {
        let known = former
            .iter()
            .find(|known| known["key"] == taint.key && known["effect"] == taint.effect);
        known.cloned().unwrap_or_else(|| {
            let mut row = json!({"key": taint.key, "effect": taint.effect});
            if !taint.value.is_empty() {
                row["value"] = json!(taint.value);
            }
            if let Some(added) = taint.added {
                row["timeAdded"] = json!(added.rfc3339());
            }
            row
        })
    };
    let rows: Vec<Value> = taints.iter().map(row).collect();
    let mut object = object.clone();
    shared::object::set(&mut object, &["spec", "taints"], json!(rows));
    if rows.is_empty()
        && let Some(spec) = object["spec"].as_object_mut()
    {
        spec.remove("taints");
    }
    object
}
