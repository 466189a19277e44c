//! Stage 12: offers and chunks become a verified set with all its contents, or a refusal with its reason.
//!
//! Order of trust: the signature of the head, then that the sequence is newer, then that the set has the digest
//! of the head, then for each content the signature of its descriptor and its digest. Lengths are known and
//! bounded before anything is inflated. Nothing is acknowledged here: the caller commits first.

mod asking;
mod contents;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use shared::bundle::{Encoding, decode, inflate};
use shared::ids::{ClusterName, Digest, FleetId, Incarnation, Sequence};
use shared::keys::KeyRing;
use shared::limits::{MESSAGE_BYTES_MAX, SET_BYTES_MAX};
use shared::reason::Reason;
use shared::set::{Set, SignedHead};
use shared::time::Millis;
use shared::wire::{Ack, Chunk, Offer, Refused, Up, What, decode_set, descriptor};

use crate::chunks::{Assembly, Fit};
use crate::facts::ContentFacts;
use crate::holdings::{Content, Holdings};

/// Whose sets are accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The fleet.
    pub fleet: FleetId,
    /// The cluster.
    pub cluster: ClusterName,
    /// The enrolment.
    pub incarnation: Incarnation,
}

/// A set that the ledger holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Its signed head.
    pub head: SignedHead,
    /// The set.
    pub set: Arc<Set>,
}

/// What intake asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Demand {
    /// Send this to the hub.
    Send(Box<Up>),
    /// Put these contents aside in the ledger; the set they belong to is not complete yet.
    Keep(Vec<Content>),
    /// Commit set and contents in one transaction, then call [`Intake::handle_committed`].
    Commit {
        /// The set.
        held: Held,
        /// Contents that the ledger does not have yet.
        contents: Vec<Content>,
    },
}

/// A set on its way in.
#[derive(Debug)]
struct Coming {
    head: SignedHead,
    set: Option<Arc<Set>>,
    /// Contents that are neither held nor staged, with their lengths.
    missing: BTreeMap<Digest, u32>,
    asked: BTreeMap<What, Asked>,
    committing: bool,
    /// It was offered in an earlier conversation, and not in this one: the hub may have been set back since and make
    /// another set of this number. Its contents are fetched on; it is not committed before it is offered again.
    doubtful: bool,
}

#[derive(Debug)]
struct Asked {
    assembly: Assembly,
    at: Millis,
    tries: u32,
    raw: bool,
}

/// Takes sets in.
#[derive(Debug)]
pub struct Intake {
    owner: Owner,
    held: Option<Held>,
    coming: Option<Coming>,
    staged: BTreeMap<Digest, Content>,
    staged_bytes: usize,
    facts: BTreeMap<Digest, ContentFacts>,
    demands: Vec<Demand>,
}

impl Intake {
    /// Starts with what the ledger holds; `facts` covers the contents of the held set.
    #[must_use]
    pub fn new(owner: Owner, held: Option<Held>, facts: BTreeMap<Digest, ContentFacts>) -> Self {
        Self {
            owner,
            held,
            coming: None,
            staged: BTreeMap::new(),
            staged_bytes: 0,
            facts,
            demands: Vec::new(),
        }
    }

    /// The accepted set.
    #[must_use]
    pub fn held(&self) -> Option<&Held> {
        self.held.as_ref()
    }

    /// Facts of the contents of the accepted set, and of contents on their way.
    #[must_use]
    pub fn facts(&self) -> &BTreeMap<Digest, ContentFacts> {
        &self.facts
    }

    /// What is to be done, in order.
    pub fn take_demands(&mut self) -> Vec<Demand> {
        std::mem::take(&mut self.demands)
    }

    /// A new conversation began: what was asked is asked again, and the hub's first offer decides what for.
    /// Contents that arrived stay.
    pub fn handle_hello(&mut self) {
        if let Some(coming) = &mut self.coming
            && !coming.committing
        {
            coming.doubtful = true;
            for asked in coming.asked.values_mut() {
                asked.at = Millis(0);
            }
        }
    }

    /// The hub offers a set.
    pub fn handle_offer(&mut self, offer: &Offer, ring: &KeyRing, holdings: &dyn Holdings, now: Millis) {
        let head = offer.head(
            self.owner.fleet,
            self.owner.cluster.clone(),
            self.owner.incarnation,
        );
        if let Err(e) = head.verify(ring) {
            return self.refuse(&head, e.reason(), &e.to_string());
        }
        if head.head.key_number < ring.newest() {
            let text = format!("key {} is older than {}", head.head.key_number, ring.newest());
            return self.refuse(&head, Reason::UnknownKey, &text);
        }
        let held = self.held.as_ref().map_or(Sequence(0), |h| h.head.head.sequence);
        if head.head.sequence < held || head.head.sequence == Sequence(0) {
            let text = format!("sequence {} is older than {held}", head.head.sequence);
            return self.refuse(&head, Reason::StaleSequence, &text);
        }
        if let Some(same) = self
            .held
            .as_ref()
            .filter(|h| h.head.head.sequence == head.head.sequence)
        {
            if same.head.head.digest != head.head.digest {
                let text = format!("sequence {held} is held with digest {}", same.head.head.digest);
                return self.refuse(&head, Reason::SequenceReused, &text);
            }
            return self.acknowledge();
        }
        match &self.coming {
            Some(coming) if coming.committing => return,
            // An offer that was overtaken by a newer one.
            Some(coming) if !coming.doubtful && coming.head.head.sequence > head.head.sequence => return,
            Some(coming) if coming.head.head == head.head && coming.set.is_some() => self.believe(),
            _ => {
                let set = self.set_of_delta(offer, &head);
                self.begin(head, set, holdings, now);
            }
        }
        self.take_inline(offer, ring, holdings);
        self.advance(now);
    }

    /// The coming set is offered in this conversation.
    fn believe(&mut self) {
        if let Some(coming) = &mut self.coming {
            coming.doubtful = false;
        }
    }

    fn refuse(&mut self, head: &SignedHead, reason: Reason, detail: &str) {
        self.demands.push(Demand::Send(Box::new(Up::Refused(Refused {
            sequence: head.head.sequence,
            digest: head.head.digest,
            reason: reason.into(),
            detail: detail.chars().take(MESSAGE_BYTES_MAX / 4).collect(),
        }))));
    }

    fn acknowledge(&mut self) {
        if let Some(held) = &self.held {
            let (sequence, digest) = (held.head.head.sequence, held.head.head.digest);
            self.demands
                .push(Demand::Send(Box::new(Up::Ack(Ack { sequence, digest }))));
        }
    }

    /// The set the delta leads to, if it starts at what we hold and ends at the signed digest.
    fn set_of_delta(&self, offer: &Offer, head: &SignedHead) -> Option<Arc<Set>> {
        let set = offer.delta.as_ref()?.apply(&*self.base(offer.base)?).ok()?;
        head.is_of(&set).then(|| Arc::new(set))
    }

    fn base(&self, sequence: Sequence) -> Option<Arc<Set>> {
        if sequence == Sequence(0) {
            return Some(Arc::new(Set::default()));
        }
        let held = self.held.as_ref().filter(|h| h.head.head.sequence == sequence)?;
        Some(held.set.clone())
    }

    fn begin(&mut self, head: SignedHead, set: Option<Arc<Set>>, holdings: &dyn Holdings, now: Millis) {
        // Halves of contents that the new set also wants go on; everything else asked for is forgotten.
        let mut asked = self.coming.take().map(|c| c.asked).unwrap_or_default();
        let missing = match &set {
            Some(set) => self.missing_of(set, holdings),
            None => {
                let what = What::Set(head.head.sequence);
                asked.retain(|w, _| matches!(w, What::Content(_)));
                asked.insert(
                    what,
                    Asked {
                        assembly: Assembly::default(),
                        at: now,
                        tries: 0,
                        raw: false,
                    },
                );
                BTreeMap::new()
            }
        };
        if set.is_some() {
            asked.retain(|what, _| matches!(what, What::Content(d) if missing.contains_key(d)));
        }
        self.coming = Some(Coming {
            head,
            set,
            missing,
            asked,
            committing: false,
            doubtful: false,
        });
    }

    /// A chunk of the coming set or of one of its contents.
    pub fn handle_chunk(&mut self, chunk: &Chunk, ring: &KeyRing, holdings: &dyn Holdings, now: Millis) {
        let Some(coming) = self.coming.as_mut().filter(|c| !c.committing) else {
            return;
        };
        let length = match (chunk.what, &coming.set) {
            (What::Set(sequence), None) if sequence == coming.head.head.sequence => SET_BYTES_MAX,
            (What::Content(digest), Some(_)) => match coming.missing.get(&digest) {
                Some(length) if *length == chunk.length => *length as usize,
                _ => return,
            },
            _ => return,
        };
        let Some(asked) = coming.asked.get_mut(&chunk.what) else {
            return;
        };
        asked.at = now;
        asked.tries = 0;
        match asked.assembly.add(chunk, length) {
            Fit::More => self.send_want(chunk.what, now),
            Fit::Ignored => {}
            Fit::Restart => self.send_want(chunk.what, now),
            Fit::Whole => self.finish(chunk.what, ring, holdings, now),
        }
        self.advance(now);
    }

    /// All bytes of an encoding are there: decode, verify, use.
    fn finish(&mut self, what: What, ring: &KeyRing, holdings: &dyn Holdings, now: Millis) {
        let Some(coming) = &mut self.coming else { return };
        let Some(asked) = coming.asked.get_mut(&what) else {
            return;
        };
        let (encoding, bytes, length, signed) = asked.assembly.take();
        let good = match what {
            What::Set(_) => {
                let (head, doubtful) = (coming.head.clone(), coming.doubtful);
                match decode_whole_set(&encoding, &bytes, length).filter(|set| head.is_of(set)) {
                    Some(set) => {
                        let set = Arc::new(set);
                        self.begin(head, Some(set), holdings, now);
                        if let Some(coming) = &mut self.coming {
                            coming.doubtful = doubtful;
                        }
                        true
                    }
                    None => false,
                }
            }
            What::Content(digest) => {
                let base = |d: &Digest| holdings.content(d).map(|c| c.bytes);
                let decoded = decode(&encoding, &bytes, base, &digest, length as usize).ok();
                match decoded.zip(signed) {
                    Some((bytes, (number, signature))) => {
                        let descriptor = descriptor(self.owner.fleet, digest, length, number, signature);
                        self.stage(Content { descriptor, bytes }, ring)
                    }
                    None => false,
                }
            }
        };
        if !good && let Some(asked) = self.coming.as_mut().and_then(|c| c.asked.get_mut(&what)) {
            // Asked once more without compression; when even that does not fit, the set is refused.
            if std::mem::replace(&mut asked.raw, true) {
                if let Some(coming) = self.coming.take() {
                    self.refuse(
                        &coming.head,
                        Reason::DigestMismatch,
                        &format!("{what:?} does not have its digest"),
                    );
                }
                return;
            }
            self.send_want(what, now);
        }
    }

    /// The ledger has committed what the last `Commit` asked for: from now on it is held, and acknowledged.
    pub fn handle_committed(&mut self) {
        let Some(coming) = self.coming.take_if(|c| c.committing) else {
            return;
        };
        let Some(set) = coming.set else { return };
        let wanted: BTreeSet<Digest> = set.entries().iter().map(|e| e.digest).collect();
        self.facts.retain(|digest, _| wanted.contains(digest));
        self.held = Some(Held {
            head: coming.head,
            set,
        });
        self.acknowledge();
    }

    /// The ledger could not commit, or could not put contents aside (a full disk): the set on its way is given up and
    /// offered again later.
    pub fn handle_commit_failed(&mut self, reason: Reason, detail: &str) {
        if let Some(coming) = self.coming.take() {
            self.refuse(&coming.head, reason, detail);
        }
    }
}

fn decode_whole_set(encoding: &Encoding, bytes: &[u8], length: u32) -> Option<Set> {
    let max = (length as usize).min(SET_BYTES_MAX);
    let plain = match encoding {
        Encoding::Raw => bytes.to_vec(),
        Encoding::Zstd => inflate(bytes, &[], max).ok()?,
        Encoding::ZstdPrefix(_) => return None,
    };
    decode_set(&plain).ok()
}
