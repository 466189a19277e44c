//! The list of blanks: all that may differ between two servers, and nothing else.
//!
//! - uids, wherever they stand, also within a message;
//! - resourceVersions, also within a message;
//! - continue tokens;
//! - times, and ages in the cells of a table;
//! - the order of `managedFields`, which follows the times, and of causes, which is random upstream for conflicts; a cause
//!   that upstream gives twice, since it checks twice, counts once;
//! - descriptions of table columns, which are the texts of Kubernetes' own documentation;
//! - status and managedFields of a CustomResourceDefinition, whose status upstream writes a moment after the definition.

use serde_json::Value;
use std::collections::BTreeSet;

/// Blanks one body. `revisions` are all resourceVersions that the server gave out so far.
pub(super) fn blank(body: &mut Value, revisions: &BTreeSet<String>) {
    walk(body, "", revisions);
}

/// Collects the resourceVersions of a body.
pub(super) fn revisions(body: &Value, out: &mut BTreeSet<String>) {
    match body {
        Value::Object(members) => {
            for (key, value) in members {
                match value.as_str() {
                    Some(text) if key == "resourceVersion" && text.len() > 1 => {
                        out.insert(text.to_owned());
                    }
                    _ => revisions(value, out),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| revisions(item, out)),
        _ => {}
    }
}

fn walk(value: &mut Value, key: &str, revisions: &BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            if members.contains_key("priority") && members.contains_key("format") {
                members.insert("description".to_owned(), Value::from("DESCRIPTION"));
            }
            if members
                .get("kind")
                .is_some_and(|kind| kind == "CustomResourceDefinition")
            {
                members.remove("status");
                if let Some(metadata) = members.get_mut("metadata").and_then(Value::as_object_mut) {
                    metadata.remove("managedFields");
                }
            }
            for (key, inner) in members.iter_mut() {
                walk(inner, key, revisions);
            }
        }
        Value::Array(items) => {
            for item in items.iter_mut() {
                match item.as_str() {
                    Some(text) if key == "cells" && is_age(text) => *item = Value::from("AGE"),
                    _ => walk(item, "", revisions),
                }
            }
            if key == "managedFields" || key == "causes" {
                items.sort_by_key(Value::to_string);
                items.dedup();
            }
        }
        Value::String(text) => match key {
            "uid" if !text.is_empty() => *value = Value::from("UID"),
            "resourceVersion" if !text.is_empty() => *value = Value::from("RV"),
            "continue" if !text.is_empty() => *value = Value::from("CONTINUE"),
            _ if is_time(text) => *value = Value::from("TIME"),
            _ => *text = within(text, revisions),
        },
        _ => {}
    }
}

fn is_time(text: &str) -> bool {
    text.len() >= 20 && text.len() <= 35 && hub_core::timestamp::parse(text).is_some()
}

fn is_age(text: &str) -> bool {
    let ends = text.ends_with(['s', 'm', 'h', 'd']);
    ends && text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || "smhd".contains(c))
}

/// Blanks uids and revisions within a text.
fn within(text: &str, revisions: &BTreeSet<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let mut rest = text;
    while !rest.is_empty() {
        let word = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (head, tail) = rest.split_at(word);
        if is_uuid(head) {
            out.push_str("UID");
        } else if revisions.contains(head) {
            out.push_str("RV");
        } else {
            out.push_str(head);
        }
        let mut tail = tail.chars();
        out.extend(tail.next());
        rest = tail.as_str();
    }
    out
}

fn is_uuid(text: &str) -> bool {
    let parts: Vec<usize> = text.split('-').map(str::len).collect();
    parts == [8, 4, 4, 4, 12] && text.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_is_listed_is_blanked() {
        let mut body = json!({"metadata": {"uid": "x", "resourceVersion": "17", "creationTimestamp": "2026-11-30T12:00:00Z",
            "name": "a"}, "rows": [{"cells": ["a", 1, "5m2s"]}], "data": {"v": "5m", "n": "117"},
            "message": "UID in object meta: 0b0ab4cf-1c3a-4e2c-8a41-aaaaaaaaaaaa, at 17"});
        let mut seen = BTreeSet::new();
        revisions(&body, &mut seen);
        blank(&mut body, &seen);
        let expected = json!({"metadata": {"uid": "UID", "resourceVersion": "RV", "creationTimestamp": "TIME",
            "name": "a"}, "rows": [{"cells": ["a", 1, "AGE"]}], "data": {"v": "5m", "n": "117"},
            "message": "UID in object meta: UID, at RV"});
        assert_eq!(body, expected);
    }
}
