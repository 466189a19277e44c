//! What subscribers are told about fleet rows: notices to wake by, and the row change log behind views.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use shared::ids::ClusterName;
use shared::set::Entry;

use super::error::Compacted;
use super::limits;
use super::object::Revision;

/// A ResourceBinding (with a namespace) or a ClusterResourceBinding (without).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BindingRef {
    /// Empty for a ClusterResourceBinding.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl fmt::Display for BindingRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// A notice that something changed. It carries no state: read the store. A subscriber that falls behind gets
/// [`Note::Everything`] and looks at all.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Note {
    /// The set of this cluster changed (courier: ship it).
    Set(ClusterName),
    /// A target of this binding changed: reported, adopted or withdrawn (reconcile: aggregate).
    Binding(BindingRef),
    /// Enrolment, session, facts or HubBehind of this cluster changed.
    Cluster(ClusterName),
    /// Notices were lost.
    Everything,
}

/// Subscription to notices. See [`super::Store::subscribe_changes`].
#[derive(Debug)]
pub struct Notes(pub(super) tokio::sync::broadcast::Receiver<Note>);

impl Notes {
    /// The next notice; none when the store is closed. Cancel-safe.
    pub async fn next(&mut self) -> Option<Note> {
        use tokio::sync::broadcast::error::RecvError;
        match self.0.recv().await {
            Ok(note) => Some(note),
            Err(RecvError::Lagged(_)) => Some(Note::Everything),
            Err(RecvError::Closed) => None,
        }
    }
}

/// A change of a row behind a view.
#[derive(Debug, Clone, PartialEq)]
pub struct RowChange {
    /// When, in the one history.
    pub revision: Revision,
    /// Whose.
    pub row: Row,
}

/// Which row of a view changed.
#[derive(Debug, Clone, PartialEq)]
pub enum Row {
    /// A target: one work of one cluster.
    Target {
        /// Its row id.
        id: i64,
        /// The cluster.
        cluster: ClusterName,
        /// The binding it belongs to.
        binding: Arc<BindingRef>,
        /// What happened to it.
        change: TargetChange,
    },
    /// Facts of a cluster.
    Cluster(ClusterName),
}

/// What happened to a target row.
#[derive(Debug, Clone, PartialEq)]
pub enum TargetChange {
    /// It is new.
    Added,
    /// Its entry or its report changed.
    Changed,
    /// It is gone; this was its entry.
    Removed(Arc<Entry>),
}

/// The recent row changes, bounded by count.
#[derive(Debug)]
pub(super) struct RowLog {
    ring: VecDeque<RowChange>,
    floor: Revision,
}

impl RowLog {
    /// An empty log: what happened before this process is not kept.
    pub(super) fn new(start: Revision) -> RowLog {
        RowLog {
            ring: VecDeque::new(),
            floor: start,
        }
    }

    pub(super) fn append(&mut self, changes: Vec<RowChange>) {
        self.ring.extend(changes);
        while self.ring.len() > limits::RING_EVENTS {
            if let Some(oldest) = self.ring.pop_front() {
                self.floor = oldest.revision;
            }
        }
    }

    /// All changes after a revision.
    pub(super) fn after(&self, after: Revision) -> Result<Vec<RowChange>, Compacted> {
        if after < self.floor {
            return Err(Compacted {
                after,
                floor: self.floor,
            });
        }
        let from = self.ring.partition_point(|change| change.revision <= after);
        Ok(self.ring.range(from..).cloned().collect())
    }
}
