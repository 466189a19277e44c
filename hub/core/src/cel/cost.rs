//! What an expression may cost at most, estimated from the bounds of its schema before it ever runs: the model of the
//! reference compiler (cel-go `checker/cost.go`) with the functions of the API server (`cel/library/cost.go`). Its numbers
//! decide which definitions are taken, so they are kept to the last unit, quirks included. What passes is bounded again
//! when it runs.

mod functions;
mod size;

use super::bounds::{Below, Bounds};
use super::check::{Called, Checked, Names};
use super::macros::{TWO, name as bound_name};
use super::program::{CompileError, Program};
use super::types::Type;
use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, SelectExpr, operators,
};
use size::{Entry, Size};
use std::collections::HashMap;

const LIST: u64 = 10;
const MAP: u64 = 30;
const STRUCT: u64 = 40;

impl Program {
    /// The type of the expression and what it costs at most, if `self` and `oldSelf` are of those bounds.
    ///
    /// # Errors
    /// As [`Program::check`].
    pub fn check_with_cost(&self, names: &Names, bounds: &Bounds) -> Result<(Type, u64), CompileError> {
        let checked = self.checked(names)?;
        let mut estimate = Estimate {
            checked: &checked,
            bounds,
            paths: HashMap::new(),
            sizes: HashMap::new(),
            entries: HashMap::new(),
            locals: Vec::new(),
        };
        let cost = estimate.cost(&self.expression);
        Ok((checked.of, cost))
    }
}

/// Where a value stands below a variable, which is the first step.
type Path<'e> = Vec<&'e str>;

const ITEMS: &str = "@items";
const VALUES: &str = "@values";
const KEYS: &str = "@keys";
const INDICES: &str = "@indices";

#[derive(Debug, Clone, Default)]
struct Local<'e> {
    path: Path<'e>,
    size: Option<Size>,
    entry: Option<Entry>,
}

/// An argument, as functions look at it.
struct Node<'e> {
    expression: &'e IdedExpr,
    of: Type,
    path: Path<'e>,
    size: Option<Size>,
}

impl Node<'_> {
    fn size(&self) -> Size {
        self.size.unwrap_or(Size::UNKNOWN)
    }
}

struct Estimate<'e> {
    checked: &'e Checked,
    bounds: &'e Bounds,
    paths: HashMap<u64, Path<'e>>,
    sizes: HashMap<u64, Size>,
    entries: HashMap<u64, Entry>,
    locals: Vec<(&'e str, Local<'e>)>,
}

fn longer<'e>(path: &Path<'e>, step: &'e str) -> Path<'e> {
    let mut out = path.clone();
    out.push(step);
    out
}

impl<'e> Estimate<'e> {
    fn cost(&mut self, expression: &'e IdedExpr) -> u64 {
        match &expression.expr {
            Expr::Literal(_) | Expr::Unspecified => 0,
            Expr::Ident(name) => {
                let path = self
                    .local(name)
                    .map_or_else(|| vec![name.as_str()], |l| l.path.clone());
                self.paths.insert(expression.id, path);
                1
            }
            Expr::Select(select) => self.select(expression.id, select),
            Expr::Call(call) => self.call(expression.id, call),
            Expr::List(items) => {
                let mut sum: u64 = LIST;
                let mut inner = Size::empty_union(items.elements.is_empty());
                for item in &items.elements {
                    sum = sum.saturating_add(self.cost(item));
                    inner = inner.union(self.size_or_unknown(item));
                }
                self.entries.insert(expression.id, Entry::list(inner));
                sum
            }
            Expr::Map(members) => {
                let mut sum: u64 = MAP;
                let is_empty = members.entries.is_empty();
                let (mut keys, mut values) = (Size::empty_union(is_empty), Size::empty_union(is_empty));
                for entry in &members.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        sum = sum.saturating_add(self.cost(&entry.key));
                        sum = sum.saturating_add(self.cost(&entry.value));
                        keys = keys.union(self.size_or_unknown(&entry.key));
                        values = values.union(self.size_or_unknown(&entry.value));
                    }
                }
                self.entries.insert(expression.id, Entry::map(keys, values));
                sum
            }
            Expr::Struct(members) => {
                let mut sum: u64 = STRUCT;
                for entry in &members.entries {
                    if let EntryExpr::StructField(entry) = &entry.expr {
                        sum = sum.saturating_add(self.cost(&entry.value));
                    }
                }
                sum
            }
            Expr::Comprehension(it) => self.comprehension(expression.id, it),
        }
    }

    fn local(&self, name: &str) -> Option<&Local<'e>> {
        let found = self.locals.iter().rev().find(|(local, _)| *local == name);
        found.map(|(_, local)| local)
    }

    fn of(&self, expression: &IdedExpr) -> Type {
        let known = self.checked.types.get(&expression.id);
        known.cloned().unwrap_or(Type::Dyn)
    }

    fn path(&self, expression: &IdedExpr) -> Path<'e> {
        if let Expr::Ident(name) = &expression.expr
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expression.id).cloned().unwrap_or_default()
    }

    /// The size that the schema allows at a path. Whatever the first step is, the path begins at the root.
    fn schema_size(&self, path: &Path<'e>) -> Option<Size> {
        let (_, rest) = path.split_first()?;
        let mut at = self.bounds;
        for step in rest {
            at = match (*step, &at.below) {
                (ITEMS | VALUES, Below::Items(inner) | Below::Values(inner)) => inner,
                // Keys are texts of no bound that is looked at.
                (KEYS, Below::Values(_)) => return Some(Size { min: 0, max: 0 }),
                (name, Below::Members(members)) => members.get(name)?,
                _ => return None,
            };
        }
        Some(Size { min: 0, max: at.most })
    }

    fn size(&mut self, expression: &IdedExpr) -> Option<Size> {
        if let Some(known) = self.sizes.get(&expression.id) {
            return Some(*known);
        }
        if let Some(fixed) = literal_size(expression) {
            return Some(Size::fixed(fixed));
        }
        let path = self.path(expression);
        if let Some(size) = self.schema_size(&path) {
            self.sizes.insert(expression.id, size);
            return Some(size);
        }
        if is_scalar(&self.of(expression)) {
            return Some(Size::fixed(1));
        }
        match &expression.expr {
            Expr::Ident(name) => self.local(name).and_then(|local| local.size),
            _ => None,
        }
    }

    fn size_or_unknown(&mut self, expression: &IdedExpr) -> Size {
        self.size(expression).unwrap_or(Size::UNKNOWN)
    }

    fn entry(&self, expression: &IdedExpr) -> Option<Entry> {
        if let Some(known) = self.entries.get(&expression.id) {
            return Some(*known);
        }
        match &expression.expr {
            Expr::Ident(name) => self.local(name).and_then(|local| local.entry),
            _ => None,
        }
    }

    fn node(&mut self, expression: &'e IdedExpr) -> Node<'e> {
        Node {
            expression,
            of: self.of(expression),
            path: self.path(expression),
            size: self.size(expression),
        }
    }

    fn select(&mut self, id: u64, select: &'e SelectExpr) -> u64 {
        let cost = self.cost(&select.operand);
        if select.test {
            // `has` is free.
            return cost;
        }
        let path = longer(&self.path(&select.operand), &select.field);
        self.paths.insert(id, path);
        let has_members = matches!(
            self.of(&select.operand),
            Type::Map(..) | Type::Object(_) | Type::Literal(_)
        );
        cost.saturating_add(u64::from(has_members))
    }

    /// What a name bound by a loop stands for: the items of a list, the keys of a map; both if the loop has two.
    fn bound(&self, range: &IdedExpr, is_first_of_two: bool, is_second: bool) -> Local<'e> {
        let entry = self.entry(range);
        let is_list = match entry {
            Some(entry) => entry.is_list,
            None => matches!(self.of(range), Type::List(_)),
        };
        let (step, takes_value) = match (is_first_of_two, is_second, is_list) {
            (true, _, true) => (INDICES, false),
            (true, _, false) => (KEYS, false),
            (_, true, true) | (false, false, true) => (ITEMS, true),
            (_, true, false) => (VALUES, true),
            (false, false, false) => (KEYS, false),
        };
        Local {
            path: longer(&self.path(range), step),
            size: entry.map(|entry| if takes_value { entry.value } else { entry.key }),
            entry: None,
        }
    }

    fn comprehension(&mut self, id: u64, it: &'e ComprehensionExpr) -> u64 {
        let range = self.cost(&it.iter_range);
        let mut sum = range.saturating_add(self.cost(&it.accu_init));
        let accu = Local {
            path: self.path(&it.accu_init),
            size: self.size(&it.accu_init),
            entry: self.entry(&it.accu_init),
        };
        let depth = self.locals.len();
        self.locals.push((&it.accu_var, accu));
        let item = self.bound(&it.iter_range, false, false);
        self.locals.push((&it.iter_var, item));
        let condition = self.cost(&it.loop_cond);
        let step = self.cost(&it.loop_step);
        let step_entry = self.entry(&it.loop_step);
        self.locals.truncate(depth + 1);
        sum = sum.saturating_add(self.cost(&it.result));
        self.locals.truncate(depth);
        let count = self.size_or_unknown(&it.iter_range);
        sum = sum.saturating_add(count.max.saturating_mul(step.saturating_add(condition)));
        match &it.accu_init.expr {
            Expr::Literal(_) => {
                self.sizes.insert(id, Size::fixed(1));
            }
            Expr::List(_) | Expr::Map(_) => {
                self.sizes.insert(id, count);
                if let Some(entry) = step_entry {
                    self.entries.insert(id, entry);
                }
            }
            _ => {}
        }
        sum
    }

    /// Loops over two names, which upstream expands to what [`Estimate::comprehension`] sees of others.
    fn over_two(&mut self, id: u64, call: &'e CallExpr, range: &'e IdedExpr) -> Option<u64> {
        let [first, second, rest @ ..] = call.args.as_slice() else {
            return None;
        };
        let names = (bound_name(first)?, bound_name(second)?);
        let (filter, body) = match rest {
            [filter, body] => (Some(filter), body),
            [body] => (None, body),
            _ => return None,
        };
        let word = call.func_name.as_str();
        let mut sum = self.cost(range);
        let depth = self.locals.len();
        let key = self.bound(range, true, false);
        let value = self.bound(range, false, true);
        self.locals.push((names.0, key));
        self.locals.push((names.1, value));
        let filtered = filter.map(|filter| self.cost(filter));
        let body_cost = self.cost(body);
        let inner = self.size_or_unknown(body);
        self.locals.truncate(depth);
        let count = self.size_or_unknown(range);
        // The accumulator at the start and at the end, the condition, and what one round adds.
        let (start, end, condition, step) = match word {
            "all" => (0, 1, 2, body_cost.saturating_add(1)),
            "exists" => (0, 1, 3, body_cost.saturating_add(1)),
            "existsOne" => (0, 2, 0, body_cost.saturating_add(2)),
            "transformList" => (LIST, 1, 0, body_cost.saturating_add(2 + LIST)),
            "transformMap" => (MAP, 1, 0, body_cost.saturating_add(3)),
            _ => (MAP, 1, 0, body_cost.saturating_add(2)),
        };
        let step = step.saturating_add(filtered.unwrap_or(0));
        sum = sum.saturating_add(start).saturating_add(end);
        sum = sum.saturating_add(count.max.saturating_mul(step.saturating_add(condition)));
        match word {
            "all" | "exists" | "existsOne" => {
                self.sizes.insert(id, Size::fixed(1));
            }
            "transformList" => {
                self.sizes.insert(id, count);
                let empty = Entry::list(Size::fixed(0));
                self.entries.insert(id, empty.union(Entry::list(inner)));
            }
            _ => {
                self.sizes.insert(id, count);
            }
        }
        Some(sum)
    }

    /// `optMap(x, e)` and `optFlatMap(x, e)`: `o.hasValue() ? optional.of(let x = o.value() in e) : optional.none()`.
    fn optional_map(&mut self, call: &'e CallExpr, target: &'e IdedExpr) -> Option<u64> {
        let [one, body] = call.args.as_slice() else {
            return None;
        };
        let name = bound_name(one)?;
        let target_cost = self.cost(target);
        let scalar = match self.of(target) {
            Type::Optional(inner) if is_scalar(&inner) => Some(Size::fixed(1)),
            _ => None,
        };
        self.locals.push((
            name,
            Local {
                path: Vec::new(),
                size: scalar,
                entry: None,
            },
        ));
        let body = self.cost(body);
        self.locals.pop();
        let is_wrapped = call.func_name == "optMap";
        let some = LIST
            .saturating_add(target_cost)
            .saturating_add(1)
            .saturating_add(body)
            .saturating_add(u64::from(is_wrapped));
        // `optional.none()` costs one.
        Some(target_cost.saturating_add(1).saturating_add(some.max(1)))
    }

    /// `sortBy(x, e)`: the list is bound, mapped, and sorted by what it is mapped to.
    fn sort_by(&mut self, id: u64, call: &'e CallExpr, target: &'e IdedExpr) -> Option<u64> {
        let [one, by] = call.args.as_slice() else {
            return None;
        };
        let name = bound_name(one)?;
        let target_cost = self.cost(target);
        let item = self.bound(target, false, false);
        self.locals.push((name, item));
        let step = self.cost(by).saturating_add(2 + LIST);
        let key = self.of(by);
        self.locals.pop();
        let count = self.size_or_unknown(target);
        let mapped = 1_u64
            .saturating_add(LIST)
            .saturating_add(1)
            .saturating_add(count.max.saturating_mul(step));
        let (sorted, size) = functions::sorted(count, &key);
        self.sizes.insert(id, size);
        let bind = LIST.saturating_add(target_cost);
        Some(
            bind.saturating_add(mapped)
                .saturating_add(1)
                .saturating_add(sorted),
        )
    }

    fn call(&mut self, id: u64, call: &'e CallExpr) -> u64 {
        let name = call.func_name.as_str();
        if let Some(target) = call.target.as_deref() {
            let expanded = match name {
                word if TWO.contains(&word) && call.args.len() >= 3 => self.over_two(id, call, target),
                "optMap" | "optFlatMap" => self.optional_map(call, target),
                "sortBy" => self.sort_by(id, call, target),
                _ => None,
            };
            if let Some(cost) = expanded {
                return cost;
            }
        } else if let ("dyn", [argument]) = (name, call.args.as_slice()) {
            let cost = self.cost(argument);
            if let Some(size) = self.size(argument) {
                self.sizes.insert(id, size);
            }
            if let Some(entry) = self.entry(argument) {
                self.entries.insert(id, entry);
            }
            return cost.saturating_add(1);
        }
        let called = self.checked.calls.get(&id);
        let is_qualified = called.is_some_and(|called| called.name != name);
        let (mut costs, mut arguments) = (Vec::new(), Vec::new());
        for argument in &call.args {
            costs.push(self.cost(argument));
            arguments.push(self.node(argument));
        }
        let target = call
            .target
            .as_deref()
            .filter(|_| !is_qualified)
            .map(|target| (self.cost(target), self.node(target)));
        let (of_target, target) = target.map_or((0, None), |(cost, node)| (cost, Some(node)));
        let sum = costs.iter().fold(0_u64, |sum, cost| sum.saturating_add(*cost));
        let cost = match (name, costs.as_slice()) {
            (operators::LOGICAL_AND | operators::LOGICAL_OR, _) => sum,
            (operators::CONDITIONAL, [condition, yes, no]) => {
                if let [_, yes, no] = arguments.as_slice() {
                    self.sizes.insert(id, yes.size().union(no.size()));
                    let entries = self.entry(yes.expression).zip(self.entry(no.expression));
                    if let Some((yes, no)) = entries {
                        self.entries.insert(id, yes.union(no));
                    }
                }
                condition.saturating_add(*yes.max(no))
            }
            _ => {
                let own = self.function(id, called, target.as_ref(), &arguments);
                sum.saturating_add(own)
            }
        };
        cost.saturating_add(of_target)
    }

    /// The cost of a call without that of its arguments: the dearest overload.
    fn function(
        &mut self,
        id: u64,
        called: Option<&Called>,
        target: Option<&Node<'e>>,
        arguments: &[Node<'e>],
    ) -> u64 {
        let Some(called) = called else {
            // An operator that has one overload and looks at no size.
            return 1;
        };
        let (mut most, mut result) = (0, None::<Size>);
        for overload in &called.overloads {
            let (cost, size) = self.overload(&called.name, overload, target, arguments);
            most = most.max(cost);
            if let Some(size) = size {
                result = Some(result.map_or(size, |so_far| so_far.union(size)));
            }
            let step = match (called.name.as_str(), overload.arguments.first()) {
                (operators::INDEX, Some(Type::List(_))) => Some(ITEMS),
                (operators::INDEX, Some(Type::Map(..))) => Some(VALUES),
                _ => None,
            };
            if let (Some(step), Some(indexed)) = (step, arguments.first()) {
                result = self.entry(indexed.expression).map(|entry| entry.value);
                let path = longer(&self.path(indexed.expression), step);
                self.paths.insert(id, path);
            }
            if (called.name.as_str(), overload.arguments.first())
                == (operators::ADD, Some(&Type::list(Type::plain("A"))))
                && let [left, right] = arguments
                && let Some((left, right)) = self.entry(left.expression).zip(self.entry(right.expression))
            {
                self.entries.insert(id, left.union(right));
            }
            if result.is_none() {
                result = self.made(id);
            }
        }
        if let Some(size) = result {
            self.sizes.insert(id, size);
        }
        most
    }

    /// The size of a call's result, if its path or type says it.
    fn made(&self, id: u64) -> Option<Size> {
        if let Some(known) = self.sizes.get(&id) {
            return Some(*known);
        }
        let path = self.paths.get(&id).cloned().unwrap_or_default();
        self.schema_size(&path).or_else(|| {
            let of = self.checked.types.get(&id)?;
            is_scalar(of).then(|| Size::fixed(1))
        })
    }
}

fn literal_size(expression: &IdedExpr) -> Option<u64> {
    Some(match &expression.expr {
        Expr::Literal(LiteralValue::String(text)) => text.inner().chars().count() as u64,
        Expr::Literal(LiteralValue::Bytes(bytes)) => bytes.inner().len() as u64,
        Expr::Literal(_) => 1,
        Expr::List(items) => items.elements.len() as u64,
        Expr::Map(members) => members.entries.len() as u64,
        _ => return None,
    })
}

/// Whether all values of a type are of one size.
fn is_scalar(of: &Type) -> bool {
    match of {
        Type::Plain(name) => ["bool", "double", "duration", "int", "timestamp", "uint"].contains(name),
        Type::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
