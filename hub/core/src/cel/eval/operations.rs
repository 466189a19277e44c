//! Operators: those of logic settle as soon as one side does; the others look at both.

use super::{EvalError, Machine, Outcome, as_key};
use crate::cel::value::{as_optional, optional};
use crate::limits::MAX_CEL_VALUE;
use kube_cel::cel::common::ast::{CallExpr, operators};
use kube_cel::cel::{IdedExpr, Value};
use std::cmp::Ordering;
use std::sync::Arc;

impl<'m> Machine<'m, '_> {
    pub(super) fn operator<'e: 'm>(&mut self, call: &'e CallExpr) -> Option<Outcome> {
        let outcome = match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::CONDITIONAL, [condition, yes, no]) => match self.eval(condition) {
                Ok(Value::Bool(true)) => self.eval(yes),
                Ok(Value::Bool(false)) => self.eval(no),
                Ok(_) => Err(EvalError::overload()),
                Err(error) => Err(error),
            },
            (operators::LOGICAL_OR, [left, right]) => self.either(left, right, true),
            (operators::LOGICAL_AND, [left, right]) => self.either(left, right, false),
            (operators::LOGICAL_NOT, [one]) => self.eval(one).and_then(|value| match value {
                Value::Bool(b) => Ok(Value::Bool(!b)),
                _ => Err(EvalError::overload()),
            }),
            (operators::NOT_STRICTLY_FALSE, [one]) => match self.eval(one) {
                Ok(Value::Bool(b)) => Ok(Value::Bool(b)),
                _ => Ok(Value::Bool(true)),
            },
            (operators::NEGATE, [one]) => self.eval(one).and_then(|value| match value {
                Value::Int(n) => n
                    .checked_neg()
                    .map(Value::Int)
                    .ok_or_else(|| EvalError::new("integer overflow")),
                Value::Float(n) => Ok(Value::Float(-n)),
                _ => Err(EvalError::overload()),
            }),
            (name, [left, right]) if is_binary(name) => self.binary(name, left, right),
            _ => return None,
        };
        Some(outcome)
    }

    /// `||` (`settles` is true) and `&&`: either side may settle it, whatever the other one does.
    fn either<'e: 'm>(&mut self, left: &'e IdedExpr, right: &'e IdedExpr, settles: bool) -> Outcome {
        let settled = |outcome: &Outcome| matches!(outcome, Ok(Value::Bool(b)) if *b == settles);
        let left = self.eval(left);
        if settled(&left) || matches!(&left, Err(error) if error.is_cost) {
            return left;
        }
        let right = self.eval(right);
        if settled(&right) || matches!(&right, Err(error) if error.is_cost) {
            return right;
        }
        match (left, right) {
            (Ok(Value::Bool(_)), right @ (Ok(Value::Bool(_)) | Err(_))) => right,
            (Err(error), _) => Err(error),
            _ => Err(EvalError::overload()),
        }
    }

    fn binary<'e: 'm>(&mut self, name: &str, left: &'e IdedExpr, right: &'e IdedExpr) -> Outcome {
        let left = self.eval(left)?;
        let right = self.eval(right)?;
        match name {
            operators::EQUALS | operators::NOT_EQUALS => {
                self.pay_for(&left)?;
                let is_equal = self.equal(&left, &right);
                Ok(Value::Bool(is_equal == (name == operators::EQUALS)))
            }
            operators::LESS => compared(&left, &right, |o| o == Ordering::Less),
            operators::LESS_EQUALS => compared(&left, &right, |o| o != Ordering::Greater),
            operators::GREATER => compared(&left, &right, |o| o == Ordering::Greater),
            operators::GREATER_EQUALS => compared(&left, &right, |o| o != Ordering::Less),
            operators::IN => {
                self.pay_for(&right)?;
                match &right {
                    Value::List(items) => Ok(Value::Bool(items.iter().any(|item| self.equal(item, &left)))),
                    Value::Map(members) => {
                        let key = as_key(left)?;
                        Ok(Value::Bool(members.get(&key).is_some()))
                    }
                    _ => Err(EvalError::overload()),
                }
            }
            operators::INDEX => match as_optional(&left) {
                Some(inner) => Ok(optional(inner.and_then(|value| index(value, &right).ok()))),
                None => index(&left, &right),
            },
            operators::OPT_INDEX | operators::OPT_SELECT => {
                let value = match as_optional(&left) {
                    Some(None) => return Ok(optional(None)),
                    Some(Some(inner)) => inner,
                    None => &left,
                };
                match (value, index(value, &right)) {
                    (Value::Map(_) | Value::List(_), found) => Ok(optional(found.ok())),
                    _ => Err(EvalError::overload()),
                }
            }
            _ => {
                if matches!(left, Value::String(_) | Value::Bytes(_) | Value::List(_)) {
                    self.pay_for(&left)?;
                    self.pay_for(&right)?;
                }
                if name == operators::ADD
                    && let Some(sum) = self.scope.lists.and_then(|lists| lists.sum(&left, &right))
                {
                    return Ok(sum);
                }
                self.computed(name, left, right)
            }
        }
    }

    fn equal(&self, left: &Value, right: &Value) -> bool {
        match self.scope.lists {
            Some(lists) => lists.equal(left, right),
            None => left == right,
        }
    }

    fn computed(&mut self, name: &str, left: Value, right: Value) -> Outcome {
        let size = |value: &Value| match value {
            Value::String(s) => s.len(),
            Value::Bytes(b) => b.len(),
            Value::List(items) => items.len(),
            _ => 0,
        };
        if size(&left) + size(&right) > MAX_CEL_VALUE {
            return Err(EvalError::cost());
        }
        let outcome = match (name, left, right) {
            (operators::ADD, Value::Bytes(a), Value::Bytes(b)) => {
                return Ok(Value::Bytes(Arc::new([a.as_slice(), b.as_slice()].concat())));
            }
            (operators::ADD, left, right) => left + right,
            (operators::SUBSTRACT, left, right) => left - right,
            (operators::MULTIPLY, left, right) => left * right,
            (operators::DIVIDE, left, right) => left / right,
            (operators::MODULO, left, right) => left % right,
            _ => return Err(EvalError::overload()),
        };
        outcome.map_err(EvalError::from)
    }
}

fn is_binary(name: &str) -> bool {
    [
        operators::ADD,
        operators::SUBSTRACT,
        operators::MULTIPLY,
        operators::DIVIDE,
        operators::MODULO,
        operators::EQUALS,
        operators::NOT_EQUALS,
        operators::GREATER_EQUALS,
        operators::LESS_EQUALS,
        operators::GREATER,
        operators::LESS,
        operators::INDEX,
        operators::OPT_INDEX,
        operators::OPT_SELECT,
        operators::IN,
    ]
    .contains(&name)
}

pub(super) fn index(value: &Value, at: &Value) -> Outcome {
    match value {
        Value::List(items) => {
            let at = match at {
                Value::Int(n) => *n,
                Value::UInt(n) => i64::try_from(*n).unwrap_or(i64::MAX),
                #[expect(clippy::cast_possible_truncation, reason = "compared below")]
                Value::Float(n) if n.fract() == 0.0 => *n as i64,
                _ => return Err(EvalError::overload()),
            };
            let found = usize::try_from(at).ok().and_then(|at| items.get(at));
            found
                .cloned()
                .ok_or_else(|| EvalError::new(format!("index out of bounds: {at}")))
        }
        Value::Map(members) => {
            let key = as_key(at.clone())?;
            members.get(&key).cloned().ok_or_else(|| EvalError::no_key(key))
        }
        _ => Err(EvalError::overload()),
    }
}

fn compared(left: &Value, right: &Value, is: impl Fn(Ordering) -> bool) -> Outcome {
    let order = match (left, right) {
        (Value::Null, _) | (_, Value::Null) => None,
        (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
        (
            Value::Int(_) | Value::UInt(_) | Value::Float(_),
            Value::Int(_) | Value::UInt(_) | Value::Float(_),
        ) => match left.partial_cmp(right) {
            Some(order) => Some(order),
            // Not a number: no order holds.
            None => return Ok(Value::Bool(false)),
        },
        _ => left.partial_cmp(right),
    };
    order
        .map(|order| Value::Bool(is(order)))
        .ok_or_else(EvalError::overload)
}
