//! Field selectors, and the fields each kind may be selected by.

use crate::limits::MAX_SELECTOR_REQUIREMENTS;
use crate::types::Resource;
use serde_json::Value;

/// A parsed field selector; empty selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<FieldTerm>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FieldTerm {
    field: String,
    equal: bool,
    value: String,
}

impl FieldSelector {
    /// Reads the text of a `fieldSelector` parameter and checks that the kind knows its fields.
    ///
    /// # Errors
    /// Text that is not a selector; a field that the kind cannot be selected by.
    pub fn parse(text: &str, group: &str, plural: &str) -> Result<FieldSelector, String> {
        FieldSelector::checked(text, |field| {
            if known_field(group, plural, field) {
                Ok(())
            } else {
                Err(unknown_field(group, plural, field))
            }
        })
    }

    /// The same for a resource, which may be a custom one.
    ///
    /// # Errors
    /// As [`FieldSelector::parse`].
    pub fn of_resource(text: &str, resource: &Resource) -> Result<FieldSelector, String> {
        let Some(custom) = &resource.custom else {
            return FieldSelector::parse(text, &resource.group, &resource.plural);
        };
        FieldSelector::checked(text, |field| {
            let is_known = field == "metadata.name"
                || (resource.namespaced && field == "metadata.namespace")
                || custom.selectable.iter().any(|path| **path == *field);
            if is_known {
                Ok(())
            } else {
                Err(format!("field label not supported: {field}"))
            }
        })
    }

    fn checked(text: &str, check: impl Fn(&str) -> Result<(), String>) -> Result<FieldSelector, String> {
        let mut terms = Vec::new();
        for part in split_unescaped(text) {
            if part.is_empty() {
                continue;
            }
            let term = field_term(&part)
                .ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{part}'"))?;
            check(&term.field)?;
            terms.push(term);
            if terms.len() > MAX_SELECTOR_REQUIREMENTS {
                return Err(format!(
                    "invalid selector: more than {MAX_SELECTOR_REQUIREMENTS} terms"
                ));
            }
        }
        Ok(FieldSelector { terms })
    }

    /// Selects everything.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The name that `metadata.name=` asks for, if it does.
    pub fn exact_name(&self) -> Option<&str> {
        self.terms
            .iter()
            .find(|t| t.equal && t.field == "metadata.name")
            .map(|t| t.value.as_str())
    }

    /// The namespace that `metadata.namespace=` asks for, if it does.
    pub fn exact_namespace(&self) -> Option<&str> {
        self.terms
            .iter()
            .find(|t| t.equal && t.field == "metadata.namespace")
            .map(|t| t.value.as_str())
    }

    /// Whether fields beyond name and namespace are asked for, so that bodies must be read.
    pub fn needs_body(&self) -> bool {
        self.terms
            .iter()
            .any(|t| !matches!(t.field.as_str(), "metadata.name" | "metadata.namespace"))
    }

    /// Whether the object is selected. `object` is asked for only if [`FieldSelector::needs_body`].
    pub fn matches(&self, namespace: &str, name: &str, object: impl FnOnce() -> Value) -> bool {
        let body = if self.needs_body() { object() } else { Value::Null };
        self.terms.iter().all(|t| {
            let value = match t.field.as_str() {
                "metadata.name" => name.to_owned(),
                "metadata.namespace" => namespace.to_owned(),
                other => field_text(&body, other),
            };
            (value == t.value) == t.equal
        })
    }
}

/// The core kinds that word it themselves (source: `core/v1` conversions).
fn unknown_field(group: &str, plural: &str, field: &str) -> String {
    let own = [
        "pods",
        "replicationcontrollers",
        "events",
        "namespaces",
        "secrets",
        "services",
        "nodes",
    ];
    if group.is_empty() && own.contains(&plural) {
        return format!("field label not supported: {field}");
    }
    format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
}

/// Splits at commas that no backslash escapes.
fn split_unescaped(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        if c == ',' && !escaped {
            parts.push(String::new());
            continue;
        }
        escaped = c == '\\' && !escaped;
        if let Some(last) = parts.last_mut() {
            last.push(c);
        }
    }
    parts
}

fn field_term(part: &str) -> Option<FieldTerm> {
    let at = part.find(['=', '!'])?;
    let (field, rest) = part.split_at(at);
    let (equal, value) = if let Some(value) = rest.strip_prefix("!=") {
        (false, value)
    } else if let Some(value) = rest.strip_prefix("==") {
        (true, value)
    } else {
        (true, rest.strip_prefix('=')?)
    };
    let mut text = String::new();
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next()? {
                c @ ('\\' | ',' | '=') => text.push(c),
                _ => return None,
            },
            '=' => return None,
            c => text.push(c),
        }
    }
    Some(FieldTerm {
        field: field.trim().to_owned(),
        equal,
        value: text,
    })
}

const INVOLVED: [&str; 10] = [
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "type",
];

/// Fields by which a kind may be selected (source: the conversion functions of the API groups).
fn known_field(group: &str, plural: &str, field: &str) -> bool {
    if field == "metadata.name" || field == "metadata.namespace" {
        return true;
    }
    match (group, plural) {
        ("", "pods") => [
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ]
        .contains(&field),
        ("", "events") => field == "source" || INVOLVED.contains(&field),
        ("events.k8s.io", "events") => {
            field
                .strip_prefix("regarding.")
                .is_some_and(|f| INVOLVED.contains(&format!("involvedObject.{f}").as_str()))
                || ["reason", "reportingController", "type"].contains(&field)
        }
        ("", "secrets") => field == "type",
        ("", "namespaces") => field == "status.phase",
        ("", "nodes") => field == "spec.unschedulable",
        ("batch", "jobs") => field == "status.successful",
        ("", "replicationcontrollers") | ("apps", "replicasets") => field == "status.replicas",
        ("certificates.k8s.io", "certificatesigningrequests") => field == "spec.signerName",
        _ => false,
    }
}

/// The value of a field as text; absent is the empty text, or `false` and `0` where the source says so.
fn field_text(body: &Value, field: &str) -> String {
    if field == "source" {
        let source = body
            .pointer("/source/component")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let reporting = body
            .get("reportingComponent")
            .and_then(Value::as_str)
            .unwrap_or_default();
        return if source.is_empty() { reporting } else { source }.to_owned();
    }
    let found = field.split('.').try_fold(body, |at, key| at.get(key));
    match found {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => match field {
            "spec.unschedulable" | "spec.hostNetwork" => "false".to_owned(),
            "status.successful" | "status.replicas" => "0".to_owned(),
            _ => String::new(),
        },
        Some(other) => other.to_string(),
    }
}
