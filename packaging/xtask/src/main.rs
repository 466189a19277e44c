//! `cargo xtask`: everything one does with this workspace, each task with its own `--help`.

mod commands;

use anyhow::Result;
use clap::Parser;

fn main() -> Result<()> {
    commands::Cli::parse().run()
}
