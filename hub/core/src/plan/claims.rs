//! The claim as it is written on the template: the permanent id of the policy as a label, its name as annotations.
//!
//! Source: the reference's detector. The note is the hub's own bookkeeping: it raises no generation, and it is taken off
//! before anything is sent to a cluster.

use serde_json::{Map, Value, json};

use super::binding::note_claim;
use super::lazy::LAZY_SINCE_ANNOTATION;
use crate::matching::Claim;
use crate::policy::{AnyPropagationPolicy, CLUSTER_POLICY_ID_LABEL, POLICY_ID_LABEL};

/// What shall be written on a template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimNote {
    /// Who holds it; `None`: nobody, and an old note goes.
    pub claim: Option<Claim>,
    /// The digest it had when a lazy policy claimed it and did not act.
    pub lazy_since: Option<String>,
}

impl ClaimNote {
    pub(super) fn of(policy: &AnyPropagationPolicy, lazy_since: Option<String>) -> Self {
        Self {
            claim: Some(Claim {
                policy: policy.reference.clone(),
                id: policy.id.clone(),
            }),
            lazy_since,
        }
    }

    /// Writes the note on a stored template. Answers whether that changed anything.
    pub fn write(&self, object: &mut Value) -> bool {
        let before = object["metadata"].clone();
        note_claim(&mut object["metadata"], self.claim.as_ref());
        let Some(metadata) = object["metadata"].as_object_mut() else {
            return false;
        };
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            match &self.lazy_since {
                Some(digest) => annotations.insert(LAZY_SINCE_ANNOTATION.to_owned(), json!(digest)),
                None => annotations.remove(LAZY_SINCE_ANNOTATION),
            };
        }
        for member in ["labels", "annotations"] {
            let is_empty = metadata
                .get(member)
                .and_then(Value::as_object)
                .is_some_and(Map::is_empty);
            if is_empty && before.get(member).is_none() {
                metadata.remove(member);
            }
        }
        object["metadata"] != before
    }
}

/// Does a template carry a note of a claim?
pub fn is_noted(object: &Value) -> bool {
    let metadata = &object["metadata"];
    let labels = &metadata["labels"];
    !labels[POLICY_ID_LABEL].is_null()
        || !labels[CLUSTER_POLICY_ID_LABEL].is_null()
        || !metadata["annotations"][LAZY_SINCE_ANNOTATION].is_null()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::PolicyRef;

    fn note(namespace: &str) -> ClaimNote {
        ClaimNote {
            claim: Some(Claim {
                policy: PolicyRef {
                    namespace: namespace.to_owned(),
                    name: "p".to_owned(),
                },
                id: "id-p".to_owned(),
            }),
            lazy_since: None,
        }
    }

    /// Turns red when the note of a claim that is gone stays on the template.
    #[test]
    fn field_report_8_a_claim_is_taken_off_like_that_of_a_deleted_policy() {
        let plain = json!({"metadata": {"name": "web"}});
        let mut object = plain.clone();
        assert!(note("shop").write(&mut object));
        assert_eq!(object["metadata"]["labels"], json!({POLICY_ID_LABEL: "id-p"}));
        assert_eq!(
            object["metadata"]["annotations"],
            json!({"propagationpolicy.karmada.io/namespace": "shop", "propagationpolicy.karmada.io/name": "p"})
        );
        assert!(is_noted(&object));
        assert!(!note("shop").write(&mut object), "written once");
        assert!(note("").write(&mut object), "a cluster policy takes it over");
        assert_eq!(
            object["metadata"]["labels"],
            json!({CLUSTER_POLICY_ID_LABEL: "id-p"})
        );
        assert!(ClaimNote::default().write(&mut object));
        assert!(!is_noted(&object));
        assert_eq!(object["metadata"]["labels"], json!({}));
        let mut untouched = plain.clone();
        assert!(!ClaimNote::default().write(&mut untouched));
        assert_eq!(untouched, plain);
    }
}
