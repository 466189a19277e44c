//! Command line of `pinnace-hub`: raw flags here, checked values for the rest.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use hub_core::failover::PurgeMode;

/// Where a hub listens unless told otherwise.
const DEFAULT_LISTEN: &str = "127.0.0.1:6443";

/// One hub for a fleet of Kubernetes clusters.
#[derive(Debug, Parser)]
#[command(name = "pinnace-hub", version, about)]
pub struct Cli {
    /// What to log to stderr, for example `info` or `hub=debug`.
    #[arg(
        long,
        global = true,
        env = "PINNACE_LOG",
        default_value = "warn,rumqttd=off",
        value_name = "FILTER"
    )]
    pub log: String,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What `pinnace-hub` can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make keys, database and DIR/admin.kubeconfig in an empty directory.
    Init(InitArgs),
    /// Run the hub.
    Serve(ServeArgs),
    /// Copy the database to a new file, also while the hub serves. The copy holds no keys: see `keys export`.
    Backup(BackupArgs),
    /// Make a hub in a new directory from a backup and its exported keys; it needs both.
    Restore(RestoreArgs),
    /// Keys of the hub.
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Look for damage in a hub that is not serving.
    Doctor(DoctorArgs),
    /// Print the names of the crash points of this build.
    #[command(hide = true)]
    CrashPoints,
}

/// Flags of `init`.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// Data directory; made if it is missing.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Host name or IP address by which clients and agents reach the hub; may be repeated, the first one goes into
    /// admin.kubeconfig and join lines.
    #[arg(long = "san", value_name = "NAME")]
    pub names: Vec<String>,
    /// Address to listen on later.
    #[arg(long, value_name = "ADDR:PORT", default_value = DEFAULT_LISTEN)]
    pub listen: SocketAddr,
}

/// Flags of `backup`.
#[derive(Debug, Args)]
pub struct BackupArgs {
    /// Data directory of the hub.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// The new file.
    pub file: PathBuf,
}

/// What can be done with keys.
#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// Write every key of the hub, under a passphrase, to a new file.
    Export(ExportArgs),
}

/// Flags of `keys export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Data directory of the hub.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// File whose first line is the passphrase.
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: PathBuf,
    /// The new file.
    pub file: PathBuf,
}

/// Flags of `restore`.
#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// Directory of the new hub; must be missing or empty.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// File that `keys export` made: a backup alone cannot be opened.
    #[arg(long, value_name = "FILE")]
    pub keys: PathBuf,
    /// File whose first line is the passphrase of the keys.
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: PathBuf,
    /// File that `backup` made.
    pub backup: PathBuf,
}

/// Flags of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Data directory of the hub.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
}

/// Flags of `serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Data directory made by `init`.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Address to listen on, instead of the one given at `init`; port 0 lets the system choose. The address in use
    /// is written to DIR/address.
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<SocketAddr>,
    /// A cluster silent for longer no longer holds the status of a template back: `10m`, `1h`.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = crate::cli::parse_duration)]
    pub status_grace: Duration,
    /// Namespaces that are not sent to the clusters by themselves: `a,b`.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub skipped_propagating_namespaces: Vec<String>,
    /// Let a ClusterTaintPolicy set NoExecute taints, which evict.
    #[arg(long)]
    pub allow_no_execute_taint_policy: bool,
    /// Give a cluster that is not Ready a NoSchedule taint (`cluster.karmada.io/unreachable` or `not-ready`), so that
    /// nothing new goes there.
    #[arg(long)]
    pub taint_unreachable: bool,
    /// Let NoExecute taints drive away every workload that does not tolerate them, not only those of a policy with
    /// `failover.cluster`.
    #[arg(long)]
    pub enable_no_execute_taint_eviction: bool,
    /// How copies leave then, if the policy does not say: `Gracefully` or `Directly`.
    #[arg(long, value_name = "MODE", default_value = "Gracefully", value_parser = purge_mode)]
    pub no_execute_taint_eviction_purge_mode: PurgeMode,
    /// How many copies NoExecute taints drive away per second; 0: one in half an hour.
    #[arg(long, value_name = "RATE", default_value_t = hub_core::failover::EVICTION_RATE, value_parser = rate)]
    pub resource_eviction_rate: f64,
    /// How long an old copy may stay while it is moved away gracefully, if its policy does not say.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = crate::cli::parse_duration)]
    pub graceful_eviction_timeout: Duration,
    /// Let a FederatedResourceQuota hold scheduling back, or only show what is used.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub federated_quota_enforcement: bool,
    /// What one cluster may lose within ten minutes before `pinnace confirm` is asked for: so many entries (volumes,
    /// Namespaces and CRDs count ten) ... 0: any number.
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    pub mass_delete_entries: u64,
    /// ... and so much of its entries or, for many clusters at once, of the clusters.
    #[arg(long, value_name = "PERCENT", default_value_t = 20)]
    pub mass_delete_percent: u64,
    /// So many clusters may lose something within ten minutes. 0: any number.
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    pub mass_delete_clusters: u64,
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate >= 0.0 => Ok(rate),
        _ => Err("copies per second, such as 0.5".to_owned()),
    }
}

fn purge_mode(word: &str) -> Result<PurgeMode, String> {
    match PurgeMode::parse(word) {
        Some(mode) if mode != PurgeMode::Never => Ok(mode),
        _ => Err("Gracefully or Directly".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn flags_are_consistent() {
        Cli::command().debug_assert();
        let cli =
            Cli::try_parse_from(["pinnace-hub", "init", "--data", "d", "--san", "a", "--san", "b"]).unwrap();
        match cli.command {
            Command::Init(init) => {
                assert_eq!(init.names, ["a", "b"]);
                assert_eq!(init.listen, DEFAULT_LISTEN.parse().unwrap());
            }
            other => panic!("{other:?}"),
        }
    }
}
