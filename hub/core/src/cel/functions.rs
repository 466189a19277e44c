//! Calls of functions. What is asked for often or could grow is done here; the rest is `kube-cel`'s, which is fenced: its
//! arguments are paid for and bounded, and whatever it does, the caller goes on.

use super::eval::{EvalError, Machine, Outcome};
use super::signatures;
use super::value::{TypeValue, as_optional, list, optional, text, type_name};
use crate::limits::MAX_CEL_VALUE;
use kube_cel::KubeCelExt as _;
use kube_cel::cel::common::ast::{CallExpr, Expr};
use kube_cel::cel::{Context, IdedExpr, Value};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Cost of compiling a pattern, per byte: repetitions in it multiply.
const PATTERN_COST: u64 = 100;

thread_local! {
    /// The functions of `kube-cel`, registered once.
    static LIBRARY: Context<'static> = Context::default().with_all();
}

/// Whether there is such a function.
pub(super) fn is_known(name: &str) -> bool {
    signatures::of(name).is_some()
}

/// A type that can be named, such as `int`.
pub(super) fn type_constant(name: &str) -> Option<Value> {
    const TYPES: [&str; 11] = [
        "bool",
        "bytes",
        "double",
        "int",
        "list",
        "map",
        "null_type",
        "string",
        "type",
        "uint",
        "optional_type",
    ];
    let is_type =
        TYPES.contains(&name) || matches!(name, "google.protobuf.Timestamp" | "google.protobuf.Duration");
    is_type.then(|| type_value(name))
}

fn type_value(name: &str) -> Value {
    Value::Opaque(Arc::new(TypeValue(name.to_owned())))
}

/// Calls a function.
pub(super) fn call(
    machine: &mut Machine<'_, '_>,
    name: &str,
    target: Option<Value>,
    arguments: Vec<Value>,
) -> Outcome {
    if !is_known(name) {
        return Err(EvalError::new(format!(
            "undeclared reference to '{name}' (in container '')"
        )));
    }
    let first = target.as_ref().or(arguments.first());
    // Cheap ones do not look at all of it.
    match (name, first) {
        ("size", Some(value)) => return size(value),
        ("type", Some(value)) => return Ok(type_value(type_name(value))),
        ("dyn", Some(value)) => return Ok(value.clone()),
        _ => {}
    }
    if let Some(outcome) = optionals(name, target.as_ref(), &arguments) {
        return outcome;
    }
    for value in target.iter().chain(&arguments) {
        machine.pay_for(value)?;
    }
    match (name, target.as_ref(), arguments.as_slice()) {
        ("contains", Some(Value::String(s)), [Value::String(part)]) => {
            Ok(Value::Bool(s.contains(part.as_str())))
        }
        ("startsWith", Some(Value::String(s)), [Value::String(part)]) => {
            Ok(Value::Bool(s.starts_with(part.as_str())))
        }
        ("endsWith", Some(Value::String(s)), [Value::String(part)]) => {
            Ok(Value::Bool(s.ends_with(part.as_str())))
        }
        ("bool", None, [Value::Bool(b)]) => Ok(Value::Bool(*b)),
        ("bool", None, [Value::String(s)]) => match s.as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(EvalError::new("type conversion error from 'string' to 'bool'")),
        },
        ("contains" | "startsWith" | "endsWith" | "bool", ..) => Err(EvalError::overload()),
        _ => {
            bounded(machine, name, target.as_ref(), &arguments)?;
            let made = library(name, target, arguments)?;
            machine.pay_for(&made)?;
            Ok(made)
        }
    }
}

fn size(value: &Value) -> Outcome {
    let size = match value {
        Value::String(s) => s.chars().count(),
        Value::Bytes(b) => b.len(),
        Value::List(items) => items.len(),
        Value::Map(members) => members.map.len(),
        _ => return Err(EvalError::overload()),
    };
    Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX)))
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) | Value::Int(0) | Value::UInt(0) => true,
        Value::Float(n) => *n == 0.0,
        Value::String(s) => s.is_empty(),
        Value::Bytes(b) => b.is_empty(),
        Value::List(items) => items.is_empty(),
        Value::Map(members) => members.map.is_empty(),
        _ => false,
    }
}

fn optionals(name: &str, target: Option<&Value>, arguments: &[Value]) -> Option<Outcome> {
    let inner = target.and_then(as_optional);
    let outcome = match (name, inner, arguments) {
        ("optional.none", _, []) => Ok(optional(None)),
        ("optional.of", _, [one]) => Ok(optional(Some(one.clone()))),
        ("optional.ofNonZeroValue", _, [one]) => Ok(optional((!is_zero(one)).then(|| one.clone()))),
        ("optional.unwrap", _, [Value::List(items)]) => unwrapped(items),
        ("unwrapOpt", _, []) => match target {
            Some(Value::List(items)) => unwrapped(items),
            _ => Err(EvalError::overload()),
        },
        ("hasValue", Some(inner), []) => Ok(Value::Bool(inner.is_some())),
        ("value", Some(inner), []) => inner
            .cloned()
            .ok_or_else(|| EvalError::new("optional.none() dereference")),
        ("orValue", Some(inner), [other]) => Ok(inner.unwrap_or(other).clone()),
        ("or", Some(inner), [other]) => match (inner, target) {
            (Some(_), Some(target)) => Ok(target.clone()),
            _ => Ok(other.clone()),
        },
        ("hasValue" | "value" | "orValue" | "or", None, _) => Err(EvalError::overload()),
        _ => return None,
    };
    Some(outcome)
}

fn unwrapped(items: &[Value]) -> Outcome {
    let mut out = Vec::new();
    for item in items {
        out.extend(as_optional(item).ok_or_else(EvalError::overload)?.cloned());
    }
    Ok(list(out))
}

/// Refuses what would make much out of little before it is made.
fn bounded(
    machine: &mut Machine<'_, '_>,
    name: &str,
    target: Option<&Value>,
    arguments: &[Value],
) -> Result<(), EvalError> {
    let len = |value: &Value| match value {
        Value::String(s) => s.len(),
        _ => 0,
    };
    let most = match (name, target, arguments) {
        ("lists.range", None, [Value::Int(n)]) => usize::try_from(*n).unwrap_or(0),
        ("replace", Some(Value::String(s)), [Value::String(from), Value::String(to), ..]) => {
            let times = match from.is_empty() {
                true => s.chars().count() + 1,
                false => s.matches(from.as_str()).count(),
            };
            s.len().saturating_add(times.saturating_mul(to.len()))
        }
        ("join", Some(Value::List(items)), arguments) => {
            let between = arguments.first().map_or(0, len).saturating_mul(items.len());
            items.iter().map(len).fold(between, usize::saturating_add)
        }
        ("format", Some(Value::String(s)), _) => {
            let digits = |part: &str| part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            if s.split('.').skip(1).any(|part| digits(part) > 3) {
                return Err(EvalError::new(
                    "could not parse formatting clause: precision is too large",
                ));
            }
            s.len()
        }
        ("matches" | "find" | "findAll", target, arguments) => {
            let pattern = if target.is_some() {
                arguments.first()
            } else {
                arguments.get(1)
            };
            machine.pay(PATTERN_COST.saturating_mul(pattern.map_or(0, len) as u64))?;
            0
        }
        _ => 0,
    };
    if most > MAX_CEL_VALUE {
        machine.pay(u64::MAX)?;
    }
    Ok(())
}

/// A duration as text.
pub(super) fn duration(given: &str) -> Outcome {
    library("duration", None, vec![text(given)])
}

/// A time as text.
pub(super) fn timestamp(given: &str) -> Outcome {
    library("timestamp", None, vec![text(given)])
}

/// Calls a function of `kube-cel`.
fn library(name: &str, target: Option<Value>, arguments: Vec<Value>) -> Outcome {
    let named = |at: String| IdedExpr {
        id: 0,
        expr: Expr::Ident(at),
    };
    let call = IdedExpr {
        id: 0,
        expr: Expr::Call(CallExpr {
            func_name: name.to_owned(),
            target: target.as_ref().map(|_| Box::new(named("@t".to_owned()))),
            args: (0..arguments.len()).map(|at| named(format!("@{at}"))).collect(),
        }),
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        LIBRARY.with(|library| {
            let mut scope = library.new_inner_scope();
            if let Some(target) = target {
                scope.add_variable_from_value("@t", target);
            }
            for (at, argument) in arguments.into_iter().enumerate() {
                scope.add_variable_from_value(format!("@{at}"), argument);
            }
            scope.resolve(&call)
        })
    }));
    match outcome {
        Ok(outcome) => outcome.map_err(EvalError::from),
        Err(_panic) => Err(EvalError::new(format!("{name} failed"))),
    }
}
