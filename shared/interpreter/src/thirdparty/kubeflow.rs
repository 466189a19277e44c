//! Kubeflow: training jobs, MPI jobs, notebooks.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::general::{component, pick, replicas};
use super::merge::{
    self, Status, clusters_with, condition, earliest, joined, latest, only, own, put, without_zeros,
};
use super::{NONE, Read, Rules};
use crate::fields::{condition_true, count, get, list, map, text};
use crate::native::{Names, pod_names};
use crate::types::reported;
use crate::{Component, Dependency, MemberItem};

/// A kind of training job: where its groups are and which there are.
struct Training {
    kind: &'static str,
    specs: &'static str,
    groups: &'static [&'static str],
    /// Does it tell of creation and running, with the times of the members?
    tells_progress: bool,
}

const PYTORCH: Training = Training {
    kind: "PyTorchJob",
    specs: "spec.pytorchReplicaSpecs",
    groups: &["Master", "Worker"],
    tells_progress: true,
};

const TENSORFLOW: Training = Training {
    kind: "TFJob",
    specs: "spec.tfReplicaSpecs",
    groups: &["PS", "Worker", "Chief", "Master", "Evaluator"],
    tells_progress: false,
};

const TRAINING: Rules = Rules {
    health: Some(|object| match get(object, "status.conditions")? {
        Some(_) => Ok(!condition_true(list(object, "status.conditions")?, "Failed")),
        None => Ok(false),
    }),
    ..NONE
};

pub(super) static PYTORCH_JOB: Rules = Rules {
    components: Some(|template| PYTORCH.components(template)),
    aggregate: Some(|template, items, now| PYTORCH.aggregate(template, items, now)),
    dependencies: Some(|template| PYTORCH.needs(template)),
    ..TRAINING
};

pub(super) static TF_JOB: Rules = Rules {
    components: Some(|template| TENSORFLOW.components(template)),
    aggregate: Some(|template, items, now| TENSORFLOW.aggregate(template, items, now)),
    dependencies: Some(|template| TENSORFLOW.needs(template)),
    ..TRAINING
};

pub(super) static MPI_JOB: Rules = Rules {
    components: Some(mpi_components),
    aggregate: Some(mpi_aggregate),
    reflect: Some(mpi_reflect),
    health: Some(|object| {
        let conditions = list(object, "status.conditions")?;
        Ok(!conditions.is_empty() && !condition_true(conditions, "Failed"))
    }),
    ..NONE
};

pub(super) static NOTEBOOK: Rules = Rules {
    replicas: Some(|template| {
        let mut one = replicas(template, "spec.replicas", Some(1), "spec.template")?;
        one.replicas = 1;
        Ok(one)
    }),
    aggregate: Some(notebook_aggregate),
    reflect: Some(|object| pick(object, &["readyReplicas", "containerState", "conditions"])),
    health: Some(|object| match get(object, "status.containerState")? {
        Some(state) => Ok(State::of(state)?.is_well()),
        None => Ok(false),
    }),
    ..NONE
};

const COUNTS: [&str; 3] = ["active", "succeeded", "failed"];

impl Training {
    /// Groups that are there, in the order of the kind.
    fn present<'a>(&self, template: &'a Value) -> Read<Vec<(&'static str, &'a Value)>> {
        let specs = map(template, self.specs)?;
        Ok(self
            .groups
            .iter()
            .filter_map(|group| Some((*group, specs?.get(*group)?)))
            .collect())
    }

    fn components(&self, template: &Value) -> Read<Vec<Component>> {
        self.present(template)?
            .into_iter()
            .map(|(name, group)| component(name.to_lowercase(), group, 1))
            .collect()
    }

    fn needs(&self, template: &Value) -> Read<Vec<Dependency>> {
        let mut names = Names::new();
        for (_, group) in self.present(template)? {
            pod_names(&mut names, get(group, "template.spec")?)?;
        }
        super::general::dependencies(template, names)
    }

    fn aggregate(&self, template: &Value, items: Option<&[MemberItem]>, now: &str) -> Read<Option<Value>> {
        let mut status = own(template)?;
        for name in ["startTime", "completionTime", "replicaStatuses", "conditions"] {
            status.remove(name);
        }
        let Some(items) = items else {
            return Ok(Some(status.into()));
        };
        let mut groups = Status::new();
        for group in self.groups {
            let mut counts = Status::new();
            for name in COUNTS {
                let sum = merge::sum(items, &format!("replicaStatuses.{group}.{name}"))?;
                counts.insert(name.to_owned(), sum.into());
            }
            groups.insert((*group).to_owned(), counts.into());
        }
        status.insert("replicaStatuses".to_owned(), groups.into());
        let started = earliest(items, "startTime")?;
        let ended = latest(items, "completionTime")?;
        put(&mut status, "startTime", started.clone());
        put(
            &mut status,
            "lastReconcileTime",
            latest(items, "lastReconcileTime")?,
        );
        let failed = clusters_with(items, "Failed")?;
        let succeeded = !items.is_empty() && clusters_with(items, "Succeeded")?.len() == items.len();
        let kind = self.kind;
        let last = if !failed.is_empty() {
            let message = format!("{kind} failed in clusters {}", failed.join(", "));
            Some(("Failed", format!("{kind}Failed"), message))
        } else if succeeded {
            put(&mut status, "completionTime", ended.clone());
            let reason = if self.tells_progress {
                format!("{kind}Succeeded")
            } else {
                "Completed".to_owned()
            };
            Some(("Succeeded", reason, format!("{kind} succeeded in every cluster")))
        } else {
            None
        };
        let conditions = if self.tells_progress {
            self.progress(items, started, ended, last)?
        } else {
            let same = |of_type: &str, message: &str| {
                list(template, "status.conditions").map(|conditions| {
                    conditions
                        .iter()
                        .find(|c| c["type"] == of_type && c["message"] == message)
                        .cloned()
                })
            };
            match last {
                // One that said so before keeps its time: an unchanged status is not written again.
                Some((of_type, reason, message)) => vec![
                    same(of_type, &message)?.unwrap_or_else(|| condition(of_type, &reason, message, now)),
                ],
                None => Vec::new(),
            }
        };
        status.insert("conditions".to_owned(), conditions.into());
        Ok(Some(without_zeros(status.into()).unwrap_or_else(|| json!({}))))
    }

    /// Created, running and how it ended, with the times that the members give.
    fn progress(
        &self,
        items: &[MemberItem],
        started: Option<Value>,
        ended: Option<Value>,
        last: Option<(&str, String, String)>,
    ) -> Read<Vec<Value>> {
        let kind = self.kind;
        let timed = |of_type: &str, is: bool, reason: String, message: String, at: Option<&Value>| {
            let mut condition = json!({"type": of_type, "status": if is { "True" } else { "False" }, "reason": reason, "message": message});
            if let Some(at) = at {
                condition["lastUpdateTime"] = at.clone();
                condition["lastTransitionTime"] = at.clone();
            }
            condition
        };
        let mut conditions = Vec::new();
        if !clusters_with(items, "Created")?.is_empty() {
            let message = format!("{kind} is created");
            conditions.push(timed(
                "Created",
                true,
                format!("{kind}Created"),
                message,
                started.as_ref(),
            ));
        }
        let running = clusters_with(items, "Running")?;
        if !running.is_empty() {
            let mut since: Option<Value> = None;
            for (_, member) in reported(items) {
                for condition in list(member, "conditions")?
                    .iter()
                    .filter(|c| c["type"] == "Running")
                {
                    for name in ["lastUpdateTime", "lastTransitionTime"] {
                        let time = text(condition, name)?;
                        if !time.is_empty() && since.as_ref().and_then(Value::as_str).is_none_or(|s| s < time)
                        {
                            since = Some(time.into());
                        }
                    }
                }
            }
            let (message, at) = match &last {
                Some(_) => (format!("{kind} has ended"), ended.as_ref().or(since.as_ref())),
                None => (
                    format!("{kind} is running in clusters {}", running.join(", ")),
                    since.as_ref(),
                ),
            };
            conditions.push(timed(
                "Running",
                last.is_none(),
                format!("{kind}Running"),
                message,
                at,
            ));
        }
        if let Some((of_type, reason, message)) = last {
            conditions.push(timed(of_type, true, reason, message, ended.as_ref()));
        }
        Ok(conditions)
    }
}

fn mpi_components(template: &Value) -> Read<Vec<Component>> {
    let groups = map(template, "spec.mpiReplicaSpecs")?;
    groups
        .into_iter()
        .flatten()
        .filter(|(_, group)| group.get("template").is_some_and(|template| !template.is_null()))
        .map(|(name, group)| {
            component(
                name.clone(),
                group,
                i64::from(!name.eq_ignore_ascii_case("worker")),
            )
        })
        .collect()
}

fn mpi_reflect(object: &Value) -> Read<Value> {
    let mut picked = pick(
        object,
        &["conditions", "startTime", "completionTime", "lastReconcileTime"],
    )?;
    let mut groups = Map::new();
    for (name, group) in map(object, "status.replicaStatuses")?.into_iter().flatten() {
        let mut kept = Map::new();
        for field in ["active", "succeeded", "failed", "selector"] {
            put(
                &mut kept,
                field,
                group.get(field).filter(|value| !value.is_null()).cloned(),
            );
        }
        groups.insert(name.clone(), kept.into());
    }
    if !groups.is_empty() {
        picked["replicaStatuses"] = groups.into();
    }
    Ok(picked)
}

fn mpi_aggregate(template: &Value, items: Option<&[MemberItem]>, _now: &str) -> Read<Option<Value>> {
    let items = items.unwrap_or_default();
    if items.is_empty() {
        return Ok(get(template, "status")?.cloned());
    }
    if let Some(status) = only(items) {
        return Ok(status);
    }
    let mut groups: BTreeMap<String, [i64; 3]> = BTreeMap::new();
    for (_, member) in reported(items) {
        for (name, group) in map(member, "replicaStatuses")?.into_iter().flatten() {
            let sums = groups.entry(name.clone()).or_default();
            for (sum, field) in sums.iter_mut().zip(COUNTS) {
                *sum = sum.saturating_add(count(group, field)?);
            }
        }
    }
    let mut status = Status::new();
    if !groups.is_empty() {
        let counts = |sums: [i64; 3]| {
            COUNTS
                .into_iter()
                .zip(sums)
                .map(|(n, s)| (n.to_owned(), json!(s)))
                .collect()
        };
        let groups: Map<String, Value> = groups
            .into_iter()
            .map(|(name, sums)| (name, Value::Object(counts(sums))))
            .collect();
        status.insert("replicaStatuses".to_owned(), groups.into());
    }
    put(&mut status, "startTime", earliest(items, "startTime")?);
    put(&mut status, "completionTime", latest(items, "completionTime")?);
    put(
        &mut status,
        "lastReconcileTime",
        latest(items, "lastReconcileTime")?,
    );
    // Of each type the one that changed last; those that name no time cannot be compared and are left out.
    let mut newest: BTreeMap<String, (String, Value)> = BTreeMap::new();
    for condition in joined(items, "conditions")? {
        let time = match text(&condition, "lastUpdateTime")? {
            "" => text(&condition, "lastTransitionTime")?,
            time => time,
        }
        .to_owned();
        let of_type = text(&condition, "type")?.to_owned();
        if !time.is_empty() && newest.get(&of_type).is_none_or(|(known, _)| *known < time) {
            newest.insert(of_type, (time, condition));
        }
    }
    if !newest.is_empty() {
        let conditions: Vec<Value> = newest.into_values().map(|(_, condition)| condition).collect();
        status.insert("conditions".to_owned(), conditions.into());
    }
    Ok(Some(status.into()))
}

/// What the container of a notebook does.
#[derive(Debug, PartialEq, Eq)]
enum State {
    Running,
    Creating,
    Ended,
    /// With the reason that the container gives.
    Broken(String),
}

impl State {
    fn of(state: &Value) -> Read<Self> {
        let reason = |path: &str| text(state, path).map(str::to_owned);
        if get(state, "running")?.is_some() {
            return Ok(Self::Running);
        }
        if get(state, "waiting")?.is_some() {
            return Ok(match reason("waiting.reason")?.as_str() {
                "ContainerCreating" => Self::Creating,
                other => Self::Broken(other.to_owned()),
            });
        }
        if get(state, "terminated")?.is_some() {
            let reason = reason("terminated.reason")?;
            let bad = matches!(reason.as_str(), "Error" | "OOMKilled" | "ContainerCannotRun");
            return Ok(if bad || count(state, "terminated.exitCode")? != 0 {
                Self::Broken(reason)
            } else {
                Self::Ended
            });
        }
        Ok(Self::Broken("Unschedulable".to_owned()))
    }

    fn is_well(&self) -> bool {
        !matches!(self, Self::Broken(_))
    }
}

fn notebook_aggregate(template: &Value, items: Option<&[MemberItem]>, now: &str) -> Read<Option<Value>> {
    let items = items.unwrap_or_default();
    if items.is_empty() {
        return Ok(get(template, "status")?.cloned());
    }
    if let Some(status) = only(items) {
        return Ok(status);
    }
    let mut status = Status::new();
    merge::put_sums(&mut status, items, &["readyReplicas"])?;
    merge::put_last(&mut status, items, &["containerState"])?;
    let nothing = json!({});
    let mut broken = Vec::new();
    let mut running = 0;
    for (cluster, member) in reported(items) {
        match State::of(get(member, "containerState")?.unwrap_or(&nothing))? {
            State::Broken(reason) => broken.push(format!("{cluster} ({reason})")),
            State::Running => running += 1,
            State::Creating | State::Ended => {}
        }
    }
    let now_is = if !broken.is_empty() {
        Some((
            "Failed",
            "NotebookFailed",
            format!("Notebook failed in clusters {}", broken.join(", ")),
        ))
    } else if running == items.len() {
        Some((
            "Ready",
            "Ready",
            "Notebook is running in every cluster".to_owned(),
        ))
    } else {
        None
    };
    if let Some((of_type, reason, message)) = now_is {
        let same = list(template, "status.conditions")?
            .iter()
            .find(|c| c["type"] == of_type && c["message"] == message.as_str())
            .cloned();
        let condition = same.unwrap_or_else(|| condition(of_type, reason, message, now));
        status.insert("conditions".to_owned(), json!([condition]));
    }
    Ok(Some(status.into()))
}
