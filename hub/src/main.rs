//! `pinnace-hub`: parse, run, exit code.

use std::process::ExitCode;

use clap::Parser;

/// The hub's threads hand values to each other all the time. glibc's allocator leaves what becomes free in the arena of
/// whichever thread made it: half of what was resident after 30,000 works was not in use.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
