//! Where in its text a fault of an expression is: the parser keeps no places, so the n-th fault of a kind is at the n-th such
//! word.

use super::Checker;
use crate::cel::scan::{Kind, Token};
use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{CallExpr, Expr, LiteralValue, operators};

/// Words whose first argument is a name of their own.
const BINDING: [&str; 9] = [
    "all",
    "exists",
    "exists_one",
    "map",
    "filter",
    "existsOne",
    "sortBy",
    "optMap",
    "optFlatMap",
];

const OPERATORS: [(&str, &str); 16] = [
    (operators::CONDITIONAL, "?"),
    (operators::LOGICAL_AND, "&&"),
    (operators::LOGICAL_OR, "||"),
    (operators::LOGICAL_NOT, "!"),
    (operators::SUBSTRACT, "-"),
    (operators::NEGATE, "-"),
    (operators::ADD, "+"),
    (operators::MULTIPLY, "*"),
    (operators::DIVIDE, "/"),
    (operators::MODULO, "%"),
    (operators::EQUALS, "=="),
    (operators::NOT_EQUALS, "!="),
    (operators::GREATER_EQUALS, ">="),
    (operators::LESS_EQUALS, "<="),
    (operators::GREATER, ">"),
    (operators::LESS, "<"),
];

impl Checker<'_> {
    /// The next place of a kind that was not told yet.
    pub(super) fn place(&mut self, key: &str, is: impl Fn(&[Token<'_>], usize) -> bool) -> usize {
        let places: Vec<usize> = (0..self.tokens.len())
            .filter(|at| is(&self.tokens, *at))
            .collect();
        let nth = self.told.entry(key.to_owned()).or_default();
        let found = places.get(*nth).or(places.last());
        *nth += 1;
        found.and_then(|at| self.tokens.get(*at)).map_or(0, |t| t.at)
    }

    /// Where an expression begins, as messages see it.
    pub(super) fn at(&mut self, expression: &IdedExpr) -> usize {
        let key = format!("{}", expression.id);
        match &expression.expr {
            Expr::Ident(name) => self.at_name(name),
            Expr::Select(select) => self.at_field(&select.field),
            Expr::Call(call) => self.at_call(call),
            Expr::List(_) => self.place(&key, |t, at| {
                t[at].text == "[" && (at == 0 || t[at - 1].kind == Kind::Sign)
            }),
            Expr::Map(_) | Expr::Struct(_) => self.place(&key, |t, at| t[at].text == "{"),
            Expr::Literal(literal) => {
                let kind = match literal {
                    LiteralValue::String(_) | LiteralValue::Bytes(_) => Kind::Text,
                    LiteralValue::Boolean(_) | LiteralValue::Null => Kind::Name,
                    _ => Kind::Number,
                };
                let text = literal_text(literal);
                self.place(&format!("literal {text}"), |t, at| {
                    t[at].kind == kind
                        && (t[at].text == text || kind == Kind::Text && t[at].text.contains(&*text))
                })
            }
            Expr::Comprehension(_) | Expr::Unspecified => 0,
        }
    }

    pub(super) fn at_name(&mut self, name: &str) -> usize {
        self.place(&format!("name {name}"), |t, at| {
            let is_member = at > 0 && matches!(t[at - 1].text, "." | "?.");
            let is_call = t.get(at + 1).is_some_and(|next| next.text == "(");
            // `all(x, ...)` binds it.
            let binds = at > 1
                && t[at - 1].text == "("
                && BINDING.contains(&t[at - 2].text)
                && t.get(at + 1).is_some_and(|next| next.text == ",");
            t[at].kind == Kind::Name && t[at].text == name && !is_member && !is_call && !binds
        })
    }

    pub(super) fn at_field(&mut self, field: &str) -> usize {
        self.place(&format!("field {field}"), |t, at| {
            matches!(t[at].text, "." | "?.") && t.get(at + 1).is_some_and(|next| next.text == field)
        })
    }

    pub(super) fn at_call(&mut self, call: &CallExpr) -> usize {
        let name = call.func_name.as_str();
        if name == operators::CONDITIONAL && !self.tokens.iter().any(|t| t.text == "?") {
            // What `filter` and `map` are made of.
            return self.place("conditional", |t, at| {
                t[at].text == "(" && at > 0 && matches!(t[at - 1].text, "filter" | "map" | "exists_one")
            });
        }
        if let Some((_, sign)) = OPERATORS.iter().find(|(operator, _)| *operator == name) {
            return self.place(&format!("operator {name}"), |t, at| t[at].text == *sign);
        }
        match name {
            operators::IN => self.place("in", |t, at| t[at].text == "in"),
            operators::INDEX => self.place("[", |t, at| t[at].text == "["),
            operators::OPT_INDEX => self.place("[?", |t, at| t[at].text == "[?"),
            _ => self.place(&format!("call {name}"), |t, at| {
                t[at].text == "(" && at > 0 && t[at - 1].text == name
            }),
        }
    }
}

fn literal_text(literal: &LiteralValue) -> std::borrow::Cow<'_, str> {
    match literal {
        LiteralValue::Boolean(b) => b.inner().to_string().into(),
        LiteralValue::Bytes(_) => "".into(),
        LiteralValue::Double(n) => n.inner().to_string().into(),
        LiteralValue::Int(n) => n.inner().to_string().into(),
        LiteralValue::Null => "null".into(),
        LiteralValue::String(s) => s.inner().into(),
        LiteralValue::UInt(n) => format!("{}u", n.inner()).into(),
    }
}
