//! Actions of an agent that read and write objects, with crashes at every durability boundary.

use std::sync::Arc;

use agent_core::action::{Action, Outcome};
use agent_core::decide::{self, Step};
use agent_core::diff::Burial;
use agent_core::effective;
use agent_core::live::Live;
use agent_core::record::{Intent, ObjectRecord, Origin};
use serde_json::Value;
use shared::ids::{Nonce, ObjectKey};
use shared::reason::Reason;
use shared::set::{ConflictResolution, Entry};

use super::super::bugs::Bug;
use super::super::hub::Scene;
use super::super::member::Refusal;
use super::{Crashed, Node, Trouble};

impl Node {
    fn live(&self, object: Option<&Value>) -> Option<Box<Live>> {
        object.and_then(|o| Live::read(o, &self.marker)).map(Box::new)
    }

    /// The member's API fails before doing anything.
    pub(super) fn api(&mut self, scene: &mut Scene<'_>, intent: Option<&Intent>) -> Result<(), Trouble> {
        if self.rng.chance(scene.faults.api) {
            scene.trace.mark("member fails");
            return Err(Trouble {
                reason: Reason::MemberOverloaded,
                live: None,
                intent: intent.cloned(),
            });
        }
        Ok(())
    }

    pub(super) fn carry_out(&mut self, action: Action, scene: &mut Scene<'_>) -> Result<Outcome, Crashed> {
        let done = match action {
            Action::Read {
                key,
                record,
                template_generation,
                ..
            } => self.read(&key, record, template_generation, scene),
            Action::Apply {
                entry,
                record,
                intent,
                ..
            } => self.apply(&entry, record, intent, scene)?,
            Action::Delete { key, uid, again, .. } => self.delete(&key, &uid, again, scene)?,
            Action::Release { key, uid, .. } => self.release(&key, &uid, scene)?,
            Action::Claim { intent, record } => self.claim(intent, record, scene),
            Action::Bury { key, how } => {
                self.dies(scene)?;
                self.ledger.records.remove(&key);
                self.ledger.intents.remove(&key);
                scene.trace.note(
                    scene.now,
                    format_args!("agent {} buries {key}: {how:?}", self.index),
                );
                if how == Burial::Deleted {
                    scene.trace.mark("tombstone executed");
                }
                Ok(Outcome::Buried(how))
            }
        };
        Ok(done.unwrap_or_else(|t| Outcome::Failed {
            reason: t.reason,
            message: t.reason.code().into(),
            live: t.live,
            intent: t.intent,
            pause: None,
        }))
    }

    fn read(
        &mut self,
        key: &ObjectKey,
        record: Option<ObjectRecord>,
        generation: Option<u64>,
        scene: &mut Scene<'_>,
    ) -> Result<Outcome, Trouble> {
        let intent = self.ledger.intents.get(key).cloned();
        self.api(scene, intent.as_ref())?;
        let object = self.member.get(key);
        let live = self.live(object.as_ref());
        let ours = record
            .as_ref()
            .zip(live.as_deref())
            .is_some_and(|(r, l)| r.uid == l.uid);
        let record = record.map(|mut r| {
            if ours && live.as_deref().is_some_and(|l| l.completed) {
                r.completed = true;
                self.ledger.records.insert(key.clone(), r.clone());
            }
            r
        });
        let observation = if ours && generation.is_some() {
            self.member.observation(key)
        } else {
            None
        };
        Ok(Outcome::Read {
            live,
            observation,
            record,
        })
    }

    fn apply(
        &mut self,
        entry: &Arc<Entry>,
        record: Option<ObjectRecord>,
        intent: Option<Intent>,
        scene: &mut Scene<'_>,
    ) -> Result<Result<Outcome, Trouble>, Crashed> {
        if let Err(trouble) = self.api(scene, intent.as_ref()) {
            return Ok(Err(trouble));
        }
        let Some(content) = self.ledger.contents.get(&entry.digest) else {
            scene.trace.check(false, || {
                format!("I8: content of {} is not in the ledger", entry.key)
            });
            return Ok(Err(Trouble {
                reason: Reason::Pending,
                live: None,
                intent,
            }));
        };
        let content: Value = serde_json::from_slice(&content.bytes).unwrap_or_default();
        let live = self.live(self.member.get(&entry.key).as_ref());
        let step = decide::decide(entry, record.as_ref(), intent.as_ref(), live.as_deref());
        if scene.faults.bug == Some(Bug::CreateTwice)
            && record.is_none()
            && let (Some(intent), Some(live)) = (&intent, live.as_deref())
            && decide::claims(intent, live)
        {
            self.check_delete(&entry.key, &live.uid, false, scene);
            self.member.delete_by_name(&entry.key);
            return self.create(entry, content, scene);
        }
        let forgotten = record.is_none()
            && !self.was_restored
            && step
                == (Step::Update {
                    origin: Origin::Adopted,
                    nonce: None,
                });
        let made = self
            .member
            .object(&entry.key)
            .is_some_and(|o| o.made_by_us && !o.released);
        scene.trace.check(!(forgotten && made), || {
            format!(
                "I4: we made {} and know nothing of it: its intent was forgotten",
                entry.key
            )
        });
        let origin_of = |origin, nonce| (origin, nonce);
        let (origin, nonce) = match step {
            Step::Create => return self.create(entry, content, scene),
            Step::Update { origin, nonce } => origin_of(origin, nonce),
            Step::Take => {
                let wanted = entry.conflict_resolution == ConflictResolution::Overwrite;
                scene.trace.check(wanted, || {
                    format!("{} was taken over without being asked", entry.key)
                });
                scene.trace.mark("taken over");
                origin_of(Origin::Adopted, None)
            }
            Step::Conflict => {
                scene.trace.mark("conflict");
                return Ok(Err(Trouble {
                    reason: Reason::Conflict,
                    live,
                    intent,
                }));
            }
            Step::Replace { uid } => {
                let record = record.filter(|r| r.uid == uid);
                let record = match (record, &intent) {
                    (Some(record), _) => Some(record),
                    (None, Some(intent)) => Some(self.claimed(intent, live.as_deref())),
                    (None, None) => None,
                };
                return Ok(Ok(Outcome::Seen {
                    live,
                    record,
                    intent: None,
                }));
            }
            Step::Yield => {
                return Ok(Err(Trouble {
                    reason: Reason::Superseded,
                    live,
                    intent,
                }));
            }
            Step::Wait | Step::Completed => return Ok(Ok(Outcome::Seen { live, record, intent })),
        };
        let desired = effective::marked(content, entry, &self.marker, nonce);
        let read = live.as_ref().map(|l| (l.uid.clone(), l.resource_version.clone()));
        if self.rng.chance(scene.faults.race) {
            let value = self.rng.below(1000).to_string();
            self.member.edit_foreign(&entry.key, "theirs", &value);
            scene.trace.mark("changed between read and apply");
        }
        let read = read
            .as_ref()
            .map(|(uid, version)| (uid.as_str(), version.as_str()));
        let applied = self.member.apply(&entry.key, &desired, true, read);
        if let Err(trouble) = self.refusal(&applied, intent.as_ref()) {
            return Ok(Err(trouble));
        }
        if let Err(trouble) = self.api(scene, intent.as_ref()) {
            // The answer is lost; the work is done.
            scene.trace.mark("answer of an apply lost");
            return Ok(Err(trouble));
        }
        self.dies(scene)?;
        let completed = record
            .as_ref()
            .is_some_and(|r| r.completed && r.template_uid == entry.template_uid);
        Ok(self.recorded(entry, origin, nonce, completed, scene))
    }

    fn refusal(&self, applied: &Result<bool, Refusal>, intent: Option<&Intent>) -> Result<(), Trouble> {
        let reason = match applied {
            Ok(_) => return Ok(()),
            Err(Refusal::NoNamespace) => Reason::AwaitingDependency,
            Err(Refusal::Conflict | Refusal::OtherUid | Refusal::OtherVersion) => Reason::Pending,
        };
        Err(Trouble {
            reason,
            live: None,
            intent: intent.cloned(),
        })
    }

    fn create(
        &mut self,
        entry: &Arc<Entry>,
        content: Value,
        scene: &mut Scene<'_>,
    ) -> Result<Result<Outcome, Trouble>, Crashed> {
        let api_version = content
            .get("apiVersion")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let intent = Intent {
            key: entry.key.clone(),
            api_version,
            nonce: Nonce(self.rng.bytes16()),
            template_uid: entry.template_uid.clone(),
        };
        if scene.faults.bug != Some(Bug::ForgetIntent) {
            self.ledger.intents.insert(entry.key.clone(), intent.clone());
        }
        self.dies(scene)?;
        let desired = effective::marked(content, entry, &self.marker, Some(intent.nonce));
        let applied = self.member.apply(&entry.key, &desired, false, None);
        if let Err(trouble) = self.refusal(&applied, Some(&intent)) {
            return Ok(Err(trouble));
        }
        scene.trace.note(
            scene.now,
            format_args!("agent {} creates {}", self.index, entry.key),
        );
        if let Err(trouble) = self.api(scene, Some(&intent)) {
            scene.trace.mark("answer of a create lost");
            return Ok(Err(trouble));
        }
        self.dies(scene)?;
        Ok(self.recorded(entry, Origin::Created, Some(intent.nonce), false, scene))
    }

    fn recorded(
        &mut self,
        entry: &Arc<Entry>,
        origin: Origin,
        nonce: Option<Nonce>,
        completed: bool,
        scene: &mut Scene<'_>,
    ) -> Result<Outcome, Trouble> {
        let object = self.member.get(&entry.key);
        let Some(live) = self.live(object.as_ref()) else {
            return Err(Trouble {
                reason: Reason::Invalid,
                live: None,
                intent: None,
            });
        };
        let record = ObjectRecord {
            key: entry.key.clone(),
            api_version: "v1".into(),
            uid: live.uid.clone(),
            nonce,
            origin,
            content: entry.digest,
            template_uid: entry.template_uid.clone(),
            fields: live.fields,
            completed,
        };
        let ours = self.member.object(&entry.key).is_some_and(|o| o.made_by_us);
        scene.trace.check(origin == Origin::Adopted || ours, || {
            format!("I4: {} is recorded as created, but others made it", entry.key)
        });
        self.ledger.records.insert(entry.key.clone(), record.clone());
        self.ledger.intents.remove(&entry.key);
        let observation = self.member.observation(&entry.key);
        Ok(Outcome::Applied {
            record,
            live,
            observation,
        })
    }

    fn claimed(&mut self, intent: &Intent, live: Option<&Live>) -> ObjectRecord {
        let record = ObjectRecord {
            key: intent.key.clone(),
            api_version: intent.api_version.clone(),
            uid: live.map(|l| l.uid.clone()).unwrap_or_default(),
            nonce: Some(intent.nonce),
            origin: Origin::Created,
            // What was applied is not known any more: any content counts as outdated.
            content: shared::ids::Digest([0; 32]),
            template_uid: intent.template_uid.clone(),
            fields: None,
            completed: false,
        };
        self.ledger.records.insert(intent.key.clone(), record.clone());
        self.ledger.intents.remove(&intent.key);
        record
    }

    fn claim(
        &mut self,
        intent: Intent,
        record: Option<ObjectRecord>,
        scene: &mut Scene<'_>,
    ) -> Result<Outcome, Trouble> {
        self.api(scene, Some(&intent))?;
        let live = self.live(self.member.get(&intent.key).as_ref());
        if live.as_deref().is_some_and(|l| decide::claims(&intent, l)) {
            scene.trace.mark("lost create claimed");
            let record = self.claimed(&intent, live.as_deref());
            return Ok(Outcome::Seen {
                live,
                record: Some(record),
                intent: None,
            });
        }
        self.ledger.intents.remove(&intent.key);
        Ok(Outcome::Seen {
            live,
            record,
            intent: None,
        })
    }
}
