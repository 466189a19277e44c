//! `bench api`: the hub and a real kube-apiserver with etcd, the same load in turn, and what only the hub is asked.

mod alone;
mod load;
mod numbers;
mod options;

use std::path::Path;
use std::time::Duration;

use ::load::{Connection, Measured, Target, Watchers, connect_all, drive};
use anyhow::{Context, Result, ensure};
use tests::simulated::hub::Hub;
use tests::simulated::machine;
use xtask::member::Member;

use super::summary::Spread;
use numbers::{ApiNumbers, Resident, Side, Speed};
pub(crate) use options::Options;
use options::Part;

/// Clients at a time, creates of each run, and how many of what was created is patched.
const CLIENTS: [(usize, usize, usize); 3] = [(1, 200, 150), (8, 800, 500), (64, 2_500, 1_500)];
const OBJECTS: usize = 10_000;
const MANY_OBJECTS: usize = 100_000;
const WATCHERS: usize = 1_000;
const UPDATES: usize = 30;
/// What runs beside the API server of a member.
const CONTROLLERS: [&str; 3] = ["kube-controller-manager", "kube-scheduler", "kwok"];
/// Where the objects are that are listed and watched.
const FILLED: &str = "filled";
/// Before memory is looked at.
const REST: Duration = Duration::from_secs(5);

/// One of the two under load.
struct Server {
    target: Target,
    /// Open connections, as many as the run with the most clients has.
    connections: Vec<Connection>,
    /// Processes whose memory and CPU count.
    pids: Vec<u32>,
    side: Side,
}

/// Measures what the options say.
///
/// # Errors
/// Something does not work.
pub(crate) fn measure(folder: &Path, options: &Options) -> Result<ApiNumbers> {
    // One thread: the generator leaves the other core to the server.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let load_before = machine::load()?;
    let (mut hub, mut real) = (Side::new("hub"), None);
    let compared = [
        Part::Creates,
        Part::Patches,
        Part::List,
        Part::Watch,
        Part::Memory,
    ];
    if options.has_any(&compared) {
        let running = start(&folder.join("compared"), options)?;
        let mut servers = vec![Server::of_hub(&running)?];
        let member = match options.hub_only {
            true => None,
            false => Some(Member::up(&format!("bench-{}", std::process::id()), 1)?),
        };
        if let Some(member) = &member {
            servers.push(Server::of_member(member)?);
        }
        let measured = runtime.block_on(all(&mut servers, options));
        if let Some(member) = &member {
            member.down()?;
        }
        measured?;
        let mut sides = servers.into_iter().map(|server| server.side);
        hub = sides.next().context("the hub was measured")?;
        real = sides.next();
    }
    let crds = match options.has(Part::Crds) {
        true => Some(runtime.block_on(alone::definitions(&folder.join("crds"), options))?),
        false => None,
    };
    let reports = match options.has(Part::Reports) {
        true => Some(runtime.block_on(alone::reports(&folder.join("reports"), options))?),
        false => None,
    };
    Ok(ApiNumbers {
        profile: machine::profile(),
        rounds: options.rounds,
        object_bytes: load::deployment(FILLED, 0).len(),
        load_before,
        load_after: machine::load()?,
        hub,
        real,
        crds,
        reports,
    })
}

/// A hub of the binary that was asked for.
fn start(folder: &Path, options: &Options) -> Result<Hub> {
    match &options.program {
        Some(program) => Hub::start_program(folder, program),
        None => Hub::start(folder),
    }
}

/// Stops a process for as long as the measurement lasts; it is killed with its member.
fn stop(pid: u32) -> Result<()> {
    let status = std::process::Command::new("kill")
        .args(["-STOP", &pid.to_string()])
        .status()?;
    ensure!(status.success(), "kill -STOP {pid}");
    Ok(())
}

async fn all(servers: &mut [Server], options: &Options) -> Result<()> {
    let most = CLIENTS.iter().map(|(clients, ..)| *clients).max().unwrap_or(1);
    for server in servers.iter_mut() {
        server.connections = connect_all(&server.target, most).await?;
        if options.has(Part::Memory) {
            server.remember(0).await?;
        }
        load::namespace(&mut server.connections[0], FILLED).await?;
        if options.has_any(&[Part::Memory, Part::List]) {
            server.fill(0, OBJECTS).await?;
        } else if options.has(Part::Watch) {
            server.fill(0, 10).await?;
        }
        if options.has(Part::Memory) {
            server.remember(OBJECTS).await?;
        }
    }
    for round in 0..options.rounds {
        for server in servers.iter_mut() {
            server.writes(round, options).await?;
        }
    }
    if options.has(Part::List) {
        for _ in 0..options.rounds {
            for server in servers.iter_mut() {
                server.list().await?;
            }
        }
    }
    if options.has(Part::Watch) {
        for server in servers.iter_mut() {
            server.watch().await?;
        }
    }
    if options.large && options.has(Part::Memory) {
        for server in servers.iter_mut() {
            server.fill(OBJECTS, MANY_OBJECTS - OBJECTS).await?;
            server.remember(MANY_OBJECTS).await?;
        }
    }
    Ok(())
}

impl Server {
    fn of_hub(hub: &Hub) -> Result<Server> {
        Ok(Server {
            target: load::target(&hub.kubeconfig()?)?,
            connections: Vec::new(),
            pids: vec![hub.pid()],
            side: Side::new("hub"),
        })
    }

    fn of_member(member: &Member) -> Result<Server> {
        for name in CONTROLLERS {
            if let Some(process) = member.process(name) {
                stop(process.pid)?;
            }
        }
        let pid = |name: &str| {
            let process = member.process(name);
            process
                .map(|p| p.pid)
                .with_context(|| format!("the member has no {name}"))
        };
        Ok(Server {
            target: load::target(&member.kubeconfig())?,
            connections: Vec::new(),
            pids: vec![pid("kube-apiserver")?, pid("etcd")?],
            side: Side::new("kube-apiserver + etcd"),
        })
    }

    fn cpu(&self) -> Result<f64> {
        self.pids.iter().map(|pid| machine::cpu_seconds(*pid)).sum()
    }

    /// Sends requests with so many clients; the rest of the connections is silent.
    async fn run(
        &mut self,
        clients: usize,
        requests: std::sync::Arc<Vec<Vec<u8>>>,
        wanted: u16,
    ) -> Result<Run> {
        let count = requests.len();
        let cpu = self.cpu()?;
        let mut busy: Vec<Connection> = self.connections.drain(..clients).collect();
        let measured = drive(&mut busy, requests, wanted).await?;
        self.connections.append(&mut busy);
        Ok(Run::of(count, measured, self.cpu()? - cpu))
    }

    async fn fill(&mut self, first: usize, count: usize) -> Result<()> {
        const TOGETHER: usize = 10_000;
        for first in (first..first + count).step_by(TOGETHER) {
            self.run(64, load::creates(FILLED, first, TOGETHER.min(count)), 201)
                .await?;
        }
        Ok(())
    }

    /// Notes the memory at rest.
    async fn remember(&mut self, objects: usize) -> Result<()> {
        tokio::time::sleep(REST).await;
        let mut kib = 0;
        for pid in &self.pids {
            kib += machine::resident_kib(*pid)?.0;
        }
        self.side.resident.push(Resident { objects, kib });
        Ok(())
    }

    /// Creates and patches with each number of clients, in a namespace that is emptied again.
    async fn writes(&mut self, round: usize, options: &Options) -> Result<()> {
        if !options.has_any(&[Part::Creates, Part::Patches]) {
            return Ok(());
        }
        for (clients, created, patched) in CLIENTS {
            let namespace = format!("round-{round}-{clients}");
            load::namespace(&mut self.connections[0], &namespace).await?;
            let run = self
                .run(clients, load::creates(&namespace, 0, created), 201)
                .await?;
            if options.has(Part::Creates) {
                numbers::note(&mut self.side.creates, clients, run);
            }
            if options.has(Part::Patches) {
                let run = self.run(clients, load::patches(&namespace, patched), 200).await?;
                numbers::note(&mut self.side.patches, clients, run);
            }
            load::remove_all(&mut self.connections[0], &namespace).await?;
        }
        Ok(())
    }

    async fn list(&mut self) -> Result<()> {
        let (cpu, request) = (self.cpu()?, load::list(FILLED));
        let started = std::time::Instant::now();
        let answer = self.connections[0].send(&request, false).await?;
        let took = started.elapsed();
        ensure!(
            answer.status == 200,
            "the list is answered with {}",
            answer.status
        );
        self.side.list_ms.push(took.as_secs_f64() * 1000.0);
        self.side.list_cpu_s.push(self.cpu()? - cpu);
        self.side.list_bytes = answer.bytes;
        Ok(())
    }

    /// Updates one object again and again, each time when everybody has the update before.
    async fn watch(&mut self) -> Result<()> {
        let request = load::watch(&mut self.connections[0], FILLED).await?;
        let mut watchers = Watchers::open(&self.target, &request, WATCHERS).await?;
        let cpu = self.cpu()?;
        for n in 0..UPDATES {
            let patch = load::patch(FILLED, 0, &format!("seen-{n}"));
            let sent = std::time::Instant::now();
            load::expect(&mut self.connections[0], &patch, 200).await?;
            let last = watchers.until(n + 1).await?;
            self.side
                .last_watcher_ms
                .push(last.duration_since(sent).as_secs_f64() * 1000.0);
        }
        self.side.watch_cpu_s = self.cpu()? - cpu;
        self.side.watchers = WATCHERS;
        Ok(())
    }
}

/// Requests a second, how long single ones took, and what they cost the server.
pub(crate) struct Run {
    per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    cpu_ms: f64,
}

impl Run {
    fn of(count: usize, measured: Measured, cpu_seconds: f64) -> Run {
        let mut millis = measured.millis;
        millis.sort_by(f64::total_cmp);
        let at = |percent: usize| {
            let at = millis.len() * percent / 100;
            millis.get(at).copied().unwrap_or_default()
        };
        Run {
            per_second: count as f64 / measured.seconds,
            p50_ms: at(50),
            p99_ms: at(99),
            cpu_ms: cpu_seconds * 1000.0 / count as f64,
        }
    }
}

/// The middle of all rounds.
fn speed(clients: usize, runs: &[Run]) -> Option<Speed> {
    let spread = |of: fn(&Run) -> f64| Spread::of(runs.iter().map(of).collect());
    Some(Speed {
        clients,
        per_second: spread(|r| r.per_second)?,
        p50_ms: spread(|r| r.p50_ms)?,
        p99_ms: spread(|r| r.p99_ms)?,
        server_cpu_ms: spread(|r| r.cpu_ms)?,
    })
}
