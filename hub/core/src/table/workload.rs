//! Columns of workloads and Pods.

use super::cell::{Row, Show};
use super::{AGE, NAME, Printed, narrow, wide};
use crate::timestamp;
use serde_json::Value;

const CONTAINERS: &str = "/spec/template/spec/containers";

pub(super) const DEPLOYMENT: &[Printed] = &[
    NAME,
    narrow("Ready", "string", |r| {
        format!(
            "{}/{}",
            r.int("/status/readyReplicas"),
            r.int_or("/spec/replicas", 1)
        )
        .show()
    }),
    narrow("Up-to-date", "string", |r| {
        r.int("/status/updatedReplicas").show()
    }),
    narrow("Available", "string", |r| {
        r.int("/status/availableReplicas").show()
    }),
    AGE,
    wide("Containers", "string", |r| r.joined(CONTAINERS, "name")),
    wide("Images", "string", |r| r.joined(CONTAINERS, "image")),
    wide("Selector", "string", |r| r.selector("/spec/selector")),
];

pub(super) const REPLICA_SET: &[Printed] = &[
    NAME,
    narrow("Desired", "integer", |r| r.int_or("/spec/replicas", 1).show()),
    narrow("Current", "integer", |r| r.int("/status/replicas").show()),
    narrow("Ready", "integer", |r| r.int("/status/readyReplicas").show()),
    AGE,
    wide("Containers", "string", |r| r.joined(CONTAINERS, "name")),
    wide("Images", "string", |r| r.joined(CONTAINERS, "image")),
    wide("Selector", "string", |r| r.selector("/spec/selector")),
];

pub(super) const STATEFUL_SET: &[Printed] = &[
    NAME,
    narrow("Ready", "string", |r| {
        format!(
            "{}/{}",
            r.int("/status/readyReplicas"),
            r.int_or("/spec/replicas", 1)
        )
        .show()
    }),
    AGE,
    wide("Containers", "string", |r| r.joined(CONTAINERS, "name")),
    wide("Images", "string", |r| r.joined(CONTAINERS, "image")),
];

pub(super) const DAEMON_SET: &[Printed] = &[
    NAME,
    narrow("Desired", "integer", |r| {
        r.int("/status/desiredNumberScheduled").show()
    }),
    narrow("Current", "integer", |r| {
        r.int("/status/currentNumberScheduled").show()
    }),
    narrow("Ready", "integer", |r| r.int("/status/numberReady").show()),
    narrow("Up-to-date", "integer", |r| {
        r.int("/status/updatedNumberScheduled").show()
    }),
    narrow("Available", "integer", |r| {
        r.int("/status/numberAvailable").show()
    }),
    narrow("Node Selector", "string", |r| {
        r.label_text("/spec/template/spec/nodeSelector")
    }),
    AGE,
    wide("Containers", "string", |r| r.joined(CONTAINERS, "name")),
    wide("Images", "string", |r| r.joined(CONTAINERS, "image")),
    wide("Selector", "string", |r| r.selector("/spec/selector")),
];

pub(super) const POD: &[Printed] = &[
    NAME,
    narrow("Ready", "string", |r| {
        let s = Summary::of(r);
        format!("{}/{}", s.ready, s.total).show()
    }),
    narrow("Status", "string", |r| Summary::of(r).reason.show()),
    narrow("Restarts", "string", |r| {
        let s = Summary::of(r);
        match s.last_restart {
            Some(then) if s.restarts > 0 => {
                format!("{} ({} ago)", s.restarts, timestamp::age(r.now() - then)).show()
            }
            _ => s.restarts.to_string().show(),
        }
    }),
    AGE,
    wide("IP", "string", |r| r.text_or("/status/podIPs/0/ip", "<none>")),
    wide("Node", "string", |r| r.text_or("/spec/nodeName", "<none>")),
    wide("Nominated Node", "string", |r| {
        r.text_or("/status/nominatedNodeName", "<none>")
    }),
    wide("Readiness Gates", "string", readiness_gates),
];

fn readiness_gates(r: &Row) -> Value {
    let gates = r.list("/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".show();
    }
    let open = gates
        .iter()
        .filter(|g| g["conditionType"].as_str().is_some_and(|t| r.is_true(t)))
        .count();
    format!("{open}/{}", gates.len()).show()
}

/// What the narrow columns of a Pod are made of.
struct Summary {
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<i64>,
    reason: String,
}

fn ended_as(state: &Value) -> String {
    let ended = &state["terminated"];
    match (
        ended["reason"].as_str().unwrap_or_default(),
        ended["signal"].as_i64().unwrap_or_default(),
    ) {
        ("", 0) => format!("ExitCode:{}", ended["exitCode"].as_i64().unwrap_or_default()),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

impl Summary {
    fn of(r: &Row) -> Summary {
        let sidecars: Vec<&str> = r
            .list("/spec/initContainers")
            .iter()
            .filter(|c| c["restartPolicy"] == "Always")
            .filter_map(|c| c["name"].as_str())
            .collect();
        let phase = match r.text("/status/phase") {
            "" => "Pending",
            phase => phase,
        };
        let mut s = Summary {
            ready: 0,
            total: r.list("/spec/containers").len() + sidecars.len(),
            restarts: 0,
            last_restart: None,
            reason: phase.to_owned(),
        };
        if !r.text("/status/reason").is_empty() {
            s.reason = r.text("/status/reason").to_owned();
        }
        let gated = |c: &&Value| c["type"] == "PodScheduled" && c["reason"] == "SchedulingGated";
        if r.list("/status/conditions").iter().any(|c| gated(&c)) {
            s.reason = "SchedulingGated".to_owned();
        }
        let initializing = s.init_containers(r, &sidecars);
        if !initializing || r.is_true("Initialized") {
            s.containers(r, &sidecars);
        }
        let ended = matches!(phase, "Succeeded" | "Failed");
        if r.is_deleting() && r.text("/status/reason") == "NodeLost" {
            s.reason = "Unknown".to_owned();
        } else if r.is_deleting() && !ended {
            s.reason = "Terminating".to_owned();
        }
        s
    }

    fn count_restarts(&mut self, status: &Value) {
        self.restarts += status["restartCount"].as_i64().unwrap_or_default();
        let ended = status
            .pointer("/lastState/terminated/finishedAt")
            .and_then(Value::as_str);
        self.last_restart = self.last_restart.max(ended.and_then(timestamp::parse));
    }

    /// Whether init containers still run or failed.
    fn init_containers(&mut self, r: &Row, sidecars: &[&str]) -> bool {
        let all = r.list("/status/initContainerStatuses");
        for (at, status) in all.iter().enumerate() {
            self.count_restarts(status);
            let state = &status["state"];
            let is_sidecar = status["name"].as_str().is_some_and(|n| sidecars.contains(&n));
            let ended = state.get("terminated").filter(|t| !t.is_null());
            if ended.is_some_and(|t| t["exitCode"].as_i64().unwrap_or_default() == 0) {
                continue;
            }
            if is_sidecar && status["started"] == true {
                self.ready += usize::from(status["ready"] == true);
                continue;
            }
            let waiting = state["waiting"]["reason"].as_str().unwrap_or_default();
            self.reason = if ended.is_some() {
                format!("Init:{}", ended_as(state))
            } else if !waiting.is_empty() && waiting != "PodInitializing" {
                format!("Init:{waiting}")
            } else {
                format!("Init:{at}/{}", r.list("/spec/initContainers").len())
            };
            return true;
        }
        false
    }

    fn containers(&mut self, r: &Row, sidecars: &[&str]) {
        (self.restarts, self.last_restart) = (0, None);
        for status in r.list("/status/initContainerStatuses") {
            if status["name"].as_str().is_some_and(|n| sidecars.contains(&n)) {
                self.count_restarts(status);
            }
        }
        let (mut running, mut failed) = (false, String::new());
        for status in r.list("/status/containerStatuses").iter().rev() {
            self.count_restarts(status);
            let state = &status["state"];
            let waiting = state["waiting"]["reason"].as_str().unwrap_or_default();
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if state["terminated"].is_object() {
                self.reason = ended_as(state);
                if state["terminated"]["exitCode"].as_i64().unwrap_or_default() != 0 {
                    failed.clone_from(&self.reason);
                }
            } else if status["ready"] == true && state["running"].is_object() {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            if running && r.is_true("Ready") {
                self.reason = "Running".to_owned();
            } else if !failed.is_empty() {
                self.reason = failed;
            } else if running {
                self.reason = "NotReady".to_owned();
            }
        }
    }
}
