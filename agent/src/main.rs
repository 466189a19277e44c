//! `pinnace-agent`: command line.

#![forbid(unsafe_code)]

use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use agent::guard::Source;
use agent_core::guard::{Guard, OWN_NAMESPACE};
use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand};
use shared::ids::ClusterName;
use shared::join::{JoinLine, Token, check_address};
use shared::keys::RootPin;

/// Keeps one cluster as its Pinnace hub says.
#[derive(Parser)]
#[command(name = "pinnace-agent", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Enrol this cluster with the line that `pinnace token create` printed, then exit.
    Join(JoinArgs),
    /// Run: keep the cluster as the last accepted set says, with or without the hub.
    Run(RunArgs),
    /// Show what the ledger holds; works without hub and member.
    Status {
        /// Data directory.
        #[arg(long)]
        data: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Say all that is known about one object; works without hub and member.
    Why {
        /// KIND[.GROUP] [NAMESPACE/]NAME, for example: Deployment.apps shop/web
        #[arg(required = true, num_args = 2)]
        object: Vec<String>,
        /// Data directory.
        #[arg(long)]
        data: PathBuf,
        #[command(flatten)]
        guard: GuardArgs,
    },
    /// Look at everything the agent lives by and say what is wrong.
    Doctor {
        /// Data directory.
        #[arg(long)]
        data: PathBuf,
        /// Kubeconfig instead of the one given to `join`.
        #[arg(long)]
        kubeconfig: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        guard: GuardArgs,
    },
    /// Let go of this cluster: our marks come off, the workloads stay.
    Leave {
        /// Data directory.
        #[arg(long)]
        data: PathBuf,
        /// Kubeconfig instead of the one given to `join`.
        #[arg(long)]
        kubeconfig: Option<PathBuf>,
        /// Delete what the fleet created here; what was there before stays in any case.
        #[arg(long)]
        delete_workloads: bool,
        #[command(flatten)]
        guard: GuardArgs,
    },
    /// Accept the cluster behind the kubeconfig although it is another one than the one enrolled.
    Rebind {
        /// Data directory.
        #[arg(long)]
        data: PathBuf,
        /// Kubeconfig to use from now on instead of the one given to `join`.
        #[arg(long)]
        kubeconfig: Option<PathBuf>,
    },
    /// Take a set that came in a file (`pinnace cluster export`); the agent must be stopped. Verified as from the wire.
    Import {
        /// The file.
        file: PathBuf,
        /// Data directory.
        #[arg(long)]
        data: PathBuf,
    },
    /// Write a signed receipt to carry back to the hub: which set is held, and what came of it. Works beside a running agent.
    Export {
        /// The file to write.
        file: PathBuf,
        /// Data directory.
        #[arg(long)]
        data: PathBuf,
    },
    /// Print the least RBAC under which the agent can do what the site's guard allows.
    Rbac(RbacArgs),
    /// Print the names of the places where a test may kill the agent.
    #[command(hide = true)]
    CrashPoints,
}

#[derive(Args)]
struct JoinArgs {
    /// Address of the hub, HOST:PORT.
    #[arg(long)]
    hub: String,
    /// Name of this cluster.
    #[arg(long)]
    cluster: ClusterName,
    /// SHA-256 of the hub's root key.
    #[arg(long)]
    root: String,
    /// The token; better in a file, as command lines are visible to other users.
    #[arg(
        long,
        conflicts_with = "token_file",
        required_unless_present = "token_file",
        allow_hyphen_values = true
    )]
    token: Option<String>,
    /// File with the token; `-` is standard input.
    #[arg(long)]
    token_file: Option<PathBuf>,
    /// Data directory; made if it is not there.
    #[arg(long)]
    data: PathBuf,
    /// Kubeconfig of this cluster; without it, the service account of the pod.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Give up after this many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = agent::limits::JOIN_WITHIN.as_secs())]
    timeout: u64,
    #[command(flatten)]
    replica: ReplicaArgs,
    #[command(flatten)]
    route: RouteArgs,
}

#[derive(Args)]
struct ReplicaArgs {
    /// This is one of several agents of the cluster that lead in turn; they share what they must not forget in Secrets.
    #[arg(long)]
    replicated: bool,
    /// Namespace of the lease and of those Secrets; the pod's own, else pinnace-agent.
    #[arg(long, requires = "replicated")]
    namespace: Option<String>,
}

impl ReplicaArgs {
    fn namespace(&self) -> Option<String> {
        let own = || agent::guard::pod_namespace().unwrap_or_else(|| OWN_NAMESPACE.to_owned());
        self.replicated
            .then(|| self.namespace.clone().unwrap_or_else(own))
    }
}

#[derive(Args)]
struct RunArgs {
    /// Data directory.
    #[arg(long)]
    data: PathBuf,
    /// Kubeconfig instead of the one given to `join`.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Address of the hub instead of the one of the join line.
    #[arg(long)]
    hub: Option<String>,
    #[command(flatten)]
    replica: ReplicaArgs,
    /// Name of this agent among those that lead in turn, for people who look at the lease: its node or machine.
    #[arg(
        long,
        env = "PINNACE_REPLICA",
        requires = "replicated",
        default_value = "agent"
    )]
    replica_name: String,
    #[command(flatten)]
    guard: GuardArgs,
    #[command(flatten)]
    route: RouteArgs,
}

#[derive(Args)]
struct GuardArgs {
    /// File with the site's guard; it must be root's alone. Without it, the built-in guard holds.
    #[arg(long, conflicts_with = "guard_configmap")]
    guard: Option<PathBuf>,
    /// ConfigMap with the site's guard: NAMESPACE/NAME, key guard.yaml.
    #[arg(long, value_parser = agent::guard::config_map)]
    guard_configmap: Option<Source>,
}

impl GuardArgs {
    fn source(self) -> Source {
        match (self.guard, self.guard_configmap) {
            (Some(path), _) => Source::File(path),
            (None, Some(source)) => source,
            (None, None) => Source::Default,
        }
    }
}

#[derive(Args)]
struct RbacArgs {
    /// File with the site's guard; without it, the built-in one.
    #[arg(long)]
    guard: Option<PathBuf>,
    /// Kubeconfig of the cluster: the custom kinds that it serves are added.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// A group of custom kinds that sets will bring; may be given several times.
    #[arg(long = "group", value_name = "GROUP")]
    groups: Vec<String>,
    /// Namespace of the agent's ServiceAccount.
    #[arg(long, default_value = "pinnace-agent")]
    namespace: String,
    /// Name of the ServiceAccount and of the roles; begins with `pinnace-agent`, which the guard keeps from all sets.
    #[arg(long, default_value = "pinnace-agent")]
    name: String,
}

#[derive(Args)]
struct RouteArgs {
    /// CA certificates, PEM, one of which must have signed the hub's certificate. Without it any certificate is
    /// taken: the hub proves itself by its root key, and nothing secret is sent before that.
    #[arg(long)]
    tls_ca: Option<PathBuf>,
    /// HTTP proxy that allows CONNECT: [USER:PASSWORD@]HOST:PORT.
    #[arg(long, env = "PINNACE_PROXY", hide_env_values = true)]
    proxy: Option<String>,
}

fn main() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_env("PINNACE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            tracing::error!("{e:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Join(args) => block_on(agent::join::join(join_options(args)?)),
        Command::Run(args) => {
            if let Some(hub) = &args.hub {
                check_address(hub)?;
            }
            block_on(agent::run::run(agent::run::Options {
                data: args.data,
                kubeconfig: args.kubeconfig,
                hub: args.hub,
                tls_ca: args.route.tls_ca,
                proxy: args.route.proxy,
                guard: args.guard.source(),
                replica: args.replica.namespace().map(|namespace| agent::replica::Options {
                    namespace,
                    name: args.replica_name,
                }),
            }))
        }
        Command::Rbac(args) => block_on(rbac(args)),
        Command::Why { object, data, guard } => {
            let guard = match guard.source() {
                Source::File(path) => agent::guard::read(&path)?,
                Source::Default | Source::ConfigMap(..) => Guard::default(),
            };
            let key = agent::why::object(&object)?;
            print!("{}", agent::why::why(&data, &key, &guard)?);
            Ok(())
        }
        Command::Doctor {
            data,
            kubeconfig,
            json,
            guard,
        } => block_on(doctor(data, kubeconfig, json, guard.source())),
        Command::Leave {
            data,
            kubeconfig,
            delete_workloads,
            guard,
        } => block_on(agent::leave::leave(agent::leave::Options {
            data,
            kubeconfig,
            delete_workloads,
            guard: guard.source(),
        })),
        Command::Rebind { data, kubeconfig } => {
            block_on(async move { agent::leave::rebind(&data, kubeconfig.as_deref()).await })
        }
        Command::Import { file, data } => {
            println!("{}", agent::carry::import(&data, &file)?);
            Ok(())
        }
        Command::Export { file, data } => {
            println!("{}", agent::carry::export(&data, &file)?);
            Ok(())
        }
        Command::Status { data, json } => {
            let status = agent::status::read(&data)?;
            if json {
                println!("{}", serde_json::to_string_pretty(&status)?);
            } else {
                print!("{}", status.text());
            }
            Ok(())
        }
        Command::CrashPoints => {
            for name in agent::crash::NAMES {
                println!("{name}");
            }
            Ok(())
        }
    }
}

async fn rbac(args: RbacArgs) -> Result<()> {
    let guard = match &args.guard {
        Some(path) => agent::guard::read(path)?,
        None => Guard::default(),
    };
    if !args.name.starts_with("pinnace-agent") {
        bail!("--name must begin with pinnace-agent: the guard keeps such names from all sets");
    }
    let mut kinds = agent::rbac::built_in();
    if let Some(path) = &args.kubeconfig {
        kinds.extend(agent::rbac::custom(path).await?);
    }
    kinds.extend(args.groups.iter().map(|g| agent::rbac::whole_group(g)));
    let to = agent::rbac::Grantee {
        namespace: args.namespace,
        name: args.name,
        ..agent::rbac::Grantee::default()
    };
    print!(
        "{}",
        agent::rbac::printed(&agent::rbac::objects(&guard, &kinds, &to))
    );
    Ok(())
}

async fn doctor(data: PathBuf, kubeconfig: Option<PathBuf>, json: bool, guard: Source) -> Result<()> {
    let findings = agent::doctor::examine(&data, kubeconfig.as_deref(), guard).await;
    if json {
        println!("{}", serde_json::to_string_pretty(&findings)?);
    } else {
        for f in &findings {
            let mark = if f.good { "ok " } else { "BAD" };
            println!("{mark} {:<15} {}", f.what, f.text);
        }
    }
    match findings.iter().filter(|f| !f.good).count() {
        0 => Ok(()),
        n => bail!("{n} of {} things are not as they should be", findings.len()),
    }
}

/// One thread: the agent is a guest on its machine.
fn block_on(future: impl Future<Output = Result<()>>) -> Result<()> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("runtime")?
        .block_on(future)
}

fn join_options(args: JoinArgs) -> Result<agent::join::Options> {
    check_address(&args.hub)?;
    let token = match (args.token, args.token_file) {
        (Some(token), _) => token,
        (None, Some(path)) if path.as_os_str() == "-" => {
            let mut text = String::new();
            std::io::stdin()
                .take(1024)
                .read_to_string(&mut text)
                .context("token from standard input")?;
            text
        }
        (None, Some(path)) => {
            std::fs::read_to_string(&path).with_context(|| format!("token file {}", path.display()))?
        }
        (None, None) => bail!("--token or --token-file is needed"),
    };
    Ok(agent::join::Options {
        replicated: args.replica.namespace(),
        line: JoinLine {
            hub: args.hub,
            cluster: args.cluster,
            root: RootPin(args.root.parse()?),
            token: Token::new(token.trim())?,
        },
        data: args.data,
        kubeconfig: args.kubeconfig,
        tls_ca: args.route.tls_ca,
        proxy: args.route.proxy,
        within: Duration::from_secs(args.timeout),
    })
}
