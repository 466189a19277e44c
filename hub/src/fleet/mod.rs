//! The group `fleet.pinnace.dev/v1alpha1`: what the command line `pinnace` asks of the hub. The API has authorized
//! the caller before a request arrives here.

mod carry;
mod kinds;
mod membership;
mod tokens;
pub mod wire;

use std::sync::Arc;

use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::StatusCode;
use hub_core::breaker::Confirmed;
use hub_core::ship::Winner;
use hub_core::status_error::{Reason, StatusError};
use hub_core::types::TypeTable;
use ring::rand::SystemRandom;
use serde_json::{Value, json};
use shared::ids::{ClusterName, ObjectKey};
use shared::keys::{HubKeys, RootPin};
use shared::limits::CARRIED_BYTES_MAX;

use crate::clock;
use crate::courier::Courier;
use crate::enroll::{self, TokenError, TokenRequest};
use crate::metrics::CONTENT_TYPE;
use crate::reconcile::{ExplainError, Reconciler, explain, explain_gone, rendering};
use crate::store::Store;
use crate::store::fleet::Terms;
use kinds::Candidate;
use wire::{ClusterAction, JoinToken, JoinTokenStatus, ReconcileMode};

/// Bodies of this group are small.
const BODY_BYTES: usize = 64 * 1024;

/// A receipt in base64, with what is around it.
const RECEIPT_BYTES: usize = CARRIED_BYTES_MAX / 3 * 4 + BODY_BYTES;

/// What the routes work with.
#[derive(Debug)]
pub struct Fleet {
    /// The store.
    pub store: Store,
    /// For decisions about connected clusters.
    pub courier: Courier,
    /// For explanations.
    pub reconciler: Arc<Reconciler>,
    /// `HOST:PORT` in join lines.
    pub advertised: String,
    /// What agents pin.
    pub pin: RootPin,
    /// What sets in files are signed with.
    pub keys: Arc<HubKeys>,
}

/// The routes.
pub fn router(fleet: Fleet) -> Router {
    Router::new()
        .route(
            "/apis/fleet.pinnace.dev/v1alpha1/jointokens",
            get(tokens::list).post(create_token),
        )
        .route(
            "/apis/fleet.pinnace.dev/v1alpha1/jointokens/{id}/revoke",
            post(tokens::revoke),
        )
        .route(
            "/apis/fleet.pinnace.dev/v1alpha1/explanations/{kind}/{namespace}/{name}",
            get(explain_object),
        )
        .route(
            "/apis/fleet.pinnace.dev/v1alpha1/renderings/{kind}/{namespace}/{name}/{cluster}",
            get(render_object),
        )
        .route(
            "/apis/fleet.pinnace.dev/v1alpha1/clusters/{name}/reconcile",
            get(membership::preview).post(reconcile_cluster),
        )
        .route(
            "/apis/fleet.pinnace.dev/v1alpha1/clusters/{name}/revoke",
            post(membership::revoke),
        )
        .route(
            "/apis/fleet.pinnace.dev/v1alpha1/clusters/{name}/replace",
            post(membership::replace),
        )
        .route(
            "/apis/fleet.pinnace.dev/v1alpha1/clusters/{name}/remove",
            post(membership::remove),
        )
        .route(
            "/apis/fleet.pinnace.dev/v1alpha1/clusters/{name}/export",
            post(carry::export),
        )
        .route(
            "/apis/fleet.pinnace.dev/v1alpha1/clusters/{name}/receipt",
            post(carry::receipt).layer(DefaultBodyLimit::max(RECEIPT_BYTES)),
        )
        .route("/apis/fleet.pinnace.dev/v1alpha1/heldchanges", get(held_changes))
        .route(
            "/apis/fleet.pinnace.dev/v1alpha1/heldchanges/{id}/confirm",
            post(confirm_change),
        )
        .route("/metrics", get(metrics))
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .fallback(|| async { Refused(StatusError::no_such_path()) })
        .with_state(Arc::new(fleet))
}

/// A refusal as a Kubernetes `Status`.
struct Refused(StatusError);

impl Refused {
    fn new(reason: Reason, message: impl std::fmt::Display) -> Self {
        Self(StatusError::new(reason, message.to_string()))
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let code = StatusCode::from_u16(self.0.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (code, Json(self.0.to_value())).into_response()
    }
}

impl From<JsonRejection> for Refused {
    fn from(rejection: JsonRejection) -> Self {
        let reason = match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => Reason::RequestEntityTooLarge,
            StatusCode::UNSUPPORTED_MEDIA_TYPE => Reason::UnsupportedMediaType,
            _ => Reason::BadRequest,
        };
        Self::new(reason, rejection.body_text())
    }
}

type Answer<T> = Result<T, Refused>;
type Body<T> = Result<Json<T>, JsonRejection>;

async fn create_token(
    State(fleet): State<Arc<Fleet>>,
    body: Body<JoinToken>,
) -> Answer<(StatusCode, Json<JoinToken>)> {
    let Json(mut token) = body?;
    if token.kind != "JoinToken" || token.api_version != wire::API_VERSION {
        let expected = format!("the body is a JoinToken of {}", wire::API_VERSION);
        return Err(Refused::new(Reason::BadRequest, expected));
    }
    let spec = token.spec.clone();
    let cluster = cluster_name(&spec.cluster)?;
    let warning = membership::hindrance(&fleet, &cluster)?;
    let (labels, provider, region, zones) = (spec.labels, spec.provider, spec.region, spec.zones);
    let request = TokenRequest {
        cluster,
        terms: Terms {
            labels,
            provider,
            region,
            zones,
        },
        life_seconds: spec.ttl_seconds,
        hub: spec.hub.unwrap_or_else(|| fleet.advertised.clone()),
        root: fleet.pin,
    };
    let made = enroll::create_token(&fleet.store, &SystemRandom::new(), request, clock::wall()).await;
    let (line, expires) = made.map_err(|error| match error {
        TokenError::Store(_) | TokenError::NoRandomness => Refused::new(Reason::InternalError, error),
        _ => Refused::new(Reason::Invalid, error),
    })?;
    token.status = Some(JoinTokenStatus {
        join_line: line.to_string(),
        expires: expires.rfc3339(),
        warning,
    });
    Ok((StatusCode::CREATED, Json(token)))
}

async fn explain_object(
    State(fleet): State<Arc<Fleet>>,
    Path((kind, namespace, name)): Path<(String, String, String)>,
) -> Answer<Json<wire::Explanation>> {
    of_kind(&fleet.store, &kind, &namespace, |found, namespace| {
        let resource = &found.resource;
        let explained = match explain(&fleet.reconciler, resource, namespace, &name) {
            Err(absent @ ExplainError::NotFound { .. }) => {
                let key = ObjectKey::new(&resource.group, &found.kind, namespace, &name);
                let left = explain_gone(&fleet.reconciler, &key)?.ok_or(absent)?;
                return Ok(Json(left.into()));
            }
            explained => explained?,
        };
        Ok(Json(explained.into()))
    })
}

async fn render_object(
    State(fleet): State<Arc<Fleet>>,
    Path((kind, namespace, name, cluster)): Path<(String, String, String, String)>,
) -> Answer<Json<wire::Rendering>> {
    let cluster = cluster_name(&cluster)?;
    known(&fleet.store, &cluster)?;
    of_kind(&fleet.store, &kind, &namespace, |found, namespace| {
        rendering(&fleet.reconciler, &found.resource, namespace, &name, &cluster).map(Json)
    })
}

async fn metrics(State(fleet): State<Arc<Fleet>>) -> Answer<Response> {
    let told = fleet.reconciler.metrics().text(&fleet.store);
    let text = told.map_err(|error| Refused::new(Reason::InternalError, error))?;
    Ok(([(http::header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response())
}

/// Answers about an object whose kind a person named; several kinds may have that name.
fn of_kind<T>(
    store: &Store,
    kind: &str,
    namespace: &str,
    answer: impl Fn(&Candidate, &str) -> Result<T, ExplainError>,
) -> Answer<T> {
    let table = TypeTable::built_in();
    let candidates = kinds::find(table, store, kind);
    if candidates.is_empty() {
        let message = format!("the hub has no kind {kind:?} (say Deployment, deployments.apps or deploy)");
        return Err(Refused::new(Reason::NotFound, message));
    }
    let mut absent = None;
    for candidate in candidates {
        let place = if candidate.namespaced { namespace } else { "" };
        match answer(&candidate, place) {
            Ok(answer) => return Ok(answer),
            Err(error @ ExplainError::NotFound { .. }) => absent = absent.or(Some(error)),
            Err(error) => return Err(Refused::new(Reason::InternalError, error)),
        }
    }
    let message = absent.map_or_else(String::new, |error| error.to_string());
    Err(Refused::new(Reason::NotFound, message))
}

async fn reconcile_cluster(
    State(fleet): State<Arc<Fleet>>,
    Path(name): Path<String>,
    body: Body<ClusterAction>,
) -> Answer<Json<Value>> {
    let Json(action) = body?;
    let cluster = cluster_name(&name)?;
    let winner = match action.mode {
        Some(ReconcileMode::PushHub) => Winner::Hub,
        Some(ReconcileMode::KeepMember) => Winner::Member,
        None => {
            let how = "say how: mode PushHub lets the hub win, KeepMember orders nothing away";
            return Err(Refused::new(Reason::BadRequest, how));
        }
    };
    known(&fleet.store, &cluster)?;
    match fleet.courier.push_hub(&cluster, winner).await {
        Ok(sequence) => Ok(done(match winner {
            Winner::Hub => format!("the hub wins; set {sequence} goes to cluster {cluster}"),
            Winner::Member => {
                format!("the member keeps what it has; set {sequence} goes to cluster {cluster}")
            }
        })),
        Err(why) => Err(Refused::new(Reason::Conflict, why)),
    }
}

/// What waits because it would delete too much.
async fn held_changes(State(fleet): State<Arc<Fleet>>) -> Json<wire::HeldChanges> {
    let items = fleet.reconciler.held().into_iter().map(|held| wire::HeldChange {
        id: held.id,
        age_seconds: held.age_seconds,
        count: held.count,
        losses: held.losses.into_iter().take(wire::LOSSES_SHOWN).collect(),
        refused: held.refused,
    });
    Json(wire::HeldChanges {
        items: items.collect(),
    })
}

async fn confirm_change(State(fleet): State<Arc<Fleet>>, Path(id): Path<String>) -> Answer<Json<Value>> {
    let id: u32 = id
        .parse()
        .map_err(|_| Refused::new(Reason::BadRequest, format!("{id:?} is no id of a held change")))?;
    match fleet.reconciler.confirm(id) {
        Some(Confirmed::LetGo(losses)) => {
            Ok(done(format!("confirmed: {} objects are deleted", losses.len())))
        }
        Some(Confirmed::MayBeDeleted(scope)) => Ok(done(format!("confirmed: {scope} may be deleted now"))),
        None => Err(Refused::new(
            Reason::NotFound,
            format!("nothing is held under {id}; `pinnace confirm` lists what is"),
        )),
    }
}

fn cluster_name(name: &str) -> Answer<ClusterName> {
    ClusterName::new(name).map_err(|error| Refused::new(Reason::Invalid, error))
}

fn known(store: &Store, cluster: &ClusterName) -> Answer<()> {
    match store.enrolment(cluster) {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(Refused::new(
            Reason::NotFound,
            format!("no cluster {cluster} has joined this hub"),
        )),
        Err(error) => Err(Refused::new(Reason::InternalError, error)),
    }
}

fn done(message: String) -> Json<Value> {
    Json(
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "message": message}),
    )
}
