//! `pinnace why` for what is not a template: an object that was deleted on the hub while clusters still have it, and a
//! cluster itself.

use hub_core::explain::{Claim, Explanation, Note};
use hub_core::plan::TemplatePlan;
use hub_core::view::held_words;
use serde_json::Value;
use shared::ids::{ClusterName, ObjectKey};
use shared::reason::Reason;

use super::Reconciler;
use crate::clock;
use crate::store::{Object, ResourceId, StoreError};

/// Is it a Cluster?
pub(super) fn is_cluster(resource: &ResourceId) -> bool {
    &*resource.group == "cluster.karmada.io" && &*resource.resource == "clusters"
}

/// What is left of an object that is not on the hub any more: clusters that are told to delete it, and those where that
/// waits for a confirmation. None: nothing is.
///
/// # Errors
/// The store.
pub fn explain_gone(reconciler: &Reconciler, key: &ObjectKey) -> Result<Option<Explanation>, StoreError> {
    let mut targets = Vec::new();
    for enrolment in reconciler.store.enrolments()? {
        let held = reconciler.store.targets_on(&enrolment.cluster)?;
        targets.extend(held.into_iter().filter(|target| target.entry.key == *key));
    }
    let plan = TemplatePlan::nothing(key, String::new());
    let clusters = reconciler.cluster_states(key, &plan, &targets)?;
    if clusters.is_empty() {
        return Ok(None);
    }
    let mut notes = Vec::new();
    if let Some(id) = reconciler.held_under(key) {
        notes.push(Note {
            reason: Reason::MassDeleteHeld.into(),
            cluster: None,
            message: format!("its deletion in clusters waits; `pinnace confirm {id}` lets it go"),
        });
    }
    let group = match key.group.as_str() {
        "" => String::new(),
        group => format!("{group}/"),
    };
    Ok(Some(Explanation {
        // Which version it had is not known any more.
        api_version: format!("{group}*"),
        kind: key.kind.clone(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        generation: 0,
        claim: Claim::Nobody {
            reason: Reason::AwaitingDeletion.into(),
            message: "it is not on the hub any more; these clusters still have it".to_owned(),
        },
        binding: None,
        notes,
        policies: Vec::new(),
        groups: Vec::new(),
        placement: Vec::new(),
        clusters,
    }))
}

impl Reconciler {
    /// Explains a stored Cluster: how far it follows, and what was ordered away there and is not gone.
    pub(super) fn explain_cluster(&self, stored: &Object) -> Result<Explanation, StoreError> {
        let (reason, message, notes) = match ClusterName::new(&stored.name) {
            Ok(cluster) => self.standing_of(&cluster)?,
            Err(error) => (Reason::AwaitingCluster, error.to_string(), Vec::new()),
        };
        let object = stored.value();
        let text = |pointer: &str| {
            let found = object.pointer(pointer).and_then(Value::as_str);
            found.unwrap_or_default().to_owned()
        };
        Ok(Explanation {
            api_version: text("/apiVersion"),
            kind: text("/kind"),
            namespace: String::new(),
            name: stored.name.clone(),
            generation: shared::object::generation(&object),
            claim: Claim::Nobody {
                reason: reason.into(),
                message,
            },
            binding: None,
            notes,
            policies: Vec::new(),
            groups: Vec::new(),
            placement: Vec::new(),
            clusters: Vec::new(),
        })
    }

    fn standing_of(&self, cluster: &ClusterName) -> Result<(Reason, String, Vec<Note>), StoreError> {
        let (row, set) = (self.store.facts(cluster)?, self.store.current_set(cluster)?);
        let (Some(row), Some(set)) = (row, set) else {
            let message = "no agent has joined under this name yet".to_owned();
            return Ok((Reason::AwaitingCluster, message, Vec::new()));
        };
        let silent = self.presence.silent_for(cluster, clock::monotonic());
        let reason = match () {
            () if row.revoked => Reason::Revoked,
            () if row.behind => Reason::HubBehind,
            () if !silent.is_zero() => Reason::Silent,
            () if set.acked < set.sequence => Reason::AwaitingCluster,
            () => Reason::Applied,
        };
        let mut notes: Vec<Note> = self
            .store
            .still_held(cluster, &row.facts)?
            .iter()
            .map(|held| Note {
                reason: held.code(),
                cluster: None,
                message: format!(
                    "not deleted: {}",
                    held_words(&held.key, &held.reason, &held.message)
                ),
            })
            .collect();
        notes.extend(row.facts.strays.iter().map(|key| Note {
            reason: Reason::Stray.into(),
            cluster: None,
            message: format!("no longer managed, and nobody ordered its deletion: {key}"),
        }));
        let message = format!(
            "it was sent set {} and holds {}: {} objects to have, {} to delete",
            set.sequence,
            set.acked,
            set.set.entries().len(),
            set.set.tombstones().len()
        );
        Ok((reason, message, notes))
    }
}
