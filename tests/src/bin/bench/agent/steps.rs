//! Where the time of an edit goes: the steps that hub and agent write into their logs on its way, each as the time since
//! the hub answered.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::summary::Spread;

/// What the logs must say for these steps.
pub(crate) const LOG: &str = "info,hub::reconcile=debug,hub::courier=debug,agent::run=debug";

/// Words of the steps in order, and whose log has them.
const STEPS: [(&str, Whose, &str); 7] = [
    ("adopted into the set", Whose::Hub, "works adopted"),
    ("marked as sent", Whose::Hub, "set marked as sent"),
    ("handed to the bus", Whose::Hub, "set offered"),
    ("verified by the agent", Whose::Agent, "set verified"),
    ("in its ledger", Whose::Agent, "set accepted"),
    ("apply begins", Whose::Agent, "acting"),
    ("apply and record ended", Whose::Agent, "acted"),
];

#[derive(Clone, Copy, PartialEq)]
enum Whose {
    Hub,
    Agent,
}

/// One step of all edits.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Step {
    /// What had happened.
    pub(crate) what: String,
    /// Milliseconds since the answer; negative: before it.
    pub(crate) since_answer_ms: Spread,
}

/// One edit by the clock of the machine, in milliseconds.
#[derive(Debug, Clone)]
pub(crate) struct Edit {
    /// Name of the object.
    pub(crate) object: String,
    /// The request was sent.
    pub(crate) sent: f64,
    /// The hub answered.
    pub(crate) answered: f64,
    /// The member's object had it.
    pub(crate) arrived: f64,
}

/// The clock of the machine, in milliseconds.
pub(crate) fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs_f64() * 1e3
}

/// Finds the steps of each edit in both logs.
pub(crate) fn find(hub_log: &Path, agent_log: &Path, edits: &[Edit]) -> Result<Vec<Step>> {
    let (hub, agent) = (lines(hub_log)?, lines(agent_log)?);
    let mut steps = Vec::new();
    for (what, whose, words) in STEPS {
        let log = if whose == Whose::Hub { &hub } else { &agent };
        let mut times = Vec::new();
        for edit in edits {
            // Records are written after the object: a little later than it is seen.
            let window = edit.sent..edit.arrived + 100.0;
            let of_object = words.starts_with("act");
            let found = log.iter().find(|(at, line)| {
                window.contains(at)
                    && line.contains(words)
                    && (!of_object
                        || line
                            .split_whitespace()
                            .any(|word| word.ends_with(&format!("/{}", edit.object))))
            });
            times.extend(found.map(|(at, _)| at - edit.answered));
        }
        if let Some(since_answer_ms) = Spread::of(times) {
            steps.push(Step {
                what: what.to_owned(),
                since_answer_ms,
            });
        }
    }
    let arrived = edits.iter().map(|edit| edit.arrived - edit.answered).collect();
    steps.push(Step {
        what: "the member's object has it".to_owned(),
        since_answer_ms: Spread::of(arrived).context("no edit")?,
    });
    Ok(steps)
}

/// Lines of a log that begin with a time of today, with that time in milliseconds.
fn lines(log: &Path) -> Result<Vec<(f64, String)>> {
    let text = std::fs::read_to_string(log).with_context(|| log.display().to_string())?;
    let today = (now() / 86_400_000.0).floor() * 86_400_000.0;
    let time = |line: &str| {
        let clock = line
            .split_whitespace()
            .next()?
            .split_once('T')?
            .1
            .strip_suffix('Z')?;
        let mut parts = clock.split(':');
        let mut next = || parts.next()?.parse::<f64>().ok();
        let (hours, minutes, seconds) = (next()?, next()?, next()?);
        Some(today + (hours * 3_600.0 + minutes * 60.0 + seconds) * 1e3)
    };
    Ok(text
        .lines()
        .filter_map(|line| Some((time(line)?, line.to_owned())))
        .collect())
}
