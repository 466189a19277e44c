//! Join tokens that are open: listed without their secrets, and taken back.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use hub_core::status_error::Reason;
use serde_json::Value;

use super::wire::{OpenToken, OpenTokens};
use super::{Answer, Fleet, Refused, done};
use crate::clock;

pub(super) async fn list(State(fleet): State<Arc<Fleet>>) -> Answer<Json<OpenTokens>> {
    let now = clock::wall();
    let tokens = fleet.store.open_tokens(now);
    let tokens = tokens.map_err(|error| Refused::new(Reason::InternalError, error))?;
    let items = tokens.into_iter().map(|token| OpenToken {
        id: token.id,
        cluster: token.cluster.to_string(),
        age_seconds: token.created.map(|created| (now.0 - created.0).max(0)),
        expires_in_seconds: token.expires.0 - now.0,
        used: token.used,
    });
    Ok(Json(OpenTokens {
        items: items.collect(),
    }))
}

pub(super) async fn revoke(State(fleet): State<Arc<Fleet>>, Path(id): Path<String>) -> Answer<Json<Value>> {
    match fleet.store.revoke_token(&id).await {
        Ok(Some(cluster)) => Ok(done(format!(
            "token {id} for cluster {cluster} is revoked; nobody joins with it any more. Who did stays: `pinnace cluster \
             revoke {cluster}` would end that"
        ))),
        Ok(None) => Err(Refused::new(
            Reason::NotFound,
            format!("no token has the id {id}; `pinnace token list` names those that are open"),
        )),
        Err(error) => Err(Refused::new(Reason::InternalError, error)),
    }
}
