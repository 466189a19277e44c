//! Stage 14: keeps every target and hands out the next actions.
//!
//! `handle_*` takes facts in, `poll_action` hands work out. The caller carries one action out after the other
//! (or up to the limit at once) and answers each with an `Outcome`. Restarting with the ledger's records
//! alone is the same code with nothing seen yet.

mod consider;

use std::collections::{BTreeMap, BTreeSet};

use shared::ids::{Digest, ObjectKey};
use shared::reason::Reason;
use shared::set::Set;
use shared::time::Millis;

use crate::action::Action;
use crate::diff::{Seen, Want};
use crate::facts::ContentFacts;
use crate::limits::IN_FLIGHT;
use crate::order::{self, Rank};
use crate::record::{Intent, ObjectRecord};
use crate::target::{Phase, Target};

/// Keeps the targets of one member and decides what is done next.
#[derive(Debug, Default)]
pub struct Engine {
    pub(crate) targets: BTreeMap<ObjectKey, Target>,
    /// Which CRD entry defines a group and kind.
    defined: BTreeMap<(String, String), ObjectKey>,
    timed: BTreeSet<(Millis, ObjectKey)>,
    due: BTreeSet<(Rank, ObjectKey)>,
    waiters: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// Entries other than interceptors that were not tried since they were accepted.
    fresh: BTreeSet<ObjectKey>,
    in_flight: usize,
    pub(crate) changed: BTreeSet<ObjectKey>,
    /// The same for who keeps notes beside the reporter.
    pub(crate) noted: BTreeSet<ObjectKey>,
    /// Which kinds are in use may have changed.
    pub(crate) kinds_stale: bool,
}

impl Engine {
    /// Starts from the ledger: its records and open intents. Call [`Self::handle_set`] next if a set is held.
    #[must_use]
    pub fn new(records: Vec<ObjectRecord>, intents: Vec<Intent>, now: Millis) -> Self {
        let mut engine = Self {
            kinds_stale: true,
            ..Self::default()
        };
        for record in records {
            let mut target = Target::new(Want::Stray, record.api_version.clone(), now);
            target.phase = Phase::Stray;
            target.from_ledger = true;
            let key = record.key.clone();
            target.record = Some(record);
            engine.targets.insert(key, target);
        }
        for intent in intents {
            let key = intent.key.clone();
            let target = engine
                .targets
                .entry(key)
                .or_insert_with(|| Target::new(Want::Stray, intent.api_version.clone(), now));
            target.intent = Some(intent);
        }
        engine
    }

    /// Takes a set that the ledger has committed. Entries that vanished without a tombstone become strays;
    /// nothing is deleted for being absent.
    pub fn handle_set(&mut self, set: &Set, facts: &BTreeMap<Digest, ContentFacts>, now: Millis) {
        self.defined.clear();
        self.kinds_stale = true;
        let mut spoken_of = BTreeSet::new();
        for entry in set.entries() {
            let known = facts.get(&entry.digest);
            if let Some((group, kind)) = known.and_then(|f| f.defines.clone()) {
                self.defined.insert((group, kind), entry.key.clone());
            }
            let version = known.map(|f| f.api_version.clone()).unwrap_or_default();
            spoken_of.insert(entry.key.clone());
            self.want(&entry.key, Want::Entry(entry.clone()), version, now);
        }
        for tombstone in set.tombstones() {
            spoken_of.insert(tombstone.key.clone());
            self.want(
                &tombstone.key,
                Want::Tombstone(tombstone.clone()),
                String::new(),
                now,
            );
        }
        let strays: Vec<ObjectKey> = self
            .targets
            .keys()
            .filter(|k| !spoken_of.contains(*k))
            .cloned()
            .collect();
        for key in strays {
            let keep = self
                .targets
                .get(&key)
                .is_some_and(|t| t.record.is_some() || t.intent.is_some() || t.busy);
            if keep {
                self.want(&key, Want::Stray, String::new(), now);
            } else {
                self.targets.remove(&key);
                self.fresh.remove(&key);
                self.changed.remove(&key);
                self.noted.insert(key);
            }
        }
    }

    fn want(&mut self, key: &ObjectKey, want: Want, version: String, now: Millis) {
        let interceptor = order::is_interceptor(key);
        let target = self
            .targets
            .entry(key.clone())
            .or_insert_with(|| Target::new(want.clone(), version.clone(), now));
        if !version.is_empty() {
            target.api_version = version;
        }
        let same = target.want == want && target.phase != Phase::Pending;
        if same {
            return;
        }
        let is_entry = matches!(want, Want::Entry(_));
        target.want = want;
        target.wanted_at = now;
        target.tried = false;
        target.pace.reset();
        // Read again even where the content is unchanged: what is reported names the template's generation.
        target.seen = Seen::Unknown;
        target.phase = if target.want == Want::Stray {
            Phase::Stray
        } else {
            Phase::Pending
        };
        target.since = now;
        if is_entry && !interceptor {
            self.fresh.insert(key.clone());
        } else {
            self.fresh.remove(key);
        }
        self.changed.insert(key.clone());
        self.make_due(key);
    }

    /// The object changed in the member (a watch said so, or its list did): it is read again.
    /// `resource_version`, if known, spares the read of what we have just written ourselves.
    pub fn handle_changed(&mut self, key: &ObjectKey, resource_version: Option<&str>) {
        let Some(target) = self.targets.get_mut(key) else {
            return;
        };
        let known = match (&target.seen, resource_version) {
            (Seen::Present(live), Some(version)) => live.resource_version == version,
            _ => false,
        };
        if known || matches!(target.phase, Phase::Buried(_)) {
            return;
        }
        if target.busy {
            target.stale = Some(resource_version.unwrap_or_default().to_owned());
            return;
        }
        target.seen = Seen::Unknown;
        // What stood in the way may be gone; nothing is written before it is read.
        if matches!(
            &target.phase,
            Phase::Failed {
                reason: Reason::Conflict,
                ..
            }
        ) {
            target.not_before = Millis(0);
        }
        self.make_due(key);
    }

    /// Everything is read again: the member's API came back, or a watch lost its place.
    pub fn handle_resync(&mut self) {
        let keys: Vec<ObjectKey> = self.targets.keys().cloned().collect();
        for key in keys {
            self.handle_changed(&key, None);
        }
    }

    /// The member's API answers again: what failed because it did not is due now, and everything is read again.
    pub fn handle_member_back(&mut self) {
        for target in self.targets.values_mut() {
            let away = |reason: &Reason| {
                matches!(
                    reason,
                    Reason::MemberUnreachable | Reason::MemberOverloaded | Reason::MemberClock
                )
            };
            if matches!(&target.phase, Phase::Failed { reason, .. } if away(reason)) {
                target.pace.reset();
                target.not_before = Millis(0);
            }
        }
        self.handle_resync();
    }

    /// The next action, if one is due. `random` gives jitter.
    pub fn poll_action(&mut self, now: Millis, random: &mut dyn FnMut() -> u64) -> Option<Action> {
        self.wake_timed(now);
        while self.in_flight < IN_FLIGHT {
            let (_, key) = self.due.pop_first()?;
            if let Some(action) = self.consider(&key, now, random) {
                if let Some(target) = self.targets.get_mut(&key) {
                    target.busy = true;
                    target.stale = None;
                }
                self.in_flight += 1;
                return Some(action);
            }
        }
        None
    }

    /// When `poll_action` may have something without any new fact.
    #[must_use]
    pub fn next_wake(&self) -> Option<Millis> {
        if !self.due.is_empty() && self.in_flight < IN_FLIGHT {
            return Some(Millis(0));
        }
        self.timed.first().map(|(at, _)| *at)
    }

    fn wake_timed(&mut self, now: Millis) {
        while let Some((at, _)) = self.timed.first() {
            if *at > now {
                return;
            }
            let Some((_, key)) = self.timed.pop_first() else {
                return;
            };
            if let Some(target) = self.targets.get_mut(&key)
                && target.reread_at.is_some_and(|at| at <= now)
            {
                target.reread_at = None;
                target.seen = Seen::Unknown;
            }
            self.make_due(&key);
        }
    }

    pub(crate) fn make_due(&mut self, key: &ObjectKey) {
        if let Some(target) = self.targets.get(key).filter(|t| !t.busy) {
            self.due
                .insert((order::rank(key, !target.is_entry()), key.clone()));
        }
    }

    pub(crate) fn wake_at(&mut self, key: &ObjectKey, at: Millis) {
        self.timed.insert((at, key.clone()));
    }

    /// Reads the object again at `at`, whatever its watch says until then.
    pub(crate) fn reread_at(&mut self, key: &ObjectKey, at: Millis) {
        if let Some(target) = self.targets.get_mut(key) {
            target.reread_at = Some(at);
            self.wake_at(key, at);
        }
    }

    /// The agent uses other customizations now: objects of these kinds are read again.
    pub fn handle_customized(&mut self, kinds: &BTreeSet<(String, String)>) {
        let concerned: Vec<ObjectKey> = self
            .targets
            .iter()
            .filter(|(key, target)| kinds.contains(&(target.read_version(), key.kind.clone())))
            .map(|(key, _)| key.clone())
            .collect();
        for key in concerned {
            self.handle_changed(&key, None);
        }
    }

    pub(crate) fn set_phase(&mut self, key: &ObjectKey, phase: Phase, now: Millis) {
        let Some(target) = self.targets.get_mut(key) else {
            return;
        };
        if target.phase != phase {
            target.phase = phase;
            // What an object from the ledger is found to be first, it may have been since before this start.
            target.since_before_boot = std::mem::take(&mut target.from_ledger);
            if !target.since_before_boot {
                target.since = now;
            }
            self.changed.insert(key.clone());
            self.noted.insert(key.clone());
        }
    }

    pub(crate) fn end_action(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Something was tried for the target; when it was the last fresh one, interceptors may follow.
    pub(crate) fn mark_tried(&mut self, key: &ObjectKey) {
        if self.fresh.remove(key) {
            self.wake_waiters(key);
        }
    }

    pub(crate) fn wake_waiters(&mut self, key: &ObjectKey) {
        for waiter in self.waiters.remove(key).unwrap_or_default() {
            self.make_due(&waiter);
        }
    }

    /// Every target, in key order.
    pub fn targets(&self) -> impl Iterator<Item = (&ObjectKey, &Target)> {
        self.targets.iter()
    }

    /// `apiVersion` and kind of every object that we manage or want, which is what is worth watching; none while
    /// it has not changed since the last call.
    pub fn take_kinds_in_use(&mut self) -> Option<BTreeSet<(String, String)>> {
        if !std::mem::take(&mut self.kinds_stale) {
            return None;
        }
        let kinds = self
            .targets
            .iter()
            .filter(|(key, t)| t.record.is_some() || (t.is_entry() && !is_for_the_agent(key)))
            .map(|(key, t)| (t.read_version(), key.kind.clone()))
            .filter(|(version, _)| !version.is_empty())
            .collect();
        Some(kinds)
    }

    /// One target.
    #[must_use]
    pub fn target(&self, key: &ObjectKey) -> Option<&Target> {
        self.targets.get(key)
    }

    /// Targets whose reportable state changed since the last call.
    pub fn take_changed(&mut self) -> BTreeSet<ObjectKey> {
        std::mem::take(&mut self.changed)
    }

    /// Targets whose phase changed since the last call.
    pub fn take_noted(&mut self) -> BTreeSet<ObjectKey> {
        std::mem::take(&mut self.noted)
    }

    /// True when nothing is due, under way or waiting for a retry.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.in_flight == 0
            && self.due.is_empty()
            && self.targets.values().all(|t| {
                matches!(
                    t.phase,
                    Phase::InSync | Phase::Suspended | Phase::Completed | Phase::Stray | Phase::Buried(_)
                )
            })
    }
}

/// Entries that the agent uses itself and never applies: the scripts of customizations.
fn is_for_the_agent(key: &ObjectKey) -> bool {
    interpreter::Customization::is_one(&key.group, &key.kind)
}
