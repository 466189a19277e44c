//! What an expression's type is, and what is wrong with it, before it runs. Texts and places are those of the reference
//! compiler as far as its users see them.

mod places;

use super::macros::{TWO, name as bound_name};
use super::program::{CompileError, Program, told};
use super::scan::{self, Kind, Token};
use super::signatures::{self, Overload};
use super::types::{Bindings, Type};
use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue, MapExpr, SelectExpr, StructExpr,
    operators,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What expressions may name, with types.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// Variables.
    pub variables: BTreeMap<String, Type>,
    /// Whether `Object{...}` and `JSONPatch{...}` can be made.
    pub has_literals: bool,
}

impl Names {
    /// Adds a variable.
    pub fn with(mut self, name: &str, of: Type) -> Names {
        self.variables.insert(name.to_owned(), of);
        self
    }
}

impl Program {
    /// The type of the expression.
    ///
    /// # Errors
    /// What is wrong with it, all of it.
    pub fn check(&self, names: &Names) -> Result<Type, CompileError> {
        self.checked(names).map(|checked| checked.of)
    }

    /// The type of the expression and of all its parts.
    ///
    /// # Errors
    /// As [`Program::check`].
    pub(super) fn checked(&self, names: &Names) -> Result<Checked, CompileError> {
        let mut checker = Checker {
            tokens: scan::tokens(&self.source),
            names,
            locals: Vec::new(),
            errors: Vec::new(),
            told: HashMap::new(),
            types: HashMap::new(),
            calls: HashMap::new(),
        };
        let of = checker.of(&self.expression);
        if checker.errors.is_empty() {
            return Ok(Checked {
                of,
                types: checker.types,
                calls: checker.calls,
            });
        }
        let mut errors = checker.errors;
        errors.sort();
        errors.dedup();
        let texts = errors.iter().map(|(at, message)| {
            let (line, column) = scan::line_and_column(&self.source, *at);
            told(&self.source, line, column, message)
        });
        Err(CompileError::Wrong(texts.collect::<Vec<_>>().join("\n")))
    }

    /// Whether the expression names a variable.
    pub fn names(&self, variable: &str) -> bool {
        let tokens = scan::tokens(&self.source);
        let mut before = None;
        for token in &tokens {
            let is_member = matches!(before, Some("." | "?."));
            if token.kind == Kind::Name && token.text == variable && !is_member {
                return true;
            }
            before = Some(token.text);
        }
        false
    }
}

/// What checking an expression found, by the ids of its parts.
#[derive(Debug)]
pub(super) struct Checked {
    /// The type of the whole.
    pub(super) of: Type,
    pub(super) types: HashMap<u64, Type>,
    pub(super) calls: HashMap<u64, Called>,
}

/// Which function a call means.
#[derive(Debug)]
pub(super) struct Called {
    /// Its name, with the namespace that looks like what it is called on.
    pub(super) name: String,
    /// All overloads that fit: several if types are known at run time only.
    pub(super) overloads: Vec<&'static Overload>,
}

struct Checker<'c> {
    tokens: Vec<Token<'c>>,
    names: &'c Names,
    locals: Vec<(String, Type)>,
    errors: Vec<(usize, String)>,
    /// How often a place was looked for: the parser keeps no places, so the n-th fault of a kind is at the n-th such word.
    told: HashMap<String, usize>,
    types: HashMap<u64, Type>,
    calls: HashMap<u64, Called>,
}

impl Checker<'_> {
    fn fault(&mut self, at: usize, message: impl Into<String>) -> Type {
        self.errors.push((at, message.into()));
        Type::Error
    }

    fn undeclared(&mut self, at: usize, name: &str) -> Type {
        self.fault(at, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn of(&mut self, expression: &IdedExpr) -> Type {
        let of = self.of_any(expression);
        self.types.insert(expression.id, of.clone());
        of
    }

    fn of_any(&mut self, expression: &IdedExpr) -> Type {
        match &expression.expr {
            Expr::Literal(literal) => literal_type(literal),
            Expr::Ident(name) => self.ident(name),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(expression.id, call),
            Expr::List(items) => self.list(items),
            Expr::Map(members) => self.map(members),
            Expr::Struct(members) => self.object(members),
            Expr::Comprehension(it) => self.comprehension(it),
            Expr::Unspecified => Type::Error,
        }
    }

    fn known(&self, name: &str) -> Option<Type> {
        let local = self.locals.iter().rev().find(|(local, _)| local == name);
        let known = local.map(|(_, of)| of).or_else(|| self.names.variables.get(name));
        known.cloned()
    }

    fn ident(&mut self, name: &str) -> Type {
        if let Some(known) = self.known(name) {
            return known;
        }
        if super::functions::type_constant(name).is_some() {
            return Type::Type;
        }
        let at = self.at_name(name);
        self.undeclared(at, name)
    }

    fn select(&mut self, select: &SelectExpr) -> Type {
        let operand = self.of(&select.operand);
        let found = self.member(&operand, &select.field);
        if select.test { Type::plain("bool") } else { found }
    }

    fn member(&mut self, of: &Type, field: &str) -> Type {
        match of {
            Type::Dyn | Type::Error => of.clone(),
            Type::Map(_, value) => (**value).clone(),
            Type::Optional(inner) => {
                let found = self.member(&inner.clone(), field);
                Type::Optional(Arc::new(found))
            }
            Type::Object(object) => match object.fields.get(field) {
                Some(found) => found.clone(),
                None => {
                    let at = self.at_field(field);
                    self.fault(at, format!("undefined field '{field}'"))
                }
            },
            Type::Plain("kubernetes.authorization.Authorizer") if field == "requestResource" => {
                Type::plain("resourcecheck")
            }
            // Its fields are those of the schema.
            Type::Literal(_) => Type::Dyn,
            other => {
                let at = self.at_field(field);
                self.fault(at, format!("type '{other}' does not support field selection"))
            }
        }
    }

    /// The type that all of them have; a fault at the first that does not fit.
    fn joined(&mut self, items: &[(&IdedExpr, Type)]) -> Type {
        let mut out: Option<Type> = None;
        for (item, of) in items {
            match &out {
                None => out = Some(of.clone()),
                Some(so_far) if Bindings::default().fits(of, so_far) => {
                    if so_far.is_open() {
                        out = Some(of.clone());
                    }
                }
                Some(so_far) => {
                    let message = format!("expected type '{so_far}' but found '{of}'");
                    let at = self.at(item);
                    self.fault(at, message);
                }
            }
        }
        out.unwrap_or(Type::Dyn)
    }

    fn list(&mut self, list: &ListExpr) -> Type {
        let mut items = Vec::new();
        for (at, item) in list.elements.iter().enumerate() {
            let of = self.of(item);
            let of = match of {
                Type::Optional(inner) if list.optional_indices.contains(&at) => (*inner).clone(),
                other => other,
            };
            items.push((item, of));
        }
        Type::list(self.joined(&items))
    }

    fn map(&mut self, map: &MapExpr) -> Type {
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else {
                continue;
            };
            keys.push((&entry.key, self.of(&entry.key)));
            let of = match self.of(&entry.value) {
                Type::Optional(inner) if entry.optional => (*inner).clone(),
                other => other,
            };
            values.push((&entry.value, of));
        }
        let (key, value) = (self.joined(&keys), self.joined(&values));
        Type::Map(Arc::new(key), Arc::new(value))
    }

    fn object(&mut self, object: &StructExpr) -> Type {
        let name = object.type_name.trim_start_matches('.');
        let is_patch = name == "JSONPatch";
        let is_known =
            self.names.has_literals && (is_patch || name == "Object" || name.starts_with("Object."));
        for entry in &object.entries {
            let EntryExpr::StructField(entry) = &entry.expr else {
                continue;
            };
            let of = self.of(&entry.value);
            if !is_known {
                continue;
            }
            let wanted = match (is_patch, entry.field.as_str()) {
                (false, _) => Type::Dyn,
                (true, "op" | "path" | "from") => Type::plain("string"),
                (true, "value") => Type::Dyn,
                (true, _) => {
                    let field = &entry.field;
                    let at = self.at_name(field);
                    self.fault(at, format!("undefined field '{field}'"));
                    continue;
                }
            };
            if !Bindings::default().fits(&of, &wanted) {
                let at = self.at(&entry.value);
                self.fault(
                    at,
                    format!(
                        "expected type of field '{}' is '{wanted}' but provided type is '{of}'",
                        entry.field
                    ),
                );
            }
        }
        if is_known {
            return Type::Literal(name.into());
        }
        let at = self.place("{", |t, at| t[at].text == "{");
        self.undeclared(at, name)
    }

    fn ranged(&mut self, range: &IdedExpr) -> (Type, Type) {
        match self.of(range) {
            Type::List(item) => (Type::plain("int"), (*item).clone()),
            Type::Map(key, value) => ((*key).clone(), (*value).clone()),
            open if open.is_open() => (Type::Dyn, Type::Dyn),
            other => {
                let at = self.at(range);
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.fault(at, message);
                (Type::Error, Type::Error)
            }
        }
    }

    fn comprehension(&mut self, it: &ComprehensionExpr) -> Type {
        let before = self.errors.len();
        let (key, value) = self.ranged(&it.iter_range);
        // Over one variable: the items of a list, the keys of a map.
        let is_list = matches!(self.types.get(&it.iter_range.id), Some(Type::List(_)));
        let item = if is_list { value } else { key };
        let mut accu = self.of(&it.accu_init);
        if matches!(&accu, Type::List(inner) if inner.is_open()) && is_filter(it) {
            accu = Type::list(item.clone());
        }
        let depth = self.locals.len();
        self.locals.push((it.accu_var.clone(), accu));
        self.locals.push((it.iter_var.clone(), item));
        let step = self.of(&it.loop_step);
        self.locals.truncate(depth + 1);
        if let Some(slot) = self.locals.get_mut(depth)
            && matches!(step, Type::List(_))
        {
            slot.1 = step;
        }
        let result = self.of(&it.result);
        self.locals.truncate(depth);
        if self.errors.len() > before {
            Type::Error
        } else {
            result
        }
    }

    fn is_bool(&mut self, expression: &IdedExpr) {
        let of = self.of(expression);
        if !of.is_open() && of != Type::plain("bool") {
            let at = self.at(expression);
            self.fault(at, format!("expected type 'bool' but found '{of}'"));
        }
    }

    fn call(&mut self, id: u64, call: &CallExpr) -> Type {
        let name = call.func_name.as_str();
        match (name, call.target.as_deref(), call.args.as_slice()) {
            (operators::LOGICAL_AND | operators::LOGICAL_OR, None, [left, right]) => {
                self.is_bool(left);
                self.is_bool(right);
                return Type::plain("bool");
            }
            (operators::NOT_STRICTLY_FALSE, ..) => return Type::plain("bool"),
            (operators::CONDITIONAL, None, [condition, yes, no]) => {
                return self.conditional(call, condition, yes, no);
            }
            (operators::OPT_SELECT, None, [operand, field]) => {
                let of = self.of(operand);
                let field = match &field.expr {
                    Expr::Literal(LiteralValue::String(name)) => name.inner().to_owned(),
                    _ => return Type::Error,
                };
                let found = self.member(&of, &field);
                return match found {
                    already @ Type::Optional(_) => already,
                    found => Type::Optional(Arc::new(found)),
                };
            }
            (_, Some(target), arguments) => {
                if let Some(of) = self.special(name, target, arguments) {
                    return of;
                }
                if let Expr::Ident(prefix) = &target.expr
                    && self.known(prefix).is_none()
                {
                    let qualified = format!("{prefix}.{name}");
                    if let Some(overloads) = signatures::of(&qualified) {
                        return self.applied(&qualified, (id, call), overloads, None);
                    }
                }
            }
            _ => {}
        }
        let receiver = call.target.as_deref().map(|target| self.of(target));
        match signatures::of(name) {
            Some(overloads) => self.applied(name, (id, call), overloads, receiver),
            None => {
                for argument in &call.args {
                    self.of(argument);
                }
                let at = self.at_call(call);
                self.undeclared(at, name)
            }
        }
    }

    fn conditional(&mut self, call: &CallExpr, condition: &IdedExpr, yes: &IdedExpr, no: &IdedExpr) -> Type {
        let types = [self.of(condition), self.of(yes), self.of(no)];
        let [condition, yes, no] = &types;
        let is_bool = condition.is_open() || *condition == Type::plain("bool");
        let fits = Bindings::default().fits(no, yes) || Bindings::default().fits(yes, no);
        if !is_bool || !fits {
            let at = self.at_call(call);
            return self.mismatch(at, &call.func_name, None, &types);
        }
        if yes.is_open() || *yes == Type::plain("null") {
            no.clone()
        } else {
            yes.clone()
        }
    }

    fn mismatch(&mut self, at: usize, name: &str, receiver: Option<&Type>, arguments: &[Type]) -> Type {
        let texts: Vec<String> = arguments.iter().map(Type::to_string).collect();
        let before = receiver.map(|of| format!("{of}.")).unwrap_or_default();
        let message = format!(
            "found no matching overload for '{name}' applied to '{before}({})'",
            texts.join(", ")
        );
        self.fault(at, message)
    }

    fn applied(
        &mut self,
        name: &str,
        (id, call): (u64, &CallExpr),
        overloads: &'static [Overload],
        receiver: Option<Type>,
    ) -> Type {
        let arguments: Vec<Type> = match (name, call.args.as_slice()) {
            // What is formatted may be of several types (upstream makes the same exception).
            ("format", [one]) if matches!(one.expr, Expr::List(_)) => {
                if let Expr::List(items) = &one.expr {
                    items.elements.iter().for_each(|item| drop(self.of(item)));
                }
                vec![Type::list(Type::Dyn)]
            }
            (_, arguments) => arguments.iter().map(|argument| self.of(argument)).collect(),
        };
        let mut result: Option<Type> = None;
        let mut fitting = Vec::new();
        for overload in overloads {
            if overload.arguments.len() != arguments.len()
                || overload.receiver.is_some() != receiver.is_some()
            {
                continue;
            }
            let mut bindings = Bindings::default();
            let given = receiver.iter().chain(&arguments);
            let wanted = overload.receiver.iter().chain(&overload.arguments);
            if !given
                .zip(wanted)
                .all(|(given, wanted)| bindings.fits(given, wanted))
            {
                continue;
            }
            fitting.push(overload);
            let made = bindings.filled(&overload.result);
            result = match result {
                None => Some(made),
                Some(same) if same == made => Some(same),
                Some(_) => Some(Type::Dyn),
            };
        }
        match result {
            Some(of) => {
                let called = Called {
                    name: name.to_owned(),
                    overloads: fitting,
                };
                self.calls.insert(id, called);
                of
            }
            None => {
                let at = self.at_call(call);
                self.mismatch(at, name, receiver.as_ref(), &arguments)
            }
        }
    }

    /// Words that bind names.
    fn special(&mut self, word: &str, target: &IdedExpr, arguments: &[IdedExpr]) -> Option<Type> {
        match (word, arguments) {
            (word, [first, second, rest @ ..]) if TWO.contains(&word) && matches!(rest.len(), 1 | 2) => {
                let names = (bound_name(first)?.to_owned(), bound_name(second)?.to_owned());
                let (key, value) = self.ranged(target);
                let depth = self.locals.len();
                self.locals.push((names.0, key.clone()));
                self.locals.push((names.1, value));
                let (filter, body) = match rest {
                    [filter, body] => (Some(filter), body),
                    [body, ..] => (None, body),
                    [] => return None,
                };
                if let Some(filter) = filter {
                    self.is_bool(filter);
                }
                let made = match word {
                    "all" | "exists" | "existsOne" => {
                        self.is_bool(body);
                        Type::plain("bool")
                    }
                    "transformList" => Type::list(self.of(body)),
                    "transformMap" => Type::Map(Arc::new(key), Arc::new(self.of(body))),
                    _ => self.of(body),
                };
                self.locals.truncate(depth);
                Some(made)
            }
            ("sortBy", [one, by]) => {
                let name = bound_name(one)?.to_owned();
                let (_, item) = self.ranged(target);
                self.locals.push((name, item.clone()));
                self.of(by);
                self.locals.pop();
                Some(Type::list(item))
            }
            ("optMap" | "optFlatMap", [one, body]) => {
                let name = bound_name(one)?.to_owned();
                let inner = match self.of(target) {
                    Type::Optional(inner) => (*inner).clone(),
                    _ => Type::Dyn,
                };
                self.locals.push((name, inner));
                let made = self.of(body);
                self.locals.pop();
                Some(match word {
                    "optMap" => Type::Optional(Arc::new(made)),
                    _ => made,
                })
            }
            _ => None,
        }
    }
}

/// `filter`: the items stay what they are.
fn is_filter(it: &ComprehensionExpr) -> bool {
    let Expr::Call(call) = &it.loop_step.expr else {
        return false;
    };
    let [_, yes, _] = call.args.as_slice() else {
        return false;
    };
    match &yes.expr {
        Expr::Call(add) => match add.args.as_slice() {
            [_, one] => matches!(&one.expr, Expr::List(items)
                if matches!(items.elements.as_slice(), [item] if bound_name(item) == Some(&it.iter_var))),
            _ => false,
        },
        _ => false,
    }
}

fn literal_type(literal: &LiteralValue) -> Type {
    Type::plain(match literal {
        LiteralValue::Boolean(_) => "bool",
        LiteralValue::Bytes(_) => "bytes",
        LiteralValue::Double(_) => "double",
        LiteralValue::Int(_) => "int",
        LiteralValue::Null => "null",
        LiteralValue::String(_) => "string",
        LiteralValue::UInt(_) => "uint",
    })
}
