//! Building offers, and when to repeat them.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use shared::bundle::Encoding;
use shared::ids::{Digest, KeyNumber, Sequence};
use shared::limits;
use shared::set::{Delta, Entry, Head, Set};
use shared::time::Millis;
use shared::wire::{InlineContent, InlineEncoding, Offer, encoded_len};

use super::encodings::{Ready, Want};
use super::{Current, Desk, Enrolled, HeadRecord};

/// With less room than this no further content can ride along.
const LEAST_INLINE_BYTES: usize = 112;
/// Sets kept as bases of deltas: the one held, and those offered since.
const BASES_KEPT: usize = 4;

/// Wait between repeats: doubling with jitter, up to a ceiling.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    tries: u32,
    due_at: Option<Millis>,
}

impl Backoff {
    pub(super) fn sent(&mut self, now: Millis, random: &mut dyn FnMut() -> u64) {
        let wait = limits::RESEND_FIRST_MS
            .saturating_mul(1 << self.tries.min(16))
            .min(limits::RESEND_CEILING_MS);
        // Between three quarters and five quarters, so that 10,000 agents do not meet.
        let jittered = wait * 3 / 4 + random() % (wait / 2).max(1);
        self.tries = self.tries.saturating_add(1);
        self.due_at = Some(now.plus(jittered));
    }

    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// What was noted last did not happen; the next wait is no longer for it.
    pub(super) fn undo(&mut self) {
        self.tries = self.tries.saturating_sub(1);
    }

    pub(super) const fn due_at(&self) -> Option<Millis> {
        self.due_at
    }

    pub(super) fn is_due(&self, now: Millis) -> bool {
        self.due_at.is_some_and(|at| at <= now)
    }
}

/// What is being offered, and the bases for deltas.
#[derive(Debug, Default)]
pub(super) struct Offering {
    backoff: Backoff,
    /// Offers sent since the last acknowledgement.
    in_flight: usize,
    /// The agent refused the current set; wait for another.
    refused: bool,
    bases: VecDeque<(HeadRecord, Arc<Set>)>,
}

impl Offering {
    /// A new connection: what is in flight is lost; bases stay useful.
    pub(super) fn reset(&mut self) {
        self.backoff.reset();
        self.in_flight = 0;
        self.refused = false;
    }

    /// Nothing to offer.
    pub(super) fn settle(&mut self) {
        self.reset();
    }

    pub(super) fn set_changed(&mut self) {
        self.refused = false;
    }

    pub(super) fn refused(&mut self) {
        self.reset();
        self.refused = true;
    }

    pub(super) fn wake_at(&self) -> Option<Millis> {
        self.backoff.due_at()
    }

    pub(super) fn due(&self, now: Millis) -> bool {
        !self.refused && self.backoff.is_due(now)
    }

    pub(super) fn may_offer(&self) -> bool {
        !self.refused && self.in_flight < limits::OFFERS_IN_FLIGHT_MAX
    }

    /// The agent has this set: older bases go, the next offer may leave at once.
    pub(super) fn acknowledged(&mut self, sequence: Sequence) {
        self.bases.retain(|(head, _)| head.sequence >= sequence);
        self.backoff.reset();
        self.in_flight = 0;
    }

    /// The agent is pulling: no need to repeat the offer for a while.
    pub(super) fn progress(&mut self, now: Millis, random: &mut dyn FnMut() -> u64) {
        self.backoff.reset();
        self.backoff.sent(now, random);
    }

    pub(super) fn sent(&mut self, now: Millis, current: &Current, random: &mut dyn FnMut() -> u64) {
        self.in_flight += 1;
        self.backoff.sent(now, random);
        let record = HeadRecord {
            sequence: current.sequence,
            digest: current.digest,
        };
        self.learn_base(record, Arc::clone(&current.set));
    }

    /// The offer noted last did not leave.
    pub(super) fn unsent(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.backoff.undo();
    }

    pub(super) fn learn_base(&mut self, record: HeadRecord, set: Arc<Set>) {
        if self.bases.iter().any(|(r, _)| *r == record) {
            return;
        }
        // The first is what the agent holds, if it holds a base at all; the others were offered after it.
        if self.bases.len() >= BASES_KEPT {
            self.bases.remove(1);
        }
        self.bases.push_back((record, set));
    }

    /// Whether a base has this content, so that the agent may use it as a prefix.
    pub(super) fn knows_content(&self, digest: &Digest) -> bool {
        self.bases.iter().any(|(_, set)| set.has_content(digest))
    }

    /// The offer of `current` to an agent that holds `held`.
    pub(super) fn build(
        &self,
        enrolled: &Enrolled,
        current: &Current,
        held: Option<&HeadRecord>,
        desk: &mut Desk<'_>,
    ) -> Offer {
        let empty = Set::default();
        let known = held
            .and_then(|h| self.bases.iter().find(|(r, _)| r == h))
            .map(|(r, s)| (r.sequence, s.as_ref()));
        // An agent that holds a set we no longer have gets the way from the empty set; what it lacks is unknown, so
        // nothing rides along and it asks.
        let (base, base_set) = known.unwrap_or((Sequence(0), &empty));
        let delta = Some(Delta::between(base_set, &current.set))
            .filter(|d| d.len() <= limits::DELTA_CHANGES_MAX && encoded_len(d) <= limits::DELTA_BYTES_MAX);
        let lacks_all = held.is_none();
        let inline = match &delta {
            Some(_) if lacks_all || known.is_some() => inline(base_set, current, desk),
            _ => Vec::new(),
        };
        let head = Head {
            fleet: enrolled.fleet,
            cluster: enrolled.cluster.clone(),
            incarnation: enrolled.incarnation,
            sequence: current.sequence,
            digest: current.digest,
            key_number: KeyNumber(0),
        };
        let signed = head.sign(desk.keys);
        Offer {
            sequence: current.sequence,
            digest: current.digest,
            key_number: signed.head.key_number,
            signature: signed.signature,
            base,
            delta,
            inline,
        }
    }
}

/// Small contents that `base` lacks.
fn inline(base: &Set, current: &Current, desk: &mut Desk<'_>) -> Vec<InlineContent> {
    let mut out: Vec<InlineContent> = Vec::new();
    let held: HashSet<Digest> = base.entries().iter().map(|entry| entry.digest).collect();
    let mut sent: HashSet<Digest> = HashSet::new();
    let mut room = limits::INLINE_TOTAL_BYTES_MAX;
    for (position, entry) in current.set.entries().iter().enumerate() {
        if out.len() >= limits::DELTA_CHANGES_MAX || room < LEAST_INLINE_BYTES {
            break;
        }
        if held.contains(&entry.digest) || sent.contains(&entry.digest) {
            continue;
        }
        let old = base.entry(&entry.key).map(|e| e.digest);
        let Some(ready) = encoded(entry, old, desk) else {
            continue;
        };
        let cost = ready.bytes.len() + 80;
        if ready.bytes.len() > limits::INLINE_BYTES_MAX || cost > room {
            continue;
        }
        let length = entry.length as usize;
        let Some((key_number, signature)) = desk.encodings.sign(entry.digest, length, desk.keys) else {
            continue;
        };
        room -= cost;
        sent.insert(entry.digest);
        out.push(InlineContent {
            entry: u32::try_from(position).expect("a set has at most 10,000 entries"),
            key_number,
            signature,
            encoding: match ready.encoding {
                Encoding::Raw => InlineEncoding::Raw,
                Encoding::Zstd => InlineEncoding::Zstd,
                Encoding::ZstdPrefix(_) => InlineEncoding::Previous,
            },
            bytes: ready.bytes.to_vec(),
        });
    }
    out
}

/// The encoding of an entry's content, with the content of before as prefix if there is one. Contents are read only
/// if it was not encoded for another cluster already.
fn encoded(entry: &Entry, old: Option<Digest>, desk: &mut Desk<'_>) -> Option<Ready> {
    let plain = Want::Plain(entry.digest);
    let wish = old.map_or(plain, |from| Want::Prefixed {
        to: entry.digest,
        from,
    });
    if let Some(ready) = desk.encodings.peek(&wish) {
        return Some(ready);
    }
    let content = desk.shelf.content(&entry.digest)?;
    match old.and_then(|from| desk.shelf.content(&from)) {
        Some(previous) => desk.encodings.get(wish, &content, Some(&previous)),
        None => desk.encodings.get(plain, &content, None),
    }
}
