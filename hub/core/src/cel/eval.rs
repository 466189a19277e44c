//! Evaluation. Every step costs; what costs more than its budget ends with an error. The semantics are those of the
//! reference implementation: `&&` and `||` swallow the errors of the other side, absent keys are errors, and what has no
//! overload says so.

mod operations;

use super::authorizer::{self, Authorize};
use super::lists::Lists;
use super::program::Program;
use super::value::{as_optional, list, map, optional, text, weight};
use super::{functions, macros};
use crate::limits::MAX_CEL_CHAIN;
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue, MapExpr, SelectExpr, StructExpr,
    operators,
};
use kube_cel::cel::objects::Key;
use kube_cel::cel::{ExecutionError, IdedExpr, Value};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Why an evaluation has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EvalError {
    /// The text of the reference implementation.
    pub message: String,
    /// It cost too much: no operator swallows this.
    pub is_cost: bool,
}

impl EvalError {
    /// An error of the expression.
    pub fn new(message: impl Into<String>) -> EvalError {
        EvalError {
            message: message.into(),
            is_cost: false,
        }
    }

    fn cost() -> EvalError {
        EvalError {
            message: "operation cancelled: actual cost limit exceeded".to_owned(),
            is_cost: true,
        }
    }

    pub(super) fn overload() -> EvalError {
        EvalError::new("no such overload")
    }

    pub(super) fn no_key(key: impl std::fmt::Display) -> EvalError {
        EvalError::new(format!("no such key: {key}"))
    }
}

impl From<ExecutionError> for EvalError {
    fn from(error: ExecutionError) -> EvalError {
        match error {
            ExecutionError::FunctionError { message, .. } => EvalError::new(message),
            ExecutionError::NoSuchKey(key) => EvalError::no_key(key),
            ExecutionError::DivisionByZero(_) => EvalError::new("division by zero"),
            ExecutionError::RemainderByZero(_) => EvalError::new("modulus by zero"),
            ExecutionError::Overflow(..) => EvalError::new("integer overflow"),
            _ => EvalError::overload(),
        }
    }
}

/// A value or why there is none.
pub type Outcome = Result<Value, EvalError>;

/// What an evaluation may still cost, in steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    left: u64,
}

impl Budget {
    /// So many steps.
    pub fn new(steps: u64) -> Budget {
        Budget { left: steps }
    }

    /// What is left.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Pays for something.
    ///
    /// # Errors
    /// The budget does not hold it, and is empty then.
    pub fn take(&mut self, cost: u64) -> Result<(), EvalError> {
        match self.left.checked_sub(cost) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err(EvalError::cost())
            }
        }
    }
}

/// What an expression can name.
#[derive(Default)]
pub struct Scope<'p> {
    values: BTreeMap<&'static str, Value>,
    /// Members of `variables`, each evaluated when it is first asked for.
    variables: BTreeMap<&'p str, &'p Program>,
    known: RefCell<BTreeMap<&'p str, Outcome>>,
    authorize: Option<&'p dyn Authorize>,
    lists: Option<&'p Lists>,
}

impl std::fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope")
            .field("values", &self.values.keys())
            .finish_non_exhaustive()
    }
}

impl<'p> Scope<'p> {
    /// Binds a value.
    pub fn set(&mut self, name: &'static str, value: Value) {
        self.values.insert(name, value);
        self.known.borrow_mut().clear();
    }

    /// Adds a member of `variables`.
    pub fn add_variable(&mut self, name: &'p str, program: &'p Program) {
        self.variables.insert(name, program);
    }

    /// Lets expressions ask who may do what.
    pub fn set_authorizer(&mut self, authorize: &'p dyn Authorize) {
        self.authorize = Some(authorize);
    }

    /// Tells which lists are more than lists.
    pub fn set_lists(&mut self, lists: &'p Lists) {
        self.lists = Some(lists);
    }

    /// Evaluates an expression.
    ///
    /// # Errors
    /// The expression has no value, or costs too much.
    pub fn evaluate(&self, program: &Program, budget: &mut Budget) -> Outcome {
        let mut machine = Machine {
            scope: self,
            budget,
            locals: Vec::new(),
            depth: 0,
        };
        machine.eval(&program.expression)
    }

    fn variable(&self, name: &str, budget: &mut Budget) -> Outcome {
        let Some((name, program)) = self.variables.get_key_value(name) else {
            return Err(EvalError::no_key(name));
        };
        if let Some(known) = self.known.borrow().get(name) {
            return known.clone();
        }
        // A variable that leads to itself is told so instead of going round.
        let round = Err(EvalError::new("a variable refers to itself"));
        self.known.borrow_mut().insert(name, round);
        let outcome = self.evaluate(program, budget).map_err(|error| EvalError {
            message: format!(
                "composited variable {name:?} fails to evaluate: {}",
                error.message
            ),
            is_cost: error.is_cost,
        });
        self.known.borrow_mut().insert(name, outcome.clone());
        outcome
    }
}

pub(super) struct Machine<'m, 'p> {
    scope: &'m Scope<'p>,
    budget: &'m mut Budget,
    /// Names bound by comprehensions, innermost last.
    locals: Vec<(&'m str, Outcome)>,
    depth: usize,
}

/// Depth of recursion: brackets cost a few frames of it each.
const MAX_DEPTH: usize = MAX_CEL_CHAIN + 100;

impl<'m, 'p> Machine<'m, 'p> {
    pub(super) fn pay(&mut self, cost: u64) -> Result<(), EvalError> {
        self.budget.take(cost)
    }

    /// Pays for looking at a whole value.
    pub(super) fn pay_for(&mut self, value: &Value) -> Result<(), EvalError> {
        let cost = weight(value, self.budget.left());
        self.budget.take(cost)
    }

    pub(super) fn eval<'e: 'm>(&mut self, expression: &'e IdedExpr) -> Outcome {
        self.pay(1)?;
        if self.depth >= MAX_DEPTH {
            return Err(EvalError::new("expression recursion limit exceeded"));
        }
        self.depth += 1;
        let outcome = self.eval_inner(expression);
        self.depth -= 1;
        outcome
    }

    fn eval_inner<'e: 'm>(&mut self, expression: &'e IdedExpr) -> Outcome {
        match &expression.expr {
            Expr::Literal(literal) => Ok(literal_value(literal)),
            Expr::Ident(name) => self.ident(name),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::List(items) => self.list(items),
            Expr::Map(members) => self.map(members),
            Expr::Struct(members) => self.object(members),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Unspecified => Err(EvalError::new("the expression is empty")),
        }
    }

    pub(super) fn is_local(&self, name: &str) -> bool {
        self.locals.iter().any(|(local, _)| *local == name)
    }

    fn ident(&mut self, name: &str) -> Outcome {
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some((_, value)) = self.locals.iter().rev().find(|(local, _)| *local == name) {
            return value.clone();
        }
        if let Some(value) = self.scope.values.get(name) {
            return Ok(value.clone());
        }
        if name == "authorizer" && self.scope.authorize.is_some() {
            return Ok(authorizer::root());
        }
        functions::type_constant(name).ok_or_else(|| EvalError::new(format!("no such attribute(s): {name}")))
    }

    /// Evaluates with a name bound.
    pub(super) fn with<'e: 'm>(&mut self, name: &'e str, value: Value, expression: &'e IdedExpr) -> Outcome {
        self.locals.push((name, Ok(value)));
        let outcome = self.eval(expression);
        self.locals.pop();
        outcome
    }

    /// Evaluates with two names bound.
    pub(super) fn with_two<'e: 'm>(
        &mut self,
        first: (&'e str, Value),
        second: (&'e str, Value),
        expression: &'e IdedExpr,
    ) -> Outcome {
        self.locals.push((first.0, Ok(first.1)));
        let outcome = self.with(second.0, second.1, expression);
        self.locals.pop();
        outcome
    }

    fn select<'e: 'm>(&mut self, select: &'e SelectExpr) -> Outcome {
        let field = select.field.as_str();
        if let Expr::Ident(name) = &select.operand.expr
            && name == "variables"
            && !self.is_local(name)
            && !self.scope.variables.is_empty()
        {
            return if select.test {
                Ok(Value::Bool(self.scope.variables.contains_key(field)))
            } else {
                self.scope.variable(field, self.budget)
            };
        }
        if let Expr::Ident(name) = &select.operand.expr
            && name == "authorizer"
            && field == "requestResource"
            && !self.is_local(name)
            && let Some(authorize) = self.scope.authorize
        {
            return Ok(authorizer::resource(authorize.request()));
        }
        let operand = self.eval(&select.operand)?;
        if let Some(inner) = as_optional(&operand) {
            let found = inner.and_then(|value| member(value, field).ok());
            return Ok(match select.test {
                true => Value::Bool(found.is_some()),
                false => optional(found),
            });
        }
        if select.test {
            return match &operand {
                Value::Map(_) => Ok(Value::Bool(member(&operand, field).is_ok())),
                _ => Err(EvalError::overload()),
            };
        }
        member(&operand, field)
    }

    fn list<'e: 'm>(&mut self, items: &'e ListExpr) -> Outcome {
        self.pay(10)?;
        let mut out = Vec::with_capacity(items.elements.len());
        for (at, item) in items.elements.iter().enumerate() {
            let value = self.eval(item)?;
            if items.optional_indices.contains(&at) {
                let inner = as_optional(&value).ok_or_else(EvalError::overload)?;
                out.extend(inner.cloned());
            } else {
                out.push(value);
            }
        }
        Ok(list(out))
    }

    fn map<'e: 'm>(&mut self, members: &'e MapExpr) -> Outcome {
        self.pay(30)?;
        let mut out = HashMap::with_capacity(members.entries.len());
        for entry in &members.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else {
                return Err(EvalError::overload());
            };
            let key = as_key(self.eval(&entry.key)?)?;
            let value = self.eval(&entry.value)?;
            if entry.optional {
                if let Some(value) = as_optional(&value).ok_or_else(EvalError::overload)? {
                    out.insert(key, value.clone());
                }
            } else if out.insert(key.clone(), value).is_some() {
                return Err(EvalError::new(format!("repeated key: {key}")));
            }
        }
        Ok(map(out))
    }

    /// `Object.spec{replicas: 1}`: a map; the checker knows its type.
    fn object<'e: 'm>(&mut self, members: &'e StructExpr) -> Outcome {
        self.pay(40)?;
        let mut out = HashMap::with_capacity(members.entries.len());
        for entry in &members.entries {
            let EntryExpr::StructField(entry) = &entry.expr else {
                return Err(EvalError::overload());
            };
            let value = self.eval(&entry.value)?;
            let key = Key::String(Arc::new(super::escape::unescape(&entry.field)));
            if entry.optional {
                if let Some(value) = as_optional(&value).ok_or_else(EvalError::overload)? {
                    out.insert(key, value.clone());
                }
            } else {
                out.insert(key, value);
            }
        }
        Ok(map(out))
    }

    fn comprehension<'e: 'm>(&mut self, it: &'e ComprehensionExpr) -> Outcome {
        let range = self.eval(&it.iter_range)?;
        let items = iterated(&range)?;
        let start = self.eval(&it.accu_init)?;
        if let Some(growing) = Growing::of(it) {
            return self.grow(&growing, it, items);
        }
        let accu = self.locals.len();
        self.locals.push((&it.accu_var, Ok(start)));
        let mut outcome = Ok(());
        for item in items {
            // The condition only says whether the result can still change.
            let goes_on = self.eval(&it.loop_cond);
            if matches!(goes_on, Ok(Value::Bool(false))) {
                break;
            }
            self.locals.push((&it.iter_var, Ok(item)));
            let next = self.eval(&it.loop_step);
            self.locals.pop();
            if let Err(error) = &next
                && error.is_cost
            {
                outcome = Err(error.clone());
                break;
            }
            if let Some(slot) = self.locals.get_mut(accu) {
                slot.1 = next;
            }
        }
        let result = outcome.and_then(|()| self.eval(&it.result));
        self.locals.truncate(accu);
        result
    }

    /// A comprehension that makes a list, without copying the list for every item.
    fn grow<'e: 'm>(
        &mut self,
        growing: &Growing<'e>,
        it: &'e ComprehensionExpr,
        items: Vec<Value>,
    ) -> Outcome {
        let mut out = Vec::new();
        for item in items {
            self.locals.push((&it.iter_var, Ok(item)));
            let value = match growing.condition.map(|condition| self.eval(condition)) {
                None | Some(Ok(Value::Bool(true))) => self.eval(growing.item).map(Some),
                Some(Ok(Value::Bool(false))) => Ok(None),
                Some(Ok(_)) => Err(EvalError::overload()),
                Some(Err(error)) => Err(error),
            };
            self.locals.pop();
            out.extend(value?);
        }
        Ok(list(out))
    }

    fn call<'e: 'm>(&mut self, call: &'e CallExpr) -> Outcome {
        if call.target.is_none()
            && let Some(outcome) = self.operator(call)
        {
            return outcome;
        }
        if let Some(target) = call.target.as_deref() {
            if let Some(outcome) = macros::call(self, target, call) {
                return outcome;
            }
            if let Expr::Ident(prefix) = &target.expr
                && !self.is_local(prefix)
            {
                let name = format!("{prefix}.{}", call.func_name);
                if functions::is_known(&name) {
                    let arguments = self.all(&call.args)?;
                    return functions::call(self, &name, None, arguments);
                }
            }
            let target = self.eval(target)?;
            let arguments = self.all(&call.args)?;
            if authorizer::is(&target) {
                let authorize = self.scope.authorize.ok_or_else(EvalError::overload)?;
                self.pay(authorizer::COST)?;
                return authorizer::call(authorize, &target, &call.func_name, &arguments);
            }
            return functions::call(self, &call.func_name, Some(target), arguments);
        }
        let arguments = self.all(&call.args)?;
        functions::call(self, &call.func_name, None, arguments)
    }

    fn all<'e: 'm>(&mut self, expressions: &'e [IdedExpr]) -> Result<Vec<Value>, EvalError> {
        expressions.iter().map(|e| self.eval(e)).collect()
    }
}

/// `map` and `filter`: the steps that only add an item to a list.
struct Growing<'e> {
    item: &'e IdedExpr,
    condition: Option<&'e IdedExpr>,
}

impl<'e> Growing<'e> {
    fn of(it: &'e ComprehensionExpr) -> Option<Growing<'e>> {
        let is_accu = |e: &IdedExpr| matches!(&e.expr, Expr::Ident(name) if *name == it.accu_var);
        if !matches!(&it.accu_init.expr, Expr::List(items) if items.elements.is_empty())
            || !is_accu(&it.result)
        {
            return None;
        }
        let added = |e: &'e IdedExpr| match &e.expr {
            Expr::Call(call) if call.func_name == operators::ADD => match call.args.as_slice() {
                [accu, one] if is_accu(accu) => match &one.expr {
                    Expr::List(items) if items.elements.len() == 1 && items.optional_indices.is_empty() => {
                        items.elements.first()
                    }
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        };
        if let Some(item) = added(&it.loop_step) {
            return Some(Growing {
                item,
                condition: None,
            });
        }
        match &it.loop_step.expr {
            Expr::Call(call) if call.func_name == operators::CONDITIONAL => match call.args.as_slice() {
                [condition, yes, no] if is_accu(no) => Some(Growing {
                    item: added(yes)?,
                    condition: Some(condition),
                }),
                _ => None,
            },
            _ => None,
        }
    }
}

fn literal_value(literal: &LiteralValue) -> Value {
    match literal {
        LiteralValue::Boolean(b) => Value::Bool(*b.inner()),
        LiteralValue::Bytes(b) => Value::Bytes(Arc::new(b.inner().to_vec())),
        LiteralValue::Double(n) => Value::Float(*n.inner()),
        LiteralValue::Int(n) => Value::Int(*n.inner()),
        LiteralValue::Null => Value::Null,
        LiteralValue::String(s) => text(s.inner()),
        LiteralValue::UInt(n) => Value::UInt(*n.inner()),
    }
}

/// What a comprehension goes through: items, or keys in order.
pub(super) fn iterated(range: &Value) -> Result<Vec<Value>, EvalError> {
    match range {
        Value::List(items) => Ok(items.to_vec()),
        Value::Map(members) => {
            let mut keys: Vec<&Key> = members.map.keys().collect();
            keys.sort();
            Ok(keys.into_iter().map(Value::from).collect())
        }
        _ => Err(EvalError::overload()),
    }
}

pub(super) fn as_key(value: Value) -> Result<Key, EvalError> {
    value
        .try_into()
        .map_err(|_no_key| EvalError::new("unsupported key type"))
}

fn member(value: &Value, field: &str) -> Outcome {
    match value {
        Value::Map(members) => {
            let key = Key::from(field);
            members.get(&key).cloned().ok_or_else(|| EvalError::no_key(field))
        }
        _ => Err(EvalError::overload()),
    }
}
