//! What ValidatingAdmissionPolicies say to a write.

use super::bound::{Bound, Purse, resulted};
use super::compile::{Binding, Policy, Validation};
use super::matching::Meant;
use super::{Request, Set, World, params};
use crate::cel::{Scope, Value as Cel};
use crate::limits::MAX_CEL_MESSAGE_BYTES;
use crate::status_error::{Cause, Reason, StatusError};
use serde_json::{Value, json};

/// What policies say.
#[derive(Debug, Default)]
pub struct Verdict {
    /// For `Warning` headers.
    pub warnings: Vec<String>,
    /// For the audit log: keys and values.
    pub annotations: Vec<(String, String)>,
    /// Why the write is refused.
    pub denied: Option<StatusError>,
}

/// One failed validation or an error.
struct Failure {
    message: String,
    reason: Reason,
    expression: usize,
}

/// Asks all policies.
pub fn validate(set: &Set, request: &Request<'_>, world: &dyn World) -> Verdict {
    let mut verdict = Verdict::default();
    if set.is_empty() {
        return verdict;
    }
    let mut bound = Bound::new(request, world);
    for (policy, bindings) in &set.policies {
        let mut through = match policy.matching.meant(request, world, false) {
            Meant::Not => continue,
            Meant::AsIs => None,
            Meant::Through(other) => Some(bound.through(&other)),
        };
        for binding in bindings {
            let is_meant = |m: &super::matching::Match| m.matches(request, world, true);
            if !binding.matching.as_ref().is_none_or(is_meant) {
                continue;
            }
            let failures = match params::of(policy, binding, request, world) {
                Ok(all) => {
                    let mut failures = Vec::new();
                    for params in all {
                        let bound = through.as_mut().unwrap_or(&mut bound);
                        failures.extend(asked(policy, params.as_ref(), bound, &mut verdict));
                    }
                    failures
                }
                Err(_) if !policy.fails => Vec::new(),
                Err(message) => {
                    // What cannot be configured is refused, whatever the binding does with failures.
                    verdict.deny(policy, binding, request, &message, Reason::Invalid);
                    Vec::new()
                }
            };
            for failure in failures {
                verdict.act(policy, binding, request, &failure);
            }
        }
        if let Some(through) = &through {
            bound.spent_by(through);
        }
    }
    verdict
}

impl Verdict {
    fn deny(&mut self, policy: &Policy, binding: &Binding, request: &Request<'_>, why: &str, reason: Reason) {
        if self.denied.is_some() {
            return;
        }
        let message = format!(
            "ValidatingAdmissionPolicy '{}' with binding '{}' denied request: {why}",
            policy.name, binding.name
        );
        let resource = request.resource;
        let mut error = StatusError::forbidden(&resource.group, &resource.plural, request.name, &message);
        error.reason = reason;
        if let Some(details) = &mut error.details {
            details.causes.push(Cause {
                reason: "",
                message,
                field: String::new(),
            });
        }
        self.denied = Some(error);
    }

    fn act(&mut self, policy: &Policy, binding: &Binding, request: &Request<'_>, failure: &Failure) {
        if binding.denies {
            self.deny(policy, binding, request, &failure.message, failure.reason);
        }
        if binding.warns {
            self.warnings.push(format!(
                "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                policy.name, binding.name, failure.message
            ));
        }
        if binding.audits {
            let note = json!([{"message": failure.message, "policy": policy.name, "binding": binding.name,
                "expressionIndex": failure.expression, "validationActions": ["Audit"]}]);
            let key = "validation.policy.admission.k8s.io/validation_failure";
            self.annotations.push((key.to_owned(), note.to_string()));
        }
    }
}

/// Asks one policy with one parameter.
fn asked(
    policy: &Policy,
    params: Option<&Value>,
    bound: &mut Bound<'_>,
    verdict: &mut Verdict,
) -> Vec<Failure> {
    let mut purse = Purse::new();
    let world = bound.world;
    let scope = bound.scope(policy, params, world);
    match purse.is_matched(bound, &scope, policy) {
        Ok(true) => {}
        Ok(false) => return Vec::new(),
        Err(_) if !policy.fails => return Vec::new(),
        Err(message) => {
            return vec![Failure {
                message,
                reason: Reason::Invalid,
                expression: 0,
            }];
        }
    }
    let mut failures = Vec::new();
    for (at, validation) in policy.validations.iter().enumerate() {
        match purse.evaluate(bound, &scope, &validation.expression) {
            Ok(Cel::Bool(true)) => {}
            Err(_) if !policy.fails => {}
            Err(error) => failures.push(Failure {
                message: resulted(&validation.expression, &error.message),
                reason: Reason::Invalid,
                expression: at,
            }),
            Ok(_) => failures.push(Failure {
                message: message(validation, bound, &scope, &mut purse),
                reason: match validation.reason.as_deref() {
                    Some("Unauthorized") => Reason::Unauthorized,
                    Some("Forbidden") => Reason::Forbidden,
                    Some("RequestEntityTooLarge") => Reason::RequestEntityTooLarge,
                    _ => Reason::Invalid,
                },
                expression: at,
            }),
        }
    }
    for (key, expression) in &policy.annotations {
        match purse.evaluate(bound, &scope, expression) {
            Ok(Cel::String(text)) if !text.trim().is_empty() => {
                verdict
                    .annotations
                    .push((format!("{}/{key}", policy.name), text.to_string()));
            }
            Err(error) if policy.fails => failures.push(Failure {
                message: resulted(expression, &error.message),
                reason: Reason::Invalid,
                expression: 0,
            }),
            _ => {}
        }
    }
    failures
}

fn message(validation: &Validation, bound: &mut Bound<'_>, scope: &Scope<'_>, purse: &mut Purse) -> String {
    let made = validation.message_expression.as_ref().and_then(|expression| {
        match purse.evaluate(bound, scope, expression) {
            Ok(Cel::String(text)) => Some(text.trim().to_owned()),
            _ => None,
        }
    });
    let is_fit =
        |text: &String| !text.is_empty() && text.len() <= MAX_CEL_MESSAGE_BYTES && !text.contains('\n');
    match made.filter(is_fit) {
        Some(text) => text,
        None if validation.message.is_empty() => {
            format!("failed expression: {}", validation.expression.source())
        }
        None => validation.message.clone(),
    }
}
