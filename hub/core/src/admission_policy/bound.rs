//! What the expressions of a policy see of a write.

use super::compile::Policy;
use super::{Request, World};
use crate::cel::{Authorize, Budget, EvalError, Outcome, Program, Scope, Value as Cel, from_json};
use crate::convert;
use crate::limits::{MAX_CEL_CALL_COST, MAX_CEL_REQUEST_COST, MAX_CEL_TOTAL_COST};
use crate::types::Resource;
use serde_json::{Value, json};

/// A write as values, made once for all policies.
pub(super) struct Bound<'a> {
    pub(super) request: &'a Request<'a>,
    pub(super) world: &'a dyn World,
    object: Cel,
    old: Cel,
    attributes: Cel,
    namespace: Cel,
    /// What all policies may still cost.
    left: u64,
}

impl<'a> Bound<'a> {
    pub(super) fn new(request: &'a Request<'a>, world: &'a dyn World) -> Bound<'a> {
        let value = |object: Option<&Value>| object.map_or(Cel::Null, from_json);
        let namespace = match request.namespace {
            "" => None,
            name => world.namespace(name),
        };
        Bound {
            request,
            world,
            object: value(request.object),
            old: value(request.old),
            attributes: from_json(&attributes(request, None)),
            namespace: value(namespace.as_ref()),
            left: MAX_CEL_REQUEST_COST,
        }
    }

    /// The same write as one of the same object through another resource.
    pub(super) fn through(&self, other: &Resource) -> Bound<'a> {
        let value = |object: Option<&Value>| {
            let object = object.map(|object| converted(self.request, other, object));
            object.as_ref().map_or(Cel::Null, from_json)
        };
        Bound {
            request: self.request,
            world: self.world,
            object: value(self.request.object),
            old: value(self.request.old),
            attributes: from_json(&attributes(self.request, Some(other))),
            namespace: self.namespace.clone(),
            left: self.left,
        }
    }

    /// What was spent on the same write seen through another resource is spent.
    pub(super) fn spent_by(&mut self, other: &Bound<'_>) {
        self.left = other.left;
    }

    /// The object changed.
    pub(super) fn set_object(&mut self, object: &Value) {
        self.object = from_json(object);
    }

    /// What one policy's expressions can name.
    pub(super) fn scope<'p>(
        &self,
        policy: &'p Policy,
        params: Option<&Value>,
        authorize: &'p dyn Authorize,
    ) -> Scope<'p> {
        let mut scope = Scope::default();
        scope.set("object", self.object.clone());
        scope.set("oldObject", self.old.clone());
        scope.set("request", self.attributes.clone());
        scope.set("namespaceObject", self.namespace.clone());
        if let Some(params) = params {
            scope.set("params", from_json(params));
        }
        for (name, program) in &policy.variables {
            scope.add_variable(name, program);
        }
        scope.set_authorizer(authorize);
        scope
    }
}

/// What one policy may still cost for one write.
pub(super) struct Purse {
    left: u64,
}

impl Purse {
    pub(super) fn new() -> Purse {
        Purse {
            left: MAX_CEL_TOTAL_COST,
        }
    }

    /// Evaluates an expression within everything that bounds it.
    pub(super) fn evaluate(
        &mut self,
        bound: &mut Bound<'_>,
        scope: &Scope<'_>,
        program: &Program,
    ) -> Outcome {
        let most = self.left.min(bound.left).min(MAX_CEL_CALL_COST);
        if most == 0 {
            return Err(EvalError {
                message: "validation failed due to running out of cost budget, no further validation rules will be run"
                    .to_owned(),
                is_cost: true,
            });
        }
        let mut budget = Budget::new(most);
        let outcome = scope.evaluate(program, &mut budget);
        let spent = most - budget.left();
        self.left -= spent;
        bound.left -= spent;
        outcome
    }

    /// Whether all conditions of a policy hold. One that does not settles it, whatever errors others have.
    ///
    /// # Errors
    /// What went wrong.
    pub(super) fn is_matched(
        &mut self,
        bound: &mut Bound<'_>,
        scope: &Scope<'_>,
        policy: &Policy,
    ) -> Result<bool, String> {
        let mut errors = Vec::new();
        for condition in &policy.conditions {
            match self.evaluate(bound, scope, condition) {
                Ok(Cel::Bool(true)) => {}
                Ok(Cel::Bool(false)) => return Ok(false),
                Ok(_) => errors.push(resulted(condition, "no such overload")),
                Err(error) => errors.push(resulted(condition, &error.message)),
            }
        }
        match errors.as_slice() {
            [] => Ok(true),
            [one] => Err(one.clone()),
            many => Err(format!("[{}]", many.join(", "))),
        }
    }
}

/// An error with its expression.
pub(super) fn resulted(program: &Program, why: &str) -> String {
    format!("expression '{}' resulted in error: {why}", program.source())
}

/// An object of a write as another resource shows it; a subresource of a kind of its own is the same in all.
pub(super) fn converted(request: &Request<'_>, to: &Resource, object: &Value) -> Value {
    match request.kind.2 == &*request.resource.kind {
        true => convert::to(to, object.clone()),
        false => object.clone(),
    }
}

fn attributes(request: &Request<'_>, through: Option<&Resource>) -> Value {
    let kind_of = |(group, version, kind): (&str, &str, &str)| json!({"group": group, "version": version, "kind": kind});
    let target_of = |r: &Resource| json!({"group": r.group, "version": r.version, "resource": r.plural});
    let (asked_kind, asked) = (kind_of(request.kind), target_of(request.resource));
    let (kind, target) = match through {
        None => (asked_kind.clone(), asked.clone()),
        Some(other) if request.kind.2 == &*request.resource.kind => (
            kind_of((&other.group, &other.version, &other.kind)),
            target_of(other),
        ),
        Some(other) => (asked_kind.clone(), target_of(other)),
    };
    let user = request.user;
    let mut info = json!({"username": user.name, "uid": user.uid, "groups": user.groups});
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    let options = match request.operation {
        "CREATE" => "CreateOptions",
        "DELETE" => "DeleteOptions",
        _ => "UpdateOptions",
    };
    json!({
        "kind": kind, "resource": target, "subResource": request.subresource,
        "requestKind": asked_kind, "requestResource": asked, "requestSubResource": request.subresource,
        "name": request.name, "namespace": request.namespace, "operation": request.operation,
        "userInfo": info, "dryRun": request.is_dry,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": options},
    })
}
