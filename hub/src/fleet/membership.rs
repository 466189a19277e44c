//! Who is in the fleet under a name: revoke, replace, remove; and what letting the hub win would delete.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use hub_core::status_error::Reason;
use serde_json::Value;
use shared::ids::ClusterName;
use shared::set::DeleteMode;

use super::wire::{ClusterAction, ReconcilePreview};
use super::{Answer, Body, Fleet, Refused, cluster_name, done, known};
use crate::store::fleet::{Before, PushRefusal};
use crate::store::{CommitError, Expect, Op, ResourceId};

fn internal(error: impl std::fmt::Display) -> Refused {
    Refused::new(Reason::InternalError, error)
}

/// The cluster of a request whose body says nothing more.
fn named(name: &str, body: Body<ClusterAction>, verb: &str) -> Answer<ClusterName> {
    let Json(action) = body?;
    if action.mode.is_some() {
        return Err(Refused::new(Reason::BadRequest, format!("{verb} takes no mode")));
    }
    cluster_name(name)
}

/// What joining under this name needs first; none: a token is enough.
pub(super) fn hindrance(fleet: &Fleet, cluster: &ClusterName) -> Answer<Option<String>> {
    let enrolment = fleet.store.enrolment(cluster).map_err(internal)?;
    Ok(enrolment.filter(|enrolment| !enrolment.open).map(|enrolment| {
        let state = if enrolment.revoked { "revoked" } else { "enrolled" };
        format!("{cluster} is {state}; joining needs `pinnace cluster replace {cluster}` first")
    }))
}

pub(super) async fn revoke(
    State(fleet): State<Arc<Fleet>>,
    Path(name): Path<String>,
    body: Body<ClusterAction>,
) -> Answer<Json<Value>> {
    let cluster = named(&name, body, "revoke")?;
    known(&fleet.store, &cluster)?;
    match fleet.store.revoke(&cluster).await {
        Ok(true) => Ok(done(format!(
            "cluster {cluster} is revoked; its workloads stay as they are. `pinnace cluster replace {cluster}` lets \
             another agent take its place, `pinnace cluster remove {cluster}` takes it off the hub"
        ))),
        Ok(false) => Ok(done(format!("cluster {cluster} was revoked before"))),
        Err(error) => Err(internal(error)),
    }
}

pub(super) async fn replace(
    State(fleet): State<Arc<Fleet>>,
    Path(name): Path<String>,
    body: Body<ClusterAction>,
) -> Answer<Json<Value>> {
    let cluster = named(&name, body, "replace")?;
    known(&fleet.store, &cluster)?;
    let works = fleet.store.targets_on(&cluster).map_err(internal)?.len();
    let happened = match fleet.store.replace(&cluster).await.map_err(internal)? {
        Some(Before::Live) => "its agent is not listened to any more",
        Some(Before::Revoked) => "it was revoked",
        Some(Before::Open) => "it waits already",
        None => {
            let message = format!("no cluster {cluster} has joined this hub");
            return Err(Refused::new(Reason::NotFound, message));
        }
    };
    Ok(done(format!(
        "cluster {cluster} waits for its successor ({happened}): whoever joins with the next token of this name gets \
         the {works} objects that the hub wants there; nothing in the member was touched. Stop the old agent, then \
         `pinnace token create {cluster}`"
    )))
}

pub(super) async fn remove(
    State(fleet): State<Arc<Fleet>>,
    Path(name): Path<String>,
    body: Body<ClusterAction>,
) -> Answer<Json<Value>> {
    let cluster = named(&name, body, "remove")?;
    known(&fleet.store, &cluster)?;
    let enrolment = fleet.store.enrolment(&cluster).map_err(internal)?;
    if enrolment.is_some_and(|enrolment| !enrolment.revoked) {
        let refusal = crate::store::fleet::RemoveRefusal::Live(cluster);
        return Err(Refused::new(Reason::Conflict, refusal));
    }
    // The object first: without it nothing is planned there any more, and the rest can be asked for again.
    let op = Op::Delete {
        resource: ResourceId::new("cluster.karmada.io", "clusters"),
        namespace: String::new(),
        name: cluster.to_string(),
        expect: Expect::Any,
    };
    match fleet.store.commit(vec![op]).await {
        Ok(_) | Err(CommitError::NotFound { .. }) => {}
        Err(error) => return Err(internal(error)),
    }
    match fleet.store.remove_enrolment(&cluster).await.map_err(internal)? {
        Ok(_) => Ok(done(format!(
            "cluster {cluster} is off the hub and its name is free; nothing in the member was touched: what was sent \
             there runs on and is nobody's now"
        ))),
        Err(refusal) => Err(Refused::new(Reason::Conflict, refusal)),
    }
}

/// What letting the hub win would take out of a cluster, as far as its agent said what it holds.
pub(super) async fn preview(
    State(fleet): State<Arc<Fleet>>,
    Path(name): Path<String>,
) -> Answer<Json<ReconcilePreview>> {
    let cluster = cluster_name(&name)?;
    known(&fleet.store, &cluster)?;
    let conflict = |refusal: PushRefusal| Refused::new(Reason::Conflict, refusal);
    let Some(held) = fleet.store.held(&cluster).map_err(internal)? else {
        return Err(conflict(PushRefusal::NotBehind(cluster)));
    };
    let Some(set) = held.set else {
        return Err(conflict(PushRefusal::NotFetched(cluster)));
    };
    let ours = fleet.store.current_set(&cluster).map_err(internal)?;
    let mut preview = ReconcilePreview::default();
    for entry in set.entries() {
        if ours
            .as_ref()
            .is_some_and(|ours| ours.set.entry(&entry.key).is_some())
        {
            continue;
        }
        match entry.delete_mode {
            DeleteMode::Delete => preview.deleted.push(entry.key.to_string()),
            DeleteMode::Release => preview.released.push(entry.key.to_string()),
        }
    }
    Ok(Json(preview))
}
