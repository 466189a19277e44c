//! Sets: what one cluster must hold at one sequence.
//!
//! A set is entries and tombstones, each sorted by object key, no key twice. Its digest covers every entry whole
//! and every live tombstone; the signed [`Head`] binds the digest to fleet, cluster, incarnation and sequence.
//! *Bookkeeping is never content*: what an entry says beyond the content digest does not change the bundle.

mod delta;
mod head;

pub use delta::{Delta, DeltaError, EntryChange};
pub use head::{Head, SignedHead};

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ids::{Digest, ObjectKey, Sequence};
use crate::layout::Layout;
use crate::limits;

/// What to do when a foreign object has the name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ConflictResolution {
    /// Write nothing and report `Conflict`.
    #[default]
    Abort,
    /// Apply with force; the object is *adopted*, never *created*.
    Overwrite,
}

/// What a tombstone orders, and what an entry's withdrawal will order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DeleteMode {
    /// Delete what we created; release what we adopted.
    #[default]
    Delete,
    /// Stop managing; keep the object.
    Release,
}

/// One work of a set: one object in one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The object.
    pub key: ObjectKey,
    /// SHA-256 of the canonical content.
    pub digest: Digest,
    /// Length of the canonical content in bytes.
    pub length: u32,
    /// Name of the work, unique in the cluster.
    pub work: String,
    /// Uid of the template on the hub.
    pub template_uid: String,
    /// Generation of the template that the content was rendered from.
    pub template_generation: u64,
    /// On a foreign object of this name.
    pub conflict_resolution: ConflictResolution,
    /// Neither apply nor change while true.
    pub suspended: bool,
    /// What the withdrawal of this entry will order.
    pub delete_mode: DeleteMode,
    /// Leave `spec.replicas` to the member.
    pub retain_replicas: bool,
    /// Objects of the same set that must be applied before this one.
    pub dependencies: Vec<ObjectKey>,
    /// Work labels, shown by the hub's Work view.
    pub labels: BTreeMap<String, String>,
}

/// An order to delete or release, kept in the set until the agent reports it executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstone {
    /// The object.
    pub key: ObjectKey,
    /// Delete or release.
    pub mode: DeleteMode,
    /// Uid of the template whose work is withdrawn.
    pub template_uid: String,
    /// Sequence of the set that first held this tombstone. A report of execution names it, so that a late report
    /// never ends a newer tombstone of the same key.
    pub sequence: Sequence,
}

/// Why entries and tombstones make no set.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SetError {
    /// Keys are not strictly rising, within entries or tombstones or between both.
    #[error("{0} is not in its place or appears twice in the set")]
    Order(ObjectKey),
    /// Too many.
    #[error("{0} entries and tombstones are more than {max}", max = limits::SET_ENTRIES_MAX)]
    Full(usize),
    /// A field of an entry over its limit.
    #[error("{key}: {field} is over its limit")]
    OverLimit {
        /// The entry.
        key: ObjectKey,
        /// The field.
        field: &'static str,
    },
}

fn check_key(key: &ObjectKey) -> Result<(), SetError> {
    for (field, text) in [
        ("group", &key.group),
        ("kind", &key.kind),
        ("namespace", &key.namespace),
        ("name", &key.name),
    ] {
        if text.len() > limits::NAME_BYTES_MAX || (text.is_empty() && matches!(field, "kind" | "name")) {
            return Err(SetError::OverLimit {
                key: key.clone(),
                field,
            });
        }
    }
    Ok(())
}

impl Entry {
    /// Checks the limits on every field.
    ///
    /// # Errors
    /// [`SetError::OverLimit`].
    pub fn check(&self) -> Result<(), SetError> {
        check_key(&self.key)?;
        let over = |field| {
            Err(SetError::OverLimit {
                key: self.key.clone(),
                field,
            })
        };
        if self.length as usize > limits::CONTENT_BYTES_MAX {
            return over("length");
        }
        if self.work.len() > limits::NAME_BYTES_MAX || self.template_uid.len() > limits::NAME_BYTES_MAX {
            return over("work");
        }
        if self.dependencies.len() > limits::ENTRY_DEPENDENCIES_MAX {
            return over("dependencies");
        }
        if self.labels.len() > limits::ENTRY_LABELS_MAX
            || self
                .labels
                .iter()
                .any(|(k, v)| k.len() + v.len() > 2 * limits::NAME_BYTES_MAX)
        {
            return over("labels");
        }
        self.dependencies.iter().try_for_each(check_key)
    }

    /// SHA-256 over every field.
    #[must_use]
    pub fn own_digest(&self) -> Digest {
        let mut layout = Layout::new("pinnace/1 entry");
        put_key(&mut layout, &self.key);
        layout
            .bytes(&self.digest.0)
            .number(u64::from(self.length))
            .bytes(self.work.as_bytes())
            .bytes(self.template_uid.as_bytes())
            .number(self.template_generation)
            .number(match self.conflict_resolution {
                ConflictResolution::Abort => 0,
                ConflictResolution::Overwrite => 1,
            })
            .number(u64::from(self.suspended))
            .number(mode_number(self.delete_mode))
            .number(u64::from(self.retain_replicas))
            .number(self.dependencies.len() as u64);
        for key in &self.dependencies {
            put_key(&mut layout, key);
        }
        layout.number(self.labels.len() as u64);
        for (key, value) in &self.labels {
            layout.bytes(key.as_bytes()).bytes(value.as_bytes());
        }
        Digest::of(layout.as_slice())
    }
}

impl Tombstone {
    /// SHA-256 over every field.
    #[must_use]
    pub fn own_digest(&self) -> Digest {
        let mut layout = Layout::new("pinnace/1 tombstone");
        put_key(&mut layout, &self.key);
        layout
            .number(mode_number(self.mode))
            .bytes(self.template_uid.as_bytes())
            .number(self.sequence.0);
        Digest::of(layout.as_slice())
    }
}

const fn mode_number(mode: DeleteMode) -> u64 {
    match mode {
        DeleteMode::Delete => 0,
        DeleteMode::Release => 1,
    }
}

fn put_key(layout: &mut Layout, key: &ObjectKey) {
    layout
        .bytes(key.group.as_bytes())
        .bytes(key.kind.as_bytes())
        .bytes(key.namespace.as_bytes())
        .bytes(key.name.as_bytes());
}

/// All works and live tombstones of one cluster at one sequence. Cheap to clone: entries are shared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    entries: Vec<Arc<Entry>>,
    tombstones: Vec<Tombstone>,
}

impl Set {
    /// Builds a set from any order.
    ///
    /// # Errors
    /// [`SetError`] if a key appears twice, there are too many, or a field is over its limit.
    pub fn new(mut entries: Vec<Arc<Entry>>, mut tombstones: Vec<Tombstone>) -> Result<Self, SetError> {
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        tombstones.sort_by(|a, b| a.key.cmp(&b.key));
        Self::from_sorted(entries, tombstones)
    }

    /// Builds a set from sorted parts.
    ///
    /// # Errors
    /// As [`Self::new`], and if the order is wrong.
    pub fn from_sorted(entries: Vec<Arc<Entry>>, tombstones: Vec<Tombstone>) -> Result<Self, SetError> {
        let total = entries.len() + tombstones.len();
        if total > limits::SET_ENTRIES_MAX {
            return Err(SetError::Full(total));
        }
        for pair in entries.windows(2) {
            if pair[0].key >= pair[1].key {
                return Err(SetError::Order(pair[1].key.clone()));
            }
        }
        for pair in tombstones.windows(2) {
            if pair[0].key >= pair[1].key {
                return Err(SetError::Order(pair[1].key.clone()));
            }
        }
        entries.iter().try_for_each(|e| e.check())?;
        tombstones.iter().try_for_each(|t| check_key(&t.key))?;
        let set = Self { entries, tombstones };
        match set.tombstones.iter().find(|t| set.entry(&t.key).is_some()) {
            Some(both) => Err(SetError::Order(both.key.clone())),
            None => Ok(set),
        }
    }

    /// Entries, sorted by key.
    #[must_use]
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// Live tombstones, sorted by key.
    #[must_use]
    pub fn tombstones(&self) -> &[Tombstone] {
        &self.tombstones
    }

    /// The entry of a key.
    #[must_use]
    pub fn entry(&self, key: &ObjectKey) -> Option<&Arc<Entry>> {
        self.entries
            .binary_search_by(|e| e.key.cmp(key))
            .ok()
            .and_then(|i| self.entries.get(i))
    }

    /// The tombstone of a key.
    #[must_use]
    pub fn tombstone(&self, key: &ObjectKey) -> Option<&Tombstone> {
        self.tombstones
            .binary_search_by(|t| t.key.cmp(key))
            .ok()
            .and_then(|i| self.tombstones.get(i))
    }

    /// Whether some entry has this content.
    #[must_use]
    pub fn has_content(&self, digest: &Digest) -> bool {
        self.entries.iter().any(|e| e.digest == *digest)
    }

    /// The digest of the set: domain, counts, then the digest of each entry and each tombstone in key order.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let entries: Vec<Digest> = self.entries.iter().map(|entry| entry.own_digest()).collect();
        let tombstones: Vec<Digest> = self.tombstones.iter().map(Tombstone::own_digest).collect();
        Self::digest_of_parts(entries.iter(), tombstones.iter())
    }

    /// The same from [`Entry::own_digest`] of each entry and [`Tombstone::own_digest`] of each tombstone, both in key
    /// order: whoever keeps them changes one entry of a large set without reading the others.
    #[must_use]
    pub fn digest_of_parts<'a>(
        entries: impl ExactSizeIterator<Item = &'a Digest>,
        tombstones: impl ExactSizeIterator<Item = &'a Digest>,
    ) -> Digest {
        let mut layout = Layout::new("pinnace/1 set");
        layout.number(entries.len() as u64);
        for digest in entries {
            layout.bytes(&digest.0);
        }
        layout.number(tombstones.len() as u64);
        for digest in tombstones {
            layout.bytes(&digest.0);
        }
        Digest::of(layout.as_slice())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn entry(name: &str, content: &[u8]) -> Entry {
        Entry {
            key: ObjectKey::new("apps", "Deployment", "prod", name),
            digest: Digest::of(content),
            length: content.len() as u32,
            work: format!("{name}-work"),
            template_uid: "0b5a".into(),
            template_generation: 1,
            conflict_resolution: ConflictResolution::Abort,
            suspended: false,
            delete_mode: DeleteMode::Delete,
            retain_replicas: false,
            dependencies: vec![],
            labels: BTreeMap::new(),
        }
    }

    pub(crate) fn any_set() -> impl Strategy<Value = Set> {
        let one = (0u8..12, any::<[bool; 4]>(), 0u8..3, 0u64..3, 0usize..3, 0usize..2);
        prop::collection::btree_map(0u8..12, (any::<bool>(), one), 0..10).prop_map(|items| {
            let (mut entries, mut tombstones) = (vec![], vec![]);
            for (name, (dead, (work, [a, b, c, d], content, generation, labels, dependencies))) in items {
                let mut e = entry(&format!("n{name:02}"), &[content]);
                if dead {
                    let mode = if a {
                        DeleteMode::Delete
                    } else {
                        DeleteMode::Release
                    };
                    let sequence = Sequence(generation);
                    tombstones.push(Tombstone {
                        key: e.key,
                        mode,
                        template_uid: format!("u{work}"),
                        sequence,
                    });
                    continue;
                }
                e.work = format!("w{work}");
                e.template_generation = generation;
                (e.suspended, e.retain_replicas) = (a, b);
                e.conflict_resolution = if c {
                    ConflictResolution::Overwrite
                } else {
                    ConflictResolution::Abort
                };
                e.delete_mode = if d {
                    DeleteMode::Release
                } else {
                    DeleteMode::Delete
                };
                e.labels = (0..labels).map(|i| (format!("l{i}"), "v".into())).collect();
                e.dependencies = (0..dependencies)
                    .map(|i| ObjectKey::new("", "X", "", &format!("d{i}")))
                    .collect();
                entries.push(Arc::new(e));
            }
            Set::new(entries, tombstones).unwrap()
        })
    }

    #[test]
    fn every_field_is_under_the_digest() {
        let base = entry("a", b"x");
        let digest = |e: &Entry| Set::new(vec![Arc::new(e.clone())], vec![]).unwrap().digest();
        let changes: [fn(&mut Entry); 12] = [
            |e| e.key.name.push('x'),
            |e| e.digest.0[0] ^= 1,
            |e| e.length += 1,
            |e| e.work.push('x'),
            |e| e.template_uid.push('x'),
            |e| e.template_generation += 1,
            |e| e.conflict_resolution = ConflictResolution::Overwrite,
            |e| e.suspended = true,
            |e| e.delete_mode = DeleteMode::Release,
            |e| e.retain_replicas = true,
            |e| e.dependencies.push(ObjectKey::new("", "N", "", "a")),
            |e| {
                e.labels.insert("a".into(), "b".into());
            },
        ];
        for (i, change) in changes.into_iter().enumerate() {
            let mut other = base.clone();
            change(&mut other);
            assert_ne!(digest(&other), digest(&base), "change {i}");
        }
    }

    #[test]
    fn no_key_twice_and_limits() {
        let e = Arc::new(entry("a", b"x"));
        let tomb = Tombstone {
            key: e.key.clone(),
            mode: DeleteMode::Delete,
            template_uid: "u".into(),
            sequence: Sequence(1),
        };
        assert!(matches!(
            Set::new(vec![e.clone(), e.clone()], vec![]),
            Err(SetError::Order(_))
        ));
        assert!(matches!(
            Set::new(vec![e.clone()], vec![tomb.clone()]),
            Err(SetError::Order(_))
        ));
        assert!(matches!(
            Set::new(vec![], vec![tomb.clone(), tomb]),
            Err(SetError::Order(_))
        ));
        let mut long = entry("b", b"x");
        long.key.name = "x".repeat(limits::NAME_BYTES_MAX + 1);
        assert!(matches!(
            Set::new(vec![Arc::new(long)], vec![]),
            Err(SetError::OverLimit { field: "name", .. })
        ));
        let many = (0..=limits::SET_ENTRIES_MAX)
            .map(|i| Arc::new(entry(&format!("{i:06}"), b"x")))
            .collect();
        assert_eq!(
            Set::from_sorted(many, vec![]),
            Err(SetError::Full(limits::SET_ENTRIES_MAX + 1))
        );
    }
}
