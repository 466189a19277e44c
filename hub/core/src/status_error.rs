//! Kubernetes `Status` errors: what every refused request is answered with. Clients decide by `reason` and `code`, so
//! both follow apimachinery exactly (source: `meta/v1` StatusReason, `api/errors`).

use serde_json::{Value, json};
use std::fmt;

/// Machine-readable cause of a failure (`status.reason`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of Kubernetes")]
pub enum Reason {
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    NotAcceptable,
    AlreadyExists,
    Conflict,
    Expired,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    Invalid,
    TooManyRequests,
    InternalError,
    Timeout,
    ServiceUnavailable,
    /// A 500 without a reason: what the API server answers for errors that have no status of their own.
    Unknown,
}

impl Reason {
    /// Text on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::BadRequest => "BadRequest",
            Reason::Unauthorized => "Unauthorized",
            Reason::Forbidden => "Forbidden",
            Reason::NotFound => "NotFound",
            Reason::MethodNotAllowed => "MethodNotAllowed",
            Reason::NotAcceptable => "NotAcceptable",
            Reason::AlreadyExists => "AlreadyExists",
            Reason::Conflict => "Conflict",
            Reason::Expired => "Expired",
            Reason::RequestEntityTooLarge => "RequestEntityTooLarge",
            Reason::UnsupportedMediaType => "UnsupportedMediaType",
            Reason::Invalid => "Invalid",
            Reason::TooManyRequests => "TooManyRequests",
            Reason::InternalError => "InternalError",
            Reason::Timeout => "Timeout",
            Reason::ServiceUnavailable => "ServiceUnavailable",
            Reason::Unknown => "",
        }
    }

    /// HTTP status code that goes with the reason.
    pub fn code(self) -> u16 {
        match self {
            Reason::BadRequest => 400,
            Reason::Unauthorized => 401,
            Reason::Forbidden => 403,
            Reason::NotFound => 404,
            Reason::MethodNotAllowed => 405,
            Reason::NotAcceptable => 406,
            Reason::AlreadyExists | Reason::Conflict => 409,
            Reason::Expired => 410,
            Reason::RequestEntityTooLarge => 413,
            Reason::UnsupportedMediaType => 415,
            Reason::Invalid => 422,
            Reason::TooManyRequests => 429,
            Reason::InternalError | Reason::Unknown => 500,
            Reason::ServiceUnavailable => 503,
            Reason::Timeout => 504,
        }
    }
}

/// One entry of `details.causes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// `FieldValueInvalid`, `FieldValueRequired`, ...
    pub reason: &'static str,
    /// Text for people.
    pub message: String,
    /// Path of the field, such as `spec.replicas`; empty if no field is meant.
    pub field: String,
}

impl Cause {
    /// A field whose value breaks a rule.
    pub fn invalid(field: impl Into<String>, value: &Value, why: impl fmt::Display) -> Cause {
        Cause {
            reason: "FieldValueInvalid",
            message: format!("Invalid value: {value}: {why}"),
            field: field.into(),
        }
    }

    /// A field that must be given.
    pub fn required(field: impl Into<String>, why: &str) -> Cause {
        let colon = if why.is_empty() { "" } else { ": " };
        Cause {
            reason: "FieldValueRequired",
            message: format!("Required value{colon}{why}"),
            field: field.into(),
        }
    }

    /// A field that may not be given or changed.
    pub fn forbidden(field: impl Into<String>, why: impl fmt::Display) -> Cause {
        Cause {
            reason: "FieldValueForbidden",
            message: format!("Forbidden: {why}"),
            field: field.into(),
        }
    }

    /// A value that is not one of those known.
    pub fn not_supported(field: impl Into<String>, value: &Value, known: &[&str]) -> Cause {
        let known: Vec<String> = known.iter().map(|v| format!("{v:?}")).collect();
        Cause {
            reason: "FieldValueNotSupported",
            message: format!(
                "Unsupported value: {value}: supported values: {}",
                known.join(", ")
            ),
            field: field.into(),
        }
    }
}

/// What the error is about (`status.details`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Details {
    /// Object name.
    pub name: String,
    /// API group, empty for core.
    pub group: String,
    /// Plural resource, or the kind for `Invalid`.
    pub kind: String,
    /// Object uid if known.
    pub uid: String,
    /// Single causes.
    pub causes: Vec<Cause>,
    /// Seconds after which a retry makes sense; 0 if not said.
    pub retry_after_seconds: u32,
    /// A fresh `continue` token, only for `Expired` lists.
    pub continue_token: String,
}

/// An error that is answered as a Kubernetes `Status`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StatusError {
    /// Machine-readable cause.
    pub reason: Reason,
    /// Text for people: object, cause and, where one exists, the way out.
    pub message: String,
    /// What it is about.
    pub details: Option<Box<Details>>,
    /// An HTTP status that does not go with the reason; upstream has one such answer.
    pub forced_code: Option<u16>,
}

/// `deployments.apps` or `configmaps`.
fn qualified(group: &str, name: &str) -> String {
    if group.is_empty() {
        name.to_owned()
    } else {
        format!("{name}.{group}")
    }
}

impl StatusError {
    /// An error without details.
    pub fn new(reason: Reason, message: impl Into<String>) -> StatusError {
        StatusError {
            reason,
            message: message.into(),
            details: None,
            forced_code: None,
        }
    }

    fn about(reason: Reason, group: &str, plural: &str, name: &str, message: String) -> StatusError {
        let details = Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: plural.to_owned(),
            ..Details::default()
        };
        StatusError {
            reason,
            message,
            details: Some(Box::new(details)),
            forced_code: None,
        }
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> StatusError {
        StatusError::new(Reason::BadRequest, message)
    }

    /// 401.
    pub fn unauthorized() -> StatusError {
        StatusError::new(Reason::Unauthorized, "Unauthorized")
    }

    /// 403 on an object, with the reason why.
    pub fn forbidden(group: &str, plural: &str, name: &str, why: impl fmt::Display) -> StatusError {
        let what = qualified(group, plural);
        let message = if name.is_empty() {
            format!("{what} is forbidden: {why}")
        } else {
            format!("{what} {name:?} is forbidden: {why}")
        };
        StatusError::about(Reason::Forbidden, group, plural, name, message)
    }

    /// 404 of an object.
    pub fn not_found(group: &str, plural: &str, name: &str) -> StatusError {
        let message = format!("{} {name:?} not found", qualified(group, plural));
        StatusError::about(Reason::NotFound, group, plural, name, message)
    }

    /// 404 of a path.
    pub fn no_such_path() -> StatusError {
        let mut error = StatusError::new(
            Reason::NotFound,
            "the server could not find the requested resource",
        );
        error.details = Some(Box::default());
        error
    }

    /// 405.
    pub fn method_not_allowed() -> StatusError {
        let text = "the server does not allow this method on the requested resource";
        StatusError::new(Reason::MethodNotAllowed, text).with_empty_details()
    }

    /// The same with details that say nothing, as the API server answers what it refuses before it knows the object.
    pub fn with_empty_details(mut self) -> StatusError {
        self.details = Some(Box::default());
        self
    }

    /// 409 of a create.
    pub fn already_exists(group: &str, plural: &str, name: &str) -> StatusError {
        let message = format!("{} {name:?} already exists", qualified(group, plural));
        StatusError::about(Reason::AlreadyExists, group, plural, name, message)
    }

    /// 409 of an update.
    pub fn conflict(group: &str, plural: &str, name: &str, why: impl fmt::Display) -> StatusError {
        let message = format!(
            "Operation cannot be fulfilled on {} {name:?}: {why}",
            qualified(group, plural)
        );
        StatusError::about(Reason::Conflict, group, plural, name, message)
    }

    /// 409 because the object moved on.
    pub fn stale(group: &str, plural: &str, name: &str) -> StatusError {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        StatusError::conflict(group, plural, name, why)
    }

    /// 422 with its causes.
    pub fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> StatusError {
        let mut texts: Vec<String> = Vec::new();
        for c in &causes {
            let text = if c.field.is_empty() {
                c.message.clone()
            } else {
                format!("{}: {}", c.field, c.message)
            };
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let joined = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!("{} {name:?} is invalid: {joined}", qualified(group, kind));
        let details = Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            causes,
            ..Details::default()
        };
        StatusError {
            reason: Reason::Invalid,
            message,
            details: Some(Box::new(details)),
            forced_code: None,
        }
    }

    /// 500.
    pub fn internal(why: impl fmt::Display) -> StatusError {
        let message = format!("Internal error occurred: {why}");
        let mut error = StatusError::new(Reason::InternalError, message);
        error.details = Some(Box::new(Details {
            causes: vec![Cause {
                reason: "",
                message: why.to_string(),
                field: String::new(),
            }],
            ..Details::default()
        }));
        error
    }

    /// HTTP status code.
    pub fn code(&self) -> u16 {
        self.forced_code.unwrap_or_else(|| self.reason.code())
    }

    /// The `Status` object.
    pub fn to_value(&self) -> Value {
        let mut metadata = json!({});
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason.as_str(), "code": self.code(),
        });
        if self.reason == Reason::Unknown
            && let Some(members) = status.as_object_mut()
        {
            members.remove("reason");
        }
        if let Some(details) = &self.details {
            let mut out = serde_json::Map::new();
            let texts = [
                ("name", &details.name),
                ("group", &details.group),
                ("kind", &details.kind),
                ("uid", &details.uid),
            ];
            for (key, text) in texts {
                if !text.is_empty() {
                    out.insert(key.to_owned(), json!(text));
                }
            }
            if !details.causes.is_empty() {
                out.insert(
                    "causes".to_owned(),
                    Value::Array(details.causes.iter().map(cause_value).collect()),
                );
            }
            if details.retry_after_seconds > 0 {
                out.insert("retryAfterSeconds".to_owned(), json!(details.retry_after_seconds));
            }
            if !details.continue_token.is_empty() {
                metadata["continue"] = json!(details.continue_token);
            }
            status["details"] = Value::Object(out);
        }
        status["metadata"] = metadata;
        status
    }
}

fn cause_value(cause: &Cause) -> Value {
    let mut out = serde_json::Map::new();
    for (key, text) in [
        ("reason", cause.reason),
        ("message", &cause.message),
        ("field", &cause.field),
    ] {
        if !text.is_empty() {
            out.insert(key.to_owned(), json!(text));
        }
    }
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_kubernetes() {
        let cases = [
            (
                StatusError::not_found("apps", "deployments", "a"),
                404,
                "deployments.apps \"a\" not found",
            ),
            (
                StatusError::already_exists("", "configmaps", "a"),
                409,
                "configmaps \"a\" already exists",
            ),
            (
                StatusError::stale("", "configmaps", "a"),
                409,
                "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your \
                 changes to the latest version and try again",
            ),
            (
                StatusError::invalid(
                    "apps",
                    "Deployment",
                    "a",
                    vec![Cause::required("spec.selector", "")],
                ),
                422,
                "Deployment.apps \"a\" is invalid: spec.selector: Required value",
            ),
            (
                StatusError::forbidden("", "pods", "", "no"),
                403,
                "pods is forbidden: no",
            ),
        ];
        for (error, code, message) in cases {
            assert_eq!((error.code(), error.message.as_str()), (code, message));
        }
    }

    #[test]
    fn a_status_carries_reason_code_and_causes() {
        let cause = Cause::invalid("metadata.name", &json!("A"), "must be lower case");
        let value = StatusError::invalid("", "ConfigMap", "A", vec![cause]).to_value();
        assert_eq!(value["code"], 422);
        assert_eq!(value["reason"], "Invalid");
        assert_eq!(value["details"]["kind"], "ConfigMap");
        assert_eq!(value["details"]["causes"][0]["field"], "metadata.name");
        assert_eq!(
            value["details"]["causes"][0]["message"],
            "Invalid value: \"A\": must be lower case"
        );
    }
}
