//! The loop: what can happen, and what follows from it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use agent_core::action::Outcome;
use agent_core::agent::Agent;
use agent_core::session::{Effect, Member};
use anyhow::{Result, anyhow, bail};
use futures::future::LocalBoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use interpreter::Customized;
use shared::ids::ObjectKey;
use shared::reason::Reason;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::{Ended, Signals};
use crate::clock::Monotonic;
use crate::crash;
use crate::ledger::{Ledger, LedgerError};
use crate::limits::STOP_WITHIN;
use crate::link::{LinkCommand, LinkEvent};
use crate::member::applier::Applier;
use crate::member::dates::Confirmed;
use crate::member::observer::{MemberEvent, Watches};
use crate::member::probe::Probe;
use crate::owed::Owed;
use crate::problems::Problems;
use crate::random::Random;
use crate::replica::Office;
use crate::standing::{Standing, Turn};
use crate::systemd::Manager;

/// Where events come from.
pub(super) struct Sources {
    pub(super) link: mpsc::Receiver<LinkEvent>,
    pub(super) member: mpsc::Receiver<MemberEvent>,
    pub(super) probes: mpsc::Receiver<Probe>,
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

pub(super) type Running = LocalBoxFuture<'static, (ObjectKey, Result<Outcome, LedgerError>)>;

pub(super) struct Shell {
    pub(super) agent: Agent,
    pub(super) customized: Arc<Customized>,
    pub(super) ledger: Rc<RefCell<Ledger>>,
    pub(super) applier: Rc<Applier>,
    pub(super) watches: Watches,
    pub(super) commands: mpsc::Sender<LinkCommand>,
    pub(super) clock: Monotonic,
    pub(super) random: Random,
    pub(super) standing: Standing,
    pub(super) problems: Problems,
    pub(super) owed: Owed,
    pub(super) look: Rc<Notify>,
    pub(super) confirmed: Confirmed,
    pub(super) actions: FuturesUnordered<Running>,
    pub(super) data: PathBuf,
    pub(super) stopping: Option<&'static str>,
    /// What we hold while we lead other agents; none: there are no others.
    pub(super) office: Option<Office>,
}

impl Shell {
    pub(super) async fn run(
        mut self,
        mut sources: Sources,
        signals: &mut Signals,
        manager: &mut Manager,
        tasks: &[(&'static str, JoinHandle<()>)],
    ) -> Result<Ended> {
        manager.ready();
        loop {
            manager.turning();
            match self.turn().await {
                Ok(()) => {}
                Err(Fatal::Deposed) => return Ok(Ended::Deposed),
                Err(e) => return Err(self.fail(e)),
            }
            if self.stopping.is_some() && self.actions.is_empty() {
                tracing::info!("agent ends");
                manager.stopping();
                return Ok(Ended::Stopped);
            }
            let pause = self.pause(manager);
            let office = self.office.clone();
            let event = tokio::select! {
                biased;
                signal = signals.any() => Event::Stop(signal),
                () = deposed(office.as_ref()) => return Ok(Ended::Deposed),
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
    fn pause(&self, manager: &Manager) -> Duration {
        if self.stopping.is_some() {
            return STOP_WITHIN;
        }
        let now = self.clock.now();
        let wake = self.agent.next_wake().map_or(60_000, |at| at.since(now));
        // An engine that may not act yet is not asked in a tight loop.
        let least = if self.standing.is_right() { 1 } else { 1_000 };
        let pause = Duration::from_millis(wake.clamp(least, 60_000));
        manager.patience().map_or(pause, |patience| pause.min(patience))
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
                tracing::debug!(object = %key, "acted");
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
    async fn turn(&mut self) -> Result<(), Fatal> {
        if self.office.as_ref().is_some_and(|o| o.fence.is_over()) {
            return Err(Fatal::Deposed);
        }
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
                unkept |= self.carry_out(effect).await?;
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

    /// A full queue means a dead connection: everything is said again on the next one.
    pub(super) fn send(&self, command: LinkCommand) {
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
            Fatal::Deposed => anyhow!("another agent leads"),
        }
    }
}

/// Sets the ledger aside.
pub(super) fn quarantine(ledger: Rc<RefCell<Ledger>>, data: &Path, e: &LedgerError) -> anyhow::Error {
    match Rc::try_unwrap(ledger) {
        Ok(ledger) => ledger.into_inner().quarantine(data, e).into(),
        // Still borrowed somewhere: the next start checks the file and sets it aside.
        Err(_) => anyhow!("{e}"),
    }
}

/// Comes back when another agent may lead; never where there is none.
async fn deposed(office: Option<&Office>) {
    match office {
        Some(office) => office.fence.wait_end().await,
        None => std::future::pending().await,
    }
}

/// What ends the agent.
pub(super) enum Fatal {
    /// The ledger cannot be used.
    Ledger(LedgerError),
    /// Anything else.
    Other(anyhow::Error),
    /// Another agent of this cluster may lead now.
    Deposed,
}

impl From<LedgerError> for Fatal {
    fn from(e: LedgerError) -> Self {
        Self::Ledger(e)
    }
}
