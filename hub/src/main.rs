//! `pinnace-hub`: parse, run, exit code.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = hub::config::Cli::parse();
    match hub::run::run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pinnace-hub: {error:#}");
            ExitCode::FAILURE
        }
    }
}
