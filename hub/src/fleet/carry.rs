//! Sets and receipts in files, for clusters without a link.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hub_core::status_error::Reason;
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::Value;
use shared::bundle::Descriptor;
use shared::set::Head;
use shared::wire::{Export, decode_carried, encode_export};

use super::wire::Parcel;
use super::{Answer, Body, Fleet, Refused, cluster_name, done, known};
use crate::clock;

fn refused(reason: Reason, message: impl std::fmt::Display) -> Refused {
    Refused::new(reason, message)
}

fn internal(error: impl std::fmt::Display) -> Refused {
    refused(Reason::InternalError, error)
}

/// The newest set of a cluster as a file. It counts as published from now on: what is in it leaves tombstones.
pub(super) async fn export(
    State(fleet): State<Arc<Fleet>>,
    Path(name): Path<String>,
) -> Answer<Json<Parcel>> {
    let cluster = cluster_name(&name)?;
    known(&fleet.store, &cluster)?;
    let store = &fleet.store;
    let enrolment = store.enrolment(&cluster).map_err(internal)?;
    let Some(enrolment) = enrolment.filter(|e| !e.revoked) else {
        return Err(refused(Reason::Conflict, format!("cluster {cluster} is revoked")));
    };
    if store.held(&cluster).map_err(internal)?.is_some() {
        let why = format!("the hub is behind cluster {cluster} (HubBehind): reconcile it first");
        return Err(refused(Reason::Conflict, why));
    }
    let Some(current) = store.current_set(&cluster).map_err(internal)? else {
        return Err(refused(
            Reason::NotFound,
            format!("cluster {cluster} has no set yet"),
        ));
    };
    let mut contents = Vec::new();
    let digests: BTreeSet<_> = current.set.entries().iter().map(|e| e.digest).collect();
    for digest in digests {
        let bytes = store.content(&digest).map_err(internal)?;
        let bytes = bytes.ok_or_else(|| internal(format!("content {digest} is not in the store")))?;
        let signed = Descriptor::sign(&bytes, &fleet.keys).map_err(internal)?;
        contents.push((signed, bytes.to_vec()));
    }
    let head = Head {
        fleet: fleet.keys.fleet(),
        cluster: cluster.clone(),
        incarnation: current.incarnation,
        sequence: current.sequence,
        digest: current.digest,
        key_number: fleet.keys.number(),
    };
    let export = Export {
        head: head.sign(&fleet.keys),
        statements: fleet.keys.ring().statements().cloned().collect(),
        set: current.set,
        contents,
    };
    let mut nonce = [0; 12];
    SystemRandom::new()
        .fill(&mut nonce)
        .map_err(|_| internal("no randomness from the system"))?;
    let key = store.sealing_key(&cluster, enrolment.incarnation);
    let file = encode_export(&export, &key, nonce)
        .map_err(|e| refused(Reason::RequestEntityTooLarge, format!("{}: {e}", e.reason())))?;
    if !store
        .mark_published(&cluster, current.sequence)
        .await
        .map_err(internal)?
    {
        return Err(refused(Reason::Conflict, "the set changed meanwhile; try again"));
    }
    Ok(Json(Parcel {
        message: format!("set {} of cluster {cluster}", current.sequence),
        file: STANDARD.encode(file),
    }))
}

/// The receipt of a cluster's agent, as it came back.
pub(super) async fn receipt(
    State(fleet): State<Arc<Fleet>>,
    Path(name): Path<String>,
    body: Body<Parcel>,
) -> Answer<Json<Value>> {
    let Json(parcel) = body?;
    let cluster = cluster_name(&name)?;
    known(&fleet.store, &cluster)?;
    let enrolment = fleet.store.enrolment(&cluster).map_err(internal)?;
    let Some(enrolment) = enrolment else {
        return Err(refused(
            Reason::NotFound,
            format!("no cluster {cluster} has joined this hub"),
        ));
    };
    let bytes = STANDARD
        .decode(&parcel.file)
        .map_err(|e| refused(Reason::BadRequest, format!("the file is no base64: {e}")))?;
    let carried = decode_carried(&bytes, &cluster, enrolment.incarnation, &enrolment.identity)
        .map_err(|e| refused(Reason::Invalid, format!("{}: {e}", e.reason())))?;
    let (sequence, objects) = (carried.sequence, carried.objects.len());
    match fleet
        .store
        .take_carried(carried, clock::wall())
        .await
        .map_err(internal)?
    {
        Ok(()) => Ok(done(format!(
            "cluster {cluster} has set {sequence}; {objects} objects are reported"
        ))),
        Err(why) => Err(refused(Reason::Conflict, why)),
    }
}
