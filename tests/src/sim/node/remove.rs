//! Actions of an agent that take objects away, with the checks of what may be deleted (I4).

use agent_core::action::Outcome;
use agent_core::decide;
use agent_core::record::Origin;
use shared::ids::ObjectKey;

use super::super::bugs::Bug;
use super::super::hub::Scene;
use super::{Crashed, Node, Trouble};

impl Node {
    pub(super) fn delete(
        &mut self,
        key: &ObjectKey,
        uid: &str,
        again: bool,
        scene: &mut Scene<'_>,
    ) -> Result<Result<Outcome, Trouble>, Crashed> {
        let intent = self.ledger.intents.get(key).cloned();
        if let Err(trouble) = self.api(scene, intent.as_ref()) {
            return Ok(Err(trouble));
        }
        self.check_delete(key, uid, again, scene);
        self.dies(scene)?;
        if self.rng.chance(scene.faults.race) {
            self.member.delete_foreign(key);
            self.member.create_foreign(key, "theirs");
            scene.trace.mark("replaced between read and delete");
        }
        let taken = if scene.faults.bug == Some(Bug::DeleteByName) {
            self.member.delete_by_name(key)
        } else {
            // A uid that is gone already is as good as deleted.
            self.member.delete(key, uid).ok().flatten()
        };
        scene.trace.check(taken.is_none_or(|o| o.made_by_us), || {
            format!("I4: {key} is deleted, which others made")
        });
        scene
            .trace
            .mark(if again { "job replaced" } else { "object deleted" });
        scene
            .trace
            .note(scene.now, format_args!("agent {} deletes {key}", self.index));
        self.dies(scene)?;
        let answered = self.api(scene, intent.as_ref());
        if answered.is_err() {
            scene.trace.mark("answer of a delete lost");
        }
        Ok(answered.map(|()| Outcome::Deleted))
    }

    /// I4: only with a tombstone (or a newer run of the template) *and* a record "created", and only what we made.
    pub(super) fn check_delete(&self, key: &ObjectKey, uid: &str, again: bool, scene: &mut Scene<'_>) {
        let held = self.ledger.held.as_ref().map(|h| &h.set);
        let ordered = if again {
            held.is_some_and(|s| s.entry(key).is_some()) && decide::runs_to_completion(&key.group, &key.kind)
        } else {
            held.and_then(|s| s.tombstone(key))
                .is_some_and(|t| t.mode == shared::set::DeleteMode::Delete)
        };
        let created = self
            .ledger
            .records
            .get(key)
            .is_some_and(|r| r.origin == Origin::Created && r.uid == uid);
        let made = self
            .member
            .object(key)
            .is_none_or(|o| o.uid != uid || o.made_by_us);
        scene
            .trace
            .check(ordered, || format!("I4: {key} is deleted without a tombstone"));
        scene.trace.check(created, || {
            format!("I4: {key} is deleted without a record that we created it")
        });
        scene
            .trace
            .check(made, || format!("I4: {key} is deleted, which others made"));
    }

    /// The seeded bug: what the new set does not speak of is taken for unwanted.
    pub(super) fn delete_absent(&mut self, scene: &mut Scene<'_>) {
        let Some(set) = self.ledger.held.as_ref().map(|h| h.set.clone()) else {
            return;
        };
        let gone: Vec<(ObjectKey, String)> = self
            .ledger
            .records
            .values()
            .filter(|r| r.origin == Origin::Created && set.entry(&r.key).is_none())
            .map(|r| (r.key.clone(), r.uid.clone()))
            .collect();
        for (key, uid) in gone {
            if set.tombstone(&key).is_some() {
                continue;
            }
            self.check_delete(&key, &uid, false, scene);
            self.member.delete_by_name(&key);
        }
    }

    pub(super) fn release(
        &mut self,
        key: &ObjectKey,
        uid: &str,
        scene: &mut Scene<'_>,
    ) -> Result<Result<Outcome, Trouble>, Crashed> {
        let intent = self.ledger.intents.get(key).cloned();
        if let Err(trouble) = self.api(scene, intent.as_ref()) {
            return Ok(Err(trouble));
        }
        self.member.release(key, uid);
        scene.trace.mark("object released");
        self.dies(scene)?;
        self.ledger.records.remove(key);
        self.ledger.intents.remove(key);
        Ok(Ok(Outcome::Released))
    }
}
