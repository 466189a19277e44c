//! `bench`: measures the product on real parts and prints what it found. Times are printed, not judged.

mod path;
mod summary;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};

const USAGE: &str = "usage: bench path [--json FILE]

  path          hub and three real members: resident memory, time from apply to Available on the hub, bytes on the
                wire for a one-line change
  --json FILE   also write the numbers as JSON";

fn json_file() -> anyhow::Result<Option<Option<PathBuf>>> {
    let mut given = std::env::args().skip(1);
    match given.next().as_deref() {
        Some("path") => {}
        Some("--help" | "-h") | None => return Ok(None),
        Some(other) => bail!("unknown measurement {other:?}\n\n{USAGE}"),
    }
    let mut file = None;
    while let Some(argument) = given.next() {
        match argument.as_str() {
            "--json" => file = Some(given.next().context("--json needs a file")?.into()),
            "--help" | "-h" => return Ok(None),
            other => bail!("unknown argument {other:?}\n\n{USAGE}"),
        }
    }
    Ok(Some(file))
}

fn main() -> anyhow::Result<ExitCode> {
    let Some(file) = json_file()? else {
        println!("{USAGE}");
        return Ok(ExitCode::SUCCESS);
    };
    let found = path::measure()?;
    print!("{found}");
    if let Some(file) = file {
        std::fs::write(&file, serde_json::to_vec_pretty(&found)?)
            .with_context(|| file.display().to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}
