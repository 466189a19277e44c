//! One agent of the simulation: the real agent core over a model of ledger and member. Effects and actions are carried
//! out in order, with crashes at every durability boundary.

use std::sync::Arc;

use agent_core::action::{Action, Outcome};
use agent_core::agent::Agent;
use agent_core::decide::{self, Step};
use agent_core::diff::Burial;
use agent_core::effective;
use agent_core::live::Live;
use agent_core::record::{Intent, ObjectRecord, Origin};
use agent_core::session::{Effect, Identity, Member as MemberFacts};
use ring::rand::SystemRandom;
use serde_json::Value;
use shared::ids::{BootId, Nonce, ObjectKey};
use shared::owned::Marker;
use shared::reason::Reason;
use shared::set::{ConflictResolution, Entry};
use shared::time::Millis;
use shared::topics::Direction;

use super::bugs::Bug;
use super::hub::{Hub, Scene};
use super::ledger::Ledger;
use super::member::{Member, Refusal};
use super::network::Network;
use super::rng::Rng;

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
    rng: Rng,
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
    pub fn new(index: usize, identity: Identity, ledger: Ledger, rng: Rng) -> Self {
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

    fn live(&self, object: Option<&Value>) -> Option<Box<Live>> {
        object.and_then(|o| Live::read(o, &self.marker)).map(Box::new)
    }

    /// The member's API fails before doing anything.
    fn api(&mut self, scene: &mut Scene<'_>, intent: Option<&Intent>) -> Result<(), Trouble> {
        if self.rng.chance(scene.faults.api) {
            scene.trace.mark("member fails");
            return Err(Trouble {
                reason: Reason::MemberOverloaded,
                live: None,
                intent: intent.cloned(),
            });
        }
        Ok(())
    }

    fn carry_out(&mut self, action: Action, scene: &mut Scene<'_>) -> Result<Outcome, Crashed> {
        let done = match action {
            Action::Read {
                key,
                record,
                template_generation,
                ..
            } => self.read(&key, record, template_generation, scene),
            Action::Apply {
                entry,
                record,
                intent,
                ..
            } => self.apply(&entry, record, intent, scene)?,
            Action::Delete { key, uid, again, .. } => self.delete(&key, &uid, again, scene)?,
            Action::Release { key, uid, .. } => self.release(&key, &uid, scene)?,
            Action::Claim { intent, record } => self.claim(intent, record, scene),
            Action::Bury { key, how } => {
                self.dies(scene)?;
                self.ledger.records.remove(&key);
                self.ledger.intents.remove(&key);
                scene.trace.note(
                    scene.now,
                    format_args!("agent {} buries {key}: {how:?}", self.index),
                );
                if how == Burial::Deleted {
                    scene.trace.mark("tombstone executed");
                }
                Ok(Outcome::Buried(how))
            }
        };
        Ok(done.unwrap_or_else(|t| Outcome::Failed {
            reason: t.reason,
            message: t.reason.code().into(),
            live: t.live,
            intent: t.intent,
            pause: None,
        }))
    }

    fn read(
        &mut self,
        key: &ObjectKey,
        record: Option<ObjectRecord>,
        generation: Option<u64>,
        scene: &mut Scene<'_>,
    ) -> Result<Outcome, Trouble> {
        let intent = self.ledger.intents.get(key).cloned();
        self.api(scene, intent.as_ref())?;
        let object = self.member.get(key);
        let live = self.live(object.as_ref());
        let ours = record
            .as_ref()
            .zip(live.as_deref())
            .is_some_and(|(r, l)| r.uid == l.uid);
        let record = record.map(|mut r| {
            if ours && live.as_deref().is_some_and(|l| l.completed) {
                r.completed = true;
                self.ledger.records.insert(key.clone(), r.clone());
            }
            r
        });
        let observation = if ours && generation.is_some() {
            self.member.observation(key)
        } else {
            None
        };
        Ok(Outcome::Read {
            live,
            observation,
            record,
        })
    }

    fn apply(
        &mut self,
        entry: &Arc<Entry>,
        record: Option<ObjectRecord>,
        intent: Option<Intent>,
        scene: &mut Scene<'_>,
    ) -> Result<Result<Outcome, Trouble>, Crashed> {
        if let Err(trouble) = self.api(scene, intent.as_ref()) {
            return Ok(Err(trouble));
        }
        let Some(content) = self.ledger.contents.get(&entry.digest) else {
            scene.trace.check(false, || {
                format!("I8: content of {} is not in the ledger", entry.key)
            });
            return Ok(Err(Trouble {
                reason: Reason::Pending,
                live: None,
                intent,
            }));
        };
        let content: Value = serde_json::from_slice(&content.bytes).unwrap_or_default();
        let live = self.live(self.member.get(&entry.key).as_ref());
        let step = decide::decide(entry, record.as_ref(), intent.as_ref(), live.as_deref());
        if scene.faults.bug == Some(Bug::CreateTwice)
            && record.is_none()
            && let (Some(intent), Some(live)) = (&intent, live.as_deref())
            && decide::claims(intent, live)
        {
            self.check_delete(&entry.key, &live.uid, false, scene);
            self.member.delete_by_name(&entry.key);
            return self.create(entry, content, scene);
        }
        let forgotten = record.is_none()
            && !self.was_restored
            && step
                == (Step::Update {
                    origin: Origin::Adopted,
                    nonce: None,
                });
        let made = self
            .member
            .object(&entry.key)
            .is_some_and(|o| o.made_by_us && !o.released);
        scene.trace.check(!(forgotten && made), || {
            format!(
                "I4: we made {} and know nothing of it: its intent was forgotten",
                entry.key
            )
        });
        let origin_of = |origin, nonce| (origin, nonce);
        let (origin, nonce) = match step {
            Step::Create => return self.create(entry, content, scene),
            Step::Update { origin, nonce } => origin_of(origin, nonce),
            Step::Take => {
                let wanted = entry.conflict_resolution == ConflictResolution::Overwrite;
                scene.trace.check(wanted, || {
                    format!("{} was taken over without being asked", entry.key)
                });
                scene.trace.mark("taken over");
                origin_of(Origin::Adopted, None)
            }
            Step::Conflict => {
                scene.trace.mark("conflict");
                return Ok(Err(Trouble {
                    reason: Reason::Conflict,
                    live,
                    intent,
                }));
            }
            Step::Replace { uid } => {
                let record = record.filter(|r| r.uid == uid);
                let record = match (record, &intent) {
                    (Some(record), _) => Some(record),
                    (None, Some(intent)) => Some(self.claimed(intent, live.as_deref())),
                    (None, None) => None,
                };
                return Ok(Ok(Outcome::Seen {
                    live,
                    record,
                    intent: None,
                }));
            }
            Step::Wait | Step::Completed => return Ok(Ok(Outcome::Seen { live, record, intent })),
        };
        let desired = effective::marked(content, entry, &self.marker, nonce);
        let read = live.as_ref().map(|l| (l.uid.clone(), l.resource_version.clone()));
        if self.rng.chance(scene.faults.race) {
            let value = self.rng.below(1000).to_string();
            self.member.edit_foreign(&entry.key, "theirs", &value);
            scene.trace.mark("changed between read and apply");
        }
        let read = read
            .as_ref()
            .map(|(uid, version)| (uid.as_str(), version.as_str()));
        let applied = self.member.apply(&entry.key, &desired, true, read);
        if let Err(trouble) = self.refusal(&applied, intent.as_ref()) {
            return Ok(Err(trouble));
        }
        if let Err(trouble) = self.api(scene, intent.as_ref()) {
            // The answer is lost; the work is done.
            scene.trace.mark("answer of an apply lost");
            return Ok(Err(trouble));
        }
        self.dies(scene)?;
        let completed = record
            .as_ref()
            .is_some_and(|r| r.completed && r.template_uid == entry.template_uid);
        Ok(self.recorded(entry, origin, nonce, completed, scene))
    }

    fn refusal(&self, applied: &Result<bool, Refusal>, intent: Option<&Intent>) -> Result<(), Trouble> {
        let reason = match applied {
            Ok(_) => return Ok(()),
            Err(Refusal::NoNamespace) => Reason::AwaitingDependency,
            Err(Refusal::Conflict | Refusal::OtherUid | Refusal::OtherVersion) => Reason::Pending,
        };
        Err(Trouble {
            reason,
            live: None,
            intent: intent.cloned(),
        })
    }

    fn create(
        &mut self,
        entry: &Arc<Entry>,
        content: Value,
        scene: &mut Scene<'_>,
    ) -> Result<Result<Outcome, Trouble>, Crashed> {
        let api_version = content
            .get("apiVersion")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let intent = Intent {
            key: entry.key.clone(),
            api_version,
            nonce: Nonce(self.rng.bytes16()),
            template_uid: entry.template_uid.clone(),
        };
        if scene.faults.bug != Some(Bug::ForgetIntent) {
            self.ledger.intents.insert(entry.key.clone(), intent.clone());
        }
        self.dies(scene)?;
        let desired = effective::marked(content, entry, &self.marker, Some(intent.nonce));
        let applied = self.member.apply(&entry.key, &desired, false, None);
        if let Err(trouble) = self.refusal(&applied, Some(&intent)) {
            return Ok(Err(trouble));
        }
        scene.trace.note(
            scene.now,
            format_args!("agent {} creates {}", self.index, entry.key),
        );
        if let Err(trouble) = self.api(scene, Some(&intent)) {
            scene.trace.mark("answer of a create lost");
            return Ok(Err(trouble));
        }
        self.dies(scene)?;
        Ok(self.recorded(entry, Origin::Created, Some(intent.nonce), false, scene))
    }

    fn recorded(
        &mut self,
        entry: &Arc<Entry>,
        origin: Origin,
        nonce: Option<Nonce>,
        completed: bool,
        scene: &mut Scene<'_>,
    ) -> Result<Outcome, Trouble> {
        let object = self.member.get(&entry.key);
        let Some(live) = self.live(object.as_ref()) else {
            return Err(Trouble {
                reason: Reason::Invalid,
                live: None,
                intent: None,
            });
        };
        let record = ObjectRecord {
            key: entry.key.clone(),
            api_version: "v1".into(),
            uid: live.uid.clone(),
            nonce,
            origin,
            content: entry.digest,
            template_uid: entry.template_uid.clone(),
            fields: live.fields,
            completed,
        };
        let ours = self.member.object(&entry.key).is_some_and(|o| o.made_by_us);
        scene.trace.check(origin == Origin::Adopted || ours, || {
            format!("I4: {} is recorded as created, but others made it", entry.key)
        });
        self.ledger.records.insert(entry.key.clone(), record.clone());
        self.ledger.intents.remove(&entry.key);
        let observation = self.member.observation(&entry.key);
        Ok(Outcome::Applied {
            record,
            live,
            observation,
        })
    }

    fn claimed(&mut self, intent: &Intent, live: Option<&Live>) -> ObjectRecord {
        let record = ObjectRecord {
            key: intent.key.clone(),
            api_version: intent.api_version.clone(),
            uid: live.map(|l| l.uid.clone()).unwrap_or_default(),
            nonce: Some(intent.nonce),
            origin: Origin::Created,
            // What was applied is not known any more: any content counts as outdated.
            content: shared::ids::Digest([0; 32]),
            template_uid: intent.template_uid.clone(),
            fields: None,
            completed: false,
        };
        self.ledger.records.insert(intent.key.clone(), record.clone());
        self.ledger.intents.remove(&intent.key);
        record
    }

    fn claim(
        &mut self,
        intent: Intent,
        record: Option<ObjectRecord>,
        scene: &mut Scene<'_>,
    ) -> Result<Outcome, Trouble> {
        self.api(scene, Some(&intent))?;
        let live = self.live(self.member.get(&intent.key).as_ref());
        if live.as_deref().is_some_and(|l| decide::claims(&intent, l)) {
            scene.trace.mark("lost create claimed");
            let record = self.claimed(&intent, live.as_deref());
            return Ok(Outcome::Seen {
                live,
                record: Some(record),
                intent: None,
            });
        }
        self.ledger.intents.remove(&intent.key);
        Ok(Outcome::Seen {
            live,
            record,
            intent: None,
        })
    }

    fn delete(
        &mut self,
        key: &ObjectKey,
        uid: &str,
        again: bool,
        scene: &mut Scene<'_>,
    ) -> Result<Result<Outcome, Trouble>, Crashed> {
        let intent = self.ledger.intents.get(key).cloned();
        if let Err(trouble) = self.api(scene, intent.as_ref()) {
            return Ok(Err(trouble));
        }
        self.check_delete(key, uid, again, scene);
        self.dies(scene)?;
        if self.rng.chance(scene.faults.race) {
            self.member.delete_foreign(key);
            self.member.create_foreign(key, "theirs");
            scene.trace.mark("replaced between read and delete");
        }
        let taken = if scene.faults.bug == Some(Bug::DeleteByName) {
            self.member.delete_by_name(key)
        } else {
            // A uid that is gone already is as good as deleted.
            self.member.delete(key, uid).ok().flatten()
        };
        scene.trace.check(taken.is_none_or(|o| o.made_by_us), || {
            format!("I4: {key} is deleted, which others made")
        });
        scene
            .trace
            .mark(if again { "job replaced" } else { "object deleted" });
        scene
            .trace
            .note(scene.now, format_args!("agent {} deletes {key}", self.index));
        self.dies(scene)?;
        let answered = self.api(scene, intent.as_ref());
        if answered.is_err() {
            scene.trace.mark("answer of a delete lost");
        }
        Ok(answered.map(|()| Outcome::Deleted))
    }

    /// I4: only with a tombstone (or a newer run of the template) *and* a record "created", and only what we made.
    fn check_delete(&self, key: &ObjectKey, uid: &str, again: bool, scene: &mut Scene<'_>) {
        let held = self.ledger.held.as_ref().map(|h| &h.set);
        let ordered = if again {
            held.is_some_and(|s| s.entry(key).is_some()) && decide::runs_to_completion(&key.group, &key.kind)
        } else {
            held.and_then(|s| s.tombstone(key))
                .is_some_and(|t| t.mode == shared::set::DeleteMode::Delete)
        };
        let created = self
            .ledger
            .records
            .get(key)
            .is_some_and(|r| r.origin == Origin::Created && r.uid == uid);
        let made = self
            .member
            .object(key)
            .is_none_or(|o| o.uid != uid || o.made_by_us);
        scene
            .trace
            .check(ordered, || format!("I4: {key} is deleted without a tombstone"));
        scene.trace.check(created, || {
            format!("I4: {key} is deleted without a record that we created it")
        });
        scene
            .trace
            .check(made, || format!("I4: {key} is deleted, which others made"));
    }

    /// The seeded bug: what the new set does not speak of is taken for unwanted.
    fn delete_absent(&mut self, scene: &mut Scene<'_>) {
        let Some(set) = self.ledger.held.as_ref().map(|h| h.set.clone()) else {
            return;
        };
        let gone: Vec<(ObjectKey, String)> = self
            .ledger
            .records
            .values()
            .filter(|r| r.origin == Origin::Created && set.entry(&r.key).is_none())
            .map(|r| (r.key.clone(), r.uid.clone()))
            .collect();
        for (key, uid) in gone {
            if set.tombstone(&key).is_some() {
                continue;
            }
            self.check_delete(&key, &uid, false, scene);
            self.member.delete_by_name(&key);
        }
    }

    fn release(
        &mut self,
        key: &ObjectKey,
        uid: &str,
        scene: &mut Scene<'_>,
    ) -> Result<Result<Outcome, Trouble>, Crashed> {
        let intent = self.ledger.intents.get(key).cloned();
        if let Err(trouble) = self.api(scene, intent.as_ref()) {
            return Ok(Err(trouble));
        }
        self.member.release(key, uid);
        scene.trace.mark("object released");
        self.dies(scene)?;
        self.ledger.records.remove(key);
        self.ledger.intents.remove(key);
        Ok(Ok(Outcome::Released))
    }
}
