//! The marks that the agent puts on member objects, and what they mean.
//!
//! Marks say who *manages* an object; the right to delete comes only from a ledger record "created" and a
//! tombstone, never from a mark.

use crate::ids::{ClusterName, FleetId, Incarnation, Nonce};
use crate::keys::Receipt;
use crate::object;
use serde_json::Value;

/// Field manager of every apply.
pub const FIELD_MANAGER: &str = "pinnace";
/// Label on each managed object; its value is [`Incarnation::short`]. Watches select by it.
pub const MANAGED_BY: &str = "fleet.pinnace.dev/managed-by";
/// Annotation with the work's name.
pub const WORK: &str = "fleet.pinnace.dev/work";
/// Annotation with the nonce of the create intent, in hex.
pub const NONCE: &str = "fleet.pinnace.dev/nonce";
/// Annotation with the whole incarnation, in hex.
pub const INCARNATION: &str = "fleet.pinnace.dev/incarnation";
/// Annotation with fleet and cluster, `FLEET/NAME`: another enrolment of the same cluster knows by it what its predecessor
/// managed.
pub const CLUSTER: &str = "fleet.pinnace.dev/cluster";
/// Annotation with the template's uid on the hub.
pub const TEMPLATE_UID: &str = "fleet.pinnace.dev/template-uid";
/// Annotation with the template's generation on the hub.
pub const TEMPLATE_GENERATION: &str = "fleet.pinnace.dev/template-generation";
/// Annotation of a template: `true` lets the agent delete an object that it created, and create it anew, when a change
/// touches a field that the API never changes.
pub const RECREATE: &str = "fleet.pinnace.dev/recreate-immutable";
/// Label on hub RBAC objects that travel but do not act on the hub.
pub const TEMPLATE_ONLY: &str = "fleet.pinnace.dev/template-only";
/// Prefix of all our labels and annotations.
pub const PREFIX: &str = "fleet.pinnace.dev/";

/// Who marks: one enrolment of one cluster of a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The enrolment.
    pub incarnation: Incarnation,
    /// Value of [`CLUSTER`].
    pub place: String,
}

impl Marker {
    /// The marker of an enrolment.
    #[must_use]
    pub fn new(fleet: FleetId, cluster: &ClusterName, incarnation: Incarnation) -> Self {
        let place = format!("{fleet}/{cluster}");
        Self { incarnation, place }
    }

    /// The marker of the enrolment that a receipt tells of.
    #[must_use]
    pub fn of(receipt: &Receipt) -> Self {
        Self::new(receipt.fleet, &receipt.cluster, receipt.incarnation)
    }
}

/// What the marks on an observed object say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// No mark of ours.
    None,
    /// Ours, of this incarnation.
    Ours {
        /// Nonce of the create intent, if readable.
        nonce: Option<Nonce>,
    },
    /// Marked by a former enrolment of the same cluster in the same fleet.
    Former,
    /// Marked by another cluster's enrolment (or by hand).
    Other {
        /// The incarnation annotation as found.
        incarnation: String,
    },
}

/// Reads the marks of an object.
#[must_use]
pub fn mark(observed: &Value, marker: &Marker) -> Mark {
    let incarnation = &marker.incarnation;
    match object::annotation(observed, INCARNATION) {
        Some(text) if text == incarnation.to_string() => Mark::Ours {
            nonce: object::annotation(observed, NONCE).and_then(|n| n.parse().ok()),
        },
        Some(_) if object::annotation(observed, CLUSTER) == Some(marker.place.as_str()) => Mark::Former,
        Some(text) => Mark::Other {
            incarnation: text.chars().take(64).collect(),
        },
        None => match object::label(observed, MANAGED_BY) {
            Some(label) if label != incarnation.short() => Mark::Other {
                incarnation: label.chars().take(64).collect(),
            },
            _ => Mark::None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn marks() {
        let mine = Incarnation([1; 16]);
        let shop = ClusterName::new("shop").expect("a name");
        let marker = |fleet: u8, incarnation: u8| {
            Marker::new(FleetId([fleet; 16]), &shop, Incarnation([incarnation; 16]))
        };
        let nonce = Nonce([7; 16]);
        let ours =
            json!({"metadata": {"annotations": {INCARNATION: mine.to_string(), NONCE: nonce.to_string()}}});
        assert_eq!(mark(&ours, &marker(1, 1)), Mark::Ours { nonce: Some(nonce) });
        assert_eq!(
            mark(&ours, &marker(1, 2)),
            Mark::Other {
                incarnation: mine.to_string()
            }
        );
        let mut placed = ours.clone();
        placed["metadata"]["annotations"][CLUSTER] = json!(marker(1, 1).place);
        assert_eq!(mark(&placed, &marker(1, 2)), Mark::Former);
        assert!(
            matches!(mark(&placed, &marker(2, 2)), Mark::Other { .. }),
            "another fleet's"
        );
        assert_eq!(mark(&json!({"metadata": {}}), &marker(1, 1)), Mark::None);
        assert_eq!(
            mark(
                &json!({"metadata": {"labels": {MANAGED_BY: "other"}}}),
                &marker(1, 1)
            ),
            Mark::Other {
                incarnation: "other".into()
            }
        );
    }
}
