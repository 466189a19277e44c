//! ResourceInterpreterCustomization: which scripts a user gave for which kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use thiserror::Error;

use crate::Operation;
use crate::fields::text;

/// Group of ResourceInterpreterCustomization.
pub const CUSTOMIZATION_GROUP: &str = "config.karmada.io";
/// Kind of a customization.
pub const CUSTOMIZATION_KIND: &str = "ResourceInterpreterCustomization";

/// The members of `spec.customizations`, what they are for, and the function a script there must define.
pub const SLOTS: [(&str, Operation, &str); 8] = [
    ("retention", Operation::Retain, "Retain"),
    ("replicaResource", Operation::InterpretReplica, "GetReplicas"),
    (
        "componentResource",
        Operation::InterpretComponent,
        "GetComponents",
    ),
    ("replicaRevision", Operation::ReviseReplica, "ReviseReplica"),
    ("statusReflection", Operation::InterpretStatus, "ReflectStatus"),
    ("statusAggregation", Operation::AggregateStatus, "AggregateStatus"),
    (
        "healthInterpretation",
        Operation::InterpretHealth,
        "InterpretHealth",
    ),
    (
        "dependencyInterpretation",
        Operation::InterpretDependency,
        "GetDependencies",
    ),
];

/// The scripts of one customization.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Customization {
    /// Its name; it decides which of several for one kind comes first.
    pub name: String,
    /// Group and version of the kind that it is for.
    pub api_version: String,
    /// Kind that it is for.
    pub kind: String,
    /// Scripts that are not empty, by operation.
    pub scripts: BTreeMap<Operation, Arc<str>>,
}

/// An object that is no customization.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{field} of the ResourceInterpreterCustomization is missing or has the wrong type")]
pub struct NoCustomization {
    /// Dotted path.
    pub field: String,
}

impl Customization {
    /// Reads a stored object.
    ///
    /// # Errors
    /// It names no kind, or a field has the wrong type.
    pub fn read(object: &Value) -> Result<Self, NoCustomization> {
        let given = |path: &str| match text(object, path) {
            Ok(value) if !value.is_empty() => Ok(value.to_owned()),
            _ => Err(NoCustomization {
                field: path.to_owned(),
            }),
        };
        let mut scripts = BTreeMap::new();
        for (slot, operation, _) in SLOTS {
            let path = format!("spec.customizations.{slot}.luaScript");
            let script = text(object, &path).map_err(|_| NoCustomization { field: path.clone() })?;
            if !script.trim().is_empty() {
                scripts.insert(operation, Arc::from(script));
            }
        }
        Ok(Self {
            name: given("metadata.name")?,
            api_version: given("spec.target.apiVersion")?,
            kind: given("spec.target.kind")?,
            scripts,
        })
    }

    /// Is this object key one of a customization?
    #[must_use]
    pub fn is_one(group: &str, kind: &str) -> bool {
        group == CUSTOMIZATION_GROUP && kind == CUSTOMIZATION_KIND
    }
}

/// The function that a script for the operation must define.
pub(crate) fn function_of(operation: Operation) -> &'static str {
    SLOTS
        .iter()
        .find(|(_, of, _)| *of == operation)
        .map_or("", |(_, _, function)| function)
}
