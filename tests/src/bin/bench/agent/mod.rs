//! `bench agent`: what the agent costs and how fast it is, beside a real control plane and a hub at the end of a veth.

mod bed;
mod churn;
mod numbers;
mod steps;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt};
use kube::api::{Api, DynamicObject, Patch, PatchParams, WatchEvent, WatchParams};
use serde_json::{Value, json};
use tests::simulated::machine;

use bed::{Bed, DEPLOYMENTS, NAMESPACE, PATIENCE, api, config_map};
use numbers::{AgentNumbers, Beside, Idle, Program};
use steps::{Edit, Step};

use crate::path::client;
use crate::summary::Spread;

const WORKS: usize = 50;
const MANY: usize = 500;
const STARTS: usize = 5;
const REPAIRS: usize = 20;
const EDITS: usize = 30;
/// How long memory and CPU are looked at after a start: a probe of the whole member falls into it.
const LOOK: Duration = Duration::from_secs(62);
/// After the last write everything is told and acknowledged within this.
const CALM: Duration = Duration::from_secs(20);

/// What the command line says.
pub(crate) struct Options {
    /// The binary to measure instead of the one beside this program.
    pub(crate) program: Option<PathBuf>,
    /// Length of the idle window.
    pub(crate) idle: Duration,
    /// One of several agents that lead in turn.
    pub(crate) replicated: bool,
}

impl Default for Options {
    /// More than three beats.
    fn default() -> Self {
        Options {
            program: None,
            idle: Duration::from_secs(960),
            replicated: false,
        }
    }
}

/// Measures everything.
pub(crate) fn measure(folder: &Path, options: &Options) -> Result<AgentNumbers> {
    let load_before = machine::load()?;
    let mut bed = Bed::up(folder, options.program.clone(), options.replicated)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    bed.deploy(WORKS)?;
    bed.start()?;
    bed.settled(WORKS)?;
    let mut beside = Vec::new();
    // The works bring pods of their own.
    for crowd in [0, 1_000 - DEPLOYMENTS] {
        bed.crowd(crowd)?;
        beside.push(runtime.block_on(look(&mut bed, DEPLOYMENTS + crowd))?);
    }
    let (edits, _) = runtime.block_on(edits(&bed))?;
    let repairs = runtime.block_on(repairs(&bed))?;
    let idle = idle(&mut bed, options.idle, &runtime)?;
    let (seconds, many_peak_kib) = many(&mut bed)?;
    let steps = steps(&mut bed, &runtime)?;
    let dist = xtask::workspace::target()?.join("x86_64-unknown-linux-musl/dist/pinnace-agent");
    Ok(AgentNumbers {
        profile: machine::profile(),
        replicated: options.replicated,
        program: bed
            .program()
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default(),
        size: Program::of(bed.program())?,
        dist: dist.is_file().then(|| Program::of(&dist)).transpose()?,
        load: (load_before, machine::load()?),
        beside,
        edit_to_member_ms: edits,
        steps,
        repair_ms: repairs,
        many: (MANY, seconds),
        many_peak_kib,
        idle,
    })
}

/// Starts the agent several times with an object missing, and looks at the last one for a while.
async fn look(bed: &mut Bed, pods: usize) -> Result<Beside> {
    let member = client(&bed.member.kubeconfig()).await?;
    let maps = api(&member, "", "ConfigMap");
    let mut starts = Vec::new();
    for n in 0..STARTS {
        bed.stop()?;
        let name = format!("map-{n}");
        maps.delete(&name, &Default::default()).await?;
        let begun = Instant::now();
        bed.start()?;
        seen(&maps, &name, |_| true).await?;
        starts.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    let pid = bed.pid()?;
    tokio::time::sleep(LOOK).await;
    let (resident_kib, peak_kib) = machine::resident_kib(pid)?;
    Ok(Beside {
        pods,
        works: WORKS,
        peak_kib,
        resident_kib,
        cpu_first_minute_s: machine::cpu_seconds(pid)?,
        start_to_repaired_ms: Spread::of(starts).context("no start")?,
    })
}

/// The same edits once more, with logs that say where the time goes.
fn steps(bed: &mut Bed, runtime: &tokio::runtime::Runtime) -> Result<Vec<Step>> {
    bed.talk(steps::LOG)?;
    bed.settled(WORKS + MANY)?;
    std::thread::sleep(CALM);
    let (_, edits) = runtime.block_on(edits(bed))?;
    steps::find(bed.hub.log(), bed.log(), &edits)
}

/// Edits on the hub, one after another.
async fn edits(bed: &Bed) -> Result<(Spread, Vec<Edit>)> {
    let hub = client(bed.hub.kubectl().kubeconfig()).await?;
    let member = client(&bed.member.kubeconfig()).await?;
    let (there, here) = (api(&hub, "", "ConfigMap"), api(&member, "", "ConfigMap"));
    let mut times = Vec::new();
    let mut all = Vec::new();
    // Another value than the edits of an earlier run.
    let run = steps::now();
    for n in 0..EDITS {
        let name = format!("map-{}", n % (WORKS - DEPLOYMENTS));
        let value = format!("edit-{n}-{run}");
        let patch = json!({"data": {"value": value}});
        let sent = steps::now();
        let edit = async {
            there
                .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
                .await?;
            anyhow::Ok((Instant::now(), steps::now()))
        };
        let arrival = async {
            seen(&here, &name, |o| o["data"]["value"] == value.as_str()).await?;
            anyhow::Ok((Instant::now(), steps::now()))
        };
        let ((answered, answered_at), (arrived, arrived_at)) =
            futures::future::try_join(edit, arrival).await?;
        times.push(arrived.saturating_duration_since(answered).as_secs_f64() * 1e3);
        all.push(Edit {
            object: name,
            sent,
            answered: answered_at,
            arrived: arrived_at,
        });
        // A person's pace: the report of the edit is told before the next one.
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    Ok((Spread::of(times).context("no edit")?, all))
}

/// Somebody changes our fields in the member; every object once, so that no fight is suspected.
async fn repairs(bed: &Bed) -> Result<Spread> {
    let member = client(&bed.member.kubeconfig()).await?;
    let maps = api(&member, "", "ConfigMap");
    let mut times = Vec::new();
    for n in 0..REPAIRS {
        let name = format!("map-{n}");
        let object = serde_json::to_value(maps.get(&name).await?)?;
        let right = object["data"]["value"].as_str().context("value")?.to_owned();
        let patch = json!({"data": {"value": "drifted"}});
        let begun = Instant::now();
        maps.patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await?;
        seen(&maps, &name, |o| o["data"]["value"] == right.as_str()).await?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    Spread::of(times).context("no repair")
}

/// Nothing to do, while leases and statuses of others change all the time.
fn idle(bed: &mut Bed, window: Duration, runtime: &tokio::runtime::Runtime) -> Result<Idle> {
    let member = runtime.block_on(client(&bed.member.kubeconfig()))?;
    runtime.block_on(async { tokio::time::sleep(CALM).await });
    let pid = bed.pid()?;
    let (bytes, cpu, begun) = (bed.network.traffic()?, machine::cpu_seconds(pid)?, Instant::now());
    let churn = runtime.block_on(churn::during(&member, window))?;
    let seconds = begun.elapsed().as_secs_f64();
    let passed = bed.network.traffic()?.since(bytes);
    ensure!(
        passed.packets > 0,
        "nothing passed over the line: no beat in the window"
    );
    Ok(Idle {
        seconds,
        churn,
        bytes: passed.bytes,
        packets: passed.packets,
        bytes_per_hour: passed.bytes as f64 * 3_600.0 / seconds,
        cpu_s: machine::cpu_seconds(pid)? - cpu,
        peak_kib: machine::resident_kib(pid)?.1,
    })
}

/// Many new objects wait on the hub when the agent starts.
fn many(bed: &mut Bed) -> Result<(f64, u64)> {
    bed.stop()?;
    let all: Vec<Value> = (0..MANY)
        .map(|n| config_map(&format!("many-{n}"), "first"))
        .collect();
    bed.apply(&all)?;
    tests::real::wait::until("the hub has a binding for each", PATIENCE, || {
        let names = ["get", "resourcebindings", "-n", NAMESPACE, "-o", "name"];
        let all = bed.hub.kubectl().run(&names).map_err(|e| e.to_string())?;
        match all.lines().count() {
            n if n == WORKS + MANY => Ok(()),
            n => Err(format!("{n}")),
        }
    })?;
    let begun = Instant::now();
    bed.start()?;
    bed.maps(WORKS - DEPLOYMENTS + MANY)?;
    let seconds = begun.elapsed().as_secs_f64();
    let (_, peak) = machine::resident_kib(bed.pid()?)?;
    Ok((seconds, peak))
}

/// Watches one object until it is as wanted.
async fn seen(api: &Api<DynamicObject>, name: &str, wanted: impl Fn(&Value) -> bool) -> Result<()> {
    let parameters = WatchParams::default().fields(&format!("metadata.name={name}"));
    let watched = tokio::time::timeout(PATIENCE, async {
        // From "0": what is there already is shown first.
        let mut events = api.watch(&parameters, "0").await?.boxed();
        while let Some(event) = events.try_next().await? {
            if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event
                && wanted(&serde_json::to_value(object)?)
            {
                return Ok(true);
            }
        }
        anyhow::Ok(false)
    });
    let found = watched
        .await
        .with_context(|| format!("{name} does not become as wanted"))??;
    ensure!(found, "the watch of {name} ended early");
    Ok(())
}
