//! Command line of `pinnace-hub`: raw flags here, checked values for the rest.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

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
