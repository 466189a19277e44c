//! ReviseReplica: set the count, only where the template has one.

use serde_json::Value;

use super::Builtin;
use crate::{InterpretError, fields};

/// The template with `replicas`; unchanged when it has no such field.
pub(super) fn replicas(kind: Builtin, template: &Value, replicas: i64) -> Result<Value, InterpretError> {
    let path = if kind == Builtin::Job {
        "spec.parallelism"
    } else {
        "spec.replicas"
    };
    let mut revised = template.clone();
    if fields::int(template, path)?.is_some() {
        fields::set(&mut revised, path, replicas.into());
    }
    Ok(revised)
}
