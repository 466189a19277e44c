//! `pinnace`: the fleet from the command line, through the hub's API.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = hub::cli::Cli::parse();
    match hub::cli::run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pinnace: {error:#}");
            ExitCode::FAILURE
        }
    }
}
