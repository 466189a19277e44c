//! Desired × record × observed → the next action for one target, or none and why.
//!
//! Deletion follows from a tombstone and a record that says created, and from nothing else: no branch here
//! deletes because something is absent.

use crate::decide::runs_to_completion;
use crate::live::Live;
use crate::record::{Intent, ObjectRecord, Origin};
use shared::owned::Mark;
use shared::set::{DeleteMode, Entry, Tombstone};
use std::sync::Arc;

/// What the accepted set says about one object key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want {
    /// The object must be there with this content.
    Entry(Arc<Entry>),
    /// The object must go, or be let go.
    Tombstone(Tombstone),
    /// The set no longer speaks of it: it is kept as it is and reported, never deleted.
    Stray,
}

/// What is known of the object in the member.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Seen {
    /// Nothing is known yet, or it changed since it was read.
    #[default]
    Unknown,
    /// It was looked for and is not there.
    Absent,
    /// It was read.
    Present(Box<Live>),
}

/// The next action for a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Read the object.
    Read,
    /// Write the intent, read, decide, apply.
    Apply {
        /// The apply repairs fields that others changed or an object that others deleted.
        repair: bool,
    },
    /// Delete exactly this uid, then forget it.
    Delete {
        /// uid precondition of the delete.
        uid: String,
    },
    /// Delete exactly this uid because another run must take its place; the key stays wanted.
    Replace {
        /// uid precondition of the delete.
        uid: String,
    },
    /// Take our marks and our field manager off the object and forget it.
    Release {
        /// uid the release must find.
        uid: String,
    },
    /// An intent without a record: read, and record what our create made.
    Claim,
    /// The tombstone is carried out; drop record and intent.
    Buried(Burial),
    /// Nothing to do.
    Nothing(Rest),
}

/// How a tombstone ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Burial {
    /// The object we created is gone.
    Deleted,
    /// The object is kept and no longer managed.
    Released,
    /// The ledger holds nothing under this key.
    NeverOurs,
    /// Another object has the name now, or another enrolment of this cluster took it over; it is not ours to delete.
    Replaced,
}

/// Why a target needs nothing now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// Member and set agree.
    InSync,
    /// The entry is suspended.
    Suspended,
    /// It ran to its end and is gone since.
    Completed,
    /// It is being deleted in the member.
    Terminating,
    /// The set no longer speaks of it.
    Stray,
}

/// The next action for one target.
#[must_use]
pub fn next(want: &Want, record: Option<&ObjectRecord>, intent: Option<&Intent>, seen: &Seen) -> Next {
    match want {
        Want::Entry(entry) => next_of_entry(entry, record, seen),
        Want::Tombstone(tombstone) => next_of_tombstone(tombstone, record, intent, seen),
        Want::Stray => Next::Nothing(Rest::Stray),
    }
}

/// True when content or ownership of the record is not what the entry asks for.
#[must_use]
pub fn is_outdated(entry: &Entry, record: &ObjectRecord) -> bool {
    record.content != entry.digest || record.template_uid != entry.template_uid
}

fn next_of_entry(entry: &Entry, record: Option<&ObjectRecord>, seen: &Seen) -> Next {
    if entry.suspended {
        return match (record, seen) {
            (Some(_), Seen::Unknown) => Next::Read,
            _ => Next::Nothing(Rest::Suspended),
        };
    }
    let Some(record) = record else {
        return Next::Apply { repair: false };
    };
    let outdated = is_outdated(entry, record);
    match seen {
        Seen::Unknown if outdated => Next::Apply { repair: false },
        Seen::Unknown => Next::Read,
        Seen::Absent => {
            let once = runs_to_completion(&entry.key.group, &entry.key.kind);
            if once && record.completed && record.template_uid == entry.template_uid {
                Next::Nothing(Rest::Completed)
            } else {
                Next::Apply { repair: !outdated }
            }
        }
        Seen::Present(live) if live.deleting => Next::Nothing(Rest::Terminating),
        Seen::Present(live) if live.uid != record.uid => Next::Apply { repair: false },
        // Another enrolment of this cluster marked it; `decide` says what that means.
        Seen::Present(live) if live.mark == Mark::Former => Next::Apply { repair: !outdated },
        Seen::Present(live) => {
            let once = runs_to_completion(&entry.key.group, &entry.key.kind);
            if once && record.origin == Origin::Created && record.template_uid != entry.template_uid {
                return Next::Replace {
                    uid: record.uid.clone(),
                };
            }
            let drifted = live.fields != record.fields;
            if outdated || drifted {
                Next::Apply { repair: !outdated }
            } else {
                Next::Nothing(Rest::InSync)
            }
        }
    }
}

fn next_of_tombstone(
    tombstone: &Tombstone,
    record: Option<&ObjectRecord>,
    intent: Option<&Intent>,
    seen: &Seen,
) -> Next {
    let Some(record) = record else {
        return if intent.is_some() {
            Next::Claim
        } else {
            Next::Buried(Burial::NeverOurs)
        };
    };
    // A newer, unsettled create of ours may have replaced the recorded object.
    if intent.is_some() {
        return Next::Claim;
    }
    let delete = tombstone.mode == DeleteMode::Delete && record.origin == Origin::Created;
    match seen {
        Seen::Unknown => Next::Read,
        Seen::Absent if delete => Next::Buried(Burial::Deleted),
        Seen::Absent => Next::Buried(Burial::Released),
        Seen::Present(live) if live.uid != record.uid || live.mark == Mark::Former => {
            Next::Buried(Burial::Replaced)
        }
        Seen::Present(_) if !delete => Next::Release {
            uid: record.uid.clone(),
        },
        Seen::Present(live) if live.deleting => Next::Nothing(Rest::Terminating),
        Seen::Present(_) => Next::Delete {
            uid: record.uid.clone(),
        },
    }
}
