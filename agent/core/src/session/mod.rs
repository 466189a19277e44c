//! The conversation with the hub: exchange, hello, offers, reports, beats; no socket and no clock.
//!
//! The agent alone starts exchanges: on connect, when its hello stays unanswered, when a beat has no sealed
//! answer. A message that is sent again is a new frame; nothing depends on order, and a repeated or late one
//! changes nothing. Before an agreed session number, a learnt key or a set is used it is handed out as an
//! [`Effect`], which the shell makes durable in order.

mod exchange;
mod hear;
mod notes;
mod tick;

use std::sync::Arc;

use crate::holdings::Content;
use crate::intake::{Held, Intake, Owner};
use ring::rand::SecureRandom;
use shared::ids::{BootId, ClusterName, ReportSeq, Session as SessionNumber};
use shared::join::Token;
use shared::keys::{KeyRing, RootPin, SignedReceipt, SigningKey};
use shared::reason::{Code, Reason};
use shared::seal::{AgentExchange, Channel};
use shared::time::{Millis, UnixSeconds};
use shared::wire::{Report, SealingKey};

use notes::Notes;

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
    /// The key under which sets come in files; the hub says it with every welcome.
    SealingKey(SealingKey),
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
    notes: Notes,
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
            notes: Notes::default(),
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

    /// The hub's time as last confirmed; zero if never.
    #[must_use]
    pub fn confirmed(&self) -> UnixSeconds {
        self.confirmed
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

    pub(super) fn intake_mut(&mut self) -> Option<&mut Intake> {
        match &mut self.role {
            Role::Enrolled { intake, .. } => Some(intake),
            Role::Join { .. } => None,
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
}
