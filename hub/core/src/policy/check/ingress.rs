//! Rules of MultiClusterIngress: those of an Ingress (source: networking/v1 validation).

use std::net::IpAddr;

use serde_json::Value;

use super::super::admit::{Errors, FieldErrorType};
use crate::names;

/// How a path can be matched.
const PATH_TYPES: [&str; 3] = ["Exact", "Prefix", "ImplementationSpecific"];

pub(super) fn check(object: &Value, errors: &mut Errors) {
    let spec = &object["spec"];
    let rules = spec["rules"].as_array().map(Vec::as_slice).unwrap_or_default();
    if rules.is_empty() && spec["defaultBackend"].is_null() {
        errors.invalid("spec", "either defaultBackend or rules must be specified");
    }
    if !spec["defaultBackend"].is_null() {
        backend(&spec["defaultBackend"], "spec.defaultBackend", errors);
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = format!("spec.rules[{index}]");
        host(
            rule["host"].as_str().unwrap_or_default(),
            &format!("{path}.host"),
            errors,
        );
        if rule["http"].is_null() {
            continue;
        }
        let paths = rule["http"]["paths"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        if paths.is_empty() {
            errors.required(format!("{path}.http.paths"), "a rule needs a path");
        }
        for (at, entry) in paths.iter().enumerate() {
            http_path(entry, &format!("{path}.http.paths[{at}]"), errors);
        }
    }
    for (index, tls) in spec["tls"].as_array().into_iter().flatten().enumerate() {
        let path = format!("spec.tls[{index}]");
        for (at, name) in tls["hosts"].as_array().into_iter().flatten().enumerate() {
            host(
                name.as_str().unwrap_or_default(),
                &format!("{path}.hosts[{at}]"),
                errors,
            );
        }
        let secret = tls["secretName"].as_str().unwrap_or_default();
        if !secret.is_empty() && names::dns_subdomain(secret).is_err() {
            errors.invalid(
                format!("{path}.secretName"),
                format!("{secret:?} is not a valid name of a Secret"),
            );
        }
    }
}

/// A DNS name, or one with `*.` in front; never an address.
fn host(host: &str, path: &str, errors: &mut Errors) {
    if host.is_empty() {
        return;
    }
    let name = host.strip_prefix("*.").unwrap_or(host);
    if host.parse::<IpAddr>().is_ok() {
        errors.invalid(path, "must be a DNS name, not an IP address");
    } else if let Err(why) = names::dns_subdomain(name) {
        errors.invalid(path, why);
    }
}

fn http_path(entry: &Value, path: &str, errors: &mut Errors) {
    let written = entry["path"].as_str().unwrap_or_default();
    let kind = entry["pathType"].as_str().unwrap_or_default();
    match kind {
        "" => errors.required(format!("{path}.pathType"), PATH_TYPES.join(", ")),
        known if PATH_TYPES.contains(&known) => {}
        other => errors.add(
            FieldErrorType::NotSupported,
            format!("{path}.pathType"),
            format!("{other:?}; supported: {}", PATH_TYPES.join(", ")),
        ),
    }
    let is_free = kind == "ImplementationSpecific" && written.is_empty();
    if !is_free && !written.starts_with('/') {
        errors.invalid(format!("{path}.path"), "must be an absolute path");
    } else if matches!(kind, "Exact" | "Prefix")
        && ["//", "/./", "/../", "%2f", "%2F"]
            .iter()
            .any(|bad| written.contains(bad))
    {
        errors.invalid(
            format!("{path}.path"),
            format!("{written:?} is not a normal path"),
        );
    }
    backend(&entry["backend"], &format!("{path}.backend"), errors);
}

fn backend(backend: &Value, path: &str, errors: &mut Errors) {
    let service = &backend["service"];
    match (service.is_null(), backend["resource"].is_null()) {
        (true, true) => errors.required(path, "names a service or a resource"),
        (false, false) => errors.invalid(path, "cannot set both resource and service backends"),
        (true, false) => {}
        (false, true) => {
            let name = service["name"].as_str().unwrap_or_default();
            if name.is_empty() {
                errors.required(format!("{path}.service.name"), "names the Service");
            } else if let Err(why) = names::dns_label(name) {
                errors.invalid(format!("{path}.service.name"), why);
            }
            let port = &service["port"];
            let by_name = port["name"].as_str().is_some_and(|name| !name.is_empty());
            let number = port["number"].as_i64().unwrap_or(0);
            if by_name && number != 0 {
                errors.invalid(
                    format!("{path}.service.port"),
                    "cannot set both port name and port number",
                );
            } else if !by_name && number == 0 {
                errors.required(format!("{path}.service.port"), "port name or number is required");
            } else if number != 0 && !(1..=65_535).contains(&number) {
                errors.invalid(
                    format!("{path}.service.port.number"),
                    "must be between 1 and 65535",
                );
            }
        }
    }
}
