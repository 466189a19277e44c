//! Columns of Jobs, CronJobs, autoscalers and disruption budgets.

use super::cell::{Row, Show};
use super::{AGE, NAME, Printed, narrow, wide};
use crate::timestamp;
use serde_json::{Value, json};

pub(super) const JOB: &[Printed] = &[
    NAME,
    narrow("Status", "string", |r| job_status(r).show()),
    narrow("Completions", "string", |r| {
        let done = r.int("/status/succeeded");
        match r.at("/spec/completions").and_then(Value::as_i64) {
            Some(wanted) => format!("{done}/{wanted}").show(),
            None => match r.int_or("/spec/parallelism", 1) {
                at_once @ 2.. => format!("{done}/1 of {at_once}").show(),
                _ => format!("{done}/1").show(),
            },
        }
    }),
    narrow("Duration", "string", |r| {
        let Some(start) = timestamp::parse(r.text("/status/startTime")) else {
            return "".show();
        };
        let end = timestamp::parse(r.text("/status/completionTime")).unwrap_or(r.now());
        timestamp::age(end - start).show()
    }),
    AGE,
    wide("Containers", "string", |r| {
        r.joined("/spec/template/spec/containers", "name")
    }),
    wide("Images", "string", |r| {
        r.joined("/spec/template/spec/containers", "image")
    }),
    wide("Selector", "string", |r| r.selector("/spec/selector")),
];

fn job_status(r: &Row) -> &'static str {
    if r.is_true("Complete") {
        return "Complete";
    }
    if r.is_true("Failed") {
        return "Failed";
    }
    if r.is_deleting() {
        return "Terminating";
    }
    ["Suspended", "FailureTarget", "SuccessCriteriaMet"]
        .into_iter()
        .find(|c| r.is_true(c))
        .unwrap_or("Running")
}

const JOB_CONTAINERS: &str = "/spec/jobTemplate/spec/template/spec/containers";

pub(super) const CRON_JOB: &[Printed] = &[
    NAME,
    narrow("Schedule", "string", |r| r.text("/spec/schedule").show()),
    narrow("Timezone", "string", |r| r.text_or("/spec/timeZone", "<none>")),
    narrow("Suspend", "boolean", |r| {
        let suspended = r.at("/spec/suspend") == Some(&Value::Bool(true));
        (if suspended { "True" } else { "False" }).show()
    }),
    narrow("Active", "integer", |r| json!(r.list("/status/active").len())),
    narrow("Last Schedule", "string", |r| {
        r.since("/status/lastScheduleTime", "<none>")
    }),
    AGE,
    wide("Containers", "string", |r| r.joined(JOB_CONTAINERS, "name")),
    wide("Images", "string", |r| r.joined(JOB_CONTAINERS, "image")),
    wide("Selector", "string", |r| {
        r.selector("/spec/jobTemplate/spec/selector")
    }),
];

pub(super) const AUTOSCALER: &[Printed] = &[
    NAME,
    narrow("Reference", "string", |r| {
        format!(
            "{}/{}",
            r.text("/spec/scaleTargetRef/kind"),
            r.text("/spec/scaleTargetRef/name")
        )
        .show()
    }),
    narrow("Targets", "string", targets),
    narrow("MinPods", "string", |r| r.text_or("/spec/minReplicas", "<unset>")),
    narrow("MaxPods", "string", |r| r.int("/spec/maxReplicas").show()),
    narrow("Replicas", "string", |r| r.int("/status/currentReplicas").show()),
    AGE,
];

/// At most two metrics are shown.
fn targets(r: &Row) -> Value {
    // The v1 shape has one percentage.
    if let Some(percent) = r.at("/spec/targetCPUUtilizationPercentage") {
        let current = r.at("/status/currentCPUUtilizationPercentage");
        let current = current.map_or_else(|| "<unknown>".to_owned(), |c| format!("{c}%"));
        return format!("cpu: {current}/{percent}%").show();
    }
    let specs = r.list("/spec/metrics");
    if specs.is_empty() {
        return "<none>".show();
    }
    let current = r.list("/status/currentMetrics");
    let shown: Vec<String> = specs
        .iter()
        .enumerate()
        .take(2)
        .map(|(at, spec)| metric(spec, current.get(at).unwrap_or(&Value::Null)))
        .collect();
    let rest = if specs.len() > 2 {
        format!(" + {} more...", specs.len() - 2)
    } else {
        String::new()
    };
    format!("{}{rest}", shown.join(", ")).show()
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

fn metric(spec: &Value, status: &Value) -> String {
    let kind = spec["type"].as_str().unwrap_or_default();
    let key = match kind {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let (target, current) = (&spec[key]["target"], &status[key]["current"]);
    let unknown = || "<unknown>".to_owned();
    let average = plain(&target["averageValue"]);
    if key == "resource" || key == "containerResource" {
        let name = spec[key]["name"].as_str().unwrap_or_default();
        return match average {
            Some(wanted) => format!(
                "{name}: {}/{wanted}",
                plain(&current["averageValue"]).unwrap_or_else(unknown)
            ),
            None => {
                let percent =
                    |v: &Value, absent: &str| plain(v).map_or_else(|| absent.to_owned(), |v| format!("{v}%"));
                let now = percent(&current["averageUtilization"], "<unknown>");
                format!(
                    "{name}: {now}/{}",
                    percent(&target["averageUtilization"], "<auto>")
                )
            }
        };
    }
    let now = |field: &str| plain(&current[field]).unwrap_or_else(unknown);
    match average {
        Some(wanted) if key == "pods" => format!("{}/{wanted}", now("averageValue")),
        Some(wanted) => format!("{}/{wanted} (avg)", now("averageValue")),
        None => format!("{}/{}", now("value"), plain(&target["value"]).unwrap_or_default()),
    }
}

pub(super) const DISRUPTION_BUDGET: &[Printed] = &[
    NAME,
    narrow("Min Available", "string", |r| {
        r.text_or("/spec/minAvailable", "N/A")
    }),
    narrow("Max Unavailable", "string", |r| {
        r.text_or("/spec/maxUnavailable", "N/A")
    }),
    narrow("Allowed Disruptions", "integer", |r| {
        r.int("/status/disruptionsAllowed").show()
    }),
    AGE,
];
