//! `cargo xtask member`.

use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use xtask::member::{Health, Member, Shape};
use xtask::proxy::{self, Line, Proxy};

/// Options of `member`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Starts a cluster and waits until it can be used. Needs about 700 MB of memory.
    Up {
        /// Name of the cluster.
        name: String,
        /// Nodes; each has 8 CPUs, 32 GiB and room for 110 pods.
        #[arg(long, default_value_t = 2)]
        nodes: u32,
        /// What each node offers instead: cpu=8,memory=16Gi,nvidia.com/gpu=2
        #[arg(long, conflicts_with = "existing")]
        node_shape: Option<Shape>,
        /// Start nothing: take the cluster that the variable KUBECONFIG names.
        #[arg(long)]
        existing: bool,
        /// One real node instead: kubelet, containerd and runc, so that pods are processes. Needs root.
        #[arg(long, conflicts_with_all = ["existing", "node_shape", "nodes"])]
        real_node: bool,
    },
    /// Stops the control plane where it is, as a machine that hangs.
    Pause {
        /// Name of the cluster.
        name: String,
    },
    /// Lets a paused control plane go on.
    Resume {
        /// Name of the cluster.
        name: String,
    },
    /// Makes the line between agent and hub slow: every byte is this long on its way, each way. 0 heals it.
    Delay {
        /// Name of the cluster.
        name: String,
        /// Milliseconds.
        millis: u64,
    },
    /// Makes the line between agent and hub narrow. 0 heals it.
    Throttle {
        /// Name of the cluster.
        name: String,
        /// Bytes a second, in each direction of a connection.
        bytes_per_second: u64,
    },
    /// Stops a cluster and removes all that belongs to it.
    #[command(group = clap::ArgGroup::new("which").required(true))]
    Down {
        /// Name of the cluster.
        #[arg(group = "which")]
        name: Option<String>,
        /// All clusters.
        #[arg(long, group = "which")]
        all: bool,
    },
    /// Lists the clusters with state, memory, and what their line to the hub does.
    List,
    /// Prints the path of an administrator's kubeconfig.
    Kubeconfig {
        /// Name of the cluster.
        name: String,
    },
    /// Runs kubectl as administrator of a cluster.
    Kubectl {
        /// Name of the cluster.
        name: String,
        /// Arguments of kubectl.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Tells the proxy of a cluster where the hub is and prints the address that the agent dials instead.
    Link {
        /// Name of the cluster.
        name: String,
        /// Where the hub listens, HOST:PORT.
        #[arg(long)]
        hub: String,
    },
    /// Cuts the line between agent and hub: connections are closed, new ones are closed at once.
    Cut {
        /// Name of the cluster.
        name: String,
        /// Tell nobody: connections stay and no byte passes.
        #[arg(long)]
        silent: bool,
    },
    /// Heals the line.
    Heal {
        /// Name of the cluster.
        name: String,
    },
}

/// Options of the proxy process.
#[derive(clap::Args)]
pub(crate) struct ProxyArgs {
    /// Port the agent dials.
    #[arg(long)]
    port: u16,
    /// Port for orders.
    #[arg(long)]
    control: u16,
}

/// Carries out one of the orders about members.
pub(crate) fn run(args: Args) -> Result<()> {
    match args.what {
        What::Up {
            name,
            nodes,
            node_shape,
            existing,
            real_node,
        } => up(&name, nodes, node_shape.as_ref(), existing, real_node),
        What::Pause { name } => {
            find(&name)?.pause()?;
            println!("{name} hangs; `cargo xtask member resume {name}` lets it go on");
            Ok(())
        }
        What::Resume { name } => {
            find(&name)?.resume()?;
            println!("{name} goes on");
            Ok(())
        }
        What::Delay { name, millis } => {
            let delay = std::time::Duration::from_millis(millis);
            find(&name)?.proxy().delay(delay)?;
            println!("the line of {name} takes {millis} ms each way");
            Ok(())
        }
        What::Throttle {
            name,
            bytes_per_second,
        } => {
            find(&name)?.proxy().throttle(bytes_per_second)?;
            println!("the line of {name} passes {bytes_per_second} B/s (0: no limit)");
            Ok(())
        }
        What::Down { name: Some(name), .. } => match Member::find(&name)? {
            Some(member) => down(&member),
            None => bail!("there is no member {name}"),
        },
        What::Down { name: None, .. } => Member::list()?.iter().try_for_each(down),
        What::List => list(),
        What::Kubeconfig { name } => {
            println!("{}", Member::running(&name)?.kubeconfig().display());
            Ok(())
        }
        What::Kubectl { name, arguments } => {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            print!("{}", Member::running(&name)?.kubectl(&arguments)?);
            Ok(())
        }
        What::Link { name, hub } => {
            let member = Member::running(&name)?;
            member.proxy().link(&hub)?;
            println!("{}", member.proxy_address());
            Ok(())
        }
        What::Cut { name, silent } => set(&name, if silent { Line::Silent } else { Line::Cut }),
        What::Heal { name } => set(&name, Line::Open),
    }
}

/// Runs the proxy until it is killed.
pub(crate) fn run_proxy(args: &ProxyArgs) -> Result<()> {
    proxy::serve(&Proxy::start(args.port, None)?, args.control)
}

/// A member by name, also a paused one.
fn find(name: &str) -> Result<Member> {
    Member::find(name)?.with_context(|| format!("there is no member {name}"))
}

fn up(name: &str, nodes: u32, shape: Option<&Shape>, existing: bool, real_node: bool) -> Result<()> {
    let start = Instant::now();
    let member = if existing {
        let path =
            std::env::var_os("KUBECONFIG").context("--existing takes the cluster that KUBECONFIG names")?;
        Member::take(name, std::path::Path::new(&path))?
    } else if real_node {
        Member::up_real(name)?
    } else {
        Member::up_shaped(name, nodes, shape)?
    };
    println!(
        "{name} is up after {:.1} s with {} nodes; export KUBECONFIG={}",
        start.elapsed().as_secs_f32(),
        member.state().nodes,
        member.kubeconfig().display()
    );
    Ok(())
}

fn down(member: &Member) -> Result<()> {
    member.down()?;
    println!("{} is down", member.name());
    Ok(())
}

fn set(name: &str, line: Line) -> Result<()> {
    let state = Member::running(name)?.proxy().set(line)?;
    println!("the line of {name} is {}", word(line));
    if state.target.is_none() {
        eprintln!(
            "no agent uses this line: it leads to no hub. Let the agent of {name} join with --hub \
             $(cargo xtask member link {name} --hub HOST:PORT)"
        );
    }
    Ok(())
}

fn word(line: Line) -> &'static str {
    match line {
        Line::Open => "open",
        Line::Cut => "cut",
        Line::Silent => "silent",
    }
}

fn list() -> Result<()> {
    let members = Member::list()?;
    if members.is_empty() {
        println!("no members; `cargo xtask member up NAME` starts one");
        return Ok(());
    }
    println!(
        "{:<16} {:<7} {:>5} {:>7}  {:<22} {:<16} LINE TO THE HUB",
        "NAME", "STATE", "NODES", "MEMORY", "API", "PROXY"
    );
    for member in members {
        let health = member.health();
        let line = if health == Health::Up {
            let status = member.proxy().status()?;
            let target = status
                .target
                .map_or_else(|| "no hub".to_owned(), |target| target.to_string());
            let (up, down) = (status.up, status.down);
            format!(
                "{} to {target}, {} connections, {up} B up, {down} B down",
                word(status.line),
                status.connections
            )
        } else {
            String::new()
        };
        println!(
            "{:<16} {:<7} {:>5} {:>4} MB  {:<22} {:<16} {line}",
            member.name(),
            health.word(),
            member.state().nodes,
            member.resident() / 1_000_000,
            format!("https://127.0.0.1:{}", member.state().ports.api),
            member.proxy_address(),
        );
    }
    Ok(())
}
