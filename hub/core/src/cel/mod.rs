//! The Common Expression Language as the Kubernetes API server speaks it: in admission policies and in the rules of custom
//! resources. Parsed by `cel`, whose functions `kube-cel` brings; types, places of errors, semantics and costs are ours,
//! because a hub must survive every expression that somebody stores.
//!
//! Three fences: what is too long or too deep is not parsed ([`Program::parse`]); what is of wrong types or may be too dear
//! is refused when it is stored ([`Program::check`], [`Program::check_with_cost`]); and every step of an evaluation is paid for ([`Budget`]).

mod authorizer;
mod bounds;
mod check;
mod cost;
mod escape;
mod eval;
mod functions;
mod lists;
mod macros;
mod program;
mod scan;
mod schema;
mod signatures;
mod types;
mod value;

#[cfg(test)]
mod tests;

pub use authorizer::Authorize;
pub use bounds::Bounds;
pub use check::Names;
pub use eval::{Budget, EvalError, Outcome, Scope};
pub use kube_cel::cel::Value;
pub use lists::{ListKind, Lists};
pub use program::{CompileError, Program};
pub use schema::Shape;
pub use types::{ObjectType, Type};
pub use value::{from_json, to_json};

/// A value that may be none.
pub fn optional(value: Option<Value>) -> Value {
    value::optional(value)
}
