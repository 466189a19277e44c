//! The command line.

mod check;
mod clients;
mod count;
mod demo;
mod fresh_hub;
mod kube_conformance;
mod member;
mod step;
mod test;
mod types;

use std::process::Command;

use anyhow::Result;
use clap::{Parser, Subcommand};
use xtask::{process, workspace};

/// Tasks of the Pinnace workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
pub(crate) struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Format and lints.
    Check,
    /// Everything that can say that this workspace is right: format, lints, type table, all tests.
    Test(test::Args),
    /// The cores and the codec in a world that loses, repeats, reorders and crashes: `sim --seed N --seeds N --steps N`.
    #[command(disable_help_flag = true)]
    Sim(step::Args),
    /// Measures and prints; `bench path`: memory, time from apply to Available, bytes on the wire.
    #[command(disable_help_flag = true)]
    Bench(step::Args),
    /// The reference's cases, a table per set (arguments: see `conformance --help`).
    #[command(disable_help_flag = true)]
    Conformance(step::Args),
    /// The differential cases against a real API server: `replay [FILE]`, or `record KUBECONFIG [FILE]` from a member.
    #[command(disable_help_flag = true)]
    KubeCases(step::Args),
    /// The official conformance suite of Kubernetes against a fresh hub (its first build takes minutes).
    KubeConformance(kube_conformance::Args),
    /// Other people's clients against a fresh hub: kubectl of three releases, Helm, controller-runtime and client-go,
    /// Python (their first build takes minutes).
    Clients(clients::Args),
    /// The main job end to end on this machine: a hub, three real clusters, a cut and a catching up.
    Demo(demo::Args),
    /// What the CI machine does: `.ci/run`.
    Ci,
    /// Real Kubernetes clusters on this machine: start, stop, list, cut off from the hub.
    Member(member::Args),
    /// The agent as it is installed: under a booted systemd and in pods on a real node (`machine [PART...]`; needs root).
    #[command(disable_help_flag = true)]
    Machine(step::Args),
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
            Task::Check => check::run(),
            Task::Test(args) => test::run(&args),
            Task::Sim(args) => step::run("sim", &args),
            Task::Bench(args) => step::run("bench", &args),
            Task::Conformance(args) => step::run("conformance", &args),
            Task::KubeCases(args) => step::run("kube", &args),
            Task::KubeConformance(args) => kube_conformance::run(&args),
            Task::Clients(args) => clients::run(&args),
            Task::Demo(args) => demo::run(&args),
            Task::Ci => process::run(&mut Command::new(workspace::root()?.join(".ci/run"))),
            Task::Member(args) => member::run(args),
            Task::Machine(args) => step::run("machine", &args),
            Task::MemberProxy(args) => member::run_proxy(&args),
            Task::Types(args) => types::run(&args),
        }
    }
}
