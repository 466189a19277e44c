//! Why a rule could not answer.

use shared::reason::Reason;
use thiserror::Error;

use crate::lua::ScriptError;
use crate::{Kind, Operation};

/// Why a rule could not answer. The caller knows which object it asked about and names it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InterpretError {
    /// The object has no `apiVersion` or no `kind`.
    #[error("the object has no apiVersion or no kind: give both")]
    NoKind,
    /// No rule of this kind for this operation.
    #[error("there is no {operation:?} rule for {api_version} {kind}")]
    NoRule {
        /// Group and version asked for.
        api_version: String,
        /// Kind asked for.
        kind: String,
        /// Operation asked for.
        operation: Operation,
    },
    /// A field has the wrong type.
    #[error("{path} must be {expected}")]
    WrongType {
        /// Dotted path of the field.
        path: String,
        /// What it must be.
        expected: &'static str,
    },
    /// A field that the rule needs is missing.
    #[error("{path} is missing, it is needed to {purpose}")]
    Missing {
        /// Dotted path of the field.
        path: String,
        /// What it is needed for.
        purpose: &'static str,
    },
    /// The script of a customization gave no answer.
    #[error("ResourceInterpreterCustomization {customization}, {operation:?}: {cause}")]
    Script {
        /// Name of the customization.
        customization: String,
        /// What it was asked.
        operation: Operation,
        /// What it did instead.
        cause: ScriptError,
    },
}

impl InterpretError {
    /// The stable code of it: a script's fault, or `other`.
    #[must_use]
    pub fn reason_or(&self, other: Reason) -> Reason {
        match self {
            Self::Script { .. } => Reason::ScriptFailed,
            _ => other,
        }
    }

    /// There is no rule of this kind for this operation.
    pub(crate) fn no_rule(kind: &Kind<'_>, operation: Operation) -> Self {
        Self::NoRule {
            api_version: kind.api_version.to_owned(),
            kind: kind.kind.to_owned(),
            operation,
        }
    }
}
