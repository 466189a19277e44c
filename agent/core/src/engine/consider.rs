//! What is to be done next about one target, and what it has to wait for.

use shared::ids::ObjectKey;
use shared::reason::Reason;
use shared::time::Millis;

use super::{Engine, is_for_the_agent};
use crate::action::Action;
use crate::diff::{self, Next, Rest, Seen, Want};
use crate::limits::{BLOCKED_RECHECK, EDGE_WAIT, RESYNC, RETRY_FIRST};
use crate::order;
use crate::pace::backoff;
use crate::target::{Phase, Target};

impl Engine {
    /// Decides about one target: an action, or a phase and when to look again.
    pub(super) fn consider(
        &mut self,
        key: &ObjectKey,
        now: Millis,
        random: &mut dyn FnMut() -> u64,
    ) -> Option<Action> {
        if is_for_the_agent(key) && self.targets.get(key).is_some_and(Target::is_entry) {
            self.mark_tried(key);
            self.set_phase(key, Phase::InSync, now);
            return None;
        }
        let target = self
            .targets
            .get(key)
            .filter(|t| !t.busy && !matches!(t.phase, Phase::Buried(_)))?;
        let next = diff::next(
            &target.want,
            target.record.as_ref(),
            target.intent.as_ref(),
            &target.seen,
        );
        if let Some(on) = self.blocked_on(key, &next, now) {
            self.waiters.entry(on.clone()).or_default().insert(key.clone());
            self.set_phase(key, Phase::Waiting { on }, now);
            self.wake_at(key, now.plus(BLOCKED_RECHECK.0));
            return None;
        }
        if next == (Next::Apply { repair: true }) {
            self.count_repair(key, now, random());
        }
        let target = self.targets.get(key)?;
        if target.not_before > now && !matches!(next, Next::Read | Next::Nothing(_) | Next::Buried(_)) {
            let at = target.not_before;
            self.wake_at(key, at);
            return None;
        }
        let version = target.read_version();
        let action = match next {
            Next::Nothing(rest) => {
                self.rest(key, rest, now, random);
                return None;
            }
            Next::Buried(how) => Action::Bury {
                key: key.clone(),
                how,
            },
            Next::Read => Action::Read {
                key: key.clone(),
                api_version: version,
                record: target.record.clone(),
                template_generation: match &target.want {
                    Want::Entry(entry)
                        if target
                            .record
                            .as_ref()
                            .is_some_and(|r| !diff::is_outdated(entry, r)) =>
                    {
                        Some(entry.template_generation)
                    }
                    _ => None,
                },
            },
            Next::Apply { repair } => {
                let Want::Entry(entry) = &target.want else {
                    return None;
                };
                Action::Apply {
                    entry: entry.clone(),
                    record: target.record.clone(),
                    intent: target.intent.clone(),
                    repair,
                }
            }
            Next::Delete { uid } => Action::Delete {
                key: key.clone(),
                api_version: version,
                uid,
                again: false,
            },
            Next::Replace { uid } => Action::Delete {
                key: key.clone(),
                api_version: version,
                uid,
                again: true,
            },
            Next::Release { uid } => Action::Release {
                key: key.clone(),
                api_version: version,
                uid,
            },
            Next::Claim => Action::Claim {
                intent: target.intent.clone()?,
                record: target.record.clone(),
            },
        };
        Some(action)
    }

    /// What the next action has to wait for, if anything.
    fn blocked_on(&self, key: &ObjectKey, next: &Next, now: Millis) -> Option<ObjectKey> {
        let target = self.targets.get(key)?;
        let patient = now.0.saturating_sub(target.wanted_at.0) < EDGE_WAIT.0;
        match (&target.want, next) {
            (Want::Entry(entry), Next::Apply { .. }) => {
                let foundation = order::namespace_of(key)
                    .filter(|n| self.holds_back(n, |t| t.exists()))
                    .or_else(|| {
                        let crd = self.defined.get(&(key.group.clone(), key.kind.clone()))?;
                        self.holds_back(crd, Target::is_established).then(|| crd.clone())
                    });
                if foundation.is_some() {
                    return foundation;
                }
                if !patient {
                    return None;
                }
                let declared = entry.dependencies.iter().find(|d| {
                    self.targets
                        .get(*d)
                        .is_some_and(|t| t.is_entry() && t.phase != Phase::Suspended && !is_applied(t))
                });
                if declared.is_some() {
                    return declared.cloned();
                }
                if order::is_interceptor(key) {
                    self.fresh.first().cloned()
                } else {
                    None
                }
            }
            (Want::Tombstone(_), Next::Delete { .. }) if patient => self.content_of(key),
            _ => None,
        }
    }

    /// A foundation holds its dependents back only while it is on its way; one that failed or rests does not:
    /// the dependents then get the API server's own answer.
    fn holds_back(&self, foundation: &ObjectKey, ready: impl Fn(&Target) -> bool) -> bool {
        self.targets.get(foundation).is_some_and(|t| {
            t.is_entry() && !ready(t) && t.pace.failures() == 0 && t.phase != Phase::Suspended
        })
    }

    /// A tombstoned object that lives in the Namespace or under the CRD `key`, not yet gone.
    fn content_of(&self, key: &ObjectKey) -> Option<ObjectKey> {
        let inside = |other: &ObjectKey| {
            if order::is_namespace(key) {
                other.namespace == key.name
            } else if order::is_definition(key) {
                key.name
                    .split_once('.')
                    .is_some_and(|(_, group)| other.group == group)
            } else {
                false
            }
        };
        self.targets
            .iter()
            .find(|(other, t)| {
                *other != key
                    && inside(other)
                    && matches!(t.want, Want::Tombstone(_))
                    && !matches!(t.phase, Phase::Buried(_))
            })
            .map(|(other, _)| other.clone())
    }

    /// Counts a repair of drift, once per repair; when repairs follow one another too closely, the next one
    /// is put off and the other party named.
    fn count_repair(&mut self, key: &ObjectKey, now: Millis, random: u64) {
        let Some(target) = self.targets.get_mut(key).filter(|t| !t.repair_counted) else {
            return;
        };
        target.repair_counted = true;
        let Some(pause) = target.pace.repair(now, random) else {
            target.contested_by = None;
            return;
        };
        target.not_before = now.plus(pause.0);
        let by = match &target.seen {
            Seen::Present(live) => live.other_manager.clone(),
            _ => None,
        };
        let by = by.unwrap_or_else(|| "somebody who deletes it".to_owned());
        let message = format!("{by} keeps overwriting what the set says; repairing again later");
        target.contested_by = Some(by);
        self.set_phase(
            key,
            Phase::Failed {
                reason: Reason::Fighting,
                message,
            },
            now,
        );
    }

    fn rest(&mut self, key: &ObjectKey, rest: Rest, now: Millis, random: &mut dyn FnMut() -> u64) {
        let Some(target) = self.targets.get_mut(key) else {
            return;
        };
        let phase = match rest {
            Rest::InSync => Phase::InSync,
            Rest::Suspended => Phase::Suspended,
            Rest::Completed => Phase::Completed,
            Rest::Terminating => Phase::Terminating,
            Rest::Stray => Phase::Stray,
        };
        // Watches tell; the timer covers a watch that does not.
        let again = match rest {
            Rest::Terminating => Some(backoff(1, BLOCKED_RECHECK, BLOCKED_RECHECK, random())),
            Rest::InSync if !target.is_established() => Some(RETRY_FIRST),
            Rest::InSync => Some(backoff(1, RESYNC, RESYNC, random())),
            Rest::Suspended | Rest::Completed | Rest::Stray => None,
        };
        if let Some(pause) = again {
            self.reread_at(key, now.plus(pause.0));
        }
        self.mark_tried(key);
        self.set_phase(key, phase, now);
    }
}

/// The record says that the content wanted now was applied, and the object is there.
fn is_applied(target: &Target) -> bool {
    match (&target.want, &target.record) {
        (Want::Entry(entry), Some(record)) => !diff::is_outdated(entry, record) && target.exists(),
        _ => false,
    }
}
