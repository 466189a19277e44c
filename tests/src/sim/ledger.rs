//! A simple model of an agent's ledger: what is in here is durable; a clone is a backup.

use std::collections::BTreeMap;

use agent_core::facts::ContentFacts;
use agent_core::holdings::{Content, Holdings};
use agent_core::intake::{Held, Intake};
use agent_core::record::{Intent, ObjectRecord};
use agent_core::session::{Enrolled, Session};
use shared::ids::{Digest, ObjectKey, Session as SessionNumber};
use shared::keys::{KeyRing, SignedReceipt};
use shared::time::UnixSeconds;

/// The ledger.
#[derive(Clone, Debug)]
pub struct Ledger {
    /// Keys learnt.
    pub ring: KeyRing,
    /// The enrolment.
    pub receipt: SignedReceipt,
    /// Highest session used.
    pub session: SessionNumber,
    /// The hub's time as last confirmed.
    pub confirmed: UnixSeconds,
    /// Accepted set.
    pub held: Option<Held>,
    /// Contents.
    pub contents: BTreeMap<Digest, Content>,
    /// Records.
    pub records: BTreeMap<ObjectKey, ObjectRecord>,
    /// Open intents.
    pub intents: BTreeMap<ObjectKey, Intent>,
}

impl Holdings for Ledger {
    fn has(&self, digest: &Digest) -> bool {
        self.contents.contains_key(digest)
    }

    fn content(&self, digest: &Digest) -> Option<Content> {
        self.contents.get(digest).cloned()
    }
}

impl Ledger {
    /// A fresh enrolment.
    #[must_use]
    pub fn new(ring: KeyRing, receipt: SignedReceipt) -> Self {
        Self {
            ring,
            receipt,
            session: SessionNumber(0),
            confirmed: UnixSeconds(0),
            held: None,
            contents: BTreeMap::new(),
            records: BTreeMap::new(),
            intents: BTreeMap::new(),
        }
    }

    /// Commits a set with its contents; contents of older sets go.
    pub fn commit(&mut self, held: Held, contents: Vec<Content>) {
        self.keep(contents);
        self.contents.retain(|digest, _| held.set.has_content(digest));
        self.held = Some(held);
    }

    /// Puts contents aside.
    pub fn keep(&mut self, contents: Vec<Content>) {
        for content in contents {
            self.contents.insert(content.digest(), content);
        }
    }

    /// Next session, written down before it is used, and what an agent starts with.
    pub fn start(&mut self) -> Enrolled {
        self.session = self.session.next();
        let facts: BTreeMap<Digest, ContentFacts> = self
            .contents
            .iter()
            .map(|(d, c)| {
                (
                    *d,
                    ContentFacts::of(&serde_json::from_slice(&c.bytes).unwrap_or_default()),
                )
            })
            .collect();
        let owner = Session::owner(&self.receipt);
        Enrolled {
            receipt: self.receipt.clone(),
            ring: self.ring.clone(),
            proposed: self.session,
            confirmed: self.confirmed,
            intake: Intake::new(owner, self.held.clone(), facts),
        }
    }
}
