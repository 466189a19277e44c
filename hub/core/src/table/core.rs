//! Columns of configuration, namespaces, events, leases and RBAC.

use super::cell::{Row, Show};
use super::{AGE, NAME, Printed, narrow, wide};
use serde_json::{Value, json};

fn size(r: &Row, pointers: &[&str]) -> Value {
    let count = |p: &&str| r.at(p).and_then(Value::as_object).map_or(0, serde_json::Map::len);
    json!(pointers.iter().map(count).sum::<usize>())
}

pub(super) const CONFIG_MAP: &[Printed] = &[
    NAME,
    narrow("Data", "string", |r| size(r, &["/data", "/binaryData"])),
    AGE,
];

pub(super) const SECRET: &[Printed] = &[
    NAME,
    narrow("Type", "string", |r| r.text_or("/type", "Opaque")),
    narrow("Data", "string", |r| size(r, &["/data"])),
    AGE,
];

pub(super) const NAMESPACE: &[Printed] = &[
    NAME,
    narrow("Status", "string", |r| r.text_or("/status/phase", "Active")),
    AGE,
];

pub(super) const LEASE: &[Printed] = &[
    NAME,
    narrow("Holder", "string", |r| r.text("/spec/holderIdentity").show()),
    AGE,
];

pub(super) const CREATED_AT: &[Printed] = &[
    NAME,
    narrow("Created At", "date", |r| {
        r.text("/metadata/creationTimestamp").show()
    }),
];

pub(super) const EVENT: &[Printed] = &[
    narrow("Last Seen", "string", last_seen),
    narrow("Type", "string", |r| r.text("/type").show()),
    narrow("Reason", "string", |r| r.text("/reason").show()),
    narrow("Object", "string", |r| {
        let kind = r.text("/involvedObject/kind").to_lowercase();
        match r.text("/involvedObject/name") {
            "" => kind.show(),
            name => format!("{kind}/{name}").show(),
        }
    }),
    wide("Subobject", "string", |r| {
        r.text("/involvedObject/fieldPath").show()
    }),
    wide("Source", "string", source),
    narrow("Message", "string", |r| r.text("/message").trim().show()),
    wide("First Seen", "string", first_seen),
    wide("Count", "string", |r| {
        match r.at("/series/count").and_then(Value::as_i64) {
            Some(count) => count.show(),
            None => r.int("/count").max(1).show(),
        }
    }),
    wide("Name", "string", |r| r.name()),
];

fn first_seen(r: &Row) -> Value {
    match r.text("/firstTimestamp") {
        "" => r.since("/eventTime", "<unknown>"),
        _ => r.since("/firstTimestamp", "<unknown>"),
    }
}

fn last_seen(r: &Row) -> Value {
    if r.at("/series/lastObservedTime").is_some() {
        return r.since("/series/lastObservedTime", "<unknown>");
    }
    match r.text("/lastTimestamp") {
        "" => first_seen(r),
        _ => r.since("/lastTimestamp", "<unknown>"),
    }
}

fn source(r: &Row) -> Value {
    let first = |a: &str, b: &str| match r.text(a) {
        "" => r.text(b).to_owned(),
        text => text.to_owned(),
    };
    let component = first("/source/component", "/reportingComponent");
    match first("/source/host", "/reportingInstance").as_str() {
        "" => component.show(),
        host => format!("{component}, {host}").show(),
    }
}

pub(super) const ROLE_BINDING: &[Printed] = &[
    NAME,
    narrow("Role", "string", |r| {
        format!("{}/{}", r.text("/roleRef/kind"), r.text("/roleRef/name")).show()
    }),
    AGE,
    wide("Users", "string", |r| subjects(r, "User")),
    wide("Groups", "string", |r| subjects(r, "Group")),
    wide("ServiceAccounts", "string", |r| subjects(r, "ServiceAccount")),
];

fn subjects(r: &Row, kind: &str) -> Value {
    let of_kind = r.list("/subjects").iter().filter(|s| s["kind"] == kind);
    let names: Vec<String> = of_kind
        .map(|s| {
            let name = s["name"].as_str().unwrap_or_default();
            match s["namespace"].as_str() {
                Some(namespace) if kind == "ServiceAccount" => format!("{namespace}/{name}"),
                _ => name.to_owned(),
            }
        })
        .collect();
    names.join(", ").show()
}
