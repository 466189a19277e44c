//! `cargo xtask demo`: the main job from end to end on this machine, every step shown and timed.

mod fleet;

use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Subcommand;
use xtask::member::{Binary, Member};
use xtask::process;
use xtask::proxy::Line;
use xtask::wait::{self, Look};

use super::check::cargo;
use fleet::{CLUSTERS, Fleet};

/// Options of `demo`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Subcommand)]
enum What {
    /// Stops everything the demo started and removes its files.
    Down,
}

/// Clusters and hub agree within this on a busy machine.
const AGREE: Duration = Duration::from_secs(60);

/// What a member runs: Pods that are Running, by image.
#[derive(Debug, PartialEq, Eq)]
struct Running {
    pods: usize,
    image: String,
}

/// Runs the demo or takes it down.
pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(What::Down) = args.what {
        let there = fleet::down()?;
        println!(
            "{}",
            if there {
                "the demo is down"
            } else {
                "no demo is there"
            }
        );
        return Ok(());
    }
    let total = Instant::now();
    step("programs built", || {
        process::run(&mut cargo(&["build", "--quiet", "--workspace", "--bins"])?)?;
        Binary::get().map(|_| ())
    })?;
    let mut fleet = Fleet::new()?;
    step("the hub is up: one process, one directory", || fleet.start_hub())?;
    step("three Kubernetes clusters are up", || fleet.start_members())?;
    step("an agent in each has dialled out and joined", || {
        CLUSTERS.iter().try_for_each(|name| fleet.start_agent(name))?;
        wait_ready(&fleet)
    })?;
    show(&fleet.hub().run(&["get", "clusters"])?);
    step(
        "Namespace, ConfigMap, Deployment, Service and policies applied on the hub",
        || {
            show(&fleet.apply("app.yaml", include_str!("app.yaml"))?);
            show(&fleet.apply("policy.yaml", include_str!("policy.yaml"))?);
            Ok(())
        },
    )?;
    step(
        "three Pods run: two in shop, one in plant with an image from its own registry, none in ship",
        || {
            fleet.hub().run(&[
                "-n",
                "demo",
                "rollout",
                "status",
                "deployment/web",
                "--timeout=60s",
            ])?;
            wait_running("shop", 2, "registry.example.com/web:1.0")?;
            wait_running("plant", 1, "registry.plant.example/web:1.0")?;
            wait_running("ship", 0, "")
        },
    )?;
    show_members()?;
    show(&fleet.hub().run(&["-n", "demo", "get", "deployment", "web"])?);
    show(&fleet.pinnace(&["why", "deployment/web", "-n", "demo"])?);

    let plant = Member::running("plant")?;
    step(
        "plant is cut off; the hub gets version 1.1 and 6 replicas; shop goes on",
        || {
            plant.proxy().set(Line::Cut)?;
            let hub = fleet.hub();
            hub.run(&[
                "-n",
                "demo",
                "set",
                "image",
                "deployment/web",
                "web=registry.example.com/web:1.1",
            ])?;
            hub.run(&["-n", "demo", "scale", "deployment/web", "--replicas=6"])?;
            wait_running("shop", 4, "registry.example.com/web:1.1")
        },
    )?;
    step("plant, cut off, keeps what it had", || {
        wait_running("plant", 1, "registry.plant.example/web:1.0")
    })?;
    show_members()?;
    show(&fleet.pinnace(&["why", "deployment/web", "-n", "demo"])?);
    step(
        "the line is healed; plant has caught up; the rollout is complete on the hub",
        || {
            plant.proxy().set(Line::Open)?;
            wait_running("plant", 2, "registry.plant.example/web:1.1")?;
            fleet.hub().run(&[
                "-n",
                "demo",
                "rollout",
                "status",
                "deployment/web",
                "--timeout=60s",
            ])?;
            Ok(())
        },
    )?;
    show_members()?;
    show(&fleet.hub().run(&["-n", "demo", "get", "deployment", "web"])?);
    println!(
        "done in {:.1} s. Everything is left up to play with:",
        total.elapsed().as_secs_f32()
    );
    println!("  hub    export KUBECONFIG={}", fleet.kubeconfig().display());
    for name in CLUSTERS {
        println!(
            "  {name:<6} export KUBECONFIG={}",
            Member::running(name)?.kubeconfig().display()
        );
    }
    println!("  kubectl is {}", Binary::get()?.kubectl().display());
    println!(
        "  `cargo xtask member cut|heal {}` cuts and heals a line; `cargo xtask demo down` removes all",
        CLUSTERS[0]
    );
    Ok(())
}

/// Runs one step, then says what is true now and how long it took.
fn step(what: &str, action: impl FnOnce() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    action().map_err(|error| error.context(format!("this did not become true: {what}")))?;
    println!("[{:>6.1} s] {what}", start.elapsed().as_secs_f32());
    Ok(())
}

/// Prints what a program said, a little to the right.
fn show(text: &str) {
    for line in text.lines() {
        println!("             {line}");
    }
}

fn wait_ready(fleet: &Fleet) -> Result<()> {
    let kubectl = fleet.hub();
    wait::until("all clusters to be Ready on the hub", AGREE, || {
        let ready = r#"jsonpath={range .items[*]}{.metadata.name}={.status.conditions[?(@.type=="Ready")].status} {end}"#;
        let seen = kubectl
            .run(&["get", "clusters", "-o", ready])
            .unwrap_or_else(|error| error.to_string());
        let all = CLUSTERS
            .iter()
            .all(|name| seen.split_whitespace().any(|word| word == format!("{name}=True")));
        Ok(if all { Look::There(()) } else { Look::NotYet(seen) })
    })
}

/// What the member itself says, asked with its own kubeconfig.
fn running(name: &str) -> Result<Running> {
    let pods =
        r#"jsonpath={range .items[?(@.status.phase=="Running")]}{.spec.containers[0].image}{"\n"}{end}"#;
    let text = Member::running(name)?.kubectl(&["-n", "demo", "get", "pods", "-o", pods])?;
    let mut images: Vec<&str> = text.lines().collect();
    let pods = images.len();
    images.sort_unstable();
    images.dedup();
    Ok(Running {
        pods,
        image: images.join(" "),
    })
}

fn wait_running(name: &str, pods: usize, image: &str) -> Result<()> {
    let wanted = Running {
        pods,
        image: image.to_owned(),
    };
    wait::until(&format!("{pods} Pods of {image} in {name}"), AGREE, || {
        let seen = running(name)?;
        Ok(if seen == wanted {
            Look::There(())
        } else {
            Look::NotYet(format!("{seen:?}"))
        })
    })
}

fn show_members() -> Result<()> {
    for name in CLUSTERS {
        let Running { pods, image } = running(name)?;
        show(&format!("{name:<6} {pods} Pods running  {image}"));
    }
    Ok(())
}
