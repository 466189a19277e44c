//! kubectl's move from client-side apply: what the `last-applied` annotation says may be taken over without force, and
//! the annotation is kept up to date for those who still read it.

use super::compare::compare;
use super::set::FieldSet;
use super::types::{TypeView, View};
use super::validate::{check, fields};
use crate::limits::MAX_ANNOTATION_BYTES;
use serde_json::Value;

/// The annotation in which client-side apply keeps what it last sent.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The manager for which all this happens.
pub(super) const KUBECTL: &str = "kubectl";

fn annotation(object: &Value) -> Option<&str> {
    let annotations = object.pointer("/metadata/annotations")?.as_object()?;
    annotations
        .get(LAST_APPLIED)?
        .as_str()
        .filter(|text| !text.is_empty())
}

/// Fields that the annotation accounts for: what it says and the live object still has.
pub(super) fn accounted<'s, T: TypeView<'s>>(
    view: View<T>,
    live: &Value,
    api_version: &str,
) -> Option<FieldSet> {
    let last: Value = serde_json::from_str(annotation(live)?).ok()?;
    if last.get("apiVersion").and_then(Value::as_str) != Some(api_version)
        || !check(view, live, false).is_empty()
        || !check(view, &last, false).is_empty()
    {
        return None;
    }
    let difference = compare(view, &last, live);
    let said = fields(view, &last);
    let said = said
        .difference(&difference.modified)
        .difference(&difference.added);
    Some(said.difference(&difference.removed))
}

/// Writes the configuration into the annotation if there is one.
pub(super) fn refresh(object: &mut Value, config: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) = config
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.remove(LAST_APPLIED);
    }
    let text = format!("{config}\n");
    let Some(annotations) = object
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    let others: usize = annotations
        .iter()
        .filter(|(key, _)| *key != LAST_APPLIED)
        .map(|(key, value)| key.len() + value.as_str().unwrap_or_default().len())
        .sum();
    if others + LAST_APPLIED.len() + text.len() > MAX_ANNOTATION_BYTES {
        annotations.remove(LAST_APPLIED);
    } else {
        annotations.insert(LAST_APPLIED.to_owned(), Value::from(text));
    }
}
