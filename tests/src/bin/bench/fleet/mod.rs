//! `bench fleet`: a running hub, simulated clusters, and Deployments with policies created over its API.

pub(crate) mod load;
mod numbers;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt};
use serde_json::{Value, json};

use load::{Mode, Shape};
use numbers::{FleetNumbers, Rows, Run, Statuses};
use tests::simulated::agents::{Clusters, Seen};
use tests::simulated::hub::{Api, Hub};
use tests::simulated::machine;

const CLUSTERS: usize = 100;
const DEPLOYMENTS: usize = 300;
const NAMESPACE: &str = "bench";
/// Creates on their way at the same time.
const CLIENTS: usize = 16;
/// Nobody accepted anything for this long: it is over, or stuck.
const QUIET: Duration = Duration::from_secs(3);
/// Longest time for one run.
const PATIENCE: Duration = Duration::from_secs(600);

/// Runs every mode with a hub of its own, or only the one of this name.
///
/// # Errors
/// Something does not work.
pub(crate) fn measure(folder: &Path, only: Option<&str>) -> Result<FleetNumbers> {
    let small = Shape { nodes: 5, cpus: 8 };
    let large = Shape { nodes: 50, cpus: 32 };
    let load_before = machine::load()?;
    let mut runs = Vec::new();
    for (name, mode, shape) in [
        ("duplicated", Mode::Duplicated, small),
        ("divided", Mode::Divided, small),
        ("divided-large-clusters", Mode::Divided, large),
    ] {
        if only.is_some_and(|only| only != name) {
            continue;
        }
        let folder = folder.join(name);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let run = runtime.block_on(run(&folder, name, mode, shape));
        runs.push(run.with_context(|| name)?);
    }
    ensure!(!runs.is_empty(), "fleet has no part {only:?}");
    Ok(FleetNumbers {
        profile: machine::profile(),
        clusters: CLUSTERS,
        deployments: DEPLOYMENTS,
        load_before,
        load_after: machine::load()?,
        runs,
    })
}

/// A hub with simulated clusters that have reported.
pub(crate) async fn start(folder: &Path, clusters: usize, shape: Shape) -> Result<(Hub, Api, Clusters)> {
    let hub = Hub::start(folder)?;
    let api = hub.client().await?;
    let address = hub.address()?;
    let mut lines = Vec::new();
    for n in 0..clusters {
        let line = api.token(&format!("sim-{n:03}"), &address).await?;
        lines.push(line.parse().with_context(|| line)?);
    }
    let capacity = shape.capacity();
    let agents = Clusters::start(lines.into_iter().map(|line| (line, capacity.clone())).collect());
    let started = Instant::now();
    loop {
        let seen = agents.progress().look()?;
        if seen.connected == clusters && reported(&api).await? == clusters {
            break;
        }
        ensure!(
            started.elapsed() < Duration::from_secs(120),
            "{} of {clusters} clusters are connected",
            seen.connected
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok((hub, api, agents))
}

/// Clusters whose capacity and readiness the hub knows.
async fn reported(api: &Api) -> Result<usize> {
    let list = api.get("/apis/cluster.karmada.io/v1alpha1/clusters").await?;
    let known = |cluster: &&Value| {
        let conditions = cluster["status"]["conditions"].as_array().into_iter().flatten();
        let ready = conditions
            .filter(|c| c["type"] == "Ready" && c["status"] == "True")
            .count()
            == 1;
        ready && cluster["status"]["resourceSummary"].is_object()
    };
    Ok(list["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(known)
        .count())
}

async fn run(folder: &Path, name: &str, mode: Mode, shape: Shape) -> Result<Run> {
    let (hub, api, agents) = start(folder, CLUSTERS, shape).await?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    api.create("/api/v1/namespaces", namespace.to_string().into_bytes())
        .await?;
    hub.at_rest().await?;
    let (resident_before_kib, _) = hub.resident_kib()?;
    let (cpu_before, own_before) = (hub.cpu_seconds()?, machine::cpu_seconds(std::process::id())?);

    let began = Instant::now();
    let object_bytes = create_all(&api, mode).await?;
    let created_seconds = began.elapsed().as_secs_f64();
    let (seen, cpu, own, works) = loop {
        let seen = until_quiet(&agents, |seen| seen.last).await?;
        let (cpu, own) = (hub.cpu_seconds()?, machine::cpu_seconds(std::process::id())?);
        // A hub that pauses is not done; looking costs it CPU that is not counted.
        match check(&api, mode, seen.workloads).await {
            Ok(works) => break (seen, cpu, own, works),
            Err(error) if began.elapsed() > PATIENCE => return Err(error),
            Err(_) => {}
        }
    };
    let seconds = seen.last.duration_since(began).as_secs_f64();

    hub.at_rest().await?;
    let (resident_after_kib, resident_peak_kib) = hub.resident_kib()?;
    let database_bytes = hub.database_bytes()?;
    let rows = Rows::of(&hub.database())?;
    let statuses = report(&hub, &agents, works).await?;
    let (hub_cpu_seconds, clients_cpu_seconds) = (cpu - cpu_before, own - own_before);
    Ok(Run {
        name: name.to_owned(),
        nodes_per_cluster: shape.nodes,
        cpus_per_node: shape.cpus,
        object_bytes,
        works,
        seconds,
        created_seconds,
        bindings_per_second: DEPLOYMENTS as f64 / seconds,
        works_per_second: works as f64 / seconds,
        hub_cpu_seconds,
        clients_cpu_seconds,
        hub_cpu_ms_per_binding: hub_cpu_seconds * 1e3 / DEPLOYMENTS as f64,
        hub_cpu_us_per_work: hub_cpu_seconds * 1e6 / works as f64,
        resident_before_kib,
        resident_after_kib,
        resident_peak_kib,
        database_bytes,
        rows,
        statuses,
    })
}

/// Creates a policy and its Deployment, again and again; the size of one Deployment.
async fn create_all(api: &Api, mode: Mode) -> Result<usize> {
    let policies = format!("/apis/policy.karmada.io/v1alpha1/namespaces/{NAMESPACE}/propagationpolicies");
    let deployments = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments");
    let pairs = (0..DEPLOYMENTS).map(|n| {
        let name = format!("web-{n:03}");
        let policy = load::policy(NAMESPACE, &name, mode).to_string().into_bytes();
        let deployment = load::deployment(NAMESPACE, &name).to_string().into_bytes();
        (policy, deployment)
    });
    let sizes: Vec<usize> = futures::stream::iter(pairs)
        .map(|(policy, deployment)| async {
            let size = deployment.len();
            api.create(&policies, policy).await?;
            api.create(&deployments, deployment).await?;
            Ok::<_, anyhow::Error>(size)
        })
        .buffer_unordered(CLIENTS)
        .try_collect()
        .await?;
    sizes.first().copied().context("nothing was created")
}

/// Waits until no cluster has had anything new for a while.
async fn until_quiet(agents: &Clusters, last: impl Fn(&Seen) -> Instant) -> Result<Seen> {
    let started = Instant::now();
    loop {
        let seen = agents.progress().look()?;
        if last(&seen).max(started).elapsed() >= QUIET {
            return Ok(seen);
        }
        ensure!(started.elapsed() < PATIENCE, "it does not end: {seen:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What clusters hold must be what the bindings say; how many works that is.
async fn check(api: &Api, mode: Mode, held: usize) -> Result<usize> {
    let path = format!("/apis/work.karmada.io/v1alpha2/namespaces/{NAMESPACE}/resourcebindings");
    let list = api.get(&path).await?;
    let bindings = list["items"].as_array().context("no list of bindings")?;
    ensure!(bindings.len() == DEPLOYMENTS, "{} bindings", bindings.len());
    let mut wanted = 0;
    for binding in bindings {
        let clusters = binding["spec"]["clusters"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        let replicas: i64 = clusters
            .iter()
            .filter_map(|cluster| cluster["replicas"].as_i64())
            .sum();
        let expected = if mode == Mode::Duplicated {
            10 * CLUSTERS as i64
        } else {
            10
        };
        let name = &binding["metadata"]["name"];
        ensure!(
            replicas == expected,
            "{name} has {replicas} replicas instead of {expected}"
        );
        wanted += clusters.len();
    }
    ensure!(
        held == wanted,
        "the clusters hold {held} works instead of {wanted}"
    );
    Ok(wanted)
}

/// Every cluster reports every object; how fast the hub takes it.
async fn report(hub: &Hub, agents: &Clusters, works: usize) -> Result<Statuses> {
    let (cpu_before, began) = (hub.cpu_seconds()?, Instant::now());
    agents.report();
    let mut seen = until_quiet(agents, |seen| seen.last_report).await?;
    while seen.reported < works && began.elapsed() < PATIENCE {
        seen = until_quiet(agents, |seen| seen.last_report).await?;
    }
    let seconds = seen.last_report.duration_since(began).as_secs_f64();
    ensure!(
        seen.reported >= works,
        "{} of {works} statuses were taken",
        seen.reported
    );
    hub.at_rest().await?;
    Ok(Statuses {
        count: seen.reported,
        seconds,
        per_second: seen.reported as f64 / seconds,
        hub_cpu_seconds: hub.cpu_seconds()? - cpu_before,
        resident_kib: hub.resident_kib()?.0,
        database_bytes: hub.database_bytes()?,
    })
}
