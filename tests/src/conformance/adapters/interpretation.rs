//! `interpreter/*` and `thirdparty/*`: the rules that come with the program, `interpreter::Native`, called by hub and agent.

use interpreter::{InterpretError, Interpreter, Kind, MemberItem, Native, Operation};
use serde::Serialize;
use serde_json::{Value, json};

use super::super::{Answer, Case};

/// A time for conditions that appear; the cases only ask for any time.
pub(super) const NOW: &str = "2026-01-01T00:00:00Z";

pub(super) fn answer(case: &Case) -> Answer {
    let input = &case.input;
    let native = Native {
        quota_estimate: input["featureGates"]["ResourceQuotaEstimate"] == true,
    };
    let object = &input["object"];
    match case.op.as_str() {
        "getReplicas" => of(native.get_replicas(object)),
        "getComponents" => of(native.get_components(object)),
        "reviseReplica" => of(native.revise_replica(object, input["replicas"].as_i64().unwrap_or(0))),
        "retain" => of(native.retain(&input["desired"], &input["observed"])),
        "reflectStatus" => of(native.reflect_status(object)),
        "interpretHealth" => of(native.interpret_health(object)),
        "getDependencies" => of(native.get_dependencies(object)),
        "aggregateStatus" => aggregate(&native, object, &input["items"]),
        "hookEnabled" => supports(&native, object, input["operation"].as_str().unwrap_or_default()),
        _ => Answer::Unsupported,
    }
}

pub(super) fn of<T: Serialize>(result: Result<T, InterpretError>) -> Answer {
    match result {
        Ok(result) => serde_json::to_value(result).map_or(Answer::error(), Answer::Result),
        Err(_) => Answer::error(),
    }
}

/// The items of a case; no list at all: not known yet.
pub(super) fn member_items(items: &Value) -> Option<Vec<MemberItem>> {
    let item = |item: &Value| MemberItem {
        cluster: item["clusterName"].as_str().unwrap_or_default().to_owned(),
        status: Some(item["status"].clone()).filter(|status| !status.is_null()),
        silent: false,
    };
    items.as_array().map(|items| items.iter().map(item).collect())
}

fn aggregate(native: &Native, object: &Value, items: &Value) -> Answer {
    match native.aggregate_status(object, member_items(items).as_deref(), NOW) {
        // A template without a status that gets none stays as it is.
        Ok(status) => Answer::Result(status.unwrap_or_else(|| object["status"].clone())),
        Err(_) => Answer::error(),
    }
}

fn supports(native: &Native, object: &Value, operation: &str) -> Answer {
    match (Kind::of(object), Operation::parse(operation)) {
        (Ok(kind), Some(operation)) => Answer::Result(json!(native.supports(&kind, operation))),
        _ => Answer::error(),
    }
}
