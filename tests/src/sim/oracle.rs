//! What must hold when everything has healed: members equal desired, the hub's status equals the truth.

use shared::ids::ObjectKey;
use shared::reason::Reason;
use shared::set::{ConflictResolution, Entry};
use shared::wire::ApplyState;

use super::hub::Hub;
use super::member::status_of;
use super::node::Node;

/// The first thing that hub and members do not agree on, if any.
#[must_use]
pub fn disagreement(hub: &Hub, nodes: &[Node]) -> Option<String> {
    nodes
        .iter()
        .enumerate()
        .find_map(|(i, node)| of_cluster(hub, node, i).map(|what| format!("cluster {i}: {what}")))
}

fn of_cluster(hub: &Hub, node: &Node, i: usize) -> Option<String> {
    let disk = &hub.disk.clusters[i];
    let Some(ship) = hub.ship(i) else {
        return Some("the hub does not run".into());
    };
    if ship.is_behind() {
        return Some("the hub is behind".into());
    }
    if !ship.in_sync() {
        return Some(format!("set {} is not acknowledged", disk.sequence));
    }
    let Some(held) = node.ledger.held.as_ref() else {
        return Some("the agent holds no set".into());
    };
    if held.head.head.sequence != disk.sequence || held.head.head.digest != disk.digest() {
        return Some(format!(
            "the agent holds {}, the hub has {}",
            held.head.head.sequence, disk.sequence
        ));
    }
    if let Some(left) = held.set.tombstones().first() {
        return Some(format!("the tombstone of {} is left", left.key));
    }
    held.set
        .entries()
        .iter()
        .find_map(|e| of_entry(hub, node, i, e))
        .or_else(|| unwanted(hub, node, i))
}

/// An entry is in the member as wanted, or a named reason says why not; and the hub knows.
fn of_entry(hub: &Hub, node: &Node, i: usize, entry: &Entry) -> Option<String> {
    let key = &entry.key;
    let disk = &hub.disk.clusters[i];
    let Some(status) = disk.statuses.get(key) else {
        return Some(format!("nothing was reported of {key}"));
    };
    let object = node.member.object(key);
    if entry.suspended {
        let known = status.applied == ApplyState::Suspended;
        return (!known).then(|| format!("{key} is suspended and reported {:?}", status.applied));
    }
    let ours = node
        .ledger
        .records
        .get(key)
        .zip(object)
        .is_some_and(|(r, o)| r.uid == o.uid);
    match object {
        Some(_) if !ours && entry.conflict_resolution == ConflictResolution::Abort => {
            let named = status.reason.known() == Some(Reason::Conflict);
            (!named).then(|| format!("{key} is foreign and reported as {}", status.reason))
        }
        None if node.ledger.records.get(key).is_some_and(|r| r.completed) => None,
        None => Some(format!("{key} is not in the member ({})", status.reason)),
        Some(object) => {
            let Some(wanted) = hub.disk.templates.get(key).map(|t| t.value.to_string()) else {
                return Some(format!("{key} has no template"));
            };
            let has = object.data.get("v").cloned().unwrap_or_default();
            if has != wanted {
                return Some(format!(
                    "{key} says {has}, wanted is {wanted} ({})",
                    status.reason
                ));
            }
            let truth = status.applied == ApplyState::Applied
                && status.digest == entry.digest
                && status.template_generation == entry.template_generation
                && status.uid == object.uid
                && status.status == status_of(object);
            (!truth).then(|| format!("the hub's status of {key} is not the truth: {status:?}"))
        }
    }
}

/// What we made and nobody wants is gone, unless it was to be kept, or the memory of making it was lost with a disk.
fn unwanted(hub: &Hub, node: &Node, i: usize) -> Option<String> {
    let disk = &hub.disk.clusters[i];
    let forgotten = node.was_restored || hub.was_restored;
    let left = |key: &ObjectKey| !disk.rows.contains_key(key) && !forgotten;
    node.member
        .objects()
        .find(|(key, o)| o.made_by_us && !o.released && left(key))
        .map(|(key, _)| format!("{key} is left in the member"))
}
