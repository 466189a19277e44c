//! Health of a member object as it is recorded on works and bindings.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{InterpretError, Interpreter, Kind, Operation};

/// Health as `aggregatedStatus[].health` spells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Health {
    /// The rule of the kind says so, or the kind has none and the object is applied.
    Healthy,
    /// The rule of the kind says no.
    Unhealthy,
    /// Not applied, or the rule could not answer.
    Unknown,
}

impl Health {
    /// The word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "Healthy",
            Self::Unhealthy => "Unhealthy",
            Self::Unknown => "Unknown",
        }
    }
}

/// Health of a member object, and why a rule could not say, if it could not. A kind without a rule is healthy only once
/// applied (design, section 7).
pub fn judged(
    interpreter: &dyn Interpreter,
    object: &Value,
    applied: bool,
) -> (Health, Option<InterpretError>) {
    if !applied {
        return (Health::Unknown, None);
    }
    let kind = match Kind::of(object) {
        Ok(kind) => kind,
        Err(error) => return (Health::Unknown, Some(error)),
    };
    if !interpreter.supports(&kind, Operation::InterpretHealth) {
        return (Health::Healthy, None);
    }
    match interpreter.interpret_health(object) {
        Ok(true) => (Health::Healthy, None),
        Ok(false) => (Health::Unhealthy, None),
        Err(error) => (Health::Unknown, Some(error)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Native;

    #[test]
    fn a_kind_without_rule_is_healthy_only_once_applied() {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap"});
        assert_eq!(judged(&Native::default(), &map, true).0, Health::Healthy);
        assert_eq!(judged(&Native::default(), &map, false).0, Health::Unknown);
    }

    #[test]
    fn a_rule_that_fails_is_unknown() {
        let bad = json!({"apiVersion": "apps/v1", "kind": "Deployment", "status": "bad"});
        assert_eq!(judged(&Native::default(), &bad, true).0, Health::Unknown);
    }

    #[test]
    fn a_failed_job_is_unhealthy() {
        let job = |kind: &str| {
            json!({"apiVersion": "batch/v1", "kind": "Job",
                   "status": {"conditions": [{"type": kind, "status": "True"}]}})
        };
        assert_eq!(
            judged(&Native::default(), &job("Failed"), true).0,
            Health::Unhealthy
        );
        assert_eq!(
            judged(&Native::default(), &job("Complete"), true).0,
            Health::Healthy
        );
    }
}
