//! Volcano batch jobs.

use serde_json::{Value, json};

use super::general::{number, of_template, pick};
use super::merge::{Status, joined, only, put_sums, without_zeros};
use super::{NONE, Read, Rules};
use crate::fields::{get, list, map, text};
use crate::types::reported;
use crate::{Component, MemberItem};

const COUNTERS: &[&str] = &[
    "minAvailable",
    "pending",
    "running",
    "succeeded",
    "failed",
    "terminating",
    "unknown",
    "retryCount",
];

pub(super) static JOB: Rules = Rules {
    components: Some(components),
    aggregate: Some(aggregate),
    reflect: Some(|object| {
        let more = [
            "version",
            "runningDuration",
            "taskStatusCount",
            "controlledResources",
            "state",
            "conditions",
        ];
        pick(object, &[COUNTERS, &more].concat())
    }),
    health: Some(|object| {
        Ok(matches!(
            text(object, "status.state.phase")?,
            "Running"
                | "Completed"
                | "Pending"
                | "Aborting"
                | "Aborted"
                | "Restarting"
                | "Completing"
                | "Terminating"
                | "Terminated"
        ))
    }),
    ..NONE
};

/// One component per task. What must run at once is `minAvailable`, not `replicas`.
fn components(template: &Value) -> Read<Vec<Component>> {
    let one = |(position, task): (usize, &Value)| {
        let name = match text(task, "name")? {
            "" => format!("task-{position}"),
            name => name.to_owned(),
        };
        Ok(Component {
            name,
            replicas: number(task, "minAvailable", 1)?,
            replica_requirements: of_template(get(task, "template")?)?,
        })
    };
    list(template, "spec.tasks")?
        .iter()
        .enumerate()
        .map(one)
        .collect()
}

fn aggregate(template: &Value, items: Option<&[MemberItem]>, now: &str) -> Read<Option<Value>> {
    let Some(items) = items else {
        return Ok(get(template, "status")?.cloned());
    };
    if let Some(status) = only(items) {
        return Ok(status);
    }
    let mut status = Status::new();
    put_sums(&mut status, items, COUNTERS)?;
    let mut version = 0;
    let mut longest = (0.0, "");
    let mut tasks = Status::new();
    let mut resources = Status::new();
    let mut failed = Vec::new();
    let mut completed = 0;
    for (cluster, member) in reported(items) {
        version = version.max(crate::fields::count(member, "version")?);
        let duration = text(member, "runningDuration")?;
        let seconds = seconds(duration);
        if seconds > longest.0 {
            longest = (seconds, duration);
        }
        for (task, counted) in map(member, "taskStatusCount")?.into_iter().flatten() {
            let known = tasks.entry(task.clone()).or_insert_with(|| json!({"phase": {}}));
            for (phase, count) in map(counted, "phase")?.into_iter().flatten() {
                let before = known["phase"][phase.as_str()].as_i64().unwrap_or(0);
                known["phase"][phase.as_str()] = before.saturating_add(count.as_i64().unwrap_or(0)).into();
            }
        }
        for (name, value) in map(member, "controlledResources")?.into_iter().flatten() {
            resources.insert(name.clone(), value.clone());
        }
        match text(member, "state.phase")? {
            "Failed" | "Aborted" => failed.push(cluster),
            "Completed" => completed += 1,
            _ => {}
        }
    }
    status.insert("version".to_owned(), version.into());
    status.insert("runningDuration".to_owned(), longest.1.into());
    status.insert("taskStatusCount".to_owned(), tasks.into());
    status.insert("controlledResources".to_owned(), resources.into());
    status.insert("conditions".to_owned(), joined(items, "conditions")?.into());
    let ended = if !failed.is_empty() {
        let message = format!("Job failed in clusters {}", failed.join(", "));
        Some(("Failed", "VolcanoJobFailed", message))
    } else if completed == items.len() && completed > 0 {
        Some((
            "Completed",
            "Completed",
            "Job completed in every cluster".to_owned(),
        ))
    } else {
        None
    };
    if let Some((phase, reason, message)) = ended {
        let old = &template["status"]["state"];
        let state = if old["phase"] == phase && old["message"] == message.as_str() {
            old.clone()
        } else {
            json!({"phase": phase, "reason": reason, "message": message, "lastTransitionTime": now})
        };
        status.insert("state".to_owned(), state);
    }
    Ok(Some(
        without_zeros(Value::Object(status)).unwrap_or_else(|| json!({})),
    ))
}

/// Length of a duration such as `1h2m3.5s`, in seconds; what is none is 0.
fn seconds(duration: &str) -> f64 {
    let mut total = 0.0;
    let mut number = String::new();
    for c in duration.chars() {
        let unit = match c {
            '0'..='9' | '.' => {
                number.push(c);
                continue;
            }
            'h' => 3600.0,
            'm' => 60.0,
            's' => 1.0,
            _ => return 0.0,
        };
        total += unit * number.parse::<f64>().unwrap_or(0.0);
        number.clear();
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert!((seconds("1h2m3.5s") - 3723.5).abs() < f64::EPSILON);
        assert!(seconds("2m") > seconds("1m30s"));
        assert!(seconds("soon").abs() < f64::EPSILON && seconds("").abs() < f64::EPSILON);
    }
}
