//! Rules of MultiClusterService.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::admit::{Errors, FieldErrorType};
use super::cluster_name;
use crate::names;

/// How a service can be exposed.
const TYPES: [&str; 2] = ["CrossCluster", "LoadBalancer"];

pub(super) fn check(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    // A Service may start with a letter only (RFC 1035).
    if names::dns_label(name).is_err() || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        errors.invalid(
            "metadata.name",
            format!("{name:?} is not a valid name of a Service"),
        );
    }
    let spec = &object["spec"];
    types(&spec["types"], errors);
    if let Some(old) = old
        && old["spec"]["types"] != spec["types"]
    {
        errors.invalid("spec.types", "cannot change; create another MultiClusterService");
    }
    ports(&spec["ports"], errors);
    for field in ["providerClusters", "consumerClusters"] {
        for (index, cluster) in spec[field].as_array().into_iter().flatten().enumerate() {
            named(
                cluster["name"].as_str(),
                &format!("spec.range.{field}[{index}]"),
                errors,
            );
        }
    }
    for field in ["serviceProvisionClusters", "serviceConsumptionClusters"] {
        for (index, cluster) in spec[field].as_array().into_iter().flatten().enumerate() {
            named(cluster.as_str(), &format!("spec.{field}[{index}]"), errors);
        }
    }
    for (index, cluster) in spec["range"]["clusterNames"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        named(
            cluster.as_str(),
            &format!("spec.range.clusterNames[{index}]"),
            errors,
        );
    }
}

fn named(cluster: Option<&str>, path: &str, errors: &mut Errors) {
    if let Err(why) = cluster_name(cluster.unwrap_or_default()) {
        errors.invalid(path, why);
    }
}

fn types(list: &Value, errors: &mut Errors) {
    let mut distinct = BTreeSet::new();
    for (index, word) in list.as_array().into_iter().flatten().enumerate() {
        let word = word.as_str().unwrap_or_default();
        if !TYPES.contains(&word) {
            errors.invalid(
                format!("spec.types[{index}]"),
                format!("{word:?}; known: {}", TYPES.join(", ")),
            );
        }
        distinct.insert(word);
    }
    if distinct.len() != 1 {
        errors.invalid("spec.types", format!("exactly one of {}", TYPES.join(", ")));
    }
}

fn ports(list: &Value, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, port) in list.as_array().into_iter().flatten().enumerate() {
        let path = format!("spec.ports[{index}]");
        let name = port["name"].as_str().unwrap_or_default();
        if !name.is_empty() {
            if names::dns_label(name).is_err() {
                errors.invalid(
                    format!("{path}.name"),
                    format!("{name:?} is not a valid name of a port"),
                );
            } else if !seen.insert(name) {
                errors.add(
                    FieldErrorType::Duplicate,
                    format!("{path}.name"),
                    format!("{name:?}"),
                );
            }
        }
        if !(1..=65_535).contains(&port["port"].as_i64().unwrap_or(0)) {
            errors.invalid(format!("{path}.port"), "must be between 1 and 65535");
        }
        let protocol = port["protocol"].as_str().unwrap_or_default();
        if !matches!(protocol, "" | "TCP" | "UDP" | "SCTP") {
            errors.add(
                FieldErrorType::NotSupported,
                format!("{path}.protocol"),
                format!("{protocol:?}; supported: TCP, UDP, SCTP"),
            );
        }
    }
}
