//! Steps whose program lives in the crate `tests`: it is built with the one profile and given its arguments.

use anyhow::Result;
use xtask::process;

use super::check::cargo;

/// Steps of this kind that belong to `cargo xtask test`, with the arguments they get there.
pub(crate) const IN_TEST: &[(&str, &[&str])] = &[("conformance", &["conformance"])];

/// Those that only `cargo xtask test --all` runs. The tests of the workspace run the first 500 seeds.
pub(crate) const IN_TEST_ALL: &[(&str, &[&str])] = &[
    (
        "simulation",
        &["sim", "--seed", "500", "--seeds", "2000", "--steps", "2000"],
    ),
    ("clients", &["clients"]),
    ("kube suite", &["kube-conformance"]),
    ("machines", &["machine"]),
];

/// Arguments of the program, `--help` included.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Arguments of the program.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Builds and runs the program.
pub(crate) fn run(program: &str, args: &Args) -> Result<()> {
    process::run(cargo(&["run", "--quiet", "-p", "tests", "--bin", program, "--"])?.args(&args.arguments))
}
