//! Why each cluster was chosen or not, in words: filter, score, estimate and share, with the age of what is known.

use std::collections::BTreeMap;

use shared::reason::Reason;

use super::{Note, duration};
use crate::divide::Share;
use crate::schedule::{Assessment, LOCALITY_SCORE};

/// Clusters that get a line of their own; of the others only how many there are for each reason.
const LINES_MAX: usize = 60;

/// One note for each cluster: first the chosen ones, then candidates that got nothing, then those that were refused, each
/// by name. `age_s`: how old the knowledge of a cluster is; `None`: nothing was ever heard. `unit`: what is counted.
pub fn considered(
    assessed: &[Assessment],
    shares: &[Share],
    unit: Unit,
    age_s: impl Fn(&str) -> Option<u64>,
) -> Vec<Note> {
    let share = |one: &Assessment| shares.iter().find(|share| share.cluster == one.cluster);
    let rank = |one: &Assessment| match (share(one), &one.refusal) {
        (Some(_), _) => 0,
        (None, None) => 1,
        (None, Some(_)) => 2,
    };
    let mut ordered: Vec<&Assessment> = assessed.iter().collect();
    ordered.sort_by_key(|one| rank(one));
    let lines = ordered.iter().take(LINES_MAX).map(|one| {
        let age = match age_s(&one.cluster) {
            Some(age) => format!(", by what it reported {} ago", duration(age)),
            None => ", since it never reported".to_owned(),
        };
        line(one, share(one), unit, &age)
    });
    let mut notes: Vec<Note> = lines.collect();
    let mut rest: BTreeMap<String, usize> = BTreeMap::new();
    for one in ordered.iter().skip(LINES_MAX) {
        let why = one
            .refusal
            .as_ref()
            .map_or("it may be used".to_owned(), ToString::to_string);
        *rest.entry(why).or_default() += 1;
    }
    notes.extend(rest.into_iter().map(|(why, count)| Note {
        reason: Reason::NoClusterFits.into(),
        message: format!("{count} further clusters: {why}"),
    }));
    notes
}

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

fn line(one: &Assessment, share: Option<&Share>, unit: Unit, age: &str) -> Note {
    let cluster = &one.cluster;
    let room = match unit {
        Unit::Nothing => None,
        Unit::Replicas => Some(format!("{} more replicas fit{age}", one.allocatable)),
        Unit::Sets => Some(format!("{} whole sets fit{age}", one.allocatable)),
    };
    let mut parts: Vec<String> = Vec::new();
    if one.score == LOCALITY_SCORE {
        parts.push(format!("it has a copy already (score {LOCALITY_SCORE})"));
    }
    if one.tier > 0 {
        parts.push(format!("it is in overflow tier {}", one.tier));
    }
    parts.extend(room);
    let (reason, head) = match (share, &one.refusal) {
        (Some(share), None) if unit == Unit::Replicas => (
            Reason::Scheduled,
            format!("{cluster} gets {} replicas", share.replicas),
        ),
        (Some(_), None) => (Reason::Scheduled, format!("{cluster} is chosen")),
        (Some(share), Some(refusal)) => (
            Reason::Scheduled,
            format!(
                "{cluster} keeps {} replicas, though it would not be chosen now: {refusal}",
                share.replicas
            ),
        ),
        (None, None) => (
            Reason::Scheduled,
            format!("{cluster} may be used and gets nothing"),
        ),
        (None, Some(refusal)) => {
            let message = format!("{cluster} is not chosen: {refusal} ({})", refusal.filter());
            return Note {
                reason: Reason::NoClusterFits.into(),
                message,
            };
        }
    };
    let message = if parts.is_empty() {
        head
    } else {
        format!("{head}: {}", parts.join("; "))
    };
    Note {
        reason: reason.into(),
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Refusal;

    fn assessed(cluster: &str, refusal: Option<Refusal>, allocatable: i64) -> Assessment {
        Assessment {
            cluster: cluster.to_owned(),
            refusal,
            score: 0,
            allocatable,
            held: None,
            tier: 0,
        }
    }

    #[test]
    fn every_cluster_has_its_reason_and_the_age_of_the_numbers() {
        let assessed = [
            assessed("a", Some(Refusal::ApiNotServed), 0),
            assessed("b", None, 7),
            assessed("c", None, 3),
        ];
        let shares = [Share {
            cluster: "c".to_owned(),
            replicas: 2,
        }];
        let notes = considered(&assessed, &shares, Unit::Replicas, |cluster| {
            (cluster == "c").then_some(180)
        });
        let texts: Vec<&str> = notes.iter().map(|note| note.message.as_str()).collect();
        assert_eq!(
            texts,
            [
                "c gets 2 replicas: 3 more replicas fit, by what it reported 3m ago",
                "b may be used and gets nothing: 7 more replicas fit, since it never reported",
                "a is not chosen: does not serve the kind (APIEnablement)",
            ]
        );
    }

    #[test]
    fn a_large_fleet_is_counted() {
        let many: Vec<Assessment> = (0..LINES_MAX + 40)
            .map(|at| assessed(&format!("m{at:03}"), Some(Refusal::ApiNotServed), 0))
            .collect();
        let notes = considered(&many, &[], Unit::Nothing, |_| None);
        assert_eq!(notes.len(), LINES_MAX + 1);
        assert!(notes[LINES_MAX].message.starts_with("40 further clusters"));
    }
}
