//! `bench api`: the hub and a real kube-apiserver with etcd, one after the other, under the same load in the same run.
//! Both write durably. The real one's controllers stand still meanwhile: only the two API servers are compared.

mod load;
mod numbers;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tests::simulated::hub::Hub;
use tests::simulated::machine;
use xtask::member::Member;

use super::summary::Spread;
use numbers::{ApiNumbers, Resident, Side, Speed};

/// Clients at a time, and requests of each run.
const CLIENTS: [(usize, usize); 3] = [(1, 300), (8, 1_200), (64, 3_200)];
/// Runs of each, hub and real server in turn.
const ROUNDS: usize = 5;
const OBJECTS: usize = 10_000;
const MANY_OBJECTS: usize = 100_000;
const LISTS: usize = 5;
const WATCHERS: usize = 1_000;
const UPDATES: usize = 20;
/// What runs beside the API server of a member.
const CONTROLLERS: [&str; 3] = ["kube-controller-manager", "kube-scheduler", "kwok"];
/// Where the objects are that are listed and watched.
const FILLED: &str = "filled";

/// One of the two under load.
struct Server {
    client: Client,
    /// Processes whose memory counts.
    pids: Vec<u32>,
    side: Side,
}

/// Measures both. `large` also fills them with 100,000 objects, which takes long.
///
/// # Errors
/// Something does not work.
pub(crate) fn measure(folder: &Path, large: bool) -> Result<ApiNumbers> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let hub = Hub::start(folder)?;
    let member = Member::up(&format!("bench-{}", std::process::id()), 1)?;
    let measured = runtime.block_on(both(&hub, &member, large));
    member.down()?;
    measured
}

async fn client(kubeconfig: &Path) -> Result<Client> {
    let read = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

/// Stops or continues a process.
fn signal(word: &str, pid: u32) -> Result<()> {
    let status = std::process::Command::new("kill")
        .args([word, &pid.to_string()])
        .status()?;
    ensure!(status.success(), "kill {word} {pid}");
    Ok(())
}

async fn both(hub: &Hub, member: &Member, large: bool) -> Result<ApiNumbers> {
    for name in CONTROLLERS {
        if let Some(process) = member.process(name) {
            signal("-STOP", process.pid)?;
        }
    }
    let pid = |name: &str| {
        let process = member.process(name);
        process
            .map(|p| p.pid)
            .with_context(|| format!("the member has no {name}"))
    };
    let mut servers = [
        Server {
            client: client(&hub.kubeconfig()?).await?,
            pids: vec![hub.pid()],
            side: Side::new("hub"),
        },
        Server {
            client: client(&member.kubeconfig()).await?,
            pids: vec![pid("kube-apiserver")?, pid("etcd")?],
            side: Side::new("kube-apiserver + etcd"),
        },
    ];
    let load_before = machine::load()?;
    for server in &mut servers {
        server.remember(0).await?;
        load::namespace(&server.client, FILLED).await?;
        load::create(&server.client, FILLED, 0, OBJECTS, 64).await?;
        server.remember(OBJECTS).await?;
    }
    for round in 0..ROUNDS {
        for server in &mut servers {
            server.writes(round).await?;
        }
    }
    for _ in 0..LISTS {
        for server in &mut servers {
            let (took, bytes) = load::list(&server.client, FILLED).await?;
            server.side.list_ms.push(took);
            server.side.list_bytes = bytes;
        }
    }
    for server in &mut servers {
        server.side.last_watcher_ms = load::watch(&server.client, FILLED, WATCHERS, UPDATES).await?;
        server.side.watchers = WATCHERS;
    }
    if large {
        for server in &mut servers {
            load::create(&server.client, FILLED, OBJECTS, MANY_OBJECTS - OBJECTS, 64).await?;
            server.remember(MANY_OBJECTS).await?;
        }
    }
    let [hub, real] = servers.map(|server| server.side);
    Ok(ApiNumbers {
        profile: machine::profile(),
        rounds: ROUNDS,
        object_bytes: load::deployment(FILLED, 0).len(),
        load_before,
        load_after: machine::load()?,
        hub,
        real,
    })
}

impl Server {
    /// Notes the memory at rest.
    async fn remember(&mut self, objects: usize) -> Result<()> {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let mut kib = 0;
        for pid in &self.pids {
            kib += machine::resident_kib(*pid)?.0;
        }
        self.side.resident.push(Resident { objects, kib });
        Ok(())
    }

    /// Creates and patches with each number of clients, in a namespace that is removed again.
    async fn writes(&mut self, round: usize) -> Result<()> {
        for (clients, count) in CLIENTS {
            let namespace = format!("round-{round}-{clients}");
            load::namespace(&self.client, &namespace).await?;
            let creates = load::create(&self.client, &namespace, 0, count, clients).await?;
            let patches = load::patch(&self.client, &namespace, count, clients).await?;
            load::remove_all(&self.client, &namespace).await?;
            self.side.note(clients, creates, patches);
        }
        Ok(())
    }
}

/// Requests a second, and how long single ones took.
pub(crate) struct Run {
    per_second: f64,
    p99_ms: f64,
}

impl Run {
    fn of(count: usize, seconds: f64, mut millis: Vec<f64>) -> Run {
        millis.sort_by(f64::total_cmp);
        let at = millis.len() * 99 / 100;
        Run {
            per_second: count as f64 / seconds,
            p99_ms: millis.get(at).copied().unwrap_or_default(),
        }
    }
}

/// The middle of all rounds.
fn speed(clients: usize, runs: &[Run]) -> Option<Speed> {
    Some(Speed {
        clients,
        per_second: Spread::of(runs.iter().map(|r| r.per_second).collect())?,
        p99_ms: Spread::of(runs.iter().map(|r| r.p99_ms).collect())?,
    })
}
