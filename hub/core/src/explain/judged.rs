//! Why each cluster was chosen or not, in words: filter, score, estimate and share, with the age of what is known.
//!
//! Everything is read from what the planner wrote down while it decided ([`crate::plan::Story`]).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::duration;
use crate::divide::{By, Division, Share};
use crate::plan::{Occasion, Placing};
use crate::policy::SpreadConstraint;
use crate::schedule::{Assessment, Basis, LOCALITY_SCORE, Try, Unmet};

/// Clusters that get a line of their own; of the others only how many there are for each reason.
const LINES_MAX: usize = 60;
/// Names that are listed before the rest is counted.
const NAMED: usize = 5;

/// What an estimate counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Replicas.
    Replicas,
    /// Whole sets of components.
    Sets,
    /// Nothing: the object has no replicas.
    Nothing,
}

/// A policy in reach, and what it has to do with the object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyVerdict {
    /// `PropagationPolicy prod/web` or `ClusterPropagationPolicy web`.
    pub policy: String,
    /// It decides where the object goes.
    pub holds: bool,
    /// It selects objects of this kind.
    pub selects_kind: bool,
    /// Why, or why not.
    pub message: String,
}

/// An affinity group, or the only attempt of a placement without groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupVerdict {
    /// Its name; absent: the placement has no groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// It is where the object is, or goes.
    pub used: bool,
    /// Why it was used or not: who passed the filters, what spread constraints left, how replicas were divided.
    pub message: String,
}

/// How one cluster was judged for an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// The cluster.
    pub cluster: String,
    /// The filter that refuses it, by the reference's name; absent: it passes all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Why, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// The requirement that it does not meet, if it is refused for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unmet: Option<Unmet>,
    /// Score of each plugin.
    #[serde(default)]
    pub scores: BTreeMap<String, i64>,
    /// Replicas (or whole sets) that still fit; absent: nothing is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<i64>,
    /// What the estimate goes by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room_by: Option<String>,
    /// Overflow tier of its affinity group; 0: none.
    #[serde(default)]
    pub tier: usize,
    /// The spread constraints let it through; absent: it did not come to that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected: Option<bool>,
    /// How its share came about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub division: Option<String>,
    /// Replicas it had by the last decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<i64>,
    /// What it gets; 0 for kinds without replicas; absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<i64>,
    /// Seconds since the cluster was last heard: what is known of it is as old as that; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<u64>,
    /// All of it in one sentence.
    pub message: String,
}

/// Why it was scheduled now, or why not, in one sentence. `last_s`: seconds since it was last scheduled.
pub fn occasion(placing: &Placing, last_s: Option<u64>) -> String {
    let ago = last_s.map_or_else(String::new, |seconds| format!(" {} ago", duration(seconds)));
    match &placing.why {
        Occasion::Trigger(trigger) => format!("it is scheduled in each plan now because {}", trigger.words()),
        Occasion::Kept => format!(
            "it stays where it was scheduled{ago}: neither the placement nor the replicas changed since, and no target left; the \
             clusters are judged as they are now, which moves nothing"
        ),
        Occasion::Suspended => {
            "scheduling is suspended on the binding; the clusters are judged as they are now".to_owned()
        }
        Occasion::Foreign(scheduler) => {
            format!("the scheduler {scheduler:?} decides; the clusters are judged as this hub would")
        }
    }
}

/// The affinity groups in their order: those passed over, those that failed, the one that was used, those not reached.
pub fn groups(placing: &Placing) -> Vec<GroupVerdict> {
    let passed = placing.record.passed_over.iter().map(|name| GroupVerdict {
        group: Some(name.clone()),
        used: false,
        message: "not tried again: what is placed stays in its group until a new start is asked for"
            .to_owned(),
    });
    let tried = placing.record.tries.iter().map(|one| GroupVerdict {
        group: one.group.clone(),
        used: one.outcome.is_ok(),
        message: tried(one, placing),
    });
    let mut all: Vec<GroupVerdict> = passed.chain(tried).collect();
    let known: Vec<Option<String>> = all.iter().map(|one| one.group.clone()).collect();
    let terms = placing
        .placement
        .cluster_affinities
        .as_deref()
        .unwrap_or_default();
    let rest = terms.iter().map(|term| Some(term.affinity_name.clone()));
    all.extend(
        rest.filter(|name| !known.contains(name))
            .map(|group| GroupVerdict {
                group,
                used: false,
                message: "not needed: an earlier group is used".to_owned(),
            }),
    );
    all
}

fn tried(one: &Try, placing: &Placing) -> String {
    let passed = one
        .judged
        .iter()
        .filter(|cluster| cluster.refusal.is_none())
        .count();
    let mut said = vec![format!(
        "{passed} of {} clusters pass the filters",
        one.judged.len()
    )];
    if let Err(error) = &one.outcome {
        said.push(error.to_string());
        return said.join("; ");
    }
    let constraints = &placing.placement.spread_constraints;
    if !constraints.is_empty() && !one.selected.is_empty() {
        said.push(format!(
            "spread constraints ({}) let {} of them through: {}",
            constraints.iter().map(bounds).collect::<Vec<_>>().join(", "),
            one.selected.len(),
            names(&one.selected)
        ));
    }
    if placing.unit == Unit::Replicas {
        let several = one.divisions.len() > 1;
        for division in &one.divisions {
            let tier = if several {
                format!("tier {}: ", division.tier)
            } else {
                String::new()
            };
            said.push(format!("{tier}{}", rule(division)));
        }
    }
    said.join("; ")
}

fn bounds(constraint: &SpreadConstraint) -> String {
    let field = &constraint.spread_by_field;
    match (constraint.min_groups, constraint.max_groups) {
        (min, 0) => format!("{field} at least {min}"),
        (min, max) => format!("{field} {min} to {max}"),
    }
}

fn names(list: &[String]) -> String {
    let first = list.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    match list.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// How replicas were divided, for all clusters.
fn rule(division: &Division) -> String {
    let replicas = division.replicas;
    let rounding = "rounded so that the sum is right (highest averages; between equals, who has fewer)";
    let few = if division.aggregated {
        " over as few clusters as have room enough"
    } else {
        ""
    };
    match division.by {
        By::Duplicated => format!("every cluster gets all {replicas} replicas"),
        By::StaticWeights => {
            format!("{replicas} replicas are divided by the weights of the policy, {rounding}")
        }
        By::EqualWeights => {
            format!("{replicas} replicas are divided equally: no weight is given, {rounding}")
        }
        By::RoomInAll => format!("{replicas} replicas are divided anew by room{few}, {rounding}"),
        By::Unchanged => "the total is what it was, so nothing moves".to_owned(),
        By::FormerShares => {
            format!("there are fewer now: {replicas} replicas are divided by what each had{few}, {rounding}")
        }
        By::RoomForMore => {
            format!(
                "{replicas} further replicas are divided by what still fits{few}, {rounding}; nobody loses any"
            )
        }
    }
}

/// How the clusters were judged, by name, in the attempt that was used, or else in the first. `shares`: what the plan gives
/// them. `age_s`: how old the knowledge of a cluster is.
pub fn verdicts(placing: &Placing, shares: &[Share], age_s: impl Fn(&str) -> Option<u64>) -> Vec<Verdict> {
    let tries = &placing.record.tries;
    let used = tries.iter().find(|one| one.outcome.is_ok()).or(tries.first());
    let Some(used) = used else { return Vec::new() };
    used.judged
        .iter()
        .map(|one| {
            let share = shares.iter().find(|share| share.cluster == one.cluster);
            verdict(one, share, used, placing, age_s(&one.cluster))
        })
        .collect()
}

fn verdict(
    one: &Assessment,
    share: Option<&Share>,
    used: &Try,
    placing: &Placing,
    age_seconds: Option<u64>,
) -> Verdict {
    let counts = placing.unit != Unit::Nothing && one.basis != Basis::Nothing;
    let came_to_that = used.outcome.is_ok() && !used.selected.is_empty();
    let selected = (one.refusal.is_none() && came_to_that).then(|| used.selected.contains(&one.cluster));
    let division = used
        .divisions
        .iter()
        .find(|division| division.tier == one.tier)
        .filter(|_| selected == Some(true) && placing.unit == Unit::Replicas)
        .map(|division| part(division, one));
    let mut verdict = Verdict {
        cluster: one.cluster.clone(),
        filter: one.refusal.as_ref().map(|refusal| refusal.filter().to_owned()),
        refusal: one.refusal.as_ref().map(|_| one.words.clone()),
        unmet: one.unmet.clone(),
        scores: BTreeMap::from([("ClusterLocality".to_owned(), one.score)]),
        room: counts.then_some(one.allocatable),
        room_by: counts.then(|| one.basis.words().to_owned()),
        tier: one.tier,
        selected,
        division,
        held: one.held,
        share: share.map(|share| share.replicas),
        age_seconds,
        message: String::new(),
    };
    verdict.message = sentence(&verdict, placing);
    verdict
}

/// How the share of one cluster came about.
fn part(division: &Division, one: &Assessment) -> String {
    let total: i128 = division
        .weights
        .iter()
        .map(|(_, weight)| i128::from(*weight))
        .sum();
    let weight = division.weights.iter().find(|(name, _)| *name == one.cluster);
    let exact = |weight: i64| {
        let hundredths = i128::from(division.replicas) * i128::from(weight) * 100 / total.max(1);
        format!(
            "{} × {weight}/{total} = {}.{:02}",
            division.replicas,
            hundredths / 100,
            hundredths % 100
        )
    };
    match (division.by, weight) {
        (By::Duplicated, _) => format!("every cluster gets all {}", division.replicas),
        (By::Unchanged, _) => "the total is what it was, so its share stays".to_owned(),
        (By::StaticWeights | By::EqualWeights, Some((_, weight))) => {
            format!("weight {weight} of {total}: {}", exact(*weight))
        }
        (By::StaticWeights | By::EqualWeights, None) => "no weight of the policy matches it".to_owned(),
        (By::RoomInAll, Some((_, weight))) => {
            format!("room for {weight} of {total} in all: {}", exact(*weight))
        }
        (By::FormerShares, Some((_, weight))) => format!("it had {weight} of {total}: {}", exact(*weight)),
        (By::RoomForMore, Some((_, weight))) => format!(
            "{} more, on top of the {} it had",
            exact(*weight),
            one.held.unwrap_or(0)
        ),
        (_, None) if division.aggregated => "not needed: the clusters before it have room enough".to_owned(),
        (_, None) => "it takes no part: there is nothing to divide by".to_owned(),
    }
}

fn sentence(verdict: &Verdict, placing: &Placing) -> String {
    let known = match verdict.age_seconds {
        Some(age) => format!("as of {} ago", duration(age)),
        None => "it never reported".to_owned(),
    };
    let mut said = Vec::new();
    match (&verdict.filter, &verdict.refusal) {
        (Some(filter), Some(refusal)) if verdict.share.is_some() => {
            said.push(format!(
                "{filter} would refuse it now: {refusal} ({known}); what is placed stays"
            ));
        }
        (Some(filter), Some(refusal)) => said.push(format!("refused by {filter}: {refusal} ({known})")),
        _ => said.push("passed the filters".to_owned()),
    }
    if let Some(task) = placing
        .tasks
        .iter()
        .find(|task| task.from_cluster == verdict.cluster)
    {
        said.push(format!("it is being moved away from it: {}", task.reason));
    }
    if verdict.refusal.is_none() {
        if verdict.scores.values().sum::<i64>() == LOCALITY_SCORE {
            said.push(format!("score {LOCALITY_SCORE} (ClusterLocality: it has a copy)"));
        } else {
            said.push("score 0".to_owned());
        }
        if verdict.tier > 0 {
            said.push(format!("overflow tier {}", verdict.tier));
        }
        if let (Some(room), Some(by)) = (verdict.room, &verdict.room_by) {
            let what = if placing.unit == Unit::Sets {
                "whole sets"
            } else {
                "replicas"
            };
            said.push(match verdict.age_seconds {
                Some(age) => format!("{room} more {what} fit by {by}, reported {} ago", duration(age)),
                None => format!("{room} more {what} fit: {by}"),
            });
        }
        if verdict.selected == Some(false) {
            said.push("left out by the spread constraints".to_owned());
        }
    }
    said.extend(verdict.division.clone());
    said.push(match verdict.share {
        Some(replicas) if placing.unit == Unit::Replicas => format!("gets {replicas} replicas"),
        Some(_) => "chosen".to_owned(),
        None => "gets nothing".to_owned(),
    });
    said.join("; ")
}

/// The verdicts as lines: first the chosen ones, then candidates that got nothing, then those that were refused, each by
/// name. Of a large fleet the rest is counted by filter.
pub fn lines(verdicts: &[Verdict]) -> Vec<String> {
    let rank = |one: &&Verdict| match (&one.share, &one.refusal) {
        (Some(_), _) => 0,
        (None, None) => 1,
        (None, Some(_)) => 2,
    };
    let mut ordered: Vec<&Verdict> = verdicts.iter().collect();
    ordered.sort_by_key(rank);
    let mut lines: Vec<String> = ordered
        .iter()
        .take(LINES_MAX)
        .map(|one| format!("{}: {}", one.cluster, one.message))
        .collect();
    let mut rest: BTreeMap<String, usize> = BTreeMap::new();
    for one in ordered.iter().skip(LINES_MAX) {
        let why = match (&one.filter, one.share) {
            (_, Some(_)) => "chosen".to_owned(),
            (None, None) => "passed the filters and get nothing".to_owned(),
            (Some(filter), None) => format!("refused by {filter}"),
        };
        *rest.entry(why).or_default() += 1;
    }
    lines.extend(
        rest.into_iter()
            .map(|(why, count)| format!("{count} further clusters: {why}")),
    );
    lines
}

#[cfg(test)]
mod tests;
