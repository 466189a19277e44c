//! The command line.

mod member;
mod types;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Tasks of the Pinnace workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
pub(crate) struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Real Kubernetes clusters on this machine: start, stop, list, cut off from the hub.
    Member(member::Args),
    /// The proxy of one member (started by `member up`).
    #[command(hide = true)]
    MemberProxy(member::ProxyArgs),
    /// Makes the table of built-in Kubernetes types, hub/core/data/kubernetes.json, anew.
    Types(types::Args),
}

impl Cli {
    /// Runs the task.
    pub(crate) fn run(self) -> Result<()> {
        match self.task {
            Task::Member(args) => member::run(args),
            Task::MemberProxy(args) => member::run_proxy(&args),
            Task::Types(args) => types::run(&args),
        }
    }
}
