//! One object key that the agent has to do with: what is wanted, recorded and seen, and what came of it.

use crate::diff::{Burial, Seen, Want};
use crate::observation::Observation;
use crate::pace::Pace;
use crate::record::{Intent, ObjectRecord};
use shared::ids::ObjectKey;
use shared::reason::Reason;
use shared::time::Millis;

/// Where a target stands; this is what reports are made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Nothing was tried yet.
    Pending,
    /// It waits for another object.
    Waiting {
        /// What it waits for.
        on: ObjectKey,
    },
    /// Member and set agree.
    InSync,
    /// The last try failed or was refused.
    Failed {
        /// Why, by code.
        reason: Reason,
        /// Why, in words.
        message: String,
    },
    /// The entry is suspended.
    Suspended,
    /// It ran to its end and is gone since.
    Completed,
    /// It is being deleted in the member.
    Terminating,
    /// The set no longer speaks of it; it is kept.
    Stray,
    /// Its tombstone is carried out.
    Buried(Burial),
}

/// Everything known of one object key.
#[derive(Debug, Clone)]
pub struct Target {
    pub(crate) want: Want,
    pub(crate) api_version: String,
    pub(crate) record: Option<ObjectRecord>,
    pub(crate) intent: Option<Intent>,
    pub(crate) seen: Seen,
    pub(crate) pace: Pace,
    pub(crate) phase: Phase,
    /// When the phase began.
    pub(crate) since: Millis,
    /// The phase may have begun before this process did: `since` is then a lower bound.
    pub(crate) since_before_boot: bool,
    /// The target comes from the ledger and nothing was found out about it yet.
    pub(crate) from_ledger: bool,
    /// When what is wanted last changed.
    pub(crate) wanted_at: Millis,
    /// An action is under way.
    pub(crate) busy: bool,
    /// The object changed meanwhile, to this resourceVersion if that is known (else empty).
    pub(crate) stale: Option<String>,
    /// Something was tried since what is wanted last changed.
    pub(crate) tried: bool,
    /// No write before this time: the last one failed, or a fight is backed off.
    pub(crate) not_before: Millis,
    /// When the object is read again without being asked.
    pub(crate) reread_at: Option<Millis>,
    /// The repair that is due was counted.
    pub(crate) repair_counted: bool,
    /// Others keep overwriting our fields; the name of the last one.
    pub(crate) contested_by: Option<String>,
    pub(crate) observation: Option<Observation>,
}

impl Target {
    pub(crate) fn new(want: Want, api_version: String, now: Millis) -> Self {
        Self {
            want,
            api_version,
            record: None,
            intent: None,
            seen: Seen::Unknown,
            pace: Pace::default(),
            phase: Phase::Pending,
            since: now,
            since_before_boot: false,
            from_ledger: false,
            wanted_at: now,
            busy: false,
            stale: None,
            tried: false,
            not_before: Millis(0),
            reread_at: None,
            repair_counted: false,
            contested_by: None,
            observation: None,
        }
    }

    /// What the set says.
    #[must_use]
    pub fn want(&self) -> &Want {
        &self.want
    }

    /// What the ledger says.
    #[must_use]
    pub fn record(&self) -> Option<&ObjectRecord> {
        self.record.as_ref()
    }

    /// Where it stands.
    #[must_use]
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// When the phase began.
    #[must_use]
    pub fn since(&self) -> Millis {
        self.since
    }

    /// What the member says of the object's own state.
    #[must_use]
    pub fn observation(&self) -> Option<&Observation> {
        self.observation.as_ref()
    }

    /// Who keeps overwriting our fields, if anybody.
    #[must_use]
    pub fn contested_by(&self) -> Option<&str> {
        self.contested_by.as_deref()
    }

    pub(crate) fn is_entry(&self) -> bool {
        matches!(self.want, Want::Entry(_))
    }

    /// The object is there, whoever made it.
    pub(crate) fn exists(&self) -> bool {
        matches!(&self.seen, Seen::Present(live) if !live.deleting)
    }

    /// The object is there and may be used: for a CRD, it is established.
    pub(crate) fn is_established(&self) -> bool {
        matches!(&self.seen, Seen::Present(live) if !live.deleting && live.established)
    }

    /// The version through which the object is read: what it was applied with, else what the content says.
    pub(crate) fn read_version(&self) -> String {
        match (&self.record, &self.intent) {
            (Some(record), _) => record.api_version.clone(),
            (None, Some(intent)) => intent.api_version.clone(),
            (None, None) => self.api_version.clone(),
        }
    }
}
