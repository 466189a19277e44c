//! The condition `DeletionHeld` of a Cluster: what was ordered away there and is not gone, and why.

use serde_json::{Value, json};
use shared::ids::ObjectKey;
use shared::time::UnixSeconds;

/// Objects that the message names; more only count.
const NAMED_MAX: usize = 5;

/// A deletion that was ordered and that the agent has not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldRow {
    /// The object.
    pub key: ObjectKey,
    /// Stable code of what stands in the way.
    pub reason: String,
    /// For people.
    pub message: String,
    /// Since when.
    pub observed: UnixSeconds,
}

/// One deletion in words.
pub fn words(key: &ObjectKey, reason: &str, message: &str) -> String {
    match message {
        "" => format!("{key}: {reason}"),
        message => format!("{key}: {reason}: {message}"),
    }
}

/// The condition; none while nothing is held.
pub(super) fn condition(held: &[HeldRow]) -> Option<Value> {
    let (first, since) = (held.first()?, held.iter().map(|row| row.observed).min()?);
    let named: Vec<String> = held
        .iter()
        .take(NAMED_MAX)
        .map(|row| words(&row.key, &row.reason, &row.message))
        .collect();
    let more = match held.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let message = format!(
        "{} ordered deletions are not carried out: {}{more}",
        held.len(),
        named.join("; ")
    );
    Some(
        json!({"type": "DeletionHeld", "status": "True", "reason": first.reason, "message": message,
        "lastTransitionTime": since.rfc3339()}),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_named_and_the_rest_counted() {
        let row = |n: i64| HeldRow {
            key: ObjectKey::new("", "ConfigMap", "shop", &format!("c{n}")),
            reason: "GuardRefused".into(),
            message: if n == 0 { String::new() } else { "no".into() },
            observed: UnixSeconds(1_700_000_000 - n),
        };
        assert_eq!(condition(&[]), None);
        let rows: Vec<HeldRow> = (0..7).map(row).collect();
        let shown = condition(&rows).unwrap();
        let message = shown["message"].as_str().unwrap();
        assert!(
            message.starts_with("7 ordered deletions are not carried out: ConfigMap shop/c0: GuardRefused; ")
        );
        assert!(
            message.contains("ConfigMap shop/c4: GuardRefused: no; and 2 more"),
            "{message}"
        );
        assert_eq!(
            shown["lastTransitionTime"],
            UnixSeconds(1_700_000_000 - 6).rfc3339()
        );
        assert_eq!(shown["reason"], "GuardRefused");
    }
}
