//! Where a kind lives in the member's API: discovery, one group version at a time, kept until it fails.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde::Deserialize;

use super::api::{Api, escape};
use super::errors::ApiError;
use crate::limits::KIND_GROUPS_MAX;
use shared::object::split_api_version;
use shared::reason::Reason;

/// A resource of the member's API.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resource {
    /// `v1` or `group/version`.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Plural name in paths.
    pub plural: String,
    /// Objects live in namespaces.
    pub namespaced: bool,
}

impl Resource {
    /// Path of the collection; `namespace` empty: all namespaces.
    #[must_use]
    pub fn path(&self, namespace: &str) -> String {
        let root = if self.api_version.contains('/') {
            "/apis"
        } else {
            "/api"
        };
        let base = format!("{root}/{}", self.api_version);
        if self.namespaced && !namespace.is_empty() {
            format!("{base}/namespaces/{}/{}", escape(namespace), self.plural)
        } else {
            format!("{base}/{}", self.plural)
        }
    }

    /// API group; empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        split_api_version(&self.api_version).0
    }
}

#[derive(Deserialize)]
struct Listing {
    #[serde(default)]
    resources: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    name: String,
    kind: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    group: String,
    #[serde(default)]
    verbs: Vec<String>,
}

#[derive(Deserialize)]
struct Groups {
    #[serde(default)]
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    #[serde(rename = "preferredVersion")]
    preferred: GroupVersion,
    #[serde(default)]
    versions: Vec<GroupVersion>,
}

#[derive(Deserialize)]
struct GroupVersion {
    #[serde(rename = "groupVersion")]
    group_version: String,
}

/// Kinds found so far, by api version. Shared by everything that runs on the agent's one thread.
#[derive(Debug, Default)]
pub struct Kinds {
    known: RefCell<BTreeMap<String, Vec<Resource>>>,
}

impl Kinds {
    /// The resource of a kind.
    ///
    /// # Errors
    /// [`Reason::ApiAbsent`] when the member does not serve it; the next call asks again.
    pub async fn find(&self, api: &Api, api_version: &str, kind: &str) -> Result<Resource, ApiError> {
        if let Some(found) = self.lookup(api_version, kind) {
            return Ok(found);
        }
        let listed = list(api, api_version).await?;
        let mut known = self.known.borrow_mut();
        if known.len() >= KIND_GROUPS_MAX {
            known.clear();
        }
        known.insert(api_version.to_owned(), listed);
        drop(known);
        self.lookup(api_version, kind)
            .ok_or_else(|| absent(api_version, kind))
    }

    /// Forgets a version, after the member said that it does not serve it.
    pub fn forget(&self, api_version: &str) {
        self.known.borrow_mut().remove(api_version);
    }

    fn lookup(&self, api_version: &str, kind: &str) -> Option<Resource> {
        self.known
            .borrow()
            .get(api_version)?
            .iter()
            .find(|r| r.kind == kind)
            .cloned()
    }
}

fn absent(api_version: &str, kind: &str) -> ApiError {
    let mut error = ApiError::of_answer(http::StatusCode::NOT_FOUND, b"{}");
    error.reason = Reason::ApiAbsent;
    error.message = format!("the member's API does not serve {kind} in {api_version}");
    error
}

/// The resources of one group version that can be read, without subresources.
async fn list(api: &Api, api_version: &str) -> Result<Vec<Resource>, ApiError> {
    if api_version.is_empty() || api_version.split('/').count() > 2 {
        return Err(absent(api_version, "anything"));
    }
    let root = if api_version.contains('/') {
        "/apis"
    } else {
        "/api"
    };
    let listing: Listing = api.document(&format!("{root}/{api_version}")).await?;
    Ok(listing
        .resources
        .into_iter()
        .filter(|r| !r.name.contains('/') && r.verbs.iter().any(|v| v == "get") && r.group.is_empty())
        .map(|r| Resource {
            api_version: api_version.to_owned(),
            kind: r.kind,
            plural: r.name,
            namespaced: r.namespaced,
        })
        .collect())
}

/// Every resource in the preferred version of its group; for looking at what a namespace contains.
///
/// # Errors
/// When any part of discovery fails: an incomplete answer must not look like an empty namespace.
pub async fn all(api: &Api) -> Result<Vec<Resource>, ApiError> {
    resources(api, true).await
}

/// Every resource in every version; for telling what the member serves.
///
/// # Errors
/// When any part of discovery fails.
pub async fn served(api: &Api) -> Result<Vec<Resource>, ApiError> {
    resources(api, false).await
}

async fn resources(api: &Api, preferred_only: bool) -> Result<Vec<Resource>, ApiError> {
    let mut found = list(api, "v1").await?;
    let groups: Groups = api.document("/apis").await?;
    for group in groups.groups {
        let versions = if preferred_only {
            vec![group.preferred]
        } else {
            group.versions
        };
        for version in versions {
            found.extend(list(api, &version.group_version).await?);
        }
    }
    Ok(found)
}
