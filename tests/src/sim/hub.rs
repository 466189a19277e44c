//! The hub of the simulation: real ships, real exchange and codec, a model of the store. Carries outputs out in order
//! and may crash before or after each durable one.

mod words;

use std::sync::Arc;

use hub_core::ship::{Boots, Current, Desk, Effect, Encodings, Enrolled, Event, Output, Ship};
use ring::rand::SystemRandom;
use shared::ids::{ClusterName, Digest, Incarnation, PublicKey, Sequence};
use shared::keys::HubKeys;
use shared::seal::{Channel, HubExchange};
use shared::time::{Millis, UnixSeconds};
use shared::topics::Direction;
use shared::wire::{Down, Kind, X1, X3, decode_up, encode_down, open_envelope, peek_epoch};

use super::bugs::Bug;
use super::disk::HubDisk;
use super::disk::Ingested;
use super::faults::Faults;
use super::network::Network;
use super::trace::Trace;
use mutation::Random;
use words::{trace_down, trace_up};

/// Half-open exchanges per cluster.
const HALF_OPEN_MAX: usize = 4;

/// An enrolled cluster, as the hub knows it.
#[derive(Clone, Debug)]
pub struct Enrolment {
    /// Name.
    pub cluster: ClusterName,
    /// Incarnation.
    pub incarnation: Incarnation,
    /// Identity key.
    pub identity: PublicKey,
}

/// A running hub.
#[derive(Debug)]
struct Process {
    lines: Vec<Line>,
    encodings: Encodings,
}

/// One cluster's conversation.
#[derive(Debug)]
struct Line {
    ship: Ship,
    half: Vec<Half>,
    channel: Option<Channel>,
}

#[derive(Debug)]
struct Half {
    exchange: HubExchange,
    x1: Vec<u8>,
    x2: Vec<u8>,
}

/// The hub: its disk, and its process if it runs.
#[derive(Debug)]
pub struct Hub {
    /// Durable.
    pub disk: HubDisk,
    /// A copy of the disk from earlier.
    pub backup: Option<HubDisk>,
    keys: HubKeys,
    enrolments: Vec<Enrolment>,
    process: Option<Process>,
    /// When a crashed hub starts again.
    pub restart_at: Millis,
    rng: Random,
    random: SystemRandom,
    /// Sets that changed and were not announced to their ship yet.
    stale: Vec<bool>,
    /// Every set ever made, over restores too.
    made: Vec<Vec<(Sequence, Digest)>>,
    /// The disk was replaced by a backup at least once.
    pub was_restored: bool,
    /// Of the seeded bug that stores reports out of order.
    held_back: Option<Box<shared::wire::Report>>,
}

/// What every part of a step needs.
pub struct Scene<'a> {
    /// Virtual time.
    pub now: Millis,
    /// Trace and checks.
    pub trace: &'a mut Trace,
    /// Faults.
    pub faults: &'a Faults,
}

impl std::fmt::Debug for Scene<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scene at {}", self.now.0)
    }
}

/// The hub's wall clock.
const fn wall(now: Millis) -> UnixSeconds {
    UnixSeconds(1_800_000_000).plus((now.0 / 1000) as i64)
}

impl Hub {
    /// A hub with empty sets for every enrolment.
    #[must_use]
    pub fn new(keys: HubKeys, enrolments: Vec<Enrolment>, rng: Random) -> Self {
        let clusters = enrolments
            .iter()
            .map(|_| super::disk::ClusterDisk::default())
            .collect();
        Self {
            disk: HubDisk {
                clusters,
                ..HubDisk::default()
            },
            backup: None,
            keys,
            stale: vec![false; enrolments.len()],
            made: enrolments.iter().map(|_| vec![]).collect(),
            enrolments,
            process: None,
            restart_at: Millis(0),
            rng,
            random: SystemRandom::new(),
            was_restored: false,
            held_back: None,
        }
    }

    /// Whether the process runs.
    #[must_use]
    pub const fn runs(&self) -> bool {
        self.process.is_some()
    }

    /// Whether a set with this sequence and digest was ever made for a cluster.
    #[must_use]
    pub fn has_made(&self, cluster: usize, sequence: Sequence, digest: &Digest) -> bool {
        self.made[cluster]
            .iter()
            .any(|(s, d)| *s == sequence && d == digest)
    }

    /// The ship of a cluster, if the hub runs.
    #[must_use]
    pub fn ship(&self, cluster: usize) -> Option<&Ship> {
        self.process.as_ref().map(|p| &p.lines[cluster].ship)
    }

    /// Starts the process from the disk.
    pub fn start(&mut self, scene: &mut Scene<'_>) {
        let lines = self.enrolments.iter().zip(&self.disk.clusters).map(|(e, disk)| {
            let enrolled = Enrolled {
                fleet: self.keys.fleet(),
                cluster: e.cluster.clone(),
                incarnation: e.incarnation,
            };
            Line {
                ship: Ship::new(enrolled, disk.known(), Boots::default()),
                half: vec![],
                channel: None,
            }
        });
        self.process = Some(Process {
            lines: lines.collect(),
            encodings: Encodings::default(),
        });
        self.stale = vec![true; self.enrolments.len()];
        scene.trace.note(scene.now, format_args!("hub starts"));
    }

    /// Kills the process.
    pub fn crash(&mut self, scene: &mut Scene<'_>) {
        if self.process.take().is_some() {
            scene.trace.mark("hub crashed");
            scene.trace.note(scene.now, format_args!("hub crashes"));
            self.restart_at = scene.now.plus(self.rng.range(500, 15_000));
        }
    }

    /// Replaces the disk by the backup.
    pub fn restore(&mut self, scene: &mut Scene<'_>) {
        if let Some(backup) = self.backup.clone() {
            self.crash(scene);
            self.disk = backup;
            self.was_restored = true;
            scene.trace.mark("hub restored");
            scene.trace.note(scene.now, format_args!("hub disk is restored"));
        }
    }

    /// Stage 9 for every cluster, after templates changed.
    pub fn adopt(&mut self, scene: &mut Scene<'_>) {
        for cluster in 0..self.enrolments.len() {
            if self.disk.adopt(cluster) {
                self.set_changed(cluster, scene);
            }
        }
    }

    fn set_changed(&mut self, cluster: usize, scene: &mut Scene<'_>) {
        let disk = &self.disk.clusters[cluster];
        let (sequence, digest) = (disk.sequence, disk.digest());
        self.stale[cluster] = true;
        self.made[cluster].push((sequence, digest));
        scene.trace.note(
            scene.now,
            format_args!("hub has set {sequence} {digest} for {cluster}"),
        );
    }

    /// Tells ships of changed sets and of time.
    pub fn tick(&mut self, nets: &mut [Network], scene: &mut Scene<'_>) {
        for cluster in 0..self.enrolments.len() {
            if self.stale[cluster] && self.runs() && self.rng.chance(800) {
                self.stale[cluster] = false;
                let disk = &self.disk.clusters[cluster];
                if disk.sequence > Sequence(0) {
                    let current = Current {
                        sequence: disk.sequence,
                        digest: disk.digest(),
                        set: Arc::new(disk.set()),
                    };
                    self.event(cluster, Event::Set(current), nets, scene);
                }
            }
            if self
                .ship(cluster)
                .and_then(Ship::wake_at)
                .is_some_and(|at| at <= scene.now)
            {
                scene.trace.mark("ship repeats");
                self.event(cluster, Event::Tick, nets, scene);
            }
        }
    }

    /// An operator lets the hub win wherever it is behind and knows what the agent holds.
    pub fn reconcile(&mut self, nets: &mut [Network], scene: &mut Scene<'_>) {
        for cluster in 0..self.enrolments.len() {
            let known = matches!(&self.disk.clusters[cluster].behind, Some((_, Some(_))));
            if known && self.ship(cluster).is_some_and(Ship::is_behind) {
                scene.trace.mark("push hub");
                scene.trace.note(
                    scene.now,
                    format_args!("operator pushes the hub's state to {cluster}"),
                );
                self.event(cluster, Event::PushHub(hub_core::ship::Winner::Hub), nets, scene);
            }
        }
    }

    /// The connection of a cluster ended and the hub noticed.
    pub fn disconnected(&mut self, cluster: usize, nets: &mut [Network], scene: &mut Scene<'_>) {
        if let Some(process) = &mut self.process {
            process.lines[cluster].channel = None;
            self.event(cluster, Event::Disconnected, nets, scene);
        }
    }

    /// A payload came in on the `u` topic of a cluster.
    pub fn receive(&mut self, cluster: usize, payload: &[u8], nets: &mut [Network], scene: &mut Scene<'_>) {
        let Some(process) = &mut self.process else { return };
        let line = &mut process.lines[cluster];
        match open_envelope(payload).map(|(kind, _)| kind) {
            Ok(Kind::X1) => self.receive_x1(cluster, payload, nets, scene),
            Ok(Kind::X3) => {
                let Ok(x3) = X3::decode(payload) else { return };
                let proven = line.half.iter().enumerate().find_map(|(i, h)| {
                    h.exchange
                        .accept(&x3)
                        .ok()
                        .map(|(channel, identity)| (i, channel, identity))
                });
                let Some((i, channel, identity)) = proven else {
                    return;
                };
                if identity != self.enrolments[cluster].identity {
                    return;
                }
                line.half.remove(i);
                line.channel = Some(channel);
                scene.trace.note(scene.now, format_args!("hub knows {cluster}"));
                self.event(cluster, Event::Connected, nets, scene);
            }
            Ok(Kind::Frame) => {
                let Some(channel) = &mut line.channel else { return };
                if peek_epoch(payload) != Some(channel.epoch()) {
                    return scene.trace.mark("frame of another epoch");
                }
                match channel.open(payload) {
                    Ok(plain) => {
                        let Ok(up) = decode_up(&plain) else {
                            return scene
                                .trace
                                .check(false, || "an honest frame does not decode".into());
                        };
                        trace_up(cluster, &up, scene);
                        let bytes = payload.len() as u64;
                        self.event(
                            cluster,
                            Event::Message {
                                up: Box::new(up),
                                bytes,
                            },
                            nets,
                            scene,
                        );
                    }
                    Err(shared::seal::OpenError::Replay(_)) => scene.trace.mark("replayed frame"),
                    Err(_) => scene.trace.mark("forged frame"),
                }
            }
            _ => scene.trace.mark("malformed payload"),
        }
    }

    fn receive_x1(&mut self, cluster: usize, payload: &[u8], nets: &mut [Network], scene: &mut Scene<'_>) {
        let Some(process) = &mut self.process else { return };
        let line = &mut process.lines[cluster];
        let Ok(x1) = X1::decode(payload) else { return };
        if let Some(half) = line.half.iter().find(|h| h.x1 == payload) {
            return nets[cluster].send(scene.now, Direction::Down, half.x2.clone(), scene.faults);
        }
        if line.half.iter().any(|h| h.exchange.id() == x1.exchange) {
            return;
        }
        let name = self.enrolments[cluster].cluster.clone();
        let Ok((exchange, x2)) = HubExchange::answer(&self.random, name, &x1, &self.keys) else {
            return;
        };
        let x2 = x2.encode();
        if line.half.len() == HALF_OPEN_MAX {
            line.half.remove(0);
        }
        line.half.push(Half {
            exchange,
            x1: payload.to_vec(),
            x2: x2.clone(),
        });
        nets[cluster].send(scene.now, Direction::Down, x2, scene.faults);
    }

    fn event(&mut self, cluster: usize, event: Event, nets: &mut [Network], scene: &mut Scene<'_>) {
        self.decide(cluster, event, scene);
        self.carry_out(cluster, nets, scene);
    }

    fn decide(&mut self, cluster: usize, event: Event, scene: &Scene<'_>) {
        let Some(process) = &mut self.process else { return };
        let rng = &mut self.rng;
        let mut random = || rng.next_u64();
        let mut desk = Desk {
            keys: &self.keys,
            shelf: &self.disk,
            encodings: &mut process.encodings,
            random: &mut random,
            time: wall(scene.now),
        };
        process.lines[cluster].ship.handle(scene.now, event, &mut desk);
    }

    /// Carries outputs out, in order, crashing where the faults say.
    fn carry_out(&mut self, cluster: usize, nets: &mut [Network], scene: &mut Scene<'_>) {
        let mut count = 0;
        while let Some(output) = self.process.as_mut().and_then(|p| p.lines[cluster].ship.poll()) {
            count += 1;
            match output {
                Output::Send(down) => self.send(cluster, &down, nets, scene),
                Output::Hangup => {
                    // Its connection stays up: that nothing is answered is enough.
                    scene.trace.mark("hello again");
                    if let Some(process) = &mut self.process {
                        process.lines[cluster].channel = None;
                    }
                }
                Output::Note(reason, text) => {
                    scene
                        .trace
                        .note(scene.now, format_args!("hub notes {cluster} {reason}: {text}"));
                }
                Output::Store(effect) => {
                    if self.rng.chance(scene.faults.hub_crash) {
                        return self.crash(scene);
                    }
                    let published = match &effect {
                        Effect::Published(sequence) => *sequence,
                        _ => Sequence(0),
                    };
                    if !self.store(cluster, effect, scene) {
                        // Not the newest set any more: the offer that follows is not sent, a newer one comes.
                        while self
                            .process
                            .as_mut()
                            .is_some_and(|p| p.lines[cluster].ship.poll().is_some())
                        {}
                        self.decide(cluster, Event::Unsent(published), scene);
                    }
                    if self.rng.chance(scene.faults.hub_crash) {
                        return self.crash(scene);
                    }
                }
            }
        }
        scene
            .trace
            .check(count <= shared::limits::SHIP_OUTPUTS_MAX + 8, || {
                format!("{count} outputs at once")
            });
    }

    fn send(&mut self, cluster: usize, down: &Down, nets: &mut [Network], scene: &mut Scene<'_>) {
        trace_down(cluster, down, scene);
        let Some(process) = &mut self.process else { return };
        let Some(channel) = &mut process.lines[cluster].channel else {
            return;
        };
        match channel.seal(&encode_down(down)) {
            Ok(payload) => nets[cluster].send(scene.now, Direction::Down, payload, scene.faults),
            Err(e) => scene.trace.check(false, || format!("hub cannot seal: {e}")),
        }
    }

    /// Makes an effect durable. False: refused, because a newer set exists.
    fn store(&mut self, cluster: usize, effect: Effect, scene: &mut Scene<'_>) -> bool {
        let disk = &mut self.disk.clusters[cluster];
        let mut changed = false;
        match effect {
            Effect::Hello { session, hello } => {
                scene.trace.check(session >= disk.session, || {
                    format!("I2: session of {cluster} goes back")
                });
                if session != disk.session {
                    disk.last_report = shared::ids::ReportSeq(0);
                }
                disk.session = session;
                disk.boot = Some(hello.boot);
                disk.behind = None;
            }
            Effect::Published(sequence) => {
                if !disk.publish(sequence) {
                    scene.trace.mark("overtaken before it was published");
                    return false;
                }
            }
            Effect::Acked(sequence, digest) => {
                scene.trace.note(
                    scene.now,
                    format_args!("hub knows that {cluster} holds {sequence} {digest}"),
                );
                scene.trace.check(sequence > disk.acked, || {
                    format!("I2: acknowledged set of {cluster} goes back")
                });
                disk.acked = sequence;
            }
            Effect::Refused(refused) => {
                scene.trace.mark("set refused");
                scene.trace.note(
                    scene.now,
                    format_args!("{cluster} refused {} {}", refused.sequence, refused.reason),
                );
            }
            Effect::Report { session, report } => {
                let bug = scene.faults.bug == Some(Bug::ReportOutOfOrder);
                let stored = match (bug, self.held_back.take()) {
                    (false, _) => vec![report],
                    // Each report waits for the next one, and is stored after it.
                    (true, None) => {
                        self.held_back = Some(report);
                        vec![]
                    }
                    (true, Some(before)) => vec![report, before],
                };
                for report in stored {
                    let (session_before, last) = (disk.session, disk.last_report);
                    let ingested = disk.ingest(session, &report, !bug);
                    changed |= ingested == Ingested::SetChanged;
                    let back = session == session_before && report.report_seq <= last;
                    scene.trace.check(ingested == Ingested::Ignored || !back, || {
                        format!("I2: report {} is stored after report {last}", report.report_seq)
                    });
                }
            }
            Effect::Behind(head) => {
                scene.trace.mark("hub behind");
                scene.trace.note(
                    scene.now,
                    format_args!("hub is behind {cluster} at {}", head.head.sequence),
                );
                disk.behind = Some((head, None));
            }
            Effect::HeldSet(head, set) => disk.behind = Some((head, Some(set))),
            Effect::PushHub(push) => {
                disk.push_hub(&push);
                changed = true;
            }
            Effect::Clone => scene
                .trace
                .check(false, || format!("{cluster} was taken for a clone")),
        }
        if changed {
            self.set_changed(cluster, scene);
        }
        true
    }
}
