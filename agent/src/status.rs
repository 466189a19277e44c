//! `pinnace-agent status`: what the ledger says, with hub and member both away.

use std::fmt::Write;
use std::path::Path;

use agent_core::record::Origin;
use anyhow::Result;
use serde::Serialize;

use crate::identity;
use crate::ledger::{Ledger, facts};

/// Lines of the journal shown.
const JOURNAL_LINES: u32 = 20;

/// The state of one agent, from its data directory.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    cluster: String,
    incarnation: String,
    fleet: String,
    hub: String,
    session: u64,
    sequence: u64,
    digest: Option<String>,
    entries: usize,
    tombstones: usize,
    confirmed_time: Option<String>,
    objects: Vec<ObjectLine>,
    open_intents: usize,
    problems: Vec<ProblemLine>,
    journal: Vec<JournalText>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectLine {
    object: String,
    origin: &'static str,
    uid: String,
    wanted: bool,
    current: bool,
}

#[derive(Debug, Serialize)]
struct ProblemLine {
    object: String,
    reason: String,
    message: String,
    since: String,
}

#[derive(Debug, Serialize)]
struct JournalText {
    at: String,
    object: String,
    what: String,
}

/// Reads the status; changes nothing, also beside a running agent.
///
/// # Errors
/// When there is no enrolment, or the ledger cannot be read or does not verify.
pub fn read(data: &Path) -> Result<Status> {
    let enrolment = identity::load(data)?;
    let ledger = Ledger::open_readonly(data)?;
    let ring = facts::ring(&ledger)?.unwrap_or_else(|| enrolment.ring.clone());
    let held = ledger.held(&ring)?.map(|h| h.held);
    let set = held.as_ref().map(|h| h.set.clone()).unwrap_or_default();
    let objects = ledger
        .records()?
        .into_iter()
        .map(|r| {
            let entry = set.entry(&r.key);
            ObjectLine {
                object: r.key.to_string(),
                origin: match r.origin {
                    Origin::Created => "created",
                    Origin::Adopted => "adopted",
                },
                uid: r.uid,
                wanted: entry.is_some(),
                current: entry.is_some_and(|e| e.digest == r.content),
            }
        })
        .collect();
    let confirmed = facts::confirmed(&ledger)?;
    let receipt = &enrolment.receipt.receipt;
    Ok(Status {
        cluster: receipt.cluster.to_string(),
        incarnation: receipt.incarnation.to_string(),
        fleet: receipt.fleet.to_string(),
        hub: enrolment.hub.clone(),
        session: facts::session(&ledger)?.0,
        sequence: held.as_ref().map_or(0, |h| h.head.head.sequence.0),
        digest: held.as_ref().map(|h| h.head.head.digest.to_string()),
        entries: set.entries().len(),
        tombstones: set.tombstones().len(),
        confirmed_time: (confirmed.0 > 0).then(|| confirmed.rfc3339()),
        objects,
        open_intents: ledger.intents()?.len(),
        problems: ledger
            .problems()?
            .into_iter()
            .map(|p| ProblemLine {
                object: p.object,
                reason: p.reason,
                message: p.message,
                since: shared::time::UnixSeconds(p.at).rfc3339(),
            })
            .collect(),
        journal: ledger
            .recent_journal(JOURNAL_LINES)?
            .into_iter()
            .map(|l| JournalText {
                at: shared::time::UnixSeconds(l.at).rfc3339(),
                object: l.object,
                what: l.what,
            })
            .collect(),
    })
}

impl Status {
    /// The status for people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        let mut line = |name: &str, value: &str| {
            // Writing into a String cannot fail.
            let _ = writeln!(out, "{name:<12}{value}");
        };
        line("Cluster:", &self.cluster);
        line("Hub:", &self.hub);
        line("Session:", &self.session.to_string());
        line(
            "Set:",
            &format!(
                "{} ({} entries, {} tombstones)",
                self.sequence, self.entries, self.tombstones
            ),
        );
        line(
            "Hub time:",
            self.confirmed_time.as_deref().unwrap_or("never confirmed"),
        );
        line("Intents:", &format!("{} open", self.open_intents));
        line("Objects:", &self.objects.len().to_string());
        for o in &self.objects {
            let state = match (o.wanted, o.current) {
                (false, _) => "not in the set",
                (true, true) => "current",
                (true, false) => "older content",
            };
            let _ = writeln!(out, "  {:<48} {:<8} {state}", o.object, o.origin);
        }
        if !self.problems.is_empty() {
            out.push_str("Not as wanted:\n");
        }
        for p in &self.problems {
            let _ = writeln!(
                out,
                "  {} {} since {}: {}",
                p.object, p.reason, p.since, p.message
            );
        }
        out.push_str("Journal:\n");
        for j in &self.journal {
            let _ = writeln!(out, "  {} {} {}", j.at, j.object, j.what);
        }
        out
    }
}
