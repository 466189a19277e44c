//! `authorizer` in admission policies: who may do what, asked from within an expression.

use super::eval::{EvalError, Outcome};
use super::value::text;
use crate::access::Attributes;
use kube_cel::cel::Value;
use kube_cel::cel::objects::Opaque;
use std::sync::Arc;

/// What one question costs (as upstream).
pub(super) const COST: u64 = 350_000 / 10;

/// Answers what expressions ask.
pub trait Authorize {
    /// Whether the requesting user, or a ServiceAccount (namespace, name), may do this; and why.
    fn decide(&self, service_account: Option<(&str, &str)>, wish: &Attributes) -> (bool, String);
    /// The resource of the request.
    fn request(&self) -> Attributes;
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Root,
    Path(String),
    Group,
    Resource,
    Decision { is_allowed: bool, reason: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Asked {
    step: Step,
    service_account: Option<(String, String)>,
    wish: Attributes,
}

impl Opaque for Asked {
    fn runtime_type_name(&self) -> &str {
        match self.step {
            Step::Root => "kubernetes.authorization.Authorizer",
            Step::Path(_) => "kubernetes.authorization.PathCheck",
            Step::Group => "kubernetes.authorization.GroupCheck",
            Step::Resource => "kubernetes.authorization.ResourceCheck",
            Step::Decision { .. } => "kubernetes.authorization.Decision",
        }
    }
}

fn made(asked: Asked) -> Value {
    Value::Opaque(Arc::new(asked))
}

/// The variable `authorizer`.
pub(super) fn root() -> Value {
    made(Asked {
        step: Step::Root,
        service_account: None,
        wish: Attributes::default(),
    })
}

/// `authorizer.requestResource`.
pub(super) fn resource(wish: Attributes) -> Value {
    made(Asked {
        step: Step::Resource,
        service_account: None,
        wish,
    })
}

/// Whether a value is part of such a question.
pub(super) fn is(value: &Value) -> bool {
    matches!(value, Value::Opaque(opaque) if opaque.downcast_ref::<Asked>().is_some())
}

/// Calls a function of it.
pub(super) fn call(authorize: &dyn Authorize, target: &Value, name: &str, arguments: &[Value]) -> Outcome {
    let Value::Opaque(opaque) = target else {
        return Err(EvalError::overload());
    };
    let mut asked = opaque
        .downcast_ref::<Asked>()
        .ok_or_else(EvalError::overload)?
        .clone();
    let mut texts = Vec::new();
    for argument in arguments {
        match argument {
            Value::String(s) => texts.push(s.to_string()),
            _ => return Err(EvalError::overload()),
        }
    }
    match (&asked.step, name, texts.as_slice()) {
        (Step::Root, "path", [path]) if path.is_empty() => {
            return Err(EvalError::new("path must not be empty"));
        }
        (Step::Root, "path", [path]) => asked.step = Step::Path(path.clone()),
        (Step::Root, "serviceAccount", [namespace, name]) => {
            asked.service_account = Some((namespace.clone(), name.clone()));
        }
        (Step::Root, "group", [group]) => {
            asked.step = Step::Group;
            asked.wish.group.clone_from(group);
        }
        (Step::Group, "resource", [resource]) => {
            asked.step = Step::Resource;
            asked.wish.resource.clone_from(resource);
        }
        (Step::Resource, "subresource", [subresource]) => asked.wish.subresource.clone_from(subresource),
        (Step::Resource, "namespace", [namespace]) => asked.wish.namespace.clone_from(namespace),
        (Step::Resource, "name", [name]) => asked.wish.name.clone_from(name),
        // Roles do not look at selectors: what is allowed without is allowed with.
        (Step::Resource, "labelSelector" | "fieldSelector", [_]) => {}
        (Step::Resource | Step::Path(_), "check", [verb]) => {
            let account = asked.service_account.as_ref();
            let account = account.map(|(namespace, name)| (namespace.as_str(), name.as_str()));
            let wish = match &asked.step {
                Step::Path(path) => Attributes::path(verb, path),
                _ => Attributes {
                    verb: verb.clone(),
                    ..asked.wish.clone()
                },
            };
            let (is_allowed, reason) = authorize.decide(account, &wish);
            asked.step = Step::Decision { is_allowed, reason };
        }
        (Step::Decision { is_allowed, .. }, "allowed", []) => return Ok(Value::Bool(*is_allowed)),
        (Step::Decision { reason, .. }, "reason", []) => return Ok(text(reason.as_str())),
        (Step::Decision { .. }, "errored", []) => return Ok(Value::Bool(false)),
        (Step::Decision { .. }, "error", []) => return Ok(text("")),
        _ => return Err(EvalError::overload()),
    }
    Ok(made(asked))
}
