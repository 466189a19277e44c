//! `bench`: measures the product on real parts and prints what it found. Times are printed, not judged.

mod agent;
mod api;
mod fleet;
mod path;
mod plan;
mod summary;

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde::Serialize;

/// The planner is measured with the allocator that the hub has.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "usage: bench path|plan|fleet|agent|api [--json FILE] [--only PART]

  path          hub and three real members: resident memory, time from apply to Available on the hub, bytes on the
                wire for a one-line change
  plan          the planner alone: bindings per second, full re-plan, incremental edit, memory; and the seed size of a hub
  fleet         a running hub with 100 simulated clusters and 300 Deployments: from the first create to the last target
                durable and announced, memory, database, CPU
  agent         the agent alone beside a real control plane with 10 and with 1,000 pods: peak memory, CPU, start, 500
                objects, repairs, edits, and IP bytes of idle hours. Needs root. --agent FILE measures another binary,
                --idle-seconds N makes the idle window shorter or longer (a beat comes every 300 s); --replicated runs
                it as one of several that lead in turn, with its lease and mirror (as the DaemonSet does)
  api           the hub and a real kube-apiserver with etcd under the same load, in turn: creates and patches at 1, 8 and
                64 clients, a list of 10,000 Deployments, updates to 1,000 watchers, resident memory; and the hub alone
                with 50 large CRDs, and its writes while simulated clusters report 2,000 statuses a second.
                --only PART[,PART...] measures some of creates, patches, list, watch, memory, crds, reports;
                --rounds N (5 unless said); --hub-only leaves the real one out; --hub FILE measures another binary;
                --large also with 100,000 objects (--large --hub-only --only memory: the hub's memory alone)
  --only PART   of fleet: duplicated, divided or divided-large-clusters; of plan: rates, whole or seed
  --json FILE   also write the numbers as JSON";

/// What to measure.
#[derive(Clone, Copy)]
enum Measurement {
    Path,
    Plan,
    Fleet,
    Agent,
    Api,
}

struct Arguments {
    measurement: Measurement,
    json: Option<PathBuf>,
    agent: agent::Options,
    /// The part to measure; none: all.
    only: Option<String>,
    api: api::Options,
}

fn arguments() -> Result<Option<Arguments>> {
    let mut given = std::env::args().skip(1);
    let measurement = match given.next().as_deref() {
        Some("path") => Measurement::Path,
        Some("plan") => Measurement::Plan,
        Some("fleet") => Measurement::Fleet,
        Some("agent") => Measurement::Agent,
        Some("api") => Measurement::Api,
        Some("--help" | "-h") | None => return Ok(None),
        Some(other) => bail!("unknown measurement {other:?}\n\n{USAGE}"),
    };
    let mut json = None;
    let mut only = None;
    let mut api = api::Options::default();
    let mut agent = agent::Options::default();
    while let Some(argument) = given.next() {
        match argument.as_str() {
            "--json" => json = Some(given.next().context("--json needs a file")?.into()),
            "--large" => api.large = true,
            "--only" => only = Some(given.next().context("--only needs the name of a part")?),
            "--rounds" => {
                let rounds = given.next().context("--rounds needs a number")?;
                api.rounds = rounds.parse().context("--rounds")?;
            }
            "--hub-only" => api.hub_only = true,
            "--hub" => api.program = Some(given.next().context("--hub needs a file")?.into()),
            "--agent" => agent.program = Some(given.next().context("--agent needs a file")?.into()),
            "--replicated" => agent.replicated = true,
            "--idle-seconds" => {
                let seconds = given.next().context("--idle-seconds needs a number")?;
                agent.idle = std::time::Duration::from_secs(seconds.parse().context("--idle-seconds")?);
            }
            "--help" | "-h" => return Ok(None),
            other => bail!("unknown argument {other:?}\n\n{USAGE}"),
        }
    }
    if let (Measurement::Api, Some(parts)) = (measurement, &only) {
        api.only(parts)?;
    }
    Ok(Some(Arguments {
        measurement,
        json,
        agent,
        only,
        api,
    }))
}

fn show(found: &(impl Display + Serialize), json: Option<&Path>) -> Result<()> {
    print!("{found}");
    if let Some(file) = json {
        std::fs::write(file, serde_json::to_vec_pretty(found)?)
            .with_context(|| file.display().to_string())?;
    }
    Ok(())
}

/// Runs a measurement in a folder of its own, which is left behind only if it fails.
fn in_folder<T>(measure: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    let folder = std::env::temp_dir().join(format!("pinnace-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let measured = measure(&folder);
    match &measured {
        Ok(_) => std::fs::remove_dir_all(&folder).context("remove the bench folder")?,
        Err(_) => eprintln!("logs and data: {}", folder.display()),
    }
    measured
}

fn main() -> Result<ExitCode> {
    let Some(arguments) = arguments()? else {
        println!("{USAGE}");
        return Ok(ExitCode::SUCCESS);
    };
    let (json, only) = (arguments.json.as_deref(), arguments.only.as_deref());
    match arguments.measurement {
        Measurement::Path => show(&path::measure()?, json)?,
        Measurement::Plan => show(&in_folder(|folder| plan::measure(folder, only))?, json)?,
        Measurement::Agent => show(
            &in_folder(|folder| agent::measure(folder, &arguments.agent))?,
            json,
        )?,
        Measurement::Fleet => show(&in_folder(|folder| fleet::measure(folder, only))?, json)?,
        Measurement::Api => show(&in_folder(|folder| api::measure(folder, &arguments.api))?, json)?,
    }
    Ok(ExitCode::SUCCESS)
}
