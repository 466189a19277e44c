//! Retention as the agent uses it: what to send so that the member keeps what is its own.

use serde_json::{Map, Value};

use crate::{InterpretError, Interpreter, Kind, Operation, fields};

/// What the agent knows beside the two objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetainHints {
    /// Replicas belong to the member: the hub said so, or an autoscaler there targets the object.
    pub replicas: bool,
}

/// Effective desired object: the rule of the kind, if it has one, then replicas under an autoscaler.
///
/// # Errors
/// What the rule of the kind answers.
pub fn effective_desired(
    interpreter: &dyn Interpreter,
    desired: &Value,
    observed: &Value,
    hints: RetainHints,
) -> Result<Value, InterpretError> {
    let kind = Kind::of(desired)?;
    let mut result = if interpreter.supports(&kind, Operation::Retain) {
        interpreter.retain(desired, observed)?
    } else {
        desired.clone()
    };
    if hints.replicas
        && fields::get(desired, "spec.replicas")?.is_some()
        && let Some(replicas) = fields::int(observed, "spec.replicas")?
    {
        fields::set(&mut result, "spec.replicas", replicas.into());
    }
    Ok(result)
}

/// The part of `retained` that server-side apply must send: values at places that `desired` names. What the
/// member added elsewhere is left out, so nobody's ownership changes.
///
/// Lists are matched by `name`, or by `port` and `protocol`; a list without such keys is taken whole.
pub fn owned_part(desired: &Value, retained: &Value) -> Value {
    match (desired, retained) {
        (Value::Object(want), Value::Object(have)) => Value::Object(
            want.iter()
                .filter_map(|(key, value)| Some((key.clone(), owned_part(value, have.get(key)?))))
                .collect::<Map<_, _>>(),
        ),
        (Value::Array(want), Value::Array(have)) if keyed(want) && keyed(have) => Value::Array(
            want.iter()
                .filter_map(|item| {
                    have.iter()
                        .find(|other| key_of(other) == key_of(item))
                        .map(|other| owned_part(item, other))
                })
                .collect(),
        ),
        _ => retained.clone(),
    }
}

fn key_of(item: &Value) -> Option<(&str, Option<i64>, &str)> {
    if let Some(name) = item.get("name").and_then(Value::as_str)
        && item.get("port").is_none()
    {
        return Some((name, None, ""));
    }
    let port = item.get("port")?.as_i64()?;
    Some((
        "",
        Some(port),
        item.get("protocol").and_then(Value::as_str).unwrap_or("TCP"),
    ))
}

fn keyed(list: &[Value]) -> bool {
    list.iter().all(|item| key_of(item).is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Native;

    #[test]
    fn replicas_are_the_members_under_an_autoscaler_for_any_kind() {
        let of = |kind: &str, replicas: i64| json!({"apiVersion": "x/v1", "kind": kind, "spec": {"replicas": replicas}});
        let hints = RetainHints { replicas: true };
        let got = effective_desired(&Native::default(), &of("Any", 2), &of("Any", 7), hints);
        assert_eq!(got, Ok(of("Any", 7)));
        let got = effective_desired(
            &Native::default(),
            &of("Any", 2),
            &of("Any", 7),
            RetainHints::default(),
        );
        assert_eq!(got, Ok(of("Any", 2)));
    }

    #[test]
    fn a_template_without_replicas_gets_none() {
        let desired = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {}});
        let observed = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 7}});
        let hints = RetainHints { replicas: true };
        assert_eq!(
            effective_desired(&Native::default(), &desired, &observed, hints),
            Ok(desired)
        );
    }

    #[test]
    fn only_places_that_the_template_names_are_sent() {
        let desired = json!({"spec": {"clusterIP": "1.1.1.1", "ports": [{"port": 80}], "finalizers": ["a"]}});
        let retained = json!({"spec": {"clusterIP": "10.0.0.7", "healthCheckNodePort": 3,
            "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30001}], "finalizers": ["a"]}});
        assert_eq!(
            owned_part(&desired, &retained),
            json!({"spec": {"clusterIP": "10.0.0.7", "ports": [{"port": 80}], "finalizers": ["a"]}})
        );
    }

    #[test]
    fn job_labels_of_the_member_are_left_out_and_ours_keep_its_values() {
        let desired = json!({"labels": {"app": "v2", "extra": "x"}});
        let retained = json!({"labels": {"app": "v1", "controller-uid": "u"}});
        assert_eq!(owned_part(&desired, &retained), json!({"labels": {"app": "v1"}}));
    }
}
