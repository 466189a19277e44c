//! `pinnace-agent doctor`: looks at everything the agent lives by, and says what is wrong and what to do.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::Serialize;
use shared::keys::KeyRing;
use shared::time::UnixSeconds;

use crate::clock::wall_seconds;
use crate::guard::{Keeper, Source};
use crate::identity::{self, Enrolment};
use crate::ledger::{Ledger, facts};
use crate::member::connect::connect;
use crate::member::dates::Confirmed;
use crate::member::probe;

/// A clock this far behind what the hub confirmed is called wrong, in seconds.
const CLOCK_BEHIND_S: i64 = 600;

/// One thing looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub what: &'static str,
    /// Whether it is as it should be.
    pub good: bool,
    /// What was found, and what to do if it is not good.
    pub text: String,
}

fn good(what: &'static str, text: impl Into<String>) -> Finding {
    Finding {
        what,
        good: true,
        text: text.into(),
    }
}

fn bad(what: &'static str, text: impl Into<String>) -> Finding {
    Finding {
        what,
        good: false,
        text: text.into(),
    }
}

/// Looks at enrolment, ledger, set, clock, guard and member; changes nothing, also beside a running agent.
pub async fn examine(data: &Path, kubeconfig: Option<&Path>, guard: Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let enrolment = match identity::load(data) {
        Ok(enrolment) => enrolment,
        Err(e) => return vec![bad("enrolment", e.to_string())],
    };
    let receipt = &enrolment.receipt.receipt;
    findings.push(match enrolment.receipt.verify(&enrolment.ring) {
        Ok(()) => good(
            "enrolment",
            format!("{} in fleet {}", receipt.cluster, receipt.fleet),
        ),
        Err(e) => bad(
            "enrolment",
            format!("the receipt does not verify ({e}): enrol again"),
        ),
    });
    findings.push(private(data));
    let ledger = match Ledger::open_readonly(data) {
        Ok(ledger) => Some(ledger),
        Err(e) => {
            findings.push(bad("ledger", chain(&e)));
            None
        }
    };
    let mut bound = receipt.kube_system_uid.clone();
    if let Some(ledger) = &ledger {
        findings.extend(of_ledger(ledger, &enrolment));
        bound = facts::bound(ledger).ok().flatten().unwrap_or(bound);
    }
    let keeper = Keeper::start(guard);
    if let Err(e) = &keeper {
        findings.push(bad("guard", format!("{e:#}")));
    }
    let config = kubeconfig.or(enrolment.kubeconfig.as_deref());
    let confirmed = Confirmed::default();
    if let Some(time) = ledger.as_ref().and_then(|l| facts::confirmed(l).ok()) {
        confirmed.raise(time);
    }
    match connect(config, &confirmed).await {
        Err(e) => findings.push(bad("member", format!("{e:#}"))),
        Ok(api) => {
            findings.push(match probe::identity(&api).await {
                Ok((uid, version)) if uid == bound => good("member", format!("answers, {version}")),
                Ok((uid, _)) => bad(
                    "member",
                    format!("is another cluster: kube-system {uid}, enrolled {bound}; if that is right: pinnace-agent rebind"),
                ),
                Err(e) => bad("member", format!("{}: {}", e.reason, e.message)),
            });
            if let Ok(keeper) = &keeper {
                findings.push(match keeper.refresh(&api).await {
                    Ok(()) => good("guard", "readable"),
                    Err(e) => bad("guard", format!("{e:#}")),
                });
            }
        }
    }
    findings
}

/// Only the owner may look into the data directory.
fn private(data: &Path) -> Finding {
    match std::fs::metadata(data) {
        Ok(m) if m.mode() & 0o077 == 0 => good("data directory", "closed to others"),
        Ok(m) => bad(
            "data directory",
            format!("has mode {:o}: chmod 700 {}", m.mode() & 0o777, data.display()),
        ),
        Err(e) => bad("data directory", e.to_string()),
    }
}

fn of_ledger(ledger: &Ledger, enrolment: &Enrolment) -> Vec<Finding> {
    let mut findings = vec![match ledger.check() {
        Ok(()) => good("ledger", "whole"),
        Err(e) => bad(
            "ledger",
            format!(
                "{}; start the agent: it sets the file aside and says so",
                chain(&e)
            ),
        ),
    }];
    let ring: KeyRing = match facts::ring(ledger) {
        Ok(ring) => ring.unwrap_or_else(|| enrolment.ring.clone()),
        Err(e) => {
            findings.push(bad("keys", chain(&e)));
            return findings;
        }
    };
    findings.push(match ledger.held(&ring) {
        Ok(Some(held)) => {
            let (head, set) = (&held.held.head.head, &held.held.set);
            good(
                "set",
                format!(
                    "{} verifies: {} entries, {} tombstones",
                    head.sequence,
                    set.entries().len(),
                    set.tombstones().len()
                ),
            )
        }
        Ok(None) => good("set", "none was accepted yet"),
        Err(e) => bad("set", chain(&e)),
    });
    if let Ok(problems) = ledger.problems() {
        findings.push(if problems.is_empty() {
            good("objects", "none is in trouble")
        } else {
            let first = &problems[0];
            bad(
                "objects",
                format!(
                    "{} not as wanted, the first: {}: {}: {}",
                    problems.len(),
                    first.object,
                    first.reason,
                    first.message
                ),
            )
        });
    }
    if let Ok(time) = facts::confirmed(ledger) {
        findings.push(of_clock(wall_seconds(), time));
    }
    findings
}

/// The hub's time as last confirmed has been: a clock before it is wrong.
fn of_clock(clock: UnixSeconds, confirmed: UnixSeconds) -> Finding {
    if clock.0 + CLOCK_BEHIND_S < confirmed.0 {
        bad(
            "clock",
            format!(
                "says {}, but the hub said {} before: set it; the agent goes on meanwhile",
                clock.rfc3339(),
                confirmed.rfc3339()
            ),
        )
    } else {
        good("clock", "not before what the hub last confirmed")
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_before_the_confirmed_time_is_wrong() {
        let confirmed = UnixSeconds(1_800_000_000);
        assert!(of_clock(UnixSeconds(1_800_000_500), confirmed).good);
        assert!(of_clock(UnixSeconds(1_799_999_900), confirmed).good);
        assert!(!of_clock(UnixSeconds(0), confirmed).good);
        assert!(of_clock(UnixSeconds(0), UnixSeconds(0)).good, "never confirmed");
    }

    #[tokio::test]
    async fn an_empty_directory_is_named_as_such() {
        let dir = tempfile::tempdir().unwrap();
        let findings = examine(dir.path(), None, Source::Default).await;
        assert_eq!(findings.len(), 1);
        assert!(
            !findings[0].good && findings[0].text.contains("join"),
            "{findings:?}"
        );
    }
}
