//! Kyverno policies, of a namespace or of the cluster.

use serde_json::Value;

use super::general::{condition_with_reason, pick};
use super::merge::{self, Status, merged_conditions, put_last};
use super::{NONE, Read, Rules};
use crate::MemberItem;
use crate::fields::get;

pub(super) static POLICY: Rules = Rules {
    aggregate: Some(aggregate),
    reflect: Some(|object| pick(object, &["autogen", "conditions", "ready", "rulecount"])),
    health: Some(
        |object| match get(object, "status.ready")?.and_then(Value::as_bool) {
            Some(ready) => Ok(ready),
            None => condition_with_reason(object, "Ready", &["Succeeded"]),
        },
    ),
    ..NONE
};

const RULES: [&str; 4] = ["validate", "generate", "mutate", "verifyimages"];

fn aggregate(template: &Value, items: Option<&[MemberItem]>, _now: &str) -> Read<Option<Value>> {
    let Some(items) = items else {
        return Ok(get(template, "status")?.cloned());
    };
    let mut status = Status::new();
    put_last(&mut status, items, &["autogen", "ready"])?;
    let mut rules = Status::new();
    for rule in RULES {
        rules.insert(
            rule.to_owned(),
            merge::sum(items, &format!("rulecount.{rule}"))?.into(),
        );
    }
    status.insert("rulecount".to_owned(), rules.into());
    status.insert("conditions".to_owned(), merged_conditions(items)?.into());
    Ok(Some(status.into()))
}
