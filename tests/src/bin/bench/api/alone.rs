//! What only the hub is asked: memory with many definitions, and writes while clusters report.

use std::path::Path;
use std::time::{Duration, Instant};

use ::load::{connect_all, drive, paced, request};
use anyhow::{Result, ensure};
use tests::simulated::machine;

use super::super::fleet;
use super::super::fleet::load::{Mode, Shape};
use super::numbers::{Definitions, Reports};
use super::{Options, REST, Run, load, start};

/// Definitions of the size that grown operators bring.
const DEFINITIONS: usize = 50;
/// Simulated clusters, and Deployments that each of them holds.
const CLUSTERS: usize = 100;
const HELD: usize = 20;
/// How often each cluster reports all that it holds: 2,000 statuses a second.
const EVERY: Duration = Duration::from_secs(1);
/// Writes while they do: how many, at which rate, of how many clients.
const WRITES: usize = 1_500;
const PER_SECOND: f64 = 100.0;
const CLIENTS: usize = 16;
const NAMESPACE: &str = "bench";

/// Memory before and after many definitions.
pub(super) async fn definitions(folder: &Path, options: &Options) -> Result<Definitions> {
    let hub = start(folder, options)?;
    let mut connections = connect_all(&load::target(&hub.kubeconfig()?)?, 4).await?;
    tokio::time::sleep(REST).await;
    let before_kib = hub.resident_kib()?.0;
    drive(&mut connections, load::definitions(DEFINITIONS), 201).await?;
    // Clients look at what is served.
    for path in ["/apis", "/openapi/v3/apis/bench.example.com/v1", "/openapi/v2"] {
        let asked = request("GET", path, "application/json", b"");
        load::expect(&mut connections[0], &asked, 200).await?;
    }
    tokio::time::sleep(REST).await;
    Ok(Definitions {
        count: DEFINITIONS,
        bytes_each: load::definition(0).len(),
        before_kib,
        after_kib: hub.resident_kib()?.0,
    })
}

/// Writes alone, then while every cluster reports everything once a second over the real gateway and courier.
pub(super) async fn reports(folder: &Path, options: &Options) -> Result<Reports> {
    ensure!(
        options.program.is_none(),
        "the part `reports` has no --hub: leave it out with --only"
    );
    let shape = Shape { nodes: 5, cpus: 8 };
    let (hub, _api, agents) = fleet::start(folder, CLUSTERS, shape).await?;
    let mut connections = connect_all(&load::target(&hub.kubeconfig()?)?, CLIENTS).await?;
    load::namespace(&mut connections[0], NAMESPACE).await?;
    let policies = format!("/apis/policy.karmada.io/v1alpha1/namespaces/{NAMESPACE}/propagationpolicies");
    for n in 0..HELD {
        let name = format!("web-{n:03}");
        for (path, object) in [
            (
                policies.clone(),
                fleet::load::policy(NAMESPACE, &name, Mode::Duplicated),
            ),
            (load::path(NAMESPACE), fleet::load::deployment(NAMESPACE, &name)),
        ] {
            let made = request("POST", &path, "application/json", object.to_string().as_bytes());
            load::expect(&mut connections[0], &made, 201).await?;
        }
    }
    let started = Instant::now();
    while agents.progress().look()?.workloads < CLUSTERS * HELD {
        ensure!(
            started.elapsed() < Duration::from_secs(120),
            "the works do not arrive"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    hub.at_rest().await?;

    let quiet = paced(
        &mut connections,
        load::configs(NAMESPACE, "quiet", WRITES / 3),
        201,
        PER_SECOND,
    )
    .await?;
    agents.report_every(Some(EVERY));
    // The first rounds make rows that later ones change.
    tokio::time::sleep(3 * EVERY).await;
    let (before, began, cpu) = (
        agents.progress().look()?.reported,
        Instant::now(),
        hub.cpu_seconds()?,
    );
    let busy = paced(
        &mut connections,
        load::configs(NAMESPACE, "busy", WRITES),
        201,
        PER_SECOND,
    )
    .await?;
    let (seconds, cpu) = (began.elapsed().as_secs_f64(), hub.cpu_seconds()? - cpu);
    let taken = agents.progress().look()?.reported - before;
    agents.report_every(None);
    let (quiet, busy) = (Run::of(WRITES / 3, quiet, 0.0), Run::of(WRITES, busy, cpu));
    Ok(Reports {
        clusters: CLUSTERS,
        wanted_per_second: (CLUSTERS * HELD) as f64 / EVERY.as_secs_f64(),
        statuses_per_second: taken as f64 / seconds,
        writes_per_second: PER_SECOND,
        quiet_p50_ms: quiet.p50_ms,
        quiet_p99_ms: quiet.p99_ms,
        p50_ms: busy.p50_ms,
        p99_ms: busy.p99_ms,
        hub_cores: cpu / seconds,
        load: machine::load()?,
    })
}
