//! A site: one member control plane, the proxy in front of the hub, and the agent between them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use xtask::member::{Binary, Scoped};
use xtask::proxy::Line;

use super::hub::Hub;
use super::kubectl::Kubectl;
use super::process::{Process, binary};
use super::stranger::Stranger;

/// A member cluster with its agent.
#[derive(Debug)]
pub struct Site {
    name: String,
    member: Scoped,
    data: PathBuf,
    log: PathBuf,
    kubectl: Kubectl,
    agent: Option<Process>,
    join_line: Option<String>,
}

impl Site {
    /// Starts a whole control plane and enrols it with `hub` through its own proxy; the agent does not run yet.
    ///
    /// # Errors
    /// When the member does not come up or the join is refused.
    pub fn join(folder: &Path, name: &str, hub: &Hub, token_options: &[&str]) -> Result<Self> {
        Self::join_member(folder, name, name, hub, token_options)
    }

    /// The same for a cluster that is called `name` on the hub and `member` on this machine.
    ///
    /// # Errors
    /// As [`Site::join`].
    pub fn join_member(
        folder: &Path,
        member: &str,
        name: &str,
        hub: &Hub,
        token_options: &[&str],
    ) -> Result<Self> {
        let member = Scoped::up(member, 2)?;
        member.proxy().link(hub.address())?;
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder)?;
        let kubectl = Kubectl::new(
            &Binary::get()?.kubectl(),
            &member.kubeconfig(),
            &folder.join("kubectl-cache"),
        );
        let site = Self {
            name: name.into(),
            data: folder.join("agent"),
            log: folder.join("agent.log"),
            member,
            kubectl,
            agent: None,
            join_line: None,
        };
        let mut args = vec!["token", "create", name];
        args.extend(token_options);
        let line = hub.pinnace(&args)?;
        site.run_join_line(&line, &site.data, &site.member.kubeconfig(), &[])?;
        Ok(site)
    }

    /// Gets a token for a second agent, called `name`; [`Site::join_as`] uses it.
    ///
    /// # Errors
    /// When the hub gives no token.
    pub fn prepare_join(&mut self, name: &str, hub: &Hub) -> Result<()> {
        self.join_line = Some(hub.pinnace(&["token", "create", name])?);
        Ok(())
    }

    /// Joins the second agent with the line of [`Site::prepare_join`]; may be repeated. It is of another cluster, since a
    /// member has one name only.
    ///
    /// # Errors
    /// When the join is refused or not answered.
    pub fn join_as(&self, name: &str) -> Result<()> {
        let line = self.join_line.as_deref().context("no join line was asked for")?;
        let stranger = Stranger::start(&format!("uid-of-{name}"))?;
        let data = self.data.with_file_name(name);
        let kubeconfig = stranger.kubeconfig(data.parent().context("the data directory has no parent")?)?;
        self.run_join_line(line, &data, &kubeconfig, &["--timeout=15"])
    }

    /// Runs the printed join line as a person would, but through the proxy.
    fn run_join_line(&self, printed: &str, data: &Path, kubeconfig: &Path, more: &[&str]) -> Result<()> {
        let line = printed
            .lines()
            .find(|line| line.contains("pinnace-agent join"))
            .context("`pinnace token create` printed no join line")?;
        let mut words = line.split_whitespace().skip_while(|word| *word != "join");
        words.next();
        let mut arguments: Vec<String> = words.map(|word| word.trim_matches('\'').to_owned()).collect();
        let hub = arguments
            .iter()
            .position(|word| word == "--hub")
            .context("no --hub in the join line")?;
        arguments[hub + 1] = self.member.proxy_address();
        let output = Command::new(binary("pinnace-agent")?)
            .arg("join")
            .args(&arguments)
            .arg("--data")
            .arg(data)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(more)
            .output()?;
        ensure!(
            output.status.success(),
            "pinnace-agent join: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(())
    }

    /// Starts the agent; `env` sets variables, for instance a crash point.
    ///
    /// # Errors
    /// When it runs already or cannot be started.
    pub fn start_agent(&mut self, env: &[(&str, &str)]) -> Result<()> {
        ensure!(self.agent.is_none(), "the agent of {} runs already", self.name);
        let mut command = Command::new(binary("pinnace-agent")?);
        command
            .args(["run", "--data"])
            .arg(&self.data)
            .arg("--kubeconfig")
            .arg(self.member.kubeconfig())
            .envs(env.iter().copied());
        self.agent = Some(Process::start(command, &self.log)?);
        Ok(())
    }

    /// Kills the agent as by a power cut.
    ///
    /// # Errors
    /// When it was not running.
    pub fn kill_agent(&mut self) -> Result<()> {
        self.agent.take().context("the agent is not running")?.kill()
    }

    /// Stops the agent in order.
    ///
    /// # Errors
    /// When it was not running or did not end well.
    pub fn stop_agent(&mut self) -> Result<()> {
        self.agent.take().context("the agent is not running")?.stop()
    }

    /// Waits until the agent has ended by itself (a crash point).
    ///
    /// # Errors
    /// When it still runs after `limit`.
    pub fn wait_agent_end(&mut self, limit: Duration) -> Result<()> {
        let mut process = self.agent.take().context("the agent is not running")?;
        process.wait_end(limit).map(|_| ())
    }

    /// Cuts the link between agent and hub.
    ///
    /// # Errors
    /// When the proxy does not answer.
    pub fn cut(&self) -> Result<()> {
        self.member.proxy().set(Line::Cut).map(|_| ())
    }

    /// Heals the link.
    ///
    /// # Errors
    /// When the proxy does not answer.
    pub fn heal(&self) -> Result<()> {
        self.member.proxy().set(Line::Open).map(|_| ())
    }

    /// Bytes that the proxy has carried, both ways together.
    ///
    /// # Errors
    /// When the proxy does not answer.
    pub fn traffic(&self) -> Result<u64> {
        let status = self.member.proxy().status()?;
        Ok(status.up + status.down)
    }

    /// kubectl straight against the member: the truth.
    pub fn kubectl(&self) -> &Kubectl {
        &self.kubectl
    }

    /// Name of the cluster.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The agent's data directory.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Whether an agent was started and not stopped.
    pub fn has_agent(&self) -> bool {
        self.agent.is_some()
    }

    /// The agent's process id while it runs.
    pub fn agent_pid(&self) -> Option<u32> {
        self.agent.as_ref().map(Process::pid)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // The agent goes before its member.
        drop(self.agent.take());
    }
}
