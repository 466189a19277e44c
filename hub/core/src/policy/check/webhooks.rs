//! Rules of ResourceInterpreterWebhookConfiguration.

use std::collections::BTreeSet;

use interpreter::Operation;
use serde_json::Value;

use super::super::admit::{Errors, FieldErrorType};
use crate::names;

/// The only version of the request that a webhook can take.
const CONTEXT_VERSION: &str = "v1alpha1";

pub(super) fn check(object: &Value, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, webhook) in object["webhooks"].as_array().into_iter().flatten().enumerate() {
        let path = format!("webhooks[{index}]");
        let name = webhook["name"].as_str().unwrap_or_default();
        if names::dns_subdomain(name).is_err() || name.split('.').count() < 3 {
            errors.invalid(
                format!("{path}.name"),
                format!("{name:?} is not a domain name of at least three parts"),
            );
        }
        if !seen.insert(name) {
            errors.add(
                FieldErrorType::Duplicate,
                format!("{path}.name"),
                format!("{name:?}"),
            );
        }
        client(&webhook["clientConfig"], &format!("{path}.clientConfig"), errors);
        for (at, rule) in webhook["rules"].as_array().into_iter().flatten().enumerate() {
            rules(rule, &format!("{path}.rules[{at}]"), errors);
        }
        if let Some(seconds) = webhook["timeoutSeconds"].as_i64()
            && !(1..=30).contains(&seconds)
        {
            errors.invalid(format!("{path}.timeoutSeconds"), "must be between 1 and 30");
        }
        versions(
            &webhook["interpreterContextVersions"],
            &format!("{path}.interpreterContextVersions"),
            errors,
        );
    }
}

fn client(config: &Value, path: &str, errors: &mut Errors) {
    match (config["url"].as_str(), config["service"].as_object()) {
        (Some(_), Some(_)) | (None, None) => errors.required(path, "exactly one of url and service"),
        (Some(url), None) => {
            let rest = url.strip_prefix("https://");
            let host = rest.and_then(|rest| rest.split('/').next()).unwrap_or_default();
            if host.is_empty() || url.contains(['@', '#', '?']) {
                errors.invalid(
                    format!("{path}.url"),
                    format!("{url:?} is not https://HOST[:PORT]/PATH without user, query or fragment"),
                );
            }
        }
        (None, Some(service)) => {
            for field in ["namespace", "name"] {
                if service
                    .get(field)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .is_empty()
                {
                    errors.required(format!("{path}.service.{field}"), "names the Service to call");
                }
            }
            if let Some(port) = service.get("port").and_then(Value::as_i64)
                && !(1..=65_535).contains(&port)
            {
                errors.invalid(format!("{path}.service.port"), "must be between 1 and 65535");
            }
        }
    }
}

fn rules(rule: &Value, path: &str, errors: &mut Errors) {
    words(&rule["operations"], &format!("{path}.operations"), false, errors);
    for (index, operation) in rule["operations"].as_array().into_iter().flatten().enumerate() {
        let operation = operation.as_str().unwrap_or_default();
        if operation != "*" && !operation.is_empty() && Operation::parse(operation).is_none() {
            errors.add(
                FieldErrorType::NotSupported,
                format!("{path}.operations[{index}]"),
                format!("{operation:?}"),
            );
        }
    }
    // The core group is written as an empty text.
    words(&rule["apiGroups"], &format!("{path}.apiGroups"), true, errors);
    words(
        &rule["apiVersions"],
        &format!("{path}.apiVersions"),
        false,
        errors,
    );
    words(&rule["kinds"], &format!("{path}.kinds"), false, errors);
}

/// A list that has something in it, and `*` only alone.
fn words(list: &Value, path: &str, empty_is_one: bool, errors: &mut Errors) {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    if list.is_empty() {
        errors.required(path, "name at least one, or \"*\" for all");
    }
    for (index, word) in list.iter().enumerate() {
        if word.as_str().unwrap_or_default().is_empty() && !empty_is_one {
            errors.required(format!("{path}[{index}]"), "must not be empty");
        }
    }
    if list.len() > 1 && list.iter().any(|word| word == "*") {
        errors.invalid(path, "\"*\" stands for all and cannot be combined");
    }
}

fn versions(list: &Value, path: &str, errors: &mut Errors) {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    if list.is_empty() {
        errors.required(path, format!("must contain {CONTEXT_VERSION}"));
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, version) in list.iter().enumerate() {
        let version = version.as_str().unwrap_or_default();
        if names::dns_label(version).is_err() {
            errors.invalid(
                format!("{path}[{index}]"),
                format!("{version:?} is not a version"),
            );
        } else if !seen.insert(version) {
            errors.invalid(format!("{path}[{index}]"), format!("{version:?} is named twice"));
        }
    }
    if !seen.contains(CONTEXT_VERSION) {
        errors.invalid(path, format!("must contain {CONTEXT_VERSION}"));
    }
}
