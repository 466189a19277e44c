//! Spark applications of the Spark operator: one driver, several executors.

use serde_json::Value;
use shared::object::Quantity;

use super::general::{number, pick};
use super::merge::{Status, latest, only, own, put, put_sums};
use super::{NONE, Read, Rules};
use crate::fields::{get, int, text};
use crate::native::node_claim;
use crate::quantity::canonical;
use crate::types::reported;
use crate::{Component, InterpretError, MemberItem, ReplicaRequirements};

pub(super) static APPLICATION: Rules = Rules {
    components: Some(components),
    aggregate: Some(aggregate),
    reflect: Some(|object| pick(object, FIELDS)),
    health: Some(|object| Ok(get(object, STATE)?.is_some() && text(object, STATE)? != "FAILED")),
    ..NONE
};

const STATE: &str = "status.applicationState.state";
const FIELDS: &[&str] = &[
    "applicationState",
    "driverInfo",
    "executorState",
    "sparkApplicationId",
    "completionTime",
    "lastSubmissionAttemptTime",
    "submissionAttempts",
    "executionAttempts",
    "submissionID",
    "terminationTime",
];

/// What the JVM needs beside its heap, at least.
const OVERHEAD_LEAST: f64 = 384.0 * MEBI;
const MEBI: f64 = 1024.0 * 1024.0;
/// Heap without a size, as Spark has it.
const HEAP: &str = "1g";

fn components(template: &Value) -> Read<Vec<Component>> {
    let language = text(template, "spec.type")?;
    if language.is_empty() {
        return Err(InterpretError::Missing {
            path: "spec.type".to_owned(),
            purpose: "estimate the memory overhead",
        });
    }
    let on_jvm = language.eq_ignore_ascii_case("java") || language.eq_ignore_ascii_case("scala");
    let factor = match get(template, "spec.memoryOverheadFactor")? {
        None => None,
        Some(Value::String(text)) => text.trim().parse::<f64>().ok(),
        Some(value) => value.as_f64(),
    }
    .unwrap_or(if on_jvm { 0.1 } else { 0.4 });
    let mut executors = number(template, "spec.executor.instances", 1)?;
    if template["spec"]["dynamicAllocation"]["enabled"] == true {
        for least in ["initialExecutors", "minExecutors"] {
            executors = executors.max(number(template, &format!("spec.dynamicAllocation.{least}"), 1)?);
        }
    }
    Ok(vec![
        component(template, "driver", 1, factor)?,
        component(template, "executor", executors, factor)?,
    ])
}

fn component(template: &Value, name: &str, replicas: i64, factor: f64) -> Read<Component> {
    let none = Value::Null;
    let pods = get(template, &format!("spec.{name}"))?.unwrap_or(&none);
    let mut requirements = ReplicaRequirements {
        node_claim: if pods.is_object() { node_claim(pods)? } else { None },
        ..ReplicaRequirements::default()
    };
    let mut request = |name: &str, amount: Quantity, binary: bool| {
        requirements
            .resource_request
            .insert(name.to_owned(), canonical(amount, binary));
    };
    request(
        "cpu",
        Quantity::from_units(int(pods, "cores")?.unwrap_or(1)),
        false,
    );
    let heap = bytes(pods, "memory")?.unwrap_or_else(|| parse(HEAP).unwrap_or_default());
    let overhead = bytes(pods, "memoryOverhead")?.unwrap_or_else(|| (heap * factor).max(OVERHEAD_LEAST));
    // Exact to a thousandth of a byte, far below what a 64 bit float loses here.
    let millis = ((heap + overhead) * 1000.0).round() as i64;
    request("memory", Quantity::from_millis(millis), true);
    let gpus = number(pods, "gpu.quantity", 0)?;
    let gpu = text(pods, "gpu.name")?;
    if gpus > 0 && !gpu.is_empty() {
        request(gpu, Quantity::from_units(gpus), false);
    }
    let class = text(pods, "priorityClassName")?;
    requirements.priority_class_name = (!class.is_empty()).then(|| class.to_owned());
    Ok(Component {
        name: name.to_owned(),
        replicas,
        replica_requirements: Some(requirements),
    })
}

fn bytes(pods: &Value, path: &str) -> Read<Option<f64>> {
    let size = text(pods, path)?;
    if size.is_empty() {
        return Ok(None);
    }
    parse(size).map(Some).ok_or_else(|| InterpretError::WrongType {
        path: path.to_owned(),
        expected: "a size as Java writes it, such as 512m or 4g",
    })
}

/// A size as Java writes it: units are binary, in lower or upper case, with or without `b`.
fn parse(size: &str) -> Option<f64> {
    let size = size.trim().to_ascii_lowercase();
    let end = size
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(size.len());
    let (number, unit) = size.split_at(end);
    let unit = match unit {
        "" | "b" => 1.0,
        "k" | "kb" => 1024.0,
        "m" | "mb" => MEBI,
        "g" | "gb" => MEBI * 1024.0,
        "t" | "tb" => MEBI * MEBI,
        "p" | "pb" => MEBI * MEBI * 1024.0,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * unit)
}

/// From good to bad.
const RANKING: &[&[&str]] = &[
    &["", "UNKNOWN"],
    &["SUBMITTED", "PENDING_RERUN"],
    &["COMPLETED"],
    &["SUSPENDING", "SUSPENDED"],
    &["RUNNING", "RESUMING", "SUCCEEDING"],
    &["INVALIDATING"],
    &["FAILING", "FAILED", "SUBMISSION_FAILED"],
];

fn aggregate(template: &Value, items: Option<&[MemberItem]>, _now: &str) -> Read<Option<Value>> {
    let Some(items) = items else {
        return Ok(get(template, "status")?.cloned());
    };
    if let Some(status) = only(items) {
        return Ok(status);
    }
    let mut status: Status = own(template)?;
    let mut worst: Option<(usize, &Value)> = None;
    for (_, member) in reported(items) {
        let Some(state) = get(member, "applicationState")? else {
            continue;
        };
        let name = text(state, "state")?;
        let rank = RANKING.iter().position(|states| states.contains(&name));
        let rank = rank.ok_or_else(|| InterpretError::WrongType {
            path: STATE.to_owned(),
            expected: "a state that the Spark operator knows",
        })?;
        if worst.is_none_or(|(known, _)| rank > known) {
            worst = Some((rank, state));
        }
    }
    put(
        &mut status,
        "applicationState",
        worst.map(|(_, state)| state.clone()),
    );
    put_sums(&mut status, items, &["executionAttempts", "submissionAttempts"])?;
    for name in ["lastSubmissionAttemptTime", "terminationTime"] {
        put(&mut status, name, latest(items, name)?);
    }
    Ok(Some(status.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_java_writes_them() {
        assert_eq!(parse("512m"), Some(512.0 * MEBI));
        assert_eq!(parse("1.5GB"), Some(1536.0 * MEBI));
        assert_eq!(parse("100"), Some(100.0));
        for bad in ["", "m", "4 g", "4q", "1.2.3g"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
