//! `cargo xtask test`: everything that can say that this workspace is right, in one run.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use xtask::workspace;

use super::check::{FORMAT, LINTS, cargo};
use super::count::Count;
use super::step::{IN_TEST, IN_TEST_ALL};

/// Options of `test`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Let slow tests do more (sets PINNACE_SLOW=1).
    #[arg(long)]
    all: bool,
}

/// One line of the table at the end.
struct Step {
    name: &'static str,
    count: Count,
    took: Duration,
}

/// Runs all steps, also after one has failed, and ends with the table and the sum.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut steps = Vec::new();
    for (name, command) in plan(args.all)? {
        eprintln!("== {name}");
        steps.push(step(name, command, args.all)?);
    }
    let mut sum = Count::default();
    println!("\n{:<14} {:>8}  RESULT", "STEP", "TIME");
    for step in &steps {
        println!(
            "{:<14} {:>6.1} s  {}",
            step.name,
            step.took.as_secs_f32(),
            step.count
        );
        sum += step.count;
    }
    println!("\n{sum}");
    if sum.failed > 0 {
        bail!("{} checks failed", sum.failed);
    }
    Ok(())
}

/// The steps in the order of their run: what other steps use comes first.
fn plan(all: bool) -> Result<Vec<(&'static str, Command)>> {
    let mut steps = vec![
        ("format", cargo(FORMAT)?),
        ("lints", cargo(LINTS)?),
        ("programs", cargo(&["build", "--quiet", "--workspace", "--bins"])?),
        ("type table", itself(&["types", "--check"])?),
        ("tests", cargo(&["test", "--workspace", "--no-fail-fast"])?),
    ];
    let more = if all { IN_TEST_ALL } else { &[] };
    for (name, arguments) in IN_TEST.iter().chain(more) {
        steps.push((name, itself(arguments)?));
    }
    Ok(steps)
}

/// This program with other arguments.
fn itself(arguments: &[&str]) -> Result<Command> {
    let mut command =
        Command::new(std::env::current_exe().context("this program does not know its own file")?);
    command.current_dir(workspace::root()?).args(arguments);
    Ok(command)
}

/// Runs one step. What it prints passes through; what it says it counted is added up. A step that counts nothing is
/// one check itself, and one that fails without counting a failure (it could not be built) is one failure.
fn step(name: &'static str, mut command: Command, all: bool) -> Result<Step> {
    if all {
        command.env("PINNACE_SLOW", "1");
    }
    let start = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("the step {name} cannot be started"))?;
    let mut count = Count::default();
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).split(b'\n') {
            let line = line.with_context(|| format!("the output of {name} cannot be read"))?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            count += Count::of(&line).unwrap_or_default();
        }
    }
    let succeeded = child
        .wait()
        .with_context(|| format!("the end of {name} cannot be waited for"))?
        .success();
    if !succeeded && count.failed == 0 {
        count.failed = 1;
    } else if count == Count::default() {
        count.passed = 1;
    }
    Ok(Step {
        name,
        count,
        took: start.elapsed(),
    })
}
