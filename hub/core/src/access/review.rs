//! The reviews that clients ask about access: read, checked and answered here; who may what is [`super::Rbac`]'s to say.

use super::rbac::Allowed;
use super::{Attributes, Decision, User};
use crate::status_error::{Cause, StatusError};
use serde_json::{Value, json};

/// A review as it was asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Review {
    /// SelfSubjectAccessReview: may I?
    Own(Attributes),
    /// SubjectAccessReview and LocalSubjectAccessReview: may they?
    Theirs(User, Attributes),
    /// SelfSubjectRulesReview: what may I in this namespace?
    Rules(String),
    /// SelfSubjectReview: who am I?
    WhoAmI,
    /// TokenReview: whose token is this, and is it meant for one of these audiences?
    Token {
        /// The token.
        token: String,
        /// Audiences; empty means those of the API.
        audiences: Vec<String>,
    },
}

/// Whether a kind is a review: asked with `create`, answered, never stored.
pub fn is_review(group: &str, kind: &str) -> bool {
    matches!(
        (group, kind),
        (
            "authorization.k8s.io",
            "SelfSubjectAccessReview"
                | "SubjectAccessReview"
                | "LocalSubjectAccessReview"
                | "SelfSubjectRulesReview"
        ) | ("authentication.k8s.io", "SelfSubjectReview" | "TokenReview")
    )
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn texts(value: &Value, pointer: &str) -> Vec<String> {
    let list = value
        .pointer(pointer)
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    list.filter_map(|v| v.as_str().map(str::to_owned)).collect()
}

fn given<'v>(body: &'v Value, pointer: &str) -> Option<&'v Value> {
    body.pointer(pointer).filter(|v| !v.is_null())
}

/// Reads a review of a kind; `namespace` is the one of the path, for LocalSubjectAccessReview.
///
/// # Errors
/// 422 for a question that cannot be answered.
pub fn read(kind: &str, namespace: &str, body: &Value) -> Result<Review, StatusError> {
    let mut causes = Vec::new();
    let review = match kind {
        "SelfSubjectReview" => Review::WhoAmI,
        "TokenReview" => {
            let token = text(body, "/spec/token");
            if token.is_empty() {
                return Err(StatusError::bad_request(
                    "token is required for TokenReview in authentication",
                ));
            }
            Review::Token {
                token: token.to_owned(),
                audiences: texts(body, "/spec/audiences"),
            }
        }
        "SelfSubjectRulesReview" => {
            let namespace = text(body, "/spec/namespace");
            if namespace.is_empty() {
                return Err(StatusError::bad_request("no namespace on request"));
            }
            Review::Rules(namespace.to_owned())
        }
        "SelfSubjectAccessReview" => Review::Own(wish(body, &mut causes)),
        _ => {
            let mut wish = wish(body, &mut causes);
            let user = subject(body, &mut causes);
            if kind == "LocalSubjectAccessReview" {
                if given(body, "/spec/nonResourceAttributes").is_some() {
                    let why = "disallowed on this kind of request";
                    causes.push(Cause::forbidden("spec.nonResourceAttributes", why));
                } else if wish.namespace != namespace {
                    let why = "must match metadata.namespace";
                    let field = "spec.resourceAttributes.namespace";
                    causes.push(Cause::invalid(field, &json!(wish.namespace), why));
                }
                namespace.clone_into(&mut wish.namespace);
            }
            Review::Theirs(user, wish)
        }
    };
    if causes.is_empty() {
        Ok(review)
    } else {
        Err(StatusError::invalid("authorization.k8s.io", kind, "", causes))
    }
}

fn subject(body: &Value, causes: &mut Vec<Cause>) -> User {
    let mut user = User {
        name: text(body, "/spec/user").to_owned(),
        uid: text(body, "/spec/uid").to_owned(),
        groups: texts(body, "/spec/groups"),
        ..User::default()
    };
    let extra = body.pointer("/spec/extra").and_then(Value::as_object);
    for (key, values) in extra.into_iter().flatten() {
        let values = values.as_array().into_iter().flatten();
        let values = values.filter_map(|v| v.as_str().map(str::to_owned)).collect();
        user.extra.insert(key.clone(), values);
    }
    if user.name.is_empty() && user.groups.is_empty() {
        let why = "at least one of user or group must be specified";
        causes.push(Cause::invalid("spec.user", &json!(""), why));
    }
    user
}

fn wish(body: &Value, causes: &mut Vec<Cause>) -> Attributes {
    let resource = given(body, "/spec/resourceAttributes");
    let path = given(body, "/spec/nonResourceAttributes");
    match (resource, path) {
        (Some(_), Some(_)) => {
            let why = "cannot be specified in combination with resourceAttributes";
            causes.push(Cause::invalid("spec.nonResourceAttributes", &Value::Null, why));
            Attributes::default()
        }
        (None, None) => {
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            causes.push(Cause::invalid("spec.resourceAttributes", &Value::Null, why));
            Attributes::default()
        }
        (Some(r), None) => {
            let own = |key: &str| r.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            Attributes {
                verb: own("verb"),
                group: own("group"),
                version: own("version"),
                resource: own("resource"),
                subresource: own("subresource"),
                namespace: own("namespace"),
                name: own("name"),
                path: None,
            }
        }
        (None, Some(p)) => {
            let own = |key: &str| p.get(key).and_then(Value::as_str).unwrap_or_default();
            Attributes::path(own("verb"), own("path"))
        }
    }
}

/// `status` of an access review.
pub fn access_status(decision: &Decision) -> Value {
    let mut status = json!({"allowed": decision.allowed});
    if !decision.reason.is_empty() {
        status["reason"] = json!(decision.reason);
    }
    status
}

/// `status` of a SelfSubjectRulesReview.
pub fn rules_status(allowed: &Allowed) -> Value {
    let (paths, resources): (Vec<_>, Vec<_>) = allowed.rules.iter().partition(|r| r.resources.is_empty());
    let values = |rules: Vec<&super::Rule>| rules.into_iter().map(super::Rule::to_value).collect::<Vec<_>>();
    let mut status = json!({"incomplete": !allowed.errors.is_empty(), "nonResourceRules": values(paths),
        "resourceRules": values(resources)});
    if !allowed.errors.is_empty() {
        status["evaluationError"] = json!(allowed.errors.join(", "));
    }
    status
}

/// A user as reviews and certificate requests show it.
pub fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name});
    if !user.uid.is_empty() {
        info["uid"] = json!(user.uid);
    }
    if !user.groups.is_empty() {
        info["groups"] = json!(user.groups);
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_read_or_refused() {
        let own = read(
            "SelfSubjectAccessReview",
            "",
            &json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "subresource": "log",
                "namespace": "a", "name": "b"}}}),
        );
        let expected = Attributes::resource("get", "", "pods", "a", "b").with_subresource("log");
        assert_eq!(own, Ok(Review::Own(expected)));
        let path =
            json!({"spec": {"user": "ann", "nonResourceAttributes": {"verb": "get", "path": "/metrics"}}});
        let ann = User {
            name: "ann".to_owned(),
            ..User::default()
        };
        assert_eq!(
            read("SubjectAccessReview", "", &path),
            Ok(Review::Theirs(ann, Attributes::path("get", "/metrics")))
        );
        let local = json!({"spec": {"user": "ann", "resourceAttributes": {"verb": "get", "namespace": "b"}}});
        for (kind, body) in [
            (
                "SubjectAccessReview",
                json!({"spec": {"resourceAttributes": {"verb": "get"}}}),
            ),
            ("SubjectAccessReview", json!({"spec": {"user": "ann"}})),
            (
                "SelfSubjectAccessReview",
                json!({"spec": {"resourceAttributes": {}, "nonResourceAttributes": {}}}),
            ),
            ("LocalSubjectAccessReview", local),
            ("LocalSubjectAccessReview", path.clone()),
        ] {
            assert_eq!(read(kind, "a", &body).expect_err(kind).code(), 422, "{body}");
        }
        assert_eq!(
            read("TokenReview", "", &json!({})).expect_err("no token").code(),
            400
        );
        assert_eq!(
            read("SelfSubjectRulesReview", "", &json!({}))
                .expect_err("no namespace")
                .code(),
            400
        );
    }

    #[test]
    fn answers_have_the_shape_of_kubernetes() {
        let allowed = Allowed {
            rules: vec![
                super::super::Rule::of(&["get"], &[""], &["pods"]),
                super::super::Rule::of_paths(&["get"], &["/healthz"]),
            ],
            errors: Vec::new(),
        };
        assert_eq!(
            rules_status(&allowed),
            json!({"incomplete": false, "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}],
                "resourceRules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]})
        );
    }
}
