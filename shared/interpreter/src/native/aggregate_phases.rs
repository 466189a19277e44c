//! AggregateStatus of kinds with a phase: Pod, PersistentVolume, PersistentVolumeClaim. The worst phase wins.

use serde_json::{Map, Value, json};

use crate::fields::{get, list, text};
use crate::types::reported;
use crate::{InterpretError, MemberItem};

type Status = Map<String, Value>;

/// Worst phase; a member that has not reported counts as pending. `None`: no known phase at all.
fn worst<'a>(
    items: &'a [MemberItem],
    ranking: &[&'static str],
) -> Result<Option<&'static str>, InterpretError> {
    let phase_of = |item: &'a MemberItem| match &item.status {
        None => Ok("Pending"),
        Some(status) => text(status, "phase"),
    };
    let mut best: Option<usize> = None;
    for item in items {
        let phase = phase_of(item)?;
        if let Some(rank) = ranking.iter().position(|known| *known == phase) {
            best = Some(best.map_or(rank, |other| other.min(rank)));
        }
    }
    Ok(best.map(|rank| ranking[rank]))
}

fn with_phase(phase: Option<&str>) -> Status {
    phase
        .map(|phase| ("phase".to_owned(), phase.into()))
        .into_iter()
        .collect()
}

/// Phase and container states; names are blank, since the same container runs in several clusters.
pub(super) fn pod(items: &[MemberItem]) -> Result<Status, InterpretError> {
    let mut status = with_phase(worst(items, &["Failed", "Pending", "Running", "Succeeded"])?);
    for path in ["containerStatuses", "initContainerStatuses"] {
        let mut states = Vec::new();
        for (_, member) in reported(items) {
            for container in list(member, path)? {
                let ready = container["ready"].as_bool().unwrap_or(false);
                let state = get(container, "state")?.cloned().unwrap_or_else(|| json!({}));
                states.push(json!({"name": "", "image": "", "imageID": "", "restartCount": 0,
                                   "ready": ready, "state": state}));
            }
        }
        if !states.is_empty() {
            status.insert(path.to_owned(), Value::Array(states));
        }
    }
    Ok(status)
}

/// Phase of a volume.
pub(super) fn volume(items: &[MemberItem]) -> Result<Status, InterpretError> {
    Ok(with_phase(worst(
        items,
        &["Failed", "Pending", "Available", "Bound", "Released"],
    )?))
}

/// Phase of a claim. A member that has not reported counts as pending, as for volumes (the reference calls a
/// claim nobody reported on bound).
pub(super) fn claim(items: &[MemberItem]) -> Result<Status, InterpretError> {
    Ok(with_phase(worst(items, &["Lost", "Pending", "Bound"])?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_bound_only_when_every_member_says_so() {
        let item = |phase: Option<&str>| MemberItem {
            cluster: "m".to_owned(),
            status: phase.map(|phase| json!({ "phase": phase })),
            silent: false,
        };
        let cases: [(&[Option<&str>], Option<&str>); 5] = [
            (&[Some("Bound"), Some("Bound")], Some("Bound")),
            (&[Some("Bound"), None], Some("Pending")),
            (&[Some("Pending"), Some("Lost")], Some("Lost")),
            (&[Some("Bound"), Some("Pending")], Some("Pending")),
            (&[], None),
        ];
        for (phases, want) in cases {
            let items: Vec<_> = phases.iter().map(|phase| item(*phase)).collect();
            assert_eq!(
                claim(&items)
                    .expect("readable")
                    .get("phase")
                    .and_then(Value::as_str),
                want
            );
        }
    }
}
