//! Metadata that a server fills in, for objects the hub makes itself.

use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Map, Value, json};

use crate::clock;

/// A random uid.
fn new_uid() -> String {
    let mut bytes = [0_u8; 16];
    // Without randomness the process could not have made its keys; time keeps uids apart even then.
    if SystemRandom::new().fill(&mut bytes).is_err() {
        bytes[..8].copy_from_slice(&clock::monotonic().0.to_be_bytes());
    }
    hub_core::uuid::random(bytes)
}

/// Fills in what a server would: uid, creation time and generation of a new object; the next generation where the
/// spec of a stored one changes.
pub(super) fn fill_in(object: &mut Value, former: Option<&Value>) {
    let generation = generation_after(object, former);
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let missing = |metadata: &Map<String, Value>, key: &str| metadata.get(key).is_none_or(Value::is_null);
    if missing(metadata, "uid") {
        metadata.insert("uid".to_owned(), json!(new_uid()));
    }
    if missing(metadata, "creationTimestamp") {
        metadata.insert("creationTimestamp".to_owned(), json!(clock::wall().rfc3339()));
    }
    metadata.insert("generation".to_owned(), json!(generation));
}

/// The generation an object has once stored: the next one where its spec changes.
pub(super) fn generation_after(object: &Value, former: Option<&Value>) -> i64 {
    let before = former.map_or(0, shared::object::generation);
    let spec_changed = former.is_some_and(|former| former.get("spec") != object.get("spec"));
    if before == 0 || spec_changed {
        before + 1
    } else {
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_follow_the_spec_only() {
        let mut new = json!({"metadata": {"name": "b"}, "spec": {"a": 1}});
        fill_in(&mut new, None);
        assert_eq!(new["metadata"]["generation"], 1);
        assert_eq!(new["metadata"]["uid"].as_str().map(str::len), Some(36));
        let mut labelled = new.clone();
        labelled["metadata"]["labels"] = json!({"a": "b"});
        fill_in(&mut labelled, Some(&new));
        assert_eq!(labelled["metadata"]["generation"], 1);
        let mut edited = new.clone();
        edited["spec"]["a"] = json!(2);
        fill_in(&mut edited, Some(&new));
        assert_eq!(edited["metadata"]["generation"], 2);
        assert_eq!(edited["metadata"]["uid"], new["metadata"]["uid"]);
    }
}
