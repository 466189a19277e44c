//! The conversation with the hub: exchange, hello, offers, reports, beats; no socket and no clock.
//!
//! The agent alone starts exchanges: on connect, when its hello stays unanswered, when a beat has no sealed
//! answer. A message that is sent again is a new frame; nothing depends on order, and a repeated or late one
//! changes nothing. Before an agreed session number, a learnt key or a set is used it is handed out as an
//! [`Effect`], which the shell makes durable in order.

use std::sync::Arc;

use crate::holdings::{Content, Holdings};
use crate::intake::{Demand, Held, Intake, Owner};
use crate::limits::EXCHANGE_TRIES_MAX;
use crate::pace::backoff;
use ring::rand::SecureRandom;
use shared::bundle::Encoding;
use shared::ids::{BootId, ClusterName, Digest, ReportSeq, Sequence, Session as SessionNumber};
use shared::join::Token;
use shared::keys::{KeyRing, RootPin, SignedReceipt, SigningKey};
use shared::limits::{BEAT_ANSWER_MS, BEAT_EVERY_MS, CHUNK_BYTES_MAX, RESEND_CEILING_MS, RESEND_FIRST_MS};
use shared::reason::{Code, Reason};
use shared::seal::{AgentExchange, Channel, OpenError};
use shared::set::Set;
use shared::time::{Millis, UnixSeconds};
use shared::wire::{
    Ask, Beat, Chunk, Down, Hello, Join, Joined, Kind, Report, Up, Welcome, What, X2, decode_down,
    encode_set, encode_up, open_envelope,
};

/// What makes this agent this agent.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The cluster's name.
    pub cluster: ClusterName,
    /// Hash of the hub's root key.
    pub pin: RootPin,
    /// The identity key.
    pub key: Arc<SigningKey>,
    /// This start of the process.
    pub boot: BootId,
    /// Version of the agent program.
    pub agent_version: String,
}

/// What the agent says of its member.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Member {
    /// `metadata.uid` of `kube-system`; empty while the member's API cannot be reached.
    pub kube_system_uid: String,
    /// `gitVersion`; empty if unknown.
    pub kubernetes_version: String,
}

/// What the shell has to do. In order; an effect that makes something durable comes before the one that uses it.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    /// Publish this payload.
    Send(Vec<u8>),
    /// The connection is of no use: drop it, wait, connect again.
    Reconnect,
    /// Write the key ring down.
    Learnt(Box<KeyRing>),
    /// Write the agreed session down; reports begin anew.
    Agreed(SessionNumber),
    /// Write down that the hub's time has reached this.
    Confirmed(UnixSeconds),
    /// Put contents aside.
    Keep(Vec<Content>),
    /// Commit a set, then call [`Session::handle_committed`].
    Commit {
        /// The set.
        held: Held,
        /// Contents the ledger lacks.
        contents: Vec<Content>,
    },
    /// A report is stored by the hub.
    Reported(ReportSeq),
    /// The hub lost reports that it had acknowledged: everything is reported again, numbers go on.
    Forgotten,
    /// Enrolled: write the receipt down.
    Joined(Box<SignedReceipt>),
    /// The enrolment was refused.
    JoinRefused {
        /// Why.
        reason: Code,
        /// For people.
        detail: String,
    },
    /// The enrolment is over: keep the workloads, stop talking.
    Revoked(Code),
}

/// Where the conversation stands.
#[derive(Debug)]
enum Link {
    /// No connection, or told to make another.
    Down,
    /// X1 is out.
    Exchanging {
        exchange: AgentExchange,
        x1: Vec<u8>,
        tries: u32,
        next: Millis,
    },
    /// X3 and the first message are out; nothing was opened yet, or no welcome came.
    Greeting {
        channel: Channel,
        x3: Option<Vec<u8>>,
        tries: u32,
        next: Millis,
    },
    /// Welcome.
    Open {
        channel: Channel,
        next_beat: Millis,
        answer_by: Option<Millis>,
    },
    /// Refused or revoked: silent until told otherwise.
    Over,
}

/// What the first sealed message is.
#[derive(Debug)]
enum Role {
    Join {
        token: Token,
    },
    Enrolled {
        receipt: Box<SignedReceipt>,
        intake: Box<Intake>,
    },
}

#[derive(Debug)]
struct Outgoing {
    report: Report,
    tries: u32,
    next: Millis,
}

/// The conversation of one agent.
#[derive(Debug)]
pub struct Session {
    identity: Identity,
    role: Role,
    ring: Option<KeyRing>,
    member: Member,
    link: Link,
    proposed: SessionNumber,
    agreed: Option<SessionNumber>,
    confirmed: UnixSeconds,
    outgoing: Option<Outgoing>,
    acknowledged: ReportSeq,
    effects: Vec<Effect>,
    dropped: u64,
    behind: bool,
    last_error: Option<String>,
}

/// What an enrolled agent starts with, from the ledger.
#[derive(Debug)]
pub struct Enrolled {
    /// The enrolment.
    pub receipt: SignedReceipt,
    /// Keys learnt so far.
    pub ring: KeyRing,
    /// Highest session seen plus one, already written down.
    pub proposed: SessionNumber,
    /// The hub's time as last confirmed.
    pub confirmed: UnixSeconds,
    /// The intake with what is held.
    pub intake: Intake,
}

impl Session {
    /// An enrolled agent.
    #[must_use]
    pub fn enrolled(identity: Identity, from: Enrolled) -> Self {
        let role = Role::Enrolled {
            receipt: Box::new(from.receipt),
            intake: Box::new(from.intake),
        };
        Self::new(identity, role, Some(from.ring), from.proposed, from.confirmed)
    }

    /// An agent that wants to join.
    #[must_use]
    pub fn joining(identity: Identity, token: Token) -> Self {
        Self::new(
            identity,
            Role::Join { token },
            None,
            SessionNumber(0),
            UnixSeconds(0),
        )
    }

    fn new(
        identity: Identity,
        role: Role,
        ring: Option<KeyRing>,
        proposed: SessionNumber,
        confirmed: UnixSeconds,
    ) -> Self {
        Self {
            identity,
            role,
            ring,
            member: Member::default(),
            link: Link::Down,
            proposed,
            agreed: None,
            confirmed,
            outgoing: None,
            acknowledged: ReportSeq(0),
            effects: Vec::new(),
            dropped: 0,
            behind: false,
            last_error: None,
        }
    }

    /// The owner whose sets this enrolment accepts.
    #[must_use]
    pub fn owner(receipt: &SignedReceipt) -> Owner {
        let r = &receipt.receipt;
        Owner {
            fleet: r.fleet,
            cluster: r.cluster.clone(),
            incarnation: r.incarnation,
        }
    }

    /// What the member says of itself now.
    pub fn handle_member(&mut self, member: Member) {
        self.member = member;
    }

    /// What the member said of itself last.
    #[must_use]
    pub fn member(&self) -> &Member {
        &self.member
    }

    /// What is to be done, in order.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        self.drain_intake();
        std::mem::take(&mut self.effects)
    }

    /// A connection is up and subscribed.
    pub fn handle_connected(&mut self, random: &dyn SecureRandom, now: Millis) {
        if !matches!(self.link, Link::Over) {
            self.start_exchange(random, now);
        }
    }

    /// The connection is gone.
    pub fn handle_disconnected(&mut self) {
        if !matches!(self.link, Link::Over) {
            self.link = Link::Down;
        }
    }

    /// Whether a sealed conversation with the hub is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.link, Link::Open { .. })
    }

    /// Whether the hub said that it is behind this agent.
    #[must_use]
    pub fn is_hub_behind(&self) -> bool {
        self.behind
    }

    /// Frames and messages that were dropped: of old epochs, forged, repeated, malformed.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Why the last exchange failed, if one did.
    #[must_use]
    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    /// The agreed session number, if any in this process.
    #[must_use]
    pub fn agreed(&self) -> Option<SessionNumber> {
        self.agreed
    }

    /// The accepted set.
    #[must_use]
    pub fn held(&self) -> Option<&Held> {
        self.intake().and_then(Intake::held)
    }

    /// Intake of an enrolled agent.
    #[must_use]
    pub fn intake(&self) -> Option<&Intake> {
        match &self.role {
            Role::Enrolled { intake, .. } => Some(intake),
            Role::Join { .. } => None,
        }
    }

    fn intake_mut(&mut self) -> Option<&mut Intake> {
        match &mut self.role {
            Role::Enrolled { intake, .. } => Some(intake),
            Role::Join { .. } => None,
        }
    }

    fn start_exchange(&mut self, random: &dyn SecureRandom, now: Millis) {
        let incarnation = match &self.role {
            Role::Join { .. } => None,
            Role::Enrolled { receipt, .. } => Some(receipt.receipt.incarnation),
        };
        let highest = self.ring.as_ref().map(KeyRing::newest).unwrap_or_default();
        match AgentExchange::start(random, self.identity.cluster.clone(), incarnation, highest) {
            Ok((exchange, x1)) => {
                let x1 = x1.encode();
                self.effects.push(Effect::Send(x1.clone()));
                self.link = Link::Exchanging {
                    exchange,
                    x1,
                    tries: 1,
                    next: now.plus(RESEND_FIRST_MS),
                };
            }
            Err(e) => {
                self.last_error = Some(e.to_string());
                self.give_up();
            }
        }
    }

    fn give_up(&mut self) {
        self.link = Link::Down;
        self.effects.push(Effect::Reconnect);
    }

    /// A payload came in.
    pub fn handle_payload(
        &mut self,
        payload: &[u8],
        holdings: &dyn Holdings,
        random: &dyn SecureRandom,
        now: Millis,
    ) {
        match open_envelope(payload).map(|(kind, _)| kind) {
            Ok(Kind::X2) => self.handle_x2(payload, now),
            Ok(Kind::Frame) => self.handle_frame(payload, holdings, random, now),
            _ => self.dropped += 1,
        }
    }

    fn handle_x2(&mut self, payload: &[u8], now: Millis) {
        let Ok(x2) = X2::decode(payload) else {
            self.dropped += 1;
            return;
        };
        let ours = matches!(&self.link, Link::Exchanging { exchange, .. } if exchange.id() == x2.exchange);
        if !ours {
            self.dropped += 1;
            return;
        }
        let Link::Exchanging { exchange, .. } = std::mem::replace(&mut self.link, Link::Down) else {
            return;
        };
        let fleet = self.ring.as_ref().map(KeyRing::fleet);
        let (x3, channel, shown) = match exchange.finish(&x2, &self.identity.pin, fleet, &self.identity.key) {
            Ok(done) => done,
            Err(e) => {
                self.last_error = Some(format!("{}: {e}", e.reason()));
                return self.give_up();
            }
        };
        if let Err(e) = self.learn(shown) {
            self.last_error = Some(e);
            return self.give_up();
        }
        self.last_error = None;
        self.link = Link::Greeting {
            channel,
            x3: Some(x3.encode()),
            tries: 0,
            next: now,
        };
        self.greet(now);
    }

    /// Merges the statements shown into our ring, and has it written down if it grew.
    fn learn(&mut self, shown: KeyRing) -> Result<(), String> {
        let Some(ring) = &mut self.ring else {
            self.ring = Some(shown);
            return Ok(());
        };
        let before = ring.newest();
        for statement in shown.statements() {
            ring.learn(statement)
                .map_err(|e| format!("{}: {e}", e.reason()))?;
        }
        if ring.newest() > before {
            self.effects.push(Effect::Learnt(Box::new(ring.clone())));
        }
        Ok(())
    }

    /// Sends the first message, with X3 before it until something opened.
    fn greet(&mut self, now: Millis) {
        let message = self.first_message();
        let Link::Greeting {
            channel,
            x3,
            tries,
            next,
        } = &mut self.link
        else {
            return;
        };
        *tries += 1;
        *next = now.plus(RESEND_FIRST_MS << (*tries).min(5));
        if let Some(x3) = x3 {
            self.effects.push(Effect::Send(x3.clone()));
        }
        match channel.seal(&encode_up(&message)) {
            Ok(frame) => self.effects.push(Effect::Send(frame)),
            Err(e) => {
                self.last_error = Some(e.to_string());
                self.give_up();
            }
        }
    }

    fn first_message(&self) -> Up {
        match &self.role {
            Role::Join { token } => Up::Join(Join {
                token: token.expose().to_owned(),
                kube_system_uid: self.member.kube_system_uid.clone(),
                agent_version: self.identity.agent_version.clone(),
            }),
            Role::Enrolled { receipt, intake } => Up::Hello(Hello {
                boot: self.identity.boot,
                proposed_session: self.agreed.unwrap_or(self.proposed),
                held: intake.held().map(|h| h.head.clone()),
                highest_key_number: self.ring.as_ref().map(KeyRing::newest).unwrap_or_default(),
                receipt: (**receipt).clone(),
                kube_system_uid: self.member.kube_system_uid.clone(),
                kubernetes_version: self.member.kubernetes_version.clone(),
                agent_version: self.identity.agent_version.clone(),
                confirmed_time_s: self.confirmed,
            }),
        }
    }

    fn send(&mut self, message: &Up) {
        let (Link::Open { channel, .. } | Link::Greeting { channel, .. }) = &mut self.link else {
            return;
        };
        match channel.seal(&encode_up(message)) {
            Ok(frame) => self.effects.push(Effect::Send(frame)),
            // Every channel ends after so many frames: a new exchange follows with the connection.
            Err(e @ OpenError::Exhausted) => {
                self.last_error = Some(e.to_string());
                self.give_up();
            }
            Err(e) => self.last_error = Some(e.to_string()),
        }
    }

    fn handle_frame(
        &mut self,
        payload: &[u8],
        holdings: &dyn Holdings,
        random: &dyn SecureRandom,
        now: Millis,
    ) {
        let (Link::Open { channel, .. } | Link::Greeting { channel, .. }) = &mut self.link else {
            self.dropped += 1;
            return;
        };
        let Ok(down) = channel
            .open(payload)
            .map_err(|_| ())
            .and_then(|plain| decode_down(&plain).map_err(|_| ()))
        else {
            self.dropped += 1;
            return;
        };
        match &mut self.link {
            Link::Greeting { x3, .. } => *x3 = None,
            Link::Open { answer_by, .. } => *answer_by = None,
            _ => {}
        }
        self.handle_down(down, holdings, random, now);
        self.drain_intake();
    }

    fn handle_down(&mut self, down: Down, holdings: &dyn Holdings, random: &dyn SecureRandom, now: Millis) {
        match down {
            Down::Joined(joined) => self.handle_joined(joined),
            Down::JoinRefused(refused) => {
                if matches!(self.role, Role::Join { .. }) {
                    self.link = Link::Over;
                    self.effects.push(Effect::JoinRefused {
                        reason: refused.reason,
                        detail: refused.detail,
                    });
                }
            }
            Down::Welcome(welcome) => self.handle_welcome(welcome, now),
            Down::Offer(offer) => {
                let (Some(ring), Role::Enrolled { intake, .. }) = (&self.ring, &mut self.role) else {
                    return;
                };
                intake.handle_offer(&offer, ring, holdings, now);
            }
            Down::Chunk(chunk) => {
                let (Some(ring), Role::Enrolled { intake, .. }) = (&self.ring, &mut self.role) else {
                    return;
                };
                intake.handle_chunk(&chunk, ring, holdings, now);
            }
            Down::ReportAck(ack) => self.handle_stored(ack.report_seq),
            Down::BeatAck(ack) => self.confirm(ack.confirmed_time_s),
            Down::Ask(ask) => self.answer(&ask, holdings),
            Down::Revoked(revoked) => {
                self.link = Link::Over;
                self.effects.push(Effect::Revoked(revoked.reason));
            }
        }
        let _ = random;
    }

    fn handle_joined(&mut self, joined: Joined) {
        let (Role::Join { .. }, Some(ring)) = (&self.role, &self.ring) else {
            return;
        };
        let receipt = &joined.receipt.receipt;
        let ours = receipt.cluster == self.identity.cluster && receipt.identity == self.identity.key.public();
        if !ours || joined.receipt.verify(ring).is_err() {
            self.dropped += 1;
            return;
        }
        self.confirmed = joined.confirmed_time_s;
        self.effects.push(Effect::Learnt(Box::new(ring.clone())));
        self.effects.push(Effect::Confirmed(joined.confirmed_time_s));
        self.effects.push(Effect::Joined(Box::new(joined.receipt)));
        self.link = Link::Over;
    }

    fn handle_welcome(&mut self, welcome: Welcome, now: Millis) {
        if !matches!(self.role, Role::Enrolled { .. }) {
            return;
        }
        self.behind = welcome.behind;
        self.confirm(welcome.confirmed_time_s);
        if let Link::Greeting { .. } = &self.link
            && let Link::Greeting { channel, .. } = std::mem::replace(&mut self.link, Link::Down)
        {
            self.link = Link::Open {
                channel,
                next_beat: now.plus(BEAT_EVERY_MS),
                answer_by: None,
            };
            if let Some(intake) = self.intake_mut() {
                intake.handle_hello();
            }
        }
        // A session never goes back; a repeated welcome changes nothing.
        let lowest = self.agreed.unwrap_or(self.proposed);
        if welcome.session >= lowest && self.agreed != Some(welcome.session) {
            self.agreed = Some(welcome.session);
            self.outgoing = None;
            self.acknowledged = ReportSeq(0);
            self.effects.push(Effect::Agreed(welcome.session));
            return;
        }
        if welcome.last_report < self.acknowledged {
            self.acknowledged = welcome.last_report;
            self.outgoing = None;
            self.effects.push(Effect::Forgotten);
            return;
        }
        self.handle_stored(welcome.last_report);
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.next = now;
        }
    }

    /// The hub has every report up to this number.
    fn handle_stored(&mut self, seq: ReportSeq) {
        self.acknowledged = self.acknowledged.max(seq);
        if self.outgoing.take_if(|o| o.report.report_seq <= seq).is_some() {
            self.effects.push(Effect::Reported(seq));
        }
    }

    fn confirm(&mut self, time: UnixSeconds) {
        if time > self.confirmed {
            self.confirmed = time;
            self.effects.push(Effect::Confirmed(time));
        }
    }

    /// The hub is behind and asks what we hold.
    fn answer(&mut self, ask: &Ask, holdings: &dyn Holdings) {
        let Some(held) = self.held() else { return };
        let (bytes, descriptor) = match ask.what {
            What::Set(sequence) if sequence == held.head.head.sequence => (encode_set(&held.set), None),
            What::Content(digest) if held.set.has_content(&digest) => match holdings.content(&digest) {
                Some(c) => (
                    c.bytes,
                    Some((c.descriptor.descriptor.key_number, c.descriptor.signature)),
                ),
                None => return,
            },
            _ => return,
        };
        let Some(rest) = bytes.get(ask.offset as usize..) else {
            return;
        };
        let part = rest.get(..CHUNK_BYTES_MAX).unwrap_or(rest);
        let Ok(total) = u32::try_from(bytes.len()) else {
            return;
        };
        let chunk = Chunk {
            what: ask.what,
            offset: ask.offset,
            total,
            sha256: Digest::of(&bytes),
            encoding: Encoding::Raw,
            length: total,
            descriptor: descriptor.filter(|_| ask.offset == 0),
            bytes: part.to_vec(),
        };
        self.send(&Up::Held(chunk));
    }

    fn drain_intake(&mut self) {
        let demands = self.intake_mut().map(Intake::take_demands).unwrap_or_default();
        for demand in demands {
            match demand {
                Demand::Send(message) => self.send(&message),
                Demand::Keep(contents) => self.effects.push(Effect::Keep(contents)),
                Demand::Commit { held, contents } => self.effects.push(Effect::Commit { held, contents }),
            }
        }
    }

    /// The ledger has committed the set of the last `Commit`.
    pub fn handle_committed(&mut self) {
        if let Some(intake) = self.intake_mut() {
            intake.handle_committed();
        }
        self.drain_intake();
    }

    /// The ledger could not commit it.
    pub fn handle_commit_failed(&mut self, reason: Reason, detail: &str) {
        if let Some(intake) = self.intake_mut() {
            intake.handle_commit_failed(reason, detail);
        }
        self.drain_intake();
    }

    /// Whether a report may be handed over now: the conversation is open and none is unanswered.
    #[must_use]
    pub fn wants_report(&self) -> bool {
        self.is_open() && self.agreed.is_some() && self.outgoing.is_none()
    }

    /// Sends a report and repeats it until it is acknowledged or the session changes.
    pub fn handle_report(&mut self, report: Report, now: Millis) {
        self.send(&Up::Report(report.clone()));
        self.outgoing = Some(Outgoing {
            report,
            tries: 1,
            next: now.plus(RESEND_FIRST_MS),
        });
    }

    /// Time passed.
    pub fn handle_tick(&mut self, random: &dyn SecureRandom, number: u64, now: Millis) {
        match &mut self.link {
            Link::Exchanging { x1, tries, next, .. } if *next <= now => {
                if *tries >= EXCHANGE_TRIES_MAX {
                    self.last_error = Some("the hub does not answer".to_owned());
                    return self.give_up();
                }
                *tries += 1;
                let pause = backoff(*tries, Millis(RESEND_FIRST_MS), Millis(RESEND_CEILING_MS), number);
                *next = now.plus(pause.0);
                let x1 = x1.clone();
                self.effects.push(Effect::Send(x1));
            }
            // Two unanswered hellos: the hub may have lost the exchange, so the next one is a new exchange.
            Link::Greeting { tries, next, .. } if *next <= now => match *tries {
                0 | 1 => self.greet(now),
                _ => self.start_exchange(random, now),
            },
            Link::Open {
                answer_by: Some(by), ..
            } if *by <= now => self.start_exchange(random, now),
            Link::Open {
                next_beat, answer_by, ..
            } if *next_beat <= now => {
                *next_beat = now.plus(BEAT_EVERY_MS - BEAT_EVERY_MS / 20 + number % (BEAT_EVERY_MS / 20));
                answer_by.get_or_insert(now.plus(BEAT_ANSWER_MS + number % (BEAT_ANSWER_MS / 6)));
                let (sequence, digest) = match self.held() {
                    Some(held) => (held.head.head.sequence, held.head.head.digest),
                    None => (Sequence(0), Set::default().digest()),
                };
                self.send(&Up::Beat(Beat {
                    sequence,
                    digest,
                    uptime_ms: now.0,
                }));
            }
            _ => {}
        }
        if self.is_open() {
            self.repeat_report(number, now);
            if let Some(intake) = self.intake_mut() {
                intake.handle_tick(now, number);
            }
            self.drain_intake();
        }
    }

    fn repeat_report(&mut self, number: u64, now: Millis) {
        let Some(outgoing) = self.outgoing.as_mut().filter(|o| o.next <= now) else {
            return;
        };
        outgoing.tries = outgoing.tries.saturating_add(1);
        outgoing.next = now.plus(
            backoff(
                outgoing.tries,
                Millis(RESEND_FIRST_MS),
                Millis(RESEND_CEILING_MS),
                number,
            )
            .0,
        );
        let report = outgoing.report.clone();
        self.send(&Up::Report(report));
    }

    /// When `handle_tick` has something to do, at the earliest.
    #[must_use]
    pub fn next_wake(&self) -> Option<Millis> {
        match &self.link {
            Link::Down | Link::Over => None,
            Link::Exchanging { next, .. } | Link::Greeting { next, .. } => Some(*next),
            Link::Open {
                next_beat, answer_by, ..
            } => [
                Some(*next_beat),
                *answer_by,
                self.outgoing.as_ref().map(|o| o.next),
                self.intake().and_then(Intake::next_wake),
            ]
            .into_iter()
            .flatten()
            .min(),
        }
    }
}
