//! Columns of pod templates, controller revisions and endpoint slices.

use super::cell::{Row, Show};
use super::{AGE, NAME, Printed, narrow};
use serde_json::Value;

/// Endpoints that are named; the others are counted (source: the printer of endpoint slices).
const SHOWN: usize = 3;

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

pub(super) const ENDPOINT_SLICE: &[Printed] = &[
    NAME,
    narrow("AddressType", "string", |r| r.text("/addressType").show()),
    narrow("Ports", "string", |r| {
        let ports = r.list("/ports").iter().map(|p| match p["port"].as_i64() {
            Some(port) => port.to_string(),
            None => "*".to_owned(),
        });
        listed(ports.collect())
    }),
    narrow("Endpoints", "string", |r| {
        let endpoints = r.list("/endpoints").iter();
        let addresses = endpoints.flat_map(|e| e["addresses"].as_array().into_iter().flatten());
        listed(addresses.filter_map(Value::as_str).map(str::to_owned).collect())
    }),
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

fn listed(all: Vec<String>) -> Value {
    match all.len() {
        0 => "<unset>".show(),
        n if n > SHOWN => format!("{} + {} more...", all[..SHOWN].join(","), n - SHOWN).show(),
        _ => all.join(",").show(),
    }
}
