//! The agent's loop: one thread, one closed set of events, and the only place where the parts are wired together.
//!
//! Every turn drains what is ready, lets the core decide, carries its effects out in order (what must be durable
//! first), and starts due actions. It reconciles from the ledger before the first packet of the hub arrives, and
//! goes on when the hub is gone.

mod effects;
mod load;
mod shell;

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context, Result};
use futures::stream::FuturesUnordered;
use interpreter::{Customized, Native};
use shared::owned::Marker;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, mpsc};
use tokio::task::{LocalSet, spawn_local};

use crate::clock::Monotonic;
use crate::guard::Keeper;
use crate::identity::{self, Enrolment};
use crate::ledger::{Ledger, facts};
use crate::limits::{LINK_COMMANDS, LINK_EVENTS, MEMBER_EVENTS};
use crate::link::{Link, Route};
use crate::lock;
use crate::member::api::Api;
use crate::member::applier::Applier;
use crate::member::connect::connect;
use crate::member::dates::Confirmed;
use crate::member::kinds::Kinds;
use crate::member::observer::Watches;
use crate::member::probe;
use crate::owed::{self, Owed};
use crate::problems::Problems;
use crate::random::Random;
use crate::replica::{self, Desk, Office};
use crate::standing::Standing;
use crate::systemd::Manager;

use load::{LoadError, load};
use shell::{Shell, Sources};

/// What `run` is told on the command line.
#[derive(Debug, Clone)]
pub struct Options {
    /// The data directory.
    pub data: PathBuf,
    /// Kubeconfig of the member instead of the one given to `join`.
    pub kubeconfig: Option<PathBuf>,
    /// Address of the hub instead of the one of the join line.
    pub hub: Option<String>,
    /// CA that must have signed the hub's certificate.
    pub tls_ca: Option<PathBuf>,
    /// HTTP proxy towards the hub.
    pub proxy: Option<String>,
    /// The site's guard.
    pub guard: crate::guard::Source,
    /// This agent is one of several that lead in turn.
    pub replica: Option<crate::replica::Options>,
}

/// How a term ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// A signal asked for it.
    Stopped,
    /// Another agent may lead now.
    Deposed,
}

/// The signals that ask for an orderly end.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("signals")?,
            interrupt: signal(SignalKind::interrupt()).context("signals")?,
        })
    }

    /// Waits for one of them.
    pub(crate) async fn any(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Runs until a signal asks for an orderly end.
///
/// # Errors
/// When the enrolment or the ledger cannot be used, or a part that must not end has ended.
pub async fn run(options: Options) -> Result<()> {
    LocalSet::new().run_until(start(options)).await
}

/// What one term begins with.
struct Term<'a> {
    enrolment: &'a Enrolment,
    route: &'a Route,
    api: Api,
    confirmed: &'a Confirmed,
    guard: &'a Rc<Keeper>,
    clock: Monotonic,
    random: Random,
    data: PathBuf,
}

async fn start(options: Options) -> Result<()> {
    // First of all, so that a stop during the start is orderly too.
    let mut signals = Signals::listen()?;
    let enrolment = identity::load(&options.data)?;
    let _lock = lock::take(&options.data)?;
    let ledger = Ledger::open(&options.data)?;
    let random = Random::new();
    let clock = Monotonic::start();
    let kubeconfig = options
        .kubeconfig
        .clone()
        .or_else(|| enrolment.kubeconfig.clone());
    let confirmed = Confirmed::default();
    let guard = Rc::new(Keeper::start(options.guard.clone())?);
    let api = connect(kubeconfig.as_deref(), &confirmed).await?;
    let route = Route {
        hub: options.hub.clone().unwrap_or_else(|| enrolment.hub.clone()),
        tls_ca: options.tls_ca.clone(),
        proxy: options.proxy.clone(),
    };
    let mut manager = Manager::from_env();
    let term = |api: Api| Term {
        enrolment: &enrolment,
        route: &route,
        api,
        confirmed: &confirmed,
        guard: &guard,
        clock,
        random: random.clone(),
        data: options.data.clone(),
    };
    let Some(replica) = &options.replica else {
        let ledger = Rc::new(RefCell::new(ledger));
        return lead(term(api), ledger, None, &mut signals, &mut manager)
            .await
            .map(drop);
    };
    confirmed.raise(facts::confirmed(&ledger)?);
    drop(ledger);
    let desk = Desk {
        enrolment: &enrolment,
        data: options.data.clone(),
        api: api.clone(),
        clock,
        random: random.clone(),
    };
    replica::run(
        replica,
        desk,
        &mut signals,
        &mut manager,
        async |ledger, office, signals, manager| {
            let within = api.within(office.fence.clone());
            lead(term(within), ledger, Some(office), signals, manager).await
        },
    )
    .await
}

/// Acts for the cluster until the end, or until another agent leads.
async fn lead(
    term: Term<'_>,
    ledger: Rc<RefCell<Ledger>>,
    office: Option<Office>,
    signals: &mut Signals,
    manager: &mut Manager,
) -> Result<Ended> {
    let Term {
        enrolment,
        route,
        api,
        confirmed,
        guard,
        clock,
        random,
        data,
    } = term;
    let loaded = match load(&ledger.borrow(), enrolment, &random, &clock) {
        Ok(loaded) => Ok(loaded),
        Err(LoadError::Ledger(e)) if e.is_corrupt() => Err(e),
        Err(LoadError::Ledger(e)) => return Err(e.into()),
        Err(LoadError::Other(e)) => return Err(e),
    };
    let (loaded, proposed) = match loaded {
        Ok(loaded) => loaded,
        Err(e) => {
            drop(office);
            return Err(shell::quarantine(ledger, &data, &e));
        }
    };
    let receipt = &enrolment.receipt.receipt;
    tracing::info!(cluster = %receipt.cluster, hub = %route.hub, "agent starts");
    let link = Link::new(route, &receipt.cluster, random.clone())?;
    let (commands, commands_rx) = mpsc::channel(LINK_COMMANDS);
    let (link_tx, link_events) = mpsc::channel(LINK_EVENTS);
    let (member_tx, member_events) = mpsc::channel(MEMBER_EVENTS);
    let (probe_tx, probes) = mpsc::channel(1);
    let kinds = Rc::new(Kinds::default());
    let bound = facts::bound(&ledger.borrow())?.unwrap_or_else(|| receipt.kube_system_uid.clone());
    let problems = Problems::load(&ledger.borrow(), loaded.engine())?;
    let look = Rc::new(Notify::new());
    confirmed.raise(loaded.session().confirmed());
    let customized = Arc::new(Customized::new(
        Native::default(),
        Arc::new(crate::clock::wall_seconds),
    ));
    let applier = Applier::new(
        api.clone(),
        kinds.clone(),
        ledger.clone(),
        Box::new(customized.clone()),
        guard.clone(),
        Marker::of(receipt),
        random.clone(),
    )
    .sharing(office.as_ref().map(|o| o.mirror.clone()));
    let tasks = vec![
        ("link", {
            let ledger = ledger.clone();
            spawn_local(async move {
                if owed::written(&ledger, proposed).await {
                    link.run(link_tx, commands_rx).await;
                }
            })
        }),
        (
            "probe",
            spawn_local(probe::run(api.clone(), guard.clone(), look.clone(), probe_tx)),
        ),
    ];
    let mut shell = Shell {
        agent: loaded,
        customized,
        ledger,
        applier: Rc::new(applier),
        watches: Watches::new(api, kinds, &receipt.incarnation, member_tx, random.clone()),
        commands,
        clock,
        random,
        standing: Standing::new(bound),
        problems,
        owed: Owed::default(),
        look,
        confirmed: confirmed.clone(),
        actions: FuturesUnordered::new(),
        data,
        stopping: None,
        office,
    };
    shell.take_customizations()?;
    let sources = Sources {
        link: link_events,
        member: member_events,
        probes,
    };
    let ended = shell.run(sources, signals, manager, &tasks).await;
    for (_, task) in &tasks {
        task.abort();
    }
    ended
}
