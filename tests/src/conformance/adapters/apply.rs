//! `apply/*`: what is sent to a member, `hub_core::prune`.

use serde_json::Value;

use super::super::{Answer, Case};

pub(super) fn answer(case: &Case) -> Answer {
    match case.op.as_str() {
        "prune" => {
            let mut object: Value = case.input["object"].clone();
            hub_core::prune::prune(&mut object);
            Answer::Result(object)
        }
        "nodeSummary" => super::capacity::answer(&case.input),
        _ => Answer::Unsupported,
    }
}
