//! The token subresource of ServiceAccounts.

use super::super::Api;
use super::super::decode;
use super::super::write::{Done, Write};
use crate::clock;
use crate::store::ResourceId;
use bytes::Bytes;
use http::StatusCode;
use hub_core::access::token::{Ask, Claims};
use hub_core::status_error::{Reason, StatusError};
use hub_core::strict::Findings;
use serde_json::json;
use shared::time::UnixSeconds;

impl Api {
    /// Answers a TokenRequest.
    ///
    /// # Errors
    /// 404 without the account or the object to bind to, 409 for another one, 422 for what cannot be.
    pub(in crate::api) async fn create_token(
        &self,
        write: Write<'_>,
        name: &str,
    ) -> Result<Done, StatusError> {
        let mut findings = Findings::default();
        let mut body = decode::parse(write.headers, &write.body, &mut findings)?;
        let of = self
            .table
            .type_named("io.k8s.api.authentication.v1.TokenRequest")
            .ok_or_else(|| StatusError::internal("the type table has no TokenRequest"))?;
        let validation = write.validation()?;
        let mut warnings = decode::check_type(
            self.table,
            of,
            "TokenRequest",
            "v1",
            &mut body,
            findings,
            validation,
        )?;
        let Some(account) = self.store.get(&super::account_id(), write.namespace, name) else {
            return Err(StatusError::not_found("", "serviceaccounts", name));
        };
        let mut ask = Ask::read(name, &body)?;
        warnings.append(&mut ask.warnings);
        if let Some(bound) = &mut ask.bound {
            let plural = format!("{}s", bound.kind.to_lowercase());
            let id = ResourceId::new("", &plural);
            let Some(object) = self.store.get(&id, write.namespace, &bound.name) else {
                return Err(StatusError::not_found("", &plural, &bound.name));
            };
            if bound.uid.is_empty() {
                bound.uid.clone_from(&object.uid);
            }
            if bound.uid != object.uid {
                let why = format!(
                    "the UID in the bound object reference ({}) does not match the UID in record. The object might \
                     have been deleted and then recreated",
                    bound.uid
                );
                return Err(StatusError::conflict("", &plural, &bound.name, why));
            }
        }
        let now = clock::wall().0;
        let claims = Claims {
            audiences: ask.audiences,
            issued: now,
            expires: now + ask.seconds,
            id: self.new_uid(),
            namespace: write.namespace.to_owned(),
            account: name.to_owned(),
            account_uid: account.uid.clone(),
            bound: ask.bound,
        };
        let token = self
            .access
            .authority()
            .sign_token(&claims)
            .map_err(|error| StatusError::new(Reason::InternalError, error.to_string()))?;
        body["apiVersion"] = json!("authentication.k8s.io/v1");
        body["kind"] = json!("TokenRequest");
        body["metadata"] = json!({"name": name, "namespace": write.namespace,
            "creationTimestamp": UnixSeconds(now).rfc3339()});
        body["spec"]["audiences"] = json!(claims.audiences);
        body["spec"]["expirationSeconds"] = json!(ask.seconds);
        let is_dry = write.dry_run()?;
        body["status"] = json!({"token": if is_dry { "" } else { token.as_str() },
            "expirationTimestamp": UnixSeconds(claims.expires).rfc3339()});
        Ok(Done {
            code: StatusCode::CREATED,
            body: Bytes::from(body.to_string()),
            warnings,
        })
    }
}
