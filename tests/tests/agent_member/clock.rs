//! A machine that boots from its ledger with a clock that is years off, and no hub at all.
//!
//! The clock is libfaketime's, of which only the dynamically linked build for tests takes notice. Its monotonic clock
//! stays true: that of a real machine does, too.

use std::path::PathBuf;

use agent::ledger::Ledger;
use anyhow::{Context, Result, ensure};
use serde_json::json;
use shared::set::DeleteMode;
use xtask::packages;

use super::bench::*;

/// Name, what libfaketime is told, and the seconds since 1970 between which the agent's clock then is.
const CLOCKS: &[(&str, &str, std::ops::Range<i64>)] = &[
    ("1970", "@1970-01-01 00:00:30", 0..86_400),
    // Ten years ahead of any day on which this may run.
    ("ahead", "+3652d", 2_082_758_400..i64::MAX),
];

/// F-reports of boots with a wrong clock. Red if any decision looked at the wall clock, or without
/// `dates::TwoTimes`: the certificate of the member's API is not valid yet in 1970.
pub(super) fn a_clock_years_off_changes_nothing(bench: &mut Bench) -> Result<()> {
    let library = library()?.display().to_string();
    for (name, clock, range) in CLOCKS {
        let env = [
            ("LD_PRELOAD", library.as_str()),
            ("FAKETIME", clock),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("TZ", "UTC"),
        ];
        let name = format!("clock-{name}");
        let there = |bench: &Bench| {
            bench.see("configmap", "shop", &name, |o| {
                equal(&o["data"]["a"], &json!("1"))
            })
        };
        bench.stop()?;
        bench.put(&[wanted(namespace("shop")), wanted(config(&name, "1"))], &[])?;
        bench.start(&env)?;
        there(bench).with_context(|| format!("created at {clock}"))?;
        let lines = Ledger::open_readonly(&bench.data)?.recent_journal(1)?;
        let at = lines.first().context("the journal is empty")?.at;
        ensure!(
            range.contains(&at),
            "the agent's clock was not {clock}: it wrote {at}"
        );
        let patch = r#"{"data":{"a":"9"}}"#;
        bench.kubectl.run(&[
            "-n",
            "shop",
            "patch",
            "configmap",
            &name,
            "--type=merge",
            "-p",
            patch,
        ])?;
        there(bench).with_context(|| format!("repaired at {clock}"))?;
        // The power goes, an object with it; the machine boots with the same clock and nobody to ask.
        bench.kill()?;
        bench.kubectl.run(&["-n", "shop", "delete", "configmap", &name])?;
        bench.start(&env)?;
        there(bench).with_context(|| format!("from the ledger at {clock}"))?;
        bench.stop()?;
        bench.put(
            &[wanted(namespace("shop"))],
            &[(&config(&name, "1"), DeleteMode::Delete)],
        )?;
        bench.start(&env)?;
        bench
            .see_gone("configmap", "shop", &name)
            .with_context(|| format!("deleted at {clock}"))?;
    }
    bench.stop()
}

/// The library of Debian's package faketime, installed if it is not there.
fn library() -> Result<PathBuf> {
    let found = || {
        std::fs::read_dir("/usr/lib")
            .ok()?
            .filter_map(|folder| Some(folder.ok()?.path().join("faketime/libfaketime.so.1")))
            .find(|file| file.is_file())
    };
    packages::need(&["faketime"], || found().is_some())?;
    found().context("libfaketime")
}
