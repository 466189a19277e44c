//! Field overrider: a JSON patch on a JSON or YAML document that a string field of the object holds.

use serde_json::Value;

use super::{Failed, plaintext};
use crate::policy::{FieldOverrider, FieldPatch};

const OVERRIDER: &str = "fieldOverrider";

/// Applies the list. If an entry has both forms, which admission refuses, the document is taken as YAML.
///
/// # Errors
/// The field is missing or no text, the text is not such a document, or an operation cannot be applied.
pub(super) fn apply(object: &mut Value, overriders: &[FieldOverrider]) -> Result<(), Failed> {
    for (index, overrider) in overriders.iter().enumerate() {
        let failed = |problem: String| Failed::new(OVERRIDER, index, &overrider.field_path, problem);
        let slot = object
            .pointer_mut(&overrider.field_path)
            .ok_or_else(|| failed("is not there".to_owned()))?;
        let Value::String(text) = slot else {
            return Err(failed("is not a text".to_owned()));
        };
        let changed = if overrider.yaml.is_empty() {
            json(text, &overrider.json)
        } else {
            yaml(text, &overrider.yaml)
        };
        *text = changed.map_err(failed)?;
    }
    Ok(())
}

fn json(text: &str, patches: &[FieldPatch]) -> Result<String, String> {
    let mut document: Value = serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"))?;
    change(&mut document, patches)?;
    Ok(document.to_string())
}

/// YAML is read as JSON values and written in block style, keys sorted; comments and order are lost, as in the reference.
fn yaml(text: &str, patches: &[FieldPatch]) -> Result<String, String> {
    let mut document: Value =
        serde_saphyr::from_str(text).map_err(|error| format!("is not YAML: {error}"))?;
    change(&mut document, patches)?;
    let options = serde_saphyr::ser_options! { compact_list_indent: true };
    serde_saphyr::to_string_with_options(&document, options)
        .map_err(|error| format!("cannot be written as YAML: {error}"))
}

fn change(document: &mut Value, patches: &[FieldPatch]) -> Result<(), String> {
    patches.iter().try_for_each(|patch| {
        plaintext::patch(document, &patch.sub_path, patch.operator, patch.value.as_ref())
            .map_err(|problem| format!("{} of the document: {problem}", patch.sub_path))
    })
}
