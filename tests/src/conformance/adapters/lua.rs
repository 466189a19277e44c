//! `lua/*`: scripts of customizations, through `interpreter::Customized` and its `interpreter::lua::Runtime`, as hub and
//! agent ask them.

use std::sync::Arc;

use interpreter::lua::{Empties, Runtime};
use interpreter::{Customization, Customized, Interpreter, Native, Operation, SLOTS};
use serde_json::{Value, json};
use shared::time::UnixSeconds;

use super::super::{Answer, Case};
use super::interpretation::{NOW, member_items, of};

fn clock() -> UnixSeconds {
    UnixSeconds::parse_rfc3339(NOW).unwrap_or_default()
}

pub(super) fn answer(case: &Case) -> Answer {
    match case.op.as_str() {
        "lua.call" => call(&case.input),
        "lua.config" => config(&case.input),
        op => scripted(op.strip_prefix("lua.").unwrap_or(op), &case.input),
    }
}

fn call(input: &Value) -> Answer {
    let arguments = input["args"].as_array().cloned().unwrap_or_default();
    run(
        input["script"].as_str().unwrap_or_default(),
        input["function"].as_str().unwrap_or_default(),
        arguments,
        Empties::Lists,
    )
}

fn run(script: &str, function: &str, arguments: Vec<Value>, empties: Empties) -> Answer {
    let runtime = Runtime::new(Arc::new(clock));
    match runtime.call(&Arc::from(script), function, arguments, empties, None) {
        Ok([first, _]) => Answer::Result(first),
        Err(_) => Answer::error(),
    }
}

/// One script for the kind of the object.
fn scripted(op: &str, input: &Value) -> Answer {
    let object = if op == "retain" {
        &input["desired"]
    } else {
        &input["object"]
    };
    let operation = match op {
        "getReplicas" => Operation::InterpretReplica,
        "getComponents" => Operation::InterpretComponent,
        "reviseReplica" => Operation::ReviseReplica,
        "retain" => Operation::Retain,
        "aggregateStatus" => Operation::AggregateStatus,
        "reflectStatus" => Operation::InterpretStatus,
        "interpretHealth" => Operation::InterpretHealth,
        "getDependencies" => Operation::InterpretDependency,
        _ => return Answer::Unsupported,
    };
    let Some((slot, ..)) = SLOTS.iter().find(|(_, of, _)| *of == operation) else {
        return Answer::Unsupported;
    };
    let customization = json!({
        "metadata": {"name": "the-case"},
        "spec": {"target": {"apiVersion": object["apiVersion"], "kind": object["kind"]},
                 "customizations": {*slot: {"luaScript": input["script"]}}},
    });
    ask(&[customization], operation, input)
}

fn config(input: &Value) -> Answer {
    let customizations = input["customizations"].as_array().map_or(&[][..], Vec::as_slice);
    match input["operation"].as_str().and_then(Operation::parse) {
        Some(operation) => ask(customizations, operation, input),
        None => Answer::error(),
    }
}

fn ask(customizations: &[Value], operation: Operation, input: &Value) -> Answer {
    let chain = Customized::new(Native::default(), Arc::new(clock));
    let read: Result<Vec<_>, _> = customizations.iter().map(Customization::read).collect();
    match read {
        Ok(read) => chain.replace(read),
        Err(_) => return Answer::error(),
    };
    let object = &input["object"];
    match operation {
        Operation::InterpretReplica => of(chain.get_replicas(object)),
        Operation::InterpretComponent => of(chain.get_components(object)),
        Operation::ReviseReplica => of(chain.revise_replica(object, input["replicas"].as_i64().unwrap_or(0))),
        Operation::Retain => of(chain.retain(&input["desired"], &input["observed"])),
        Operation::InterpretStatus => of(chain.reflect_status(object)),
        Operation::InterpretHealth => of(chain.interpret_health(object)),
        Operation::InterpretDependency => of(chain.get_dependencies(object)),
        Operation::AggregateStatus => {
            let items = member_items(&input["items"]);
            match chain.aggregate_status(object, items.as_deref(), NOW) {
                // The stage takes the status alone; the case shows the whole object that the script returned.
                Ok(_) if input["script"].is_string() => {
                    let script = input["script"].as_str().unwrap_or_default();
                    let arguments = vec![object.clone(), input["items"].clone()];
                    run(script, "AggregateStatus", arguments, Empties::Dropped)
                }
                answer => of(answer),
            }
        }
    }
}
