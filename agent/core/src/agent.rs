//! The whole agent without its shell: conversation, engine and reporter wired together.
//!
//! The shell (and the simulation) feeds it facts and carries out its [`Effect`]s and [`Action`]s. Order matters in
//! one place only: effects are carried out in the order given, and what must be durable is durable before the
//! next one is looked at.

use std::collections::BTreeSet;

use crate::action::{Action, Outcome};
use crate::engine::Engine;
use crate::holdings::Holdings;
use crate::record::{Intent, ObjectRecord};
use crate::report::Reporter;
use crate::session::{Effect, Enrolled, Identity, Member, Session};
use crate::target::Phase;
use ring::rand::SecureRandom;
use shared::ids::ObjectKey;
use shared::reason::Reason;
use shared::time::Millis;
use shared::wire::{Capacity, MemberNote, Room};

/// An enrolled agent.
#[derive(Debug)]
pub struct Agent {
    session: Session,
    engine: Engine,
    reporter: Reporter,
}

impl Agent {
    /// Starts from the ledger. The held set, if any, is acted on at once, before any connection.
    #[must_use]
    pub fn new(
        identity: Identity,
        enrolled: Enrolled,
        records: Vec<ObjectRecord>,
        intents: Vec<Intent>,
        now: Millis,
    ) -> Self {
        let reporter = Reporter::new(identity.boot);
        let session = Session::enrolled(identity, enrolled);
        let engine = Engine::new(records, intents, now);
        let mut agent = Self {
            session,
            engine,
            reporter,
        };
        agent.take_held(now);
        agent
    }

    fn take_held(&mut self, now: Millis) {
        if let Some(intake) = self.session.intake()
            && let Some(held) = intake.held()
        {
            self.engine.handle_set(&held.set, intake.facts(), now);
        }
    }

    /// The conversation, for looking at.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The engine, for looking at.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// A connection is up and subscribed.
    pub fn handle_connected(&mut self, random: &dyn SecureRandom, now: Millis) {
        self.session.handle_connected(random, now);
    }

    /// The connection is gone.
    pub fn handle_disconnected(&mut self) {
        self.session.handle_disconnected();
    }

    /// A payload came in.
    pub fn handle_payload(&mut self, payload: &[u8], holdings: &dyn Holdings, now: Millis) {
        self.session.handle_payload(payload, holdings, now);
    }

    /// What the member says of itself.
    pub fn handle_member(&mut self, member: Member) {
        self.session.handle_member(member);
    }

    /// How the member's API stands.
    pub fn handle_note(&mut self, note: MemberNote) {
        self.session.handle_note(note);
    }

    /// Where the member has room; material changes only.
    pub fn handle_room(&mut self, room: Room) {
        self.session.handle_room(room);
    }

    /// The member's API answers again: what failed because it did not is tried at once, and everything is read again.
    pub fn handle_member_back(&mut self) {
        self.engine.handle_member_back();
    }

    /// The member's capacity was measured.
    pub fn handle_capacity(&mut self, capacity: Capacity, now: Millis) {
        self.reporter.handle_capacity(capacity, now);
    }

    /// Other customizations are in use now, for these API versions and kinds.
    pub fn handle_customized(&mut self, kinds: &BTreeSet<(String, String)>) {
        self.engine.handle_customized(kinds);
    }

    /// An object changed in the member.
    pub fn handle_changed(&mut self, key: &ObjectKey, resource_version: Option<&str>) {
        self.engine.handle_changed(key, resource_version);
    }

    /// Everything is to be read again: watches lost their place or the member's API came back.
    pub fn handle_resync(&mut self) {
        self.engine.handle_resync();
    }

    /// The ledger has committed the set of the last [`Effect::Commit`]: it is acknowledged and acted on.
    pub fn handle_committed(&mut self, now: Millis) {
        let sequence = |agent: &Self| agent.session.held().map(|h| h.head.head.sequence);
        let before = sequence(self);
        self.session.handle_committed();
        self.take_held(now);
        // In a set that never came by, an entry may have been withdrawn, its status forgotten by the hub, and the same
        // entry be back in this one. A tombstone that was carried out and is still there was not heard of, or was
        // taken over from us by a hub that went back.
        let skipped = matches!((before, sequence(self)), (Some(b), Some(a)) if a > b.next());
        let again = self
            .engine
            .targets()
            .filter(|(_, t)| skipped || matches!(t.phase(), Phase::Buried(_)));
        let again: BTreeSet<ObjectKey> = again.map(|(key, _)| key.clone()).collect();
        self.reporter.handle_changed(again, now);
    }

    /// The ledger could not commit it.
    pub fn handle_commit_failed(&mut self, reason: Reason, detail: &str) {
        self.session.handle_commit_failed(reason, detail);
    }

    /// An action ended.
    pub fn handle_outcome(&mut self, key: &ObjectKey, outcome: Outcome, now: Millis, random: u64) {
        self.engine.handle_outcome(key, outcome, now, random);
    }

    /// Time passed: repeats what is unanswered, and hands the next report to the conversation.
    pub fn handle_tick(&mut self, random: &dyn SecureRandom, number: u64, now: Millis) {
        self.session.handle_tick(random, number, now);
        self.reporter.handle_changed(self.engine.take_changed(), now);
        if self.session.wants_report()
            && let Some(report) = self.reporter.poll_report(&self.engine, now)
        {
            self.session.handle_report(report, now);
        }
    }

    /// What is to be done, in order. Call it after every `handle_*`, and again after carrying effects out, until
    /// it gives nothing.
    pub fn take_effects(&mut self, now: Millis) -> Vec<Effect> {
        let effects = self.session.take_effects();
        for effect in &effects {
            match effect {
                Effect::Agreed(_) => self.reporter.handle_agreed(&self.engine, now),
                Effect::Forgotten => self.reporter.handle_forgotten(&self.engine, now),
                Effect::Reported(seq) => self.reporter.handle_acknowledged(*seq),
                _ => {}
            }
        }
        effects
    }

    /// The next action on the member, if one is due.
    pub fn poll_action(&mut self, now: Millis, random: &mut dyn FnMut() -> u64) -> Option<Action> {
        self.engine.poll_action(now, random)
    }

    /// Targets whose phase changed since the last call, for notes beside the reports.
    pub fn take_noted(&mut self) -> BTreeSet<ObjectKey> {
        self.engine.take_noted()
    }

    /// `apiVersion` and kind of what is worth watching, when it changed.
    pub fn take_kinds_in_use(&mut self) -> Option<std::collections::BTreeSet<(String, String)>> {
        self.engine.take_kinds_in_use()
    }

    /// When `handle_tick` or `poll_action` may have something without any new fact.
    #[must_use]
    pub fn next_wake(&self) -> Option<Millis> {
        let report = if self.session.wants_report() {
            self.reporter.next_wake()
        } else {
            None
        };
        [self.session.next_wake(), self.engine.next_wake(), report]
            .into_iter()
            .flatten()
            .min()
    }
}
