//! What writing roles and bindings takes, and ClusterRoles that gather the rules of others.

use super::super::source::Served;
use super::super::write::Write;
use super::super::{Api, limits};
use super::Access;
use crate::store::{CommitError, Expect, Op, ResourceId};
use hub_core::access::{RBAC_GROUP, Rule, User, escalation};
use hub_core::status_error::StatusError;
use serde_json::{Value, json};

impl Access {
    /// Refuses a role or binding that gives more than its writer has.
    ///
    /// # Errors
    /// 403 with what is missing.
    pub(in crate::api) fn check_escalation(
        &self,
        served: &Served,
        user: &User,
        namespace: &str,
        old: Option<&Value>,
        new: &Value,
    ) -> Result<(), StatusError> {
        let resource = &*served.resource;
        if &*resource.group != RBAC_GROUP {
            return Ok(());
        }
        let name = hub_core::admission::name_of(new);
        match escalation::check(&self.rbac().1, user, &resource.plural, namespace, old, new) {
            None => Ok(()),
            Some(why) => Err(StatusError::forbidden(
                &resource.group,
                &resource.plural,
                name,
                why,
            )),
        }
    }
}

impl Api {
    /// What a create takes beyond the permission to create, and what the hub writes into the object about its maker.
    ///
    /// # Errors
    /// 403 for who gives more than they have, 422 for a signing request that is none.
    pub(in crate::api) fn admit_access(
        &self,
        write: &Write<'_>,
        object: &mut Value,
    ) -> Result<(), StatusError> {
        self.admit_request(write.served, write.user, object)?;
        self.access
            .check_escalation(write.served, write.user, write.namespace, None, object)
    }

    /// Writes the gathered rules into the ClusterRoles that aggregate, where they differ.
    pub(in crate::api) async fn aggregate_roles(&self) -> Result<(), CommitError> {
        let id = ResourceId::new(RBAC_GROUP, "clusterroles");
        let mut ops = Vec::new();
        {
            let rbac = self.access.rbac();
            for (name, rules) in rbac.1.aggregated() {
                let Some(stored) = self.store.get(&id, "", name) else {
                    continue;
                };
                let mut object = stored.value();
                if Rule::read_all(&object) == rules || ops.len() >= limits::REMOVALS {
                    continue;
                }
                object["rules"] = json!(rules.iter().map(Rule::to_value).collect::<Vec<_>>());
                ops.push(Op::Put {
                    resource: id.clone(),
                    namespace: String::new(),
                    name: name.to_owned(),
                    expect: Expect::Revision(stored.revision),
                    object,
                });
            }
        }
        if ops.is_empty() {
            return Ok(());
        }
        match self.store.commit(ops).await {
            // The next look has the newer state.
            Ok(_) | Err(CommitError::Conflict { .. } | CommitError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
