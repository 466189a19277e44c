//! One agent of the simulation: the real agent core over a model of ledger and member. Effects and actions are carried
//! out in order, with crashes at every durability boundary.

mod apply;
mod remove;

use agent_core::agent::Agent;
use agent_core::live::Live;
use agent_core::record::Intent;
use agent_core::session::{Effect, Identity, Member as MemberFacts};
use ring::rand::SystemRandom;
use shared::ids::{BootId, ObjectKey};
use shared::owned::Marker;
use shared::reason::Reason;
use shared::time::Millis;
use shared::topics::Direction;

use super::bugs::Bug;
use super::hub::{Hub, Scene};
use super::ledger::Ledger;
use super::member::Member;
use super::network::Network;
use mutation::Random;

/// Effects or actions that one agent may have at one moment.
const ROUNDS_MAX: usize = 2_000;

/// A running agent.
#[derive(Debug)]
struct Process {
    agent: Agent,
    started: Millis,
    connected: bool,
    connect_at: Millis,
    /// Of the seeded bug: acknowledged, and not yet committed.
    late_commit: Option<agent_core::intake::Held>,
}

/// An agent with its ledger and member.
#[derive(Debug)]
pub struct Node {
    index: usize,
    identity: Identity,
    marker: Marker,
    /// Durable.
    pub ledger: Ledger,
    /// A copy of the ledger from earlier.
    pub backup: Option<Ledger>,
    /// The member cluster.
    pub member: Member,
    process: Option<Process>,
    /// When a crashed agent starts again.
    pub restart_at: Millis,
    rng: Random,
    random: SystemRandom,
    /// The ledger was replaced by a backup at least once.
    pub was_restored: bool,
    /// The set before the held one, of the seeded bug that takes any sequence.
    older: Option<agent_core::intake::Held>,
}

/// The process ended in the middle.
struct Crashed;

/// Why an action failed.
struct Trouble {
    reason: Reason,
    live: Option<Box<Live>>,
    intent: Option<Intent>,
}

impl Node {
    /// An agent that has joined.
    #[must_use]
    pub fn new(index: usize, identity: Identity, ledger: Ledger, rng: Random) -> Self {
        let marker = Marker::of(&ledger.receipt.receipt);
        Self {
            index,
            identity,
            marker,
            ledger,
            backup: None,
            member: Member::default(),
            process: None,
            restart_at: Millis(0),
            rng,
            random: SystemRandom::new(),
            was_restored: false,
            older: None,
        }
    }

    /// Whether the process runs.
    #[must_use]
    pub const fn runs(&self) -> bool {
        self.process.is_some()
    }

    /// Monotonic time of the process.
    fn clock(&self, now: Millis) -> Millis {
        Millis(now.since(self.process.as_ref().map_or(now, |p| p.started)) + 1)
    }

    /// Starts the process from the ledger.
    pub fn start(&mut self, scene: &mut Scene<'_>) {
        let boot = BootId(self.rng.bytes16());
        let identity = Identity {
            boot,
            ..self.identity.clone()
        };
        let enrolled = self.ledger.start();
        let records = self.ledger.records.values().cloned().collect();
        let intents = self.ledger.intents.values().cloned().collect();
        let mut agent = Agent::new(identity, enrolled, records, intents, Millis(1));
        agent.handle_member(MemberFacts {
            kube_system_uid: "uid".into(),
            kubernetes_version: "v1.36.0".into(),
        });
        let connect_at = scene.now.plus(self.rng.below(3000));
        self.process = Some(Process {
            agent,
            started: scene.now,
            connected: false,
            connect_at,
            late_commit: None,
        });
        scene
            .trace
            .note(scene.now, format_args!("agent {} starts", self.index));
    }

    /// Kills the process.
    pub fn crash(&mut self, scene: &mut Scene<'_>) {
        if self.process.take().is_some() {
            scene.trace.mark("agent crashed");
            scene
                .trace
                .note(scene.now, format_args!("agent {} crashes", self.index));
            self.restart_at = scene.now.plus(self.rng.range(200, 20_000));
        }
    }

    /// Replaces the ledger by the backup.
    pub fn restore(&mut self, scene: &mut Scene<'_>) {
        if let Some(backup) = self.backup.clone() {
            self.crash(scene);
            self.ledger = backup;
            self.was_restored = true;
            scene.trace.mark("agent restored");
            scene
                .trace
                .note(scene.now, format_args!("ledger of {} is restored", self.index));
        }
    }

    /// The connection ended and the agent noticed.
    pub fn disconnected(&mut self, scene: &mut Scene<'_>) {
        let pause = self.rng.range(500, 5000);
        if let Some(process) = self.process.as_mut().filter(|p| p.connected) {
            process.connected = false;
            process.connect_at = scene.now.plus(pause);
            process.agent.handle_disconnected();
        }
    }

    /// Whether it believes to be connected.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.process.as_ref().is_some_and(|p| p.connected)
    }

    /// Something changed in the member; `told`: its watch says so.
    pub fn changed(&mut self, key: &ObjectKey, told: bool) {
        let version = self.member.version_of(key);
        if let Some(process) = self.process.as_mut().filter(|_| told) {
            process.agent.handle_changed(key, version.as_deref());
        }
    }

    /// Watches begin anew: everything is read again.
    pub fn resync(&mut self) {
        if let Some(process) = &mut self.process {
            process.agent.handle_resync();
        }
    }

    /// A payload came in on `d`.
    pub fn receive(&mut self, payload: &[u8], net: &mut Network, hub: &Hub, scene: &mut Scene<'_>) {
        let now = self.clock(scene.now);
        if self.is_connected()
            && scene.faults.bug == Some(Bug::NoSequenceCheck)
            && let Some(older) = self.older.take()
        {
            self.check_commit(&older, hub, scene);
            self.ledger.commit(older, vec![]);
        }
        let Some(process) = self.process.as_mut().filter(|p| p.connected) else {
            return;
        };
        process.agent.handle_payload(payload, &self.ledger, now);
        self.settle(net, hub, scene);
    }

    /// Time passes: connects, repeats, reports, acts.
    pub fn tick(&mut self, net: &mut Network, hub: &Hub, scene: &mut Scene<'_>) {
        let clock = self.clock(scene.now);
        let number = self.rng.next_u64();
        let Some(process) = &mut self.process else { return };
        if let Some(held) = process.late_commit.take() {
            self.ledger.commit(held, vec![]);
        }
        if !process.connected && process.connect_at <= scene.now {
            process.connected = true;
            process.agent.handle_connected(&self.random, clock);
        }
        process.agent.handle_tick(&self.random, number, clock);
        self.settle(net, hub, scene);
        self.act(net, hub, scene);
    }

    /// Carries effects out until there are none.
    fn settle(&mut self, net: &mut Network, hub: &Hub, scene: &mut Scene<'_>) {
        for _ in 0..ROUNDS_MAX {
            let clock = self.clock(scene.now);
            let Some(process) = &mut self.process else { return };
            let effects = process.agent.take_effects(clock);
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                if self.carry_out_effect(effect, net, hub, scene).is_err() {
                    return self.crash(scene);
                }
            }
        }
        scene
            .trace
            .check(false, || format!("agent {} never settles", self.index));
    }

    fn dies(&mut self, scene: &Scene<'_>) -> Result<(), Crashed> {
        if self.rng.chance(scene.faults.agent_crash) {
            Err(Crashed)
        } else {
            Ok(())
        }
    }

    fn carry_out_effect(
        &mut self,
        effect: Effect,
        net: &mut Network,
        hub: &Hub,
        scene: &mut Scene<'_>,
    ) -> Result<(), Crashed> {
        match effect {
            Effect::Send(payload) => {
                if self.is_connected() {
                    net.send(scene.now, Direction::Up, payload, scene.faults);
                }
                return Ok(());
            }
            Effect::Reconnect => {
                scene.trace.mark("agent reconnects");
                self.disconnected(scene);
                return Ok(());
            }
            _ => self.dies(scene)?,
        }
        match effect {
            Effect::Learnt(ring) => self.ledger.ring = *ring,
            Effect::Agreed(session) => {
                let back = !self.was_restored && session < self.ledger.session;
                scene
                    .trace
                    .check(!back, || format!("I2: session of agent {} goes back", self.index));
                self.ledger.session = self.ledger.session.max(session);
                scene.trace.note(
                    scene.now,
                    format_args!("agent {} is in session {session}", self.index),
                );
            }
            Effect::Confirmed(time) => self.ledger.confirmed = self.ledger.confirmed.max(time),
            Effect::Keep(contents) => self.ledger.keep(contents),
            Effect::Commit { held, contents } => {
                self.check_commit(&held, hub, scene);
                let clock = self.clock(scene.now);
                if scene.faults.bug == Some(Bug::AcknowledgeBeforeCommit) {
                    self.ledger.keep(contents);
                    if let Some(process) = &mut self.process {
                        process.late_commit = Some(held);
                        process.agent.handle_committed(clock);
                    }
                    return self.dies(scene);
                }
                if let Some(before) = self.ledger.held.replace(held.clone()) {
                    self.older = Some(before);
                }
                self.ledger.commit(held, contents);
                self.dies(scene)?;
                if scene.faults.bug == Some(Bug::DeleteOnAbsence) {
                    self.delete_absent(scene);
                }
                if let Some(process) = &mut self.process {
                    process.agent.handle_committed(clock);
                }
            }
            Effect::Reported(_) => {}
            Effect::Forgotten => scene.trace.mark("hub forgot reports"),
            Effect::SealingKey(_) => {}
            Effect::JoinRefused { .. } | Effect::Joined(_) | Effect::Revoked(_) => {
                scene
                    .trace
                    .check(false, || format!("agent {}: an answer to a join", self.index));
            }
            Effect::Send(_) | Effect::Reconnect => {}
        }
        self.dies(scene)
    }

    /// I2 and I3: only newer, only what the hub has made and signed, only complete.
    fn check_commit(&self, held: &agent_core::intake::Held, hub: &Hub, scene: &mut Scene<'_>) {
        let (i, head) = (self.index, &held.head.head);
        let before = self.ledger.held.as_ref().map(|h| h.head.head.sequence);
        scene.trace.note(
            scene.now,
            format_args!("agent {i} accepts set {} {}", head.sequence, head.digest),
        );
        scene.trace.check(before.is_none_or(|b| b < head.sequence), || {
            format!("I2: set of agent {i} goes back")
        });
        let good = held.head.verify(&self.ledger.ring).is_ok() && held.head.is_of(&held.set);
        scene
            .trace
            .check(good, || format!("I3: agent {i} accepts an unsigned set"));
        let made = hub.has_made(i, head.sequence, &head.digest);
        scene.trace.check(made, || {
            format!("I3: agent {i} accepts a set that was never made")
        });
    }

    /// Carries due actions out.
    fn act(&mut self, net: &mut Network, hub: &Hub, scene: &mut Scene<'_>) {
        for _ in 0..ROUNDS_MAX {
            let clock = self.clock(scene.now);
            let rng = &mut self.rng;
            let mut random = || rng.next_u64();
            let Some(process) = &mut self.process else { return };
            let Some(action) = process.agent.poll_action(clock, &mut random) else {
                return;
            };
            let key = action.key().clone();
            let Ok(outcome) = self.carry_out(action, scene) else {
                return self.crash(scene);
            };
            let number = self.rng.next_u64();
            if let Some(process) = &mut self.process {
                process.agent.handle_outcome(&key, outcome, clock, number);
            }
            self.settle(net, hub, scene);
        }
        scene
            .trace
            .check(false, || format!("agent {} never comes to rest", self.index));
    }
}
