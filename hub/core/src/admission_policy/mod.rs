//! ValidatingAdmissionPolicies, MutatingAdmissionPolicies and their bindings (`admissionregistration.k8s.io/v1`): checked and
//! compiled when they are written, asked for every write after that.
//! Source of rules and texts: apiserver `admission/plugin/policy`, and the answers of a real one.

mod bound;
mod check;
mod compile;
mod matching;
mod mutate;
mod params;
mod validate;

#[cfg(test)]
mod tests;

pub use check::{check, check_binding, sort_of};
pub use compile::{Binding, Policy};
pub use mutate::{Merge, mutate};
pub use validate::{Verdict, validate};

use crate::access::User;
use crate::cel::Authorize;
use crate::status_error::Cause;
use crate::types::Resource;
use serde_json::Value;
use std::sync::Arc;

/// Group of the policies.
pub const GROUP: &str = "admissionregistration.k8s.io";

/// Which policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// They refuse, warn and note.
    Validating,
    /// They change.
    Mutating,
}

impl Sort {
    /// Plural of the policies.
    pub fn policies(self) -> &'static str {
        match self {
            Sort::Validating => "validatingadmissionpolicies",
            Sort::Mutating => "mutatingadmissionpolicies",
        }
    }

    /// Plural of the bindings.
    pub fn bindings(self) -> &'static str {
        match self {
            Sort::Validating => "validatingadmissionpolicybindings",
            Sort::Mutating => "mutatingadmissionpolicybindings",
        }
    }
}

/// Policies in order of their names, each with its bindings.
#[derive(Debug, Clone, Default)]
pub struct Set {
    /// Which act.
    pub policies: Vec<(Arc<Policy>, Vec<Arc<Binding>>)>,
}

impl Set {
    /// Puts policies and bindings together; a policy without a binding does nothing.
    pub fn new(mut policies: Vec<Arc<Policy>>, bindings: &[Arc<Binding>]) -> Set {
        policies.sort_by(|a, b| a.name.cmp(&b.name));
        let with = policies.into_iter().map(|policy| {
            let mut own: Vec<Arc<Binding>> = bindings
                .iter()
                .filter(|b| b.policy == policy.name)
                .cloned()
                .collect();
            own.sort_by(|a, b| a.name.cmp(&b.name));
            (policy, own)
        });
        Set {
            policies: with.filter(|(_, own)| !own.is_empty()).collect(),
        }
    }

    /// Whether nothing acts.
    pub fn is_empty(&self) -> bool {
        self.policies.is_empty()
    }
}

/// A write that policies are asked about.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub operation: &'static str,
    /// What is written.
    pub resource: &'a Resource,
    /// Group, version and kind of the body; that of the resource but for subresources such as `scale`.
    pub kind: (&'a str, &'a str, &'a str),
    /// Subresource, empty for the object itself.
    pub subresource: &'a str,
    /// Namespace, empty for the cluster scope.
    pub namespace: &'a str,
    /// Name; empty for a create whose name is generated.
    pub name: &'a str,
    /// Who asks.
    pub user: &'a User,
    /// Nothing will be stored.
    pub is_dry: bool,
    /// The object as it shall be; none for a delete.
    pub object: Option<&'a Value>,
    /// The object as it is; none for a create.
    pub old: Option<&'a Value>,
}

/// What policies can ask about.
pub trait World: Authorize {
    /// A namespace.
    fn namespace(&self, name: &str) -> Option<Value>;
    /// Whether objects of a kind are namespaced; none if there is no such kind.
    fn is_namespaced(&self, api_version: &str, kind: &str) -> Option<bool>;
    /// An object of a kind.
    fn object(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Option<Value>;
    /// Objects of a kind in order of their names, from all namespaces or one.
    fn objects(&self, api_version: &str, kind: &str, namespace: Option<&str>) -> Vec<Value>;
}

/// What is wrong with an object if it is a policy or a binding.
pub fn check_stored(resource: &Resource, object: &Value) -> Vec<Cause> {
    match sort_of(&resource.group, &resource.plural) {
        Some((sort, true)) => check(sort, object),
        Some((sort, false)) => check_binding(sort, object),
        None => Vec::new(),
    }
}

/// Whether policies see writes of a resource at all: not of themselves, and not of questions.
pub fn sees(resource: &Resource) -> bool {
    match (&*resource.group, &*resource.plural) {
        (GROUP, plural) => sort_of(GROUP, plural).is_none(),
        ("authentication.k8s.io" | "authorization.k8s.io", _) => false,
        _ => true,
    }
}
