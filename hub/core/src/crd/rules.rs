//! Rules of a schema (`x-kubernetes-validations`): compiled when the definition is checked, asked for every object.
//!
//! The walk over an object and its schema is [`super`]'s: it comes to a node, finds what stood there before (list items by
//! their keys, as list-type map says) and asks the rules of the node. Which language they are written in is known here alone.

use crate::cel::{
    Bounds, Budget, CompileError, Lists, Names, Program, Scope, Shape, Type, Value as Cel, optional,
};
use crate::limits::{
    MAX_CEL_CALL_COST, MAX_CEL_ESTIMATE, MAX_CEL_MESSAGE_BYTES, MAX_CEL_RULES, MAX_CEL_SCHEMA_ESTIMATE,
    MAX_CEL_TOTAL_COST,
};
use crate::status_error::Cause;
use serde_json::{Value, json};
use std::sync::Arc;

/// Where in a definition a node of its schema is.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Path of the node, such as `spec.versions[0].schema.openAPIV3Schema.properties[spec]`.
    pub path: &'a str,
    /// The root of the schema: `apiVersion`, `kind` and `metadata` can be read there, even if the schema names none.
    pub is_root: bool,
    /// The product of `maxItems`, `maxProperties` and the like around the node: how often its rules may be asked for one
    /// object; `None` if nothing bounds it.
    pub most: Option<u64>,
    /// The first node around it whose values cannot be told apart in two states of an object, such as the items of a list
    /// without keys: there is no `oldSelf` below it.
    pub uncorrelated: Option<&'a str>,
}

/// What the rules of one schema may cost together, as estimated before any of them ran.
#[derive(Debug, Default)]
pub struct Estimates {
    is_unchanged: bool,
    total: u64,
    /// The dearest rules with their places, dearest first.
    dearest: Vec<(String, u64)>,
}

impl Estimates {
    /// Nothing yet. No single rule of a schema is refused that is stored like this already.
    pub fn new(is_unchanged: bool) -> Estimates {
        Estimates {
            is_unchanged,
            ..Estimates::default()
        }
    }

    /// Adds an expression; a refusal if it is too dear by itself.
    fn add(&mut self, at: &str, what: &str, cost: u64) -> Option<Cause> {
        self.total = self.total.saturating_add(cost);
        if cost >= MAX_CEL_SCHEMA_ESTIMATE / 100 {
            self.dearest.push((at.to_owned(), cost));
            self.dearest.sort_by(|(_, a), (_, b)| b.cmp(a));
            self.dearest.truncate(4);
        }
        let is_refused = cost > MAX_CEL_ESTIMATE && !self.is_unchanged;
        is_refused.then(|| Cause::forbidden(at, excess(what, cost, MAX_CEL_ESTIMATE)))
    }

    /// Refusals of all rules together. `at` is the place of the schema.
    pub fn refusals(&self, at: &str) -> Vec<Cause> {
        if self.total <= MAX_CEL_SCHEMA_ESTIMATE {
            return Vec::new();
        }
        let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        let mut out: Vec<Cause> = self
            .dearest
            .iter()
            .map(|(at, _)| Cause::forbidden(at, why))
            .collect();
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        out.push(Cause::forbidden(
            at,
            excess(what, self.total, MAX_CEL_SCHEMA_ESTIMATE),
        ));
        out
    }
}

#[expect(clippy::cast_precision_loss, reason = "for a message")]
fn excess(what: &str, cost: u64, limit: u64) -> String {
    let times = cost as f64 / limit as f64;
    let factor = if times > 100.0 {
        "more than 100x".to_owned()
    } else if times < 1.5 {
        format!("{times:.6}x")
    } else {
        format!("{times:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}

/// The value that rules are asked about.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// What stands at the node now.
    pub value: &'a Value,
    /// What stood there before; none for a create, for an item that was not there, and in lists without keys. Rules about
    /// changes (`oldSelf`) are not asked then, but for those with `optionalOldSelf`.
    pub old: Option<&'a Value>,
    /// Path of the value in the object, such as `spec.ports[0]`; empty at the root.
    pub path: &'a str,
}

/// What the rules of one object have cost together; bounded for the object as a whole.
#[derive(Debug, Default)]
pub struct Spent {
    /// In the unit of the language's cost model.
    pub cost: u64,
}

/// The rules of one node of a schema.
#[derive(Debug, Clone)]
pub struct NodeRules {
    rules: Arc<[Rule]>,
    shape: Arc<Shape>,
    /// `type` of the node.
    of: Arc<str>,
}

#[derive(Debug)]
struct Rule {
    rule: Program,
    message: String,
    message_expression: Option<Program>,
    reason: Reason,
    /// What to add to the path of the value.
    field: String,
    uses_old: bool,
    is_old_optional: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    Invalid,
    Forbidden,
    Required,
    Duplicate,
}

/// Compiles the rules of a node. `node` is the node's whole JSON schema with everything below it (types for the rules).
/// Their form (there is a rule, its message is a line, its reason is known) is checked by the caller. What they cost, and
/// that they can be asked about changes, is checked with `estimates`: what was stored before it was checked goes on.
///
/// # Errors
/// What is wrong with them, as causes of the definition.
pub fn compile(
    node: &Value,
    place: Place<'_>,
    mut estimates: Option<&mut Estimates>,
) -> Result<Option<NodeRules>, Vec<Cause>> {
    let Some(given) = node.get("x-kubernetes-validations").and_then(Value::as_array) else {
        return Ok(None);
    };
    if given.is_empty() {
        return Ok(None);
    }
    let at = match place.path {
        "" => "x-kubernetes-validations".to_owned(),
        path => format!("{path}.x-kubernetes-validations"),
    };
    if given.len() > MAX_CEL_RULES {
        return Err(vec![Cause {
            reason: "FieldValueTooMany",
            message: format!(
                "Too many: {}: must have at most {MAX_CEL_RULES} items",
                given.len()
            ),
            field: at,
        }]);
    }
    let bounds = Bounds::read(node, place.is_root).unwrap_or_default();
    let compiler = Compiler {
        shape: Shape::read(node, place.is_root),
        times: place.most.unwrap_or_else(|| bounds.times()),
        bounds,
        uncorrelated: place.uncorrelated,
    };
    let mut causes = Vec::new();
    let mut rules = Vec::new();
    for (n, rule) in given.iter().enumerate() {
        let at = format!("{at}[{n}]");
        rules.extend(compiler.rule(rule, &at, estimates.as_deref_mut(), &mut causes));
    }
    if !causes.is_empty() {
        return Err(causes);
    }
    let of = node.get("type").and_then(Value::as_str).unwrap_or_default();
    Ok(Some(NodeRules {
        rules: rules.into(),
        shape: Arc::new(compiler.shape),
        of: of.into(),
    }))
}

/// A rule as upstream prints it in messages.
fn printed(rule: &Value) -> String {
    let text = |key: &str| rule.get(key).and_then(Value::as_str).unwrap_or_default();
    let or_null = |key: &str| rule.get(key).cloned().unwrap_or(Value::Null);
    let members = [
        ("Rule", json!(text("rule"))),
        ("Message", json!(text("message"))),
        ("MessageExpression", json!(text("messageExpression"))),
        ("Reason", or_null("reason")),
        ("FieldPath", json!(text("fieldPath"))),
        ("OptionalOldSelf", or_null("optionalOldSelf")),
    ];
    let members = members.map(|(name, value)| format!("\"{name}\":{value}"));
    let out = format!("{{{}}}", members.join(","));
    // Go writes these so, wherever they stand.
    out.replace('&', "\\u0026")
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
}

fn invalid(field: String, value: impl std::fmt::Display, why: impl std::fmt::Display) -> Cause {
    Cause {
        reason: "FieldValueInvalid",
        message: format!("Invalid value: {value}: {why}"),
        field,
    }
}

fn reason(given: &Value) -> Reason {
    match given.get("reason").and_then(Value::as_str) {
        Some("FieldValueForbidden") => Reason::Forbidden,
        Some("FieldValueRequired") => Reason::Required,
        Some("FieldValueDuplicate") => Reason::Duplicate,
        _ => Reason::Invalid,
    }
}

struct Compiler<'n> {
    shape: Shape,
    bounds: Bounds,
    /// How often the rules may be asked for one object.
    times: u64,
    uncorrelated: Option<&'n str>,
}

/// An expression of a rule.
struct Asked<'a> {
    source: &'a str,
    names: &'a Names,
    /// What it must give.
    wanted: &'static str,
    at: String,
    given: &'a Value,
}

impl Compiler<'_> {
    fn rule(
        &self,
        given: &Value,
        at: &str,
        mut estimates: Option<&mut Estimates>,
        causes: &mut Vec<Cause>,
    ) -> Option<Rule> {
        let before = causes.len();
        let text = |key: &str| given.get(key).and_then(Value::as_str).unwrap_or_default();
        let (source, message) = (text("rule").trim(), text("message"));
        let is_old_optional = given.get("optionalOldSelf").and_then(Value::as_bool) == Some(true);
        if source.is_empty() {
            return None;
        }
        if message.len() > 2048 {
            let why = "must have a maximum length of 2048 characters";
            causes.push(invalid(format!("{at}.message"), json!(message), why));
        }
        let field = match text("fieldPath") {
            "" => String::new(),
            path => self.field(path).unwrap_or_else(|| {
                let why = "must be a valid path";
                causes.push(invalid(format!("{at}.fieldPath"), json!(path), why));
                String::new()
            }),
        };
        let old = match is_old_optional {
            true => Type::Optional(Arc::new(self.shape.to_type())),
            false => self.shape.to_type(),
        };
        let names = Names::default()
            .with("self", self.shape.to_type())
            .with("oldSelf", old);
        let asked = |source, wanted, key| Asked {
            source,
            names: &names,
            wanted,
            at: format!("{at}.{key}"),
            given,
        };
        let rule = self.program(&asked(source, "bool", "rule"), estimates.as_deref_mut(), causes);
        let message_expression = match text("messageExpression").trim() {
            source if !source.is_empty() && rule.is_some() => {
                let asked = asked(source, "string", "messageExpression");
                self.program(&asked, estimates.as_deref_mut(), causes)
            }
            _ => None,
        };
        let uses_old = rule.as_ref().is_some_and(|rule| rule.names("oldSelf"));
        match (uses_old, self.uncorrelated, given.get("optionalOldSelf")) {
            (true, Some(within), _) if estimates.is_some_and(|e| !e.is_unchanged) => {
                let why = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {within}"
                );
                causes.push(invalid(format!("{at}.rule"), json!(text("rule")), why));
            }
            (false, _, Some(flag @ Value::Bool(_))) if rule.is_some() => {
                let why = "may not be set if oldSelf is not used in rule";
                causes.push(invalid(format!("{at}.optionalOldSelf"), flag, why));
            }
            _ => {}
        }
        if causes.len() > before {
            return None;
        }
        Some(Rule {
            rule: rule?,
            message: message.trim().to_owned(),
            message_expression,
            reason: reason(given),
            field,
            uses_old,
            is_old_optional,
        })
    }

    fn program(
        &self,
        asked: &Asked<'_>,
        estimates: Option<&mut Estimates>,
        causes: &mut Vec<Cause>,
    ) -> Option<Program> {
        let wrong = |why: String| invalid(asked.at.clone(), printed(asked.given), why);
        let is_rule = asked.wanted == "bool";
        let what = if is_rule { "" } else { "messageExpression " };
        let parsed = Program::parse(asked.source)
            .and_then(|program| Ok((program.check_with_cost(asked.names, &self.bounds)?, program)));
        let ((of, cost), program) = match parsed {
            Ok(parsed) => parsed,
            Err(error @ CompileError::Wrong(_)) => {
                causes.push(wrong(format!("{what}{error}")));
                return None;
            }
            Err(error) => {
                causes.push(wrong(format!("{what}compilation failed: {error}")));
                return None;
            }
        };
        if of != Type::plain(asked.wanted) {
            causes.push(wrong(match is_rule {
                true => "cel expression must evaluate to a bool".to_owned(),
                false => "messageExpression must evaluate to a string".to_owned(),
            }));
            return None;
        }
        if let Some(estimates) = estimates {
            let (what, cost) = match is_rule {
                true => ("estimated rule cost", cost.saturating_mul(self.times)),
                false => ("estimated messageExpression cost", cost),
            };
            causes.extend(estimates.add(&asked.at, what, cost));
        }
        Some(program)
    }

    /// The path of a member below this node, such as `.spec.ports` or `.labels['a']`; none if the schema has none there.
    fn field(&self, path: &str) -> Option<String> {
        let mut rest = path;
        let mut shape = &self.shape;
        let mut out = String::new();
        while !rest.is_empty() {
            let name;
            if let Some(after) = rest.strip_prefix("['") {
                let end = after.find("']")?;
                name = &after[..end];
                rest = &after[end + 2..];
            } else {
                let after = rest.strip_prefix('.')?;
                let end = after.find(['.', '[']).unwrap_or(after.len());
                (name, rest) = after.split_at(end);
            }
            match shape {
                Shape::Object(members) => {
                    shape = &members.get(name)?.1;
                    out.push_str(&format!(".{name}"));
                }
                Shape::Map(values) => {
                    shape = values;
                    out.push_str(&format!("[{name}]"));
                }
                _ => return None,
            }
        }
        Some(out)
    }
}

impl NodeRules {
    /// Asks all rules of the node; the causes of those that fail. What did not change, as `is_same` finds out, breaks only
    /// rules about changes.
    pub fn check(&self, subject: Subject<'_>, is_same: impl Fn() -> bool, spent: &mut Spent) -> Vec<Cause> {
        let lists = Lists::default();
        let value = self.shape.value(subject.value, &lists);
        let old = subject.old.map(|old| self.shape.value(old, &lists));
        let mut causes = Vec::new();
        for rule in self.rules.iter() {
            let left = MAX_CEL_TOTAL_COST.saturating_sub(spent.cost);
            if left == 0 {
                let why = "validation failed due to running out of cost budget, no further validation rules will be run";
                causes.push(invalid(path_of(subject, ""), json!(*self.of), why));
                return causes;
            }
            let mut scope = Scope::default();
            scope.set_lists(&lists);
            scope.set("self", value.clone());
            match (rule.is_old_optional, &old) {
                (true, old) => scope.set("oldSelf", optional(old.clone())),
                (false, Some(old)) => scope.set("oldSelf", old.clone()),
                (false, None) if rule.uses_old => continue,
                (false, None) => {}
            }
            let most = left.min(MAX_CEL_CALL_COST);
            let mut budget = Budget::new(most);
            let outcome = scope.evaluate(&rule.rule, &mut budget);
            spent.cost += most - budget.left();
            let told = match rule.message.as_str() {
                "" => rule.rule.source(),
                message => message,
            };
            match outcome {
                Ok(Cel::Bool(true)) => {}
                Ok(_) => {
                    let cause = failed(rule, subject, &scope, spent);
                    if rule.uses_old || !is_same() {
                        causes.push(cause);
                    }
                }
                Err(error) if error.is_cost => {
                    let why = format!(
                        "'{told}': call cost exceeds limit for rule, no further validation rules will be run"
                    );
                    causes.push(invalid(path_of(subject, ""), json!(*self.of), why));
                    spent.cost = MAX_CEL_TOTAL_COST;
                    return causes;
                }
                Err(error) => {
                    let why = format!("{error} evaluating rule: {told}");
                    causes.push(invalid(path_of(subject, ""), json!(*self.of), why));
                }
            }
        }
        causes
    }
}

fn failed(rule: &Rule, subject: Subject<'_>, scope: &Scope<'_>, spent: &mut Spent) -> Cause {
    let made = rule.message_expression.as_ref().and_then(|expression| {
        let most = MAX_CEL_TOTAL_COST
            .saturating_sub(spent.cost)
            .min(MAX_CEL_CALL_COST);
        let mut budget = Budget::new(most);
        let outcome = scope.evaluate(expression, &mut budget);
        spent.cost += most - budget.left();
        match outcome {
            Ok(Cel::String(text)) => Some(text.trim().to_owned()),
            _ => None,
        }
    });
    let is_fit =
        |text: &String| !text.is_empty() && text.len() <= MAX_CEL_MESSAGE_BYTES && !text.contains('\n');
    let message = made
        .filter(is_fit)
        .unwrap_or_else(|| match rule.message.as_str() {
            "" => format!("failed rule: {}", rule.rule.source()),
            message => message.to_owned(),
        });
    let field = path_of(subject, &rule.field);
    let is_whole = matches!(subject.value, Value::Object(_) | Value::Array(_));
    match rule.reason {
        Reason::Forbidden => Cause::forbidden(field, message),
        Reason::Required => Cause::required(field, &message),
        Reason::Duplicate => Cause {
            reason: "FieldValueDuplicate",
            message: match is_whole {
                true => "Duplicate value".to_owned(),
                false => format!("Duplicate value: {}", subject.value),
            },
            field,
        },
        // A whole object would say nothing.
        Reason::Invalid if is_whole => Cause {
            reason: "FieldValueInvalid",
            message: format!("Invalid value: {message}"),
            field,
        },
        Reason::Invalid => Cause::invalid(field, subject.value, message),
    }
}

/// Path of the fault; upstream calls the root so.
fn path_of(subject: Subject<'_>, below: &str) -> String {
    match (subject.path, below) {
        ("", "") => "<nil>".to_owned(),
        ("", below) => below.trim_start_matches('.').to_owned(),
        (path, below) => format!("{path}{below}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place<'_> = Place {
        path: "schema",
        is_root: false,
        most: Some(1),
        uncorrelated: None,
    };

    fn rules(node: &Value) -> NodeRules {
        compile(node, PLACE, None).expect("compiles").expect("has rules")
    }

    fn messages(rules: &NodeRules, value: &Value, old: Option<&Value>) -> Vec<String> {
        let subject = Subject {
            value,
            old,
            path: "spec",
        };
        let is_same = || old == Some(value);
        let causes = rules.check(subject, is_same, &mut Spent::default());
        let told = causes.into_iter().map(|c| format!("{}: {}", c.field, c.message));
        told.collect()
    }

    #[test]
    fn rules_are_asked_and_told() {
        let schema = json!({"type": "object", "properties": {"min": {"type": "integer"}, "max": {"type": "integer"},
        "my-name": {"type": "string"}, "at": {"type": "string", "format": "date-time"}},
        "x-kubernetes-validations": [
            {"rule": "self.min <= self.max", "message": "too much", "fieldPath": ".min"},
            {"rule": "!has(self.my__dash__name) || self.my__dash__name.startsWith('a')",
             "messageExpression": "'not ' + self.my__dash__name", "reason": "FieldValueForbidden"},
            {"rule": "!has(self.at) || self.at < timestamp('2030-01-01T00:00:00Z')"},
        ]});
        let rules = rules(&schema);
        assert!(messages(&rules, &json!({"min": 1, "max": 2, "my-name": "ab"}), None).is_empty());
        let broken = json!({"min": 3, "max": 2, "my-name": "b", "at": "2031-01-01T00:00:00Z"});
        let found = messages(&rules, &broken, None);
        assert_eq!(found[0], "spec.min: Invalid value: too much");
        assert_eq!(found[1], "spec: Forbidden: not b");
        let third = "spec: Invalid value: failed rule: !has(self.at)";
        assert!(found[2].starts_with(third), "{found:?}");
        assert_eq!(
            messages(&rules, &json!({"min": 1}), None),
            ["spec: Invalid value: \"object\": no such key: max evaluating rule: too much"]
        );
    }

    #[test]
    fn rules_about_changes_need_something_before() {
        let schema = json!({"type": "integer", "x-kubernetes-validations": [
            {"rule": "self >= oldSelf"}, {"rule": "!oldSelf.hasValue() || self < 10", "optionalOldSelf": true}]});
        let rules = rules(&schema);
        assert!(messages(&rules, &json!(11), None).is_empty());
        assert_eq!(messages(&rules, &json!(1), Some(&json!(2))).len(), 1);
        assert_eq!(messages(&rules, &json!(11), Some(&json!(2))).len(), 1);
    }

    #[test]
    fn sets_and_lists_with_keys_have_no_order() {
        let item =
            json!({"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}});
        let schema = |rule: &str| {
            json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}], "properties": {
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "list": {"type": "array", "items": {"type": "string"}},
                "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": item}}})
        };
        let one =
            json!({"set": ["a", "b"], "list": ["a", "b"], "keyed": [{"k": "a", "v": 1}, {"k": "b", "v": 2}]});
        let other =
            json!({"set": ["b", "a"], "list": ["b", "a"], "keyed": [{"k": "b", "v": 2}, {"k": "a", "v": 1}]});
        for (rule, holds) in [
            ("self.set == oldSelf.set", true),
            ("self.list == oldSelf.list", false),
            ("self.keyed == oldSelf.keyed", true),
            ("self == oldSelf", false),
            ("self.set == ['b', 'a'] && ['b', 'a'] != self.set", true),
            ("self.set != ['b', 'c']", true),
            (
                "self.set + oldSelf.set == ['a', 'b'] && (self.set + ['c']).size() == 3",
                true,
            ),
            ("(self.set + ['c', 'c']) + ['a'] == ['c', 'b', 'a']", true),
            ("(self.list + oldSelf.list).size() == 4", true),
            ("(self.keyed + oldSelf.keyed).size() == 2", true),
            (
                "(self.keyed + [oldSelf.keyed[0]]).map(i, i.k) == ['a', 'b']",
                true,
            ),
            ("[self.set] == [oldSelf.set] && self.set in [oldSelf.set]", true),
        ] {
            let told = messages(&rules(&schema(rule)), &one, Some(&other));
            assert_eq!(told.is_empty(), holds, "{rule}: {told:?}");
        }
    }

    #[test]
    fn wrong_rules_are_told_with_their_place() {
        let told = |rule: Value| {
            let node = json!({"type": "string", "maxLength": 9, "x-kubernetes-validations": [rule]});
            let causes = compile(&node, PLACE, Some(&mut Estimates::default())).expect_err("wrong");
            format!("{}: {}", causes[0].field, causes[0].message)
        };
        let at = "schema.x-kubernetes-validations[0]";
        assert_eq!(
            told(json!({"rule": "self.x == 1"})),
            format!(
                "{at}.rule: Invalid value: {{\"Rule\":\"self.x == 1\",\"Message\":\"\",\"MessageExpression\":\"\",\
                 \"Reason\":null,\"FieldPath\":\"\",\"OptionalOldSelf\":null}}: compilation failed: ERROR: <input>:1:5: \
                 type 'string' does not support field selection\n | self.x == 1\n | ....^"
            )
        );
        assert_eq!(
            told(json!({"rule": "self == 'a'", "fieldPath": ".x"})),
            format!("{at}.fieldPath: Invalid value: \".x\": must be a valid path")
        );
        assert_eq!(
            told(json!({"rule": "true", "optionalOldSelf": true})),
            format!(
                "{at}.optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule"
            )
        );
    }

    #[test]
    fn a_dear_rule_ends() {
        let node = |most: u64, rule: &str| {
            json!({"type": "array", "items": {"type": "integer"}, "maxItems": most,
                "x-kubernetes-validations": [{"rule": rule}]})
        };
        let dear = "self.all(a, self.all(b, self.all(c, self.all(d, a + b + c + d >= 0))))";
        let mut estimates = Estimates::default();
        let refused =
            compile(&node(100, dear), PLACE, Some(&mut estimates)).expect_err("the estimate refuses it");
        assert!(
            refused[0]
                .message
                .starts_with("Forbidden: estimated rule cost exceeds budget by factor of"),
            "{refused:?}"
        );
        assert!(
            compile(&node(100, dear), PLACE, None).is_ok(),
            "what is stored goes on"
        );
        let rules = rules(&node(50, "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))"));
        let value = Value::from((0..2_000).collect::<Vec<_>>());
        let found = messages(&rules, &value, None);
        assert!(found[0].contains("call cost exceeds limit"), "{found:?}");
    }
}
