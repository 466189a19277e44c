//! Shipping the sets of one cluster: which message goes to its agent now.
//!
//! A [`Ship`] is the hub's half of one cluster's conversation, without I/O: [`Ship::handle`] takes what happened,
//! [`Ship::poll`] hands out what to do. Outputs are carried out **in order**, and an [`Output::Store`] must be durable
//! before the next output is carried out; if it fails, the ship is dropped and built again from the store, which is
//! the same as a restart. So a set is marked published before it is sent, a session is written down before it is
//! welcomed, and a report is stored before it is answered.
//!
//! Rules: nothing is offered before the hello. What the agent holds (its signed head) decides: equal to ours is in
//! sync; a sequence above ours, or one of ours with another digest, is `HubBehind`: nothing is offered, the hub asks
//! for what the agent holds, until somebody decides; anything older gets the newest set. An offer is repeated, with
//! backoff, jitter and a ceiling, until it is acknowledged or refused; a newer set supersedes it.
//!
//! What an agent holds may change past its hello: a set on its way, of a hub that was set back since, became whole. Its
//! acknowledgement, beat or refusal then names what this hub did not make. Only a signed head can say so for sure, and
//! only a hello carries one, so the conversation ends ([`Output::Hangup`]) and the next hello decides.

mod behind;
mod encodings;
mod offers;
mod parts;
mod sessions;

use std::sync::Arc;

use shared::ids::{ClusterName, Digest, FleetId, Incarnation, Sequence, Session};
use shared::keys::{HubKeys, KeyRing};
use shared::reason::{Code, Reason};
use shared::set::{Set, SignedHead};
use shared::time::{Millis, UnixSeconds};
use shared::wire::{Ack, BeatAck, Down, Hello, Refused, Report, ReportAck, Up, Welcome, What};

use crate::intake::{self, Budget, ReportMark, Verdict};

pub use behind::{PushHub, Winner};
pub use encodings::Encodings;
pub use sessions::Boots;

use behind::{Asking, Position};
use offers::Offering;

/// Who the agent is, as enrolled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enrolled {
    /// The fleet.
    pub fleet: FleetId,
    /// The cluster.
    pub cluster: ClusterName,
    /// The enrolment.
    pub incarnation: Incarnation,
}

/// A head the hub has made, as kept in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadRecord {
    /// Its sequence.
    pub sequence: Sequence,
    /// Its set digest.
    pub digest: Digest,
}

/// What the store knows of a cluster when its ship is built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Highest session agreed.
    pub session: Session,
    /// Boot of that session, if any.
    pub boot: Option<shared::ids::BootId>,
    /// Highest report stored of that session.
    pub last_report: shared::ids::ReportSeq,
    /// Last acknowledged set; zero if none.
    pub acked: Sequence,
    /// Digests of the last heads, rising: the last 64, and all since the last acknowledged.
    pub heads: Vec<HeadRecord>,
    /// Sequence of the newest set that was marked published.
    pub published: Sequence,
    /// Two agents run with this identity; nothing new is shipped.
    pub clone: bool,
}

/// The newest set of a cluster.
#[derive(Clone, Debug)]
pub struct Current {
    /// Its sequence.
    pub sequence: Sequence,
    /// Its digest.
    pub digest: Digest,
    /// The set.
    pub set: Arc<Set>,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// A new exchange is proven; whatever was connected before is gone.
    Connected,
    /// The connection is gone.
    Disconnected,
    /// A message was opened. `bytes` is its sealed size, for the report budget.
    Message {
        /// The message.
        up: Box<Up>,
        /// Sealed size.
        bytes: u64,
    },
    /// The cluster's newest set, at start and whenever it changed.
    Set(Current),
    /// [`Ship::wake_at`] has come.
    Tick,
    /// An operator decided who wins over what the agent holds and the hub does not want.
    PushHub(Winner),
    /// The offer of this set did not leave: a newer set was made before it was marked published.
    Unsent(Sequence),
}

/// What to do. In order; see the module's text.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Seal and send.
    Send(Down),
    /// Make durable.
    Store(Effect),
    /// Tell operators; needs no durability.
    Note(Reason, String),
    /// End the conversation: the agent is to say hello again.
    Hangup,
}

/// What to make durable.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// An agreed session, and what the hello said.
    Hello {
        /// Agreed session.
        session: Session,
        /// The hello.
        hello: Box<Hello>,
    },
    /// The set of this sequence is about to be sent: from now on its entries leave tombstones.
    Published(Sequence),
    /// The agent has committed this set.
    Acked(Sequence, Digest),
    /// The agent refused this set.
    Refused(Refused),
    /// A report to ingest, with the executed tombstones in it.
    Report {
        /// Session it belongs to.
        session: Session,
        /// The report.
        report: Box<Report>,
    },
    /// The hub is behind what the agent holds.
    Behind(SignedHead),
    /// The set that a `HubBehind` agent holds, complete and of the digest in its head.
    HeldSet(SignedHead, Arc<Set>),
    /// Adopt above both sides, with these tombstones; ends `HubBehind`. A [`Event::Set`] must follow.
    PushHub(PushHub),
    /// Two agents run with this identity.
    Clone,
}

/// Contents by digest, from the store or its cache.
pub trait Shelf {
    /// The canonical bytes of a digest.
    fn content(&self, digest: &Digest) -> Option<Arc<[u8]>>;
}

/// What a ship borrows for one call.
pub struct Desk<'a> {
    /// The hub's keys.
    pub keys: &'a HubKeys,
    /// Contents.
    pub shelf: &'a dyn Shelf,
    /// Encodings shared by all ships.
    pub encodings: &'a mut Encodings,
    /// For jitter.
    pub random: &'a mut dyn FnMut() -> u64,
    /// The hub's wall clock.
    pub time: UnixSeconds,
}

impl std::fmt::Debug for Desk<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Desk")
    }
}

/// Where the conversation stands.
#[derive(Debug)]
enum Talk {
    /// No connection.
    Away,
    /// Connected, no hello yet.
    Silent,
    /// The agent is known and can be offered sets.
    Ready,
    /// The hub is behind; nothing is offered.
    Behind(Box<Asking>),
    /// A clone; nothing is offered.
    Clone,
}

/// The hub's half of one cluster's conversation.
#[derive(Debug)]
pub struct Ship {
    enrolled: Enrolled,
    known: Known,
    boots: Boots,
    talk: Talk,
    /// What the agent holds, as far as we know in this conversation.
    held: Option<HeadRecord>,
    current: Option<Current>,
    offering: Offering,
    /// What the last conversation was ended for; once for the same words, however the hello after it is judged.
    doubted: Option<HeadRecord>,
    budget: Budget,
    outputs: std::collections::VecDeque<Output>,
}

impl Ship {
    /// A ship from what the store knows. Feed it [`Event::Set`] next, if there is a set.
    #[must_use]
    pub fn new(enrolled: Enrolled, known: Known, boots: Boots) -> Self {
        let talk = Talk::Away;
        Self {
            enrolled,
            known,
            boots,
            talk,
            held: None,
            current: None,
            offering: Offering::default(),
            doubted: None,
            budget: Budget::default(),
            outputs: std::collections::VecDeque::new(),
        }
    }

    /// The next thing to do, if any.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to send [`Event::Tick`], if ever.
    #[must_use]
    pub fn wake_at(&self) -> Option<Millis> {
        match &self.talk {
            Talk::Ready => self.offering.wake_at(),
            Talk::Behind(asking) => asking.wake_at(),
            Talk::Away | Talk::Silent | Talk::Clone => None,
        }
    }

    /// Whether the agent holds the newest set.
    #[must_use]
    pub fn in_sync(&self) -> bool {
        match (&self.held, &self.current) {
            (Some(held), Some(current)) => held.digest == current.digest && held.sequence == current.sequence,
            (None, None) => true,
            _ => false,
        }
    }

    /// Whether the hub is behind this agent.
    #[must_use]
    pub const fn is_behind(&self) -> bool {
        matches!(self.talk, Talk::Behind(_))
    }

    /// Boot ids seen lately; kept by the caller over a rebuild of the ship, so that a clone is still noticed.
    #[must_use]
    pub fn boots(&self) -> &Boots {
        &self.boots
    }

    /// Takes in what happened.
    pub fn handle(&mut self, now: Millis, event: Event, desk: &mut Desk<'_>) {
        match event {
            Event::Connected => {
                self.talk = Talk::Silent;
                self.held = None;
                self.offering.reset();
                self.outputs.retain(|o| matches!(o, Output::Store(_)));
            }
            Event::Disconnected => {
                self.talk = Talk::Away;
                self.offering.reset();
                self.outputs.retain(|o| matches!(o, Output::Store(_)));
            }
            Event::Message { up, bytes } => self.handle_message(now, *up, bytes, desk),
            Event::Set(current) => self.handle_set(now, current, desk),
            Event::Tick => self.handle_tick(now, desk),
            Event::PushHub(winner) => self.handle_push_hub(winner),
            Event::Unsent(sequence) => self.handle_unsent(now, sequence, desk),
        }
    }

    fn handle_message(&mut self, now: Millis, up: Up, bytes: u64, desk: &mut Desk<'_>) {
        if matches!(self.talk, Talk::Away) {
            return;
        }
        match up {
            Up::Hello(hello) => return self.handle_hello(now, hello, desk),
            Up::Join(_) => return self.note(Reason::Malformed, "a join from an enrolled agent"),
            _ => {}
        }
        if matches!(self.talk, Talk::Silent) {
            // Whatever comes before the hello is of no use; the agent repeats it after the welcome.
            return;
        }
        match up {
            Up::Ack(Ack { sequence, digest }) => self.handle_held(now, sequence, digest, desk),
            Up::Beat(beat) => {
                self.handle_held(now, beat.sequence, beat.digest, desk);
                if matches!(self.talk, Talk::Silent) {
                    return;
                }
                let sequence = self.current.as_ref().map(|c| c.sequence).unwrap_or_default();
                self.send(Down::BeatAck(BeatAck {
                    confirmed_time_s: desk.time,
                    sequence,
                }));
            }
            Up::Refused(refused) => self.handle_refused(refused),
            Up::Want(want) => self.handle_want(now, &want, desk),
            Up::Report(report) => self.handle_report(now, report, bytes),
            Up::Held(chunk) => self.handle_held_chunk(now, &chunk, desk),
            // Presence and facts are the courier's; nothing of a set depends on them.
            Up::Member(_) | Up::Room(_) | Up::Hello(_) | Up::Join(_) => {}
        }
    }

    fn handle_hello(&mut self, now: Millis, hello: Hello, desk: &mut Desk<'_>) {
        let ring = desk.keys.ring();
        if let Some(problem) = self.foreign(&hello, &ring) {
            return self.note(Reason::ForeignCluster, problem);
        }
        let clone_before = self.known.clone;
        let agreed = self.boots.agree(now, &hello, &self.known);
        self.known.clone |= agreed.clone;
        if agreed.session != self.known.session {
            self.known.last_report = shared::ids::ReportSeq(0);
        }
        self.known.session = agreed.session;
        self.known.boot = Some(hello.boot);
        let position = behind::position(&hello, &self.known, self.enrolled.incarnation, &ring);
        self.outputs.push_back(Output::Store(Effect::Hello {
            session: agreed.session,
            hello: Box::new(hello),
        }));
        if self.known.clone && !clone_before {
            self.outputs.push_back(Output::Store(Effect::Clone));
        }
        if agreed.restored {
            self.note(
                Reason::AgentRestored,
                "the agent proposed a session that the hub had passed",
            );
        }
        self.send(Down::Welcome(Welcome {
            session: agreed.session,
            confirmed_time_s: desk.time,
            last_report: self.known.last_report,
            behind: matches!(position, Position::HubBehind(_)),
        }));
        self.offering.reset();
        self.held = None;
        if self.known.clone {
            self.talk = Talk::Clone;
            return;
        }
        self.talk = Talk::Ready;
        match position {
            Position::Nothing => self.offer_if_needed(now, desk),
            Position::Holds(record) => {
                self.held = Some(record);
                self.acknowledged(record);
                self.offer_if_needed(now, desk);
            }
            Position::Older(record) => {
                self.held = Some(record);
                if record.sequence < self.known.acked {
                    self.note(
                        Reason::AgentRestored,
                        "the agent holds an older set than it acknowledged",
                    );
                }
                self.offer_if_needed(now, desk);
            }
            Position::HubBehind(head) => self.begin_behind(now, *head, desk),
        }
    }

    /// Why a hello is not of this enrolment. The exchange has proven the identity key already.
    fn foreign(&self, hello: &Hello, ring: &KeyRing) -> Option<&'static str> {
        let receipt = &hello.receipt.receipt;
        if receipt.cluster != self.enrolled.cluster || receipt.incarnation != self.enrolled.incarnation {
            return Some("the hello shows a receipt of another enrolment");
        }
        // A receipt under a key that this hub does not have is shown by a cluster that was enrolled later than this
        // hub's state; the exchange decides who it is, and its held head decides who is behind.
        match hello.receipt.verify(ring) {
            Err(shared::keys::KeyError::BadSignature(_) | shared::keys::KeyError::OtherFleet { .. }) => {
                Some("the hello shows a receipt that does not verify")
            }
            _ => None,
        }
    }

    fn handle_set(&mut self, now: Millis, current: Current, desk: &mut Desk<'_>) {
        let newer = self
            .current
            .as_ref()
            .is_none_or(|c| current.sequence > c.sequence);
        if !newer {
            return;
        }
        if self
            .known
            .heads
            .last()
            .is_none_or(|h| h.sequence < current.sequence)
        {
            self.known.heads.push(HeadRecord {
                sequence: current.sequence,
                digest: current.digest,
            });
            self.trim_heads();
        }
        self.current = Some(current);
        self.offering.set_changed();
        self.offer_if_needed(now, desk);
    }

    /// What did not leave is not in flight: without this, two of them would keep the next set until a repeat is due.
    fn handle_unsent(&mut self, now: Millis, sequence: Sequence, desk: &mut Desk<'_>) {
        self.offering.unsent();
        if self
            .current
            .as_ref()
            .is_some_and(|current| current.sequence > sequence)
        {
            self.offer_if_needed(now, desk);
        }
    }

    /// Keeps the last 64 heads and all since the last acknowledged.
    fn trim_heads(&mut self) {
        let acked = self.known.acked;
        let surplus = self.known.heads.len().saturating_sub(shared::limits::HEADS_KEPT);
        let mut seen = 0;
        self.known.heads.retain(|h| {
            seen += 1;
            seen > surplus || h.sequence >= acked
        });
    }

    fn handle_tick(&mut self, now: Millis, desk: &mut Desk<'_>) {
        match &mut self.talk {
            Talk::Ready => {
                if self.offering.due(now) {
                    self.offer(now, desk);
                }
            }
            Talk::Behind(asking) => {
                if let Some(ask) = asking.due(now, desk.random) {
                    self.send(Down::Ask(ask));
                }
            }
            Talk::Away | Talk::Silent | Talk::Clone => {}
        }
    }

    /// The agent says that it holds a set (acknowledgement or beat).
    fn handle_held(&mut self, now: Millis, sequence: Sequence, digest: Digest, desk: &mut Desk<'_>) {
        if !matches!(self.talk, Talk::Ready) || sequence == Sequence(0) {
            return;
        }
        let record = HeadRecord { sequence, digest };
        if self.held.is_some_and(|h| h == record || h.sequence > sequence) {
            // A late or repeated word; it neither moves what we know nor starts anything.
            return;
        }
        if !self.known.heads.contains(&record) {
            if !self.doubts(record) {
                self.note(
                    Reason::SequenceReused,
                    "the agent still says that it holds a set that this hub did not make",
                );
            }
            return;
        }
        if behind::withdrew_since(&self.known, record) && self.doubts(record) {
            return;
        }
        self.held = Some(record);
        self.acknowledged(record);
        self.offering.acknowledged(sequence);
        self.offer_if_needed(now, desk);
    }

    /// Ends the conversation over what the agent says of its set; false: that was done for the same words already.
    fn doubts(&mut self, record: HeadRecord) -> bool {
        if self.doubted == Some(record) {
            return false;
        }
        self.doubted = Some(record);
        self.note(
            Reason::SequenceReused,
            "the agent holds a set that this hub did not make; its next hello says more",
        );
        self.talk = Talk::Silent;
        self.held = None;
        self.offering.reset();
        self.outputs.push_back(Output::Hangup);
        true
    }

    fn acknowledged(&mut self, record: HeadRecord) {
        if self.known.published < record.sequence {
            // Restored from just before the mark; nothing newer exists, so nothing is lost.
            self.known.published = record.sequence;
            self.outputs
                .push_back(Output::Store(Effect::Published(record.sequence)));
        }
        if record.sequence > self.known.acked {
            self.known.acked = record.sequence;
            self.outputs
                .push_back(Output::Store(Effect::Acked(record.sequence, record.digest)));
            self.trim_heads();
        }
    }

    fn handle_refused(&mut self, refused: Refused) {
        let ours = self
            .current
            .as_ref()
            .is_some_and(|c| c.sequence == refused.sequence && c.digest == refused.digest);
        if ours && matches!(self.talk, Talk::Ready) {
            let holds_another = matches!(
                refused.reason,
                Code::Known(Reason::SequenceReused | Reason::StaleSequence)
            );
            let record = HeadRecord {
                sequence: refused.sequence,
                digest: refused.digest,
            };
            if holds_another && self.doubts(record) {
                return;
            }
            self.offering.refused();
            self.outputs.push_back(Output::Store(Effect::Refused(refused)));
        }
    }

    fn handle_report(&mut self, now: Millis, report: Report, bytes: u64) {
        let mark = ReportMark {
            session: self.known.session,
            report_seq: self.known.last_report,
        };
        let boot = self.known.boot;
        match intake::judge(
            mark,
            self.known.session,
            boot,
            &report,
            &mut self.budget,
            now,
            bytes,
        ) {
            Verdict::Ingest => {
                self.known.last_report = report.report_seq;
                let session = self.known.session;
                let ack = ReportAck {
                    report_seq: report.report_seq,
                };
                self.outputs.push_back(Output::Store(Effect::Report {
                    session,
                    report: Box::new(report),
                }));
                self.send(Down::ReportAck(ack));
            }
            Verdict::Repeated => self.send(Down::ReportAck(ReportAck {
                report_seq: self.known.last_report,
            })),
            Verdict::Ignored(reason) => self.note(reason, "a report was ignored"),
        }
    }

    fn offer_if_needed(&mut self, now: Millis, desk: &mut Desk<'_>) {
        if matches!(self.talk, Talk::Ready) && self.offering.may_offer() {
            self.offer(now, desk);
        }
    }

    fn offer(&mut self, now: Millis, desk: &mut Desk<'_>) {
        let Some(current) = self.current.clone() else {
            return;
        };
        // Never backwards: between a push-hub and the set that it makes, ours is the older one.
        if self.held.is_some_and(|h| h.sequence >= current.sequence) {
            return self.offering.settle();
        }
        let offer = self
            .offering
            .build(&self.enrolled, &current, self.held.as_ref(), desk);
        if self.known.published < current.sequence {
            self.known.published = current.sequence;
            self.outputs
                .push_back(Output::Store(Effect::Published(current.sequence)));
        }
        self.send(Down::Offer(Box::new(offer)));
        self.offering.sent(now, &current, desk.random);
    }

    fn handle_want(&mut self, now: Millis, want: &shared::wire::Want, desk: &mut Desk<'_>) {
        if !matches!(self.talk, Talk::Ready) || self.outputs.len() >= shared::limits::SHIP_OUTPUTS_MAX {
            return;
        }
        let Some(current) = &self.current else { return };
        let answer = match want.what {
            What::Set(sequence) if sequence == current.sequence => parts::set_chunk(current, want, desk),
            What::Content(digest) if current.set.has_content(&digest) => {
                let may_use =
                    |base: &Digest| current.set.has_content(base) || self.offering.knows_content(base);
                parts::content_chunk(&digest, want, may_use, desk)
            }
            _ => None,
        };
        if let Some(chunk) = answer {
            self.offering.progress(now, desk.random);
            self.send(Down::Chunk(chunk));
        }
    }

    fn begin_behind(&mut self, now: Millis, head: SignedHead, desk: &mut Desk<'_>) {
        self.outputs
            .push_back(Output::Store(Effect::Behind(head.clone())));
        let (asking, ask) = Asking::begin(head, now, desk.random);
        self.talk = Talk::Behind(Box::new(asking));
        self.send(Down::Ask(ask));
    }

    fn handle_held_chunk(&mut self, now: Millis, chunk: &shared::wire::Chunk, desk: &mut Desk<'_>) {
        let Talk::Behind(asking) = &mut self.talk else {
            return;
        };
        let before = asking.set().is_some();
        let ask = asking.take(chunk, now, desk.random);
        if let (false, Some(set)) = (before, asking.set()) {
            let effect = Effect::HeldSet(asking.head().clone(), set);
            self.outputs.push_back(Output::Store(effect));
        }
        if let Some(ask) = ask {
            self.send(Down::Ask(ask));
        }
    }

    fn handle_push_hub(&mut self, winner: Winner) {
        let Talk::Behind(asking) = &self.talk else {
            return self.note(Reason::HubBehind, "push-hub without a HubBehind agent connected");
        };
        let Some(held) = asking.set() else {
            return self.note(
                Reason::HubBehind,
                "push-hub has to wait for the set that the agent holds",
            );
        };
        let head = asking.head().head.clone();
        let ours = self.current.as_ref().map(|c| (c.sequence, Arc::clone(&c.set)));
        let push = PushHub::decide(
            &head,
            &held,
            ours.as_ref().map(|(s, set)| (*s, set.as_ref())),
            winner,
        );
        let record = HeadRecord {
            sequence: head.sequence,
            digest: head.digest,
        };
        // From here on the agent's set is a base like any other.
        self.offering.learn_base(record, held);
        self.known.heads.retain(|h| h.sequence != record.sequence);
        self.known.heads.push(record);
        self.known.heads.sort_by_key(|h| h.sequence);
        self.known.published = record.sequence;
        self.known.acked = record.sequence;
        self.held = Some(record);
        self.talk = Talk::Ready;
        self.offering.settle();
        self.outputs.push_back(Output::Store(Effect::PushHub(push)));
    }

    fn send(&mut self, down: Down) {
        self.outputs.push_back(Output::Send(down));
    }

    fn note(&mut self, reason: Reason, text: &str) {
        if self.outputs.len() < shared::limits::SHIP_OUTPUTS_MAX {
            self.outputs.push_back(Output::Note(reason, text.into()));
        }
    }
}

#[cfg(test)]
mod tests;
