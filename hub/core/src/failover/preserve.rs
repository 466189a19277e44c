//! Labels for the new copy from the old copy's status: JSONPath templates as in Kubernetes' `kubectl -o jsonpath`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{CopyState, PreservationRule};

/// Why the state cannot be carried over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateUnreadable {
    /// The cluster has not reported a status yet.
    #[error("cluster {0:?} has not reported the status that is to be carried over yet")]
    NotCollected(String),
    /// The template is none.
    #[error("label {label:?}: {path:?} is no JSONPath template")]
    Template {
        /// Key of the label.
        label: String,
        /// The template.
        path: String,
    },
    /// Nothing is there.
    #[error("label {label:?}: the status has nothing at {path:?}")]
    Missing {
        /// Key of the label.
        label: String,
        /// The template.
        path: String,
    },
}

/// Labels from what one cluster reported.
///
/// # Errors
/// Nothing was reported, or a rule finds nothing.
pub fn of_copy(
    rules: &[PreservationRule],
    cluster: &str,
    copies: &[CopyState<'_>],
) -> Result<BTreeMap<String, String>, StateUnreadable> {
    if rules.is_empty() {
        return Ok(BTreeMap::new());
    }
    let status = copies
        .iter()
        .find(|copy| copy.cluster == cluster)
        .and_then(|copy| copy.status)
        .ok_or_else(|| StateUnreadable::NotCollected(cluster.to_owned()))?;
    labels(rules, status)
}

/// Labels from a status.
///
/// # Errors
/// A rule is no template, or finds nothing.
pub fn labels(
    rules: &[PreservationRule],
    status: &Value,
) -> Result<BTreeMap<String, String>, StateUnreadable> {
    rules
        .iter()
        .map(|rule| {
            let text = expand(status, &rule.json_path).map_err(|problem| {
                let (label, path) = (rule.alias_label_name.clone(), rule.json_path.clone());
                match problem {
                    Problem::Template => StateUnreadable::Template { label, path },
                    Problem::Missing => StateUnreadable::Missing { label, path },
                }
            })?;
            Ok((rule.alias_label_name.clone(), text))
        })
        .collect()
}

enum Problem {
    Template,
    Missing,
}

/// Replaces every `{path}` by what it finds, several values with blanks between; the text around stays.
fn expand(status: &Value, template: &str) -> Result<String, Problem> {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let (path, after) = after.split_once('}').ok_or(Problem::Template)?;
        let path = path.trim();
        if !path.starts_with(['.', '[', '@', '$']) {
            return Err(Problem::Template);
        }
        let path = path.trim_start_matches(['@', '$']);
        let found = crate::table::path::find(status, path);
        if found.is_empty() {
            return Err(Problem::Missing);
        }
        let words: Vec<String> = found.into_iter().map(word).collect();
        text.push_str(&words.join(" "));
        rest = after;
    }
    text.push_str(rest);
    Ok(text)
}

fn word(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
