//! Reads an object's own status through the interpreter.

use agent_core::effective;
use agent_core::observation::Observation;
use interpreter::{InterpretError, Interpreter};
use serde_json::{Value, json};
use shared::limits::STATUS_BYTES_MAX;
use shared::object::canonical;

/// Health and reflected status of an object that stands for the template's `generation`; none: for the one that it
/// was applied with.
#[must_use]
pub fn observe(interpreter: &dyn Interpreter, mut object: Value, generation: Option<u64>) -> Observation {
    if let Some(generation) = generation {
        effective::name_generation(&mut object, generation);
    }
    let mut trouble = None;
    let mut note = |error: &InterpretError| {
        if matches!(error, InterpretError::Script { .. }) {
            trouble = Some(error.to_string());
        }
    };
    let status = match interpreter.reflect_status(&object) {
        Ok(status) => status.map(|s| bounded(&s).into()),
        Err(e) => {
            tracing::debug!(error = %e, "status cannot be reflected");
            note(&e);
            None
        }
    };
    let (health, unsaid) = interpreter::judged(interpreter, &object, true);
    if let Some(e) = &unsaid {
        note(e);
    }
    Observation {
        health,
        status,
        trouble,
    }
}

/// The canonical status, cut to its conditions when it is over the limit.
fn bounded(status: &Value) -> Vec<u8> {
    let whole = canonical(status);
    if whole.len() <= STATUS_BYTES_MAX {
        return whole;
    }
    let conditions = canonical(&json!({"conditions": status.get("conditions").cloned().unwrap_or_default()}));
    if conditions.len() <= STATUS_BYTES_MAX {
        conditions
    } else {
        canonical(&json!({}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use interpreter::{Health, Native};

    #[test]
    fn a_long_status_keeps_its_conditions() {
        let long = json!({"conditions": [{"type": "A"}], "items": "x".repeat(STATUS_BYTES_MAX)});
        assert_eq!(bounded(&long), canonical(&json!({"conditions": [{"type": "A"}]})));
        assert_eq!(bounded(&json!({"b": 1, "a": 2})), b"{\"a\":2,\"b\":1}");
    }

    #[test]
    fn a_config_map_is_healthy_and_has_no_status() {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        let seen = observe(&Native::default(), object, Some(3));
        assert_eq!(seen.health, Health::Healthy);
        assert_eq!(seen.status, None);
    }
}
