//! What an API server's refusal means: one reason code per class, with the server's own words.

use std::time::Duration;

use http::StatusCode;
use serde_json::Value;
use shared::reason::Reason;
use shared::time::Millis;

/// A request that did not end with what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// Status code; none when there was no answer.
    pub status: Option<u16>,
    /// `reason` of the Status object, if any.
    pub kubernetes: String,
    /// Class.
    pub reason: Reason,
    /// Cause in words.
    pub message: String,
    /// Details the Status object gives: the fields of causes, and whether it names the missing object.
    causes: Vec<(String, String)>,
    names_object: bool,
    /// How long the API server asks to be left alone (`Retry-After`), if it does.
    pub pause: Option<Duration>,
}

impl ApiError {
    fn new(reason: Reason, message: String) -> Self {
        Self {
            status: None,
            kubernetes: String::new(),
            reason,
            message,
            causes: Vec::new(),
            names_object: false,
            pause: None,
        }
    }

    /// Another agent of this cluster may act now, or may soon: nothing was sent.
    #[must_use]
    pub fn fenced() -> Self {
        Self::new(
            Reason::Pending,
            "the lease of this agent ends; another one goes on".to_owned(),
        )
    }

    /// The answer asked for this pause.
    #[must_use]
    pub fn after(mut self, pause: Option<Duration>) -> Self {
        self.pause = pause;
        self
    }

    /// No usable connection.
    #[must_use]
    pub fn unreachable(error: &dyn std::error::Error) -> Self {
        Self::new(
            Reason::MemberUnreachable,
            format!("the member's API cannot be reached: {}", chain(error)),
        )
    }

    /// No answer in time.
    #[must_use]
    pub fn slow(seconds: u64) -> Self {
        Self::new(
            Reason::MemberOverloaded,
            format!("the member's API gave no answer within {seconds} s"),
        )
    }

    /// An answer over the limit.
    #[must_use]
    pub fn too_large() -> Self {
        Self::new(
            Reason::OverLimit,
            "the member's API answered with more than the agent reads".to_owned(),
        )
    }

    /// An answer that is not what it should be.
    #[must_use]
    pub fn malformed(error: &serde_json::Error) -> Self {
        Self::new(
            Reason::MemberOverloaded,
            format!("the member's API answered with unreadable JSON: {error}"),
        )
    }

    /// From the client: TLS, connection, authentication plugins.
    #[must_use]
    pub fn of_client(error: &kube::Error) -> Self {
        let text = chain(error);
        // A wrong clock shows as a certificate out of its dates, whichever side is wrong.
        let dates = ["certificate expired", "Expired", "NotValidYet", "not valid yet"];
        if dates.iter().any(|d| text.contains(d)) {
            return Self::new(
                Reason::MemberClock,
                format!("the member's certificate dates do not hold: {text}"),
            );
        }
        Self::new(
            Reason::MemberUnreachable,
            format!("the member's API cannot be reached: {text}"),
        )
    }

    /// From an answer outside 2xx.
    #[must_use]
    pub fn of_answer(status: StatusCode, body: &[u8]) -> Self {
        let value: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
        let text = |pointer: &str| {
            value
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let kubernetes = text("/reason");
        let message = match text("/message") {
            empty if empty.is_empty() => format!("the member's API answered {status}"),
            message => message,
        };
        let causes = value
            .pointer("/details/causes")
            .and_then(Value::as_array)
            .map(|all| {
                let part =
                    |c: &Value, n: &str| c.get(n).and_then(Value::as_str).unwrap_or_default().to_owned();
                all.iter()
                    .map(|c| (part(c, "reason"), part(c, "message")))
                    .collect()
            })
            .unwrap_or_default();
        let mut error = Self {
            status: Some(status.as_u16()),
            kubernetes,
            reason: Reason::Invalid,
            message,
            causes,
            names_object: !text("/details/name").is_empty(),
            pause: None,
        };
        error.reason = error.classify();
        error
    }

    /// The pause that was asked for, if any.
    #[must_use]
    pub fn pause_ms(&self) -> Option<Millis> {
        let millis = self.pause?.as_millis();
        Some(Millis(u64::try_from(millis).unwrap_or(u64::MAX)))
    }

    fn classify(&self) -> Reason {
        let says = |part: &str| self.message.contains(part);
        let terminating =
            self.causes.iter().any(|(r, _)| r == "NamespaceTerminating") || says("is being terminated");
        match self.status.unwrap_or_default() {
            401 => Reason::Forbidden,
            403 if terminating => Reason::NamespaceTerminating,
            403 if says("exceeded quota") || says("failed quota") => Reason::QuotaExceeded,
            403 if says("denied the request") || says("denied request") => Reason::AdmissionDenied,
            400 if says("denied the request") || says("admission webhook") => Reason::AdmissionDenied,
            403 => Reason::Forbidden,
            404 if self.is_namespace_absent() => Reason::AwaitingDependency,
            404 => Reason::ApiAbsent,
            409 => Reason::Conflict,
            // Before the words of immutability: a policy's own message may speak of anything.
            422 if says("denied the request") || says("denied request") => Reason::AdmissionDenied,
            422 if says("field is immutable")
                || says("is immutable")
                || says("may not be changed")
                || says("updates to ")
                || says("Forbidden: may not be") =>
            {
                Reason::ImmutableField
            }
            429 | 500..=599 if says("failed calling webhook") => Reason::AdmissionDenied,
            429 | 500..=599 => Reason::MemberOverloaded,
            _ => Reason::Invalid,
        }
    }

    fn is_namespace_absent(&self) -> bool {
        self.message.starts_with("namespaces \"") && self.message.contains("not found")
    }

    /// 404 for the object itself, not for its kind. To a read or delete only; an apply answers so for a namespace.
    #[must_use]
    pub fn is_object_absent(&self) -> bool {
        self.status == Some(404) && self.kubernetes == "NotFound" && self.names_object
    }

    /// 404 for the path: the API server does not serve the kind (any more).
    #[must_use]
    pub fn is_kind_absent(&self) -> bool {
        self.status == Some(404) && !self.names_object
    }

    /// 409.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.status == Some(409)
    }

    /// 410: a watch or list token is too old.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.status == Some(410)
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let next = cause.to_string();
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn class(status: u16, body: &Value) -> Reason {
        ApiError::of_answer(
            StatusCode::from_u16(status).expect("valid"),
            body.to_string().as_bytes(),
        )
        .reason
    }

    #[test]
    fn classes() {
        let m = |text: &str| json!({"kind": "Status", "message": text});
        for (status, body, reason) in [
            (
                403,
                m("pods \"x\" is forbidden: exceeded quota: q, requested: pods=1"),
                Reason::QuotaExceeded,
            ),
            (
                403,
                m("configmaps \"x\" is forbidden: User \"a\" cannot patch resource"),
                Reason::Forbidden,
            ),
            (
                403,
                json!({"message": "unable to create new content in namespace x because it is being terminated",
                "details": {"causes": [{"reason": "NamespaceTerminating"}]}}),
                Reason::NamespaceTerminating,
            ),
            (
                400,
                m("admission webhook \"a.b\" denied the request: no"),
                Reason::AdmissionDenied,
            ),
            (
                422,
                m("Job.batch \"x\" is invalid: spec.template: Invalid value: ...: field is immutable"),
                Reason::ImmutableField,
            ),
            (
                422,
                m("ConfigMap \"x\" is invalid: data[a b]: Invalid value"),
                Reason::Invalid,
            ),
            (
                404,
                m("the server could not find the requested resource"),
                Reason::ApiAbsent,
            ),
            (
                404,
                json!({"reason": "NotFound", "message": "namespaces \"x\" not found", "details": {"name": "x", "kind": "namespaces"}}),
                Reason::AwaitingDependency,
            ),
            (
                422,
                m(
                    "configmaps \"x\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: the field is immutable here",
                ),
                Reason::AdmissionDenied,
            ),
            (429, m("slow down"), Reason::MemberOverloaded),
            (
                500,
                m("Internal error occurred: failed calling webhook \"a.b\": timeout"),
                Reason::AdmissionDenied,
            ),
            (503, m("etcd"), Reason::MemberOverloaded),
        ] {
            assert_eq!(class(status, &body), reason, "{status} {body}");
        }
    }

    #[test]
    fn an_absent_object_is_not_an_absent_kind() {
        let of = |body: Value| ApiError::of_answer(StatusCode::NOT_FOUND, body.to_string().as_bytes());
        let object = of(
            json!({"reason": "NotFound", "message": "configmaps \"a\" not found", "details": {"name": "a", "kind": "configmaps"}}),
        );
        let kind = of(
            json!({"reason": "NotFound", "message": "the server could not find the requested resource", "details": {}}),
        );
        assert!(object.is_object_absent() && !object.is_kind_absent());
        assert!(!kind.is_object_absent() && kind.is_kind_absent());
    }
}
