//! InterpretHealth.

use serde_json::Value;

use super::Builtin;
use crate::InterpretError;
use crate::fields::{condition_true, count, int, list, text};

/// Is the member object healthy?
pub(super) fn healthy(kind: Builtin, object: &Value) -> Result<bool, InterpretError> {
    // Equal, not "at least": a controller ahead of its object is reading another object.
    let observed = || -> Result<bool, InterpretError> {
        Ok(count(object, "status.observedGeneration")? == count(object, "metadata.generation")?)
    };
    Ok(match kind {
        Builtin::Deployment | Builtin::StatefulSet => {
            let updated = count(object, "status.updatedReplicas")?;
            let available = count(object, "status.availableReplicas")?;
            let wanted = int(object, "spec.replicas")?;
            observed()? && wanted.is_none_or(|wanted| updated >= wanted) && available >= updated
        }
        Builtin::ReplicaSet => {
            let available = count(object, "status.availableReplicas")?;
            observed()? && int(object, "spec.replicas")?.is_none_or(|wanted| available >= wanted)
        }
        Builtin::DaemonSet => {
            let updated = count(object, "status.updatedNumberScheduled")?;
            observed()?
                && updated >= count(object, "status.desiredNumberScheduled")?
                && count(object, "status.numberAvailable")? >= updated
        }
        // The reference has no rule here and shows a failed Job as healthy; that hurts (design, section 7).
        Builtin::Job => !condition_true(list(object, "status.conditions")?, "Failed"),
        Builtin::Service => text(object, "spec.type")? != "LoadBalancer" || has_address(object)?,
        Builtin::Ingress => has_address(object)?,
        Builtin::PersistentVolumeClaim => text(object, "status.phase")? == "Bound",
        Builtin::Pod => match text(object, "status.phase")? {
            "Succeeded" => true,
            "Running" => condition_true(list(object, "status.conditions")?, "Ready"),
            _ => false,
        },
        Builtin::PodDisruptionBudget => {
            count(object, "status.currentHealthy")? >= count(object, "status.desiredHealthy")?
        }
        _ => true,
    })
}

fn has_address(object: &Value) -> Result<bool, InterpretError> {
    let given = |entry: &Value, key: &str| {
        entry
            .get(key)
            .and_then(Value::as_str)
            .is_some_and(|v| !v.is_empty())
    };
    Ok(list(object, "status.loadBalancer.ingress")?
        .iter()
        .any(|e| given(e, "ip") || given(e, "hostname")))
}
