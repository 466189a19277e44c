//! How the statuses of members become the status of a template: sums, last and latest values, merged conditions.

use serde_json::{Map, Value, json};

use super::Read;
use crate::fields::{count, get, list, map, text};
use crate::types::reported;
use crate::{InterpretError, MemberItem};

pub(super) type Status = Map<String, Value>;

/// The template's own status.
pub(super) fn own(template: &Value) -> Read<Status> {
    Ok(map(template, "status")?.cloned().unwrap_or_default())
}

/// The status of the only member as it is, if there is exactly one.
pub(super) fn only(items: &[MemberItem]) -> Option<Option<Value>> {
    match items {
        [item] => Some(item.status.clone()),
        _ => None,
    }
}

/// Sum of a counter over the members.
pub(super) fn sum(items: &[MemberItem], name: &str) -> Read<i64> {
    let mut sum: i64 = 0;
    for (_, member) in reported(items) {
        sum = sum.saturating_add(count(member, name)?);
    }
    Ok(sum)
}

/// Sets the sums of counters, zeros too.
pub(super) fn put_sums(status: &mut Status, items: &[MemberItem], names: &[&str]) -> Read<()> {
    for name in names {
        status.insert((*name).to_owned(), sum(items, name)?.into());
    }
    Ok(())
}

/// Sets values that the last member with a non-empty one gives; without any, the field is left as it is.
pub(super) fn put_last(status: &mut Status, items: &[MemberItem], names: &[&str]) -> Read<()> {
    for name in names {
        for (_, member) in reported(items) {
            if let Some(value) = get(member, name)?.filter(|value| **value != "") {
                status.insert((*name).to_owned(), value.clone());
            }
        }
    }
    Ok(())
}

/// Sets a field, or takes it off.
pub(super) fn put(status: &mut Status, name: &str, value: Option<Value>) {
    match value {
        Some(value) => status.insert(name.to_owned(), value),
        None => status.remove(name),
    };
}

/// The earliest non-empty time of the members. Times are RFC 3339 in UTC with whole seconds and sort as text.
pub(super) fn earliest(items: &[MemberItem], name: &str) -> Read<Option<Value>> {
    Ok(times(items, name)?.into_iter().min().map(Value::from))
}

/// The latest non-empty time of the members.
pub(super) fn latest(items: &[MemberItem], name: &str) -> Read<Option<Value>> {
    Ok(times(items, name)?.into_iter().max().map(Value::from))
}

fn times<'a>(items: &'a [MemberItem], name: &str) -> Read<Vec<&'a str>> {
    let mut found = Vec::new();
    for (_, member) in reported(items) {
        found.extend(Some(text(member, name)?).filter(|time| !time.is_empty()));
    }
    Ok(found)
}

/// `observedGeneration`: the template's generation once every member that is not silent has caught up with it exactly,
/// else what it was.
pub(super) fn put_observed_generation(
    status: &mut Status,
    template: &Value,
    items: &[MemberItem],
) -> Read<()> {
    let generation = count(template, "metadata.generation")?;
    let old = count(template, "status.observedGeneration")?;
    let mut heard = 0;
    let mut caught_up = 0;
    for item in items.iter().filter(|item| !item.silent) {
        heard += 1;
        if let Some(member) = &item.status {
            let observed = count(member, "generation")? == count(member, "observedGeneration")?;
            caught_up += u32::from(observed && count(member, "resourceTemplateGeneration")? == generation);
        }
    }
    let anyone = heard > 0 || items.is_empty();
    let seen = if anyone && caught_up == heard {
        generation
    } else {
        old
    };
    status.insert("observedGeneration".to_owned(), seen.into());
    Ok(())
}

/// Conditions equal in type, status and reason become one, whose message says which member says what.
pub(super) fn merged_conditions(items: &[MemberItem]) -> Read<Vec<Value>> {
    let mut merged: Vec<Value> = Vec::new();
    for (cluster, member) in reported(items) {
        for condition in list(member, "conditions")? {
            let said = condition["message"]
                .as_str()
                .ok_or_else(|| InterpretError::Missing {
                    path: "status.conditions[].message".to_owned(),
                    purpose: "say which cluster says what",
                })?;
            let message = format!("{cluster}={said}");
            let same = |other: &&mut Value| {
                ["type", "status", "reason"]
                    .iter()
                    .all(|name| other[*name] == condition[*name])
            };
            match merged.iter_mut().find(same) {
                Some(other) => {
                    let before = other["message"].as_str().unwrap_or_default();
                    other["message"] = format!("{before}, {message}").into();
                }
                None => {
                    let mut first = condition.clone();
                    first["message"] = message.into();
                    merged.push(first);
                }
            }
        }
    }
    Ok(merged)
}

/// All conditions, one member after the other.
pub(super) fn joined(items: &[MemberItem], name: &str) -> Read<Vec<Value>> {
    let mut all = Vec::new();
    for (_, member) in reported(items) {
        all.extend_from_slice(list(member, name)?);
    }
    Ok(all)
}

/// Clusters whose member has one of the conditions with status True, in order.
pub(super) fn clusters_with<'a>(items: &'a [MemberItem], of_type: &str) -> Read<Vec<&'a str>> {
    let mut found = Vec::new();
    for (cluster, member) in reported(items) {
        if crate::fields::condition_true(list(member, "conditions")?, of_type) {
            found.push(cluster);
        }
    }
    Ok(found)
}

/// A condition that begins now.
pub(super) fn condition(of_type: &str, reason: &str, message: String, now: &str) -> Value {
    json!({"type": of_type, "status": "True", "reason": reason, "message": message,
           "lastProbeTime": now, "lastTransitionTime": now})
}

/// Takes off what says nothing: zeros, empty texts, `0s`, empty objects and lists, at every depth.
pub(super) fn without_zeros(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::String(text) if text.is_empty() || text == "0s" => None,
        Value::Number(number) if number.as_f64() == Some(0.0) => None,
        Value::Array(list) if list.is_empty() => None,
        Value::Object(map) => {
            let kept: Status = map
                .into_iter()
                .filter_map(|(name, value)| Some((name, without_zeros(value)?)))
                .collect();
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_go_at_every_depth_and_what_says_something_stays() {
        let value =
            json!({"a": 0, "b": {"c": "0s", "d": {"e": ""}}, "f": [], "g": false, "h": {"i": 1, "j": 0}});
        assert_eq!(without_zeros(value), Some(json!({"g": false, "h": {"i": 1}})));
        assert_eq!(without_zeros(json!({"a": {"b": 0}})), None);
    }
}
