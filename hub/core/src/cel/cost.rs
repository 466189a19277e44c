//! What a rule may cost at most, estimated from the bounds of its schema before it ever runs. Coarser than the model of
//! Kubernetes: only loops and the sizes of what they go through are multiplied. What it lets pass is bounded again when it
//! runs.

use super::program::Program;
use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{EntryExpr, Expr};
use serde_json::Value as Json;

/// The estimate that is allowed for one rule and all its uses (Kubernetes: `StaticEstimatedCostLimit`).
const LIMIT: u64 = 10_000_000;
/// Items of a list whose schema sets no bound: a request of 3 MiB holds so many of the smallest.
const UNBOUNDED: u64 = 3 * 1024 * 1024 / 2;
/// The same for members of a map.
const UNBOUNDED_MEMBERS: u64 = 3 * 1024 * 1024 / 6;

/// By which factor the estimate is over the limit, as messages say it; none if it is not.
pub fn excess(program: &Program, node: &Json, most: Option<u64>) -> Option<String> {
    let mut names = vec![("self", Some(node)), ("oldSelf", Some(node))];
    let once = cost(&program.expression, &mut names);
    // Without any loop the runtime bound is enough: plain rules in long lists are common.
    let all = once.saturating_mul(most.unwrap_or(if once > 1_000 { UNBOUNDED } else { 1 }));
    let factor = all / LIMIT;
    (all > LIMIT).then(|| match factor {
        0 | 1 => format!("{:.1}x", to_float(all) / to_float(LIMIT)),
        2..=100 => format!("{:.1}x", to_float(all) / to_float(LIMIT)),
        _ => "more than 100x".to_owned(),
    })
}

#[expect(clippy::cast_precision_loss, reason = "for a message")]
fn to_float(n: u64) -> f64 {
    n as f64
}

type Known<'s> = Vec<(&'s str, Option<&'s Json>)>;

/// The schema of what an expression gives, if it leads there by names.
fn schema<'s>(expression: &'s IdedExpr, names: &Known<'s>) -> Option<&'s Json> {
    match &expression.expr {
        Expr::Ident(name) => names
            .iter()
            .rev()
            .find(|(known, _)| known == name)
            .and_then(|(_, s)| *s),
        Expr::Select(select) => {
            let of = schema(&select.operand, names)?;
            let name = super::escape::unescape(&select.field);
            of.get("properties")
                .and_then(|members| members.get(&name))
                .or_else(|| of.get("additionalProperties").filter(|a| a.is_object()))
        }
        Expr::Call(call) if call.func_name == "_[_]" => {
            let of = schema(call.args.first()?, names)?;
            of.get("items").or_else(|| of.get("additionalProperties"))
        }
        // What a list or map leaves over.
        Expr::Comprehension(it) if it.accu_var == "@result" => {
            matches!(&it.accu_init.expr, Expr::List(_)).then(|| schema(&it.iter_range, names))?
        }
        _ => None,
    }
}

fn length(of: Option<&Json>, literal: Option<usize>) -> u64 {
    if let Some(items) = literal {
        return items as u64;
    }
    let bound = |key: &str| of.and_then(|of| of.get(key)).and_then(Json::as_u64);
    match of.and_then(|of| of.get("type")).and_then(Json::as_str) {
        Some("array") => bound("maxItems").unwrap_or(UNBOUNDED),
        Some("object") => bound("maxProperties").unwrap_or(UNBOUNDED_MEMBERS),
        // Not known: taken for short, and bounded when it runs.
        _ => 100,
    }
}

fn literal_length(expression: &IdedExpr) -> Option<usize> {
    match &expression.expr {
        Expr::List(items) => Some(items.elements.len()),
        Expr::Map(members) => Some(members.entries.len()),
        _ => None,
    }
}

fn cost<'s>(expression: &'s IdedExpr, names: &mut Known<'s>) -> u64 {
    let sum = |expressions: &mut dyn Iterator<Item = &'s IdedExpr>, names: &mut Known<'s>| {
        expressions.fold(1_u64, |sum, e| sum.saturating_add(cost(e, names)))
    };
    match &expression.expr {
        Expr::Comprehension(it) => {
            let range = cost(&it.iter_range, names);
            let of = schema(&it.iter_range, names);
            let times = length(of, literal_length(&it.iter_range));
            let item = of.and_then(|of| of.get("items"));
            names.push((&it.iter_var, item));
            let step = cost(&it.loop_step, names).saturating_add(1);
            names.pop();
            range.saturating_add(times.saturating_mul(step))
        }
        Expr::Call(call) => {
            let own = sum(
                &mut call.target.iter().map(AsRef::as_ref).chain(&call.args),
                names,
            );
            if super::macros::TWO.contains(&call.func_name.as_str())
                && let (Some(target), true) = (&call.target, call.args.len() >= 3)
            {
                let times = length(schema(target, names), literal_length(target));
                return own.saturating_mul(times.max(1));
            }
            own
        }
        Expr::Select(select) => cost(&select.operand, names).saturating_add(1),
        Expr::List(items) => sum(&mut items.elements.iter(), names),
        Expr::Map(members) => {
            let entries = members.entries.iter().filter_map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => Some([&entry.key, &entry.value]),
                EntryExpr::StructField(_) => None,
            });
            sum(&mut entries.flatten(), names)
        }
        Expr::Struct(members) => {
            let entries = members.entries.iter().filter_map(|entry| match &entry.expr {
                EntryExpr::StructField(entry) => Some(&entry.value),
                EntryExpr::MapEntry(_) => None,
            });
            sum(&mut { entries }, names)
        }
        Expr::Literal(_) | Expr::Ident(_) | Expr::Unspecified => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn loops_multiply() {
        let node = json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "integer"}},
            "s": {"type": "array", "maxItems": 10, "items": {"type": "integer"}}}});
        let factor = |source: &str, most| excess(&Program::parse(source).expect("parses"), &node, most);
        assert_eq!(factor("self.l.all(a, a > 0)", Some(1)), None);
        assert_eq!(
            factor("self.l.all(a, self.l.all(b, a != b))", Some(1)).as_deref(),
            Some("more than 100x")
        );
        assert_eq!(factor("self.s.all(a, self.s.all(b, a != b))", Some(1)), None);
        assert_eq!(
            factor("self.l.all(a, a > 0)", None).as_deref(),
            Some("more than 100x")
        );
    }
}
