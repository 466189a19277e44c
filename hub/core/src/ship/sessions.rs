//! Agreeing on a session, and noticing clones.
//!
//! A clone is two boot ids that alternate twice within ten minutes and propose without knowing each other's
//! session. A restart always brings a new boot id, so coming *back* to an earlier one says that its process still
//! runs; one return can be a late message, two cannot.

use std::collections::VecDeque;

use shared::ids::{BootId, Session};
use shared::limits;
use shared::time::Millis;
use shared::wire::Hello;

use super::Known;

/// Hellos kept for the clone rule; two boots that alternate need four.
const KEPT: usize = 16;

/// Boot ids of the last hellos of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Boots {
    recent: VecDeque<Seen>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    boot: BootId,
    at: Millis,
    /// It proposed a session that was not above the hub's highest.
    unaware: bool,
}

/// The outcome of a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Agreed {
    pub(super) session: Session,
    /// A new boot proposed a session that the hub had passed: a restored disk.
    pub(super) restored: bool,
    pub(super) clone: bool,
}

impl Boots {
    /// Agrees on a session: that of before for the boot of before, else above both sides.
    pub(super) fn agree(&mut self, now: Millis, hello: &Hello, known: &Known) -> Agreed {
        let unaware = hello.proposed_session <= known.session;
        self.remember(now, hello.boot, unaware);
        let clone = self.returns() >= limits::CLONE_RETURNS;
        if known.boot == Some(hello.boot) {
            return Agreed {
                session: known.session,
                restored: false,
                clone,
            };
        }
        let session = hello.proposed_session.max(known.session.next());
        let seen_before = self.recent.iter().filter(|s| s.boot == hello.boot).count() > 1;
        Agreed {
            session,
            restored: unaware && !seen_before,
            clone,
        }
    }

    fn remember(&mut self, now: Millis, boot: BootId, unaware: bool) {
        self.recent.retain(|s| now.since(s.at) <= limits::CLONE_WINDOW_MS);
        if let Some(last) = self.recent.back_mut()
            && last.boot == boot
        {
            last.at = now;
            return;
        }
        if self.recent.len() == KEPT {
            self.recent.pop_front();
        }
        self.recent.push_back(Seen {
            boot,
            at: now,
            unaware,
        });
    }

    /// How often an unaware hello came back to a boot id after another one.
    fn returns(&self) -> usize {
        self.recent
            .iter()
            .enumerate()
            .filter(|(i, seen)| seen.unaware && self.recent.iter().take(*i).any(|s| s.boot == seen.boot))
            .count()
    }
}
