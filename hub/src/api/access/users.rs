//! People with certificates of this hub: what was issued to whom, and what was taken back.
//!
//! A record per user name is stored beside the objects. While there is one, only certificates that it lists and that
//! were not taken back count for the name; a name without a record (that of `admin.kubeconfig`) counts as its
//! certificate says.

use super::Identity;
use crate::api::limits;
use crate::clock;
use crate::keys::{ADMIN_USER, Authority, KeysError, Signed};
use crate::store::{CommitError, Expect, Op, ResourceId, Revision, Store};
use hub_core::timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shared::time::UnixSeconds;
use std::sync::Arc;

/// Where records are stored.
pub(super) fn id() -> ResourceId {
    ResourceId::new("fleet.pinnace.dev", "users")
}

/// Why a user cannot be made or taken back.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// The name cannot be one.
    #[error("{0:?} cannot be the name of a user: it is empty, too long or begins with system:")]
    Name(String),
    /// A name of the hub's own.
    #[error("{0:?} is the user of admin.kubeconfig; choose another name")]
    Reserved(String),
    /// Too many certificates that still count.
    #[error(
        "user {name:?} has {limit} certificates that still count: take them back first (pinnace user revoke)"
    )]
    TooMany {
        /// The user.
        name: String,
        /// How many are allowed.
        limit: usize,
    },
    /// Nobody of that name.
    #[error("there is no user {0:?} with a certificate of this hub")]
    Unknown(String),
    /// Who asks would lock themselves out.
    #[error("{0:?} is who you are: take it back with the kubeconfig of another administrator")]
    Self_(String),
    /// The certificate.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// The store.
    #[error(transparent)]
    Store(#[from] CommitError),
}

/// One certificate.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Certificate {
    fingerprint: String,
    issued: String,
    expires: String,
    groups: Vec<String>,
    /// `user create`, or the signing request.
    by: String,
}

/// What the hub knows of a user name.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Record {
    certificates: Vec<Certificate>,
    /// Certificates that the record does not list count as well.
    others: bool,
    revoked: Option<String>,
}

/// Whether a certificate counts.
pub(super) fn check(store: &Store, identity: &Identity) -> Result<(), String> {
    let Some((record, _)) = read(store, &identity.user) else {
        return Ok(());
    };
    let is_listed = record
        .certificates
        .iter()
        .any(|c| c.fingerprint == identity.fingerprint);
    if is_listed || record.others {
        return Ok(());
    }
    Err(format!(
        "the certificate of user {:?} was taken back",
        identity.user
    ))
}

fn read(store: &Store, name: &str) -> Option<(Record, Revision)> {
    let object = store.get(&id(), "", name)?;
    let value = object.value();
    let record = value.get("status").cloned().unwrap_or_default();
    // A record that is not readable lists nothing: nobody gets in by it.
    Some((
        serde_json::from_value(record).unwrap_or_default(),
        object.revision,
    ))
}

/// Users of the hub.
#[derive(Debug, Clone)]
pub struct Users {
    store: Store,
    authority: Arc<Authority>,
}

impl Users {
    /// Users of a store.
    #[must_use]
    pub fn new(store: Store, authority: Arc<Authority>) -> Users {
        Users { store, authority }
    }

    /// Makes a certificate for a user and gives the kubeconfig; groups as the certificate says them.
    ///
    /// # Errors
    /// [`UserError`].
    pub async fn create(
        &self,
        name: &str,
        groups: &[String],
        life_seconds: i64,
    ) -> Result<String, UserError> {
        let plausible =
            |text: &str| !text.is_empty() && text.len() <= 256 && !text.contains(char::is_control);
        if !plausible(name) || name.starts_with("system:") {
            return Err(UserError::Name(name.to_owned()));
        }
        if let Some(group) = groups.iter().find(|g| !plausible(g)) {
            return Err(UserError::Name(group.clone()));
        }
        if name == ADMIN_USER {
            return Err(UserError::Reserved(name.to_owned()));
        }
        let now = clock::wall();
        let until = now.plus(life_seconds.clamp(limits::USER_SECONDS_MIN, limits::USER_SECONDS_MAX));
        let (text, signed) = self.authority.kubeconfig(name, groups, now, until)?;
        note(&self.store, name, groups, &signed, "user create", until).await?;
        Ok(text)
    }

    /// Takes every certificate of a user back, at once. `by` is who asks.
    ///
    /// # Errors
    /// [`UserError`].
    pub async fn revoke(&self, name: &str, by: &str) -> Result<usize, UserError> {
        if name == by {
            return Err(UserError::Self_(name.to_owned()));
        }
        let mut taken = 0;
        let unknown = name != ADMIN_USER;
        change(&self.store, name, |record| {
            if unknown && record.is_none() {
                return Err(UserError::Unknown(name.to_owned()));
            }
            let old = record.unwrap_or_default();
            taken = old.certificates.len() + usize::from(name == ADMIN_USER);
            Ok(Record {
                certificates: Vec::new(),
                others: false,
                revoked: Some(clock::wall().rfc3339()),
            })
        })
        .await?;
        Ok(taken)
    }

    /// Every user, with the certificates that count.
    #[must_use]
    pub fn list(&self) -> Value {
        let items: Vec<Value> = self
            .store
            .list(&id(), None)
            .items
            .iter()
            .map(|o| o.value())
            .collect();
        json!({"apiVersion": "fleet.pinnace.dev/v1alpha1", "kind": "UserList", "metadata": {}, "items": items})
    }
}

/// Writes down that a certificate was issued. Must be done before it is handed out.
pub(super) async fn note(
    store: &Store,
    name: &str,
    groups: &[String],
    signed: &Signed,
    by: &str,
    until: UnixSeconds,
) -> Result<(), UserError> {
    let now = clock::wall();
    change(store, name, |record| {
        let mut record = record.unwrap_or_else(|| Record {
            // Its first certificate is listed nowhere.
            others: name == ADMIN_USER,
            ..Record::default()
        });
        record
            .certificates
            .retain(|c| timestamp::parse(&c.expires).is_some_and(|at| at > now.0));
        if record.certificates.len() >= limits::USER_CERTIFICATES {
            return Err(UserError::TooMany {
                name: name.to_owned(),
                limit: limits::USER_CERTIFICATES,
            });
        }
        record.certificates.push(Certificate {
            fingerprint: signed.fingerprint.clone(),
            issued: now.rfc3339(),
            expires: until.rfc3339(),
            groups: groups.to_vec(),
            by: by.to_owned(),
        });
        Ok(record)
    })
    .await
}

async fn change(
    store: &Store,
    name: &str,
    mut to: impl FnMut(Option<Record>) -> Result<Record, UserError>,
) -> Result<(), UserError> {
    let mut tries = limits::WRITE_TRIES;
    loop {
        tries -= 1;
        let (old, expect) = match read(store, name) {
            Some((record, revision)) => (Some(record), Expect::Revision(revision)),
            None => (None, Expect::Absent),
        };
        let record = to(old)?;
        let object = json!({"apiVersion": "fleet.pinnace.dev/v1alpha1", "kind": "User", "metadata": {"name": name},
            "status": record});
        let op = Op::Put {
            resource: id(),
            namespace: String::new(),
            name: name.to_owned(),
            expect,
            object,
        };
        match store.commit(vec![op]).await {
            Ok(_) => return Ok(()),
            Err(CommitError::Conflict { .. } | CommitError::AlreadyExists { .. }) if tries > 0 => {}
            Err(error) => return Err(error.into()),
        }
    }
}
