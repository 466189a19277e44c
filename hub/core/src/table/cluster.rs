//! Columns of cluster-wide kinds: nodes, volumes and classes.

use super::cell::{Row, Show};
use super::{AGE, NAME, Printed, narrow, wide};
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) const NODE: &[Printed] = &[
    NAME,
    narrow("Status", "string", |r| {
        let ready = r.list("/status/conditions").iter().find(|c| c["type"] == "Ready");
        let status = match ready {
            Some(c) if c["status"] == "True" => "Ready",
            Some(_) => "NotReady",
            None => "Unknown",
        };
        let closed = r.at("/spec/unschedulable") == Some(&Value::Bool(true));
        if closed {
            format!("{status},SchedulingDisabled").show()
        } else {
            status.show()
        }
    }),
    narrow("Roles", "string", roles),
    AGE,
    narrow("Version", "string", |r| {
        r.text("/status/nodeInfo/kubeletVersion").show()
    }),
    wide("Internal-IP", "string", |r| address(r, "InternalIP")),
    wide("External-IP", "string", |r| address(r, "ExternalIP")),
    wide("OS-Image", "string", |r| {
        r.text_or("/status/nodeInfo/osImage", "<unknown>")
    }),
    wide("Kernel-Version", "string", |r| {
        let kernel = match r.text("/status/nodeInfo/kernelVersion") {
            "" => "<unknown>",
            kernel => kernel,
        };
        match r.text("/status/nodeInfo/architecture") {
            "" => kernel.show(),
            architecture => format!("{kernel} ({architecture})").show(),
        }
    }),
    wide("Container-Runtime", "string", |r| {
        r.text_or("/status/nodeInfo/containerRuntimeVersion", "<unknown>")
    }),
];

fn address(r: &Row, kind: &str) -> Value {
    let found = r.list("/status/addresses").iter().find(|a| a["type"] == kind);
    found
        .and_then(|a| a["address"].as_str())
        .unwrap_or("<none>")
        .show()
}

fn roles(r: &Row) -> Value {
    let labels = r.at("/metadata/labels").and_then(Value::as_object);
    let mut roles = BTreeSet::new();
    for (key, value) in labels.into_iter().flatten() {
        match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) if !role.is_empty() => roles.insert(role.to_owned()),
            _ if key == "kubernetes.io/role" => roles.insert(value.as_str().unwrap_or_default().to_owned()),
            _ => false,
        };
    }
    roles.remove("");
    let roles: Vec<String> = roles.into_iter().collect();
    if roles.is_empty() {
        "<none>".show()
    } else {
        roles.join(",").show()
    }
}

fn access_modes(r: &Row, pointer: &str) -> Value {
    let modes = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let given: Vec<&str> = r.list(pointer).iter().filter_map(Value::as_str).collect();
    let short: Vec<&str> = modes
        .into_iter()
        .filter(|(long, _)| given.contains(long))
        .map(|(_, short)| short)
        .collect();
    short.join(",").show()
}

fn phase(r: &Row) -> Value {
    if r.is_deleting() {
        "Terminating".show()
    } else {
        r.text_or("/status/phase", "Pending")
    }
}

pub(super) const PERSISTENT_VOLUME: &[Printed] = &[
    NAME,
    narrow("Capacity", "string", |r| r.text_or("/spec/capacity/storage", "0")),
    narrow("Access Modes", "string", |r| access_modes(r, "/spec/accessModes")),
    narrow("Reclaim Policy", "string", |r| {
        r.text_or("/spec/persistentVolumeReclaimPolicy", "Retain")
    }),
    narrow("Status", "string", phase),
    narrow("Claim", "string", |r| match r.text("/spec/claimRef/name") {
        "" => "".show(),
        name => format!("{}/{name}", r.text("/spec/claimRef/namespace")).show(),
    }),
    narrow("StorageClass", "string", |r| {
        r.text("/spec/storageClassName").show()
    }),
    narrow("VolumeAttributesClass", "string", |r| {
        r.text_or("/spec/volumeAttributesClassName", "<unset>")
    }),
    narrow("Reason", "string", |r| r.text("/status/reason").show()),
    AGE,
    wide("VolumeMode", "string", |r| {
        r.text_or("/spec/volumeMode", "<unset>")
    }),
];

pub(super) const PERSISTENT_VOLUME_CLAIM: &[Printed] = &[
    NAME,
    narrow("Status", "string", phase),
    narrow("Volume", "string", |r| r.text("/spec/volumeName").show()),
    narrow("Capacity", "string", |r| match r.text("/spec/volumeName") {
        "" => "".show(),
        _ => r.text_or("/status/capacity/storage", "0"),
    }),
    narrow("Access Modes", "string", |r| match r.text("/spec/volumeName") {
        "" => "".show(),
        _ => access_modes(r, "/status/accessModes"),
    }),
    narrow("StorageClass", "string", |r| {
        r.text("/spec/storageClassName").show()
    }),
    narrow("VolumeAttributesClass", "string", |r| {
        r.text_or("/spec/volumeAttributesClassName", "<unset>")
    }),
    AGE,
    wide("VolumeMode", "string", |r| {
        r.text_or("/spec/volumeMode", "<unset>")
    }),
];

pub(super) const STORAGE_CLASS: &[Printed] = &[
    narrow("Name", "string", |r| {
        let is_default = r.at("/metadata/annotations/storageclass.kubernetes.io~1is-default-class");
        let mark = if is_default.and_then(Value::as_str) == Some("true") {
            " (default)"
        } else {
            ""
        };
        format!("{}{mark}", r.text("/metadata/name")).show()
    }),
    narrow("Provisioner", "string", |r| r.text("/provisioner").show()),
    narrow("ReclaimPolicy", "string", |r| {
        r.text_or("/reclaimPolicy", "Delete")
    }),
    narrow("VolumeBindingMode", "string", |r| {
        r.text_or("/volumeBindingMode", "Immediate")
    }),
    narrow("AllowVolumeExpansion", "string", |r| {
        Value::Bool(r.at("/allowVolumeExpansion") == Some(&Value::Bool(true)))
    }),
    AGE,
];

pub(super) const PRIORITY_CLASS: &[Printed] = &[
    NAME,
    narrow("Value", "integer", |r| r.int("/value").show()),
    narrow("Global-Default", "boolean", |r| {
        Value::Bool(r.at("/globalDefault") == Some(&Value::Bool(true)))
    }),
    AGE,
    narrow("PreemptionPolicy", "string", |r| {
        r.text_or("/preemptionPolicy", "PreemptLowerPriority")
    }),
];
