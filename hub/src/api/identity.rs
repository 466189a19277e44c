//! Who is asking, and whether they may.

use super::request::{Address, Place};
use hub_core::status_error::{Reason, StatusError};

/// The one group that may do everything. Until roles are evaluated, every other identity may do nothing.
const MASTERS: &str = "system:masters";

/// A verified client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// `CN` of the client certificate.
    pub user: String,
    /// Every `O` of it.
    pub groups: Vec<String>,
}

/// Lets only masters through.
///
/// # Errors
/// 401 without an identity, 403 with another one.
pub(super) fn authorize<'i>(
    identity: Option<&'i Identity>,
    verb: &str,
    place: &Place,
    path: &str,
) -> Result<&'i Identity, StatusError> {
    let identity = identity.ok_or_else(StatusError::unauthorized)?;
    if identity.groups.iter().any(|g| g == MASTERS) {
        return Ok(identity);
    }
    let user = &identity.user;
    Err(match place {
        Place::Resource(Address {
            group,
            plural,
            namespace,
            name,
            ..
        }) => {
            let whereabouts = match namespace {
                Some(namespace) => format!("in the namespace {namespace:?}"),
                None => "at the cluster scope".to_owned(),
            };
            let why = format!(
                "User {user:?} cannot {verb} resource {plural:?} in API group {group:?} {whereabouts}: only the group \
                 {MASTERS} is authorized"
            );
            StatusError::forbidden(group, plural, name.as_deref().unwrap_or_default(), why)
        }
        _ => {
            let text = format!(
                "forbidden: User {user:?} cannot {verb} path {path:?}: only the group {MASTERS} is authorized"
            );
            StatusError::new(Reason::Forbidden, text)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_masters_pass() {
        let of = |group: &str| Identity {
            user: "ann".to_owned(),
            groups: vec![group.to_owned()],
        };
        let place = super::super::request::place("/api/v1/namespaces/ns/pods/p");
        let check = |identity: Option<&Identity>| {
            authorize(identity, "get", &place, "/")
                .map_err(|e| e.code())
                .err()
        };
        assert_eq!(check(None), Some(401));
        assert_eq!(check(Some(&of("dev"))), Some(403));
        assert_eq!(check(Some(&of(MASTERS))), None);
        let error = authorize(Some(&of("dev")), "get", &place, "/").expect_err("refused");
        assert!(
            error
                .message
                .contains("User \"ann\" cannot get resource \"pods\""),
            "{error}"
        );
    }
}
