//! What MutatingAdmissionPolicies make of an object.

use super::bound::{Bound, Purse, converted, resulted};
use super::compile::{Binding, Mutation, Policy};
use super::matching::Meant;
use super::{Request, Set, World, params};
use crate::cel::{Scope, Value as Cel, to_json};
use crate::patch::{self, PatchError};
use crate::status_error::{Cause, Reason, StatusError};
use serde_json::Value;

/// Merges a configuration into an object as server-side apply does; the text says why it cannot.
pub type Merge<'a> = &'a dyn Fn(&Value, &Value) -> Result<Value, String>;

/// The object after all policies, or none if they change nothing.
///
/// # Errors
/// A policy whose errors refuse the write.
pub fn mutate(
    set: &Set,
    request: &Request<'_>,
    world: &dyn World,
    merge: Merge<'_>,
) -> Result<Option<Value>, StatusError> {
    let Some(given) = request.object.filter(|_| !set.is_empty()) else {
        return Ok(None);
    };
    let mut pass = Pass {
        bound: Bound::new(request, world),
        object: given.clone(),
        merge,
    };
    // When each policy ran, and when something changed last.
    let mut ran = Vec::new();
    let (mut step, mut changed) = (0, 0);
    for (at, (policy, bindings)) in set.policies.iter().enumerate() {
        let before = pass.object.clone();
        if pass.run(policy, bindings)? {
            step += 1;
            ran.push((at, step));
            if pass.object != before {
                changed = step;
            }
        }
    }
    for (at, when) in ran {
        let Some((policy, bindings)) = set.policies.get(at) else {
            continue;
        };
        if policy.is_reinvoked && changed > when {
            pass.run(policy, bindings)?;
        }
    }
    Ok((pass.object != *given).then_some(pass.object))
}

struct Pass<'a> {
    bound: Bound<'a>,
    object: Value,
    merge: Merge<'a>,
}

impl Pass<'_> {
    /// Runs a policy; whether it was about this write at all.
    fn run(&mut self, policy: &Policy, bindings: &[std::sync::Arc<Binding>]) -> Result<bool, StatusError> {
        let (given, world) = (*self.bound.request, self.bound.world);
        // Selectors look at the object as it is by now.
        let object = self.object.clone();
        let request = Request {
            object: Some(&object),
            ..given
        };
        let other = match policy.matching.meant(&request, world, false) {
            Meant::Not => return Ok(false),
            Meant::AsIs => None,
            Meant::Through(other) => Some(other),
        };
        let Some(other) = other else {
            return self.run_bindings(policy, bindings, &request);
        };
        // The policy sees and changes the object as the other resource shows it.
        self.object = converted(&given, &other, &object);
        let mut seen = self.bound.through(&other);
        seen.set_object(&self.object);
        std::mem::swap(&mut self.bound, &mut seen);
        let outcome = self.run_bindings(policy, bindings, &request);
        std::mem::swap(&mut self.bound, &mut seen);
        self.bound.spent_by(&seen);
        self.object = converted(&given, given.resource, &self.object);
        self.bound.set_object(&self.object);
        outcome
    }

    /// Runs a policy that is about this write with all its bindings; whether there was one.
    fn run_bindings(
        &mut self,
        policy: &Policy,
        bindings: &[std::sync::Arc<Binding>],
        request: &Request<'_>,
    ) -> Result<bool, StatusError> {
        let (given, world) = (*self.bound.request, self.bound.world);
        let mut has_run = false;
        for binding in bindings {
            let is_meant = |m: &super::matching::Match| m.matches(request, world, true);
            if !binding.matching.as_ref().is_none_or(is_meant) {
                continue;
            }
            match params::of(policy, binding, request, world) {
                Ok(all) => {
                    for params in all {
                        has_run = true;
                        self.apply(policy, binding, params.as_ref())?;
                    }
                }
                Err(_) if !policy.fails => {}
                Err(why) => return Err(denied(policy, binding, &given, &why, Reason::Forbidden)),
            }
        }
        Ok(has_run)
    }

    fn apply(
        &mut self,
        policy: &Policy,
        binding: &Binding,
        params: Option<&Value>,
    ) -> Result<(), StatusError> {
        let mut purse = Purse::new();
        let (request, world) = (*self.bound.request, self.bound.world);
        let scope = self.bound.scope(policy, params, world);
        match purse.is_matched(&mut self.bound, &scope, policy) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(_) if !policy.fails => return Ok(()),
            Err(why) => return Err(denied(policy, binding, &request, &why, Reason::Invalid)),
        }
        for mutation in &policy.mutations {
            // What an earlier mutation changed, this one and its variables see.
            let scope = self.bound.scope(policy, params, world);
            match self.made(mutation, &scope, &mut purse) {
                Ok(object) => {
                    self.bound.set_object(&object);
                    self.object = object;
                }
                Err(_) if !policy.fails => {}
                Err(why) => return Err(denied(policy, binding, &request, &why, Reason::Invalid)),
            }
        }
        Ok(())
    }

    fn made(&mut self, mutation: &Mutation, scope: &Scope<'_>, purse: &mut Purse) -> Result<Value, String> {
        let expression = &mutation.expression;
        let outcome = purse.evaluate(&mut self.bound, scope, expression);
        let value = outcome.map_err(|error| resulted(expression, &error.message))?;
        if mutation.is_apply && matches!(value, Cel::Null) {
            return Ok(self.object.clone());
        }
        let mut patch = to_json(&value).map_err(|error| resulted(expression, &error.message))?;
        if mutation.is_apply {
            if let (Some(members), Some(object)) = (patch.as_object_mut(), self.object.as_object()) {
                for key in ["apiVersion", "kind"] {
                    members.insert(key.to_owned(), object.get(key).cloned().unwrap_or(Value::Null));
                }
            }
            return (self.merge)(&self.object, &patch);
        }
        let mut object = self.object.clone();
        for operation in patch.as_array_mut().into_iter().flatten() {
            let Some(members) = operation.as_object_mut() else {
                continue;
            };
            let needs_value = members
                .get("op")
                .is_some_and(|op| op == "add" || op == "replace" || op == "test");
            if needs_value {
                members.entry("value").or_insert(Value::Null);
            }
        }
        let is_test = |operation: &Value| operation.get("op").is_some_and(|op| op == "test");
        for operation in patch.as_array().into_iter().flatten() {
            match patch::json::apply(&mut object, &Value::Array(vec![operation.clone()])) {
                Ok(()) => {}
                // A test that fails means: not this object.
                Err(PatchError::Refused) if is_test(operation) => return Ok(self.object.clone()),
                Err(error) => return Err(format!("JSON Patch: {error}")),
            }
        }
        Ok(object)
    }
}

fn denied(
    policy: &Policy,
    binding: &Binding,
    request: &Request<'_>,
    why: &str,
    reason: Reason,
) -> StatusError {
    let message = format!(
        "policy '{}' with binding '{}' denied request: {why}",
        policy.name, binding.name
    );
    let resource = request.resource;
    let mut error = StatusError::forbidden(&resource.group, &resource.plural, request.name, &message);
    error.message.clone_from(&message);
    error.reason = reason;
    error.forced_code = Some(Reason::Forbidden.code());
    if let Some(details) = &mut error.details {
        details.causes.push(Cause {
            reason: "",
            message,
            field: String::new(),
        });
    }
    error
}
