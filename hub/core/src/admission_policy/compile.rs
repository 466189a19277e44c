//! Policies and bindings, ready to act.

use super::Sort;
use super::matching::Match;
use crate::cel::{CompileError, Names, ObjectType, Program, Type};
use crate::policy::LabelSelector;
use serde_json::Value;
use std::sync::Arc;

/// A policy.
#[derive(Debug)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// Whether an error refuses the write.
    pub(super) fails: bool,
    pub(super) matching: Match,
    pub(super) param_kind: Option<(String, String)>,
    pub(super) conditions: Vec<Program>,
    pub(super) variables: Vec<(String, Program)>,
    pub(super) validations: Vec<Validation>,
    pub(super) annotations: Vec<(String, Program)>,
    pub(super) mutations: Vec<Mutation>,
    pub(super) is_reinvoked: bool,
}

#[derive(Debug)]
pub(super) struct Validation {
    pub(super) expression: Program,
    pub(super) message: String,
    pub(super) message_expression: Option<Program>,
    pub(super) reason: Option<String>,
}

#[derive(Debug)]
pub(super) struct Mutation {
    pub(super) expression: Program,
    pub(super) is_apply: bool,
}

/// A binding.
#[derive(Debug)]
pub struct Binding {
    /// Its name.
    pub name: String,
    /// The policy.
    pub policy: String,
    pub(super) matching: Option<Match>,
    pub(super) param: Option<ParamRef>,
    pub(super) denies: bool,
    pub(super) warns: bool,
    pub(super) audits: bool,
}

#[derive(Debug)]
pub(super) struct ParamRef {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) selector: Option<LabelSelector>,
    /// Whether the write is refused if there is none.
    pub(super) is_needed: bool,
}

pub(super) fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn items<'v>(value: &'v Value, pointer: &str) -> &'v [Value] {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Names with the types of a request; `params` only if the policy has some.
pub(super) fn names(has_params: bool) -> Names {
    let string = || Type::plain("string");
    let object = |name: &str, fields: &[(&str, Type)]| {
        Type::Object(Arc::new(ObjectType {
            name: name.to_owned(),
            fields: fields.iter().map(|(n, t)| ((*n).to_owned(), t.clone())).collect(),
        }))
    };
    let kind = object(
        "kubernetes.GroupVersionKind",
        &[("group", string()), ("version", string()), ("kind", string())],
    );
    let resource = object(
        "kubernetes.GroupVersionResource",
        &[("group", string()), ("version", string()), ("resource", string())],
    );
    let user = object(
        "kubernetes.UserInfo",
        &[
            ("username", string()),
            ("uid", string()),
            ("groups", Type::list(string())),
            ("extra", Type::map(Type::list(string()))),
        ],
    );
    let request = object(
        "kubernetes.AdmissionRequest",
        &[
            ("kind", kind.clone()),
            ("resource", resource.clone()),
            ("subResource", string()),
            ("requestKind", kind),
            ("requestResource", resource),
            ("requestSubResource", string()),
            ("name", string()),
            ("namespace", string()),
            ("operation", string()),
            ("userInfo", user),
            ("dryRun", Type::plain("bool")),
            ("options", Type::Dyn),
        ],
    );
    let metadata = object(
        "kubernetes.NamespaceMetadata",
        &[
            ("name", string()),
            ("generateName", string()),
            ("namespace", string()),
            ("labels", Type::map(string())),
            ("annotations", Type::map(string())),
            ("UID", string()),
            ("creationTimestamp", Type::plain("timestamp")),
            ("deletionGracePeriodSeconds", Type::plain("int")),
            ("deletionTimestamp", Type::plain("timestamp")),
            ("generation", Type::plain("int")),
            ("resourceVersion", string()),
            ("finalizers", Type::list(string())),
        ],
    );
    let spec = object(
        "kubernetes.NamespaceSpec",
        &[("finalizers", Type::list(string()))],
    );
    let status = object("kubernetes.NamespaceStatus", &[("phase", string())]);
    let namespace = object(
        "kubernetes.Namespace",
        &[("metadata", metadata), ("spec", spec), ("status", status)],
    );
    let names = Names::default()
        .with("object", Type::Dyn)
        .with("oldObject", Type::Dyn)
        .with("request", request)
        .with("namespaceObject", namespace)
        .with("authorizer", Type::plain("authorizer"));
    if has_params {
        names.with("params", Type::Dyn)
    } else {
        names
    }
}

/// The type of `variables`.
pub(super) fn variables(known: &[(String, Type)]) -> Type {
    Type::Object(Arc::new(ObjectType {
        name: "kubernetes.variables".to_owned(),
        fields: known.iter().cloned().collect(),
    }))
}

impl Policy {
    /// Compiles a stored policy, which was checked when it was written.
    ///
    /// # Errors
    /// An expression that this hub cannot parse.
    pub fn compile(sort: Sort, object: &Value) -> Result<Policy, CompileError> {
        let program = |value: &Value, key: &str| Program::parse(text(value, key).trim());
        let mut policy = Policy {
            name: text(object, "/metadata/name").to_owned(),
            fails: text(object, "/spec/failurePolicy") != "Ignore",
            matching: Match::read(object.pointer("/spec/matchConstraints").unwrap_or(&Value::Null)),
            param_kind: object
                .pointer("/spec/paramKind")
                .filter(|k| k.is_object())
                .map(|kind| {
                    (
                        text(kind, "/apiVersion").to_owned(),
                        text(kind, "/kind").to_owned(),
                    )
                }),
            conditions: Vec::new(),
            variables: Vec::new(),
            validations: Vec::new(),
            annotations: Vec::new(),
            mutations: Vec::new(),
            is_reinvoked: text(object, "/spec/reinvocationPolicy") == "IfNeeded",
        };
        for condition in items(object, "/spec/matchConditions") {
            policy.conditions.push(program(condition, "/expression")?);
        }
        for variable in items(object, "/spec/variables") {
            let name = text(variable, "/name").to_owned();
            policy.variables.push((name, program(variable, "/expression")?));
        }
        if sort == Sort::Mutating {
            for mutation in items(object, "/spec/mutations") {
                let is_apply = text(mutation, "/patchType") == "ApplyConfiguration";
                let at = if is_apply {
                    "/applyConfiguration/expression"
                } else {
                    "/jsonPatch/expression"
                };
                policy.mutations.push(Mutation {
                    expression: program(mutation, at)?,
                    is_apply,
                });
            }
            return Ok(policy);
        }
        for validation in items(object, "/spec/validations") {
            let message_expression = match text(validation, "/messageExpression").trim() {
                "" => None,
                source => Some(Program::parse(source)?),
            };
            policy.validations.push(Validation {
                expression: program(validation, "/expression")?,
                message: text(validation, "/message").trim().to_owned(),
                message_expression,
                reason: Some(text(validation, "/reason").to_owned()).filter(|r| !r.is_empty()),
            });
        }
        for annotation in items(object, "/spec/auditAnnotations") {
            let key = text(annotation, "/key").to_owned();
            policy
                .annotations
                .push((key, program(annotation, "/valueExpression")?));
        }
        Ok(policy)
    }
}

impl Binding {
    /// Reads a stored binding.
    pub fn read(object: &Value) -> Binding {
        let has = |action: &str| {
            items(object, "/spec/validationActions")
                .iter()
                .any(|a| a == action)
        };
        let param = object
            .pointer("/spec/paramRef")
            .filter(|p| p.is_object())
            .map(|param| {
                let selector = param.get("selector").filter(|s| s.is_object());
                ParamRef {
                    name: text(param, "/name").to_owned(),
                    namespace: text(param, "/namespace").to_owned(),
                    selector: selector.map(|s| serde_json::from_value(s.clone()).unwrap_or_default()),
                    is_needed: text(param, "/parameterNotFoundAction") != "Allow",
                }
            });
        let matching = object.pointer("/spec/matchResources").filter(|m| m.is_object());
        Binding {
            name: text(object, "/metadata/name").to_owned(),
            policy: text(object, "/spec/policyName").to_owned(),
            matching: matching.map(Match::read),
            param,
            denies: has("Deny"),
            warns: has("Warn"),
            audits: has("Audit"),
        }
    }
}
