//! `sim`: runs seeds of the simulation.
//!
//! `--seed N` the first seed (0), `--seeds N` how many (1), `--steps N` per seed (2000), `--trace` prints what
//! happened, `--bug NAME` switches a seeded bug on.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;

use tests::sim::{Bug, Options, run};

const HELP: &str = "sim [--seed N] [--seeds N] [--steps N] [--trace] [--bug NAME]";

struct Wish {
    first: u64,
    count: u64,
    options: Options,
}

fn wish() -> Result<Wish, String> {
    let mut wish = Wish {
        first: 0,
        count: 1,
        options: Options::default(),
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || {
            let text = args.next().ok_or_else(|| format!("{arg} needs a number"))?;
            text.parse::<u64>()
                .map_err(|_| format!("{arg} {text:?} is no number"))
        };
        match arg.as_str() {
            "--seed" => wish.first = number()?,
            "--seeds" => wish.count = number()?,
            "--steps" => wish.options.steps = u32::try_from(number()?).map_err(|e| e.to_string())?,
            "--trace" => wish.options.trace = true,
            "--bug" => {
                let name = args.next().unwrap_or_default();
                let known = || Bug::ALL.map(Bug::name).join(", ");
                wish.options.bug =
                    Some(Bug::parse(&name).ok_or_else(|| format!("--bug takes one of {}", known()))?);
            }
            "--help" | "-h" => return Err(HELP.into()),
            other => return Err(format!("unknown argument {other:?}\n{HELP}")),
        }
    }
    Ok(wish)
}

fn main() -> ExitCode {
    let wish = match wish() {
        Ok(wish) => wish,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    let begun = Instant::now();
    let (mut failed, mut marks) = (0u64, BTreeMap::<&str, u64>::new());
    for seed in wish.first..wish.first + wish.count {
        let run = run(seed, wish.options);
        for line in &run.lines {
            println!("{line}");
        }
        for (mark, count) in &run.marks {
            *marks.entry(mark).or_default() += count;
        }
        if let Some(what) = &run.failure {
            failed += 1;
            println!("seed {seed}: {what}");
            println!(
                "  repeat: cargo run -p tests --bin sim -- --seed {seed} --steps {} --trace",
                wish.options.steps
            );
        } else if wish.count == 1 {
            println!("seed {seed}: trace {:016x}", run.hash);
        }
    }
    for (mark, count) in &marks {
        println!("{count:>9}  {mark}");
    }
    println!(
        "{} seeds, {failed} failed, {:.1} s",
        wish.count,
        begun.elapsed().as_secs_f64()
    );
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
