//! What an answered action means for its target.

use crate::action::Outcome;
use crate::diff::{Burial, Seen, Want};
use crate::engine::Engine;
use crate::limits::RETRY_FIRST;
use crate::target::Phase;
use shared::ids::ObjectKey;
use shared::time::Millis;

impl Engine {
    /// Takes the answer to the action under way for `key`.
    pub fn handle_outcome(&mut self, key: &ObjectKey, outcome: Outcome, now: Millis, random: u64) {
        self.mark_tried(key);
        self.end_action();
        let Some(target) = self.targets.get_mut(key) else {
            return;
        };
        target.busy = false;
        let mut look_again = true;
        match outcome {
            Outcome::Read {
                live,
                observation,
                record,
            } => {
                if target.observation != observation {
                    target.observation = observation;
                    self.changed.insert(key.clone());
                }
                if record.is_some() {
                    target.record = record;
                }
                target.seen = live.map_or(Seen::Absent, Seen::Present);
            }
            Outcome::Applied {
                record,
                live,
                observation,
            } => {
                self.kinds_stale |= target.read_version() != record.api_version;
                target.api_version.clone_from(&record.api_version);
                target.record = Some(record);
                target.intent = None;
                target.seen = Seen::Present(live);
                target.observation = observation;
                target.pace.reset();
                target.not_before = Millis(0);
                target.repair_counted = false;
                self.changed.insert(key.clone());
            }
            Outcome::Seen { live, record, intent } => {
                target.record = record;
                target.intent = intent;
                target.seen = live.map_or(Seen::Absent, Seen::Present);
            }
            Outcome::Deleted => {
                target.seen = Seen::Unknown;
                target.not_before = now.plus(RETRY_FIRST.0);
                target.pace.reset();
                self.set_phase(key, Phase::Terminating, now);
            }
            Outcome::Released => {
                target.record = None;
                target.intent = None;
                self.bury(key, Burial::Released, now);
                look_again = false;
            }
            Outcome::Buried(how) => {
                target.record = None;
                target.intent = None;
                self.bury(key, how, now);
                look_again = false;
            }
            Outcome::Failed {
                reason,
                message,
                live,
                intent,
                pause,
            } => {
                let pause = target.pace.fail_asked(reason, random, pause);
                target.not_before = now.plus(pause.0);
                target.repair_counted = false;
                target.intent = intent;
                target.seen = live.map_or(Seen::Unknown, Seen::Present);
                self.set_phase(key, Phase::Failed { reason, message }, now);
                self.wake_at(key, now.plus(pause.0));
                look_again = false;
            }
        }
        let Some(target) = self.targets.get_mut(key) else {
            return;
        };
        if let Some(version) = target.stale.take() {
            let current = matches!(&target.seen, Seen::Present(live) if live.resource_version == version);
            if !current && !matches!(target.phase, Phase::Buried(_)) {
                target.seen = Seen::Unknown;
                look_again = true;
            }
        }
        if look_again {
            self.make_due(key);
        }
        self.wake_waiters(key);
        self.forget_if_done(key);
    }

    /// Marks a tombstone as carried out.
    pub(crate) fn bury(&mut self, key: &ObjectKey, how: Burial, now: Millis) {
        self.kinds_stale = true;
        self.set_phase(key, Phase::Buried(how), now);
    }

    /// A stray without a record is nothing any more.
    fn forget_if_done(&mut self, key: &ObjectKey) {
        let done = self
            .targets
            .get(key)
            .is_some_and(|t| t.want == Want::Stray && t.record.is_none() && t.intent.is_none() && !t.busy);
        if done {
            self.targets.remove(key);
            self.changed.remove(key);
            self.noted.insert(key.clone());
        }
    }
}
