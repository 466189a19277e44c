//! The composition root of `pinnace-hub`: builds every part, owns the task set, writes out the shutdown order.

use anyhow::Context;
use tracing_subscriber::EnvFilter;

use crate::config::{Cli, Command, InitArgs};
use crate::{clock, crash, init};

/// Does what the command line says.
///
/// # Errors
/// What kept it from ending well, for one line on stderr.
pub fn run(cli: &Cli) -> anyhow::Result<()> {
    log_to_stderr(&cli.log)?;
    match &cli.command {
        Command::Init(args) => runtime()?.block_on(run_init(args)),
        Command::CrashPoints => {
            crash::POINTS.iter().for_each(|point| println!("{point}"));
            Ok(())
        }
    }
}

async fn run_init(args: &InitArgs) -> anyhow::Result<()> {
    init::init(&args.data, &args.names, args.listen, clock::wall()).await?;
    let data = args.data.display();
    println!(
        "made a hub in {data}\nkubeconfig: {data}/admin.kubeconfig\nstart it: pinnace-hub serve --data {data}"
    );
    Ok(())
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("tokio runtime")
}

fn log_to_stderr(filter: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter).with_context(|| format!("--log {filter:?}"))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    Ok(())
}
