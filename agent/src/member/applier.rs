//! Stage 15: carries one action out against the member, with the ledger written at the right moments.
//!
//! Order for a create: read, decide, *intent* durable, apply, *record* durable. A crash between any two leaves
//! either nothing, or an object whose nonce the open intent names. Nothing is forced onto an object that is
//! not ours unless the policy says Overwrite, and a delete always carries the uid it means.

mod ending;
mod foreign;

use std::cell::RefCell;
use std::rc::Rc;

use agent_core::action::{Action, Outcome};
use agent_core::decide::{self, Step};
use agent_core::effective;
use agent_core::guard::Verb;
use agent_core::live::Live;
use agent_core::record::{Intent, ObjectRecord, Origin};
use interpreter::Interpreter;
use serde_json::{Value, json};
use shared::ids::ObjectKey;
use shared::owned::Marker;
use shared::reason::Reason;
use shared::set::Entry;

use super::api::{Api, ApplyMode, Target};
use super::content;
use super::errors::ApiError;
use super::kinds::Kinds;
use super::observe::observe;
use crate::crash;
use crate::guard::Keeper;
use crate::ledger::{Ledger, LedgerError};
use crate::random::Random;
use crate::replica::Mirror;

/// Carries actions out.
pub struct Applier {
    api: Api,
    kinds: Rc<Kinds>,
    ledger: Rc<RefCell<Ledger>>,
    interpreter: Box<dyn Interpreter>,
    guard: Rc<Keeper>,
    marker: Marker,
    random: Random,
    mirror: Option<Rc<Mirror>>,
}

/// Why an action did not end as wished.
enum Trouble {
    Api(ApiError),
    Ledger(LedgerError),
    Refused(Reason, String, Option<Box<Live>>),
}

impl From<ApiError> for Trouble {
    fn from(e: ApiError) -> Self {
        Self::Api(e)
    }
}

impl From<LedgerError> for Trouble {
    fn from(e: LedgerError) -> Self {
        Self::Ledger(e)
    }
}

/// What an action needs besides itself, gathered once.
struct Job<'a> {
    entry: &'a Entry,
    record: Option<ObjectRecord>,
    intent: Option<Intent>,
    content: Value,
    target: Target,
    repair: bool,
}

impl Applier {
    /// Puts one together.
    #[must_use]
    pub fn new(
        api: Api,
        kinds: Rc<Kinds>,
        ledger: Rc<RefCell<Ledger>>,
        interpreter: Box<dyn Interpreter>,
        guard: Rc<Keeper>,
        marker: Marker,
        random: Random,
    ) -> Self {
        Self {
            api,
            kinds,
            ledger,
            interpreter,
            guard,
            marker,
            random,
            mirror: None,
        }
    }

    /// What it writes into the ledger is also shared with the agents that wait.
    #[must_use]
    pub(crate) fn sharing(mut self, mirror: Option<Rc<Mirror>>) -> Self {
        self.mirror = mirror;
        self
    }

    /// Shares what the ledger now says of an object. Before an action that builds on it: `before`. After one, what is
    /// not shared is not known to whoever leads next, so this agent gives the lead up.
    async fn share(&self, key: &ObjectKey, before: bool) -> Result<(), Trouble> {
        let Some(mirror) = &self.mirror else {
            return Ok(());
        };
        let row = self.ledger.borrow().row(key)?;
        let shared = mirror.note(key, row).await;
        if shared.is_err() && !before {
            mirror.give_up();
        }
        shared.map_err(|e| Trouble::Refused(e.reason(), e.to_string(), None))
    }

    /// Carries one action out.
    ///
    /// # Errors
    /// Only when the ledger is damaged: the caller must stop and set it aside.
    pub async fn carry_out(&self, action: Action) -> Result<Outcome, LedgerError> {
        let intent = match &action {
            Action::Apply { intent, .. } => intent.clone(),
            Action::Claim { intent, .. } => Some(intent.clone()),
            _ => None,
        };
        if let Some(verb) = verb_of(&action)
            && let Err(message) = self.guard.check(verb, action.key())
        {
            return Ok(Outcome::Failed {
                reason: Reason::GuardRefused,
                message,
                live: None,
                intent,
                pause: None,
            });
        }
        let ended = match action {
            Action::Read {
                key,
                api_version,
                record,
                template_generation,
            } => self.read(&key, &api_version, record, template_generation).await,
            Action::Apply {
                entry,
                record,
                intent,
                repair,
            } => self.apply(&entry, record, intent, repair).await,
            Action::Delete {
                key,
                api_version,
                uid,
                again,
            } => self.delete(&key, &api_version, &uid, again).await,
            Action::Release {
                key,
                api_version,
                uid,
            } => self.release(&key, &api_version, &uid).await,
            Action::Claim { intent, record } => self.claim(intent, record).await,
            Action::Bury { key, how } => self.bury(&key, how).await,
        };
        match ended {
            Ok(outcome) => Ok(outcome),
            Err(Trouble::Refused(reason, message, live)) => Ok(Outcome::Failed {
                reason,
                message,
                live,
                intent,
                pause: None,
            }),
            Err(Trouble::Api(e)) => Ok(Outcome::Failed {
                reason: e.reason,
                pause: e.pause_ms(),
                message: e.message,
                live: None,
                intent,
            }),
            Err(Trouble::Ledger(e)) if e.is_corrupt() => Err(e),
            Err(Trouble::Ledger(e)) => {
                let reason = if e.is_disk_full() {
                    Reason::DiskFull
                } else {
                    Reason::Pending
                };
                Ok(Outcome::Failed {
                    reason,
                    message: with_source(&e),
                    live: None,
                    intent,
                    pause: None,
                })
            }
        }
    }

    async fn target(&self, key: &ObjectKey, api_version: &str) -> Result<Target, ApiError> {
        let resource = self.kinds.find(&self.api, api_version, &key.kind).await?;
        if resource.namespaced == key.namespace.is_empty() {
            let mut error = ApiError::of_answer(http::StatusCode::UNPROCESSABLE_ENTITY, b"{}");
            let scope = if resource.namespaced {
                "namespaced"
            } else {
                "cluster-scoped"
            };
            error.message = format!("{} is {scope} in this member", key.kind);
            return Err(error);
        }
        Ok(Target {
            resource,
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        })
    }

    async fn get(&self, target: &Target) -> Result<Option<Value>, ApiError> {
        let answer = self.api.read(target).await;
        if answer.as_ref().is_err_and(ApiError::is_kind_absent) {
            self.kinds.forget(&target.resource.api_version);
        }
        answer
    }

    fn live(&self, object: Option<&Value>) -> Option<Box<Live>> {
        object.and_then(|o| Live::read(o, &self.marker)).map(Box::new)
    }

    async fn read(
        &self,
        key: &ObjectKey,
        api_version: &str,
        record: Option<ObjectRecord>,
        template_generation: Option<u64>,
    ) -> Result<Outcome, Trouble> {
        let target = match self.target(key, api_version).await {
            // Without its kind an object cannot exist.
            Err(e) if e.reason == Reason::ApiAbsent => {
                return Ok(Outcome::Read {
                    live: None,
                    observation: None,
                    record,
                });
            }
            other => other?,
        };
        let object = self.get(&target).await?;
        let live = self.live(object.as_ref());
        let record = self.note_completion(record, live.as_deref()).await?;
        let ours = record
            .as_ref()
            .zip(live.as_deref())
            .is_some_and(|(r, l)| r.uid == l.uid);
        let observation = object
            .filter(|_| ours)
            .map(|object| observe(self.interpreter.as_ref(), object, template_generation));
        Ok(Outcome::Read {
            live,
            observation,
            record,
        })
    }

    /// A Job or Pod that has ended is remembered as such, so that its later absence is not drift.
    async fn note_completion(
        &self,
        record: Option<ObjectRecord>,
        live: Option<&Live>,
    ) -> Result<Option<ObjectRecord>, Trouble> {
        let Some(mut record) = record else { return Ok(None) };
        if live.is_some_and(|l| l.completed && l.uid == record.uid) && !record.completed {
            record.completed = true;
            self.ledger
                .borrow_mut()
                .put_record(&record, wall(), "ran to its end")?;
            self.share(&record.key, false).await?;
        }
        Ok(Some(record))
    }

    async fn apply(
        &self,
        entry: &Entry,
        record: Option<ObjectRecord>,
        intent: Option<Intent>,
        repair: bool,
    ) -> Result<Outcome, Trouble> {
        let content = self.content(entry)?;
        let api_version = content
            .get("apiVersion")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let target = self.target(&entry.key, &api_version).await?;
        let object = self.get(&target).await?;
        let live = self.live(object.as_ref());
        let step = decide::decide(entry, record.as_ref(), intent.as_ref(), live.as_deref());
        let job = Job {
            entry,
            record,
            intent,
            content,
            target,
            repair,
        };
        match (step, object) {
            (Step::Create, _) => self.create(job).await,
            (Step::Update { origin, nonce }, Some(observed)) => {
                let desired = effective::marked(job.content.clone(), entry, &self.marker, nonce);
                let what = if job.repair { "repaired" } else { "applied" };
                self.force(
                    job,
                    &desired,
                    &observed,
                    ObjectRecord {
                        nonce,
                        ..self.blank(entry, &api_version, origin)
                    },
                    what,
                )
                .await
            }
            (Step::Take, Some(observed)) => self.take(job, observed).await,
            (Step::Conflict, Some(observed)) => Err(self.conflict(job, &observed, live).await),
            (Step::Replace { uid }, _) => {
                let record = job.record.filter(|r| r.uid == uid);
                let record = match (record, &job.intent) {
                    (Some(record), _) => Some(record),
                    (None, Some(intent)) => Some(self.claimed(intent, live.as_deref()).await?),
                    (None, None) => None,
                };
                Ok(Outcome::Seen {
                    live,
                    record,
                    intent: None,
                })
            }
            (Step::Yield, _) => Err(Trouble::Refused(
                Reason::Superseded,
                "another agent of this cluster took it over; this one leaves it alone".to_owned(),
                live,
            )),
            (Step::Wait | Step::Completed, _) => Ok(Outcome::Seen {
                live,
                record: job.record,
                intent: job.intent,
            }),
            // The other steps follow only from an object that was read.
            (Step::Update { .. } | Step::Take | Step::Conflict, None) => Ok(Outcome::Seen {
                live: None,
                record: job.record,
                intent: job.intent,
            }),
        }
    }

    fn content(&self, entry: &Entry) -> Result<Value, Trouble> {
        let bytes = self.ledger.borrow().content_bytes(&entry.digest)?;
        let Some(bytes) = bytes else {
            return Err(Trouble::Refused(
                Reason::Pending,
                "its content is not in the ledger yet".to_owned(),
                None,
            ));
        };
        let content: Value = serde_json::from_slice(&bytes).map_err(|e| {
            Trouble::Refused(Reason::Malformed, format!("the content is not JSON: {e}"), None)
        })?;
        if shared::object::key(&content).as_ref() != Some(&entry.key) {
            let message = "the content is of another object than its entry".to_owned();
            return Err(Trouble::Refused(Reason::Malformed, message, None));
        }
        Ok(content)
    }

    fn blank(&self, entry: &Entry, api_version: &str, origin: Origin) -> ObjectRecord {
        ObjectRecord {
            key: entry.key.clone(),
            api_version: api_version.to_owned(),
            uid: String::new(),
            nonce: None,
            origin,
            content: entry.digest,
            template_uid: entry.template_uid.clone(),
            fields: None,
            completed: false,
        }
    }

    async fn create(&self, job: Job<'_>) -> Result<Outcome, Trouble> {
        let api_version = job.target.resource.api_version.clone();
        let intent = Intent {
            key: job.entry.key.clone(),
            api_version: api_version.clone(),
            nonce: self.random.nonce(),
            template_uid: job.entry.template_uid.clone(),
        };
        self.ledger.borrow().put_intent(&intent)?;
        self.share(&intent.key, true).await?;
        crash::point("intent-apply");
        let desired = effective::marked(job.content, job.entry, &self.marker, Some(intent.nonce));
        let mode = ApplyMode {
            force: false,
            dry_run: false,
        };
        let applied = match self.api.apply(&job.target, &desired, mode).await {
            Ok(applied) => applied,
            // Nothing was written; the intent stays open in case the answer and not the create was lost.
            Err(e) => {
                let reason = if e.is_conflict() {
                    Reason::Pending
                } else {
                    e.reason
                };
                return Ok(Outcome::Failed {
                    reason,
                    pause: e.pause_ms(),
                    message: e.message,
                    live: None,
                    intent: Some(intent),
                });
            }
        };
        crash::point("apply-record");
        if !applied.created {
            // Somebody made it between our read and our apply: give back every field and look again.
            let empty = json!({"apiVersion": api_version, "kind": job.entry.key.kind,
                "metadata": {"name": job.entry.key.name}});
            self.api.apply(&job.target, &empty, mode).await?;
            self.ledger.borrow().drop_intent(&job.entry.key)?;
            self.share(&job.entry.key, false).await?;
            let message = "another object appeared under this name while it was being created".to_owned();
            return Ok(Outcome::Failed {
                reason: Reason::Pending,
                message,
                live: None,
                intent: None,
                pause: None,
            });
        }
        let mut record = self.blank(job.entry, &api_version, Origin::Created);
        record.nonce = Some(intent.nonce);
        self.record(
            record,
            applied.object,
            job.entry,
            if job.repair { "created again" } else { "created" },
        )
        .await
    }

    /// Applies with force onto an object that was read, bound to its uid.
    async fn force(
        &self,
        job: Job<'_>,
        desired: &Value,
        observed: &Value,
        record: ObjectRecord,
        what: &str,
    ) -> Result<Outcome, Trouble> {
        let replicas =
            job.entry.retain_replicas || self.is_autoscaled(&job.target, desired, observed).await?;
        let mut send = effective::retained(self.interpreter.as_ref(), desired, observed, replicas)
            .map_err(|e| Trouble::Refused(e.reason_or(Reason::Invalid), e.to_string(), None))?;
        if let Some(metadata) = send.get_mut("metadata").and_then(Value::as_object_mut)
            && let Some(uid) = observed.pointer("/metadata/uid").cloned()
        {
            metadata.insert("uid".to_owned(), uid);
        }
        let mode = ApplyMode {
            force: true,
            dry_run: false,
        };
        let applied = match self.api.apply(&job.target, &send, mode).await {
            Err(e) if e.is_conflict() => {
                let message = "the object changed while it was being applied; trying again".to_owned();
                return Err(Trouble::Refused(Reason::Pending, message, None));
            }
            Err(e) if e.reason == Reason::ImmutableField => {
                return Err(self.immutable(&job, e, observed).await);
            }
            Err(e) if e.reason == Reason::Invalid => {
                return Err(self.untangle(&job, e, &send, observed).await);
            }
            other => other?,
        };
        crash::point("apply-record");
        let completed = job
            .record
            .as_ref()
            .is_some_and(|r| r.completed && r.template_uid == record.template_uid);
        self.record(
            ObjectRecord { completed, ..record },
            applied.object,
            job.entry,
            what,
        )
        .await
    }

    async fn record(
        &self,
        record: ObjectRecord,
        object: Value,
        entry: &Entry,
        what: &str,
    ) -> Result<Outcome, Trouble> {
        let Some(live) = Live::read(&object, &self.marker) else {
            let message = "the member answered an apply with an object without uid".to_owned();
            return Err(Trouble::Refused(Reason::Invalid, message, None));
        };
        let record = ObjectRecord {
            uid: live.uid.clone(),
            fields: live.fields,
            ..record
        };
        self.ledger.borrow_mut().put_record(&record, wall(), what)?;
        self.share(&record.key, false).await?;
        let observation = Some(observe(
            self.interpreter.as_ref(),
            object,
            Some(entry.template_generation),
        ));
        Ok(Outcome::Applied {
            record,
            live: Box::new(live),
            observation,
        })
    }

    /// Whether a HorizontalPodAutoscaler of the member targets the object. Asked only where replicas differ.
    async fn is_autoscaled(
        &self,
        target: &Target,
        desired: &Value,
        observed: &Value,
    ) -> Result<bool, ApiError> {
        let (Some(want), Some(have)) = (
            desired.pointer("/spec/replicas"),
            observed.pointer("/spec/replicas"),
        ) else {
            return Ok(false);
        };
        if want == have || !target.resource.namespaced {
            return Ok(false);
        }
        content::autoscaler_targets(&self.api, &target.namespace, &target.resource.kind, &target.name).await
    }
}

/// What the guard is asked about an action; reading and bookkeeping need no leave.
fn verb_of(action: &Action) -> Option<Verb> {
    match action {
        Action::Apply { .. } | Action::Release { .. } => Some(Verb::Apply),
        Action::Delete { .. } => Some(Verb::Delete),
        Action::Read { .. } | Action::Claim { .. } | Action::Bury { .. } => None,
    }
}

/// The machine's clock, for people who read the journal; no decision looks at it.
fn wall() -> i64 {
    crate::clock::wall_seconds().0
}

fn with_source(error: &LedgerError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
