//! AggregateStatus of kinds that count: workloads, jobs, budgets, autoscalers.

use serde_json::{Map, Value, json};

use crate::fields::{condition_true, count, list, map, text};
use crate::types::reported;
use crate::{InterpretError, MemberItem};

type Status = Map<String, Value>;

/// Sums on top of the template's own status (fields that are not listed stay), and observedGeneration.
///
/// It becomes the template's generation when every target that is not silent has caught up: its controller
/// has seen its object, and its object was made from this template or a newer one. A target without status
/// holds it back. If all are silent nobody knows, and it stays.
pub(super) fn sums(
    template: &Value,
    items: &[MemberItem],
    always: &[&str],
    others: &[&str],
) -> Result<Status, InterpretError> {
    let mut status = map(template, "status")?.cloned().unwrap_or_default();
    let added = add_up(items, always, others)?;
    for name in always.iter().chain(others) {
        status.remove(*name);
    }
    status.extend(added);

    let generation = count(template, "metadata.generation")?;
    let mut heard = 0;
    let mut caught_up = 0;
    for item in items.iter().filter(|item| !item.silent) {
        heard += 1;
        if let Some(member) = &item.status {
            let observed = count(member, "observedGeneration")? >= count(member, "generation")?;
            let current = count(member, "resourceTemplateGeneration")? >= generation;
            caught_up += u32::from(observed && current);
        }
    }
    let anyone = heard > 0 || items.is_empty();
    if anyone && caught_up == heard && generation > 0 {
        status.insert("observedGeneration".to_owned(), generation.into());
    }
    Ok(status)
}

fn add_up(items: &[MemberItem], always: &[&str], others: &[&str]) -> Result<Status, InterpretError> {
    let mut sums = Status::new();
    for (position, name) in always.iter().chain(others).enumerate() {
        let mut sum: i64 = 0;
        for (_, member) in reported(items) {
            sum = sum.saturating_add(count(member, name)?);
        }
        if sum != 0 || position < always.len() {
            sums.insert((*name).to_owned(), sum.into());
        }
    }
    Ok(sums)
}

/// Sums alone; the rest of the template's status is lost, as in the reference.
pub(super) fn plain_sums(items: &[MemberItem], names: &[&str]) -> Result<Status, InterpretError> {
    add_up(items, names, &[])
}

/// Sums, and the disrupted pods with their cluster in front.
pub(super) fn disruption_budget(items: &[MemberItem]) -> Result<Status, InterpretError> {
    let mut status = plain_sums(
        items,
        &[
            "currentHealthy",
            "desiredHealthy",
            "disruptionsAllowed",
            "expectedPods",
        ],
    )?;
    let mut pods = Map::new();
    for (cluster, member) in reported(items) {
        for (pod, since) in map(member, "disruptedPods")?.into_iter().flatten() {
            pods.insert(format!("{cluster}/{pod}"), since.clone());
        }
    }
    if !pods.is_empty() {
        status.insert("disruptedPods".to_owned(), Value::Object(pods));
    }
    Ok(status)
}

/// Active lists joined, latest times.
pub(super) fn cron_job(items: &[MemberItem]) -> Result<Status, InterpretError> {
    let mut status = Status::new();
    let mut active = Vec::new();
    for (_, member) in reported(items) {
        active.extend_from_slice(list(member, "active")?);
    }
    if !active.is_empty() {
        status.insert("active".to_owned(), Value::Array(active));
    }
    for name in ["lastScheduleTime", "lastSuccessfulTime"] {
        let mut latest = "";
        for (_, member) in reported(items) {
            latest = latest.max(text(member, name)?);
        }
        put_text(&mut status, name, latest);
    }
    Ok(status)
}

/// Times are RFC 3339 in UTC with whole seconds, as every API server writes them: they sort as text.
fn put_text(status: &mut Status, name: &str, text: &str) {
    if !text.is_empty() {
        status.insert(name.to_owned(), text.into());
    }
}

/// A Job: failed as soon as one member failed, complete only when every target completed.
pub(super) fn job(template: &Value, items: &[MemberItem], now: &str) -> Result<Status, InterpretError> {
    let old = map(template, "status")?.cloned().unwrap_or_default();
    let own = list(template, "status.conditions")?;
    if items.is_empty() || condition_true(own, "Complete") || condition_true(own, "Failed") {
        return Ok(old);
    }
    let mut status = add_up(items, &[], &["active", "succeeded", "failed"])?;
    let mut failed = Vec::new();
    let (mut completed, mut met) = (0, 0);
    let (mut starts, mut ends) = (Vec::new(), Vec::new());
    for (cluster, member) in reported(items) {
        let conditions = list(member, "conditions")?;
        if condition_true(conditions, "Failed") {
            failed.push(cluster);
        }
        completed += usize::from(condition_true(conditions, "Complete"));
        met += usize::from(condition_true(conditions, "SuccessCriteriaMet"));
        starts.extend(Some(text(member, "startTime")?).filter(|time| !time.is_empty()));
        ends.extend(Some(text(member, "completionTime")?).filter(|time| !time.is_empty()));
    }
    let mut conditions = Vec::new();
    let mut condition = |of_type: &str, reason: &str, message: String| {
        conditions.push(json!({
            "type": of_type, "status": "True", "lastProbeTime": now, "lastTransitionTime": now,
            "reason": reason, "message": message,
        }));
    };
    if !failed.is_empty() {
        condition(
            "Failed",
            "JobFailed",
            format!("Job failed in clusters {}", failed.join(",")),
        );
    } else if completed == items.len() {
        condition(
            "Complete",
            "Completed",
            "Job completed in every cluster".to_owned(),
        );
        if met == items.len() {
            let message = "Every cluster reached its completions".to_owned();
            condition("SuccessCriteriaMet", "CompletionsReached", message);
        }
    }
    if !conditions.is_empty() {
        status.insert("conditions".to_owned(), Value::Array(conditions));
    }
    let started = text(template, "status.startTime")?;
    if !started.is_empty() {
        put_text(&mut status, "startTime", started);
    } else if starts.len() == items.len() {
        put_text(
            &mut status,
            "startTime",
            starts.into_iter().min().unwrap_or_default(),
        );
    }
    if ends.len() == items.len() {
        put_text(
            &mut status,
            "completionTime",
            ends.into_iter().max().unwrap_or_default(),
        );
    }
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(cluster: &str, template_generation: i64, silent: bool) -> MemberItem {
        let status = json!({"replicas": 2, "generation": 4, "observedGeneration": 4,
                            "resourceTemplateGeneration": template_generation});
        MemberItem {
            cluster: cluster.to_owned(),
            status: Some(status),
            silent,
        }
    }

    fn observed(items: &[MemberItem]) -> i64 {
        let template = json!({"metadata": {"generation": 3}, "status": {"observedGeneration": 2}});
        let status = sums(&template, items, &[], &["replicas"]).expect("readable");
        status["observedGeneration"].as_i64().expect("kept")
    }

    #[test]
    fn a_silent_member_does_not_hold_back_but_counts() {
        let items = [item("a", 3, false), item("b", 2, true)];
        assert_eq!(observed(&items), 3);
        let template = json!({"metadata": {"generation": 3}});
        assert_eq!(
            sums(&template, &items, &[], &["replicas"]).expect("readable")["replicas"],
            json!(4)
        );
    }

    #[test]
    fn a_member_behind_or_without_status_holds_back_unless_silent() {
        assert_eq!(observed(&[item("a", 3, false), item("b", 2, false)]), 2);
        let blank = MemberItem {
            cluster: "c".to_owned(),
            status: None,
            silent: false,
        };
        assert_eq!(observed(&[item("a", 3, false), blank.clone()]), 2);
        assert_eq!(
            observed(&[
                item("a", 3, false),
                MemberItem {
                    silent: true,
                    ..blank
                }
            ]),
            3
        );
    }

    #[test]
    fn nobody_heard_means_nobody_knows() {
        assert_eq!(observed(&[item("a", 3, true)]), 2);
    }
}
