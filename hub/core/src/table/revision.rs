//! Columns of pod templates and controller revisions.

use super::cell::{Row, Show};
use super::{AGE, NAME, Printed, narrow};
use serde_json::Value;

pub(super) const POD_TEMPLATE: &[Printed] = &[
    NAME,
    narrow("Containers", "string", |r| {
        r.joined("/template/spec/containers", "name")
    }),
    narrow("Images", "string", |r| {
        r.joined("/template/spec/containers", "image")
    }),
    narrow("Pod Labels", "string", |r| {
        r.label_text("/template/metadata/labels")
    }),
];

pub(super) const CONTROLLER_REVISION: &[Printed] = &[
    NAME,
    narrow("Controller", "string", controller),
    narrow("Revision", "string", |r| r.int("/revision").into()),
    AGE,
];

fn controller(r: &Row) -> Value {
    let owner = r
        .list("/metadata/ownerReferences")
        .iter()
        .find(|o| o["controller"] == true);
    let Some(owner) = owner else {
        return "<none>".show();
    };
    let group = owner["apiVersion"]
        .as_str()
        .and_then(|v| v.split_once('/'))
        .map_or("", |(group, _)| group);
    let dot = if group.is_empty() { "" } else { "." };
    let kind = owner["kind"].as_str().unwrap_or_default().to_lowercase();
    format!(
        "{kind}{dot}{group}/{}",
        owner["name"].as_str().unwrap_or_default()
    )
    .show()
}
