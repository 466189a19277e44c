//! What a write must respect beyond the object itself: policies, namespaces, views, and how refusals of the store are
//! told.

use super::Api;
use super::source::{self, Served};
use super::write::Write;
use crate::clock;
use crate::store::{CommitError, Object, ResourceId, Revision, StoreError};
use crate::views;
use hub_core::access::RBAC_GROUP;
use hub_core::admission;
use hub_core::guard::{self, Wish};
use hub_core::naming;
use hub_core::policy::{self, Operation, Refused, Stored};
use hub_core::status_error::{Cause, Details, Reason, StatusError};
use serde_json::Value;
use std::sync::Arc;

/// A refusal of the store as the client sees it.
pub(super) fn refusal(served: &Served, error: CommitError) -> StatusError {
    let (group, plural) = (&*served.resource.group, &*served.resource.plural);
    match error {
        CommitError::AlreadyExists { name, .. } => StatusError::already_exists(group, plural, &name),
        CommitError::NotFound { name, .. } => StatusError::not_found(group, plural, &name),
        CommitError::Conflict { name, .. } => StatusError::stale(group, plural, &name),
        error @ CommitError::TooLarge { .. } => {
            StatusError::new(Reason::RequestEntityTooLarge, error.to_string())
        }
        error @ CommitError::Malformed { .. } => StatusError::bad_request(error.to_string()),
        CommitError::Store(error @ (StoreError::ReadOnly { .. } | StoreError::Closed)) => {
            let mut refusal = StatusError::new(Reason::ServiceUnavailable, error.to_string());
            refusal.details = Some(Box::new(Details {
                retry_after_seconds: 5,
                ..Details::default()
            }));
            refusal
        }
        error => StatusError::internal(error),
    }
}

/// Things that are stored and do not act yet; who writes them should know.
pub(super) fn notices(served: &Served) -> Option<String> {
    let text = match (&*served.resource.group, &*served.resource.plural) {
        (
            "admissionregistration.k8s.io",
            "validatingwebhookconfigurations" | "mutatingwebhookconfigurations",
        ) => "this hub stores webhook configuration as a template and calls no webhook",
        _ => return None,
    };
    Some(text.to_owned())
}

/// Whether the client has seen what is stored.
pub(super) fn is_current(served: &Served, stored: &Object, given: &str) -> bool {
    given
        .parse()
        .is_ok_and(|read_at| views::is_current(&served.id, stored, Revision(read_at)))
}

/// Kinds of the reference whose rules look at what is stored already.
const LOOKED_AT: [(&str, &str, &str); 3] = [
    ("Cluster", "cluster.karmada.io", "clusters"),
    (
        "FederatedResourceQuota",
        "policy.karmada.io",
        "federatedresourcequotas",
    ),
    (
        "ResourceInterpreterCustomization",
        "config.karmada.io",
        "resourceinterpretercustomizations",
    ),
];

impl Stored for Api {
    fn list(&self, kind: &str, namespace: &str) -> Vec<Value> {
        let Some((_, group, plural)) = LOOKED_AT.iter().find(|(known, _, _)| *known == kind) else {
            return Vec::new();
        };
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
        let listing = self.store.list(&ResourceId::new(group, plural), namespace);
        listing.items.iter().map(|object| object.value()).collect()
    }
}

impl Api {
    /// Defaults and rules of the reference's kinds.
    pub(super) fn admit_policy(
        &self,
        write: &Write<'_>,
        operation: Operation,
        object: Value,
        old: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<Value, StatusError> {
        let resource = &*write.served.resource;
        let name = admission::name_of(&object).to_owned();
        let is_namespace = resource.group.is_empty() && &*resource.kind == "Namespace";
        if is_namespace && operation == Operation::Create && naming::stays_on_the_hub(&name) {
            warnings.push(format!(
                "namespace {name} is sent to no cluster: names that begin with kube- or karmada- stay on the hub"
            ));
        }
        if !policy::admits(&resource.group, &resource.kind) {
            return Ok(object);
        }
        let request = policy::Request {
            kind: &resource.kind,
            operation,
            namespace: write.namespace,
            old,
            switches: self.switches.get().copied().unwrap_or_default(),
            stored: self,
            now: clock::wall().0,
        };
        match policy::admit(&request, object, &mut || self.new_uid()) {
            Ok(admitted) => {
                warnings.extend(admitted.warnings);
                Ok(admitted.object)
            }
            Err(Refused::Quota(why)) => {
                let mut error = StatusError::forbidden(&resource.group, &resource.plural, &name, why.clone());
                if let Some(details) = &mut error.details {
                    details.causes.push(Cause {
                        reason: "QuotaExceeded",
                        message: why,
                        field: String::new(),
                    });
                }
                Err(error)
            }
            Err(Refused::Fields(errors)) => {
                let causes = errors.into_iter().map(|error| {
                    let text = error.to_string();
                    let message = text
                        .strip_prefix(&format!("{}: ", error.field))
                        .unwrap_or(&text)
                        .to_owned();
                    Cause {
                        reason: error.kind.reason(),
                        message,
                        field: error.field,
                    }
                });
                Err(StatusError::invalid(
                    &resource.group,
                    &resource.kind,
                    &name,
                    causes.collect(),
                ))
            }
        }
    }

    /// Wakes what follows a write of some kinds.
    pub(super) fn follow_up(&self, served: &Served) {
        if &*served.resource.group == RBAC_GROUP && &*served.resource.plural == "clusterroles" {
            self.poke();
        }
        if hub_core::crd::is_definition(&served.resource) {
            self.catalog.refresh(&self.store);
        }
    }

    /// The stored object behind what a client writes. A view without one is made by the hub and written by nobody.
    ///
    /// # Errors
    /// 404, or 403 for such a view.
    pub(super) fn stored(
        &self,
        served: &Served,
        wish: Wish,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<Object>, StatusError> {
        let resource = &*served.resource;
        if let Some(found) = self.store.get(&served.id, namespace, name) {
            return Ok(found);
        }
        match source::get(&self.store, served, namespace, name)? {
            None => Err(StatusError::not_found(&resource.group, &resource.plural, name)),
            Some(view) => {
                guard::check(resource, wish, Some(&view.value()), None)?;
                let why = "the hub shows it for a cluster; nobody writes it";
                Err(StatusError::forbidden(
                    &resource.group,
                    &resource.plural,
                    name,
                    why,
                ))
            }
        }
    }

    /// A stored object as clients read it.
    pub(super) fn shown(&self, served: &Served, stored: Arc<Object>) -> Result<Arc<Object>, StatusError> {
        if !views::is_view(&served.id) {
            return Ok(stored);
        }
        let view = source::get(&self.store, served, &stored.namespace, &stored.name)?;
        Ok(view.unwrap_or(stored))
    }

    /// A namespaced object needs its namespace, and one that is not ending.
    pub(super) fn check_namespace(
        &self,
        served: &Served,
        namespace: &str,
        name: &str,
    ) -> Result<(), StatusError> {
        self.check_definition(served)?;
        if !served.resource.namespaced {
            return Ok(());
        }
        let resource = &*served.resource;
        let Some(found) = self.store.get(&super::namespace_id(), "", namespace) else {
            return Err(StatusError::not_found("", "namespaces", namespace));
        };
        if !admission::is_deleting(&found.value()) {
            return Ok(());
        }
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut error = StatusError::forbidden(&resource.group, &resource.plural, name, why);
        if let Some(details) = &mut error.details {
            details.causes.push(Cause {
                reason: "NamespaceTerminating",
                message: format!("namespace {namespace} is being terminated"),
                field: "metadata.namespace".to_owned(),
            });
        }
        Err(error)
    }
}
