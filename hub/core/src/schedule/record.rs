//! What scheduling found on its way, written down by the code that decides, so that an explanation and a decision cannot
//! differ. Nothing is written down unless somebody brings a [`Record`].

use serde::{Deserialize, Serialize};

use super::asked::Asked;
use super::{Assessment, Refusal, ScheduleError};
use crate::cluster::Cluster;
use crate::divide::{Division, Share};
use crate::policy::{Requirement, Unheld};

/// One attempt for each affinity group that was tried; one in all without groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Groups before the one in use: not tried, since what is placed stays in its group.
    pub passed_over: Vec<String>,
    /// What was tried, in order. The last one was used, unless all failed.
    pub tries: Vec<Try>,
}

/// One attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Try {
    /// The affinity group; `None`: there are no groups.
    pub group: Option<String>,
    /// Every cluster, by name.
    pub judged: Vec<Assessment>,
    /// Candidates that the spread constraints let through, best first.
    pub selected: Vec<String>,
    /// How replicas were divided, tier by tier.
    pub divisions: Vec<Division>,
    /// What came of it.
    pub outcome: Result<Vec<Share>, ScheduleError>,
}

impl Try {
    pub(super) fn of(group: Option<&str>) -> Self {
        Self {
            group: group.map(str::to_owned),
            judged: Vec::new(),
            selected: Vec::new(),
            divisions: Vec::new(),
            outcome: Err(ScheduleError::NoClusterSelected),
        }
    }
}

/// A requirement that a cluster does not satisfy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unmet {
    /// What it is about: `label`, `field`, `taint` or `api`.
    pub on: String,
    /// Key of the label, field or taint; `VERSION KIND` of an API.
    pub key: String,
    /// `=`, or the operator as written.
    pub operator: String,
    /// What was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wanted: Vec<String>,
    /// What the cluster has; empty: nothing of that key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub had: Vec<String>,
}

impl std::fmt::Display for Unmet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            on,
            key,
            operator,
            wanted,
            had,
        } = self;
        let list = wanted.join(", ");
        match operator.as_str() {
            "=" => write!(f, "{on} {key}={list} is asked for")?,
            "Exists" => write!(f, "{on} {key} is asked for")?,
            "DoesNotExist" => write!(f, "{on} {key} must not be there")?,
            "In" => write!(f, "{on} {key} in ({list}) is asked for")?,
            "NotIn" => write!(f, "{on} {key} not in ({list}) is asked for")?,
            other => write!(f, "{on} {key} {other} {list} is asked for")?,
        }
        match had.as_slice() {
            [] => write!(f, "; it has no {key}"),
            [one] if one.is_empty() => write!(f, "; it has {key} with an empty value"),
            values => write!(f, "; it has {key}={}", values.join(",")),
        }
    }
}

impl Unmet {
    /// A part of a label selector that labels with this value (`None`: none) do not satisfy.
    pub fn label(part: &Unheld<'_>, found: Option<&str>) -> Self {
        let had = found.map(str::to_owned).into_iter().collect();
        match part {
            Unheld::Label(key, value) => Self {
                on: "label".to_owned(),
                key: (*key).to_owned(),
                operator: "=".to_owned(),
                wanted: vec![(*value).to_owned()],
                had,
            },
            Unheld::Expression(requirement) => Self::expression("label", requirement, had),
        }
    }

    /// A requirement on a field or label.
    pub fn expression(on: &str, requirement: &Requirement, had: Vec<String>) -> Self {
        Self {
            on: on.to_owned(),
            key: requirement.key.clone(),
            operator: requirement.operator.clone(),
            wanted: requirement.values.clone(),
            had,
        }
    }
}

/// Names that are listed before the rest is counted.
const NAMED: usize = 5;

/// A refusal in full: the requirement that was not met, and all of it in words.
pub(super) fn detail(refusal: &Refusal, cluster: &Cluster, asked: &Asked<'_>) -> (Option<Unmet>, String) {
    let request = asked.request;
    let api = || format!("{} {}", request.api_version, request.kind);
    match refusal {
        Refusal::ApiNotServed => {
            let unmet = Unmet {
                on: "api".to_owned(),
                key: api(),
                operator: "Exists".to_owned(),
                wanted: Vec::new(),
                had: Vec::new(),
            };
            (Some(unmet), format!("does not serve {}", api()))
        }
        Refusal::ApiUnknown => (
            None,
            format!(
                "does not say whether it serves {}: its discovery is incomplete",
                api()
            ),
        ),
        Refusal::Taint { key, value, effect } => {
            let unmet = Unmet {
                on: "taint".to_owned(),
                key: key.clone(),
                operator: "DoesNotExist".to_owned(),
                wanted: Vec::new(),
                had: vec![format!("{value}:{effect}")],
            };
            (Some(unmet), refusal.to_string())
        }
        Refusal::Affinity(_) => match asked.unmet(cluster) {
            Some(unmet) => {
                let words = unmet.to_string();
                (Some(unmet), words)
            }
            None => (None, affinity_words(refusal, asked)),
        },
        Refusal::Evicted if request.unavailable.contains(&cluster.name) => (
            None,
            "silent, and nothing is moved to a silent cluster".to_owned(),
        ),
        other => (None, other.to_string()),
    }
}

fn affinity_words(refusal: &Refusal, asked: &Asked<'_>) -> String {
    let named = asked.named();
    if !matches!(refusal, Refusal::Affinity(crate::affinity::Mismatch::NotNamed)) || named.is_empty() {
        return refusal.to_string();
    }
    let more = match named.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let first: Vec<&str> = named.iter().take(NAMED).map(String::as_str).collect();
    format!("{refusal} ({}{more})", first.join(", "))
}
