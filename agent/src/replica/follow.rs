//! What the agent that leads shares becomes what this agent's own ledger holds, so that it can lead from its own disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent_core::holdings::Holdings;
use agent_core::intake::{Held, Owner};
use agent_core::limits::MIRROR_SHARDS;
use agent_core::mirror::{self, MirrorError, Rows};
use shared::ids::Sequence;
use shared::keys::KeyRing;

use super::Trouble;
use super::anchor::{self, Anchor};
use super::secrets::{Listed, Secrets};
use crate::identity::Enrolment;
use crate::ledger::{Ledger, facts};

/// What was found beside the ledger.
pub(super) struct Caught {
    /// The anchor as read; none: nobody ever led.
    pub(super) anchor: Option<anchor::Held>,
    /// All that is shared, as listed.
    pub(super) listed: BTreeMap<String, Listed>,
    /// The rows of each shard whose document is there, with its version.
    pub(super) shards: BTreeMap<u8, (String, Rows)>,
}

/// Catches up again and again.
pub(super) struct Follower {
    secrets: Secrets,
    owner: Owner,
    last: BTreeMap<String, Listed>,
}

impl Follower {
    pub(super) fn new(secrets: Secrets, owner: Owner) -> Self {
        Self {
            secrets,
            owner,
            last: BTreeMap::new(),
        }
    }

    /// Catches up if anything changed since the last time.
    pub(super) async fn follow(&mut self, ledger: &mut Ledger, enrolment: &Enrolment) -> Result<(), Trouble> {
        let listed = self.secrets.list().await?;
        if listed == self.last {
            return Ok(());
        }
        let caught = self.catch_up(ledger, enrolment).await?;
        self.last = caught.listed;
        Ok(())
    }

    /// Brings the ledger to what is shared, where that is newer; everything is verified first.
    pub(super) async fn catch_up(
        &self,
        ledger: &mut Ledger,
        enrolment: &Enrolment,
    ) -> Result<Caught, Trouble> {
        let listed = self.secrets.list().await?;
        let anchor = anchor::read(&self.secrets).await?;
        let mut shards = BTreeMap::new();
        let Some(found) = &anchor else {
            return Ok(Caught {
                anchor,
                listed,
                shards,
            });
        };
        self.check(&found.anchor)?;
        let ring = learn(ledger, enrolment, found.anchor.ring.as_ref())?;
        let local = ledger.held(&ring)?.map(|h| h.held);
        let here = local.as_ref().map_or(Sequence(0), |h| h.head.head.sequence);
        let there = found.anchor.head.as_ref().map(|h| &h.head);
        let older = there.is_none_or(|h| h.sequence < here);
        match (&local, &found.anchor.head) {
            (Some(local), Some(head))
                if head.head.sequence == here && head.head.digest != local.head.head.digest =>
            {
                let why = format!("sequence {here} has another digest than here");
                return Err(Trouble::Damaged(MirrorError::Damaged {
                    document: "the anchor".to_owned(),
                    why,
                }));
            }
            (_, Some(head)) if head.head.sequence > here => {
                let set = self.fetch(ledger, head, &ring).await?;
                let held = Held {
                    head: head.clone(),
                    set: Arc::new(set),
                };
                ledger.commit(&held, &[])?;
                tracing::info!(sequence = %head.head.sequence, "caught up with the agent that leads");
            }
            _ => {}
        }
        for shard in 0..MIRROR_SHARDS {
            let name = mirror::shard_name(shard);
            if !listed.contains_key(&name) {
                continue;
            }
            if let Some(found) = self.secrets.read(&name).await? {
                let rows = mirror::decode_rows(&name, &found.bytes)?;
                // An etcd that was set back shares less than this disk knows.
                if !older {
                    ledger.replace_rows(&rows, |key| mirror::shard_of(key) == shard)?;
                }
                shards.insert(shard, (found.version, rows));
            }
        }
        Ok(Caught {
            anchor,
            listed,
            shards,
        })
    }

    fn check(&self, anchor: &Anchor) -> Result<(), Trouble> {
        let Some(enrolment) = &anchor.enrolment else {
            return Ok(());
        };
        let receipt = &enrolment.receipt.receipt;
        if receipt.incarnation == self.owner.incarnation && receipt.fleet == self.owner.fleet {
            return Ok(());
        }
        Err(Trouble::OtherEnrolment {
            found: receipt.incarnation,
            here: self.owner.incarnation,
        })
    }

    async fn fetch(
        &self,
        ledger: &mut Ledger,
        head: &shared::set::SignedHead,
        ring: &KeyRing,
    ) -> Result<shared::set::Set, Trouble> {
        let absent = |name: &str| {
            Trouble::Damaged(MirrorError::Damaged {
                document: name.to_owned(),
                why: "it is not there".to_owned(),
            })
        };
        let name = mirror::set_name(&head.head);
        let document = self.secrets.document(&name).await?.ok_or_else(|| absent(&name))?;
        let set = mirror::decode_set_document(&name, &document, head, &self.owner, ring)?;
        for (name, digests) in mirror::content_documents(&set) {
            if digests.iter().all(|d| ledger.has(d)) {
                continue;
            }
            let document = self.secrets.document(&name).await?.ok_or_else(|| absent(&name))?;
            let contents = mirror::decode_contents(&name, &document, ring)?;
            ledger.keep(&contents)?;
            if let Some(missing) = digests.iter().find(|d| !ledger.has(d)) {
                return Err(Trouble::Damaged(MirrorError::Damaged {
                    document: name,
                    why: format!("content {missing} is missing"),
                }));
            }
        }
        Ok(set)
    }
}

/// The keys known here, with those that the anchor has learnt.
fn learn(ledger: &Ledger, enrolment: &Enrolment, more: Option<&KeyRing>) -> Result<KeyRing, Trouble> {
    let mut ring = facts::ring(ledger)?.unwrap_or_else(|| enrolment.ring.clone());
    let before = ring.newest();
    for statement in more.iter().flat_map(|r| r.statements()) {
        ring.learn(statement).map_err(|e| {
            Trouble::Damaged(MirrorError::Damaged {
                document: "the keys of the anchor".to_owned(),
                why: e.to_string(),
            })
        })?;
    }
    if ring.newest() > before {
        facts::put_ring(ledger, &ring)?;
    }
    Ok(ring)
}
