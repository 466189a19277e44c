//! The scripts of the accepted set: entries that the agent uses itself. They lie in the ledger like every content, so a
//! start without the hub has them too.

use std::collections::BTreeSet;

use interpreter::{Customization, Customized};
use shared::set::Set;

use crate::ledger::{Ledger, LedgerError};

/// Takes exactly the customizations of a set into use. Answers API version and kind of what they concern, now or before;
/// none if nothing changed.
///
/// # Errors
/// When a content of the set cannot be read from the ledger.
pub fn take(
    customized: &Customized,
    ledger: &Ledger,
    set: &Set,
) -> Result<Option<BTreeSet<(String, String)>>, LedgerError> {
    let mut found = Vec::new();
    for entry in set.entries() {
        if !Customization::is_one(&entry.key.group, &entry.key.kind) || entry.suspended {
            continue;
        }
        let Some(bytes) = ledger.content_bytes(&entry.digest)? else {
            continue;
        };
        let object = serde_json::from_slice(&bytes).unwrap_or_default();
        match Customization::read(&object) {
            Ok(customization) => found.push(customization),
            // The hub refuses such objects; one from a newer hub costs nobody else anything.
            Err(error) => tracing::warn!(object = %entry.key, %error, "a customization is not used"),
        }
    }
    let kinds = |of: &[Customization]| -> Vec<(String, String)> {
        of.iter()
            .map(|one| (one.api_version.clone(), one.kind.clone()))
            .collect()
    };
    let mut concerned: BTreeSet<_> = kinds(&customized.customizations()).into_iter().collect();
    concerned.extend(kinds(&found));
    Ok(customized.replace(found).then_some(concerned))
}
