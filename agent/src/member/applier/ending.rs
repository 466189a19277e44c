//! How our management of an object ends, and how it is found again after a crash: delete, release, claim, bury.

use agent_core::action::Outcome;
use agent_core::decide;
use agent_core::diff::Burial;
use agent_core::live::Live;
use agent_core::record::{Intent, ObjectRecord, Origin};
use serde_json::Value;
use shared::ids::{Digest, ObjectKey};
use shared::reason::Reason;

use super::{Applier, Trouble, wall};
use crate::crash;
use crate::member::content::{self, Inside};
use crate::member::release::release_patch;

impl Applier {
    pub(super) async fn delete(
        &self,
        key: &ObjectKey,
        api_version: &str,
        uid: &str,
        again: bool,
    ) -> Result<Outcome, Trouble> {
        let target = match self.target(key, api_version).await {
            Err(e) if e.reason == Reason::ApiAbsent => return Ok(Outcome::Deleted),
            other => other?,
        };
        if !again {
            let ours = |other: &Inside| self.ledger.borrow().holds_uid(&other.uid).unwrap_or(false);
            if let Some(found) = content::foreign_content(&self.api, key, &self.kinds, ours).await? {
                let message = format!("deletion is held: it contains {found}, which this fleet did not make");
                return Err(Trouble::Refused(Reason::ForeignContent, message, None));
            }
        }
        let accepted = self.api.delete(&target, uid).await?;
        crash::point("delete-record");
        let what = if accepted { "deleted" } else { "was gone already" };
        self.ledger.borrow().note(key, wall(), what)?;
        Ok(Outcome::Deleted)
    }

    pub(super) async fn release(
        &self,
        key: &ObjectKey,
        api_version: &str,
        uid: &str,
    ) -> Result<Outcome, Trouble> {
        let target = self.target(key, api_version).await?;
        if let Some(object) = self.get(&target).await?
            && object.pointer("/metadata/uid").and_then(Value::as_str) == Some(uid)
            && let Some(patch) = release_patch(&object)
        {
            match self.api.json_patch(&target, &patch).await {
                Err(e) if e.is_conflict() || e.reason == Reason::Invalid => {
                    let message = "the object changed while it was being released; trying again".to_owned();
                    return Err(Trouble::Refused(Reason::Pending, message, None));
                }
                other => other?,
            };
        }
        self.ledger.borrow_mut().drop_object(key, wall(), "released")?;
        self.share(key, false).await?;
        Ok(Outcome::Released)
    }

    pub(super) async fn claim(
        &self,
        intent: Intent,
        record: Option<ObjectRecord>,
    ) -> Result<Outcome, Trouble> {
        let object = match self.target(&intent.key, &intent.api_version).await {
            Err(e) if e.reason == Reason::ApiAbsent => None,
            Err(e) => return Err(e.into()),
            Ok(target) => self.get(&target).await?,
        };
        let live = self.live(object.as_ref());
        if live.as_deref().is_some_and(|l| decide::claims(&intent, l)) {
            let record = self.claimed(&intent, live.as_deref()).await?;
            return Ok(Outcome::Seen {
                live,
                record: Some(record),
                intent: None,
            });
        }
        self.ledger.borrow().drop_intent(&intent.key)?;
        self.share(&intent.key, false).await?;
        Ok(Outcome::Seen {
            live,
            record,
            intent: None,
        })
    }

    /// Records what our create made although its answer was lost.
    pub(super) async fn claimed(
        &self,
        intent: &Intent,
        live: Option<&Live>,
    ) -> Result<ObjectRecord, Trouble> {
        let record = ObjectRecord {
            key: intent.key.clone(),
            api_version: intent.api_version.clone(),
            uid: live.map(|l| l.uid.clone()).unwrap_or_default(),
            nonce: Some(intent.nonce),
            origin: Origin::Created,
            // Which content the lost create carried is not known: whatever is wanted now is applied.
            content: Digest([0; 32]),
            template_uid: intent.template_uid.clone(),
            fields: live.and_then(|l| l.fields),
            completed: live.is_some_and(|l| l.completed),
        };
        self.ledger
            .borrow_mut()
            .put_record(&record, wall(), "created (found by its nonce)")?;
        self.share(&record.key, false).await?;
        Ok(record)
    }

    pub(super) async fn bury(&self, key: &ObjectKey, how: Burial) -> Result<Outcome, Trouble> {
        let what = match how {
            Burial::Deleted => "gone",
            Burial::Released => "no longer managed",
            Burial::NeverOurs => "was never ours",
            Burial::Replaced => "another object has the name now; not ours",
        };
        self.ledger.borrow_mut().drop_object(key, wall(), what)?;
        self.share(key, false).await?;
        Ok(Outcome::Buried(how))
    }
}
