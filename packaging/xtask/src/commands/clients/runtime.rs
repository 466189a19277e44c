//! Go: client-go's clients once, and a controller of controller-runtime as a process.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use xtask::process::{self, Process};
use xtask::wait::{self, Look};

use super::{Server, built};

/// A controller has taken its lease, filled its cache and acted within this.
const ACTS: Duration = Duration::from_secs(60);

/// What the program's steps see on a real API server.
const STEPS: &str = "typed: 4 replicas of example.com/web:2, generation 3 after 1
apply: conflict, then 7 replicas
informer: deleted applied
conflict: tried again true, exists true
pages: 7 in 3 pages
dynamic: true
metadata: 1, web
election: led
";

/// The typed, dynamic and metadata clients, informers, apply configurations, retries, pages and leader election.
pub(super) fn steps(server: &Server) -> Result<()> {
    let seen = process::output(
        server
            .client(&built("runtime")?)
            .args(["steps", &server.namespace]),
    )?;
    ensure!(seen == STEPS, "the steps saw\n{seen}instead of\n{STEPS}");
    Ok(())
}

/// A controller with a leader's lease, a cache, owned objects and a finalizer.
pub(super) fn controller(server: &Server) -> Result<()> {
    let log = server.folder.join("controller.log");
    let controller = Process::start("controller", &mut server.client(&built("runtime")?), &log)?;
    let result = mirrored(server, &controller);
    controller.stop()?;
    result
}

fn mirrored(server: &Server, controller: &Process) -> Result<()> {
    let kubectl = server.kubectl();
    let namespace = server.namespace.as_str();
    kubectl.run(&[
        "create",
        "-n",
        namespace,
        "configmap",
        "source",
        "--from-literal=color=blue",
    ])?;
    kubectl.run(&["label", "-n", namespace, "configmap", "source", "mirror=yes"])?;
    let color = |wanted: &str| {
        wait::until("the mirrored secret", ACTS, || {
            if !controller.alive() {
                bail!(
                    "the controller ended; see {}",
                    server.folder.join("controller.log").display()
                );
            }
            Ok(match server.field("secret/source", ".data.color") {
                Ok(seen) if seen == wanted => Look::There(()),
                Ok(seen) => Look::NotYet(seen),
                Err(error) => Look::NotYet(error.to_string()),
            })
        })
    };
    color("Ymx1ZQ==")?;
    kubectl.run(&[
        "patch",
        "-n",
        namespace,
        "configmap",
        "source",
        "-p",
        r#"{"data":{"color":"green"}}"#,
    ])?;
    color("Z3JlZW4=")?;
    ensure!(
        server.field("configmap/source", ".metadata.finalizers")? == r#"["pinnace.dev/mirror"]"#,
        "the finalizer is not there"
    );
    kubectl.run(&["delete", "-n", namespace, "secret", "source"])?;
    color("Z3JlZW4=")?;
    kubectl.run(&["delete", "-n", namespace, "configmap", "source", "--timeout=60s"])?;
    wait::until("the owned secret to be collected", ACTS, || {
        let left = kubectl.run(&["get", "-n", namespace, "secrets", "-o", "name"])?;
        Ok(if left.trim().is_empty() {
            Look::There(())
        } else {
            Look::NotYet(left)
        })
    })
}
