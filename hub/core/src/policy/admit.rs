//! Admission of the reference's kinds: defaults, then the rules of the reference, then what is not honoured yet.

use std::fmt;

use serde_json::Value;

use super::{check, defaults, unsupported};

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

    pub(super) fn required(&mut self, field: impl Into<String>, detail: impl Into<String>) {
        self.add(FieldErrorType::Required, field, detail);
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

/// Why an object is not admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// 422: what is wrong with it, field by field.
    Fields(Vec<FieldError>),
    /// 403 with the reason `QuotaExceeded`: which quota, what it allows and what would be used.
    Quota(String),
}

/// What an operator switches on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switches {
    /// `--allow-no-execute-taint-policy`: a ClusterTaintPolicy may set NoExecute taints, which evict.
    pub no_execute_taint_policies: bool,
    /// `--federated-quota-enforcement`: a FederatedResourceQuota holds scheduling back.
    pub quotas: bool,
    /// Workloads of several components are scheduled as whole sets, so their components need names of their own.
    pub components: bool,
}

impl Default for Switches {
    fn default() -> Self {
        Self {
            no_execute_taint_policies: false,
            quotas: true,
            components: true,
        }
    }
}

/// Objects that are stored already, for rules that look beyond the object itself.
pub trait Stored {
    /// All objects of a kind of the reference, of one namespace; cluster-scoped ones for an empty namespace.
    fn list(&self, kind: &str, namespace: &str) -> Vec<Value>;
}

/// One write, as admission sees it.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Kind of the object.
    pub kind: &'a str,
    /// What is asked for.
    pub operation: Operation,
    /// Namespace of the path; empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// The stored object that is changed.
    pub old: Option<&'a Value>,
    /// What the operator allows.
    pub switches: Switches,
    /// Everything else that is stored.
    pub stored: &'a dyn Stored,
    /// Seconds since 1970.
    pub now: i64,
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("kind", &self.kind)
            .field("operation", &self.operation)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

/// Does [`admit`] know the rules of this kind?
pub fn admits(group: &str, kind: &str) -> bool {
    Kind::parse(kind).is_some_and(|kind| kind.group() == group)
}

/// The kinds admitted here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Propagation,
    ClusterPropagation,
    Override,
    ClusterOverride,
    Quota,
    TaintPolicy,
    Cluster,
    Binding,
    ClusterBinding,
    Customization,
    Webhooks,
    Service,
    Ingress,
    Rebalancer,
}

impl Kind {
    pub(super) fn parse(kind: &str) -> Option<Self> {
        Some(match kind {
            "PropagationPolicy" => Self::Propagation,
            "ClusterPropagationPolicy" => Self::ClusterPropagation,
            "OverridePolicy" => Self::Override,
            "ClusterOverridePolicy" => Self::ClusterOverride,
            "FederatedResourceQuota" => Self::Quota,
            "ClusterTaintPolicy" => Self::TaintPolicy,
            "Cluster" => Self::Cluster,
            "ResourceBinding" => Self::Binding,
            "ClusterResourceBinding" => Self::ClusterBinding,
            "ResourceInterpreterCustomization" => Self::Customization,
            "ResourceInterpreterWebhookConfiguration" => Self::Webhooks,
            "MultiClusterService" => Self::Service,
            "MultiClusterIngress" => Self::Ingress,
            "WorkloadRebalancer" => Self::Rebalancer,
            _ => return None,
        })
    }

    fn group(self) -> &'static str {
        match self {
            Self::Cluster => "cluster.karmada.io",
            Self::Binding | Self::ClusterBinding => "work.karmada.io",
            Self::Customization | Self::Webhooks => "config.karmada.io",
            Self::Service | Self::Ingress => "networking.karmada.io",
            Self::Rebalancer => "apps.karmada.io",
            _ => super::POLICY_GROUP,
        }
    }

    pub(super) fn is_propagation(self) -> bool {
        matches!(self, Self::Propagation | Self::ClusterPropagation)
    }

    /// Does it select objects of its own namespace only?
    pub(super) fn selects_in_its_namespace(self) -> bool {
        matches!(self, Self::Propagation | Self::Override)
    }
}

/// Fills in defaults and checks an object. `new_id` makes a fresh UUID (the core has no randomness).
///
/// The shape of the object (known fields, types, enums, required members) is the type table's business and was checked
/// before. Kinds that [`admits`] does not name, and deletions, pass unchanged.
///
/// # Errors
/// Every field that is wrong, and every field this version does not honour; or a quota that would be exceeded.
pub fn admit(
    request: &Request<'_>,
    mut object: Value,
    new_id: &mut dyn FnMut() -> String,
) -> Result<Admitted, Refused> {
    let mut warnings = Vec::new();
    let Some(kind) = Kind::parse(request.kind).filter(|_| request.operation != Operation::Delete) else {
        return Ok(Admitted { object, warnings });
    };
    defaults::schema(kind, &mut object);
    mutate(request, &mut object, new_id);
    validate(request, &object)?;
    unsupported::warn(kind, request, &object, &mut warnings);
    Ok(Admitted { object, warnings })
}

/// The checks alone, on an object that already has its defaults; [`admit`] does them after filling in defaults.
///
/// # Errors
/// As [`admit`].
pub fn validate(request: &Request<'_>, object: &Value) -> Result<(), Refused> {
    let Some(kind) = Kind::parse(request.kind).filter(|_| request.operation != Operation::Delete) else {
        return Ok(());
    };
    let mut errors = Errors::default();
    check::object(kind, request, object, &mut errors);
    unsupported::refuse(kind, object, &mut errors);
    if !errors.0.is_empty() {
        return Err(Refused::Fields(errors.0));
    }
    if kind == Kind::Binding && request.switches.quotas {
        check::binding_quota(request, object).map_err(Refused::Quota)?;
    }
    Ok(())
}

/// The second half of the defaults: what the reference's admission changes, beyond the schema's own defaults. Answers
/// whether the kind has any.
///
/// [`admit`] does this too; it is apart because the reference's cases pin this half alone.
pub fn mutate(request: &Request<'_>, object: &mut Value, new_id: &mut dyn FnMut() -> String) -> bool {
    let Some(kind) = Kind::parse(request.kind) else {
        return false;
    };
    defaults::webhook(kind, request, object, new_id);
    true
}
