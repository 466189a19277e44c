//! What the agent that leads shares, as it changes: contents before the head that needs them, intents before the create
//! they are for, records after it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use agent_core::holdings::{Content, Holdings};
use agent_core::intake;
use agent_core::limits::{MIRROR_BYTES_MAX, MIRROR_PART_BYTES, MIRROR_SHARDS};
use agent_core::mirror::{self, Row, Rows};
use shared::ids::{Digest, ObjectKey, Session};
use shared::keys::KeyRing;
use tokio::sync::Mutex;

use super::Trouble;
use super::anchor::{self, Anchor};
use super::follow::Caught;
use super::secrets::{Secrets, part_name};
use crate::crash;
use crate::ledger::Ledger;
use crate::member::fence::Fence;

/// What is shared, in the hands of the agent that leads.
pub(crate) struct Mirror {
    secrets: Secrets,
    fence: Rc<Fence>,
    /// The number of this term, in all that is written in it.
    term: u64,
    anchor: Mutex<anchor::Held>,
    shards: Vec<Mutex<Shard>>,
    /// The documents of the set that counts.
    current: RefCell<BTreeSet<String>>,
    /// Bytes by name of every Secret that is there.
    sizes: RefCell<BTreeMap<String, usize>>,
}

#[derive(Default)]
struct Shard {
    /// Version of the Secret; none: not known, or there is none.
    version: Option<String>,
    rows: Rows,
}

impl Mirror {
    /// Takes over: the next session and this term's number go into the anchor, every shard is written anew so that the
    /// versions that an earlier leader knows are gone, and what this disk holds beyond is shared.
    pub(super) async fn take_over(
        secrets: Secrets,
        fence: Rc<Fence>,
        caught: Caught,
        fresh: Anchor,
        session: Session,
        ledger: &RefCell<Ledger>,
        ring: &KeyRing,
    ) -> Result<Self, Trouble> {
        let anchor_before = match caught.anchor {
            Some(held) => held,
            None => anchor::create(&secrets, fresh.clone(), 0)
                .await?
                .ok_or(Trouble::Overtaken)?,
        };
        let mut next = anchor_before.anchor.clone();
        if next.enrolment.is_none() {
            next.enrolment = fresh.enrolment;
            next.pending = None;
        }
        next.session = next.session.max(session).next();
        let term = anchor_before.writer.saturating_add(1).max(next.session.0);
        let held = anchor::replace(&secrets, &anchor_before, next, term)
            .await?
            .ok_or(Trouble::Overtaken)?;
        let mine = ledger.borrow().rows()?;
        let mut shards = Vec::new();
        let mut known = caught.shards;
        for shard in 0..MIRROR_SHARDS {
            let version = known.remove(&shard).map(|(version, _)| version);
            let rows: Rows = mine
                .iter()
                .filter(|(key, _)| mirror::shard_of(key) == shard)
                .map(|(key, row)| (key.clone(), row.clone()))
                .collect();
            shards.push(Mutex::new(Shard { version, rows }));
        }
        let mirror = Self {
            secrets,
            fence,
            term,
            current: RefCell::default(),
            sizes: RefCell::new(caught.listed.into_iter().map(|(n, l)| (n, l.bytes)).collect()),
            anchor: Mutex::new(held),
            shards,
        };
        for (number, shard) in (0_u8..).zip(&mirror.shards) {
            let mut shard = shard.lock().await;
            if shard.version.is_some() || !shard.rows.is_empty() {
                mirror.write(number, &mut shard).await?;
            }
        }
        let head = mirror.anchor.lock().await.anchor.head.clone();
        let local = ledger.borrow().held(ring)?.map(|h| h.held);
        if let Some(local) = &local {
            let shared = head.is_some_and(|h| h.head.sequence >= local.head.head.sequence);
            if !shared {
                mirror.commit(local, &[], ledger).await?;
            }
            mirror.current.replace(documents(local).into_keys().collect());
        }
        mirror.sweep().await;
        Ok(mirror)
    }

    /// The session that was written down for this term.
    pub(super) async fn session(&self) -> Session {
        self.anchor.lock().await.anchor.session
    }

    /// Shares what became known of an object; durable when this returns. What could neither delete nor create wrongly is
    /// shared with the next that could.
    ///
    /// # Errors
    /// When it could not be shared: nothing may be built on it.
    pub(crate) async fn note(&self, key: &ObjectKey, row: Row) -> Result<(), Trouble> {
        let number = mirror::shard_of(key);
        let Some(shard) = self.shards.get(usize::from(number)) else {
            return Ok(());
        };
        let mut shard = shard.lock().await;
        let before = shard.rows.get(key).cloned().unwrap_or_default();
        if row == Row::default() {
            shard.rows.remove(key);
        } else {
            shard.rows.insert(key.clone(), row.clone());
        }
        if row.is_as_good_as(&before) {
            return Ok(());
        }
        let written = self.write(number, &mut shard).await;
        if written.is_err() {
            shard.rows.insert(key.clone(), before);
        }
        written
    }

    async fn write(&self, number: u8, shard: &mut Shard) -> Result<(), Trouble> {
        let name = mirror::shard_name(number);
        let bytes = mirror::encode_rows(&name, &shard.rows)?;
        if bytes.len() > MIRROR_PART_BYTES {
            return Err(Trouble::Full(format!("{name} would have {} bytes", bytes.len())));
        }
        let before = shard.version.take();
        shard.version = match before {
            Some(version) => self.secrets.replace(&name, &version, &bytes, self.term).await?,
            None => self.rewrite(&name, &bytes).await?,
        };
        if shard.version.is_none() {
            self.fence.end();
            return Err(Trouble::Overtaken);
        }
        self.sizes.borrow_mut().insert(name, bytes.len());
        Ok(())
    }

    /// After an answer that was lost: the Secret is ours still if nobody of a later term wrote it.
    async fn rewrite(&self, name: &str, bytes: &[u8]) -> Result<Option<String>, Trouble> {
        if let Some(version) = self.secrets.create(name, bytes, self.term).await? {
            return Ok(Some(version));
        }
        match self.secrets.read(name).await? {
            Some(found) if found.writer <= self.term => {
                self.secrets.replace(name, &found.version, bytes, self.term).await
            }
            _ => Ok(None),
        }
    }

    /// Shares a set: contents first, then the head, by which it counts. Old documents go when nobody needs them.
    ///
    /// # Errors
    /// [`Trouble::Full`] when there is no room: the set before stays whole. Any other: whether it counts is not known.
    pub(crate) async fn commit(
        &self,
        held: &intake::Held,
        contents: &[Content],
        ledger: &RefCell<Ledger>,
    ) -> Result<(), Trouble> {
        let arriving: BTreeMap<Digest, &Content> = contents.iter().map(|c| (c.digest(), c)).collect();
        let wanted = documents(held);
        let mut needed = self.needed(wanted.keys());
        for (name, digests) in &wanted {
            if self.sizes.borrow().contains_key(&part_name(name, 0)) {
                continue;
            }
            let document = if digests.is_empty() {
                mirror::encode_set_document(name, &held.set)?
            } else {
                let all = digests
                    .iter()
                    .map(|d| match arriving.get(d) {
                        Some(content) => Some((*content).clone()),
                        None => ledger.borrow().content(d),
                    })
                    .collect::<Option<Vec<_>>>();
                mirror::encode_contents(name, all.ok_or(Trouble::ContentMissing)?)?
            };
            needed += document.len();
            if needed > MIRROR_BYTES_MAX {
                self.sweep().await;
                return Err(Trouble::Full(format!(
                    "the set needs more than {MIRROR_BYTES_MAX} bytes of Secrets"
                )));
            }
            let made = self.secrets.add(name, &document, self.term).await?;
            self.sizes.borrow_mut().extend(made);
        }
        crash::point("mirror-anchor");
        self.change(|anchor| anchor.head = Some(held.head.clone()))
            .await?;
        self.current.replace(wanted.into_keys().collect());
        self.sweep().await;
        Ok(())
    }

    /// Bytes of the documents of these names that are there, and of all rows.
    fn needed<'a>(&self, names: impl Iterator<Item = &'a String>) -> usize {
        let names: BTreeSet<&String> = names.collect();
        let counts = |name: &str| match document_of(name) {
            Some(document) => names.iter().any(|n| n.as_str() == document),
            None => true,
        };
        let sizes = self.sizes.borrow();
        sizes.iter().filter(|(n, _)| counts(n)).map(|(_, b)| *b).sum()
    }

    /// The hub and this agent agreed on a session.
    ///
    /// # Errors
    /// When it could not be written down.
    pub(crate) async fn agreed(&self, session: Session) -> Result<(), Trouble> {
        self.change(|anchor| anchor.session = anchor.session.max(session))
            .await
    }

    /// Keys were learnt.
    ///
    /// # Errors
    /// When they could not be written down.
    pub(crate) async fn learnt(&self, ring: &KeyRing) -> Result<(), Trouble> {
        self.change(|anchor| anchor.ring = Some(ring.clone())).await
    }

    async fn change(&self, edit: impl FnOnce(&mut Anchor)) -> Result<(), Trouble> {
        let mut held = self.anchor.lock().await;
        let mut next = held.anchor.clone();
        edit(&mut next);
        match anchor::replace(&self.secrets, &held, next, self.term).await? {
            Some(written) => {
                *held = written;
                Ok(())
            }
            None => {
                self.fence.end();
                Err(Trouble::Overtaken)
            }
        }
    }

    /// Deletes the documents of other sets.
    async fn sweep(&self) {
        let wanted = self.current.borrow().clone();
        let old: Vec<String> = self
            .sizes
            .borrow()
            .keys()
            .filter(|n| document_of(n).is_some_and(|d| !wanted.contains(d)))
            .cloned()
            .collect();
        self.delete(old).await;
    }

    /// What could not be deleted is tried with the next set.
    async fn delete(&self, names: Vec<String>) {
        for name in names {
            match self.secrets.remove(&name).await {
                Ok(()) => drop(self.sizes.borrow_mut().remove(&name)),
                Err(e) => tracing::debug!(error = %e, %name, "an old document could not be deleted"),
            }
        }
    }

    /// This agent does not know any more what the next one would find: it stops, and begins anew from what is shared.
    pub(crate) fn give_up(&self) {
        self.fence.end();
    }
}

/// The documents of a set, and which contents are in which; the one of the set itself has none.
fn documents(held: &intake::Held) -> BTreeMap<String, BTreeSet<Digest>> {
    let mut all = mirror::content_documents(&held.set);
    all.insert(mirror::set_name(&held.head.head), BTreeSet::new());
    all
}

/// The document that a Secret is a part of, if it is one of those that never change.
fn document_of(secret: &str) -> Option<&str> {
    let fixed = secret.starts_with("pinnace-set-") || secret.starts_with("pinnace-contents-");
    fixed
        .then(|| secret.rsplit_once('-').map(|(document, _)| document))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_from_what_changes() {
        assert_eq!(document_of("pinnace-set-4-abcd-0"), Some("pinnace-set-4-abcd"));
        assert_eq!(
            document_of("pinnace-contents-00-abcd-12"),
            Some("pinnace-contents-00-abcd")
        );
        assert_eq!(document_of("pinnace-objects-3"), None);
        assert_eq!(document_of("pinnace-anchor"), None);
    }
}
