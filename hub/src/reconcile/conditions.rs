//! The stored part of a binding's status: what scheduling and rendering said. What clusters report is never stored here;
//! the view adds it when read.

use hub_core::plan::{AFFINITY_GROUP_ANNOTATION, OBSERVED_GROUP, TemplatePlan};
use hub_core::schedule::outcome::{self, Noted};
use serde_json::{Value, json};
use shared::reason::Reason;

use super::limits;
use super::metadata::generation_after;
use crate::clock;

/// The condition of a binding that some cluster's manifest could not be made: it names cluster, policy and path.
const RENDERED: &str = "Rendered";
/// The condition of a binding that a copy is to be moved away and has no other place.
const MOVED: &str = "Moved";

fn condition<'a>(status: &'a Value, of_type: &str) -> Option<&'a Value> {
    let all = status["conditions"].as_array().into_iter().flatten();
    all.into_iter().find(|condition| condition["type"] == of_type)
}

fn since(old: Option<&Value>, word: &str, now: &str) -> Value {
    match old {
        Some(old) if old["status"] == word => old["lastTransitionTime"].clone(),
        _ => json!(now),
    }
}

/// The binding with the condition Scheduled, when it was last scheduled, and the generation that was; and the condition
/// Rendered once a cluster's manifest could not be made.
pub(super) fn with_conditions(mut object: Value, former: Option<&Value>, plan: &TemplatePlan) -> Value {
    let now = clock::wall().rfc3339();
    let old_status = former.map_or(&Value::Null, |former| &former["status"]);
    if let Some(scheduled) = &plan.scheduled {
        let noted = Noted {
            scheduled: scheduled.status,
            reason: scheduled.reason,
            message: &scheduled.message,
            moved: former.is_none_or(|former| former["spec"]["clusters"] != object["spec"]["clusters"]),
        };
        let generation = generation_after(&object, former);
        object["status"] = outcome::status(old_status, generation, &noted, &now);
        let group = object["metadata"]["annotations"][AFFINITY_GROUP_ANNOTATION].clone();
        if let Some(status) = object["status"].as_object_mut() {
            match group {
                Value::String(group) => status.insert(OBSERVED_GROUP.to_owned(), json!(group)),
                _ => status.remove(OBSERVED_GROUP),
            };
        }
    }
    rendered(&mut object, old_status, plan, &now);
    moved(&mut object, old_status, plan, &now);
    object
}

fn rendered(object: &mut Value, old_status: &Value, plan: &TemplatePlan, now: &str) {
    let failed: Vec<_> = plan
        .notes
        .iter()
        .filter(|note| {
            note.cluster.is_some()
                && matches!(
                    note.reason,
                    Reason::OverrideFailed | Reason::RenderFailed | Reason::ContentTooLarge
                )
        })
        .collect();
    let told = failed.first().map(|first| {
        let each = failed.iter().map(|note| {
            let cluster = note.cluster.as_deref().unwrap_or_default();
            format!("{cluster} keeps what it has: {}", note.message)
        });
        (first.reason.code(), each.collect::<Vec<_>>().join("; "))
    });
    let mended = ("Rendered", "every cluster's manifest could be made");
    trouble(
        object,
        RENDERED,
        condition(old_status, RENDERED),
        told,
        mended,
        now,
    );
}

/// Copies that are to be moved away and have no other place.
fn moved(object: &mut Value, old_status: &Value, plan: &TemplatePlan, now: &str) {
    let held: Vec<_> = plan
        .notes
        .iter()
        .filter(|note| note.reason == Reason::NoReplacement)
        .collect();
    let told = held.first().map(|first| {
        let each = held.iter().map(|note| match &note.cluster {
            Some(cluster) => format!("{cluster}: {}", note.message),
            None => note.message.clone(),
        });
        (first.reason.code(), each.collect::<Vec<_>>().join("; "))
    });
    let mended = ("NothingWaits", "no copy waits to be moved away");
    trouble(object, MOVED, condition(old_status, MOVED), told, mended, now);
}

/// A condition that only who ever had the trouble is told of: False with reason and message, True once it is mended.
fn trouble(
    object: &mut Value,
    of_type: &str,
    old: Option<&Value>,
    told: Option<(&str, String)>,
    mended: (&str, &str),
    now: &str,
) {
    let (word, reason, message) = match told {
        Some((reason, text)) => (
            "False",
            reason,
            text.chars().take(limits::CONDITION_MESSAGE).collect(),
        ),
        // Whoever waits for it to be mended sees it turn; who never had it is not told.
        None if old.is_some() => ("True", mended.0, mended.1.to_owned()),
        None => return,
    };
    let new = json!({
        "type": of_type, "status": word, "reason": reason, "message": message,
        "lastTransitionTime": since(old, word, now),
    });
    if !object["status"].is_object() {
        object["status"] = json!({});
    }
    if !object["status"]["conditions"].is_array() {
        object["status"]["conditions"] = json!([]);
    }
    if let Some(conditions) = object["status"]["conditions"].as_array_mut() {
        conditions.retain(|condition| condition["type"] != of_type);
        conditions.push(new);
    }
}
