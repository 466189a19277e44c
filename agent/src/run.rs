//! The agent's loop: one thread, one closed set of events, and the only place where the parts are wired together.
//!
//! Every turn drains what is ready, lets the core decide, carries its effects out in order (what must be durable
//! first), and starts due actions. It reconciles from the ledger before the first packet of the hub arrives, and
//! goes on when the hub is gone.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use agent_core::action::Outcome;
use agent_core::agent::Agent;
use agent_core::intake::Intake;
use agent_core::session::{Effect, Enrolled, Identity, Member, Session};
use anyhow::{Context, Result, anyhow, bail};
use futures::future::LocalBoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use interpreter::{Customized, Native};
use shared::ids::ObjectKey;
use shared::keys::SigningKey;
use shared::reason::Reason;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, mpsc};
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::sleep;

use crate::clock::Monotonic;
use crate::crash;
use crate::guard::Keeper;
use crate::identity::{self, Enrolment};
use crate::ledger::{Ledger, LedgerError, facts};
use crate::limits::{LINK_COMMANDS, LINK_EVENTS, MEMBER_EVENTS, STOP_WITHIN};
use crate::link::{Link, LinkCommand, LinkEvent, Route};
use crate::lock;
use crate::member::applier::Applier;
use crate::member::connect::connect;
use crate::member::dates::Confirmed;
use crate::member::kinds::Kinds;
use crate::member::observer::{MemberEvent, Watches};
use crate::member::probe::{self, Probe};
use crate::owed::{self, Owed};
use crate::problems::Problems;
use crate::random::Random;
use crate::standing::{Standing, Turn};
use crate::systemd::Manager;

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
}

/// Runs until a signal asks for an orderly end.
///
/// # Errors
/// When the enrolment or the ledger cannot be used, or a part that must not end has ended.
pub async fn run(options: Options) -> Result<()> {
    LocalSet::new().run_until(start(options)).await
}

async fn start(options: Options) -> Result<()> {
    // First of all, so that a stop during the start is orderly too.
    let signals = Signals {
        terminate: signal(SignalKind::terminate()).context("signals")?,
        interrupt: signal(SignalKind::interrupt()).context("signals")?,
    };
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
    let (loaded, proposed) = match load(&ledger, &enrolment, &random, &clock) {
        Ok(loaded) => loaded,
        Err(LoadError::Ledger(e)) if e.is_corrupt() => {
            return Err(ledger.quarantine(&options.data, &e).into());
        }
        Err(LoadError::Ledger(e)) => return Err(e.into()),
        Err(LoadError::Other(e)) => return Err(e),
    };
    let receipt = &enrolment.receipt.receipt;
    tracing::info!(cluster = %receipt.cluster, hub = %route.hub, "agent starts");
    let link = Link::new(&route, &receipt.cluster, random.clone())?;
    let (commands, commands_rx) = mpsc::channel(LINK_COMMANDS);
    let (link_tx, link_events) = mpsc::channel(LINK_EVENTS);
    let (member_tx, member_events) = mpsc::channel(MEMBER_EVENTS);
    let (probe_tx, probes) = mpsc::channel(1);
    let kinds = Rc::new(Kinds::default());
    let bound = facts::bound(&ledger)?.unwrap_or_else(|| receipt.kube_system_uid.clone());
    let problems = Problems::load(&ledger, loaded.engine())?;
    let look = Rc::new(Notify::new());
    confirmed.raise(loaded.session().confirmed());
    let ledger = Rc::new(RefCell::new(ledger));
    let customized = Arc::new(Customized::new(
        Native::default(),
        Arc::new(crate::clock::wall_seconds),
    ));
    let applier = Rc::new(Applier::new(
        api.clone(),
        kinds.clone(),
        ledger.clone(),
        Box::new(customized.clone()),
        guard.clone(),
        receipt.incarnation,
        random.clone(),
    ));
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
            spawn_local(probe::run(api.clone(), guard, look.clone(), probe_tx)),
        ),
    ];
    let mut shell = Shell {
        agent: loaded,
        customized,
        ledger,
        applier,
        watches: Watches::new(api, kinds, &receipt.incarnation, member_tx, random.clone()),
        commands,
        clock,
        random,
        standing: Standing::new(bound),
        problems,
        manager: Manager::from_env(),
        owed: Owed::default(),
        look,
        confirmed,
        actions: FuturesUnordered::new(),
        data: options.data,
        stopping: None,
    };
    shell.take_customizations()?;
    let ended = shell
        .run(
            Sources {
                link: link_events,
                member: member_events,
                probes,
            },
            signals,
            &tasks,
        )
        .await;
    for (_, task) in &tasks {
        task.abort();
    }
    ended
}

/// What the hub is told of a set that did not fit.
const DISK_FULL: &str = "the agent's disk is full";

enum LoadError {
    Ledger(LedgerError),
    Other(anyhow::Error),
}

impl From<LedgerError> for LoadError {
    fn from(e: LedgerError) -> Self {
        Self::Ledger(e)
    }
}

/// The core, from what ledger and identity file hold.
fn load(
    ledger: &Ledger,
    enrolment: &Enrolment,
    random: &Random,
    clock: &Monotonic,
) -> Result<(Agent, shared::ids::Session), LoadError> {
    let ring = facts::ring(ledger)?.unwrap_or_else(|| enrolment.ring.clone());
    let highest = facts::session(ledger)?;
    let proposed = highest.next();
    let held = ledger.held(&ring)?;
    let key = SigningKey::from_pkcs8(&enrolment.key).map_err(|e| LoadError::Other(e.into()))?;
    let receipt = enrolment.receipt.clone();
    let identity = Identity {
        cluster: receipt.receipt.cluster.clone(),
        pin: enrolment.pin,
        key: Arc::new(key),
        boot: random.boot(),
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let (held, contents) = match held {
        Some(set) => (Some(set.held), set.facts),
        None => (None, std::collections::BTreeMap::new()),
    };
    let intake = Intake::new(Session::owner(&receipt), held, contents);
    let enrolled = Enrolled {
        receipt,
        ring,
        proposed,
        confirmed: facts::confirmed(ledger)?,
        intake,
    };
    let agent = Agent::new(
        identity,
        enrolled,
        ledger.records()?,
        ledger.intents()?,
        clock.now(),
    );
    Ok((agent, proposed))
}

struct Sources {
    link: mpsc::Receiver<LinkEvent>,
    member: mpsc::Receiver<MemberEvent>,
    probes: mpsc::Receiver<Probe>,
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

/// Everything that can happen.
enum Event {
    Link(LinkEvent),
    Member(MemberEvent),
    Probe(Probe),
    Ended(ObjectKey, Box<Result<Outcome, LedgerError>>),
    Tick,
    Stop(&'static str),
    Dead(&'static str),
}

type Running = LocalBoxFuture<'static, (ObjectKey, Result<Outcome, LedgerError>)>;

struct Shell {
    agent: Agent,
    customized: Arc<Customized>,
    ledger: Rc<RefCell<Ledger>>,
    applier: Rc<Applier>,
    watches: Watches,
    commands: mpsc::Sender<LinkCommand>,
    clock: Monotonic,
    random: Random,
    standing: Standing,
    problems: Problems,
    manager: Manager,
    owed: Owed,
    look: Rc<Notify>,
    confirmed: Confirmed,
    actions: FuturesUnordered<Running>,
    data: PathBuf,
    stopping: Option<&'static str>,
}

impl Shell {
    async fn run(
        mut self,
        mut sources: Sources,
        signals: Signals,
        tasks: &[(&'static str, JoinHandle<()>)],
    ) -> Result<()> {
        let Signals {
            mut terminate,
            mut interrupt,
        } = signals;
        self.manager.ready();
        loop {
            self.manager.turning();
            if let Err(e) = self.turn() {
                return Err(self.fail(e));
            }
            if self.stopping.is_some() && self.actions.is_empty() {
                tracing::info!("agent ends");
                self.manager.stopping();
                return Ok(());
            }
            let pause = self.pause();
            let event = tokio::select! {
                biased;
                _ = terminate.recv() => Event::Stop("SIGTERM"),
                _ = interrupt.recv() => Event::Stop("SIGINT"),
                Some((key, outcome)) = self.actions.next(), if !self.actions.is_empty() => Event::Ended(key, Box::new(outcome)),
                link = sources.link.recv() => link.map_or(Event::Dead("link"), Event::Link),
                probe = sources.probes.recv() => probe.map_or(Event::Dead("probe"), Event::Probe),
                member = sources.member.recv() => member.map_or(Event::Dead("watches"), Event::Member),
                () = sleep(pause) => Event::Tick,
            };
            if let Some((name, _)) = tasks.iter().find(|(_, task)| task.is_finished()) {
                bail!("the {name} task ended although it must not");
            }
            if let Err(e) = self.handle(event) {
                return Err(self.fail(e));
            }
        }
    }

    /// Time until the core wants to be asked again.
    fn pause(&self) -> Duration {
        if self.stopping.is_some() {
            return STOP_WITHIN;
        }
        let now = self.clock.now();
        let wake = self.agent.next_wake().map_or(60_000, |at| at.since(now));
        // An engine that may not act yet is not asked in a tight loop.
        let least = if self.standing.is_right() { 1 } else { 1_000 };
        let pause = Duration::from_millis(wake.clamp(least, 60_000));
        self.manager
            .patience()
            .map_or(pause, |patience| pause.min(patience))
    }

    fn handle(&mut self, event: Event) -> Result<(), Fatal> {
        let now = self.clock.now();
        match event {
            Event::Link(LinkEvent::Connected) => {
                tracing::debug!("connected to the hub's gateway");
                self.agent.handle_connected(self.random.source(), now);
            }
            Event::Link(LinkEvent::Disconnected(why)) => {
                tracing::info!(%why, "no connection to the hub");
                self.agent.handle_disconnected();
            }
            Event::Link(LinkEvent::Payload(payload)) => {
                let was_open = self.agent.session().is_open();
                let ledger = self.ledger.borrow();
                self.agent.handle_payload(&payload, &*ledger, now);
                let session = self.agent.session();
                if session.is_open() && !was_open {
                    let number = session.agreed().unwrap_or_default();
                    tracing::info!(session = %number, behind = session.is_hub_behind(), "the hub is there");
                }
            }
            Event::Member(MemberEvent::Changed {
                key,
                resource_version,
            }) => {
                self.agent.handle_changed(&key, resource_version.as_deref());
            }
            Event::Member(MemberEvent::Listed { group, kind, present }) => {
                self.handle_listed(&group, &kind, &present)
            }
            Event::Probe(probe) => self.handle_probe(probe),
            Event::Ended(key, outcome) => {
                let outcome = (*outcome)?;
                if let Outcome::Failed { reason, message, .. } = &outcome {
                    tracing::info!(object = %key, %reason, %message, "not done");
                    if *reason == Reason::MemberUnreachable {
                        self.look.notify_one();
                    }
                }
                self.agent
                    .handle_outcome(&key, outcome, now, self.random.number());
            }
            Event::Tick => {
                if let Some(why) = self.stopping {
                    return Err(Fatal::Other(anyhow!(
                        "{why}: {} actions did not end in time",
                        self.actions.len()
                    )));
                }
            }
            Event::Stop(signal) => {
                tracing::info!(signal, "stopping");
                self.stopping = Some(signal);
            }
            Event::Dead(name) => {
                return Err(Fatal::Other(anyhow!(
                    "the {name} task ended although it must not"
                )));
            }
        }
        Ok(())
    }

    /// Objects that we have a record of and that the list of their kind does not show are looked for by name.
    fn handle_listed(&mut self, group: &str, kind: &str, present: &BTreeSet<(String, String)>) {
        let gone: Vec<ObjectKey> = self
            .agent
            .engine()
            .targets()
            .filter(|(key, target)| {
                key.group == group
                    && key.kind == kind
                    && target.record().is_some()
                    && !present.contains(&(key.namespace.clone(), key.name.clone()))
            })
            .map(|(key, _)| key.clone())
            .collect();
        for key in gone {
            self.agent.handle_changed(&key, None);
        }
    }

    fn handle_probe(&mut self, probe: Probe) {
        match probe {
            Probe::Identity {
                uid,
                version,
                unready,
            } => {
                match self.standing.answered(&uid, unready) {
                    Turn::Same => {}
                    Turn::Found => tracing::info!(%version, "the member is the cluster that was enrolled"),
                    Turn::Back => {
                        tracing::info!(%version, "the member answers again");
                        self.agent.handle_member_back();
                    }
                    Turn::Lost => tracing::error!(
                        reason = %Reason::ClusterChanged,
                        "{}", self.standing.note().map_or("", |n| n.message.as_str())
                    ),
                }
                self.agent.handle_member(Member {
                    kube_system_uid: uid,
                    kubernetes_version: version,
                });
                self.tell_standing();
            }
            Probe::Unreachable(e) => {
                if self.standing.failed(&e) == Turn::Lost {
                    tracing::warn!(reason = %e.reason, message = %e.message, "the member does not answer; nothing is done until it does");
                }
                self.tell_standing();
            }
            Probe::Room(room) => self.agent.handle_room(*room),
            Probe::Capacity(capacity) => self.agent.handle_capacity(*capacity, self.clock.now()),
        }
    }

    fn tell_standing(&mut self) {
        if let Some(note) = self.standing.note() {
            self.agent.handle_note(note.clone());
        }
    }

    /// Lets the core decide and carries out what it asks for.
    fn turn(&mut self) -> Result<(), Fatal> {
        let now = self.clock.now();
        if self.stopping.is_none() {
            let idle = self.agent.session().wants_report();
            self.agent
                .handle_tick(self.random.source(), self.random.number(), now);
            if idle && !self.agent.session().wants_report() {
                crash::point("report-send");
            }
        }
        loop {
            let effects = self.agent.take_effects(self.clock.now());
            if effects.is_empty() {
                break;
            }
            let mut unkept = false;
            for effect in effects {
                // What the set needs could not be put aside: it was given up.
                if unkept && matches!(effect, Effect::Commit { .. }) {
                    continue;
                }
                unkept |= self.carry_out(effect)?;
            }
        }
        self.owed.settle(&self.ledger.borrow())?;
        if self.standing.is_right() && self.stopping.is_none() {
            let random = self.random.clone();
            while let Some(action) = self.agent.poll_action(self.clock.now(), &mut || random.number()) {
                let (applier, key) = (self.applier.clone(), action.key().clone());
                tracing::debug!(object = %key, action = action.name(), "acting");
                self.actions
                    .push(Box::pin(async move { (key, applier.carry_out(action).await) }));
            }
            if let Some(kinds) = self.agent.take_kinds_in_use() {
                self.watches.keep(&kinds);
            }
        }
        let changed = self.agent.take_noted();
        self.problems
            .follow(&self.ledger.borrow(), self.agent.engine(), &changed)?;
        Ok(())
    }

    /// Says whether the disk was too full for contents of the set that is on its way.
    fn carry_out(&mut self, effect: Effect) -> Result<bool, Fatal> {
        match effect {
            Effect::Send(payload) => self.send(LinkCommand::Send(payload)),
            Effect::Reconnect => {
                if let Some(why) = self.agent.session().last_error() {
                    tracing::warn!(why, "the hub is not accepted or does not answer");
                }
                self.send(LinkCommand::Reconnect);
            }
            Effect::Learnt(ring) => self.owed.ring(&self.ledger.borrow(), *ring)?,
            Effect::Agreed(session) => self.owed.session(&self.ledger.borrow(), session)?,
            Effect::Confirmed(time) => {
                self.confirmed.raise(time);
                self.owed.confirmed(&self.ledger.borrow(), time)?;
            }
            Effect::Keep(contents) => {
                let kept = self.ledger.borrow_mut().keep(&contents);
                match kept {
                    Ok(()) => {}
                    Err(e) if e.is_disk_full() => {
                        self.agent.handle_commit_failed(Reason::DiskFull, DISK_FULL);
                        return Ok(true);
                    }
                    Err(e) => return Err(e.into()),
                }
            }
            Effect::Commit { held, contents } => {
                crash::point("accept-commit");
                let sequence = held.head.head.sequence;
                // A set without the key that signed it would not verify at the next start.
                if !self.owed.settle(&self.ledger.borrow())? {
                    self.agent.handle_commit_failed(Reason::DiskFull, DISK_FULL);
                    return Ok(false);
                }
                let committed = self.ledger.borrow_mut().commit(&held, &contents);
                match committed {
                    Ok(()) => {
                        crash::point("commit-ack");
                        tracing::info!(%sequence, entries = held.set.entries().len(), "set accepted");
                        self.agent.handle_committed(self.clock.now());
                        self.take_customizations()?;
                    }
                    Err(e) if e.is_disk_full() => {
                        self.agent.handle_commit_failed(Reason::DiskFull, DISK_FULL);
                    }
                    Err(e) => return Err(e.into()),
                }
            }
            Effect::Reported(_) | Effect::Forgotten | Effect::Joined(_) | Effect::JoinRefused { .. } => {}
            Effect::Revoked(reason) => {
                tracing::error!(%reason, "the enrolment was revoked; the workloads stay, the agent only keeps them");
                self.send(LinkCommand::Stop);
            }
        }
        Ok(false)
    }

    /// The scripts of the accepted set are the ones in use.
    fn take_customizations(&mut self) -> Result<(), LedgerError> {
        let Some(held) = self.agent.session().held() else {
            return Ok(());
        };
        let set = held.set.clone();
        let concerned = crate::customizations::take(&self.customized, &self.ledger.borrow(), &set)?;
        if let Some(kinds) = concerned {
            self.agent.handle_customized(&kinds);
        }
        Ok(())
    }

    /// A full queue means a dead connection: everything is said again on the next one.
    fn send(&self, command: LinkCommand) {
        if self.commands.try_send(command).is_err() {
            tracing::debug!("the connection takes nothing more; what is unanswered is said again later");
        }
    }

    fn fail(self, fatal: Fatal) -> anyhow::Error {
        match fatal {
            Fatal::Ledger(e) if e.is_corrupt() => {
                let Self {
                    ledger,
                    applier,
                    actions,
                    data,
                    ..
                } = self;
                drop((actions, applier));
                quarantine(ledger, &data, &e)
            }
            Fatal::Ledger(e) => e.into(),
            Fatal::Other(e) => e,
        }
    }
}

fn quarantine(ledger: Rc<RefCell<Ledger>>, data: &Path, e: &LedgerError) -> anyhow::Error {
    match Rc::try_unwrap(ledger) {
        Ok(ledger) => ledger.into_inner().quarantine(data, e).into(),
        // Still borrowed somewhere: the next start checks the file and sets it aside.
        Err(_) => anyhow!("{e}"),
    }
}

/// What ends the agent.
enum Fatal {
    Ledger(LedgerError),
    Other(anyhow::Error),
}

impl From<LedgerError> for Fatal {
    fn from(e: LedgerError) -> Self {
        Self::Ledger(e)
    }
}
