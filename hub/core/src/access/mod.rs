//! Who may do what: role-based access control over the stored roles and bindings, reviews, tokens and the checks that
//! keep people from giving away more than they have. Rules follow the RBAC authorizer of the Kubernetes API server.

pub mod bootstrap;
pub mod escalation;
pub mod impersonation;
mod rbac;
pub mod review;
mod rule;
pub mod token;

pub use rbac::{Allowed, Decision, RBAC_GROUP, Rbac, TEMPLATE_ONLY_LABEL, acts};
pub use rule::Rule;

use std::collections::BTreeMap;

/// The one group that may do everything, whatever the roles say.
pub const MASTERS: &str = "system:masters";
/// Group of everybody who proved an identity.
pub const AUTHENTICATED: &str = "system:authenticated";
/// Group of those who proved none.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// Group of all ServiceAccounts; with `:NAMESPACE` those of one namespace.
pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
/// Prefix of the user name of a ServiceAccount.
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// A client whose identity is proven.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct User {
    /// User name.
    pub name: String,
    /// Identity over time, if the proof has one.
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
    /// More about the proof.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The user of a ServiceAccount, in its groups.
    pub fn service_account(namespace: &str, name: &str, uid: &str) -> User {
        User {
            name: service_account_user(namespace, name),
            uid: uid.to_owned(),
            groups: service_account_groups(namespace),
            extra: BTreeMap::new(),
        }
    }

    /// Whether the user is in a group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }

    /// Adds a group unless it is there.
    pub fn join(&mut self, group: &str) {
        if !self.is_in(group) {
            self.groups.push(group.to_owned());
        }
    }
}

/// `system:serviceaccount:NAMESPACE:NAME`.
pub fn service_account_user(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}")
}

/// Groups of a ServiceAccount of a namespace.
pub fn service_account_groups(namespace: &str) -> Vec<String> {
    vec![
        SERVICE_ACCOUNTS.to_owned(),
        format!("{SERVICE_ACCOUNTS}:{namespace}"),
        AUTHENTICATED.to_owned(),
    ]
}

/// Namespace and name of the ServiceAccount that a user name stands for.
pub fn service_account_of(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

/// What somebody wants to do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attributes {
    /// `get`, `list`, `create`, ...; for paths the HTTP method in lower case.
    pub verb: String,
    /// API group, empty for core.
    pub group: String,
    /// API version; not looked at by roles.
    pub version: String,
    /// Plural resource; empty if a path is meant.
    pub resource: String,
    /// Subresource.
    pub subresource: String,
    /// Namespace, empty for the cluster scope.
    pub namespace: String,
    /// Object, empty if none is named.
    pub name: String,
    /// Path, if it leads to no resource.
    pub path: Option<String>,
}

impl Attributes {
    /// A wish about a resource.
    pub fn resource(verb: &str, group: &str, resource: &str, namespace: &str, name: &str) -> Attributes {
        Attributes {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..Attributes::default()
        }
    }

    /// A wish about a path.
    pub fn path(verb: &str, path: &str) -> Attributes {
        Attributes {
            verb: verb.to_owned(),
            path: Some(path.to_owned()),
            ..Attributes::default()
        }
    }

    /// The same wish about a subresource.
    #[must_use]
    pub fn with_subresource(mut self, subresource: &str) -> Attributes {
        subresource.clone_into(&mut self.subresource);
        self
    }

    /// `pods` or `pods/log`.
    pub fn combined(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }

    /// What the API server says when it is not allowed.
    pub fn refusal(&self, user: &User) -> String {
        let (name, verb) = (&user.name, &self.verb);
        if let Some(path) = &self.path {
            return format!("User {name:?} cannot {verb} path {path:?}");
        }
        let place = if self.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {:?}", self.namespace)
        };
        format!(
            "User {name:?} cannot {verb} resource {:?} in API group {:?} {place}",
            self.combined(),
            self.group
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_service_accounts() {
        assert_eq!(service_account_of("system:serviceaccount:a:b"), Some(("a", "b")));
        for other in [
            "system:serviceaccount:a",
            "system:serviceaccount::b",
            "ann",
            "system:serviceaccount:a:b:c",
        ] {
            assert_eq!(service_account_of(other), None, "{other}");
        }
    }

    #[test]
    fn refusals_read_as_in_kubernetes() {
        let user = User {
            name: "ann".to_owned(),
            ..User::default()
        };
        let wish = Attributes::resource("get", "", "pods", "shop", "web").with_subresource("log");
        assert_eq!(
            wish.refusal(&user),
            "User \"ann\" cannot get resource \"pods/log\" in API group \"\" in the namespace \"shop\""
        );
        assert_eq!(
            Attributes::path("get", "/metrics").refusal(&user),
            "User \"ann\" cannot get path \"/metrics\""
        );
    }
}
