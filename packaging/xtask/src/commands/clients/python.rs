//! The Python client, in a virtual environment of its own.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use xtask::{process, workspace};

use super::Server;

/// What the script's steps see on a real API server.
const STEPS: &str = "typed: 2 replicas of example.com/web:1
scale: 5
again: 409 Conflict
bad name: 422, names the field True
watch: MODIFIED green, DELETED green
apply: ['python']
review: True
";

/// Typed and dynamic clients, a watch, patches, errors and reviews.
pub(super) fn check(server: &Server) -> Result<()> {
    let sources = workspace::root()?.join("tests/clients/python");
    let environment = server.folder.join("venv");
    process::output(Command::new("python3").args(["-m", "venv"]).arg(&environment))
        .context("the Python client needs python3 with venv (Debian: python3-venv)")?;
    process::output(
        Command::new(environment.join("bin/pip"))
            .args(["install", "--quiet", "--disable-pip-version-check", "-r"])
            .arg(sources.join("requirements.txt")),
    )?;
    let seen = process::output(
        server
            .client(&environment.join("bin/python"))
            .arg(sources.join("steps.py"))
            .arg(&server.namespace),
    )?;
    ensure!(seen == STEPS, "the steps saw\n{seen}instead of\n{STEPS}");
    Ok(())
}
