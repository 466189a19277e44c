//! What every cluster has from the start: bootstrap roles and bindings, the default ServiceAccount and the CA's
//! ConfigMap of each namespace, the Service of the API itself.

use super::super::source::Served;
use super::super::{Api, namespace_id};
use crate::clock;
use crate::store::{CommitError, Expect, Op, Revision};
use hub_core::access::RBAC_GROUP;
use hub_core::access::bootstrap::{self, Followed};
use hub_core::admission::{self, Target};
use serde_json::{Value, json};

/// The ServiceAccount of every namespace.
const ACCOUNT: &str = "default";
/// The ConfigMap with the API's CA of every namespace.
const ROOT_CA: &str = "kube-root-ca.crt";
/// The range of Services that kubeadm gives a cluster if nobody says another.
const SERVICE_RANGE: &str = "10.96.0.0/12";

impl Api {
    /// Makes bootstrap roles and bindings that are missing and brings old ones up to date.
    pub(in crate::api) async fn bootstrap_roles(&self) -> Result<(), CommitError> {
        for (plural, expected) in bootstrap::cluster_roles()
            .into_iter()
            .map(|r| ("clusterroles", r))
            .chain(
                bootstrap::cluster_role_bindings()
                    .into_iter()
                    .map(|b| ("clusterrolebindings", b)),
            )
        {
            let Some(served) = self.catalog.get(RBAC_GROUP, "v1", plural) else {
                continue;
            };
            let name = admission::name_of(&expected).to_owned();
            let mut ops = Vec::new();
            match self.store.get(&served.id, "", &name) {
                None => ops.extend(self.made(&served, "", expected)),
                Some(stored) => {
                    let (expect, old) = (Expect::Revision(stored.revision), stored.value());
                    match bootstrap::follow(&old, &expected) {
                        Followed::Kept => {}
                        Followed::Changed(object) => ops.push(Op::Put {
                            resource: served.id.clone(),
                            namespace: String::new(),
                            name,
                            expect,
                            object,
                        }),
                        Followed::Replaced => {
                            ops.extend(self.made(&served, "", expected).map(|op| with_expect(op, expect)));
                        }
                    }
                }
            }
            commit(self, ops).await?;
        }
        Ok(())
    }

    /// Makes what every namespace has, where it is missing.
    pub(in crate::api) async fn furnish_namespaces(&self) -> Result<(), CommitError> {
        for namespace in self.store.list(&namespace_id(), None).items {
            if self.is_furnished(&namespace.name) || admission::is_deleting(&namespace.value()) {
                continue;
            }
            let _open = self.gate.read().await;
            commit(self, self.furniture(&namespace.name)).await?;
        }
        Ok(())
    }

    fn is_furnished(&self, namespace: &str) -> bool {
        let has = |plural: &str, name: &str| {
            let id = crate::store::ResourceId::new("", plural);
            self.store.get(&id, namespace, name).is_some()
        };
        has("serviceaccounts", ACCOUNT) && has("configmaps", ROOT_CA)
    }

    /// Puts the CA of a namespace right where somebody changed it after `since`, for programs trust by it.
    pub(in crate::api) async fn mend_root_cas(&self, since: Revision) -> Result<(), CommitError> {
        let Some(served) = self.catalog.get("", "v1", "configmaps") else {
            return Ok(());
        };
        let data = json!({"ca.crt": self.access.authority().ca_pem()});
        for namespace in self.store.list(&namespace_id(), None).items {
            let stored = self.store.get(&served.id, &namespace.name, ROOT_CA);
            let Some(stored) = stored.filter(|ca| ca.revision > since) else {
                continue;
            };
            let mut object = stored.value();
            if object["data"] == data {
                continue;
            }
            object["data"] = data.clone();
            let mended = Op::Put {
                resource: served.id.clone(),
                namespace: namespace.name.clone(),
                name: ROOT_CA.to_owned(),
                expect: Expect::Revision(stored.revision),
                object,
            };
            commit(self, vec![mended]).await?;
        }
        Ok(())
    }

    /// A create with what comes with it: a namespace has its account and the CA from the start.
    pub(in crate::api) fn with_furniture(&self, op: Op) -> Vec<Op> {
        let furniture = match &op {
            Op::Put { resource, name, .. } if *resource == namespace_id() => self.furniture(name),
            _ => Vec::new(),
        };
        std::iter::once(op).chain(furniture).collect()
    }

    fn furniture(&self, namespace: &str) -> Vec<Op> {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}});
        let why = "Contains a CA bundle that can be used to verify the API of the hub.";
        let ca = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": ROOT_CA, "annotations": {"kubernetes.io/description": why}},
            "data": {"ca.crt": self.access.authority().ca_pem()}});
        let mut ops = Vec::new();
        for (plural, object) in [("serviceaccounts", account), ("configmaps", ca)] {
            let Some(served) = self.catalog.get("", "v1", plural) else {
                continue;
            };
            let name = admission::name_of(&object);
            if self.store.get(&served.id, namespace, name).is_none() {
                ops.extend(self.made(&served, namespace, object));
            }
        }
        ops
    }

    /// Makes the Service by which programs in a cluster find the API, and the range of addresses that a cluster gives to
    /// Services. The hub gives none itself.
    pub(in crate::api) async fn bootstrap_service(&self) -> Result<(), CommitError> {
        let labels = json!({"component": "apiserver", "provider": "kubernetes"});
        let service = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "kubernetes", "labels": labels},
            "spec": {"type": "ClusterIP", "sessionAffinity": "None",
                "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}]}});
        let range = json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
            "metadata": {"name": "kubernetes"}, "spec": {"cidrs": [SERVICE_RANGE]}});
        for (group, plural, namespace, object) in [
            ("", "services", "default", service),
            ("networking.k8s.io", "servicecidrs", "", range),
        ] {
            let Some(served) = self.catalog.get(group, "v1", plural) else {
                continue;
            };
            let name = admission::name_of(&object);
            if self.store.get(&served.id, namespace, name).is_none() {
                commit(self, self.made(&served, namespace, object).into_iter().collect()).await?;
            }
        }
        Ok(())
    }

    fn made(&self, served: &Served, namespace: &str, object: Value) -> Option<Op> {
        let target = Target {
            resource: &served.resource,
            namespace,
            now: clock::wall().0,
        };
        let made = admission::create(target, object, &self.new_uid(), &mut String::new);
        let object = made.ok()?;
        Some(Op::Put {
            resource: served.id.clone(),
            namespace: namespace.to_owned(),
            name: admission::name_of(&object).to_owned(),
            expect: Expect::Absent,
            object,
        })
    }
}

fn with_expect(op: Op, expect: Expect) -> Op {
    match op {
        Op::Put {
            resource,
            namespace,
            name,
            object,
            ..
        } => Op::Put {
            resource,
            namespace,
            name,
            expect,
            object,
        },
        delete @ Op::Delete { .. } => delete,
    }
}

/// Another writer may have been faster: what it made stays.
async fn commit(api: &Api, ops: Vec<Op>) -> Result<(), CommitError> {
    if ops.is_empty() {
        return Ok(());
    }
    match api.store.commit(ops).await {
        Ok(_)
        | Err(
            CommitError::AlreadyExists { .. } | CommitError::Conflict { .. } | CommitError::NotFound { .. },
        ) => Ok(()),
        Err(error) => Err(error),
    }
}
