//! The demo's processes: a hub, three members, three agents, each agent behind its member's proxy.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use xtask::kubectl::Kubectl;
use xtask::member::Member;
use xtask::process::{self, Process};
use xtask::wait::{self, Look};
use xtask::{ports, workspace};

/// The clusters; labels, so that policies can be tried out.
pub(super) const CLUSTERS: [&str; 3] = ["shop", "plant", "ship"];

/// Nodes of each cluster.
const NODES: u32 = 2;

/// A part comes up within this on a busy machine.
const READY: Duration = Duration::from_secs(60);

/// What is written down, so that `demo down` finds it.
#[derive(Default, Serialize, Deserialize)]
struct State {
    /// Hub and agents.
    processes: Vec<Process>,
    /// Members that the demo started.
    members: Vec<String>,
}

/// The demo on this machine.
pub(super) struct Fleet {
    folder: PathBuf,
    state: State,
    address: String,
}

impl Fleet {
    /// A new one; what an earlier one left is removed.
    pub(super) fn new() -> Result<Fleet> {
        down()?;
        let folder = folder()?;
        std::fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        for name in CLUSTERS {
            if Member::find(name)?.is_some() {
                bail!(
                    "a member {name} is there already: `cargo xtask member down {name}`, or is it still needed?"
                );
            }
        }
        let address = format!("127.0.0.1:{}", ports::free(1)?.first().context("no free port")?);
        let fleet = Fleet {
            folder,
            state: State::default(),
            address,
        };
        fleet.save()?;
        Ok(fleet)
    }

    /// Makes a hub and starts it.
    pub(super) fn start_hub(&mut self) -> Result<()> {
        let data = self.folder.join("hub");
        process::output(
            Command::new(workspace::binary("pinnace-hub")?)
                .args(["init", "--san=127.0.0.1"])
                .arg(format!("--listen={}", self.address))
                .arg("--data")
                .arg(&data),
        )?;
        let mut command = Command::new(workspace::binary("pinnace-hub")?);
        command
            .arg("serve")
            .arg(format!("--listen={}", self.address))
            .arg("--data")
            .arg(&data);
        let hub = self.start("hub", command)?;
        let kubectl = self.hub();
        wait::until("the hub to answer", READY, || {
            if !hub.alive() {
                bail!("the hub ended; see {}", self.folder.join("hub.log").display());
            }
            Ok(match kubectl.run(&["get", "--raw", "/readyz"]) {
                Ok(_) => Look::There(()),
                Err(error) => Look::NotYet(error.to_string()),
            })
        })
    }

    /// Starts all members, side by side.
    pub(super) fn start_members(&mut self) -> Result<()> {
        // Written down before they start: a demo that is broken off is taken down whole.
        self.state.members = CLUSTERS.map(str::to_owned).to_vec();
        self.save()?;
        std::thread::scope(|scope| {
            let starting = CLUSTERS.map(|name| scope.spawn(move || Member::up(name, NODES)));
            for thread in starting {
                thread
                    .join()
                    .map_err(|_| anyhow::anyhow!("the start of a member panicked"))??;
            }
            Ok(())
        })
    }

    /// Enrols the agent of a member with a token and starts it. It dials the proxy, not the hub.
    pub(super) fn start_agent(&mut self, name: &str) -> Result<()> {
        let member = Member::running(name)?;
        member.proxy().link(&self.address)?;
        let line = self.pinnace(&["token", "create", name, "--hub", &member.proxy_address()])?;
        let mut words = line.split_whitespace().skip_while(|word| *word != "join");
        let join: Vec<&str> = words.by_ref().map(|word| word.trim_matches('\'')).collect();
        if join.is_empty() {
            bail!("`pinnace token create` printed no join line: {line}");
        }
        let program = workspace::binary("pinnace-agent")?;
        let own = |command: &mut Command| {
            command
                .arg("--data")
                .arg(self.folder.join(name))
                .arg("--kubeconfig")
                .arg(member.kubeconfig());
        };
        let mut command = Command::new(&program);
        command.args(join);
        own(&mut command);
        process::output(&mut command)?;
        let mut command = Command::new(&program);
        command.arg("run");
        own(&mut command);
        self.start(name, command)?;
        Ok(())
    }

    /// kubectl on the hub.
    pub(super) fn hub(&self) -> Kubectl {
        Kubectl::new(&self.kubeconfig(), &self.folder.join("kubectl-cache"))
    }

    /// The hub's kubeconfig.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("hub/admin.kubeconfig")
    }

    /// `pinnace` on the hub.
    pub(super) fn pinnace(&self, arguments: &[&str]) -> Result<String> {
        process::output(
            Command::new(workspace::binary("pinnace")?)
                .arg("--kubeconfig")
                .arg(self.kubeconfig())
                .args(arguments),
        )
    }

    /// Writes a file into the demo's folder and applies it on the hub.
    pub(super) fn apply(&self, name: &str, manifests: &str) -> Result<String> {
        let file = self.folder.join(name);
        std::fs::write(&file, manifests).with_context(|| format!("{} cannot be written", file.display()))?;
        self.hub().run(&["apply", "-f", &file.to_string_lossy()])
    }

    fn start(&mut self, name: &str, mut command: Command) -> Result<Process> {
        let process = Process::start(name, &mut command, &self.folder.join(format!("{name}.log")))?;
        self.state.processes.push(process.clone());
        self.save()?;
        Ok(process)
    }

    fn save(&self) -> Result<()> {
        let file = self.folder.join("state.json");
        std::fs::write(&file, serde_json::to_vec_pretty(&self.state)?)
            .with_context(|| format!("{} cannot be written", file.display()))
    }
}

fn folder() -> Result<PathBuf> {
    Ok(workspace::target()?.join("demo"))
}

/// Stops agents and hub, takes the members down and removes all files. Says whether there was anything.
pub(super) fn down() -> Result<bool> {
    let folder = folder()?;
    if !folder.exists() {
        return Ok(false);
    }
    let file = folder.join("state.json");
    if file.exists() {
        let text = std::fs::read(&file).with_context(|| format!("{} cannot be read", file.display()))?;
        let state: State =
            serde_json::from_slice(&text).with_context(|| format!("{} is damaged", file.display()))?;
        for process in state.processes.iter().rev() {
            process.stop()?;
        }
        for name in &state.members {
            if let Some(member) = Member::find(name)? {
                member.down()?;
            }
        }
    }
    std::fs::remove_dir_all(&folder).with_context(|| format!("{} cannot be removed", folder.display()))?;
    Ok(true)
}
