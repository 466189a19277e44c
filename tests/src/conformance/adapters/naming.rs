//! `naming/*`: names, `hub_core::naming`, and the suspension of bindings.

use hub_core::cluster::Taint;
use hub_core::{naming, policy};
use serde_json::{Value, json};

use super::super::{Answer, Case};

pub(super) fn answer(case: &Case) -> Answer {
    match case.op.as_str() {
        "names" => names(&case.input),
        "binding.mergeSuspension" => {
            match super::scheduler::suspension(&case.input["binding"], &case.input["policy"]) {
                Answer::Result(merged) => Answer::Result(merged["merged"].clone()),
                other => other,
            }
        }
        "parseTaints" => parse_taints(&case.input),
        _ => Answer::Unsupported,
    }
}

fn parse_taints(input: &Value) -> Answer {
    let texts = input.as_array().into_iter().flatten().filter_map(Value::as_str);
    let row = |taint: &Taint| json!({"key": taint.key, "value": taint.value, "effect": taint.effect});
    match policy::parse_taints(texts) {
        Ok(parsed) => Answer::Result(json!({
            "add": parsed.add.iter().map(row).collect::<Vec<_>>(),
            "remove": parsed.remove.iter().map(row).collect::<Vec<_>>(),
        })),
        Err(_) => Answer::error(),
    }
}

fn names(input: &Value) -> Answer {
    let arg = |index: usize| input["args"][index].as_str().unwrap_or_default();
    let result = match input["fn"].as_str().unwrap_or_default() {
        "executionNamespace" => json!(naming::execution_namespace(arg(0))),
        "clusterOfExecutionNamespace" => match naming::cluster_of_execution_namespace(arg(0)) {
            Some(cluster) => json!(cluster),
            None => return Answer::error(),
        },
        "bindingName" => json!(naming::binding_name(arg(0), arg(1))),
        "workName" => json!(naming::work_name(arg(0), arg(1), arg(2))),
        "isReservedNamespace" => json!(naming::is_reserved_namespace(arg(0))),
        _ => return Answer::Unsupported,
    };
    Answer::Result(result)
}
