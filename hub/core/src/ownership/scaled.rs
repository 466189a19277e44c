//! Ownership of replicas across the scale subresource: a Scale has one field that counts, which stands for
//! `spec.replicas` (or the path a definition names) of its workload.

use super::entries::{EntryError, ManagerId, Owned, Owners};
use super::set::FieldSet;
use serde_json::Value;
use std::collections::BTreeMap;

const SCALE_VERSION: &str = "autoscaling/v1";
const IN_SCALE: [&str; 2] = ["spec", "replicas"];

/// managedFields of the Scale of an object.
///
/// # Errors
/// managedFields that cannot be read.
pub fn to_scale(managed: Option<&Value>, replicas: &[&str]) -> Result<Value, EntryError> {
    let mut out = Owners::default();
    for (id, owned) in Owners::decode(managed)?.0 {
        if owned.fields.has_path(replicas) {
            let scaled = Owned {
                fields: FieldSet::of_paths(&[&IN_SCALE]),
                api_version: SCALE_VERSION.to_owned(),
                time: owned.time,
            };
            out.0.insert(id, scaled);
        }
    }
    Ok(out.encode())
}

/// managedFields of the object after a write of its Scale.
///
/// # Errors
/// managedFields that cannot be read.
pub fn to_parent(
    parent: Option<&Value>,
    scale: Option<&Value>,
    replicas: &[&str],
    api_version: &str,
) -> Result<Value, EntryError> {
    let mut scale = Owners::decode(scale)?;
    let mut out = Owners::default();
    let replicas_only = FieldSet::of_paths(&[replicas]);
    let parent = Owners::decode(parent)?.0;
    let times: BTreeMap<ManagerId, Option<String>> = parent
        .iter()
        .map(|(id, owned)| (id.clone(), owned.time.clone()))
        .collect();
    for (id, mut owned) in parent {
        if owned.fields.has_path(replicas) {
            // Entries of the Scale are known by the version of Scale if they are updates.
            let mut in_scale = id.clone();
            if !in_scale.api_version.is_empty() {
                in_scale.api_version = SCALE_VERSION.to_owned();
            }
            if scale.0.remove(&in_scale).is_none() {
                owned.fields = owned.fields.difference(&replicas_only);
                if owned.fields.is_empty() {
                    continue;
                }
            }
        }
        out.0.insert(id, owned);
    }
    for (mut id, owned) in scale.0 {
        if owned.fields.has_path(&IN_SCALE) {
            let known_as = id.clone();
            if !id.api_version.is_empty() {
                id.api_version = api_version.to_owned();
            }
            let taken = Owned {
                fields: replicas_only.clone(),
                api_version: api_version.to_owned(),
                // Upstream looks for the time among the object's own entries.
                time: times.get(&known_as).cloned().flatten(),
            };
            out.0.insert(id, taken);
        }
    }
    Ok(out.encode())
}
