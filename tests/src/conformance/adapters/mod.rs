//! One adapter per folder of cases: converts types, calls the function of the stage.

mod apply;
mod capacity;
mod compact;
mod deciding;
mod estimating;
mod failover;
mod interpretation;
mod lua;
mod naming;
mod overrides;
mod placing;
mod policies;
mod scheduler;
mod status;
mod validation;

use super::{Answer, Case, CaseSet};

pub(super) use validation::Existing;

/// Asks the function behind the operation of a case.
pub(super) fn answer(set: &CaseSet, case: &Case) -> Answer {
    let is_status = matches!(
        case.op.as_str(),
        "workHealth" | "readyCondition" | "readyThreshold" | "works.aggregate" | "binding.fullyApplied"
    );
    if is_status {
        return status::answer(case);
    }
    if let Some(answer) = policies::answer(case) {
        return answer;
    }
    match set.name.split('/').next().unwrap_or_default() {
        "scheduler" => scheduler::answer(case),
        "overrides" => overrides::answer(case),
        "validation" => validation::answer(case),
        "apply" => apply::answer(case),
        "interpreter" | "thirdparty" => interpretation::answer(case),
        "lua" => lua::answer(case),
        "naming" => naming::answer(case),
        "failover" => failover::answer(case),
        _ => Answer::Unsupported,
    }
}
