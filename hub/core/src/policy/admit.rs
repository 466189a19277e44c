//! Admission of the policy kinds: defaults, then the rules of the reference, then what is not honoured yet.

use std::fmt;

use serde_json::Value;

use super::{POLICY_GROUP, check, defaults, unsupported};

/// What the client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A new object.
    Create,
    /// A change of a stored one.
    Update,
    /// A deletion.
    Delete,
}

/// Kind of a field error, as `metav1.StatusCause` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldErrorType {
    /// `FieldValueInvalid`.
    Invalid,
    /// `FieldValueRequired`.
    Required,
    /// `FieldValueNotSupported`.
    NotSupported,
    /// `FieldValueForbidden`.
    Forbidden,
    /// `FieldValueDuplicate`.
    Duplicate,
}

impl FieldErrorType {
    /// The `reason` of the cause in a Status.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::Required => "FieldValueRequired",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::Duplicate => "FieldValueDuplicate",
        }
    }
}

/// One thing wrong with an object. The API answers 422 with one cause for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Path of the field, as in `spec.resourceSelectors[0].name`.
    pub field: String,
    /// What kind of error.
    pub kind: FieldErrorType,
    /// What is wrong and what to write instead.
    pub detail: String,
    /// The field is part of the API, but this version does not honour it.
    pub not_yet: bool,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.kind {
            FieldErrorType::Invalid => "Invalid value",
            FieldErrorType::Required => "Required value",
            FieldErrorType::NotSupported => "Unsupported value",
            FieldErrorType::Forbidden => "Forbidden",
            FieldErrorType::Duplicate => "Duplicate value",
        };
        write!(f, "{}: {word}: {}", self.field, self.detail)
    }
}

/// Collects field errors.
#[derive(Debug, Default)]
pub(super) struct Errors(pub(super) Vec<FieldError>);

impl Errors {
    pub(super) fn add(&mut self, kind: FieldErrorType, field: impl Into<String>, detail: impl Into<String>) {
        self.0.push(FieldError {
            field: field.into(),
            kind,
            detail: detail.into(),
            not_yet: false,
        });
    }

    pub(super) fn invalid(&mut self, field: impl Into<String>, detail: impl Into<String>) {
        self.add(FieldErrorType::Invalid, field, detail);
    }

    pub(super) fn not_yet(&mut self, field: impl Into<String>, detail: impl Into<String>) {
        self.0.push(FieldError {
            field: field.into(),
            kind: FieldErrorType::Forbidden,
            detail: detail.into(),
            not_yet: true,
        });
    }
}

/// An admitted object.
#[derive(Clone, Debug, PartialEq)]
pub struct Admitted {
    /// The object with its defaults.
    pub object: Value,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
}

/// Does [`admit`] know the rules of this kind?
pub fn admits(group: &str, kind: &str) -> bool {
    group == POLICY_GROUP && Kind::parse(kind).is_some()
}

/// The kinds admitted here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Propagation,
    ClusterPropagation,
    Override,
    ClusterOverride,
}

impl Kind {
    pub(super) fn parse(kind: &str) -> Option<Self> {
        Some(match kind {
            "PropagationPolicy" => Self::Propagation,
            "ClusterPropagationPolicy" => Self::ClusterPropagation,
            "OverridePolicy" => Self::Override,
            "ClusterOverridePolicy" => Self::ClusterOverride,
            _ => return None,
        })
    }

    pub(super) fn is_propagation(self) -> bool {
        matches!(self, Self::Propagation | Self::ClusterPropagation)
    }

    pub(super) fn is_namespaced(self) -> bool {
        matches!(self, Self::Propagation | Self::Override)
    }
}

/// Fills in defaults and checks an object of a policy kind. `new_id` makes a fresh UUID (the core has no randomness).
///
/// The shape of the object (known fields, types, enums, required members) is the type table's business and was checked
/// before. Kinds that [`admits`] does not name, and deletions, pass unchanged.
///
/// # Errors
/// Every field that is wrong, and every field this version does not honour.
pub fn admit(
    kind: &str,
    operation: Operation,
    namespace: &str,
    mut object: Value,
    old: Option<&Value>,
    new_id: &mut dyn FnMut() -> String,
) -> Result<Admitted, Vec<FieldError>> {
    let Some(kind) = Kind::parse(kind) else {
        return Ok(Admitted {
            object,
            warnings: Vec::new(),
        });
    };
    if operation == Operation::Delete {
        return Ok(Admitted {
            object,
            warnings: Vec::new(),
        });
    }
    defaults::schema(kind, &mut object);
    defaults::webhook(kind, operation, namespace, &mut object, old, new_id);
    let mut warnings = Vec::new();
    let errors = errors_of(kind, operation, namespace, &object, old, &mut warnings);
    if errors.is_empty() {
        Ok(Admitted { object, warnings })
    } else {
        Err(errors)
    }
}

fn errors_of(
    kind: Kind,
    operation: Operation,
    namespace: &str,
    object: &Value,
    old: Option<&Value>,
    warnings: &mut Vec<String>,
) -> Vec<FieldError> {
    let mut errors = Errors::default();
    check::object(kind, operation, namespace, object, old, &mut errors);
    unsupported::object(kind, object, &mut errors, warnings);
    errors.0
}

/// The checks alone, on an object that already has its defaults; [`admit`] does them after filling in defaults.
pub fn validate(
    kind: &str,
    operation: Operation,
    namespace: &str,
    object: &Value,
    old: Option<&Value>,
) -> Vec<FieldError> {
    match Kind::parse(kind) {
        Some(kind) if operation != Operation::Delete => {
            errors_of(kind, operation, namespace, object, old, &mut Vec::new())
        }
        _ => Vec::new(),
    }
}

/// The second half of the defaults: what the reference's admission changes, beyond the schema's own defaults.
///
/// [`admit`] does this too; it is apart because the reference's cases pin this half alone.
pub fn mutate(
    kind: &str,
    operation: Operation,
    namespace: &str,
    object: &mut Value,
    old: Option<&Value>,
    new_id: &mut dyn FnMut() -> String,
) -> bool {
    let Some(kind) = Kind::parse(kind) else {
        return false;
    };
    defaults::webhook(kind, operation, namespace, object, old, new_id);
    true
}
