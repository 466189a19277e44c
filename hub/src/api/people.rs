//! The calls behind `pinnace user`: certificates of people, made, listed and taken back.

use super::access::{Caller, UserError};
use super::{Api, decode, respond};
use axum::body::Body;
use http::{Method, Request, Response, StatusCode};
use hub_core::access::Attributes;
use hub_core::status_error::{Reason, StatusError};
use serde_json::{Value, json};

/// Path of users.
const PATH: &str = "/apis/fleet.pinnace.dev/v1alpha1/users";

impl From<UserError> for StatusError {
    fn from(error: UserError) -> StatusError {
        let reason = match &error {
            UserError::Name(_) | UserError::Reserved(_) | UserError::TooMany { .. } => Reason::Invalid,
            UserError::Unknown(_) => Reason::NotFound,
            UserError::Self_(_) => Reason::Forbidden,
            UserError::Keys(_) | UserError::Store(_) => Reason::InternalError,
        };
        StatusError::new(reason, error.to_string())
    }
}

/// Whether a path is one of these calls.
pub(super) fn is_here(path: &str) -> bool {
    path.strip_prefix(PATH)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Api {
    /// Answers a call about users.
    ///
    /// # Errors
    /// What is wrong with it; 403 for who gives more than they have.
    pub(super) async fn people(
        &self,
        request: Request<Body>,
        caller: &Caller,
    ) -> Result<Response<Body>, StatusError> {
        let (head, body) = request.into_parts();
        let rest = head.uri.path().strip_prefix(PATH).unwrap_or_default();
        let parts: Vec<&str> = rest.split('/').filter(|s| !s.is_empty()).collect();
        match (&head.method, parts.as_slice()) {
            (&Method::GET, []) => Ok(respond::json(StatusCode::OK, &self.users.list())),
            (&Method::POST, []) => {
                let body = decode::read(body).await?;
                let user: Value = serde_json::from_slice(&body)
                    .map_err(|why| StatusError::bad_request(format!("the body is not JSON: {why}")))?;
                self.create_user(user, caller).await
            }
            (&Method::POST, [name, "revoke"]) => {
                let by = &caller.real.as_ref().unwrap_or(&caller.user).name;
                let name = super::request::percent_decoded(name).unwrap_or_default();
                let taken = self.users.revoke(&name, by).await?;
                let message = format!(
                    "user {name} has no access any more: {taken} certificates were taken back, open watches ended"
                );
                Ok(respond::json(
                    StatusCode::OK,
                    &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                        "message": message}),
                ))
            }
            _ => Err(StatusError::no_such_path()),
        }
    }

    async fn create_user(&self, mut body: Value, caller: &Caller) -> Result<Response<Body>, StatusError> {
        let name = hub_core::admission::name_of(&body).to_owned();
        let groups = body
            .pointer("/spec/groups")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let groups: Vec<String> = groups.filter_map(|g| g.as_str().map(str::to_owned)).collect();
        // Whoever makes a certificate could act with it: that takes what acting as them takes.
        let mut wishes = vec![Attributes::resource("impersonate", "", "users", "", &name)];
        wishes.extend(
            groups
                .iter()
                .map(|g| Attributes::resource("impersonate", "", "groups", "", g)),
        );
        for wish in &wishes {
            self.access.demand(&caller.user, wish)?;
        }
        let seconds = body
            .pointer("/spec/ttlSeconds")
            .and_then(Value::as_i64)
            .unwrap_or(super::limits::USER_SECONDS);
        let kubeconfig = self.users.create(&name, &groups, seconds).await?;
        body["status"] = json!({"kubeconfig": kubeconfig});
        Ok(respond::json(StatusCode::CREATED, &body))
    }
}
