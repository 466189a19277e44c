//! Rules of ResourceInterpreterCustomization: scripts compile, and one object per kind and operation.

use interpreter::{Operation, SLOTS, lua};
use serde_json::Value;

use super::super::admit::{Errors, Stored};

fn script<'a>(object: &'a Value, slot: &str) -> Option<&'a str> {
    object["spec"]["customizations"][slot]["luaScript"]
        .as_str()
        .filter(|script| !script.trim().is_empty())
}

pub(super) fn check(object: &Value, stored: &dyn Stored, errors: &mut Errors) {
    for (slot, ..) in SLOTS {
        if let Some(Err(error)) = script(object, slot).map(lua::check) {
            errors.invalid(format!("spec.customizations.{slot}.luaScript"), error.to_string());
        }
    }
    let target = &object["spec"]["target"];
    for other in stored.list("ResourceInterpreterCustomization", "") {
        if other["metadata"]["name"] == object["metadata"]["name"] || other["spec"]["target"] != *target {
            continue;
        }
        for (slot, operation, _) in SLOTS {
            // Those of dependencies may stand in several objects, since their answers are united.
            let alone = operation != Operation::InterpretDependency;
            if alone && script(object, slot).is_some() && script(&other, slot).is_some() {
                errors.invalid(
                    format!("spec.customizations.{slot}"),
                    format!(
                        "{} already customizes it for this kind; change that one",
                        other["metadata"]["name"].as_str().unwrap_or_default()
                    ),
                );
            }
        }
    }
}
