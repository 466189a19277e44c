//! `cargo xtask types`.

use std::process::Command;

use anyhow::{Context, Result, bail};
use xtask::member::{Binary, kubernetes_sources};
use xtask::{process, workspace};

/// Options of `types`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only compare the committed table with a new one; fail if they differ.
    #[arg(long)]
    check: bool,
}

/// Writes or compares the table.
pub(crate) fn run(args: &Args) -> Result<()> {
    let file = workspace::root()?.join("hub/core/data/kubernetes.json");
    let table = process::output(
        Command::new(Binary::get()?.member())
            .arg("types")
            .arg(kubernetes_sources()?),
    )?;
    if !args.check {
        std::fs::write(&file, &table).with_context(|| format!("{} cannot be written", file.display()))?;
        println!("{} written: {} bytes", file.display(), table.len());
        return Ok(());
    }
    let committed =
        std::fs::read_to_string(&file).with_context(|| format!("{} cannot be read", file.display()))?;
    if let Some((number, (old, new))) = committed
        .lines()
        .zip(table.lines())
        .enumerate()
        .find(|(_, (old, new))| old != new)
    {
        bail!(
            "{} differs in line {}:\n- {old}\n+ {new}\n`cargo xtask types` makes it anew",
            file.display(),
            number + 1
        );
    }
    if committed != table {
        bail!(
            "{} has another number of lines: `cargo xtask types` makes it anew",
            file.display()
        );
    }
    println!("{} is what the generator makes", file.display());
    Ok(())
}
