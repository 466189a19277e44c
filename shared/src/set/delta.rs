//! The difference of two sets, small enough to ride in one message.
//!
//! Entries of the base are named by position, changed entries carry only the fields that differ, so a one-line
//! edit of a content costs about 40 bytes here. Applying checks nothing but positions and the set rules: the
//! caller compares the resulting digest with the signed head.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{ConflictResolution, DeleteMode, Entry, Set, SetError, Tombstone};
use crate::ids::{Digest, ObjectKey};

/// Fields of one changed entry; `None`: as in the base.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryChange {
    /// Position in the base's entries.
    pub at: u32,
    /// New content: digest and canonical length.
    pub content: Option<(Digest, u32)>,
    /// New generation of the template.
    pub template_generation: Option<u64>,
    /// Everything else, whole, if any of it changed.
    pub rest: Option<EntryRest>,
}

/// The fields of an entry that change seldom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryRest {
    work: String,
    template_uid: String,
    conflict_resolution: ConflictResolution,
    suspended: bool,
    delete_mode: DeleteMode,
    retain_replicas: bool,
    dependencies: Vec<ObjectKey>,
    labels: BTreeMap<String, String>,
}

impl EntryRest {
    fn of(entry: &Entry) -> Self {
        Self {
            work: entry.work.clone(),
            template_uid: entry.template_uid.clone(),
            conflict_resolution: entry.conflict_resolution,
            suspended: entry.suspended,
            delete_mode: entry.delete_mode,
            retain_replicas: entry.retain_replicas,
            dependencies: entry.dependencies.clone(),
            labels: entry.labels.clone(),
        }
    }
}

/// From one set to another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delta {
    /// Positions in the base's entries that are gone, rising.
    pub removed: Vec<u32>,
    /// Changed entries, by rising position.
    pub changed: Vec<EntryChange>,
    /// New entries, by rising key.
    pub added: Vec<Entry>,
    /// Positions in the base's tombstones that are gone, rising.
    pub tombstones_removed: Vec<u32>,
    /// New or changed tombstones, by rising key.
    pub tombstones_added: Vec<Tombstone>,
}

/// Why a delta does not fit a base.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DeltaError {
    /// A position beyond the base, or not rising.
    #[error("position {0} of the delta does not fit its base")]
    Position(u32),
    /// The result is no set.
    #[error("the delta makes no set")]
    Set(#[from] SetError),
}

impl Delta {
    /// The delta from `base` to `new`.
    #[must_use]
    pub fn between(base: &Set, new: &Set) -> Self {
        let mut delta = Self::default();
        let position = |i: usize| u32::try_from(i).expect("a set has at most 10,000 entries");
        // Sets of one cluster share most of their entries: then their places in memory tell that nothing differs.
        let by_key = |a: &Arc<Entry>, b: &Arc<Entry>| {
            if Arc::ptr_eq(a, b) {
                Ordering::Equal
            } else {
                a.key.cmp(&b.key)
            }
        };
        side_by_side(&base.entries, &new.entries, by_key, |at, old, now| {
            match (old, now) {
                (Some(old), Some(now)) if Arc::ptr_eq(now, old) || now == old => {}
                (Some(old), Some(now)) => {
                    let content = (now.digest, now.length);
                    let rest = EntryRest::of(now);
                    delta.changed.push(EntryChange {
                        at: position(at),
                        content: (content != (old.digest, old.length)).then_some(content),
                        template_generation: (now.template_generation != old.template_generation)
                            .then_some(now.template_generation),
                        rest: (rest != EntryRest::of(old)).then_some(rest),
                    });
                }
                (Some(_), None) => delta.removed.push(position(at)),
                (None, now) => delta.added.extend(now.map(|now| Entry::clone(now))),
            }
        });
        let by_key = |a: &Tombstone, b: &Tombstone| a.key.cmp(&b.key);
        side_by_side(&base.tombstones, &new.tombstones, by_key, |at, old, now| {
            if old == now {
                return;
            }
            if old.is_some() {
                delta.tombstones_removed.push(position(at));
            }
            delta.tombstones_added.extend(now.cloned());
        });
        delta
    }

    /// Number of changes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.removed.len()
            + self.changed.len()
            + self.added.len()
            + self.tombstones_removed.len()
            + self.tombstones_added.len()
    }

    /// Whether nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The set that this delta makes of `base`.
    ///
    /// # Errors
    /// [`DeltaError`] if it does not fit. A fitting delta may still make another set than meant: compare digests.
    pub fn apply(&self, base: &Set) -> Result<Set, DeltaError> {
        let mut entries: Vec<Option<Arc<Entry>>> = base.entries.iter().cloned().map(Some).collect();
        for at in &self.removed {
            take(&mut entries, *at)?;
        }
        let mut merged = Vec::with_capacity(entries.len() + self.added.len());
        for change in &self.changed {
            let old = take(&mut entries, change.at)?;
            merged.push(Arc::new(changed(&old, change)));
        }
        merged.extend(entries.into_iter().flatten());
        merged.extend(self.added.iter().cloned().map(Arc::new));
        let mut tombstones: Vec<Option<Tombstone>> = base.tombstones.iter().cloned().map(Some).collect();
        for at in &self.tombstones_removed {
            take(&mut tombstones, *at)?;
        }
        let mut dead: Vec<Tombstone> = tombstones.into_iter().flatten().collect();
        dead.extend(self.tombstones_added.iter().cloned());
        Ok(Set::new(merged, dead)?)
    }
}

/// Walks two lists in the order of their keys: what only one of them has, and what both have under one key, with the place
/// in the first.
fn side_by_side<T>(
    old: &[T],
    new: &[T],
    order: impl Fn(&T, &T) -> Ordering,
    mut each: impl FnMut(usize, Option<&T>, Option<&T>),
) {
    let (mut at, mut to) = (0, 0);
    loop {
        let (a, b) = (old.get(at), new.get(to));
        let side = match (a, b) {
            (Some(a), Some(b)) => order(a, b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return,
        };
        each(at, a.filter(|_| side.is_le()), b.filter(|_| side.is_ge()));
        at += usize::from(side.is_le());
        to += usize::from(side.is_ge());
    }
}

fn take<T>(items: &mut [Option<T>], at: u32) -> Result<T, DeltaError> {
    let slot = usize::try_from(at).ok().and_then(|i| items.get_mut(i));
    slot.and_then(Option::take).ok_or(DeltaError::Position(at))
}

fn changed(old: &Entry, change: &EntryChange) -> Entry {
    let mut entry = old.clone();
    if let Some((digest, length)) = change.content {
        entry.digest = digest;
        entry.length = length;
    }
    if let Some(generation) = change.template_generation {
        entry.template_generation = generation;
    }
    if let Some(rest) = &change.rest {
        entry.work = rest.work.clone();
        entry.template_uid = rest.template_uid.clone();
        entry.conflict_resolution = rest.conflict_resolution;
        entry.suspended = rest.suspended;
        entry.delete_mode = rest.delete_mode;
        entry.retain_replicas = rest.retain_replicas;
        entry.dependencies = rest.dependencies.clone();
        entry.labels = rest.labels.clone();
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::super::tests::{any_set, entry};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn applying_the_difference_gives_the_other_set(a in any_set(), b in any_set()) {
            let delta = Delta::between(&a, &b);
            let got = delta.apply(&a).unwrap();
            prop_assert_eq!(got.digest(), b.digest());
            prop_assert_eq!(&got, &b);
            prop_assert_eq!(delta.is_empty(), a == b);
            let bytes = postcard::to_stdvec(&delta).unwrap();
            prop_assert_eq!(postcard::from_bytes::<Delta>(&bytes).unwrap(), delta);
        }

        #[test]
        fn a_delta_on_another_base_never_passes_for_the_right_set(a in any_set(), b in any_set(), c in any_set()) {
            if let Ok(got) = Delta::between(&a, &b).apply(&c) {
                prop_assert_eq!(got == b, got.digest() == b.digest());
            }
        }
    }

    #[test]
    fn a_one_line_edit_is_small_and_bad_positions_are_refused() {
        let set = |content: &[u8], generation| {
            let entries = (0..50).map(|i| {
                let mut e = entry(&format!("n{i}"), if i == 7 { content } else { b"other" });
                if i == 7 {
                    e.template_generation = generation;
                }
                Arc::new(e)
            });
            Set::new(entries.collect(), vec![]).unwrap()
        };
        let delta = Delta::between(&set(b"old", 1), &set(b"new", 2));
        assert!(postcard::to_stdvec(&delta).unwrap().len() <= 44);
        let twice = Delta {
            removed: vec![0, 0],
            ..Delta::default()
        };
        assert_eq!(twice.apply(&set(b"x", 1)), Err(DeltaError::Position(0)));
        let beyond = Delta {
            removed: vec![50],
            ..Delta::default()
        };
        assert_eq!(beyond.apply(&set(b"x", 1)), Err(DeltaError::Position(50)));
    }
}
