//! The accepted set and contents by digest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use agent_core::facts::ContentFacts;
use agent_core::holdings::{Content, Holdings};
use agent_core::intake::Held;
use rusqlite::{Connection, OptionalExtension, params};
use shared::bundle::SignedDescriptor;
use shared::ids::Digest;
use shared::keys::KeyRing;
use shared::set::SignedHead;
use shared::wire::{decode_set, encode_set};

use super::{Ledger, LedgerError, corrupt, facts, sqlite};

/// The accepted set as loaded, with the facts of its contents.
#[derive(Debug)]
pub struct HeldSet {
    /// Head and set.
    pub held: Held,
    /// Facts by content digest.
    pub facts: BTreeMap<Digest, ContentFacts>,
}

impl Ledger {
    /// Puts contents aside for a set that is not complete yet.
    ///
    /// # Errors
    /// When SQLite cannot write.
    pub fn keep(&mut self, contents: &[Content]) -> Result<(), LedgerError> {
        let mut write = || -> rusqlite::Result<()> {
            let tx = self.db.transaction()?;
            insert(&tx, contents)?;
            tx.commit()
        };
        write().map_err(sqlite("written"))
    }

    /// Replaces the accepted set, adds contents, and drops those that the set does not name: one transaction,
    /// durable when this returns.
    ///
    /// # Errors
    /// When SQLite cannot write; the old set then stays whole.
    pub fn commit(&mut self, held: &Held, contents: &[Content]) -> Result<(), LedgerError> {
        let head = serde_json::to_vec(&held.head)
            .map_err(|e| corrupt(format!("the head cannot be written: {e}")))?;
        let body = encode_set(&held.set);
        let wanted: BTreeSet<Digest> = held.set.entries().iter().map(|e| e.digest).collect();
        let mut write = || -> rusqlite::Result<()> {
            let tx = self.db.transaction()?;
            insert(&tx, contents)?;
            tx.prepare_cached("INSERT OR REPLACE INTO held(only, head, body) VALUES(1, ?1, ?2)")?
                .execute(params![head, body])?;
            tx.prepare_cached("INSERT OR IGNORE INTO facts(name, value) VALUES(?1, x'01')")?
                .execute([facts::ACCEPTED])?;
            for digest in unwanted(&tx, &wanted)? {
                tx.prepare_cached("DELETE FROM contents WHERE digest = ?1")?
                    .execute([digest])?;
            }
            tx.commit()
        };
        write().map_err(sqlite("written"))
    }

    /// The accepted set: signature, set digest and every content's digest are verified again.
    ///
    /// # Errors
    /// [`LedgerError::Corrupt`] when anything does not verify.
    pub fn held(&self, ring: &KeyRing) -> Result<Option<HeldSet>, LedgerError> {
        let row: Option<(Vec<u8>, Vec<u8>)> = self
            .db
            .query_row("SELECT head, body FROM held", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()
            .map_err(sqlite("read"))?;
        let Some((head, body)) = row else {
            // Said in another table, so that what empties one is not taken for a new ledger.
            return match self.get(facts::ACCEPTED)? {
                Some(_) => Err(corrupt("a set was accepted and is not there any more")),
                None => Ok(None),
            };
        };
        let head: SignedHead = serde_json::from_slice(&head)
            .map_err(|e| corrupt(format!("the head of the set is unreadable ({e})")))?;
        head.verify(ring)
            .map_err(|e| corrupt(format!("the head of the set does not verify ({e})")))?;
        let set = decode_set(&body).map_err(|e| corrupt(format!("the set is unreadable ({e})")))?;
        if !head.is_of(&set) {
            return Err(corrupt("the set does not have the digest of its signed head"));
        }
        let facts = self.facts()?;
        if let Some(entry) = set.entries().iter().find(|e| !facts.contains_key(&e.digest)) {
            return Err(corrupt(format!(
                "the content of {} is missing or damaged",
                entry.key
            )));
        }
        Ok(Some(HeldSet {
            held: Held {
                head,
                set: Arc::new(set),
            },
            facts,
        }))
    }

    /// Facts of every content whose bytes have their digest; one content in memory at a time.
    fn facts(&self) -> Result<BTreeMap<Digest, ContentFacts>, LedgerError> {
        let mut statement = self
            .db
            .prepare("SELECT digest, body FROM contents")
            .map_err(sqlite("read"))?;
        let mut rows = statement.query([]).map_err(sqlite("read"))?;
        let mut facts = BTreeMap::new();
        while let Some(row) = rows.next().map_err(sqlite("read"))? {
            let read = || -> rusqlite::Result<(Vec<u8>, Vec<u8>)> { Ok((row.get(0)?, row.get(1)?)) };
            let (digest, body) = read().map_err(sqlite("read"))?;
            if Digest::of(&body).0.as_slice() == digest {
                let value = serde_json::from_slice(&body).unwrap_or_default();
                facts.insert(Digest::of(&body), ContentFacts::of(&value));
            }
        }
        Ok(facts)
    }

    /// The canonical bytes of a content, verified by their digest.
    ///
    /// # Errors
    /// [`LedgerError::Corrupt`] when the bytes do not have their digest.
    pub fn content_bytes(&self, digest: &Digest) -> Result<Option<Vec<u8>>, LedgerError> {
        let body: Option<Vec<u8>> = self
            .db
            .prepare_cached("SELECT body FROM contents WHERE digest = ?1")
            .and_then(|mut s| s.query_row([digest.0.as_slice()], |row| row.get(0)).optional())
            .map_err(sqlite("read"))?;
        match body {
            Some(body) if Digest::of(&body) != *digest => {
                Err(corrupt(format!("content {digest} is damaged")))
            }
            body => Ok(body),
        }
    }
}

impl Holdings for Ledger {
    fn has(&self, digest: &Digest) -> bool {
        self.db
            .prepare_cached("SELECT 1 FROM contents WHERE digest = ?1")
            .and_then(|mut s| s.exists([digest.0.as_slice()]))
            .unwrap_or(false)
    }

    fn content(&self, digest: &Digest) -> Option<Content> {
        let bytes = self.content_bytes(digest).ok()??;
        let descriptor: Vec<u8> = self
            .db
            .prepare_cached("SELECT descriptor FROM contents WHERE digest = ?1")
            .and_then(|mut s| s.query_row([digest.0.as_slice()], |row| row.get(0)))
            .ok()?;
        let descriptor: SignedDescriptor = serde_json::from_slice(&descriptor).ok()?;
        Some(Content { descriptor, bytes })
    }
}

fn insert(db: &Connection, contents: &[Content]) -> rusqlite::Result<()> {
    let mut statement =
        db.prepare_cached("INSERT OR REPLACE INTO contents(digest, descriptor, body) VALUES(?1, ?2, ?3)")?;
    for content in contents {
        let descriptor = serde_json::to_vec(&content.descriptor)
            .map_err(|e| rusqlite::Error::ToSqlConversionFailure(Box::new(e)))?;
        statement.execute(params![content.digest().0.as_slice(), descriptor, content.bytes])?;
    }
    Ok(())
}

fn unwanted(db: &Connection, wanted: &BTreeSet<Digest>) -> rusqlite::Result<Vec<Vec<u8>>> {
    let mut statement = db.prepare_cached("SELECT digest FROM contents")?;
    let rows = statement.query_map([], |row| row.get::<_, Vec<u8>>(0))?;
    let is_wanted = |digest: &Vec<u8>| {
        <[u8; 32]>::try_from(digest.as_slice()).is_ok_and(|bytes| wanted.contains(&Digest(bytes)))
    };
    rows.filter(|r| !r.as_ref().is_ok_and(is_wanted)).collect()
}
