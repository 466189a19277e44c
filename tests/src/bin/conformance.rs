//! `conformance`: runs the case sets and prints a table. Ends with 1 if a set that must hold does not.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use tests::conformance::{self, Deviations, REQUIRED_NOW, through_hub};

const USAGE: &str =
    "usage: conformance [--through-hub] [--cases DIR] [--set GLOB]... [--json FILE] [--failures]

  --through-hub through a running hub and its API, with clusters that join and report (schedule-*, overrides,
                validation); what a user cannot bring about counts as skipped
  --cases DIR   where the case files are (default: the copy in tests/conformance/cases)
  --set GLOB    only sets of this name, folder and file, such as overrides/image*; may be repeated
  --json FILE   also write the counts as JSON
  --failures    also print every case that failed, with the difference";

struct Arguments {
    cases: PathBuf,
    sets: Vec<String>,
    json: Option<PathBuf>,
    failures: bool,
    through_hub: bool,
}

fn arguments() -> anyhow::Result<Option<Arguments>> {
    let home = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("conformance");
    let mut read = Arguments {
        cases: home.join("cases"),
        sets: Vec::new(),
        json: None,
        failures: false,
        through_hub: false,
    };
    let mut given = std::env::args().skip(1);
    while let Some(argument) = given.next() {
        let mut value = || {
            given
                .next()
                .with_context(|| format!("{argument} needs a value\n\n{USAGE}"))
        };
        match argument.as_str() {
            "--cases" => read.cases = value()?.into(),
            "--set" => read.sets.push(value()?),
            "--json" => read.json = Some(value()?.into()),
            "--failures" => read.failures = true,
            "--through-hub" => read.through_hub = true,
            "--help" | "-h" => return Ok(None),
            other => bail!("unknown argument {other:?}\n\n{USAGE}"),
        }
    }
    Ok(Some(read))
}

fn main() -> anyhow::Result<ExitCode> {
    let Some(arguments) = arguments()? else {
        println!("{USAGE}");
        return Ok(ExitCode::SUCCESS);
    };
    let listed = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("conformance/deviations.toml");
    let deviations = Deviations::read(&listed)?;
    let report = if arguments.through_hub {
        through_hub::run(&arguments.cases, &arguments.sets, &deviations)?
    } else {
        conformance::run(&arguments.cases, &arguments.sets, &deviations)?
    };
    print!("{report}");
    if let Some(file) = &arguments.json {
        std::fs::write(file, serde_json::to_vec_pretty(&report)?)
            .with_context(|| file.display().to_string())?;
    }
    if report.sets.is_empty() {
        bail!("no set of that name under {}", arguments.cases.display());
    }
    let must = |name: &str| {
        arguments.through_hub || REQUIRED_NOW.iter().any(|glob| conformance::matches(glob, name))
    };
    let mut holds = true;
    // For whoever adds up all tests: what need not hold yet is skipped, not failed; a listed deviation is as wanted.
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for set in &report.sets {
        let open = set.failed + set.unsupported;
        // Through a hub it is known which cases cannot be run; all others must hold.
        let left_out = if arguments.through_hub { set.unsupported } else { 0 };
        let broken = must(&set.set) && open > left_out;
        holds &= !broken;
        passed += set.passed + set.deviating;
        skipped += left_out;
        *(if broken { &mut failed } else { &mut skipped }) += open - left_out;
        if broken || arguments.failures {
            set.failures.iter().for_each(|failure| println!("{failure}"));
        }
    }
    for case in &report.stale {
        println!("listed as a deviation, but it holds: {case}");
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    Ok(if holds {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
