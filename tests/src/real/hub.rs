//! A hub as a process: its own data directory and a fixed loopback address that survives restarts.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::kubectl::Kubectl;
use super::network::Network;
use super::process::{Process, binary};
use super::wait;

/// How long a hub may take to answer after its start.
const READY: Duration = Duration::from_secs(30);

/// A hub under test.
#[derive(Debug)]
pub struct Hub {
    data: PathBuf,
    address: String,
    log: PathBuf,
    kubectl: Kubectl,
    network: Option<Arc<Network>>,
    process: Option<Process>,
}

impl Hub {
    /// Initialises a hub below `folder` and starts it.
    ///
    /// # Errors
    /// When init or serve fail.
    pub fn start_new(folder: &Path, kubectl_binary: &Path) -> Result<Self> {
        Self::start_in(folder, kubectl_binary, None)
    }

    /// [`Hub::start_new`] in a network of its own instead of on loopback.
    ///
    /// # Errors
    /// When init or serve fail.
    pub fn start_in(folder: &Path, kubectl_binary: &Path, network: Option<Arc<Network>>) -> Result<Self> {
        let host = network
            .as_ref()
            .map_or_else(|| "127.0.0.1".to_owned(), |network| network.inside());
        Self::begin(folder, kubectl_binary, &host, network)
    }

    /// [`Hub::start_new`] on another address of this machine than loopback.
    ///
    /// # Errors
    /// When init or serve fail.
    pub fn start_at(folder: &Path, kubectl_binary: &Path, host: &str) -> Result<Self> {
        Self::begin(folder, kubectl_binary, host, None)
    }

    fn begin(
        folder: &Path,
        kubectl_binary: &Path,
        host: &str,
        network: Option<Arc<Network>>,
    ) -> Result<Self> {
        let address = format!("{host}:{}", free_port()?);
        let data = folder.join("hub");
        let output = Command::new(binary("pinnace-hub")?)
            .args(["init", "--san", host, "--listen", &address, "--data"])
            .arg(&data)
            .output()?;
        ensure!(
            output.status.success(),
            "init: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let kubectl = Kubectl::new(
            kubectl_binary,
            &data.join("admin.kubeconfig"),
            &folder.join("kubectl-cache"),
        );
        let mut hub = Self {
            data,
            address,
            log: folder.join("hub.log"),
            kubectl,
            network,
            process: None,
        };
        hub.start(&[])?;
        Ok(hub)
    }

    /// Starts the hub and waits until it answers; `env` sets variables, for instance a crash point.
    ///
    /// # Errors
    /// When it does not answer in time.
    pub fn start(&mut self, env: &[(&str, &str)]) -> Result<()> {
        self.spawn(env)?;
        let kubectl = self.kubectl.clone();
        wait::until("the hub answers", READY, || {
            kubectl
                .run(&["get", "--raw", "/readyz"])
                .map(|_| ())
                .map_err(|error| error.to_string())
        })
        .with_context(|| format!("see {}", self.log.display()))
    }

    /// Its log.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Starts the hub without waiting.
    ///
    /// # Errors
    /// When it runs already or cannot be started.
    pub fn spawn(&mut self, env: &[(&str, &str)]) -> Result<()> {
        ensure!(self.process.is_none(), "the hub runs already");
        let program = binary("pinnace-hub")?;
        let mut command = match &self.network {
            Some(network) => network.command(&program),
            None => Command::new(program),
        };
        command
            .args(["serve", "--listen", &self.address, "--data"])
            .arg(&self.data)
            .envs(env.iter().copied());
        self.process = Some(Process::start(command, &self.log)?);
        Ok(())
    }

    /// Stops the hub in order.
    ///
    /// # Errors
    /// When it was not running or did not end well.
    pub fn stop(&mut self) -> Result<()> {
        self.process.take().context("the hub is not running")?.stop()
    }

    /// Kills the hub as by a power cut.
    ///
    /// # Errors
    /// When it was not running.
    pub fn kill(&mut self) -> Result<()> {
        self.process.take().context("the hub is not running")?.kill()
    }

    /// Waits until the hub has ended by itself (a crash point).
    ///
    /// # Errors
    /// When it still runs after `limit`.
    pub fn wait_end(&mut self, limit: Duration) -> Result<()> {
        let mut process = self.process.take().context("the hub is not running")?;
        process.wait_end(limit).map(|_| ())
    }

    /// Whether the process has ended by itself.
    ///
    /// # Errors
    /// When the operating system does not answer.
    pub fn has_ended(&mut self) -> Result<bool> {
        match &mut self.process {
            Some(process) => Ok(process.ended()?.is_some()),
            None => Ok(true),
        }
    }

    /// kubectl with the hub's admin kubeconfig.
    pub fn kubectl(&self) -> &Kubectl {
        &self.kubectl
    }

    /// Runs `pinnace` with the hub's admin kubeconfig and gives its output.
    ///
    /// # Errors
    /// When it exits with another code than 0.
    pub fn pinnace(&self, args: &[&str]) -> Result<String> {
        let output = Command::new(binary("pinnace")?)
            .arg("--kubeconfig")
            .arg(self.kubectl.kubeconfig())
            .args(args)
            .output()?;
        ensure!(
            output.status.success(),
            "pinnace {}: {}",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    /// The data directory.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// `HOST:PORT` of the one port.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The id of the process, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::pid)
    }
}

/// A loopback port that nothing listens on at the moment.
///
/// # Errors
/// When the operating system has none.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
