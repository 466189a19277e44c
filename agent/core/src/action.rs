//! What the engine asks the shell to do, and what the shell answers.

use crate::diff::Burial;
use crate::live::Live;
use crate::observation::Observation;
use crate::record::{Intent, ObjectRecord};
use shared::ids::ObjectKey;
use shared::reason::Reason;
use shared::set::Entry;
use shared::time::Millis;
use std::sync::Arc;

/// One piece of work on one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Read the object and observe its status.
    Read {
        /// The object.
        key: ObjectKey,
        /// Version to read it through.
        api_version: String,
        /// What the ledger says.
        record: Option<ObjectRecord>,
        /// Generation of the template that the object's content stands for; none: the one it was applied with.
        template_generation: Option<u64>,
    },
    /// Write the intent (if the object is not there, a new one), read, decide, apply, write the record.
    Apply {
        /// What the set says.
        entry: Arc<Entry>,
        /// What the ledger says.
        record: Option<ObjectRecord>,
        /// An intent whose outcome was never recorded.
        intent: Option<Intent>,
        /// The apply repairs drift.
        repair: bool,
    },
    /// Delete with a uid precondition.
    Delete {
        /// The object.
        key: ObjectKey,
        /// Version to delete it through.
        api_version: String,
        /// The only uid that may go.
        uid: String,
        /// The key stays wanted: another run takes its place, so its content is not looked at.
        again: bool,
    },
    /// Take our marks and field manager off; the object stays.
    Release {
        /// The object.
        key: ObjectKey,
        /// Version to write it through.
        api_version: String,
        /// The uid it must have.
        uid: String,
    },
    /// Find out whether an intent without a record became an object, and record it.
    Claim {
        /// The open intent.
        intent: Intent,
        /// An older record under the same key.
        record: Option<ObjectRecord>,
    },
    /// Drop record and intent: the tombstone is carried out.
    Bury {
        /// The object.
        key: ObjectKey,
        /// How it ended.
        how: Burial,
    },
}

impl Action {
    /// A word for logs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Read { .. } => "read",
            Self::Apply { .. } => "apply",
            Self::Delete { .. } => "delete",
            Self::Release { .. } => "release",
            Self::Claim { .. } => "claim",
            Self::Bury { .. } => "forget",
        }
    }

    /// The object the action is about.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        match self {
            Self::Apply { entry, .. } => &entry.key,
            Self::Claim { intent, .. } => &intent.key,
            Self::Read { key, .. }
            | Self::Delete { key, .. }
            | Self::Release { key, .. }
            | Self::Bury { key, .. } => key,
        }
    }
}

/// How an action ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The object was read; none: it is not there.
    Read {
        /// The object.
        live: Option<Box<Live>>,
        /// What it says of itself.
        observation: Option<Observation>,
        /// The record after the read; only its `completed` may differ.
        record: Option<ObjectRecord>,
    },
    /// Applied and recorded.
    Applied {
        /// The record as the ledger has it now.
        record: ObjectRecord,
        /// The object as the API server answered.
        live: Box<Live>,
        /// What it says of itself.
        observation: Option<Observation>,
    },
    /// An intent was written, but the step was another than an apply (see `decide`); or the old uid of a
    /// run-to-completion object must go first, or it has completed, or it is being deleted.
    Seen {
        /// The object as read.
        live: Option<Box<Live>>,
        /// The record as the ledger has it now.
        record: Option<ObjectRecord>,
        /// The intent as the ledger has it now.
        intent: Option<Intent>,
    },
    /// The API server accepted the delete, or the uid is gone already.
    Deleted,
    /// Our marks are off and the record is dropped.
    Released,
    /// Record and intent are dropped.
    Buried(Burial),
    /// Nothing was changed, or not for good; the target is tried again later.
    Failed {
        /// Why, by code.
        reason: Reason,
        /// Why, in words.
        message: String,
        /// The object as read, if it was.
        live: Option<Box<Live>>,
        /// The intent as the ledger has it now.
        intent: Option<Intent>,
        /// How long the member asked to be left alone (`Retry-After`), if it did.
        pause: Option<Millis>,
    },
}
