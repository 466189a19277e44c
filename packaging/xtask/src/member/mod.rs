//! A *member*: a whole Kubernetes cluster on loopback, with nodes that kwok plays and a proxy that an agent dials
//! through. Ready in seconds, several side by side, gone without a trace after `down`.

mod binary;
mod components;
mod node;
mod shape;
mod state;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

pub use binary::{Binary, kubernetes_sources};
pub use node::RealNode;
pub use shape::Shape;
pub use state::{Ports, State};

use crate::kubectl::Kubectl;
use crate::limits::{MEMBER_READY, MEMBERS, NODES};
use crate::process::{self, Process};
use crate::proxy::Remote;
use crate::wait::{self, Look};
use crate::{ports, workspace};

/// A member that was started, by this process or another.
#[derive(Debug, Clone)]
pub struct Member {
    name: String,
    directory: PathBuf,
    state: State,
}

/// Where a member of some name goes.
enum Place {
    /// It is there and runs.
    Running(Member),
    /// An empty directory.
    Free(PathBuf),
}

/// How a member stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// All processes run.
    Up,
    /// Some processes run, or it never became ready.
    Broken,
    /// None runs: it crashed, or the machine was restarted.
    Stale,
}

impl Member {
    /// Starts a member with `nodes` nodes and waits until it can be used. A running one of this name is taken as it
    /// is; what a broken or stale one left is removed first.
    ///
    /// # Errors
    /// When the binary cannot be built or a process does not come up; the message names its log. What was started is
    /// stopped, the logs stay until the next `up` or `down`.
    pub fn up(name: &str, nodes: u32) -> Result<Member> {
        Member::up_shaped(name, nodes, None)
    }

    /// [`Member::up`] with nodes of another shape than the usual one.
    ///
    /// # Errors
    /// As [`Member::up`].
    pub fn up_shaped(name: &str, nodes: u32, shape: Option<&Shape>) -> Result<Member> {
        Member::bring(name, nodes, shape, false)
    }

    fn bring(name: &str, nodes: u32, shape: Option<&Shape>, real: bool) -> Result<Member> {
        if nodes > NODES {
            bail!("{nodes} nodes are more than a member may have ({NODES})");
        }
        let binary = Binary::get()?;
        let ports = pick_ports()?;
        let mut member = match Member::place(name)? {
            Place::Running(member) => return Ok(member),
            Place::Free(directory) => Member {
                name: name.to_owned(),
                directory,
                state: State {
                    real: real.then(|| RealNode::of(ports.api)),
                    ports,
                    nodes: if real { 1 } else { nodes },
                    existing: false,
                    processes: Vec::new(),
                    ready: false,
                },
            },
        };
        if let Err(error) = member.bring_up(&binary, shape) {
            member.stop()?;
            return Err(error.context(format!(
                "member {name} did not come up; its logs are in {}",
                member.directory.display()
            )));
        }
        Ok(member)
    }

    /// Takes a cluster that is there already, by its kubeconfig: only the proxy of a member is started for it, and
    /// `down` leaves the cluster as it is.
    ///
    /// # Errors
    /// When the kubeconfig cannot be read or its cluster does not answer.
    pub fn take(name: &str, kubeconfig: &Path) -> Result<Member> {
        let mut member = match Member::place(name)? {
            Place::Running(member) => return Ok(member),
            Place::Free(directory) => Member {
                name: name.to_owned(),
                directory,
                state: State {
                    ports: pick_ports()?,
                    nodes: 0,
                    existing: true,
                    real: None,
                    processes: Vec::new(),
                    ready: false,
                },
            },
        };
        std::fs::copy(kubeconfig, member.kubeconfig())
            .with_context(|| format!("the kubeconfig {} cannot be read", kubeconfig.display()))?;
        state::write(&member.directory, &member.state)?;
        let nodes = member
            .kubectl(&["get", "nodes", "-o", "name"])
            .context("the cluster of the kubeconfig does not answer")?;
        member.state.nodes = u32::try_from(nodes.lines().count()).unwrap_or(u32::MAX);
        let proxy = member.proxy_command()?;
        member.start("proxy", proxy)?;
        let listening = member.wait_listening("proxy", member.state.ports.control);
        if let Err(error) = listening {
            member.stop()?;
            return Err(error);
        }
        member.state.ready = true;
        state::write(&member.directory, &member.state)?;
        Ok(member)
    }

    /// Room for a member of this name: what a broken or stale one left is removed.
    fn place(name: &str) -> Result<Place> {
        let directory = state::directory(name)?;
        if let Some(member) = Member::find(name)? {
            if member.health() == Health::Up {
                return Ok(Place::Running(member));
            }
            eprintln!(
                "{name}: removing what a {} member of this name left",
                member.health().word()
            );
            member.down()?;
        }
        if Member::list()?.len() >= MEMBERS {
            bail!("{MEMBERS} members are there already: take one down first");
        }
        if directory.exists() {
            std::fs::remove_dir_all(&directory)
                .with_context(|| format!("{} cannot be removed", directory.display()))?;
        }
        std::fs::create_dir_all(&directory)
            .with_context(|| format!("{} cannot be made", directory.display()))?;
        Ok(Place::Free(directory))
    }

    /// Stops the processes of the control plane where they are, as a machine that hangs: connections stay, nothing
    /// answers.
    ///
    /// # Errors
    /// When a process cannot be told, or the cluster is not ours to stop.
    pub fn pause(&self) -> Result<()> {
        self.tell("STOP")
    }

    /// Lets them go on.
    ///
    /// # Errors
    /// As [`Member::pause`].
    pub fn resume(&self) -> Result<()> {
        self.tell("CONT")
    }

    fn tell(&self, signal: &str) -> Result<()> {
        if self.state.existing {
            bail!(
                "{} is a cluster that was there before: its processes are not ours",
                self.name
            );
        }
        let mut all = self
            .state
            .processes
            .iter()
            .filter(|process| process.name != "proxy");
        all.try_for_each(|process| process.signal(signal))
    }

    /// The member of this name, if there is one, running or not.
    ///
    /// # Errors
    /// When the name is none or its state cannot be read.
    pub fn find(name: &str) -> Result<Option<Member>> {
        let directory = state::directory(name)?;
        Ok(state::read(&directory)?.map(|state| Member {
            name: name.to_owned(),
            directory,
            state,
        }))
    }

    /// The running member of this name.
    ///
    /// # Errors
    /// When there is none or it does not run whole.
    pub fn running(name: &str) -> Result<Member> {
        match Member::find(name)? {
            Some(member) if member.health() == Health::Up => Ok(member),
            Some(member) => {
                bail!(
                    "member {name} is {}: `cargo xtask member up {name}` makes it anew",
                    member.health().word()
                )
            }
            None => bail!("there is no member {name}: `cargo xtask member up {name}` makes it"),
        }
    }

    /// All members, running or not, by name.
    ///
    /// # Errors
    /// When the directory or a state cannot be read.
    pub fn list() -> Result<Vec<Member>> {
        let directory = state::members()?;
        let mut names = Vec::new();
        if directory.exists() {
            for entry in std::fs::read_dir(&directory).context("the members' directory cannot be read")? {
                names.push(
                    entry
                        .context("the members' directory cannot be read")?
                        .file_name(),
                );
            }
        }
        names.sort();
        let mut members = Vec::new();
        for name in names {
            if let Some(member) = Member::find(&name.to_string_lossy())? {
                members.push(member);
            }
        }
        Ok(members)
    }

    /// Stops its processes, the API server before etcd, and removes its files.
    ///
    /// # Errors
    /// When a process cannot be stopped or a file not removed.
    pub fn down(&self) -> Result<()> {
        self.stop()?;
        std::fs::remove_dir_all(&self.directory)
            .with_context(|| format!("{} cannot be removed", self.directory.display()))
    }

    /// How it stands.
    pub fn health(&self) -> Health {
        let alive = self
            .state
            .processes
            .iter()
            .filter(|process| process.alive())
            .count();
        match alive {
            0 => Health::Stale,
            all if all == self.state.processes.len() && self.state.ready => Health::Up,
            _ => Health::Broken,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its directory: logs, keys, data.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What is written down about it.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// Resident memory of all its processes in bytes.
    pub fn resident(&self) -> u64 {
        self.state.processes.iter().map(Process::resident).sum()
    }

    /// The proxy between an agent and the hub.
    pub fn proxy(&self) -> Remote {
        Remote {
            control: self.state.ports.control,
        }
    }

    /// The address an agent dials to reach the hub through the proxy.
    pub fn proxy_address(&self) -> String {
        format!("127.0.0.1:{}", self.state.ports.proxy)
    }

    /// One of its processes by name (`etcd`, `kube-apiserver`, ...), to be killed in a test.
    pub fn process(&self, name: &str) -> Option<&Process> {
        self.state.processes.iter().find(|process| process.name == name)
    }

    /// Runs kubectl as administrator and gives back what it printed.
    ///
    /// # Errors
    /// When kubectl fails; the message holds what it said.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        Kubectl::new(&self.kubeconfig(), &self.directory.join("kubectl-cache")).run(arguments)
    }

    fn bring_up(&mut self, binary: &Binary, shape: Option<&Shape>) -> Result<()> {
        state::write(&self.directory, &self.state)?;
        let member = binary.member();
        let stages = process::output(Command::new(&member).arg("stages"))?;
        std::fs::write(self.directory.join("stages.yaml"), stages).context("the stages cannot be written")?;
        process::output(
            Command::new(&member)
                .arg("pki")
                .arg(&self.directory)
                .arg(format!("https://127.0.0.1:{}", self.state.ports.api)),
        )?;
        let proxy = self.proxy_command()?;
        self.start("proxy", proxy)?;
        let (directory, ports) = (self.directory.clone(), self.state.ports.clone());
        let real = self.state.real.clone();
        let mut apiserver = components::apiserver(&member, &directory, &ports);
        if real.is_some() {
            node::split_kubeconfig(&directory)?;
            apiserver.args(node::apiserver_arguments(&directory));
        }
        self.start("etcd", components::etcd(&member, &directory, &ports))?;
        self.start("kube-apiserver", apiserver)?;
        // On a busy machine the others give up on an API server that needs longer than they wait.
        self.wait_listening("kube-apiserver", ports.api)?;
        self.wait_healthy()?;
        self.start(
            "kube-controller-manager",
            components::controllers(&member, &directory, &ports),
        )?;
        self.start(
            "kube-scheduler",
            components::scheduler(&member, &directory, &ports),
        )?;
        self.start("kwok", components::kwok(&member, &directory, &ports))?;
        let simulated = shape.is_none() && real.is_none();
        self.bootstrap(&member, if simulated { self.state.nodes } else { 0 })?;
        if let Some(shape) = shape {
            self.make_nodes(shape)?;
        }
        if let Some(node) = &real {
            node::start(self, node)?;
        }
        self.all_alive()?;
        self.wait_listening("proxy", ports.control)?;
        self.state.ready = true;
        state::write(&self.directory, &self.state)
    }

    /// Starts one process; it is written down before the next one is started.
    fn start(&mut self, name: &str, mut command: Command) -> Result<()> {
        let log = self.directory.join(format!("{name}.log"));
        self.state
            .processes
            .push(Process::start(name, &mut command, &log)?);
        state::write(&self.directory, &self.state)
    }

    /// The proxy is this program again; a test finds it where cargo puts it.
    fn proxy_command(&self) -> Result<Command> {
        let own = std::env::current_exe().context("this program does not know its own file")?;
        let program = if own.file_name().is_some_and(|name| name == "xtask") {
            own
        } else {
            workspace::binary("xtask")?
        };
        if !program.exists() {
            bail!("{} is not built: `cargo build -p xtask`", program.display());
        }
        let mut command = Command::new(program);
        command
            .arg("member-proxy")
            .arg(format!("--port={}", self.state.ports.proxy))
            .arg(format!("--control={}", self.state.ports.control));
        Ok(command)
    }

    fn wait_healthy(&self) -> Result<()> {
        wait::until("the API server to be healthy", MEMBER_READY, || {
            self.all_alive()?;
            Ok(match self.kubectl(&["get", "--raw", "/healthz"]) {
                Ok(_) => Look::There(()),
                Err(error) => Look::NotYet(format!("{error:#}")),
            })
        })
    }

    /// Makes nodes and waits for all that a user counts on, but not longer than all processes run.
    fn bootstrap(&self, member: &Path, nodes: u32) -> Result<()> {
        let mut child = Command::new(member)
            .arg("bootstrap")
            .arg(format!("-kubeconfig={}", self.kubeconfig().display()))
            .arg(format!("-nodes={nodes}"))
            .arg(format!("-timeout={}s", MEMBER_READY.as_secs()))
            .stdin(Stdio::null())
            .spawn()
            .context("the bootstrap of the member cannot be started")?;
        let ended = wait::until("the nodes to be ready", MEMBER_READY, || {
            self.all_alive()?;
            let ended = child.try_wait().context("the bootstrap cannot be waited for")?;
            Ok(ended.map_or_else(|| Look::NotYet("bootstrap runs".into()), Look::There))
        });
        if ended.is_err() {
            child.kill().context("the bootstrap cannot be stopped")?;
            child.wait().context("the bootstrap cannot be waited for")?;
        }
        let ended = ended?;
        if !ended.success() {
            bail!("the cluster did not become ready; what was missing is said above");
        }
        Ok(())
    }

    /// Nodes of a shape, made by kubectl, and their readiness.
    fn make_nodes(&self, shape: &Shape) -> Result<()> {
        let nodes: Vec<String> = (1..=self.state.nodes)
            .map(|number| shape.node(number).to_string())
            .collect();
        if nodes.is_empty() {
            return Ok(());
        }
        let file = self.directory.join("nodes.json");
        std::fs::write(&file, nodes.join("\n")).context("the nodes cannot be written")?;
        self.kubectl(&["create", "-f", &file.to_string_lossy()])?;
        let patience = format!("--timeout={}s", MEMBER_READY.as_secs());
        self.kubectl(&["wait", "--for=condition=Ready", "nodes", "--all", &patience])?;
        Ok(())
    }

    fn wait_listening(&self, name: &str, port: u16) -> Result<()> {
        wait::until(&format!("{name} to listen on port {port}"), MEMBER_READY, || {
            self.all_alive()?;
            Ok(
                match std::net::TcpStream::connect((std::net::Ipv4Addr::LOCALHOST, port)) {
                    Ok(_) => Look::There(()),
                    Err(error) => Look::NotYet(error.to_string()),
                },
            )
        })
    }

    fn all_alive(&self) -> Result<()> {
        match self.state.processes.iter().find(|process| !process.alive()) {
            None => Ok(()),
            Some(process) => {
                let log = self.directory.join(format!("{}.log", process.name));
                let text = std::fs::read_to_string(&log).unwrap_or_default();
                let last: Vec<&str> = text.lines().rev().take(5).collect();
                bail!(
                    "{} ended; the last lines of its log:\n{}",
                    process.name,
                    last.into_iter().rev().collect::<Vec<_>>().join("\n")
                )
            }
        }
    }

    /// Those that use the API first, then the API server, etcd, and the proxy: an API server whose etcd is gone does
    /// not end when asked.
    fn stop(&self) -> Result<()> {
        // A paused process takes no order.
        for process in &self.state.processes {
            process.signal("CONT")?;
        }
        if let Some(real) = &self.state.real {
            node::stop(&self.state.processes)?;
            node::clear(real, &self.directory)?;
        }
        let order = [
            "kwok",
            "kube-scheduler",
            "kube-controller-manager",
            "kube-apiserver",
            "etcd",
            "proxy",
        ];
        // What only reads is asked first and waited for together.
        for name in &order[..3] {
            if let Some(process) = self.process(name) {
                process.signal("TERM")?;
            }
        }
        for name in order {
            if let Some(process) = self.process(name) {
                process.stop()?;
            }
        }
        Ok(())
    }
}

impl Health {
    /// A word for people.
    pub fn word(self) -> &'static str {
        match self {
            Health::Up => "up",
            Health::Broken => "broken",
            Health::Stale => "stale",
        }
    }
}

/// A member that is taken down when it goes out of scope, also when the test that holds it fails.
#[derive(Debug)]
pub struct Scoped(Member);

impl Scoped {
    /// See [`Member::up`].
    ///
    /// # Errors
    /// As [`Member::up`].
    pub fn up(name: &str, nodes: u32) -> Result<Scoped> {
        Ok(Scoped(Member::up(name, nodes)?))
    }
}

impl Scoped {
    /// See [`Member::up_real`].
    ///
    /// # Errors
    /// As [`Member::up_real`].
    pub fn up_real(name: &str) -> Result<Scoped> {
        Ok(Scoped(Member::up_real(name)?))
    }
}

impl std::ops::Deref for Scoped {
    type Target = Member;

    fn deref(&self) -> &Member {
        &self.0
    }
}

impl Drop for Scoped {
    fn drop(&mut self) {
        if let Err(error) = self.0.down() {
            eprintln!("member {} could not be taken down: {error:#}", self.0.name);
        }
    }
}

fn pick_ports() -> Result<Ports> {
    let ports = ports::free(8)?;
    let [etcd, etcd_peer, api, controllers, scheduler, kwok, proxy, control] = ports[..] else {
        bail!("ports are missing");
    };
    Ok(Ports {
        etcd,
        etcd_peer,
        api,
        controllers,
        scheduler,
        kwok,
        proxy,
        control,
    })
}
