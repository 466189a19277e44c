//! Helm: a release is installed, changed, rolled back and removed.

use anyhow::{Result, ensure};
use xtask::{process, workspace};

use super::{Server, built, holds};

/// The life of a release. Nothing waits for pods: the hub runs none.
pub(super) fn check(server: &Server) -> Result<()> {
    let program = built("helm")?;
    let chart = workspace::root()?.join("tests/clients/chart");
    let chart = chart.to_string_lossy();
    let helm = |arguments: &[&str]| {
        process::output(
            server
                .client(&program)
                .args(["--namespace", &server.namespace])
                .args(arguments),
        )
    };
    holds(
        "install",
        &helm(&["install", "shop", &chart])?,
        &["STATUS: deployed", "REVISION: 1"],
    )?;
    ensure!(
        server.field("deployment/shop", ".spec.replicas")? == "2",
        "install made something else"
    );
    holds(
        "upgrade",
        &helm(&["upgrade", "shop", &chart, "--set", "replicas=5,color=green"])?,
        &["REVISION: 2"],
    )?;
    ensure!(
        server.field("deployment/shop", ".spec.replicas")? == "5",
        "upgrade changed nothing"
    );
    ensure!(
        server.field("configmap/shop-settings", ".data.color")? == "green",
        "upgrade lost a value"
    );
    holds("get values", &helm(&["get", "values", "shop"])?, &["replicas: 5"])?;
    helm(&["rollback", "shop", "1"])?;
    ensure!(
        server.field("deployment/shop", ".spec.replicas")? == "2",
        "rollback changed nothing"
    );
    holds(
        "history",
        &helm(&["history", "shop"])?,
        &["superseded", "Rollback to 1"],
    )?;
    holds("list", &helm(&["list"])?, &["shop", "deployed", "shop-0.1.0"])?;
    helm(&["uninstall", "shop"])?;
    let left = server.kubectl().run(&[
        "get",
        "-n",
        &server.namespace,
        "deployments,services,secrets",
        "-o",
        "name",
    ])?;
    ensure!(left.trim().is_empty(), "uninstall left {left}");
    Ok(())
}
