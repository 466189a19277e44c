//! Answers to reviews: questions about access that are asked with a create and never stored.

use super::negotiate::{self, Form};
use super::write::{Done, Write};
use super::{Api, decode};
use crate::clock;
use bytes::Bytes;
use http::StatusCode;
use hub_core::access::review::{self, Review};
use hub_core::admission;
use hub_core::ownership::Tracked;
use hub_core::status_error::StatusError;
use hub_core::strict::Findings;
use hub_core::timestamp;
use serde_json::{Value, json};

impl Api {
    /// Answers a review.
    ///
    /// # Errors
    /// A body that asks nothing, or 406 for who wants a table.
    pub(super) async fn review(&self, write: Write<'_>) -> Result<Done, StatusError> {
        let resource = &*write.served.resource;
        if write.encoder()?.form != Form::Json {
            return Err(negotiate::not_acceptable("application/json"));
        }
        write.dry_run()?;
        let mut findings = Findings::default();
        let mut body = decode::parse(write.headers, &write.body, &mut findings)?;
        let warnings = decode::check(self.table, resource, &mut body, findings, write.validation()?)?;
        admission::check_kind(resource, &mut body)?;
        let user = write.user;
        let status = match review::read(&resource.kind, write.namespace, &body)? {
            Review::Own(wish) => review::access_status(&self.access.decide(user, &wish)),
            Review::Theirs(other, wish) => review::access_status(&self.access.decide(&other, &wish)),
            Review::Rules(namespace) => review::rules_status(&self.access.rules_of(user, &namespace)),
            Review::WhoAmI => json!({"userInfo": review::user_info(user)}),
            Review::Token { token, audiences } => match self.access.review_token(&token, &audiences) {
                Ok((user, matching)) => {
                    let mut status = json!({"authenticated": true, "user": review::user_info(&user)});
                    if !audiences.is_empty() {
                        status["audiences"] = json!(matching);
                    }
                    status
                }
                Err(why) => json!({"authenticated": false, "error": why.to_string(), "user": {}}),
            },
        };
        if !body.get("metadata").is_some_and(Value::is_object) {
            body["metadata"] = json!({});
        }
        self.own(&write, None, &mut body, Tracked::ByItself)?;
        if &*resource.kind == "SelfSubjectReview" {
            body["metadata"]["creationTimestamp"] = json!(timestamp::format(clock::wall().0));
        }
        body["status"] = status;
        Ok(Done {
            code: StatusCode::CREATED,
            body: Bytes::from(body.to_string()),
            warnings,
        })
    }
}
