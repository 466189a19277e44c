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
    /// Another enrolment of this cluster took over what this one managed: write nothing.
    Yield,
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
    // Who took an object over found it with the marks of the enrolment before it, and had no record of it. So of two
    // agents of one cluster, the one with a record of an object that the other has marked is the former one, whatever
    // hub and clocks say. It has lost the object for good, and the two never fight over it.
    if record.is_some() && live.mark == Mark::Former {
        return Step::Yield;
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use shared::ids::{Digest, ObjectKey};
    use shared::set::DeleteMode;

    use super::*;

    fn entry() -> Entry {
        Entry {
            key: ObjectKey::new("", "ConfigMap", "a", "one"),
            digest: Digest([1; 32]),
            length: 2,
            work: "one".into(),
            template_uid: "t".into(),
            template_generation: 1,
            conflict_resolution: ConflictResolution::Overwrite,
            suspended: false,
            delete_mode: DeleteMode::Delete,
            retain_replicas: false,
            dependencies: vec![],
            labels: BTreeMap::new(),
        }
    }

    fn record(uid: &str) -> ObjectRecord {
        ObjectRecord {
            key: entry().key,
            api_version: "v1".into(),
            uid: uid.into(),
            nonce: None,
            origin: Origin::Created,
            content: Digest([2; 32]),
            template_uid: "t".into(),
            fields: None,
            completed: false,
        }
    }

    fn live(mark: Mark) -> Live {
        Live {
            uid: "u".into(),
            resource_version: "1".into(),
            deleting: false,
            mark,
            fields: None,
            other_manager: None,
            established: false,
            completed: false,
        }
    }

    #[test]
    fn of_two_agents_of_a_cluster_the_former_yields_for_good() {
        // The successor finds it without a record, and takes it.
        let found = decide(&entry(), None, None, Some(&live(Mark::Former)));
        assert!(
            matches!(
                found,
                Step::Update {
                    origin: Origin::Adopted,
                    ..
                }
            ),
            "{found:?}"
        );
        // The former one has a record, of this object or of one of this name before it, and leaves it alone, also where
        // the policy says Overwrite.
        for uid in ["u", "of-before"] {
            let found = decide(&entry(), Some(&record(uid)), None, Some(&live(Mark::Former)));
            assert_eq!(found, Step::Yield, "{uid}");
        }
        // What still carries its own marks, or nobody's, it keeps.
        for mark in [Mark::Ours { nonce: None }, Mark::None] {
            let found = decide(&entry(), Some(&record("u")), None, Some(&live(mark)));
            assert!(
                matches!(
                    found,
                    Step::Update {
                        origin: Origin::Created,
                        ..
                    }
                ),
                "{found:?}"
            );
        }
    }
}
