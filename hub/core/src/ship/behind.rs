//! A hub that went back: finding out, learning what the agent holds, and letting the hub win.

use std::sync::Arc;

use shared::ids::{Incarnation, Sequence};
use shared::keys::{KeyError, KeyRing};
use shared::set::{DeleteMode, Head, Set, SignedHead, Tombstone};
use shared::time::Millis;
use shared::wire::{Ask, Assembly, Chunk, Hello, Progress, What, decode_set};

use super::offers::Backoff;
use super::{HeadRecord, Known};

/// Where an agent stands against our heads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// It holds nothing of this incarnation.
    Nothing,
    /// It holds a set of ours.
    Holds(HeadRecord),
    /// It holds a set older than what we keep: an old disk.
    Older(HeadRecord),
    /// It holds what we never made.
    HubBehind(Box<SignedHead>),
}

/// Compares a hello with our heads.
pub(super) fn position(hello: &Hello, known: &Known, incarnation: Incarnation, ring: &KeyRing) -> Position {
    let Some(signed) = &hello.held else {
        return Position::Nothing;
    };
    let head = &signed.head;
    if head.incarnation != incarnation {
        return Position::Nothing;
    }
    let record = HeadRecord {
        sequence: head.sequence,
        digest: head.digest,
    };
    if known.heads.contains(&record) {
        return if withdrew_since(known, record) {
            Position::HubBehind(Box::new(signed.clone()))
        } else {
            Position::Holds(record)
        };
    }
    match signed.verify(ring) {
        Ok(()) => {}
        // Signed by a key newer than ours: we are behind. By an older one that we no longer list: judge by numbers.
        Err(KeyError::UnknownNumber(number)) if number > ring.newest() => {
            return Position::HubBehind(Box::new(signed.clone()));
        }
        Err(KeyError::UnknownNumber(_)) => {}
        // Nobody's set: the newest one replaces it; the agent's own check of sequences still holds.
        Err(_) => return Position::Older(record),
    }
    // All that was published since the first of our heads is among them. What lies between two of them never left us, so
    // it is of another life of this hub, like a number of ours with another digest, or one above all.
    let not_ours = known
        .heads
        .first()
        .is_none_or(|first| head.sequence >= first.sequence);
    if not_ours || hello.highest_key_number > ring.newest() {
        Position::HubBehind(Box::new(signed.clone()))
    } else {
        Position::Older(record)
    }
}

fn highest(known: &Known) -> Sequence {
    known.heads.last().map(|h| h.sequence).unwrap_or_default()
}

/// A set of ours that we do not remember publishing was taken: restored from before. If a newer one was made since, what
/// it withdrew left no tombstone, so somebody has to look.
pub(super) fn withdrew_since(known: &Known, record: HeadRecord) -> bool {
    record.sequence > known.published && record.sequence < highest(known)
}

/// Pulling the held set of a `HubBehind` agent.
#[derive(Debug)]
pub(super) struct Asking {
    head: SignedHead,
    assembly: Assembly,
    set: Option<Arc<Set>>,
    backoff: Backoff,
}

impl Asking {
    pub(super) fn begin(head: SignedHead, now: Millis, random: &mut dyn FnMut() -> u64) -> (Self, Ask) {
        let what = What::Set(head.head.sequence);
        let mut backoff = Backoff::default();
        backoff.sent(now, random);
        (
            Self {
                head,
                assembly: Assembly::new(what),
                set: None,
                backoff,
            },
            Ask { what, offset: 0 },
        )
    }

    pub(super) const fn head(&self) -> &SignedHead {
        &self.head
    }

    /// The held set, once complete.
    pub(super) fn set(&self) -> Option<Arc<Set>> {
        self.set.clone()
    }

    pub(super) fn wake_at(&self) -> Option<Millis> {
        if self.set.is_some() {
            None
        } else {
            self.backoff.due_at()
        }
    }

    pub(super) fn due(&mut self, now: Millis, random: &mut dyn FnMut() -> u64) -> Option<Ask> {
        if self.set.is_some() || !self.backoff.is_due(now) {
            return None;
        }
        self.backoff.sent(now, random);
        Some(self.ask())
    }

    fn ask(&self) -> Ask {
        Ask {
            what: self.assembly.what(),
            offset: self.assembly.offset(),
        }
    }

    /// Takes a chunk in; returns what to ask next.
    pub(super) fn take(
        &mut self,
        chunk: &Chunk,
        now: Millis,
        random: &mut dyn FnMut() -> u64,
    ) -> Option<Ask> {
        if self.set.is_some() {
            return None;
        }
        match self.assembly.add(chunk) {
            Progress::Ignored(_) => return None,
            Progress::More(_) => {}
            Progress::Complete => {
                let set = self
                    .assembly
                    .finish_set()
                    .ok()
                    .and_then(|bytes| decode_set(&bytes).ok());
                match set.filter(|s| self.head.is_of(s)) {
                    Some(set) => {
                        self.set = Some(Arc::new(set));
                        return None;
                    }
                    None => {
                        // Begin anew, but not at once: the backoff goes on, so a broken agent costs little.
                        self.assembly = Assembly::new(self.assembly.what());
                        return None;
                    }
                }
            }
        }
        self.backoff.reset();
        self.backoff.sent(now, random);
        Some(self.ask())
    }
}

/// Who decides about what the agent holds and the hub does not want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Winner {
    /// The hub: it is ordered away, by the delete mode of its entry.
    Hub,
    /// The member: it stays as it is, and is no longer managed.
    Member,
}

impl Winner {
    /// How what the hub does not want ends.
    #[must_use]
    pub const fn ends(self, mode: DeleteMode) -> DeleteMode {
        match self {
            Self::Hub => mode,
            Self::Member => DeleteMode::Release,
        }
    }
}

/// Somebody decided: what to adopt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushHub {
    /// The next sequence must be above this: the highest of both sides.
    pub above: Sequence,
    /// Tombstones for what the agent holds and the hub does not want, and those the agent had not executed. Their
    /// `sequence` is zero where the store is to put the number of the set it adopts.
    pub tombstones: Vec<Tombstone>,
    /// Who won.
    pub winner: Winner,
}

impl PushHub {
    /// Compares both sides. `ours` is the hub's newest set, if it has one.
    #[must_use]
    pub fn decide(head: &Head, held: &Set, ours: Option<(Sequence, &Set)>, winner: Winner) -> Self {
        let wanted = |key| ours.is_some_and(|(_, set)| set.entry(key).is_some());
        let mut tombstones: Vec<Tombstone> = held
            .entries()
            .iter()
            .filter(|e| !wanted(&e.key))
            .map(|e| Tombstone {
                key: e.key.clone(),
                mode: winner.ends(e.delete_mode),
                template_uid: e.template_uid.clone(),
                sequence: Sequence(0),
            })
            .collect();
        tombstones.extend(held.tombstones().iter().filter(|t| !wanted(&t.key)).cloned());
        let highest = ours.map(|(s, _)| s).unwrap_or_default();
        Self {
            above: head.sequence.max(highest),
            tombstones,
            winner,
        }
    }
}
