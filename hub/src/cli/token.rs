//! `pinnace token`: who may join.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::client::Hub;
use super::{manifest, parse_duration, parse_labels, print};
use crate::fleet::wire::{JoinToken, JoinTokenSpec, OpenTokens};

#[derive(Debug, Subcommand)]
pub(super) enum TokenCommand {
    /// Allow one cluster to join and print the line to run there.
    Create(TokenArgs),
    /// List the tokens that have not expired.
    List,
    /// Take tokens back at once: the one with this id, or all of a cluster. Who joined with one stays.
    Revoke {
        /// The id that the list names.
        #[arg(required_unless_present = "cluster", conflicts_with = "cluster")]
        id: Option<String>,
        /// All tokens of this cluster.
        #[arg(long, value_name = "NAME")]
        cluster: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(super) struct TokenArgs {
    /// Name of the cluster.
    name: String,
    #[command(flatten)]
    install: manifest::ManifestArgs,
    /// Labels of the Cluster object: `key=value,key=value`.
    #[arg(long, value_name = "K=V,…", value_parser = parse_labels)]
    labels: Option<BTreeMap<String, String>>,
    /// Provider of the cluster.
    #[arg(long, default_value = "")]
    provider: String,
    /// Region of the cluster.
    #[arg(long, default_value = "")]
    region: String,
    /// Zones of the cluster: `a,b`.
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    zones: Vec<String>,
    /// How long the token is good: `30m`, `24h`, `7d`.
    #[arg(long, default_value = "24h", value_parser = parse_duration)]
    ttl: Duration,
    /// Address of the hub in the join line, if agents reach it by another one.
    #[arg(long, value_name = "HOST:PORT")]
    hub: Option<String>,
}

impl TokenArgs {
    fn spec(&self) -> JoinTokenSpec {
        JoinTokenSpec {
            cluster: self.name.clone(),
            labels: self.labels.clone().unwrap_or_default(),
            provider: self.provider.clone(),
            region: self.region.clone(),
            zones: self.zones.clone(),
            ttl_seconds: i64::try_from(self.ttl.as_secs()).unwrap_or(i64::MAX),
            hub: self.hub.clone(),
        }
    }
}

/// Runs one of them.
pub(super) async fn run(hub: &Hub, command: &TokenCommand) -> anyhow::Result<()> {
    match command {
        TokenCommand::Create(args) => {
            let token: JoinToken = hub.post("jointokens", &JoinToken::request(args.spec())).await?;
            let status = token.status.unwrap_or_default();
            if let Some(warning) = &status.warning {
                eprintln!("{warning}");
            }
            let line = status.join_line;
            if args.install.manifest {
                print!("{}", manifest::of(&line, &args.install)?);
            } else {
                println!("{line}");
            }
        }
        TokenCommand::List => {
            let tokens: OpenTokens = hub.get("jointokens").await?;
            print!("{}", print::tokens(&tokens));
        }
        TokenCommand::Revoke { id: Some(id), .. } => revoke(hub, id).await?,
        TokenCommand::Revoke { id: None, cluster } => {
            let name = cluster.as_deref().unwrap_or_default();
            let tokens: OpenTokens = hub.get("jointokens").await?;
            let of_cluster = tokens.items.iter().filter(|token| token.cluster == name);
            let ids: Vec<&str> = of_cluster.map(|token| token.id.as_str()).collect();
            if ids.is_empty() {
                bail!("no token of cluster {name} is open");
            }
            for id in ids {
                revoke(hub, id).await?;
            }
        }
    }
    Ok(())
}

async fn revoke(hub: &Hub, id: &str) -> anyhow::Result<()> {
    if id.is_empty() || !id.bytes().all(|b| b.is_ascii_alphanumeric()) {
        bail!("{id:?} is no id of a token; `pinnace token list` names them");
    }
    let done: Value = hub.post(&format!("jointokens/{id}/revoke"), &json!({})).await?;
    println!("{}", done["message"].as_str().unwrap_or("done"));
    Ok(())
}
