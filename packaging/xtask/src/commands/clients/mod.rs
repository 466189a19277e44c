//! `cargo xtask clients`: other people's clients against a hub, each doing what its users do with it.

mod helm;
mod kubectl;
mod python;
mod runtime;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use xtask::kubectl::Kubectl;
use xtask::{go, process, workspace};

use super::fresh_hub;

/// Options of `clients`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only checks whose name holds this text; may be repeated.
    #[arg(long)]
    only: Vec<String>,
    /// Against this server instead of a fresh hub, to see what a real one answers.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
}

/// What a check gets: the server, and a folder and a namespace of its own.
struct Server {
    kubeconfig: PathBuf,
    folder: PathBuf,
    namespace: String,
}

/// A check's name and what it does.
type Check = (&'static str, fn(&Server) -> Result<()>);

/// The kubectl releases are the oldest and the newest that the hub is held to, and the members' own between them.
const CHECKS: &[Check] = &[
    ("kubectl-1.32", |server| {
        kubectl::check(&built("kubectl-1.32")?, server)
    }),
    ("kubectl-1.36", |server| {
        kubectl::check(&xtask::member::Binary::get()?.kubectl(), server)
    }),
    ("kubectl-1.37", |server| {
        kubectl::check(&built("kubectl-1.37")?, server)
    }),
    ("helm", helm::check),
    ("client-go", runtime::steps),
    ("controller-runtime", runtime::controller),
    ("python", python::check),
];

/// Starts a hub unless told otherwise, runs the checks and prints what came of each.
pub(crate) fn run(args: &Args) -> Result<()> {
    let wanted: Vec<&Check> = CHECKS
        .iter()
        .filter(|(name, _)| args.only.is_empty() || args.only.iter().any(|text| name.contains(text.as_str())))
        .collect();
    ensure!(!wanted.is_empty(), "no check's name holds any of these texts");
    let folder = workspace::target()?.join("clients");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)
            .with_context(|| format!("{} cannot be removed", folder.display()))?;
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    let failed = match &args.kubeconfig {
        Some(kubeconfig) => against(kubeconfig, &folder, &wanted),
        None => {
            let (hub, kubeconfig) = fresh_hub::start(&folder)?;
            let failed = against(&kubeconfig, &folder, &wanted);
            hub.stop()?;
            failed
        }
    };
    println!("{} passed, {failed} failed, 0 skipped", wanted.len() - failed);
    if failed > 0 {
        bail!("{failed} clients failed; logs are in {}", folder.display());
    }
    Ok(())
}

/// How many of the checks failed; a failed one is printed with its reason, and the others go on.
fn against(kubeconfig: &Path, folder: &Path, wanted: &[&Check]) -> usize {
    let mut failed = 0;
    for (name, check) in wanted {
        let server = Server {
            kubeconfig: kubeconfig.to_owned(),
            folder: folder.join(name),
            // Its own on every run against the same server.
            namespace: format!("with-{}-{}", name.replace('.', "-"), std::process::id()),
        };
        match server.prepare().and_then(|()| check(&server)) {
            Ok(()) => println!("ok     {name}"),
            Err(error) => {
                failed += 1;
                println!("FAILED {name}\n       {error:#}");
            }
        }
    }
    failed
}

impl Server {
    fn prepare(&self) -> Result<()> {
        std::fs::create_dir_all(&self.folder)
            .with_context(|| format!("{} cannot be made", self.folder.display()))?;
        self.kubectl().run(&["create", "namespace", &self.namespace])?;
        Ok(())
    }

    /// The members' kubectl, to look at what a client did.
    fn kubectl(&self) -> Kubectl {
        Kubectl::new(&self.kubeconfig, &self.folder.join("kubectl"))
    }

    /// One field of an object in the check's namespace, as kubectl's JSONPath prints it.
    fn field(&self, object: &str, path: &str) -> Result<String> {
        let path = format!("-o=jsonpath={{{path}}}");
        self.kubectl().run(&["get", "-n", &self.namespace, object, &path])
    }

    /// The client's program with the server and the caches of this check, and nothing of the user's own.
    fn client(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", &self.folder)
            .current_dir(&self.folder);
        command
    }
}

/// A client's program in Go, built from its module below `tests/clients` and kept.
fn built(name: &str) -> Result<PathBuf> {
    let module = workspace::root()?.join("tests/clients").join(name);
    let package = match name {
        "helm" => "helm.sh/helm/v4/cmd/helm",
        _ => ".",
    };
    let directory = go::built(name, &module, name, |directory| {
        eprintln!("building {name}: minutes, once");
        let unfinished = directory.join("unfinished");
        process::run(
            Command::new("go")
                .current_dir(&module)
                .env("CGO_ENABLED", "0")
                .args(["build", "-trimpath", "-ldflags", "-s -w", "-o"])
                .arg(&unfinished)
                .arg(package),
        )?;
        std::fs::rename(&unfinished, directory.join(name))
            .with_context(|| format!("{name} cannot be put into its place"))
    })?;
    Ok(directory.join(name))
}

/// Says no unless `text` holds every one of `parts`, which `what` printed.
fn holds(what: &str, text: &str, parts: &[&str]) -> Result<()> {
    for part in parts {
        ensure!(
            text.contains(part),
            "{what} does not say `{part}`: {}",
            text.trim()
        );
    }
    Ok(())
}
