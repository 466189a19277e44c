//! What is wrong with a policy or a binding, when it is written.

use super::compile::{items, names, text, variables};
use super::{GROUP, Sort};
use crate::cel::{CompileError, Names, Program, Type};
use crate::limits::{MAX_CEL_RULES, MAX_MATCH_CONDITIONS};
use crate::status_error::Cause;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn invalid(field: impl Into<String>, value: &Value, why: impl std::fmt::Display) -> Cause {
    Cause::invalid(field, value, why)
}

fn duplicate(field: String, value: &str) -> Cause {
    Cause {
        reason: "FieldValueDuplicate",
        message: format!("Duplicate value: {value:?}"),
        field,
    }
}

fn too_many(field: &str, given: usize, most: usize) -> Option<Cause> {
    (given > most).then(|| Cause {
        reason: "FieldValueTooMany",
        message: format!("Too many: {given}: must have at most {most} items"),
        field: field.to_owned(),
    })
}

/// What an expression may give.
enum Wanted {
    One(&'static str),
    Text,
    Object,
    Patch,
}

impl Wanted {
    fn takes(&self, of: &Type) -> bool {
        match self {
            Wanted::One(name) => *of == Type::plain(name),
            Wanted::Text => matches!(of, Type::Plain("string" | "null")),
            Wanted::Object => matches!(of, Type::Literal(name) if &**name == "Object"),
            Wanted::Patch => match of {
                Type::List(item) => {
                    item.is_open() || matches!(&**item, Type::Literal(name) if &**name == "JSONPatch")
                }
                _ => false,
            },
        }
    }

    fn told(&self) -> &'static str {
        match self {
            Wanted::One(name) => name,
            Wanted::Text => "one of [string null_type]",
            Wanted::Object => "Object",
            Wanted::Patch => "list(JSONPatch)",
        }
    }
}

struct Checker {
    causes: Vec<Cause>,
    names: Names,
}

impl Checker {
    /// Compiles an expression; none if it is wrong.
    fn expression(&mut self, at: &str, source: &str, wanted: Option<&Wanted>) -> Option<Type> {
        let parsed = Program::parse(source.trim()).and_then(|program| program.check(&self.names));
        let given = json!(source.trim());
        match parsed {
            Ok(of) => match wanted {
                Some(wanted) if !wanted.takes(&of) => {
                    let why = format!("must evaluate to {} but got {of}", wanted.told());
                    self.causes.push(invalid(at, &given, why));
                    None
                }
                _ => Some(of),
            },
            Err(error @ CompileError::Wrong(_)) => {
                self.causes.push(invalid(at, &given, error));
                None
            }
            Err(error) => {
                self.causes
                    .push(invalid(at, &given, format!("compilation failed: {error}")));
                None
            }
        }
    }

    fn required(&mut self, at: String, why: &str) {
        self.causes.push(Cause::required(at, why));
    }

    fn one_of(&mut self, at: &str, given: &str, known: &[&str]) {
        if !given.is_empty() && !known.contains(&given) {
            self.causes.push(Cause::not_supported(at, &json!(given), known));
        }
    }

    fn constraints(&mut self, at: &str, constraints: &Value, needs_rules: bool) {
        let rules = items(constraints, "/resourceRules");
        if needs_rules && rules.is_empty() {
            self.required(format!("{at}.resourceRules"), "");
        }
        self.one_of(
            &format!("{at}.matchPolicy"),
            text(constraints, "/matchPolicy"),
            &["Equivalent", "Exact"],
        );
        for key in ["resourceRules", "excludeResourceRules"] {
            for (n, rule) in items(constraints, &format!("/{key}")).iter().enumerate() {
                let at = format!("{at}.{key}[{n}]");
                for list in ["operations", "apiGroups", "apiVersions", "resources"] {
                    if items(rule, &format!("/{list}")).is_empty() {
                        self.required(format!("{at}.{list}"), "");
                    }
                }
                let known = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
                for (m, operation) in items(rule, "/operations").iter().enumerate() {
                    let operation = operation.as_str().unwrap_or_default();
                    self.one_of(&format!("{at}.operations[{m}]"), operation, &known);
                }
                self.one_of(
                    &format!("{at}.scope"),
                    text(rule, "/scope"),
                    &["*", "Cluster", "Namespaced"],
                );
            }
        }
        for key in ["namespaceSelector", "objectSelector"] {
            let Some(selector) = constraints.get(key).filter(|s| s.is_object()) else {
                continue;
            };
            let selector: crate::policy::LabelSelector =
                serde_json::from_value(selector.clone()).unwrap_or_default();
            for (n, requirement) in selector.match_expressions.iter().enumerate() {
                if let Err(error) = requirement.check() {
                    let at = format!("{at}.{key}.matchExpressions[{n}]");
                    self.causes.push(invalid(at, &json!(requirement.operator), error));
                }
            }
        }
    }

    fn conditions(&mut self, spec: &Value) {
        let conditions = items(spec, "/matchConditions");
        self.causes.extend(too_many(
            "spec.matchConditions",
            conditions.len(),
            MAX_MATCH_CONDITIONS,
        ));
        let mut seen = BTreeSet::new();
        for (n, condition) in conditions.iter().enumerate().take(MAX_MATCH_CONDITIONS) {
            let at = format!("spec.matchConditions[{n}]");
            match text(condition, "/expression").trim() {
                "" => self.required(format!("{at}.expression"), ""),
                source => {
                    self.expression(&format!("{at}.expression"), source, Some(&Wanted::One("bool")));
                }
            }
            match text(condition, "/name") {
                "" => self.required(format!("{at}.name"), ""),
                name if !seen.insert(name.to_owned()) => {
                    self.causes.push(duplicate(format!("{at}.name"), name))
                }
                name => {
                    if let Some(why) = not_qualified(name) {
                        self.causes.push(invalid(format!("{at}.name"), &json!(name), why));
                    }
                }
            }
        }
    }

    fn variables(&mut self, spec: &Value) {
        let given = items(spec, "/variables");
        self.causes
            .extend(too_many("spec.variables", given.len(), MAX_CEL_RULES));
        let mut known: Vec<(String, Type)> = Vec::new();
        for (n, variable) in given.iter().enumerate().take(MAX_CEL_RULES) {
            let at = format!("spec.variables[{n}]");
            let name = text(variable, "/name");
            if name.is_empty() {
                self.required(format!("{at}.name"), "name is not specified");
            } else if !is_name(name) {
                let why = "must be a valid CEL identifier";
                self.causes.push(invalid(format!("{at}.name"), &json!(name), why));
            } else if known.iter().any(|(k, _)| k == name) {
                self.causes.push(duplicate(format!("{at}.name"), name));
            }
            self.names
                .variables
                .insert("variables".to_owned(), variables(&known));
            let of = match text(variable, "/expression").trim() {
                "" => {
                    self.required(format!("{at}.expression"), "expression is not specified");
                    None
                }
                source => self.expression(&format!("{at}.expression"), source, None),
            };
            known.push((name.to_owned(), of.unwrap_or(Type::Dyn)));
        }
        self.names
            .variables
            .insert("variables".to_owned(), variables(&known));
    }

    fn validations(&mut self, spec: &Value) {
        let given = items(spec, "/validations");
        self.causes
            .extend(too_many("spec.validations", given.len(), MAX_CEL_RULES));
        for (n, validation) in given.iter().enumerate().take(MAX_CEL_RULES) {
            let at = format!("spec.validations[{n}]");
            match text(validation, "/expression").trim() {
                "" => self.required(format!("{at}.expression"), "expression is not specified"),
                source => {
                    self.expression(&format!("{at}.expression"), source, Some(&Wanted::One("bool")));
                }
            }
            match text(validation, "/messageExpression").trim() {
                "" => {}
                source => {
                    // Whoever is refused is not told what others may do.
                    let authorizer = self.names.variables.remove("authorizer");
                    self.expression(
                        &format!("{at}.messageExpression"),
                        source,
                        Some(&Wanted::One("string")),
                    );
                    if let Some(authorizer) = authorizer {
                        self.names.variables.insert("authorizer".to_owned(), authorizer);
                    }
                }
            }
            let message = text(validation, "/message");
            if message.trim().contains('\n') {
                let why = "must not contain line breaks";
                self.causes
                    .push(invalid(format!("{at}.message"), &json!(message), why));
            } else if !message.is_empty() && message.trim().is_empty() {
                let why = "message must be non-empty if specified";
                self.causes
                    .push(invalid(format!("{at}.message"), &json!(message), why));
            }
            let known = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
            self.one_of(&format!("{at}.reason"), text(validation, "/reason"), &known);
        }
    }

    fn annotations(&mut self, spec: &Value, name: &str) {
        let given = items(spec, "/auditAnnotations");
        self.causes
            .extend(too_many("spec.auditAnnotations", given.len(), MAX_CEL_RULES));
        let mut seen = BTreeSet::new();
        for (n, annotation) in given.iter().enumerate().take(MAX_CEL_RULES) {
            let at = format!("spec.auditAnnotations[{n}]");
            let key = text(annotation, "/key");
            let full = format!("{name}/{key}");
            if key.is_empty() {
                self.required(format!("{at}.key"), "");
            } else if let Some(why) = not_qualified(key) {
                self.causes.push(invalid(format!("{at}.key"), &json!(full), why));
            } else if !seen.insert(key.to_owned()) {
                self.causes.push(duplicate(format!("{at}.key"), key));
            }
            match text(annotation, "/valueExpression").trim() {
                "" => self.required(
                    format!("{at}.valueExpression"),
                    "valueExpression is not specified",
                ),
                source => {
                    self.expression(&format!("{at}.valueExpression"), source, Some(&Wanted::Text));
                }
            }
        }
    }

    fn mutations(&mut self, spec: &Value) {
        let given = items(spec, "/mutations");
        self.causes
            .extend(too_many("spec.mutations", given.len(), MAX_CEL_RULES));
        if given.is_empty() {
            self.required(
                "spec.mutations".to_owned(),
                "mutations must contain at least one item",
            );
        }
        self.names.has_literals = true;
        for (n, mutation) in given.iter().enumerate().take(MAX_CEL_RULES) {
            let at = format!("spec.mutations[{n}]");
            let known = ["ApplyConfiguration", "JSONPatch"];
            let (key, other, wanted) = match text(mutation, "/patchType") {
                "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", Wanted::Object),
                "JSONPatch" => ("jsonPatch", "applyConfiguration", Wanted::Patch),
                "" => {
                    self.causes.push(Cause::required(format!("{at}.patchType"), ""));
                    continue;
                }
                word => {
                    self.causes.push(Cause::not_supported(
                        format!("{at}.patchType"),
                        &json!(word),
                        &known,
                    ));
                    continue;
                }
            };
            let word = text(mutation, "/patchType");
            if mutation.get(other).is_some_and(|o| o.is_object()) {
                let why = format!("must not be specified when patchType is {word}");
                self.causes.push(Cause::forbidden(format!("{at}.{other}"), why));
            }
            if !mutation.get(key).is_some_and(Value::is_object) {
                self.required(
                    format!("{at}.{key}"),
                    &format!("must be specified when patchType is {word}"),
                );
                continue;
            }
            let field = format!("{at}.{key}.expression");
            match text(mutation, &format!("/{key}/expression")).trim() {
                "" => self.required(field, ""),
                source => {
                    self.expression(&field, source, Some(&wanted));
                }
            }
        }
        self.one_of(
            "spec.reinvocationPolicy",
            text(spec, "/reinvocationPolicy"),
            &["IfNeeded", "Never"],
        );
    }

    fn param_kind(&mut self, spec: &Value) {
        let Some(kind) = spec.get("paramKind").filter(|k| k.is_object()) else {
            return;
        };
        match text(kind, "/apiVersion") {
            "" => self.required("spec.paramKind.apiVersion".to_owned(), ""),
            version if version.matches('/').count() > 1 => {
                let why = format!("unexpected GroupVersion string: {version}");
                self.causes
                    .push(invalid("spec.paramKind.apiVersion", &json!(version), why));
            }
            _ => {}
        }
        if text(kind, "/kind").is_empty() {
            self.required("spec.paramKind.kind".to_owned(), "");
        }
    }
}

/// What is wrong with a policy.
pub fn check(sort: Sort, object: &Value) -> Vec<Cause> {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let has_params = spec.get("paramKind").is_some_and(Value::is_object);
    let mut checker = Checker {
        causes: Vec::new(),
        names: names(has_params),
    };
    checker.one_of(
        "spec.failurePolicy",
        text(spec, "/failurePolicy"),
        &["Fail", "Ignore"],
    );
    checker.param_kind(spec);
    match spec.get("matchConstraints").filter(|m| m.is_object()) {
        Some(constraints) => checker.constraints("spec.matchConstraints", constraints, true),
        None => checker.required("spec.matchConstraints".to_owned(), ""),
    }
    checker.conditions(spec);
    checker.variables(spec);
    match sort {
        Sort::Mutating => checker.mutations(spec),
        Sort::Validating => {
            if items(spec, "/validations").is_empty() && items(spec, "/auditAnnotations").is_empty() {
                let why = "validations or auditAnnotations must contain at least one item";
                checker.required("spec.validations".to_owned(), why);
                checker.required("spec.auditAnnotations".to_owned(), why);
            }
            checker.validations(spec);
            checker.annotations(spec, text(object, "/metadata/name"));
        }
    }
    checker.causes
}

/// What is wrong with a binding.
pub fn check_binding(sort: Sort, object: &Value) -> Vec<Cause> {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let mut checker = Checker {
        causes: Vec::new(),
        names: Names::default(),
    };
    if text(spec, "/policyName").is_empty() {
        checker.required("spec.policyName".to_owned(), "");
    }
    if let Some(param) = spec.get("paramRef").filter(|p| p.is_object()) {
        let (has_name, has_selector) = (
            !text(param, "/name").is_empty(),
            param.get("selector").is_some_and(Value::is_object),
        );
        match (has_name, has_selector) {
            (true, true) => {
                for key in ["name", "selector"] {
                    let why = "name and selector are mutually exclusive";
                    checker
                        .causes
                        .push(Cause::forbidden(format!("spec.paramRef.{key}"), why));
                }
            }
            (false, false) => {
                checker.required(
                    "spec.paramRef".to_owned(),
                    "one of name or selector must be specified",
                );
            }
            _ => {}
        }
        match text(param, "/parameterNotFoundAction") {
            "" => checker.required("spec.paramRef.parameterNotFoundAction".to_owned(), ""),
            word => checker.one_of("spec.paramRef.parameterNotFoundAction", word, &["Allow", "Deny"]),
        }
    }
    if let Some(constraints) = spec.get("matchResources").filter(|m| m.is_object()) {
        checker.constraints("spec.matchResources", constraints, false);
    }
    if sort == Sort::Mutating {
        return checker.causes;
    }
    let actions: Vec<&str> = items(spec, "/validationActions")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    if actions.is_empty() {
        let why = "at least one validation action is required";
        checker.required("spec.validationActions".to_owned(), why);
    }
    let mut seen = BTreeSet::new();
    for (n, action) in actions.iter().enumerate() {
        let at = format!("spec.validationActions[{n}]");
        checker.one_of(&at, action, &["Audit", "Deny", "Warn"]);
        if !seen.insert(*action) {
            checker.causes.push(duplicate(at, action));
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                   response and headers serves no purpose)";
        checker
            .causes
            .push(invalid("spec.validationActions", &json!(actions), why));
    }
    checker.causes
}

/// Whether a resource is that of policies (true) or bindings, and of which sort.
pub fn sort_of(group: &str, plural: &str) -> Option<(Sort, bool)> {
    if group != GROUP {
        return None;
    }
    [Sort::Validating, Sort::Mutating]
        .into_iter()
        .find_map(|sort| match plural {
            word if word == sort.policies() => Some((sort, true)),
            word if word == sort.bindings() => Some((sort, false)),
            _ => None,
        })
}

fn is_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c == '_' || c.is_ascii_alphabetic())
        && chars.all(|c| c == '_' || c.is_ascii_alphanumeric())
}

/// Why a text is no qualified name.
fn not_qualified(name: &str) -> Option<&'static str> {
    let part = name.rsplit('/').next().unwrap_or_default();
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    if part.len() > 63 {
        return Some("name part must be no more than 63 bytes");
    }
    let is_good = part.chars().all(is_part) && ends(part.chars().next()) && ends(part.chars().last());
    (!is_good).then_some(
        "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
         character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
         '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
    )
}
