//! The composition root of `pinnace-hub`: builds every part, owns the task set, writes out the shutdown order.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use interpreter::{Customized, Native};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing_subscriber::EnvFilter;

use hub_core::policy::Switches;

use crate::api::{self, Api};
use crate::bus::{Bus, RouterBus};
use crate::config::{Cli, Command, DoctorArgs, InitArgs, KeysCommand, ServeArgs};
use crate::courier::Dispatcher;
use crate::fleet::{self, Fleet};
use crate::gateway::{Gateway, Patience};
use crate::keys::{Keys, replace_file};
use crate::listen::{LeafHandle, Listener, ServeHttp};
use crate::reconcile::{Presence, Reconciler, Settings};
use crate::store::Store;
use crate::tasks::Tasks;
use crate::{clock, crash, init, limits, ops};
use shared::topics::Direction;

/// The file that tells where the hub listens.
const ADDRESS: &str = "address";
/// Directory of the audit log.
const AUDIT: &str = "audit";
/// How often the TLS leaf is looked at.
const LEAF_EVERY: Duration = Duration::from_secs(3_600);

/// Does what the command line says.
///
/// # Errors
/// What kept it from ending well, for one line on stderr.
pub fn run(cli: &Cli) -> anyhow::Result<()> {
    log_to_stderr(&cli.log)?;
    match &cli.command {
        Command::Init(args) => runtime()?.block_on(run_init(args)),
        Command::Serve(args) => {
            let runtime = runtime()?;
            let served = runtime.block_on(serve(args));
            // Blocking threads that hang must not keep the process.
            runtime.shutdown_timeout(Duration::from_secs(1));
            served
        }
        Command::Backup(args) => {
            ops::backup(&args.data, &args.file)?;
            println!(
                "{} holds the database; it needs the keys as well: pinnace-hub keys export",
                args.file.display()
            );
            Ok(())
        }
        Command::Restore(args) => {
            let passphrase = first_line(&args.passphrase_file)?;
            let restored = ops::restore(&args.backup, &args.keys, &passphrase, &args.data, clock::wall());
            runtime()?.block_on(restored)?;
            let data = args.data.display();
            println!("restored a hub in {data}\nstart it: pinnace-hub serve --data {data}");
            Ok(())
        }
        Command::Keys(KeysCommand::Export(args)) => {
            let passphrase = first_line(&args.passphrase_file)?;
            let files = ops::export(&args.data, &args.file, &passphrase)?;
            println!("{} holds {files} files of keys", args.file.display());
            Ok(())
        }
        Command::Doctor(args) => diagnose(args),
        Command::CrashPoints => {
            crash::POINTS.iter().for_each(|point| println!("{point}"));
            Ok(())
        }
    }
}

fn diagnose(args: &DoctorArgs) -> anyhow::Result<()> {
    let diagnosis = ops::doctor(&args.data, clock::wall())?;
    for finding in &diagnosis.findings {
        println!("{finding}");
    }
    match diagnosis.findings.len() {
        0 => {
            println!("{} objects, nothing is wrong", diagnosis.objects);
            Ok(())
        }
        found => bail!("{found} findings"),
    }
}

/// The passphrase in a file: its first line, without the line's end.
fn first_line(path: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("passphrase in {}", path.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

async fn run_init(args: &InitArgs) -> anyhow::Result<()> {
    init::init(&args.data, &args.names, args.listen, clock::wall()).await?;
    let data = args.data.display();
    println!(
        "made a hub in {data}\nkubeconfig: {data}/admin.kubeconfig\nstart it: pinnace-hub serve --data {data}"
    );
    Ok(())
}

/// Runs the hub until a signal or until a part ends.
async fn serve(args: &ServeArgs) -> anyhow::Result<()> {
    // Signals are caught before anything is opened, so that none is lost.
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT")?;
    let mut hub = Hub::start(args).await?;
    println!("listening on {}", hub.address);
    let end = tokio::select! {
        end = hub.first_end() => Some(end),
        _ = terminate.recv() => None,
        _ = interrupt.recv() => None,
    };
    let stopped = tokio::select! {
        stopped = timeout(limits::SHUTDOWN_TIMEOUT, hub.stop()) => stopped.is_ok(),
        // A second signal means: now.
        _ = terminate.recv() => false,
        _ = interrupt.recv() => false,
    };
    match end {
        Some(end) => bail!("{end}"),
        None if !stopped => bail!(
            "shutdown did not end in order within {:?}",
            limits::SHUTDOWN_TIMEOUT
        ),
        None => Ok(()),
    }
}

/// The running hub.
struct Hub {
    address: SocketAddr,
    data: PathBuf,
    store: Store,
    router: Option<crate::bus::RouterEnd>,
    tasks: Tasks,
    /// Accepts connections; stopped first.
    listening: Tasks,
    stop_listening: watch::Sender<bool>,
}

impl Hub {
    async fn start(args: &ServeArgs) -> anyhow::Result<Self> {
        // The store's lock on the directory comes first: nobody else serves it.
        let store = Store::open(&args.data, clock::wall())?;
        let mut keys = Keys::load(&args.data, store.fleet())?;
        forget_address(&args.data)?;
        let listen = args.listen.unwrap_or(keys.settings().listen);
        keys.listen_on(listen.ip());
        let listener = Listener::bind(listen, &keys, clock::wall())?;
        let address = listener.address().context("address of the port")?;
        keys.adopt_address(address)?;

        let (bus, router) = RouterBus::start()?;
        let bus: Arc<dyn Bus> = Arc::new(bus);
        let (gateway, sessions_ended) = Gateway::new(bus.clone(), Patience::default());
        let (up, down) = (bus.subscribe(Direction::Up)?, bus.subscribe(Direction::Down)?);
        let settings = Settings {
            status_grace: args.status_grace,
            skipped_namespaces: args.skipped_propagating_namespaces.clone(),
            quotas_enforced: args.federated_quota_enforcement,
            taint_unreachable: args.taint_unreachable,
            failover: hub_core::failover::step::Settings {
                no_execute: args.enable_no_execute_taint_eviction,
                purge_mode: args.no_execute_taint_eviction_purge_mode,
                timeout_s: i64::try_from(args.graceful_eviction_timeout.as_secs()).unwrap_or(i64::MAX),
            },
            eviction_pause_ms: hub_core::failover::eviction_delay(args.resource_eviction_rate),
            mass_delete: hub_core::breaker::Limits {
                entries: args.mass_delete_entries,
                entries_percent: args.mass_delete_percent,
                clusters: args.mass_delete_clusters,
                clusters_percent: args.mass_delete_percent,
            },
            ..Settings::default()
        };
        let presence = Arc::new(Presence::new(clock::monotonic(), settings.thresholds));
        let reconciler = Arc::new(Reconciler::new(
            store.clone(),
            Arc::new(Customized::new(Native::default(), Arc::new(clock::wall))),
            presence.clone(),
            settings,
        ));
        let (dispatcher, courier) =
            Dispatcher::new(store.clone(), keys.hub(), bus, gateway.clone(), presence);
        let api = Api::new(
            store.clone(),
            fleet::router(Fleet {
                store: store.clone(),
                courier,
                reconciler: reconciler.clone(),
                advertised: keys.settings().advertised().to_owned(),
                pin: keys.pin(),
                keys: keys.hub(),
            }),
            keys.authority()?,
        );
        api.allow(Switches {
            no_execute_taint_policies: args.allow_no_execute_taint_policy,
            quotas: args.federated_quota_enforcement,
            ..Switches::default()
        });
        api.guard_losses({
            let reconciler = reconciler.clone();
            Box::new(move |scope, is_dry| reconciler.may_delete(scope, is_dry))
        });
        let audit = args.data.join(AUDIT);
        api.log_to(api::Audit::open(&audit).with_context(|| format!("audit log in {}", audit.display()))?);
        api.bootstrap().await.context("the first namespaces")?;

        let mut tasks = Tasks::default();
        tasks.spawn("gateway", {
            let gateway = gateway.clone();
            async move { gateway.route(down).await }
        });
        tasks.spawn("store", {
            let store = store.clone();
            async move {
                store.ended().await;
                "its writer is gone"
            }
        });
        tasks.spawn("courier", dispatcher.run(up, sessions_ended));
        tasks.spawn("reconcile", async move {
            reconciler.run().await;
            "the store is closed"
        });
        tasks.spawn("api", {
            let api = api.clone();
            async move {
                api.run().await;
                "it returned"
            }
        });
        tasks.spawn("tls-leaf", renew_leaf(listener.leaf(), keys));
        let (stop_listening, stopped) = watch::channel(false);
        let mut listening = Tasks::default();
        listening.spawn("listen", async move {
            listener.run(gateway, http(api), stopped).await;
            "it was stopped"
        });
        // Last: who reads the file may connect at once.
        replace_file(&args.data.join(ADDRESS), format!("{address}\n").as_bytes())?;
        let (data, router) = (args.data.clone(), Some(router));
        Ok(Self {
            address,
            data,
            store,
            router,
            tasks,
            listening,
            stop_listening,
        })
    }

    /// Waits for the first part that ends, and says which.
    async fn first_end(&mut self) -> String {
        let router = async {
            match &mut self.router {
                Some(router) => router
                    .await
                    .unwrap_or_else(|_gone| "its threads are gone".to_owned()),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            end = router => {
                self.router = None;
                format!("the bus ended: {end}")
            }
            end = self.tasks.first_end() => end,
            end = self.listening.first_end() => end,
        }
    }

    /// Stops in order: the port (agents are sent away, requests in flight end), then what decides, then the store.
    async fn stop(mut self) {
        // An error means that the port ended by itself.
        let _ended = self.stop_listening.send(true);
        let _why = timeout(limits::SHUTDOWN_TIMEOUT / 2, self.listening.first_end()).await;
        self.listening.stop().await;
        self.tasks.stop().await;
        self.store.close().await;
        if let Err(error) = forget_address(&self.data) {
            tracing::warn!(%error, "the address file stays");
        }
    }
}

/// Serves API connections with the identity of their client certificate.
fn http(api: Arc<Api>) -> ServeHttp {
    Arc::new(move |stream, certificate, peer| {
        let api = api.clone();
        let identity = certificate.map(|certificate| api::Identity {
            user: certificate.user,
            groups: certificate.groups,
            fingerprint: certificate.fingerprint,
        });
        Box::pin(async move { api::serve_connection(api, stream, identity, peer).await })
    })
}

/// Keeps the TLS leaf fresh.
async fn renew_leaf(leaf: LeafHandle, keys: Keys) -> &'static str {
    loop {
        sleep(LEAF_EVERY).await;
        if let Err(error) = leaf.refresh(&keys, clock::wall()) {
            // The old one is good for months; the next look tries again.
            tracing::error!(%error, "the TLS leaf could not be renewed");
        }
    }
}

/// An address from before would mislead who waits for the file.
fn forget_address(data: &Path) -> anyhow::Result<()> {
    match std::fs::remove_file(data.join(ADDRESS)) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).context("the address file of the last start cannot be removed"),
    }
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
