//! `cargo xtask check`: what is quick to look at.

use std::process::Command;

use anyhow::Result;
use xtask::{process, workspace};

/// A cargo command that runs in the workspace.
pub(crate) fn cargo(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    process::outside_cargo(&mut command)
        .current_dir(workspace::root()?)
        .args(arguments);
    Ok(command)
}

/// Arguments of the format check.
pub(crate) const FORMAT: &[&str] = &["fmt", "--all", "--check"];

/// Arguments of the lints: a warning is an error.
pub(crate) const LINTS: &[&str] = &[
    "clippy",
    "--quiet",
    "--workspace",
    "--all-targets",
    "--",
    "-D",
    "warnings",
];

/// Checks format and lints.
pub(crate) fn run() -> Result<()> {
    process::run(&mut cargo(FORMAT)?)?;
    process::run(&mut cargo(LINTS)?)?;
    println!("format and lints are clean");
    Ok(())
}
