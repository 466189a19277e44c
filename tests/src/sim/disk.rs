//! A simple model of the hub's store: templates, and per cluster rows, tombstones, heads, sessions and reports. What
//! is in here is durable; a clone is a backup.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hub_core::ship::{HeadRecord, Known, PushHub, Shelf};
use serde_json::json;
use shared::ids::{BootId, Digest, ObjectKey, ReportSeq, Sequence, Session};
use shared::object;
use shared::set::{ConflictResolution, DeleteMode, Entry, Set, SignedHead, Tombstone};
use shared::wire::{ObjectReport, Report};

/// What a user asked for, with the planner's decision as data.
#[derive(Clone, Debug)]
pub struct Template {
    /// Uid of this life of the template.
    pub uid: String,
    /// Generation.
    pub generation: u64,
    /// What its `data.v` says.
    pub value: u64,
    /// Bytes of ballast in the content, to have some that do not ride along.
    pub ballast: usize,
    /// Clusters it is placed in.
    pub clusters: BTreeSet<usize>,
    /// On a foreign object.
    pub conflict: ConflictResolution,
    /// Suspended.
    pub suspended: bool,
    /// On withdrawal.
    pub delete_mode: DeleteMode,
    /// Canonical content with its digest; see [`Template::render`].
    pub content: (Digest, Arc<[u8]>),
}

/// One entry with the sequence that first held it.
#[derive(Clone, Debug)]
pub struct Row {
    /// The entry.
    pub entry: Arc<Entry>,
    /// First sequence that held the key, or an earlier one whose tombstone it replaced.
    pub since: Sequence,
}

/// What the hub knows of one cluster.
#[derive(Clone, Debug, Default)]
pub struct ClusterDisk {
    /// Wanted entries.
    pub rows: BTreeMap<ObjectKey, Row>,
    /// Live tombstones.
    pub tombstones: BTreeMap<ObjectKey, Tombstone>,
    /// Newest set.
    pub sequence: Sequence,
    /// Newest set that was published.
    pub published: Sequence,
    /// Newest set that was acknowledged.
    pub acked: Sequence,
    /// Digest of the newest set, once there is one.
    pub newest: Option<Digest>,
    /// Heads that were published: the last, and all since the last acknowledged.
    pub heads: Vec<HeadRecord>,
    /// Session and its boot.
    pub session: Session,
    /// Boot of that session.
    pub boot: Option<BootId>,
    /// Highest report of that session.
    pub last_report: ReportSeq,
    /// Last report per object.
    pub statuses: BTreeMap<ObjectKey, ObjectReport>,
    /// Strays as last reported.
    pub strays: Vec<ObjectKey>,
    /// What a `HubBehind` agent holds.
    pub behind: Option<(SignedHead, Option<Arc<Set>>)>,
}

/// What came of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ingested {
    /// It was older than what is stored.
    Ignored,
    /// Stored.
    Stored,
    /// Stored, and a tombstone ended with it.
    SetChanged,
}

/// The hub's store.
#[derive(Clone, Debug, Default)]
pub struct HubDisk {
    /// Templates by key.
    pub templates: BTreeMap<ObjectKey, Template>,
    /// Clusters.
    pub clusters: Vec<ClusterDisk>,
    /// Contents by digest.
    pub contents: BTreeMap<Digest, Arc<[u8]>>,
}

impl Shelf for HubDisk {
    fn content(&self, digest: &Digest) -> Option<Arc<[u8]>> {
        self.contents.get(digest).cloned()
    }
}

impl Template {
    /// Makes the content anew, after an edit.
    pub fn render(&mut self, key: &ObjectKey) {
        let api_version = if key.group.is_empty() {
            "v1".to_owned()
        } else {
            format!("{}/v1", key.group)
        };
        // Noise that does not compress, but hardly differs from one generation to the next.
        let ballast: String = (0..self.ballast.div_ceil(64))
            .map(|i| Digest::of(&i.to_be_bytes()).to_string())
            .collect();
        let mut value = json!({"apiVersion": api_version, "kind": key.kind, "metadata": {"name": key.name},
            "data": {"v": self.value.to_string(), "ballast": ballast}});
        if !key.namespace.is_empty() {
            object::set(
                &mut value,
                &["metadata", "namespace"],
                key.namespace.clone().into(),
            );
        }
        let content = object::canonical(&value);
        self.content = (Digest::of(&content), content.into());
    }

    fn entry(&self, key: &ObjectKey) -> Entry {
        Entry {
            key: key.clone(),
            digest: self.content.0,
            length: u32::try_from(self.content.1.len()).unwrap_or(u32::MAX),
            work: format!("{}-work", key.name),
            template_uid: self.uid.clone(),
            template_generation: self.generation,
            conflict_resolution: self.conflict,
            suspended: self.suspended,
            delete_mode: self.delete_mode,
            retain_replicas: false,
            dependencies: vec![],
            labels: BTreeMap::new(),
        }
    }
}

impl ClusterDisk {
    /// What a ship starts with.
    #[must_use]
    pub fn known(&self) -> Known {
        Known {
            session: self.session,
            boot: self.boot,
            last_report: self.last_report,
            acked: self.acked,
            heads: self.heads.clone(),
            published: self.published,
            clone: false,
        }
    }

    /// The newest set.
    #[must_use]
    pub fn set(&self) -> Set {
        let entries = self.rows.values().map(|r| Arc::clone(&r.entry)).collect();
        Set::from_sorted(entries, self.tombstones.values().cloned().collect())
            .expect("rows and tombstones are apart")
    }

    /// Digest of the newest set.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.newest.unwrap_or_else(|| Set::default().digest())
    }

    fn advance(&mut self) {
        self.sequence = self.sequence.next();
        self.newest = Some(self.set().digest());
    }

    /// The newest set is about to be sent. False: it is not the newest any more.
    pub fn publish(&mut self, sequence: Sequence) -> bool {
        if sequence != self.sequence {
            return false;
        }
        if self.published >= sequence {
            return true;
        }
        self.published = sequence;
        let record = HeadRecord {
            sequence,
            digest: self.digest(),
        };
        self.heads.push(record);
        let surplus = self.heads.len().saturating_sub(shared::limits::HEADS_KEPT);
        let acked = self.acked;
        let mut seen = 0;
        self.heads.retain(|h| {
            seen += 1;
            seen > surplus || h.sequence >= acked
        });
        true
    }

    /// Stores a report, unless it is `checked` and older than what is stored.
    pub fn ingest(&mut self, session: Session, report: &Report, checked: bool) -> Ingested {
        if checked && (session != self.session || report.report_seq <= self.last_report) {
            return Ingested::Ignored;
        }
        self.last_report = report.report_seq;
        for object in &report.objects {
            if self.rows.contains_key(&object.key) {
                self.statuses.insert(object.key.clone(), object.clone());
            }
        }
        if let Some(strays) = &report.strays {
            self.strays.clone_from(strays);
        }
        let before = self.tombstones.len();
        for done in &report.tombstones_done {
            if self
                .tombstones
                .get(&done.key)
                .is_some_and(|t| t.sequence == done.sequence)
            {
                self.tombstones.remove(&done.key);
            }
        }
        if self.tombstones.len() == before {
            return Ingested::Stored;
        }
        self.advance();
        Ingested::SetChanged
    }

    /// The hub wins over what the agent holds.
    pub fn push_hub(&mut self, push: &PushHub) {
        let Some((head, Some(held))) = self.behind.take() else {
            return;
        };
        let theirs = head.head.sequence;
        self.sequence = push.above.max(self.sequence);
        for tombstone in &push.tombstones {
            if self.rows.contains_key(&tombstone.key) {
                continue;
            }
            let mut tombstone = tombstone.clone();
            if tombstone.sequence == Sequence(0) {
                tombstone.sequence = self.sequence.next();
            }
            self.tombstones.insert(tombstone.key.clone(), tombstone);
        }
        // What the agent holds counts as published.
        for (key, row) in &mut self.rows {
            let at_agent = held.entry(key).is_some() || held.tombstone(key).is_some();
            row.since = if at_agent { theirs } else { self.sequence.next() };
        }
        self.published = theirs;
        self.acked = theirs;
        self.heads.retain(|h| h.sequence != theirs);
        self.heads.push(HeadRecord {
            sequence: theirs,
            digest: head.head.digest,
        });
        self.heads.sort_by_key(|h| h.sequence);
        self.advance();
    }
}

impl HubDisk {
    /// Stage 9 for one cluster: rows follow the templates. True if the set changed.
    pub fn adopt(&mut self, cluster: usize) -> bool {
        let disk = &mut self.clusters[cluster];
        let next = disk.sequence.next();
        let mut changed = false;
        let gone: Vec<ObjectKey> = disk
            .rows
            .keys()
            .filter(|k| {
                !self
                    .templates
                    .get(k)
                    .is_some_and(|t| t.clusters.contains(&cluster))
            })
            .cloned()
            .collect();
        for key in gone {
            let Some(row) = disk.rows.remove(&key) else {
                continue;
            };
            disk.statuses.remove(&key);
            changed = true;
            if row.since <= disk.published {
                let tombstone = Tombstone {
                    key: key.clone(),
                    mode: row.entry.delete_mode,
                    template_uid: row.entry.template_uid.clone(),
                    sequence: next,
                };
                disk.tombstones.insert(key, tombstone);
            }
        }
        for (key, template) in &self.templates {
            if !template.clusters.contains(&cluster) {
                continue;
            }
            let entry = template.entry(key);
            if disk.rows.get(key).is_some_and(|r| *r.entry == entry) {
                continue;
            }
            self.contents
                .entry(entry.digest)
                .or_insert_with(|| Arc::clone(&template.content.1));
            let since = match disk.tombstones.remove(key) {
                Some(buried) => buried.sequence.min(disk.published),
                None => disk.rows.get(key).map_or(next, |r| r.since),
            };
            disk.rows.insert(
                key.clone(),
                Row {
                    entry: Arc::new(entry),
                    since,
                },
            );
            changed = true;
        }
        if changed {
            disk.advance();
        }
        changed
    }
}
