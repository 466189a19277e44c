//! `validation/*`: stage 2 for the reference's kinds, `hub_core::policy` and `hub_core::admission`.

use hub_core::policy::{self, FieldError, FieldErrorType, Operation, Refused, Request, Stored, Switches};
use serde_json::{Value, json};

use super::super::{Answer, Case};

pub(super) fn answer(case: &Case) -> Answer {
    let input = &case.input;
    let kind = input["kind"].as_str().unwrap_or_default();
    match (case.op.as_str(), kind) {
        ("validateTaints", _) => fields(&policy::check_taints(input), &case.expect),
        ("validate", "DeletionProtection") => protection(input),
        ("validate", _) => validate(input, &case.expect),
        ("mutate", _) => mutate(input),
        _ => Answer::Unsupported,
    }
}

/// The objects that a case says are stored already.
pub(in crate::conformance) struct Existing<'a>(pub(in crate::conformance) &'a Value);

impl Stored for Existing<'_> {
    fn list(&self, kind: &str, namespace: &str) -> Vec<Value> {
        let all = self.0.as_array().into_iter().flatten();
        all.filter(|object| {
            object["kind"] == kind
                && object["metadata"]["namespace"].as_str().unwrap_or_default() == namespace
        })
        .cloned()
        .collect()
    }
}

fn switches(input: &Value) -> Switches {
    let gate = |name: &str| input["featureGates"][name] == true;
    Switches {
        no_execute_taint_policies: input["flags"]["allowNoExecuteTaintPolicy"] == true,
        quotas: gate("FederatedQuotaEnforcement"),
        components: gate("MultiplePodTemplatesScheduling"),
    }
}

fn with_request<T>(input: &Value, act: impl FnOnce(&Request<'_>) -> T) -> T {
    let existing = Existing(&input["existing"]);
    act(&Request {
        kind: input["kind"].as_str().unwrap_or_default(),
        operation: operation(input),
        namespace: input["namespace"].as_str().unwrap_or_default(),
        old: old(input),
        switches: switches(input),
        stored: &existing,
        now: 0,
    })
}

/// Does the hub admit this kind at all?
fn is_known(input: &Value) -> bool {
    let api_version = input["object"]["apiVersion"].as_str().unwrap_or_default();
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    policy::admits(group, input["kind"].as_str().unwrap_or_default())
}

fn protection(input: &Value) -> Answer {
    let refused = operation(input) == Operation::Delete
        && old(input).is_some_and(hub_core::admission::is_protected_from_deletion);
    let about = if refused {
        json!({"allowed": false, "errors": [], "about": ["metadata.labels"]})
    } else {
        json!({"allowed": true, "errors": []})
    };
    Answer::Result(about)
}

fn operation(input: &Value) -> Operation {
    match input["operation"].as_str() {
        Some("UPDATE") => Operation::Update,
        Some("DELETE") => Operation::Delete,
        _ => Operation::Create,
    }
}

fn old(input: &Value) -> Option<&Value> {
    Some(&input["oldObject"]).filter(|object| !object.is_null())
}

fn word(kind: FieldErrorType) -> &'static str {
    match kind {
        FieldErrorType::Invalid => "Invalid",
        FieldErrorType::Required => "Required",
        FieldErrorType::NotSupported => "NotSupported",
        FieldErrorType::Forbidden => "Forbidden",
        FieldErrorType::Duplicate => "Duplicate",
    }
}

fn validate(input: &Value, expect: &Value) -> Answer {
    if !is_known(input) {
        return Answer::Unsupported;
    }
    match with_request(input, |request| policy::validate(request, &input["object"])) {
        Ok(()) => fields(&[], expect),
        Err(Refused::Fields(errors)) if errors.iter().any(|error| error.not_yet) => Answer::Unsupported,
        Err(Refused::Fields(errors)) => fields(&errors, expect),
        Err(Refused::Quota(_)) => Answer::Result(json!({"allowed": false, "errors": [], "about": ["quota"]})),
    }
}

fn fields(errors: &[FieldError], expect: &Value) -> Answer {
    let mut seen = Vec::new();
    for error in errors {
        let item = json!({"field": error.field, "type": word(error.kind)});
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    let mut result = json!({"allowed": errors.is_empty(), "errors": seen});
    // Where the reference names no field, the case says what the text is about; ours names the field.
    if let Some(about) = expect["result"]["about"]
        .as_array()
        .or_else(|| expect["about"].as_array())
    {
        let named = |subject: &Value| {
            let subject = subject.as_str().unwrap_or_default();
            errors.iter().any(|error| {
                error.field.starts_with(subject)
                    || subject
                        .strip_prefix(error.field.as_str())
                        .is_some_and(|rest| rest.starts_with('.'))
            })
        };
        let about: Vec<&Value> = about.iter().filter(|subject| named(subject)).collect();
        result["errors"] = json!([]);
        result["about"] = json!(about);
    }
    Answer::Result(result)
}

fn mutate(input: &Value) -> Answer {
    if !is_known(input) {
        return Answer::Unsupported;
    }
    let mut object = input["object"].clone();
    with_request(input, |request| {
        policy::mutate(request, &mut object, &mut || "made-by-the-test".to_owned())
    });
    Answer::Result(json!({"allowed": true, "object": object}))
}
