//! What to do with an object once it has been read: the branch between "ours" and "foreign".
//!
//! The applier writes the intent, reads the object, asks here, and carries out one step. Nothing here forces a
//! field of an object that is not ours unless the policy says Overwrite, and only an object that our own apply
//! made is ever recorded as created.

use crate::live::Live;
use crate::record::{Intent, ObjectRecord, Origin};
use shared::ids::Nonce;
use shared::owned::Mark;
use shared::set::{ConflictResolution, Entry};

/// The step that follows a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Apply without force, carrying the intent's nonce; 201 means created by us.
    Create,
    /// Apply with force: the object is ours, as `origin` says, and keeps `nonce`.
    Update {
        /// What the record must say afterwards.
        origin: Origin,
        /// The nonce the object carries on; none on adopted ones, so that no later claim can mistake them.
        nonce: Option<Nonce>,
    },
    /// Apply with force and without a nonce, and record it as adopted.
    Take,
    /// A foreign object under a policy that says Abort: write nothing, report the differences.
    Conflict,
    /// It is being deleted: leave it alone until it is gone.
    Wait,
    /// A run-to-completion object of an earlier template: delete this uid first, then create.
    Replace {
        /// uid that the delete must name.
        uid: String,
    },
    /// It has run to its end and was removed since; running it again is not wanted.
    Completed,
}

/// True for kinds that run once: another template uid means another run.
#[must_use]
pub fn runs_to_completion(group: &str, kind: &str) -> bool {
    matches!((group, kind), ("batch", "Job") | ("", "Pod"))
}

/// Decides the step for one entry.
#[must_use]
pub fn decide(
    entry: &Entry,
    record: Option<&ObjectRecord>,
    intent: Option<&Intent>,
    live: Option<&Live>,
) -> Step {
    let once = runs_to_completion(&entry.key.group, &entry.key.kind);
    let Some(live) = live else {
        return match record {
            Some(r) if r.completed && once && r.template_uid == entry.template_uid => Step::Completed,
            _ => Step::Create,
        };
    };
    if live.deleting {
        return Step::Wait;
    }
    let known = record.filter(|r| r.uid == live.uid);
    let claimed = intent.filter(|i| claims(i, live));
    let (origin, nonce, template_uid) = match (known, claimed) {
        (Some(r), _) => (r.origin, r.nonce, r.template_uid.as_str()),
        (None, Some(i)) => (Origin::Created, Some(i.nonce), i.template_uid.as_str()),
        // Our marks, but neither the recorded uid nor the intent's nonce: a restored member, a lost ledger, or an
        // enrolment of this cluster that this one took the place of.
        (None, None) if matches!(live.mark, Mark::Ours { .. } | Mark::Former) => {
            return Step::Update {
                origin: Origin::Adopted,
                nonce: None,
            };
        }
        (None, None) => {
            return match entry.conflict_resolution {
                ConflictResolution::Abort => Step::Conflict,
                ConflictResolution::Overwrite => Step::Take,
            };
        }
    };
    if once && origin == Origin::Created && template_uid != entry.template_uid {
        return Step::Replace {
            uid: live.uid.clone(),
        };
    }
    Step::Update {
        origin,
        nonce: nonce.filter(|_| origin == Origin::Created),
    }
}

/// Whether a live object is the outcome of an intent whose record was lost: then it was created by us.
#[must_use]
pub fn claims(intent: &Intent, live: &Live) -> bool {
    live.mark
        == Mark::Ours {
            nonce: Some(intent.nonce),
        }
}
