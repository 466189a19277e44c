//! What `bench agent` found, for people and for programs.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use super::steps::Step;
use crate::summary::Spread;

/// The program.
#[derive(Debug, Serialize)]
pub(crate) struct Program {
    /// Bytes of the file.
    pub(crate) bytes: u64,
    /// It needs no loader and no libraries.
    pub(crate) is_static: bool,
    /// It carries no symbols.
    pub(crate) is_stripped: bool,
}

impl Program {
    /// Reads what an ELF file says of itself.
    pub(crate) fn of(file: &Path) -> Result<Program> {
        let bytes = std::fs::read(file).with_context(|| file.display().to_string())?;
        let has = |part: &[u8]| bytes.windows(part.len()).any(|w| w == part);
        Ok(Program {
            bytes: bytes.len() as u64,
            is_static: !has(b"/lib64/ld-linux"),
            is_stripped: !has(b"\0.symtab\0"),
        })
    }
}

/// The agent beside a cluster of some size.
#[derive(Debug, Serialize)]
pub(crate) struct Beside {
    /// Pods in the cluster.
    pub(crate) pods: usize,
    /// Works.
    pub(crate) works: usize,
    /// Most resident memory from its start until a minute later, KiB.
    pub(crate) peak_kib: u64,
    /// Resident memory then, KiB.
    pub(crate) resident_kib: u64,
    /// CPU seconds in that minute, the start included.
    pub(crate) cpu_first_minute_s: f64,
    /// Milliseconds from the start of the process until an object that was missing exists again.
    pub(crate) start_to_repaired_ms: Spread,
}

/// An idle window.
#[derive(Debug, Serialize)]
pub(crate) struct Idle {
    /// Length of the window in seconds.
    pub(crate) seconds: f64,
    /// Updates of foreign leases and statuses in the member during the window.
    pub(crate) churn: u64,
    /// IP bytes on the line, both ways.
    pub(crate) bytes: u64,
    /// Packets on the line, both ways.
    pub(crate) packets: u64,
    /// The same rate for an hour.
    pub(crate) bytes_per_hour: f64,
    /// CPU seconds of the agent in the window.
    pub(crate) cpu_s: f64,
    /// Most resident memory since its start, KiB.
    pub(crate) peak_kib: u64,
}

/// Everything.
#[derive(Debug, Serialize)]
pub(crate) struct AgentNumbers {
    /// Build profile of hub and bench.
    pub(crate) profile: &'static str,
    /// Which file was run as the agent.
    pub(crate) program: String,
    /// What it is.
    pub(crate) size: Program,
    /// The release build, if one was made: `target/x86_64-unknown-linux-musl/dist`.
    pub(crate) dist: Option<Program>,
    /// It ran with lease and mirror, as one of several that lead in turn.
    pub(crate) replicated: bool,
    /// Load of the machine before and after.
    pub(crate) load: (f64, f64),
    /// Small and large member.
    pub(crate) beside: Vec<Beside>,
    /// Milliseconds from the hub's answer to an edit until the member's object has it.
    pub(crate) edit_to_member_ms: Spread,
    /// Where that time goes, measured apart with talkative logs.
    pub(crate) steps: Vec<Step>,
    /// Milliseconds from somebody's change of our object until it is as wanted again.
    pub(crate) repair_ms: Spread,
    /// Seconds from the start of the agent until all objects of this many exist.
    pub(crate) many: (usize, f64),
    /// Most resident memory of the agent with all of these, KiB.
    pub(crate) many_peak_kib: u64,
    /// Idle.
    pub(crate) idle: Idle,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let linked = if self.is_static { "static" } else { "dynamic" };
        let symbols = if self.is_stripped {
            "stripped"
        } else {
            "with symbols"
        };
        write!(f, "{:.1} MB, {linked}, {symbols}", self.bytes as f64 / 1e6)
    }
}

impl fmt::Display for AgentNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "agent {} ({}){}, hub of the {} build, load {:.1} to {:.1}",
            self.program,
            self.size,
            if self.replicated {
                " with lease and mirror"
            } else {
                ""
            },
            self.profile,
            self.load.0,
            self.load.1
        )?;
        match &self.dist {
            Some(dist) => writeln!(f, "  release build                {dist} (at most 15 MB wanted)")?,
            None => writeln!(f, "  release build                none was made")?,
        }
        for beside in &self.beside {
            writeln!(f, "  {} pods, {} works", beside.pods, beside.works)?;
            writeln!(
                f,
                "    resident                   peak {:.1} MiB, then {:.1} MiB (at most 20 MiB wanted)",
                beside.peak_kib as f64 / 1024.0,
                beside.resident_kib as f64 / 1024.0
            )?;
            writeln!(
                f,
                "    CPU, first minute          {:.2} s",
                beside.cpu_first_minute_s
            )?;
            writeln!(
                f,
                "    start -> repaired, ms      {}",
                beside.start_to_repaired_ms
            )?;
        }
        writeln!(f, "  answered edit -> member, ms  {}", self.edit_to_member_ms)?;
        for step in &self.steps {
            writeln!(f, "    {:<28} {}", step.what, step.since_answer_ms)?;
        }
        writeln!(f, "  drift -> repaired, ms        {}", self.repair_ms)?;
        writeln!(
            f,
            "  {} objects                  {:.1} s from the start of the agent, peak {:.1} MiB",
            self.many.0,
            self.many.1,
            self.many_peak_kib as f64 / 1024.0
        )?;
        let idle = &self.idle;
        writeln!(
            f,
            "  idle for {:.0} s              {} IP bytes in {} packets: {:.1} KB an hour (at most 20 wanted); {:.2} s \
             CPU; {} changes of leases and statuses beside it",
            idle.seconds,
            idle.bytes,
            idle.packets,
            idle.bytes_per_hour / 1e3,
            idle.cpu_s,
            idle.churn
        )
    }
}
