//! Checks of values against the conditions of a schema, worded as the API server words them (source: kube-openapi's
//! validators; which failures of alternatives are told follows its count of what did match).

use super::change::Pair;
use super::schema::{Additional, Schema};
use crate::status_error::Cause;
use serde_json::Value;
use std::fmt::Display;

/// Failures told at most.
const MAX_FAULTS: usize = 64;

/// What checking one value came to.
#[derive(Debug, Default)]
struct Outcome {
    faults: Vec<Cause>,
    /// How much did match: of several alternatives that failed, the closest is told.
    matches: usize,
}

impl Outcome {
    fn of(cause: Cause) -> Outcome {
        Outcome {
            faults: vec![cause],
            matches: 0,
        }
    }

    fn is_valid(&self) -> bool {
        self.faults.is_empty()
    }

    fn add(&mut self, cause: Cause) {
        if self.faults.len() < MAX_FAULTS && !self.faults.contains(&cause) {
            self.faults.push(cause);
        }
    }

    fn merge(&mut self, other: Outcome) {
        self.matches += other.matches;
        other.faults.into_iter().for_each(|cause| self.add(cause));
    }

    fn step(&mut self, other: Outcome) {
        self.merge(other);
        self.matches += 1;
    }
}

/// All breaches in a value at `path`. `before` is what stood there: what did not change since then is not held against
/// the writer.
pub(super) fn check(schema: &Schema, value: &Value, before: Option<&Value>, path: &str) -> Vec<Cause> {
    // Paths begin with a dot inside, as they do in the messages.
    let at = if path.is_empty() {
        String::new()
    } else {
        path.to_owned()
    };
    ratcheted(schema, value, before, &at).faults
}

fn ratcheted(schema: &Schema, value: &Value, before: Option<&Value>, path: &str) -> Outcome {
    let mut out = one(schema, value, before, path);
    let is_same = |before| {
        let pair = Pair {
            schema,
            now: value,
            before,
        };
        pair.is_same()
    };
    if !out.is_valid() && before.is_some_and(is_same) {
        out.faults.clear();
    }
    out
}

/// The type of a value as JSON schema names it.
fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A field at the place that the validator names, for the answer.
fn field(path: &str) -> String {
    path.strip_prefix('.').unwrap_or(path).to_owned()
}

fn invalid(path: &str, value: &Value, why: impl Display) -> Cause {
    Cause {
        reason: "FieldValueInvalid",
        message: format!("Invalid value: {}: {}{why}", shown(value), named(path)),
        field: field_or_none(path),
    }
}

/// The beginning of a message: where it is, in the words of the validator.
fn named(path: &str) -> String {
    format!("{path} in body ")
}

/// A value as Go prints it in a message.
fn shown(value: &Value) -> String {
    match value {
        Value::Number(n) if n.is_f64() => go_float(n.as_f64().unwrap_or_default()),
        other => other.to_string(),
    }
}

/// A float as Go's `%v` prints it.
fn go_float(n: f64) -> String {
    let size = n.abs();
    if n == 0.0 || (1e-4..1e21).contains(&size) {
        return format!("{n}");
    }
    let text = format!("{n:e}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, digits_of) = match exponent.strip_prefix('-') {
                Some(rest) => ('-', rest),
                None => ('+', exponent),
            };
            format!("{digits}e{sign}{digits_of:0>2}")
        }
        None => text,
    }
}

fn wrong_type(path: &str, expected: &str, found: &str) -> Outcome {
    Outcome::of(Cause {
        reason: "FieldValueTypeInvalid",
        message: format!(
            "Invalid value: {found:?}: {}must be of type {expected}: {found:?}",
            named(path)
        ),
        field: field_or_none(path),
    })
}

/// The field of a cause; a whole object has none, which upstream writes so.
fn field_or_none(path: &str) -> String {
    match field(path) {
        empty if empty.is_empty() => "<nil>".to_owned(),
        other => other,
    }
}

fn one(schema: &Schema, value: &Value, before: Option<&Value>, path: &str) -> Outcome {
    let mut out = Outcome::default();
    if value.is_null() {
        out.merge(type_of(schema, value, path));
        out.merge(allowed(schema, value, path));
        return out;
    }
    if schema.of_type.is_some() || schema.is_int_or_string || schema.checks.format.is_some() {
        out.step(type_of(schema, value, path));
    }
    out.step(junctors(schema, value, before, path));
    match value {
        Value::String(text) => {
            out.step(text_checks(schema, text, path));
            if let Some(format) = schema.checks.format {
                out.step(if format.holds(text) {
                    Outcome::default()
                } else {
                    Outcome::of(Cause {
                        reason: "FieldValueTypeInvalid",
                        message: format!(
                            "Invalid value: {text:?}: {}must be of type {}: {text:?}",
                            named(path),
                            format.name
                        ),
                        field: field_or_none(path),
                    })
                });
            }
        }
        Value::Number(_) => out.step(number_checks(schema, value, path)),
        Value::Array(items) => out.step(list_checks(schema, items, before, path)),
        _ => {}
    }
    out.step(allowed(schema, value, path));
    if let Value::Object(_) = value {
        out.step(object_checks(schema, value, before, path));
    }
    out.matches += 1;
    out
}

fn type_of(schema: &Schema, value: &Value, path: &str) -> Outcome {
    let fits = Outcome {
        faults: Vec::new(),
        matches: 1,
    };
    let found = json_type(value);
    let has_type = schema.of_type.is_some() || schema.is_int_or_string;
    if value.is_null() {
        return if has_type && !schema.is_nullable {
            wrong_type(path, &schema.type_names(), "null")
        } else {
            fits
        };
    }
    let is_whole = value
        .as_f64()
        .is_some_and(|n| found == "number" && n.fract() == 0.0);
    let is_number =
        has_type && ((is_whole && schema.takes("integer")) || (found == "integer" && schema.takes("number")));
    let is_of_type = is_number || (has_type && schema.takes(found));
    let has_numbers =
        schema.is_int_or_string || matches!(schema.of_type.as_deref(), Some("integer" | "number"));
    let is_text_or_list = matches!(found, "string" | "array");
    match schema.checks.format {
        // A format says the type where no other does; upstream looks at it first.
        Some(format) if !is_text_or_list && !is_of_type => {
            let found = match found {
                "integer" => "int64",
                "number" => "float64",
                _ => "",
            };
            if found == format.name {
                fits
            } else {
                wrong_type(path, format.name, found)
            }
        }
        Some(_) if is_text_or_list && !has_numbers => fits,
        _ if has_type && !is_of_type => wrong_type(path, &schema.type_names(), found),
        _ => fits,
    }
}

fn allowed(schema: &Schema, value: &Value, path: &str) -> Outcome {
    let all = &schema.checks.allowed;
    let is_same = |a: &Value| match (a.as_f64(), value.as_f64()) {
        (Some(a), Some(b)) => a == b,
        _ => a == value && !a.is_null(),
    };
    if all.is_empty() || all.iter().any(is_same) {
        return Outcome::default();
    }
    let texts: Vec<String> = all
        .iter()
        .map(|a| a.as_str().map_or_else(|| a.to_string(), str::to_owned))
        .collect();
    let known: Vec<&str> = texts.iter().map(String::as_str).collect();
    Outcome::of(Cause::not_supported(field_or_none(path), value, &known))
}

fn text_checks(schema: &Schema, text: &str, path: &str) -> Outcome {
    let checks = &schema.checks;
    let length = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
    let value = Value::from(text);
    if let Some(most) = checks.max_length.filter(|most| length > *most) {
        return Outcome::of(Cause {
            reason: "FieldValueTooLong",
            message: format!(
                "Too long: may not be more than {most} {}",
                if most == 1 { "byte" } else { "bytes" }
            ),
            field: field_or_none(path),
        });
    }
    if let Some(least) = checks.min_length.filter(|least| length < *least) {
        return Outcome::of(invalid(
            path,
            &value,
            format_args!("should be at least {least} chars long"),
        ));
    }
    match &checks.pattern {
        None => Outcome::default(),
        Some(pattern) => match pattern.is_in(text) {
            Ok(true) => Outcome::default(),
            Ok(false) => Outcome::of(invalid(
                path,
                &value,
                format_args!("should match '{}'", pattern.text),
            )),
            Err(why) => {
                let why = format!("should match '{}, but pattern is invalid: {why}'", pattern.text);
                Outcome::of(invalid(path, &value, why))
            }
        },
    }
}

fn number_checks(schema: &Schema, value: &Value, path: &str) -> Outcome {
    let checks = &schema.checks;
    let mut out = Outcome::default();
    let number = value.as_f64().unwrap_or_default();
    // Bounds are cut to whole numbers for whole numbers.
    let is_whole = !value.as_number().is_some_and(serde_json::Number::is_f64);
    let bound = |n: f64| if is_whole { n.trunc() } else { n };
    if schema.of_type.as_deref() == Some("integer") && !schema.is_int_or_string {
        let format = checks.format.map(|f| f.name);
        let fits = match (format, value.as_i64()) {
            (Some("int32"), Some(n)) => i32::try_from(n).is_ok(),
            (_, Some(_)) => true,
            (_, None) => number.fract() == 0.0 && number.abs() < 9.2e18,
        };
        if !fits {
            let format = match format {
                Some(name) => format!("with format {name}"),
                None => "(default format)".to_owned(),
            };
            out.add(whole(format!(
                "Checked value must be of type integer {format} in {path}"
            )));
        }
    }
    if let Some(factor) = checks.multiple_of.map(bound) {
        if factor <= 0.0 {
            // A factor below 1 is none for whole numbers.
            let why = format!(
                "factor MultipleOf declared for {path} must be positive: {}",
                go_float(factor)
            );
            out.add(Cause {
                reason: "FieldValueInvalid",
                message: format!("Invalid value: {}: {why}", go_float(factor)),
                field: field_or_none(path),
            });
        } else if !is_multiple(number, factor, is_whole) {
            out.add(invalid(
                path,
                value,
                format_args!("should be a multiple of {}", go_float(factor)),
            ));
        }
    }
    if let Some(least) = checks.minimum.map(bound) {
        let (breaks, word) = if checks.exclusive_minimum {
            (number <= least, "greater than")
        } else {
            (number < least, "greater than or equal to")
        };
        if breaks {
            out.add(invalid(
                path,
                value,
                format_args!("should be {word} {}", go_float(least)),
            ));
        }
    }
    if let Some(most) = checks.maximum.map(bound) {
        let (breaks, word) = if checks.exclusive_maximum {
            (number >= most, "less than")
        } else {
            (number > most, "less than or equal to")
        };
        if breaks {
            out.add(invalid(
                path,
                value,
                format_args!("should be {word} {}", go_float(most)),
            ));
        }
    }
    out.matches += 1;
    out
}

fn is_multiple(number: f64, factor: f64, is_whole: bool) -> bool {
    if is_whole {
        return number % factor == 0.0;
    }
    let times = if factor < 1.0 {
        number * (1.0 / factor)
    } else {
        number / factor
    };
    (times - times.round()).abs() < 1e-9
}

fn too_many(path: &str, found: u64, most: u64) -> Cause {
    let items = if most == 1 { "item" } else { "items" };
    Cause {
        reason: "FieldValueTooMany",
        message: format!("Too many: {found}: must have at most {most} {items}"),
        field: field_or_none(path),
    }
}

fn list_checks(schema: &Schema, items: &[Value], before: Option<&Value>, path: &str) -> Outcome {
    let mut out = Outcome::default();
    if let Some(of) = &schema.items {
        for (at, item) in items.iter().enumerate() {
            let old = schema.item_before(item, before);
            out.merge(ratcheted(of, item, old, &format!("{path}[{at}]")));
        }
    }
    let size = items.len() as u64;
    if let Some(least) = schema.checks.min_items.filter(|least| size < *least) {
        let value = Value::from(size);
        out.add(invalid(
            path,
            &value,
            format_args!("should have at least {least} items"),
        ));
    }
    if let Some(most) = schema.checks.max_items.filter(|most| size > *most) {
        out.add(too_many(path, size, most));
    }
    out.matches += 1;
    out
}

fn object_checks(schema: &Schema, value: &Value, before: Option<&Value>, path: &str) -> Outcome {
    let mut out = Outcome::default();
    let Some(members) = value.as_object() else {
        return out;
    };
    let size = members.len() as u64;
    if let Some(least) = schema.checks.min_properties.filter(|least| size < *least) {
        let value = Value::from(size);
        out.add(invalid(
            path,
            &value,
            format_args!("should have at least {least} properties"),
        ));
    }
    if let Some(most) = schema.checks.max_properties.filter(|most| size > *most) {
        out.add(too_many(path, size, most));
    }
    for (name, inner) in members {
        let is_head = path.is_empty() && matches!(name.as_str(), "apiVersion" | "kind");
        let old = before.and_then(|before| before.get(name)).filter(|_| !is_head);
        match (schema.properties.get(name.as_str()), &schema.additional) {
            (Some(of), _) => {
                // A member of the root is named without a dot in front.
                let at = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                out.merge(ratcheted(of, inner, old, &at));
            }
            (None, Additional::Of(of)) => {
                out.merge(ratcheted(of, inner, old, &format!("{path}.{name}")));
            }
            (None, Additional::Refused) => {
                let text = format!("{path}.{name} in body is a forbidden property");
                out.add(Cause {
                    reason: "FieldValueInvalid",
                    message: format!("Invalid value: {name:?}: {text}"),
                    field: field_or_none(path),
                });
            }
            (None, Additional::Any | Additional::Unsaid) => {}
        }
    }
    for name in &schema.checks.required {
        if !members.contains_key(&**name) {
            out.add(Cause::required(field(&format!("{path}.{name}")), ""));
        }
    }
    out
}

/// A failure of alternatives is told of no field.
fn whole(why: String) -> Cause {
    Cause {
        reason: "FieldValueInvalid",
        message: format!("Invalid value: \"\": {why}"),
        field: "<nil>".to_owned(),
    }
}

fn junctors(schema: &Schema, value: &Value, before: Option<&Value>, path: &str) -> Outcome {
    let junctors = &schema.junctors;
    let mut out = Outcome::default();
    if !junctors.any_of.is_empty() {
        let mut closest: Option<Outcome> = None;
        let mut is_met = false;
        for of in &junctors.any_of {
            let found = one(of, value, before, path);
            if found.is_valid() {
                is_met = true;
                out.matches += found.matches;
                break;
            }
            if closest.as_ref().is_none_or(|best| found.matches > best.matches) {
                closest = Some(found);
            }
        }
        if !is_met {
            out.add(whole(format!(
                "{path:?} must validate at least one schema (anyOf)"
            )));
            out.merge(closest.unwrap_or_default());
        }
    }
    if !junctors.one_of.is_empty() {
        let mut closest: Option<Outcome> = None;
        let (mut met, mut first) = (0, 0);
        for of in &junctors.one_of {
            let found = one(of, value, before, path);
            if found.is_valid() {
                met += 1;
                closest = None;
                if met == 1 {
                    first = found.matches;
                }
            } else if met == 0 && closest.as_ref().is_none_or(|best| found.matches > best.matches) {
                closest = Some(found);
            }
        }
        if met == 1 {
            out.matches += first;
        } else {
            let found = match met {
                0 => "Found none valid".to_owned(),
                many => format!("Found {many} valid alternatives"),
            };
            out.add(whole(format!(
                "{path:?} must validate one and only one schema (oneOf). {found}"
            )));
            out.merge(closest.unwrap_or_default());
        }
    }
    if !junctors.all_of.is_empty() {
        let mut met = 0;
        for of in &junctors.all_of {
            let found = one(of, value, before, path);
            met += usize::from(found.is_valid());
            out.merge(found);
        }
        if met != junctors.all_of.len() {
            let none = if met == 0 { ". None validated" } else { "" };
            out.add(whole(format!(
                "{path:?} must validate all the schemas (allOf){none}"
            )));
        }
    }
    if let Some(not) = &junctors.not
        && one(not, value, before, path).is_valid()
    {
        out.add(whole(format!("{path:?} must not validate the schema (not)")));
    }
    out.matches += 1;
    out
}

#[cfg(test)]
mod tests;
