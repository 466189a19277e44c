//! The whole path on real parts: hub, three members, three agents.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Config};
use serde_json::{Value, json};
use tests::real::fleet::{Fleet, condition};

use crate::summary::{Memory, PathNumbers, Spread};

const MEMBERS: usize = 3;
const APPLIES: usize = 30;
const EDITS: usize = 10;
const NAMESPACE: &str = "bench";
/// About the size of the object in the budget of a one-line change.
const OBJECT_LINES: usize = 900;
/// Longest wait for any one change.
const PATIENCE: Duration = Duration::from_secs(90);
/// No byte on any line for this long: what a change causes is over.
const QUIET: Duration = Duration::from_secs(2);

/// Starts a fleet, measures, takes it down.
pub(crate) fn measure() -> Result<PathNumbers> {
    crate::in_folder(measure_in)
}

fn measure_in(folder: &Path) -> Result<PathNumbers> {
    let fleet = Fleet::up(folder, MEMBERS)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let hub = client(fleet.kubectl().kubeconfig()).await?;
        let mut members = Vec::new();
        for site in &fleet.sites {
            members.push(client(site.kubectl().kubeconfig()).await?);
        }
        wait_quiet(&fleet).await?;
        let memory_idle = memory(&fleet)?;
        prepare(&fleet)?;
        let apply_to_available_ms = applies(&hub).await?;
        let (object_bytes, bytes_per_change, change_ms) = edits(&fleet, &hub, &members).await?;
        Ok(PathNumbers {
            profile: tests::simulated::machine::profile(),
            members: MEMBERS,
            memory_idle,
            memory_after: memory(&fleet)?,
            apply_to_available_ms,
            object_bytes,
            bytes_per_change,
            change_ms,
        })
    })
}

pub(crate) async fn client(kubeconfig: &Path) -> Result<Client> {
    let read = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

/// Namespace and one policy that sends everything labelled `bench=yes` everywhere.
fn prepare(fleet: &Fleet) -> Result<()> {
    let clusters: Vec<&str> = fleet.sites.iter().map(|site| site.name()).collect();
    let selector = |api: &str, kind: &str| json!({"apiVersion": api, "kind": kind, "labelSelector": {"matchLabels": {"bench": "yes"}}});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "everywhere", "namespace": NAMESPACE},
        "spec": {
            "resourceSelectors": [selector("apps/v1", "Deployment"), selector("v1", "ConfigMap")],
            "placement": {"clusterAffinity": {"clusterNames": clusters}},
        },
    });
    fleet.kubectl().apply(&namespace.to_string())?;
    fleet.kubectl().apply(&policy.to_string())?;
    Ok(())
}

fn api(client: &Client, group: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    Api::namespaced_with(client.clone(), NAMESPACE, &resource)
}

fn object(value: Value) -> Result<DynamicObject> {
    Ok(serde_json::from_value(value)?)
}

async fn applies(hub: &Client) -> Result<Spread> {
    let deployments = api(hub, "apps", "Deployment");
    let mut times = Vec::new();
    for n in 0..APPLIES {
        let name = format!("web-{n}");
        let labels = json!({"app": name});
        let manifest = object(json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"bench": "yes"}},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "main", "image": "nginx:1.27"}]},
                },
            },
        }))?;
        let started = Instant::now();
        let created = deployments.create(&PostParams::default(), &manifest).await?;
        let from = created.metadata.resource_version.context("no resourceVersion")?;
        let available = |object: &Value| {
            condition(object, "Available").as_deref() == Some("True")
                && object["status"]["readyReplicas"].as_u64() == Some(MEMBERS as u64)
        };
        wait(&deployments, &name, &from, available).await?;
        times.push(started.elapsed().as_secs_f64() * 1000.0);
    }
    Spread::of(times).context("nothing was applied")
}

/// Watches one object until it is as wanted.
async fn wait(
    api: &Api<DynamicObject>,
    name: &str,
    from: &str,
    wanted: impl Fn(&Value) -> bool,
) -> Result<()> {
    let parameters = WatchParams::default().fields(&format!("metadata.name={name}"));
    let mut last = Value::Null;
    let watched = tokio::time::timeout(PATIENCE, async {
        let mut events = api.watch(&parameters, from).await?.boxed();
        while let Some(event) = events.try_next().await? {
            if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event {
                last = serde_json::to_value(object)?;
                if wanted(&last) {
                    return Ok(true);
                }
            }
        }
        Ok::<_, anyhow::Error>(false)
    });
    let reached = watched
        .await
        .with_context(|| format!("{name} is not as wanted"))
        .and_then(|reached| reached);
    ensure!(
        reached.with_context(|| format!("last seen: {last}"))?,
        "the watch of {name} ended early"
    );
    Ok(())
}

fn config_map(line: &str) -> Value {
    let mut lines: Vec<String> = (0..OBJECT_LINES)
        .map(|n| {
            format!(
                "setting.{n:04}.of.the.application = value number {:08x}",
                n * 2_654_435_761
            )
        })
        .collect();
    lines[OBJECT_LINES / 2] = line.to_owned();
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": NAMESPACE, "labels": {"bench": "yes"}},
        "data": {"application.properties": lines.join("\n")},
    })
}

async fn edits(fleet: &Fleet, hub: &Client, members: &[Client]) -> Result<(usize, Spread, Spread)> {
    let maps = api(hub, "", "ConfigMap");
    let first = config_map("changed = no");
    let object_bytes = first.to_string().len();
    maps.create(&PostParams::default(), &object(first)?).await?;
    everywhere(members, "changed = no").await?;
    let (mut bytes, mut times) = (Vec::new(), Vec::new());
    for n in 0..EDITS {
        let before = wait_quiet(fleet).await?;
        let line = format!("changed = {n}");
        let data = json!({"data": config_map(&line)["data"]});
        let started = Instant::now();
        maps.patch("settings", &PatchParams::default(), &Patch::Merge(&data))
            .await?;
        everywhere(members, &line).await?;
        times.push(started.elapsed().as_secs_f64() * 1000.0);
        let after = wait_quiet(fleet).await?;
        bytes.extend(
            after
                .iter()
                .zip(&before)
                .map(|(after, before)| (after - before) as f64),
        );
    }
    let bytes = Spread::of(bytes).context("nothing was edited")?;
    Ok((
        object_bytes,
        bytes,
        Spread::of(times).context("nothing was edited")?,
    ))
}

/// Waits until every member's own API shows the line.
async fn everywhere(members: &[Client], line: &str) -> Result<()> {
    for member in members {
        let maps = api(member, "", "ConfigMap");
        let has_line = |object: &Value| {
            object["data"]["application.properties"]
                .as_str()
                .is_some_and(|text| text.contains(line))
        };
        // From "0": what is there already is shown first.
        wait(&maps, "settings", "0", has_line).await?;
    }
    Ok(())
}

/// Waits until no byte passes between agents and hub; returns what passed so far, per member.
async fn wait_quiet(fleet: &Fleet) -> Result<Vec<u64>> {
    let read = || {
        fleet
            .sites
            .iter()
            .map(|site| site.traffic())
            .collect::<Result<Vec<u64>>>()
    };
    let (mut last, mut since, started) = (read()?, Instant::now(), Instant::now());
    while since.elapsed() < QUIET {
        ensure!(
            started.elapsed() < PATIENCE,
            "the lines do not fall silent: {last:?}"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = read()?;
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    Ok(last)
}

fn memory(fleet: &Fleet) -> Result<Vec<Memory>> {
    let hub = fleet.hub.pid().context("the hub does not run")?;
    let mut found = vec![of_process("hub", hub)?];
    for (n, site) in fleet.sites.iter().enumerate() {
        let agent = site.agent_pid().context("an agent does not run")?;
        found.push(of_process(&format!("agent {}", n + 1), agent)?);
    }
    Ok(found)
}

/// Reads the kernel's own count.
fn of_process(process: &str, pid: u32) -> Result<Memory> {
    let (resident_kib, peak_kib) = tests::simulated::machine::resident_kib(pid)?;
    Ok(Memory {
        process: process.to_owned(),
        resident_kib,
        peak_kib,
    })
}
