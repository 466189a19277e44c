//! A hub of its own for a task that brings foreign clients to it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use xtask::kubectl::Kubectl;
use xtask::process::{self, Process};
use xtask::wait::{self, Look};
use xtask::{ports, workspace};

use super::check::cargo;

/// The hub answers within this on a busy machine.
const READY: Duration = Duration::from_secs(60);

/// A fresh hub in `folder` and its administrator's kubeconfig.
pub(super) fn start(folder: &Path) -> Result<(Process, PathBuf)> {
    process::run(&mut cargo(&["build", "--quiet", "--workspace", "--bins"])?)?;
    let data = folder.join("hub");
    let listen = format!("127.0.0.1:{}", ports::free(1)?.first().context("no free port")?);
    let program = workspace::binary("pinnace-hub")?;
    process::output(
        Command::new(&program)
            .args(["init", "--san=127.0.0.1"])
            .arg(format!("--listen={listen}"))
            .arg("--data")
            .arg(&data),
    )?;
    let log = folder.join("hub.log");
    let hub = Process::start(
        "hub",
        Command::new(&program)
            .arg("serve")
            .arg(format!("--listen={listen}"))
            .arg("--data")
            .arg(&data),
        &log,
    )?;
    let kubeconfig = data.join("admin.kubeconfig");
    let kubectl = Kubectl::new(&kubeconfig, &folder.join("kubectl"));
    let answered = wait::until("the hub to answer", READY, || {
        if !hub.alive() {
            bail!("the hub ended; see {}", log.display());
        }
        Ok(match kubectl.run(&["get", "--raw", "/readyz"]) {
            Ok(_) => Look::There(()),
            Err(error) => Look::NotYet(error.to_string()),
        })
    });
    if let Err(error) = answered {
        hub.stop()?;
        return Err(error);
    }
    Ok((hub, kubeconfig))
}
