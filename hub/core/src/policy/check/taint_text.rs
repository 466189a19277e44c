//! Taints as people type them: `key=value:Effect` or `key:Effect` adds one, `key-` or `key:Effect-` removes.

use std::collections::BTreeSet;

use super::super::fields::{is_label_value, is_qualified_name};
use crate::cluster::Taint;

/// What a list of texts asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedTaints {
    /// Taints to add.
    pub add: Vec<Taint>,
    /// Taints to remove; an empty effect stands for every effect. The value says nothing.
    pub remove: Vec<Taint>,
}

/// A text that is no taint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?}: {why}; write key=value:Effect to add, key:Effect- or key- to remove")]
pub struct TaintTextError {
    /// What was typed.
    pub text: String,
    /// What is wrong with it.
    pub why: &'static str,
}

/// Reads taints as people type them.
///
/// # Errors
/// The first text that is none, or that names a key and effect a second time.
pub fn parse_taints<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<ParsedTaints, TaintTextError> {
    let mut parsed = ParsedTaints::default();
    let mut seen = BTreeSet::new();
    for text in texts {
        let wrong = |why| TaintTextError {
            text: text.to_owned(),
            why,
        };
        let (body, removes) = match text.strip_suffix('-') {
            Some(body) => (body, true),
            None => (text, false),
        };
        let (name, effect) = match body.split_once(':') {
            Some((name, effect)) => (name, effect),
            None if removes => (body, ""),
            None => return Err(wrong("the effect is missing")),
        };
        let (key, value) = name.split_once('=').unwrap_or((name, ""));
        if !is_qualified_name(key) {
            return Err(wrong("the key is not valid"));
        }
        if !is_label_value(value) {
            return Err(wrong("the value is not valid"));
        }
        let known = matches!(effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute");
        let every_effect = removes && effect.is_empty() && !body.contains(':');
        if !(known || every_effect) {
            return Err(wrong("the effect is NoSchedule, PreferNoSchedule or NoExecute"));
        }
        if !seen.insert((key.to_owned(), effect.to_owned())) {
            return Err(wrong("key and effect are named twice"));
        }
        let list = if removes {
            &mut parsed.remove
        } else {
            &mut parsed.add
        };
        list.push(Taint {
            key: key.to_owned(),
            value: value.to_owned(),
            effect: effect.to_owned(),
            ..Taint::default()
        });
    }
    Ok(parsed)
}
