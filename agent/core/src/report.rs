//! Stage 17: states of targets become reports: coalesced, worst first within a byte budget, numbered.
//!
//! A report carries states, not differences, so what changed while one was under way simply goes into the next.
//! A new session starts at number one and reports everything again; a hub that forgot learns all of it.

use std::collections::BTreeSet;

use crate::diff::{Burial, Seen, Want};
use crate::engine::Engine;
use crate::limits::REPORT_GATHER;
use crate::record::ObjectRecord;
use crate::target::{Phase, Target};
use shared::ids::{BootId, Digest, ObjectKey, ReportSeq};
use shared::limits::{MESSAGE_BYTES_MAX, REPORT_BYTES_MAX, REPORT_OBJECTS_MAX};
use shared::reason::Reason;
use shared::time::Millis;
use shared::wire::{ApplyState, Capacity, Health, ObjectReport, Report, TombstoneDone, TombstoneOutcome};

/// Bytes an object takes in a report besides its texts and status.
const OBJECT_OVERHEAD: usize = 96;

/// Keeps what the hub has not been told yet.
#[derive(Debug)]
pub struct Reporter {
    boot: BootId,
    next: ReportSeq,
    pending: BTreeSet<ObjectKey>,
    since: Option<Millis>,
    strays: BTreeSet<ObjectKey>,
    strays_told: Option<BTreeSet<ObjectKey>>,
    capacity: Option<Capacity>,
    capacity_pending: bool,
    /// The kinds that the member serves were told since they last changed.
    apis_told: bool,
    /// Everything has to be told once in this session.
    full_pending: bool,
    /// The report under way. What it told need not be kept: it is repeated as it is until it is acknowledged, and a
    /// new session tells everything.
    sent: Option<ReportSeq>,
}

impl Reporter {
    /// A reporter of this start of the process.
    #[must_use]
    pub fn new(boot: BootId) -> Self {
        Self {
            boot,
            next: ReportSeq(1),
            pending: BTreeSet::new(),
            since: None,
            strays: BTreeSet::new(),
            strays_told: None,
            capacity: None,
            capacity_pending: false,
            apis_told: false,
            full_pending: true,
            sent: None,
        }
    }

    /// A session was agreed on: number from one, and tell everything.
    pub fn handle_agreed(&mut self, engine: &Engine, now: Millis) {
        self.next = ReportSeq(1);
        self.handle_forgotten(engine, now);
    }

    /// The hub lost what it was told: tell everything again.
    pub fn handle_forgotten(&mut self, engine: &Engine, now: Millis) {
        self.sent = None;
        self.apis_told = false;
        self.full_pending = true;
        self.strays_told = None;
        self.capacity_pending = self.capacity.is_some();
        self.pending = engine.targets().map(|(key, _)| key.clone()).collect();
        self.since = Some(now);
    }

    /// Targets changed.
    pub fn handle_changed(&mut self, changed: BTreeSet<ObjectKey>, now: Millis) {
        if !changed.is_empty() {
            self.since.get_or_insert(now);
            self.pending.extend(changed);
        }
    }

    /// The member's capacity was measured; only a material change is told.
    pub fn handle_capacity(&mut self, capacity: Capacity, now: Millis) {
        if self.capacity.as_ref() != Some(&capacity) {
            self.apis_told &= self.capacity.as_ref().is_some_and(|c| c.apis == capacity.apis);
            self.capacity = Some(capacity);
            self.capacity_pending = true;
            self.since.get_or_insert(now);
        }
    }

    /// The hub stored every report up to this number.
    pub fn handle_acknowledged(&mut self, seq: ReportSeq) {
        self.sent.take_if(|sent| *sent <= seq);
    }

    /// The capacity, if it is to be told; without the kinds when they were told already.
    fn untold_capacity(&self) -> Option<Capacity> {
        let mut capacity = self.capacity.clone().filter(|_| self.capacity_pending)?;
        if self.apis_told {
            capacity.apis.clear();
        }
        Some(capacity)
    }

    /// When there will be something to report; none if nothing is pending.
    #[must_use]
    pub fn next_wake(&self) -> Option<Millis> {
        self.since
            .filter(|_| self.sent.is_none())
            .map(|s| s.plus(REPORT_GATHER.0))
    }

    /// The next report, if one is due and none is under way.
    pub fn poll_report(&mut self, engine: &Engine, now: Millis) -> Option<Report> {
        if self.sent.is_some() || self.since.is_none_or(|s| now.since(s) < REPORT_GATHER.0) {
            return None;
        }
        self.strays = engine
            .targets()
            .filter(|(_, t)| t.want == Want::Stray && t.record.is_some())
            .map(|(key, _)| key.clone())
            .take(REPORT_OBJECTS_MAX)
            .collect();
        let mut report = Report {
            report_seq: self.next,
            boot: self.boot,
            objects: Vec::new(),
            tombstones_done: Vec::new(),
            strays: (self.strays_told.as_ref() != Some(&self.strays))
                .then(|| self.strays.iter().cloned().collect()),
            capacity: self.untold_capacity(),
            full: false,
        };
        let (keys, more) = self.fill(&mut report, engine, now);
        report.full = self.full_pending && self.pending.is_empty();
        self.full_pending &= !report.full;
        let (strays, capacity) = (report.strays.is_some(), report.capacity.is_some());
        self.capacity_pending = false;
        self.apis_told |= capacity;
        self.strays_told = Some(self.strays.clone());
        self.since = more.then_some(now);
        if keys.is_empty() && !strays && !capacity && !report.full {
            return None;
        }
        self.next = self.next.next();
        self.sent = Some(report.report_seq);
        Some(report)
    }

    /// Moves pending targets into the report, worst first, until it is full.
    fn fill(&mut self, report: &mut Report, engine: &Engine, now: Millis) -> (BTreeSet<ObjectKey>, bool) {
        let mut order: Vec<(u8, &ObjectKey, &Target)> = self
            .pending
            .iter()
            .filter_map(|key| engine.target(key).map(|t| (severity(t), key, t)))
            .collect();
        order.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
        let unread: BTreeSet<ObjectKey> = order
            .iter()
            .filter(|(_, _, t)| is_unread(t))
            .map(|(_, key, _)| (*key).clone())
            .collect();
        order.retain(|(_, _, t)| !is_unread(t));
        let mut told = BTreeSet::new();
        let mut left_over = false;
        let mut bytes = 0;
        for (_, key, target) in order {
            let count = report.objects.len().max(report.tombstones_done.len());
            let size = OBJECT_OVERHEAD + size_of_texts(key, target);
            if count >= REPORT_OBJECTS_MAX || bytes + size > REPORT_BYTES_MAX {
                left_over = true;
                continue;
            }
            bytes += size;
            match (&target.want, &target.phase) {
                (Want::Tombstone(tombstone), Phase::Buried(how)) => {
                    report.tombstones_done.push(TombstoneDone {
                        key: key.clone(),
                        sequence: tombstone.sequence,
                        outcome: outcome(*how),
                    })
                }
                (Want::Stray, _) => {}
                _ => report.objects.push(object_report(key, target, now)),
            }
            told.insert(key.clone());
        }
        if left_over {
            self.pending.retain(|key| !told.contains(key));
        } else {
            // Those wait for their reading, which counts as a change.
            self.pending = unread;
        }
        (told, left_over)
    }
}

fn size_of_texts(key: &ObjectKey, target: &Target) -> usize {
    let status = target
        .observation
        .as_ref()
        .and_then(|o| o.status.as_ref())
        .map_or(0, |s| s.len());
    let message = match &target.phase {
        Phase::Failed { message, .. } => message.len().min(MESSAGE_BYTES_MAX),
        _ => 64,
    };
    key.group.len() + key.kind.len() + key.namespace.len() + key.name.len() + status + message + 36
}

/// Lower is told earlier.
fn severity(target: &Target) -> u8 {
    match &target.phase {
        Phase::Failed { .. } => 0,
        Phase::Buried(_) => 1,
        _ => match target.observation.as_ref().map(|o| o.health) {
            Some(interpreter::Health::Unhealthy) => 2,
            _ => 3,
        },
    }
}

fn outcome(how: Burial) -> TombstoneOutcome {
    match how {
        Burial::Deleted => TombstoneOutcome::Deleted,
        Burial::Released => TombstoneOutcome::Released,
        Burial::NeverOurs | Burial::Replaced => TombstoneOutcome::Absent,
    }
}

fn object_report(key: &ObjectKey, target: &Target, now: Millis) -> ObjectReport {
    let (applied, reason, message) = state(target);
    let (digest, template_generation) = stands_for(target);
    let observation = target
        .observation
        .as_ref()
        .filter(|_| is_seen_as_recorded(target));
    ObjectReport {
        key: key.clone(),
        digest,
        template_generation,
        applied,
        health: match observation.map(|o| o.health) {
            Some(interpreter::Health::Healthy) => Health::Healthy,
            Some(interpreter::Health::Unhealthy) => Health::Unhealthy,
            Some(interpreter::Health::Unknown) | None => Health::Unknown,
        },
        reason: reason.into(),
        message: bounded(message),
        uid: target.record.as_ref().map(|r| r.uid.clone()).unwrap_or_default(),
        status: observation
            .and_then(|o| o.status.as_ref())
            .map(|s| s.to_vec())
            .unwrap_or_default(),
        age_ms: now.since(target.since),
        age_is_lower_bound: target.since_before_boot,
    }
}

/// The content and generation that the state speaks of: what is wanted now. A state of success is shown only while
/// the record says that this very content was applied (see [`state`]).
fn stands_for(target: &Target) -> (Digest, u64) {
    match (&target.want, &target.record) {
        (Want::Entry(entry), _) => (entry.digest, entry.template_generation),
        (_, Some(record)) => (record.content, 0),
        (_, None) => (Digest([0; 32]), 0),
    }
}

/// A start found it in the ledger and has not looked at it yet: what the hub was told before is better than
/// nothing known, so it is told only once it was read.
fn is_unread(target: &Target) -> bool {
    target.phase == Phase::Pending
        && target.record.is_some()
        && target.observation.is_none()
        && target.from_ledger
}

fn is_current(digest: Digest, template_uid: &str, record: &ObjectRecord) -> bool {
    record.content == digest && record.template_uid == template_uid
}

fn is_seen_as_recorded(target: &Target) -> bool {
    match (&target.record, &target.seen) {
        (Some(record), Seen::Present(live)) => record.uid == live.uid,
        // Changed since it was read: what was read last still is the best knowledge.
        (Some(_), Seen::Unknown) => true,
        _ => false,
    }
}

/// Where a target stands, as reports say it.
#[must_use]
pub fn state(target: &Target) -> (ApplyState, Reason, String) {
    let applied = || match &target.contested_by {
        Some(by) => (
            ApplyState::Applied,
            Reason::Fighting,
            format!("{by} keeps overwriting what the set says"),
        ),
        None => match target.observation.as_ref().and_then(|o| o.trouble.as_ref()) {
            Some(trouble) => (ApplyState::Applied, Reason::ScriptFailed, trouble.clone()),
            None => (ApplyState::Applied, Reason::Applied, String::new()),
        },
    };
    match &target.phase {
        Phase::Pending => match (&target.want, &target.record) {
            (Want::Entry(e), Some(r)) if is_current(e.digest, &e.template_uid, r) => applied(),
            _ => (ApplyState::Pending, Reason::Pending, String::new()),
        },
        Phase::Waiting { on } => (
            ApplyState::Pending,
            Reason::AwaitingDependency,
            format!("waits for {on}"),
        ),
        Phase::InSync | Phase::Completed => applied(),
        Phase::Failed { reason, message } => (ApplyState::Failed, *reason, message.clone()),
        Phase::Suspended => (ApplyState::Suspended, Reason::Suspended, String::new()),
        Phase::Terminating => (
            ApplyState::Pending,
            Reason::AwaitingDeletion,
            "it is being deleted in the member".to_owned(),
        ),
        Phase::Stray => (ApplyState::Applied, Reason::Stray, String::new()),
        Phase::Buried(_) => (ApplyState::Applied, Reason::Applied, String::new()),
    }
}

fn bounded(mut message: String) -> String {
    if message.len() > MESSAGE_BYTES_MAX {
        let mut end = MESSAGE_BYTES_MAX;
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        message.truncate(end);
    }
    message
}
