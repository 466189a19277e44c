//! What an attempt to schedule means: the condition `Scheduled`, whether to try again, what the status says, the event.

use serde_json::{Value, json};

use super::ScheduleError;
use crate::divide::Share;

/// Type of the condition.
pub const CONDITION: &str = "Scheduled";

/// Why a result could not be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotStored {
    /// A quota on the hub refused it.
    QuotaExceeded,
    /// Anything else.
    Other,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempt<'a> {
    /// Why nothing could be placed, if so.
    pub failed: Option<&'a ScheduleError>,
    /// Why the result could not be stored, if so.
    pub not_stored: Option<NotStored>,
}

/// The condition `Scheduled` after an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Is it scheduled?
    pub scheduled: bool,
    /// The reference's reason: `Success`, `NoClusterFit`, `Unschedulable`, `QuotaExceeded` or `SchedulerError`.
    pub reason: &'static str,
    /// Is it tried again by itself? What fits nowhere waits until something changes.
    pub tried_again: bool,
}

impl Attempt<'_> {
    /// What it means.
    pub fn verdict(&self) -> Verdict {
        let quota = self.not_stored == Some(NotStored::QuotaExceeded);
        let (reason, waits) = match self.failed {
            Some(ScheduleError::Unschedulable(_)) => ("Unschedulable", false),
            Some(ScheduleError::NoClusterFit { .. }) => ("NoClusterFit", true),
            Some(ScheduleError::QuotaExceeded(_)) => ("QuotaExceeded", false),
            _ if quota => ("QuotaExceeded", false),
            Some(ScheduleError::Spread(_) | ScheduleError::NoClusterSelected) => ("SchedulerError", false),
            None if self.not_stored.is_some() => ("SchedulerError", false),
            None => ("Success", true),
        };
        Verdict {
            scheduled: reason == "Success",
            reason,
            tried_again: !(waits && self.not_stored.is_none()),
        }
    }
}

/// What the status of a binding notes about its last attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted<'a> {
    /// Is it scheduled?
    pub scheduled: bool,
    /// Reason of the condition.
    pub reason: &'a str,
    /// In words.
    pub message: &'a str,
    /// Did the assignment change?
    pub moved: bool,
}

/// The status of a binding after an attempt. The condition keeps its time while it says the same. The observed
/// generation moves on whenever the attempt came to an answer, also to the answer that nothing fits, or those who wait
/// for it would hang (`SchedulerError` is none). The time of the last scheduling moves only on success, and only if
/// the assignment changed or was never noted, so that planning again changes nothing.
pub fn status(old: &Value, generation: i64, noted: &Noted<'_>, now: &str) -> Value {
    let mut status = old.as_object().cloned().unwrap_or_default();
    let word = if noted.scheduled { "True" } else { "False" };
    let mut conditions = old["conditions"].as_array().cloned().unwrap_or_default();
    let known = conditions
        .iter()
        .position(|condition| condition["type"] == CONDITION);
    let since = known
        .map(|at| &conditions[at])
        .filter(|condition| condition["status"] == word && !condition["lastTransitionTime"].is_null())
        .map_or_else(|| json!(now), |condition| condition["lastTransitionTime"].clone());
    let condition = json!({
        "type": CONDITION, "status": word, "reason": noted.reason, "message": noted.message,
        "lastTransitionTime": since,
    });
    match known {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
    status.insert("conditions".to_owned(), Value::Array(conditions));
    if noted.reason != "SchedulerError" {
        status.insert("schedulerObservedGeneration".to_owned(), json!(generation));
    }
    if noted.scheduled && (noted.moved || old["lastScheduledTime"].is_null()) {
        status.insert("lastScheduledTime".to_owned(), json!(now));
    }
    Value::Object(status)
}

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// The binding.
    Binding,
    /// The template that it is for.
    Template,
}

impl About {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Binding => "binding",
            Self::Template => "resourceTemplate",
        }
    }
}

/// The event about an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What it is told on.
    pub on: [About; 2],
    /// Is it a warning?
    pub warning: bool,
    /// The reference's reason.
    pub reason: &'static str,
    /// In words.
    pub message: String,
}

/// The event for a result, or for what went wrong.
pub fn event(outcome: Result<&[Share], &str>, context: &str) -> Event {
    match outcome {
        Ok(targets) => Event {
            on: [About::Binding, About::Template],
            warning: false,
            reason: "ScheduleBindingSucceed",
            message: format!("{context}. Result: {{{}}}", words(targets)),
        },
        Err(problem) => Event {
            on: [About::Binding, About::Template],
            warning: true,
            reason: "ScheduleBindingFailed",
            message: problem.to_owned(),
        },
    }
}

/// A result in words: `cluster:replicas, cluster:replicas`.
pub fn words(targets: &[Share]) -> String {
    let one = |share: &Share| format!("{}:{}", share.cluster, share.replicas);
    targets.iter().map(one).collect::<Vec<_>>().join(", ")
}
