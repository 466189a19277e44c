//! Acting as somebody else: which headers ask for it, which permissions it takes, who comes out of it (source: the
//! impersonation filter of the Kubernetes API server).

use super::{AUTHENTICATED, Attributes, User, service_account_groups, service_account_of};
use crate::status_error::StatusError;
use std::collections::BTreeMap;

/// What the `Impersonate-*` headers of a request say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wanted {
    user: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

impl Wanted {
    /// Reads the headers; `None` if none asks for it.
    ///
    /// # Errors
    /// 400 for groups, uid or extras without a user.
    pub fn read<'h>(
        headers: impl Iterator<Item = (&'h str, &'h str)>,
    ) -> Result<Option<Wanted>, StatusError> {
        let mut wanted = Wanted::default();
        let mut any = false;
        for (name, value) in headers {
            let name = name.to_ascii_lowercase();
            let Some(what) = name.strip_prefix("impersonate-") else {
                continue;
            };
            any = true;
            match what {
                "user" => value.clone_into(&mut wanted.user),
                "uid" => value.clone_into(&mut wanted.uid),
                "group" => wanted.groups.push(value.to_owned()),
                _ => {
                    if let Some(key) = what.strip_prefix("extra-") {
                        let key = unescaped(key);
                        wanted.extra.entry(key).or_default().push(value.to_owned());
                    }
                }
            }
        }
        if any && wanted.user.is_empty() {
            return Err(StatusError::bad_request(
                "requested impersonation of groups, uid or extra without impersonating a user",
            ));
        }
        Ok(any.then_some(wanted))
    }

    /// What the caller must be allowed to do, all of it.
    pub fn wishes(&self) -> Vec<Attributes> {
        let mut out = Vec::new();
        let mut ask = |group: &str, resource: &str, namespace: &str, name: &str| {
            out.push(Attributes::resource(
                "impersonate",
                group,
                resource,
                namespace,
                name,
            ));
        };
        match service_account_of(&self.user) {
            Some((namespace, name)) => ask("", "serviceaccounts", namespace, name),
            None => ask("", "users", "", &self.user),
        }
        for group in &self.groups {
            ask("", "groups", "", group);
        }
        if !self.uid.is_empty() {
            ask("authentication.k8s.io", "uids", "", &self.uid);
        }
        for (key, values) in &self.extra {
            for value in values {
                out.push(
                    Attributes::resource("impersonate", "authentication.k8s.io", "userextras", "", value)
                        .with_subresource(key),
                );
            }
        }
        out
    }

    /// Who the request is then made as.
    pub fn user(self) -> User {
        let mut groups = self.groups;
        if groups.is_empty()
            && let Some((namespace, _)) = service_account_of(&self.user)
        {
            groups = service_account_groups(namespace);
        }
        let mut user = User {
            name: self.user,
            uid: self.uid,
            groups,
            extra: self.extra,
        };
        user.join(AUTHENTICATED);
        user
    }
}

/// Percent-decoding of a header's name, as far as it is valid.
fn unescaped(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let digits = (bytes[at] == b'%')
            .then(|| bytes.get(at + 1..at + 3))
            .flatten()
            .and_then(|d| u8::from_str_radix(std::str::from_utf8(d).ok()?, 16).ok());
        match digits {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_lead_to_wishes_and_a_user() {
        let headers = [
            ("accept", "x"),
            ("Impersonate-User", "ann"),
            ("Impersonate-Group", "dev"),
            ("impersonate-group", "ops"),
            ("Impersonate-Extra-Acme.com%2Fproject", "p"),
        ];
        let wanted = Wanted::read(headers.into_iter())
            .expect("fine")
            .expect("asked for");
        let wishes: Vec<String> = wanted
            .wishes()
            .iter()
            .map(|w| format!("{} {}", w.combined(), w.name))
            .collect();
        assert_eq!(
            wishes,
            [
                "users ann",
                "groups dev",
                "groups ops",
                "userextras/acme.com/project p"
            ]
        );
        let user = wanted.user();
        assert_eq!(user.groups, ["dev", "ops", AUTHENTICATED]);
        let account = [("impersonate-user", "system:serviceaccount:a:b")];
        let wanted = Wanted::read(account.into_iter())
            .expect("fine")
            .expect("asked for");
        assert_eq!(wanted.wishes()[0].namespace, "a");
        assert!(wanted.user().is_in("system:serviceaccounts:a"));
        assert_eq!(Wanted::read([("accept", "x")].into_iter()), Ok(None));
        assert!(Wanted::read([("impersonate-group", "x")].into_iter()).is_err());
    }
}
