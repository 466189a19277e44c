//! What is asked for, how much of it at once, and when again.

use shared::ids::Digest;
use shared::limits::{RESEND_CEILING_MS, RESEND_FIRST_MS, WANTS_IN_FLIGHT_MAX};
use shared::time::Millis;
use shared::wire::{Up, Want, What};

use super::{Asked, Demand, Held, Intake};
use crate::chunks::Assembly;
use crate::limits::{STAGED_BYTES_MAX, WANT_TRIES_MAX, WANTED_BYTES_MAX};
use crate::pace::backoff;

impl Intake {
    pub(super) fn send_want(&mut self, what: What, now: Millis) {
        let Some(coming) = &mut self.coming else { return };
        let Some(asked) = coming.asked.get_mut(&what) else {
            return;
        };
        asked.at = now;
        let base = match (what, &self.held, &coming.set) {
            (What::Content(digest), Some(held), Some(set)) if !asked.raw => set
                .entries()
                .iter()
                .find(|e| e.digest == digest)
                .and_then(|e| held.set.entry(&e.key))
                .map(|e| e.digest)
                .filter(|d| *d != digest),
            _ => None,
        };
        let want = Want {
            what,
            offset: asked.assembly.offset(),
            base,
            raw: asked.raw,
        };
        self.demands.push(Demand::Send(Box::new(Up::Want(want))));
    }

    /// Asks for what is missing, within the window; commits when nothing is.
    pub(super) fn advance(&mut self, now: Millis) {
        let Some(coming) = self.coming.as_mut().filter(|c| !c.committing) else {
            return;
        };
        let Some(set) = coming.set.clone() else {
            let what = What::Set(coming.head.head.sequence);
            let fresh = coming
                .asked
                .get(&what)
                .is_some_and(|a| a.tries == 0 && a.assembly.offset() == 0);
            if fresh {
                if let Some(asked) = coming.asked.get_mut(&what) {
                    asked.tries = 1;
                }
                self.send_want(what, now);
            }
            return;
        };
        if coming.missing.is_empty() {
            if coming.doubtful {
                return;
            }
            coming.committing = true;
            let held = Held {
                head: coming.head.clone(),
                set,
            };
            let contents = self.take_staged(&held.set);
            self.demands.push(Demand::Commit { held, contents });
            return;
        }
        if self.staged_bytes > STAGED_BYTES_MAX {
            let contents = self.take_staged(&set);
            self.demands.push(Demand::Keep(contents));
        }
        let Some(coming) = &mut self.coming else { return };
        let missing = &coming.missing;
        let length = |d: &Digest| missing.get(d).map_or(0, |l| *l as usize);
        let mut open: usize = coming
            .asked
            .keys()
            .map(|w| if let What::Content(d) = w { length(d) } else { 0 })
            .sum();
        let mut fresh = Vec::new();
        for digest in coming.missing.keys() {
            let what = What::Content(*digest);
            if coming.asked.contains_key(&what) {
                continue;
            }
            let size = length(digest);
            let count = coming.asked.len() + fresh.len();
            if count >= WANTS_IN_FLIGHT_MAX || (count > 0 && open + size > WANTED_BYTES_MAX) {
                break;
            }
            open += size;
            fresh.push(what);
        }
        for what in fresh {
            let asked = Asked {
                assembly: Assembly::default(),
                at: now,
                tries: 1,
                raw: false,
            };
            if let Some(coming) = &mut self.coming {
                coming.asked.insert(what, asked);
            }
            self.send_want(what, now);
        }
    }

    /// Repeats what was asked for and not answered.
    pub fn handle_tick(&mut self, now: Millis, random: u64) {
        let Some(coming) = &mut self.coming else { return };
        let mut again = Vec::new();
        for (what, asked) in &mut coming.asked {
            let pause = backoff(
                asked.tries.max(1),
                Millis(RESEND_FIRST_MS),
                Millis(RESEND_CEILING_MS),
                random,
            );
            if now.since(asked.at) >= pause.0 {
                asked.tries = asked.tries.saturating_add(1).min(WANT_TRIES_MAX);
                again.push(*what);
            }
        }
        for what in again {
            self.send_want(what, now);
        }
    }

    /// When `handle_tick` has something to repeat, at the earliest.
    #[must_use]
    pub fn next_wake(&self) -> Option<Millis> {
        let coming = self.coming.as_ref().filter(|c| !c.committing)?;
        coming.asked.values().map(|a| a.at.plus(RESEND_FIRST_MS)).min()
    }
}
