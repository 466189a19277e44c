//! `pinnace`: tokens, explanations and clusters, through the hub's API with an ordinary kubeconfig.

mod carry;
mod client;
mod difference;
mod manifest;
mod print;
mod taints;
mod token;
mod user;
mod why;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::fleet::wire::{
    ClusterAction, Explanation, HeldChanges, ReconcileMode, ReconcilePreview, Rendering,
};
use client::Hub;
use serde_json::{Value, json};

/// The fleet from the command line.
#[derive(Debug, Parser)]
#[command(name = "pinnace", version, about)]
pub struct Cli {
    /// Kubeconfig of the hub; else KUBECONFIG, else ~/.kube/config.
    #[arg(long, global = true, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Join tokens.
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Why an object is where it is: policy, clusters, and the state of each.
    Why(WhyArgs),
    /// What would be sent to a cluster: the template with its replicas and overrides, as YAML.
    Render(RenderArgs),
    /// What differs between the template, what a cluster shall have, and what it last said it has.
    Diff(RenderArgs),
    /// Clusters of the fleet.
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Let go what waits because it would delete too much; without an id, list it.
    Confirm {
        /// The id that `why` or the list names.
        id: Option<u32>,
    },
    /// People who may use the hub.
    #[command(subcommand)]
    User(user::UserCommand),
}

#[derive(Debug, Args)]
struct WhyArgs {
    /// `KIND/NAME`, for example `Deployment/web`, `deploy/web` or `deployments.apps/web`.
    object: String,
    /// Namespace; the one of the kubeconfig's context if not given.
    #[arg(short, long)]
    namespace: Option<String>,
    /// Only what concerns this cluster.
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// `json`: for programs.
    #[arg(short, long, value_enum)]
    output: Option<Output>,
}

/// How to print, other than for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// As JSON.
    Json,
}

#[derive(Debug, Args)]
struct RenderArgs {
    /// `KIND/NAME`, for example `Deployment/web`.
    object: String,
    /// The cluster.
    #[arg(long, value_name = "NAME")]
    cluster: String,
    /// Namespace; the one of the kubeconfig's context if not given.
    #[arg(short, long)]
    namespace: Option<String>,
    /// `json`: for programs.
    #[arg(short, long, value_enum)]
    output: Option<Output>,
}

#[derive(Debug, Subcommand)]
enum ClusterCommand {
    /// List clusters.
    List,
    /// Add or remove taints: `key=value:Effect` adds, `key:Effect-` or `key-` removes.
    Taint {
        /// Name of the cluster.
        name: String,
        /// The taints.
        #[arg(required = true)]
        taints: Vec<String>,
        /// Change the value of a taint that is there with another one.
        #[arg(long)]
        overwrite: bool,
    },
    /// Let a cluster get nothing new; what is there stays.
    Cordon {
        /// Name of the cluster.
        name: String,
    },
    /// End what `cordon` did.
    Uncordon {
        /// Name of the cluster.
        name: String,
    },
    /// Set or remove labels: `key=value` sets, `key-` removes.
    Label {
        /// Name of the cluster.
        name: String,
        /// The labels.
        #[arg(required = true)]
        labels: Vec<String>,
    },
    /// Decide what happens to a cluster whose agent holds more than this hub knows (HubBehind).
    Reconcile {
        /// Name of the cluster.
        name: String,
        /// The hub wins: what it does not want becomes tombstones.
        #[arg(long, required_unless_present = "keep_member", conflicts_with = "keep_member")]
        push_hub: bool,
        /// The member keeps what the hub does not want: nothing is deleted, it is only managed no longer.
        #[arg(long)]
        keep_member: bool,
    },
    /// Write the newest set of a cluster without a link into a file, for `pinnace-agent import` there.
    Export {
        /// Name of the cluster.
        name: String,
        /// The file to write.
        file: PathBuf,
    },
    /// Take the receipt that `pinnace-agent export` wrote there.
    Receipt {
        /// Name of the cluster.
        name: String,
        /// The file.
        file: PathBuf,
    },
    /// End a cluster's enrolment at once. Its workloads stay as they are.
    Revoke {
        /// Name of the cluster.
        name: String,
    },
    /// Let another agent take the place of a cluster (lost disk, new machine, clone): the enrolment ends at once, and
    /// the next token of the name enrols whoever shows it.
    Replace {
        /// Name of the cluster.
        name: String,
    },
    /// Take a revoked cluster off the hub and free its name. Nothing in the member is touched.
    Remove {
        /// Name of the cluster.
        name: String,
    },
}

/// Runs one command.
///
/// # Errors
/// One line for a person.
pub fn run(cli: &Cli) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(dispatch(cli))
}

async fn dispatch(cli: &Cli) -> anyhow::Result<()> {
    let hub = Hub::open(cli.kubeconfig.as_deref()).await?;
    match &cli.command {
        Command::Token(command) => token::run(&hub, command).await?,
        Command::Why(args) => {
            let (kind, name) = parse_object(&args.object)?;
            let namespace = args.namespace.as_deref().unwrap_or(hub.namespace());
            let path = format!("explanations/{kind}/{namespace}/{name}");
            let mut explanation: Explanation = hub.get(&path).await?;
            if let Some(cluster) = &args.cluster {
                why::only(&mut explanation, cluster);
            }
            match args.output {
                Some(Output::Json) => print_json(&explanation)?,
                None => print!("{}", why::text(&explanation)),
            }
        }
        Command::Render(args) => {
            let rendering = rendering(&hub, args).await?;
            let Some(wanted) = &rendering.wanted else {
                anyhow::bail!("{}: {}", rendering.object, rendering.problem.unwrap_or_default());
            };
            match args.output {
                Some(Output::Json) => print_json(wanted)?,
                None => print!("{}", print::yaml(wanted)?),
            }
        }
        Command::Diff(args) => {
            let rendering = rendering(&hub, args).await?;
            match args.output {
                Some(Output::Json) => print_json(&rendering)?,
                None => print!("{}", print::diff(&rendering)),
            }
        }
        Command::Cluster(ClusterCommand::Taint {
            name,
            taints,
            overwrite,
        }) => {
            let change = hub_core::policy::parse_taints(taints.iter().map(String::as_str))?;
            change_taints(&hub, name, &change, *overwrite).await?;
        }
        Command::Cluster(ClusterCommand::Cordon { name }) => {
            change_taints(&hub, name, &taints::cordon(), false).await?;
        }
        Command::Cluster(ClusterCommand::Uncordon { name }) => {
            change_taints(&hub, name, &taints::uncordon(), false).await?;
        }
        Command::Cluster(ClusterCommand::Label { name, labels }) => {
            let labels = labels.iter().map(|text| parse_label(text));
            let labels: serde_json::Map<String, Value> = labels.collect::<anyhow::Result<_>>()?;
            hub.patch_cluster(name, &json!({"metadata": {"labels": labels}}))
                .await?;
            println!("cluster {name} labelled");
        }
        Command::Cluster(ClusterCommand::List) => {
            print!(
                "{}",
                print::clusters(&hub.clusters().await?, crate::clock::wall())
            );
        }
        Command::Cluster(ClusterCommand::Reconcile {
            name,
            push_hub: _,
            keep_member,
        }) => {
            let mode = if *keep_member {
                ReconcileMode::KeepMember
            } else {
                let preview: ReconcilePreview = hub.get(&format!("clusters/{name}/reconcile")).await?;
                print!("{}", print::preview(&preview));
                ReconcileMode::PushHub
            };
            let body = ClusterAction { mode: Some(mode) };
            let done: serde_json::Value = hub.post(&format!("clusters/{name}/reconcile"), &body).await?;
            println!("{}", done["message"].as_str().unwrap_or("done"));
        }
        Command::Cluster(ClusterCommand::Export { name, file }) => carry::export(&hub, name, file).await?,
        Command::Cluster(ClusterCommand::Receipt { name, file }) => carry::receipt(&hub, name, file).await?,
        Command::Cluster(ClusterCommand::Revoke { name }) => act(&hub, name, "revoke").await?,
        Command::Cluster(ClusterCommand::Replace { name }) => act(&hub, name, "replace").await?,
        Command::Cluster(ClusterCommand::Remove { name }) => act(&hub, name, "remove").await?,
        Command::Confirm { id: None } => {
            let held: HeldChanges = hub.get("heldchanges").await?;
            print!("{}", print::held(&held));
        }
        Command::Confirm { id: Some(id) } => {
            let done: Value = hub.post(&format!("heldchanges/{id}/confirm"), &json!({})).await?;
            println!("{}", done["message"].as_str().unwrap_or("done"));
        }
        Command::User(command) => user::run(&hub, command).await?,
    }
    Ok(())
}

fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string_pretty(value)?);
    Ok(())
}

/// Does something with a cluster and prints the hub's words.
async fn act(hub: &Hub, name: &str, verb: &str) -> anyhow::Result<()> {
    let body = ClusterAction { mode: None };
    let done: Value = hub.post(&format!("clusters/{name}/{verb}"), &body).await?;
    println!("{}", done["message"].as_str().unwrap_or("done"));
    Ok(())
}

async fn rendering(hub: &Hub, args: &RenderArgs) -> anyhow::Result<Rendering> {
    let (kind, name) = parse_object(&args.object)?;
    let namespace = args.namespace.as_deref().unwrap_or(hub.namespace());
    let cluster = &args.cluster;
    hub.get(&format!("renderings/{kind}/{namespace}/{name}/{cluster}"))
        .await
}

/// Changes the taints of a cluster as they are now; who is faster in between wins, and we say so.
async fn change_taints(
    hub: &Hub,
    name: &str,
    change: &hub_core::policy::ParsedTaints,
    overwrite: bool,
) -> anyhow::Result<()> {
    let cluster = hub.cluster(name).await?;
    let changed = taints::changed(&cluster, change, overwrite)?;
    let version = &cluster["metadata"]["resourceVersion"];
    let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": changed}});
    hub.patch_cluster(name, &patch).await?;
    let shown = print::taints(&changed);
    println!("cluster {name}: taints {shown}");
    Ok(())
}

/// `key=value` or `key-`.
fn parse_label(text: &str) -> anyhow::Result<(String, Value)> {
    match (text.split_once('='), text.strip_suffix('-')) {
        (Some((key, value)), _) if !key.is_empty() => Ok((key.to_owned(), json!(value))),
        (None, Some(key)) if !key.is_empty() => Ok((key.to_owned(), Value::Null)),
        _ => anyhow::bail!("{text:?} is not key=value or key-"),
    }
}

fn parse_object(text: &str) -> anyhow::Result<(&str, &str)> {
    match text.split_once('/') {
        Some((kind, name)) if !kind.is_empty() && !name.is_empty() && !name.contains('/') => Ok((kind, name)),
        _ => anyhow::bail!("{text:?} is not KIND/NAME"),
    }
}

fn parse_labels(text: &str) -> Result<BTreeMap<String, String>, String> {
    text.split(',')
        .filter(|pair| !pair.is_empty())
        .map(|pair| match pair.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
            _ => Err(format!("{pair:?} is not KEY=VALUE")),
        })
        .collect()
}

/// A number with `s`, `m`, `h` or `d`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration such as 30m, 24h or 7d");
    let unit = text.chars().next_back().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..text.len() - unit.len_utf8()]
        .parse()
        .map_err(|_| wrong())?;
    if number == 0 {
        return Err(wrong());
    }
    number
        .checked_mul(seconds)
        .map(Duration::from_secs)
        .ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn flags_are_consistent() {
        Cli::command().debug_assert();
        for good in [
            "pinnace token create shop --labels a=b,c= --zones x,y --ttl 7d",
            "pinnace token list",
            "pinnace token revoke 0123456789ab",
            "pinnace token revoke --cluster shop",
            "pinnace why deploy/web -n prod --kubeconfig f",
            "pinnace cluster list",
            "pinnace why deploy/web --cluster shop -o json",
            "pinnace render deploy/web --cluster shop -o json",
            "pinnace render deploy/web --cluster shop -n prod",
            "pinnace diff deploy/web --cluster shop",
            "pinnace cluster taint shop a=b:NoSchedule c- --overwrite",
            "pinnace cluster cordon shop",
            "pinnace cluster uncordon shop",
            "pinnace cluster label shop tier=gold old-",
            "pinnace cluster reconcile shop --push-hub",
            "pinnace cluster reconcile shop --keep-member",
            "pinnace confirm",
            "pinnace confirm 41",
            "pinnace cluster export shop set.pnx",
            "pinnace cluster receipt shop receipt.pnr",
            "pinnace cluster revoke shop",
            "pinnace cluster replace shop",
            "pinnace cluster remove shop",
            "pinnace user create ann --group dev --group ops --ttl 30d",
            "pinnace user list",
            "pinnace user revoke ann",
        ] {
            assert!(Cli::try_parse_from(good.split(' ')).is_ok(), "{good}");
        }
        for bad in [
            "pinnace",
            "pinnace token create",
            "pinnace token revoke",
            "pinnace token revoke 0123456789ab --cluster shop",
            "pinnace cluster reconcile shop",
            "pinnace cluster reconcile shop --push-hub --keep-member",
            "pinnace why",
        ] {
            assert!(Cli::try_parse_from(bad.split(' ')).is_err(), "{bad}");
        }
    }

    #[test]
    fn values_are_read_or_refused() {
        assert_eq!(parse_duration("90m"), Ok(Duration::from_secs(5_400)));
        for bad in [
            "",
            "1",
            "h",
            "0h",
            "-1h",
            "1w",
            "1.5h",
            "99999999999999999999d",
            "1é",
        ] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_labels("a=b,c=").unwrap().len(), 2);
        assert!(parse_labels("a").is_err() && parse_labels("=b").is_err());
        assert_eq!(parse_object("deploy/web").unwrap(), ("deploy", "web"));
        for bad in ["web", "/web", "deploy/", "a/b/c"] {
            assert!(parse_object(bad).is_err(), "{bad}");
        }
    }
}
