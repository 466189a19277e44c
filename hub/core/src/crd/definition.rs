//! Is a CustomResourceDefinition right? Names, versions, subresources, columns; its schemas are checked by their own
//! modules (source: `ValidateCustomResourceDefinition` of the apiextensions API server, whose internal form moves what is
//! the same in all versions to the top: field paths follow it).

use super::openapi_rules;
use super::structural::{is_set, text};
use crate::names;
use crate::status_error::Cause;
use serde_json::{Map, Value, json};

/// Selectable fields of a version at most.
const MAX_SELECTABLE: usize = 8;

/// Group and plural of definitions.
pub const GROUP: &str = "apiextensions.k8s.io";
/// See [`GROUP`].
pub const PLURAL: &str = "customresourcedefinitions";

/// Fills in what upstream's decoder fills in: singular, list kind, conversion.
pub fn fill(definition: &mut Value) {
    let Some(spec) = definition.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    let strategy = json!({"strategy": "None"});
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".to_owned(), strategy);
    }
    let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) else {
        return;
    };
    let kind = names
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let is_empty = |names: &Map<String, Value>, key: &str| {
        names
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .is_empty()
    };
    if is_empty(names, "singular") && !kind.is_empty() {
        names.insert("singular".to_owned(), json!(kind.to_lowercase()));
    }
    if is_empty(names, "listKind") && !kind.is_empty() {
        names.insert("listKind".to_owned(), json!(format!("{kind}List")));
    }
}

/// All that is wrong with a definition; `old` is what stood there before an update. The rules of metadata are not among it.
pub fn check(definition: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let empty = json!({});
    let spec = definition.get("spec").unwrap_or(&empty);
    let names = spec.get("names").unwrap_or(&empty);
    let (group, plural) = (text(spec, "group"), text(names, "plural"));
    let name = crate::admission::name_of(definition);
    if name != format!("{plural}.{group}") {
        let why = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid("metadata.name", &json!(name), why));
    }
    check_group(group, &mut causes);
    check_scope(spec, &mut causes);
    let old_spec = old.and_then(|old| old.get("spec")).unwrap_or(&empty);
    check_versions(spec, old_spec, &mut causes);
    for key in ["plural", "singular", "kind", "listKind"] {
        if text(names, key).is_empty() {
            causes.push(Cause::required(format!("spec.names.{key}"), ""));
        }
    }
    check_names(names, &mut causes);
    check_conversion(spec, &mut causes);
    check_approval(definition, old, group, &mut causes);
    if is_set(spec, "preserveUnknownFields") {
        let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        causes.push(Cause::invalid("spec.preserveUnknownFields", &json!(true), why));
    }
    if let Some(old) = old {
        check_unchanged(definition, old, &mut causes);
    }
    causes
}

fn check_group(group: &str, causes: &mut Vec<Cause>) {
    let field = "spec.group";
    if group.is_empty() {
        causes.push(Cause::required(field, ""));
    } else if let Err(why) = names::dns_subdomain(group) {
        causes.push(Cause::invalid(field, &json!(group), why));
    } else if !group.contains('.') {
        causes.push(Cause::invalid(
            field,
            &json!(group),
            "should be a domain with at least one dot",
        ));
    }
}

fn check_scope(spec: &Value, causes: &mut Vec<Cause>) {
    match text(spec, "scope") {
        "" => causes.push(Cause::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => causes.push(Cause::not_supported(
            "spec.scope",
            &json!(other),
            &["Cluster", "Namespaced"],
        )),
    }
}

/// `spec.versions` as a list.
pub(super) fn versions(spec: &Value) -> &[Value] {
    spec.get("versions")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// Where a part of a version is named: at the top if all versions say the same.
fn place(spec: &Value, key: &str, top: &str, version: usize) -> String {
    let all = versions(spec);
    let first = all
        .first()
        .and_then(|v| v.get(key))
        .filter(|v| !v.is_null() && **v != json!([]));
    match first {
        Some(first) if all.iter().all(|v| v.get(key) == Some(first)) => format!("spec.{top}"),
        _ => format!("spec.versions[{version}].{key}"),
    }
}

fn check_versions(spec: &Value, old_spec: &Value, causes: &mut Vec<Cause>) {
    let all = versions(spec);
    for (at, version) in all.iter().enumerate() {
        if version
            .pointer("/schema/openAPIV3Schema")
            .is_none_or(Value::is_null)
        {
            let field = format!("spec.versions[{at}].schema.openAPIV3Schema");
            causes.push(Cause::required(field, ""));
        }
    }
    let mut seen: Vec<(String, &'static str)> = Vec::new();
    for (at, version) in all.iter().enumerate() {
        let name = text(version, "name");
        if let Err(why) = names::dns_1035_label(name) {
            causes.push(Cause::invalid(
                format!("spec.versions[{at}].name"),
                &json!(name),
                why,
            ));
        }
        check_deprecation(version, at, causes);
        // What all versions share is checked once.
        let mut first_time = |place: &str, part: &'static str| {
            let key = (place.to_owned(), part);
            let is_new = !seen.contains(&key);
            if is_new {
                seen.push(key);
            }
            is_new
        };
        let schema_at = place(spec, "schema", "validation", at);
        let schema = version.pointer("/schema/openAPIV3Schema");
        let has_status = version
            .pointer("/subresources/status")
            .is_some_and(|s| !s.is_null());
        if let Some(schema) = schema.filter(|s| !s.is_null() && first_time(&schema_at, "schema")) {
            let stored = versions(old_spec).iter().find(|old| text(old, "name") == name);
            let is_unchanged = stored.and_then(|old| old.pointer("/schema/openAPIV3Schema")) == Some(schema);
            causes.extend(openapi_rules::check(schema, has_status, is_unchanged, &schema_at));
        }
        let part = place(spec, "subresources", "subresources", at);
        if first_time(&part, "subresources") {
            check_subresources(version, &part, causes);
        }
        let part = place(spec, "additionalPrinterColumns", "additionalPrinterColumns", at);
        if first_time(&part, "columns") {
            check_columns(version, &part, causes);
        }
        let part = place(spec, "selectableFields", "selectableFields", at);
        if first_time(&part, "fields") {
            check_selectable(version, schema, &part, causes);
        }
    }
    let names: Vec<&str> = all.iter().map(|v| text(v, "name")).collect();
    let all = spec.get("versions").cloned().unwrap_or_else(|| json!([]));
    if names
        .iter()
        .enumerate()
        .any(|(at, name)| names[..at].contains(name))
    {
        causes.push(Cause::invalid(
            "spec.versions",
            &all,
            "must contain unique version names",
        ));
    }
    if versions(spec).iter().filter(|v| is_set(v, "storage")).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", &all, why));
    }
}

fn check_deprecation(version: &Value, at: usize, causes: &mut Vec<Cause>) {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else {
        return;
    };
    let mut refuse = |why: &str| {
        let field = format!("spec.versions[{at}].deprecationWarning");
        causes.push(Cause::invalid(field, &json!(warning), why));
    };
    if !is_set(version, "deprecated") {
        refuse("can only be set for deprecated versions");
        return;
    }
    if warning.len() > 256 {
        refuse("must be <= 256 characters long");
    }
    if warning.is_empty() {
        refuse("must not be an empty string");
    }
    if let Some(at) = warning.find(char::is_control) {
        refuse(&format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {at}"
        ));
    }
}

fn simple_path(path: &str, field: &str, causes: &mut Vec<Cause>) -> bool {
    if path.starts_with('.') {
        return true;
    }
    let why = "must be a simple json path starting with .";
    causes.push(Cause::invalid(field, &json!(path), why));
    false
}

fn check_subresources(version: &Value, place: &str, causes: &mut Vec<Cause>) {
    let Some(scale) = version.pointer("/subresources/scale").filter(|s| !s.is_null()) else {
        return;
    };
    for (key, root) in [("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")] {
        let (path, field) = (text(scale, key), format!("{place}.scale.{key}"));
        if path.is_empty() {
            causes.push(Cause::required(field, ""));
        } else if simple_path(path, &field, causes) && !path.starts_with(root) {
            let why = format!("should be a json path under {}", root.trim_end_matches('.'));
            causes.push(Cause::invalid(field, &json!(path), why));
        }
    }
    let (path, field) = (
        text(scale, "labelSelectorPath"),
        format!("{place}.scale.labelSelectorPath"),
    );
    if !path.is_empty()
        && simple_path(path, &field, causes)
        && !path.starts_with(".spec.")
        && !path.starts_with(".status.")
    {
        let why = "should be a json path under either .spec or .status";
        causes.push(Cause::invalid(field, &json!(path), why));
    }
}

fn check_columns(version: &Value, place: &str, causes: &mut Vec<Cause>) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 9] = [
        "byte",
        "date",
        "date-time",
        "double",
        "float",
        "int32",
        "int64",
        "password",
        "string",
    ];
    let columns = version.get("additionalPrinterColumns").and_then(Value::as_array);
    for (at, column) in columns.into_iter().flatten().enumerate() {
        let at = format!("{place}[{at}]");
        if text(column, "name").is_empty() {
            causes.push(Cause::required(format!("{at}.name"), ""));
        }
        let of_type = text(column, "type");
        let why = format!("must be one of {}", TYPES.join(","));
        if of_type.is_empty() {
            causes.push(Cause::required(format!("{at}.type"), &why));
        } else if !TYPES.contains(&of_type) {
            causes.push(Cause::invalid(format!("{at}.type"), &json!(of_type), why));
        }
        let format = text(column, "format");
        if !format.is_empty() && !FORMATS.contains(&format) {
            let why = format!("must be one of {}", FORMATS.join(","));
            causes.push(Cause::invalid(format!("{at}.format"), &json!(format), why));
        }
        let (path, field) = (text(column, "jsonPath"), format!("{at}.JSONPath"));
        if path.is_empty() {
            causes.push(Cause::required(field, ""));
        } else {
            simple_path(path, &field, causes);
        }
    }
}

fn check_selectable(version: &Value, schema: Option<&Value>, place: &str, causes: &mut Vec<Cause>) {
    let fields = version.get("selectableFields").and_then(Value::as_array);
    let mut seen: Vec<&str> = Vec::new();
    for (at, field) in fields.into_iter().flatten().enumerate() {
        let (path, at) = (text(field, "jsonPath"), format!("{place}[{at}].jsonPath"));
        if path.is_empty() {
            causes.push(Cause::required(at, ""));
            continue;
        }
        let found = path.strip_prefix('.').and_then(|inner| {
            inner
                .split('.')
                .try_fold(schema?, |node, key| node.get("properties")?.get(key))
        });
        let Some(found) = found else {
            let why = format!("is an invalid path: does not refer to a valid field {path}");
            causes.push(Cause::invalid(at, &json!(path), why));
            continue;
        };
        if path.starts_with(".metadata") {
            causes.push(Cause::invalid(
                at.clone(),
                &json!(path),
                "must not point to fields in metadata",
            ));
        }
        if !["string", "boolean", "integer"].contains(&text(found, "type")) {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats \
                       are allowed.";
            causes.push(Cause::invalid(at.clone(), &json!(path), why));
        }
        if seen.contains(&path) {
            causes.push(Cause {
                reason: "FieldValueDuplicate",
                message: format!("Duplicate value: {path:?}"),
                field: at,
            });
        } else {
            seen.push(path);
        }
    }
    if seen.len() > MAX_SELECTABLE {
        causes.push(Cause {
            reason: "FieldValueTooMany",
            message: format!(
                "Too many: {}: must have at most {MAX_SELECTABLE} items",
                seen.len()
            ),
            field: place.to_owned(),
        });
    }
}

fn check_names(names: &Value, causes: &mut Vec<Cause>) {
    for (key, mixed) in [
        ("plural", false),
        ("singular", false),
        ("kind", true),
        ("listKind", true),
    ] {
        let given = text(names, key);
        let label = if mixed {
            given.to_lowercase()
        } else {
            given.to_owned()
        };
        if let Some(Err(why)) = (!given.is_empty()).then(|| crate::names::dns_1035_label(&label)) {
            let why = match mixed {
                true => format!("may have mixed case, but should otherwise match: {why}"),
                false => why,
            };
            causes.push(Cause::invalid(format!("spec.names.{key}"), &json!(given), why));
        }
    }
    for key in ["shortNames", "categories"] {
        let list = names.get(key).and_then(Value::as_array).into_iter().flatten();
        for (at, name) in list.enumerate() {
            if let Err(why) = crate::names::dns_1035_label(name.as_str().unwrap_or_default()) {
                causes.push(Cause::invalid(format!("spec.names.{key}[{at}]"), name, why));
            }
        }
    }
    let kind = text(names, "kind");
    if !kind.is_empty() && kind == text(names, "listKind") {
        let why = "kind and listKind may not be the same";
        causes.push(Cause::invalid("spec.names.listKind", &json!(kind), why));
    }
}

fn check_conversion(spec: &Value, causes: &mut Vec<Cause>) {
    let Some(conversion) = spec.get("conversion").filter(|c| !c.is_null()) else {
        return;
    };
    let webhook = conversion.get("webhook").filter(|w| !w.is_null());
    match text(conversion, "strategy") {
        "" => causes.push(Cause::required("spec.conversion.strategy", "")),
        "None" => {
            if webhook.is_some_and(|w| w.get("clientConfig").is_some_and(|c| !c.is_null())) {
                let why = "should not be set when strategy is not set to Webhook";
                causes.push(Cause::forbidden("spec.conversion.webhookClientConfig", why));
            }
        }
        "Webhook" => match webhook
            .and_then(|w| w.get("clientConfig"))
            .filter(|c| !c.is_null())
        {
            None => {
                let why = "required when strategy is set to Webhook";
                causes.push(Cause::required("spec.conversion.webhookClientConfig", why));
            }
            Some(config) => {
                let has = |key: &str| config.get(key).is_some_and(|v| !v.is_null());
                if has("url") == has("service") {
                    let why = "exactly one of url or service is required";
                    causes.push(Cause::required("spec.conversion.webhookClientConfig", why));
                }
            }
        },
        other => {
            let known = ["None", "Webhook"];
            causes.push(Cause::not_supported(
                "spec.conversion.strategy",
                &json!(other),
                &known,
            ));
        }
    }
    if text(conversion, "strategy") == "Webhook" {
        let versions = webhook
            .and_then(|w| w.get("conversionReviewVersions"))
            .and_then(Value::as_array);
        let field = "spec.conversion.conversionReviewVersions";
        match versions.filter(|v| !v.is_empty()) {
            None => causes.push(Cause::required(field, "")),
            Some(all) if !all.iter().any(|v| v == "v1" || v == "v1beta1") => {
                causes.push(Cause::invalid(
                    field,
                    &json!(all),
                    "must include at least one of v1, v1beta1",
                ));
            }
            Some(_) => {}
        }
    }
}

/// Annotation by which a definition in a group of Kubernetes says where it was approved.
const APPROVED: &str = "api-approved.kubernetes.io";

fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group == *domain || group.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')))
}

fn approved_by(definition: &Value) -> &str {
    let annotations = definition.pointer("/metadata/annotations");
    let given = annotations.and_then(|a| a.get(APPROVED));
    given.and_then(Value::as_str).unwrap_or_default()
}

fn approval_missing() -> String {
    format!(
        "protected groups must have approval annotation \"{APPROVED}\", see \
         https://github.com/kubernetes/enhancements/pull/1111"
    )
}

fn approval_wrong() -> String {
    format!(
        "protected groups must have approval annotation \"{APPROVED}\" with either a URL or a reason starting with \
         \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111"
    )
}

/// Status, reason and message of the condition that says whether the API was approved; none outside the groups of
/// Kubernetes.
pub(super) fn approval(definition: &Value) -> Option<(&'static str, &'static str, String)> {
    let group = definition.pointer("/spec/group").and_then(Value::as_str);
    if !is_protected(group.unwrap_or_default()) {
        return None;
    }
    let given = approved_by(definition);
    Some(if given.is_empty() {
        ("False", "MissingAnnotation", approval_missing())
    } else if given.starts_with("unapproved") {
        (
            "False",
            "UnapprovedAnnotation",
            format!("not approved: {given:?}"),
        )
    } else if is_url(given) {
        ("True", "ApprovedAnnotation", format!("approved in {given}"))
    } else {
        ("False", "InvalidAnnotation", approval_wrong())
    })
}

/// Whether a text has a scheme and a host.
fn is_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else {
        return false;
    };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    is_scheme && !rest.is_empty() && !rest.starts_with('/')
}

/// Groups of Kubernetes itself need an approval.
fn check_approval(definition: &Value, old: Option<&Value>, group: &str, causes: &mut Vec<Cause>) {
    let given = approved_by(definition);
    let is_fine = is_url(given) || given.starts_with("unapproved");
    if !is_protected(group) || is_fine || old.is_some_and(|old| approved_by(old) == given) {
        return;
    }
    let field = format!("metadata.annotations[{APPROVED}]");
    if given.is_empty() {
        causes.push(Cause::required(field, &approval_missing()));
    } else {
        causes.push(Cause::invalid(field, &json!(given), approval_wrong()));
    }
}

/// What an update may not change, and which versions must stay since objects were stored in them.
fn check_unchanged(definition: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let is_established = super::status::is_true(old, super::status::ESTABLISHED);
    let fields = [
        ("/spec/scope", "spec.scope", is_established),
        ("/spec/names/kind", "spec.names.kind", is_established),
        ("/spec/group", "spec.group", true),
        ("/spec/names/plural", "spec.names.plural", true),
    ];
    for (pointer, field, is_fixed) in fields {
        let now = definition.pointer(pointer).cloned().unwrap_or_default();
        if is_fixed && Some(&now) != old.pointer(pointer) {
            causes.push(Cause::invalid(field, &now, "field is immutable"));
        }
    }
    let stored = old.pointer("/status/storedVersions").and_then(Value::as_array);
    let spec = definition.get("spec").cloned().unwrap_or_default();
    for (at, version) in stored.into_iter().flatten().enumerate() {
        let name = version.as_str().unwrap_or_default();
        if !versions(&spec).iter().any(|v| text(v, "name") == name) {
            let why = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a \
                 storage migration ensures no data remains persisted in {name} and removes {name} from \
                 status.storedVersions"
            );
            causes.push(Cause::invalid(
                format!("status.storedVersions[{at}]"),
                version,
                why,
            ));
        }
    }
}
