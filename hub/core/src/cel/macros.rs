//! Comprehensions and bindings that the parser does not expand itself: over two variables, `sortBy`, `optMap`.

use super::eval::{EvalError, Machine, Outcome, as_key, iterated};
use super::value::{as_optional, list, map, optional};
use kube_cel::cel::common::ast::{CallExpr, Expr};
use kube_cel::cel::{IdedExpr, Value};
use std::cmp::Ordering;
use std::collections::HashMap;

/// The name that an argument is.
pub(super) fn name(expression: &IdedExpr) -> Option<&str> {
    match &expression.expr {
        Expr::Ident(name) => Some(name),
        _ => None,
    }
}

/// The words over two variables.
pub(super) const TWO: [&str; 6] = [
    "all",
    "exists",
    "existsOne",
    "transformList",
    "transformMap",
    "transformMapEntry",
];

/// Evaluates such a call; none if it is another one.
pub(super) fn call<'m, 'p, 'e: 'm>(
    machine: &mut Machine<'m, 'p>,
    target: &'e IdedExpr,
    call: &'e CallExpr,
) -> Option<Outcome> {
    match (call.func_name.as_str(), call.args.as_slice()) {
        (word, [first, second, rest @ ..]) if TWO.contains(&word) && matches!(rest.len(), 1 | 2) => {
            let names = (name(first)?, name(second)?);
            Some(over_two(machine, target, word, names, rest))
        }
        ("sortBy", [one, by]) => Some(sorted(machine, target, name(one)?, by)),
        (word @ ("optMap" | "optFlatMap"), [one, body]) => {
            let bound = name(one)?;
            Some(machine.eval(target).and_then(|value| match as_optional(&value) {
                None => Err(EvalError::overload()),
                Some(None) => Ok(optional(None)),
                Some(Some(inner)) => {
                    let made = machine.with(bound, inner.clone(), body)?;
                    Ok(if word == "optMap" {
                        optional(Some(made))
                    } else {
                        made
                    })
                }
            }))
        }
        _ => None,
    }
}

/// Index or key, and what stands there.
fn pairs(range: &Value) -> Result<Vec<(Value, Value)>, EvalError> {
    match range {
        Value::List(items) => Ok((0_i64..).map(Value::Int).zip(items.iter().cloned()).collect()),
        Value::Map(members) => {
            let keys = iterated(range)?;
            let mut out = Vec::with_capacity(keys.len());
            for key in keys {
                let found = members.get(&as_key(key.clone())?).cloned();
                out.push((key, found.unwrap_or(Value::Null)));
            }
            Ok(out)
        }
        _ => Err(EvalError::overload()),
    }
}

fn over_two<'m, 'p, 'e: 'm>(
    machine: &mut Machine<'m, 'p>,
    target: &'e IdedExpr,
    word: &str,
    names: (&'e str, &'e str),
    rest: &'e [IdedExpr],
) -> Outcome {
    let range = machine.eval(target)?;
    let mut failed = None;
    let mut count = 0;
    let mut items = Vec::new();
    let mut members = HashMap::new();
    let (filter, body) = match rest {
        [body] => (None, body),
        [filter, body] => (Some(filter), body),
        _ => return Err(EvalError::overload()),
    };
    for (key, value) in pairs(&range)? {
        let mut ask = |e: &'e IdedExpr| machine.with_two((names.0, key.clone()), (names.1, value.clone()), e);
        if let Some(filter) = filter {
            match ask(filter)? {
                Value::Bool(true) => {}
                Value::Bool(false) => continue,
                _ => return Err(EvalError::overload()),
            }
        }
        let outcome = ask(body);
        match (word, outcome) {
            (_, Err(error)) if error.is_cost || !matches!(word, "all" | "exists") => return Err(error),
            (_, Err(error)) => failed = failed.or(Some(error)),
            ("all", Ok(Value::Bool(false))) => return Ok(Value::Bool(false)),
            ("exists", Ok(Value::Bool(true))) => return Ok(Value::Bool(true)),
            ("existsOne", Ok(Value::Bool(true))) => count += 1,
            ("all" | "exists" | "existsOne", Ok(Value::Bool(_))) => {}
            ("transformList", Ok(value)) => items.push(value),
            ("transformMap", Ok(value)) => {
                members.insert(as_key(key)?, value);
            }
            ("transformMapEntry", Ok(Value::Map(made))) => {
                for (key, value) in made.map.iter() {
                    if members.insert(key.clone(), value.clone()).is_some() {
                        return Err(EvalError::new(format!("insert failed: key {key} already exists")));
                    }
                }
            }
            _ => return Err(EvalError::overload()),
        }
    }
    match (word, failed) {
        (_, Some(error)) => Err(error),
        ("all", None) => Ok(Value::Bool(true)),
        ("exists", None) => Ok(Value::Bool(false)),
        ("existsOne", None) => Ok(Value::Bool(count == 1)),
        ("transformList", None) => Ok(list(items)),
        _ => Ok(map(members)),
    }
}

fn sorted<'m, 'p, 'e: 'm>(
    machine: &mut Machine<'m, 'p>,
    target: &'e IdedExpr,
    bound: &'e str,
    by: &'e IdedExpr,
) -> Outcome {
    let range = machine.eval(target)?;
    let Value::List(items) = &range else {
        return Err(EvalError::overload());
    };
    machine.pay_for(&range)?;
    let mut keyed = Vec::with_capacity(items.len());
    for item in items.iter() {
        keyed.push((machine.with(bound, item.clone(), by)?, item.clone()));
    }
    let mut is_ordered = true;
    keyed.sort_by(|(a, _), (b, _)| {
        a.partial_cmp(b).unwrap_or_else(|| {
            is_ordered = false;
            Ordering::Equal
        })
    });
    if !is_ordered {
        return Err(EvalError::overload());
    }
    Ok(list(keyed.into_iter().map(|(_, item)| item).collect()))
}
