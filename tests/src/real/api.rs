//! The hub's API alone, without its planner, in this process but with the real handshake, and the kubectl that talks
//! to it. What kubectl prints is what a user sees.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use axum::Router;
use hub::api::{Api, Identity, serve_connection};
use hub::bus::{Bus, RouterBus};
use hub::gateway::{Gateway, Patience};
use hub::keys::Keys;
use hub::listen::{Listener, ServeHttp};
use hub::store::Store;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::watch;
use xtask::member::Binary;

/// An API with an empty store of its own, gone when dropped.
pub struct ApiServer {
    directory: TempDir,
    kubectl: PathBuf,
    _stop: watch::Sender<bool>,
}

impl ApiServer {
    /// Initialises a hub's directory and serves its API on a port of its own.
    ///
    /// # Errors
    /// When a part of the hub cannot be made, or there is no kubectl.
    pub async fn start() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let data = directory.path().join("hub");
        let now = hub::clock::wall();
        hub::init::init(&data, &[], "127.0.0.1:0".parse()?, now).await?;
        let store = Store::open(&data, now)?;
        let mut keys = Keys::load(&data, store.fleet())?;
        let listener = Listener::bind("127.0.0.1:0".parse()?, &keys, now)?;
        keys.adopt_address(listener.address()?)?;
        let (bus, _router) = RouterBus::start()?;
        let bus: Arc<dyn Bus> = Arc::new(bus);
        let (gateway, _ended) = Gateway::new(bus, Patience::default());
        let api = Api::new(store, Router::new(), keys.authority()?);
        api.bootstrap().await?;
        tokio::spawn(api.clone().run());
        let http: ServeHttp = Arc::new(move |stream, certificate, peer| {
            let api = api.clone();
            let identity = certificate.map(|c| Identity {
                user: c.user,
                groups: c.groups,
                fingerprint: c.fingerprint,
            });
            Box::pin(async move { serve_connection(api, stream, identity, peer).await })
        });
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(listener.run(gateway, http, stopped));
        let kubectl = tokio::task::spawn_blocking(|| Binary::get().map(|binary| binary.kubectl())).await??;
        Ok(Self {
            directory,
            kubectl,
            _stop: stop,
        })
    }

    /// A file of this server's directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// kubectl as the administrator of `pinnace-hub init`.
    pub fn admin(&self) -> Caller<'_> {
        self.caller("hub/admin.kubeconfig")
    }

    /// kubectl with the kubeconfig `name` of this server's directory.
    pub fn caller(&self, name: &str) -> Caller<'_> {
        Caller {
            server: self,
            kubeconfig: self.path(name),
        }
    }
}

/// A kubectl with one kubeconfig.
pub struct Caller<'a> {
    server: &'a ApiServer,
    kubeconfig: PathBuf,
}

impl Caller<'_> {
    /// The command, with all three streams as pipes.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.server.kubectl);
        command
            .arg("--cache-dir")
            .arg(self.server.path("cache"))
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", self.server.directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Runs kubectl to its end: whether it succeeded, and all it printed.
    ///
    /// # Errors
    /// When kubectl cannot be started.
    pub async fn run(&self, arguments: &[&str], input: &str) -> Result<(bool, String)> {
        let mut child = self.command(arguments).spawn().context("kubectl")?;
        let mut stdin = child.stdin.take().context("a pipe")?;
        stdin.write_all(input.as_bytes()).await?;
        drop(stdin);
        let output = child.wait_with_output().await?;
        let text = [output.stdout, output.stderr].concat();
        Ok((
            output.status.success(),
            String::from_utf8_lossy(&text).into_owned(),
        ))
    }

    /// Runs kubectl, which must succeed, and gives what it printed.
    ///
    /// # Errors
    /// When it fails.
    pub async fn ok(&self, arguments: &[&str]) -> Result<String> {
        let (success, text) = self.run(arguments, "").await?;
        ensure!(success, "kubectl {arguments:?}: {text}");
        Ok(text)
    }

    /// Runs kubectl, which must fail, and gives what it printed.
    ///
    /// # Errors
    /// When it succeeds.
    pub async fn refused(&self, arguments: &[&str]) -> Result<String> {
        let (success, text) = self.run(arguments, "").await?;
        ensure!(!success, "kubectl {arguments:?} succeeded: {text}");
        Ok(text)
    }

    /// `kubectl apply -f -`, which must succeed; the lines it printed.
    ///
    /// # Errors
    /// When it fails.
    pub async fn apply(&self, manifests: &str) -> Result<Vec<String>> {
        let (success, text) = self.run(&["apply", "-f", "-"], manifests).await?;
        ensure!(success, "kubectl apply: {text}");
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Starts a kubectl that goes on, to read its lines.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn lines(&self, arguments: &[&str]) -> Result<Lines> {
        let mut child = self.command(arguments).spawn().context("kubectl")?;
        let stdout = child.stdout.take().context("a pipe")?;
        Ok(Lines {
            child,
            lines: BufReader::new(stdout).lines(),
        })
    }
}

/// Lines that a running kubectl prints.
pub struct Lines {
    child: Child,
    lines: tokio::io::Lines<BufReader<ChildStdout>>,
}

impl Lines {
    /// Reads on to a line with that text.
    ///
    /// # Errors
    /// When kubectl ends without it.
    pub async fn until(&mut self, text: &str) -> Result<String> {
        while let Some(line) = self.lines.next_line().await? {
            if line.contains(text) {
                return Ok(line);
            }
        }
        anyhow::bail!("kubectl ended without {text:?}")
    }

    /// Waits for the end of kubectl: whether it succeeded.
    ///
    /// # Errors
    /// When the operating system does not answer.
    pub async fn end(mut self) -> Result<bool> {
        Ok(self.child.wait().await?.success())
    }
}
