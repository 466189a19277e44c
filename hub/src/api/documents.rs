//! Documents about what is served: version, discovery, OpenAPI. Those that speak of custom resources are made anew when a
//! definition changes. Each is made when first asked for and
//! kept; the names in the OpenAPI index carry a hash, so that clients may keep the documents too.

use super::catalog::{Catalog, Kinds};
use super::negotiate;
use super::request::Query;
use super::respond;
use axum::body::Body;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH, LOCATION, VARY};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use hub_core::discovery::{self, Root};
use hub_core::openapi;
use hub_core::status_error::StatusError;
use hub_core::types::{TypeTable, groups};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// One finished document.
#[derive(Clone)]
pub(super) struct Document {
    body: Bytes,
    etag: String,
}

/// Which document.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Name {
    Groups(Root),
    Aggregated(Root, &'static str),
    Group(String),
    Resources(String, String),
    OpenApi,
    OpenApiV2,
    OpenApiV2Protobuf,
    OpenApiOf(String, String),
}

/// The documents made so far. Only names of what is served get in, so that bounds it.
pub(super) struct Documents {
    table: &'static TypeTable,
    catalog: Arc<Catalog>,
    hash: String,
    made: Mutex<Made>,
}

/// Documents of one state of the catalog.
#[derive(Default)]
struct Made {
    number: u64,
    /// Groups with custom resources.
    custom: BTreeSet<String>,
    documents: HashMap<Name, Document>,
}

impl Made {
    /// Drops what speaks of custom resources as they were or are.
    fn catch_up(&mut self, kinds: &Kinds) {
        if self.number == kinds.number {
            return;
        }
        let now = kinds.custom_groups();
        self.documents.retain(|name, _| match name {
            Name::Groups(root) | Name::Aggregated(root, _) => *root == Root::Core,
            Name::Group(group) | Name::Resources(group, _) | Name::OpenApiOf(group, _) => {
                !self.custom.contains(group) && !now.contains(group)
            }
            Name::OpenApi | Name::OpenApiV2 | Name::OpenApiV2Protobuf => false,
        });
        self.number = kinds.number;
        self.custom = now;
    }
}

fn digest(parts: &[&[u8]]) -> String {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    parts.iter().for_each(|part| context.update(part));
    let hex = context
        .finish()
        .as_ref()
        .iter()
        .take(16)
        .map(|b| format!("{b:02X}"))
        .collect::<Vec<_>>();
    hex.concat()
}

impl Documents {
    pub(super) fn new(table: &'static TypeTable, catalog: Arc<Catalog>) -> Documents {
        let [kubernetes, karmada] = TypeTable::built_in_sources();
        let hash = digest(&[kubernetes, karmada, env!("CARGO_PKG_VERSION").as_bytes()]);
        Documents {
            table,
            catalog,
            hash,
            made: Mutex::default(),
        }
    }

    /// `/version`.
    pub(super) fn version(&self) -> Response<Body> {
        let git = format!("{}+pinnace", self.table.kubernetes);
        let mut numbers = self.table.kubernetes.trim_start_matches('v').split('.');
        let (major, minor) = (
            numbers.next().unwrap_or_default(),
            numbers.next().unwrap_or_default(),
        );
        respond::json(
            StatusCode::OK,
            &json!({"major": major, "minor": minor, "gitVersion": git, "gitTreeState": "clean", "platform":
                format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH), "compiler": "rustc"}),
        )
    }

    fn get(&self, name: Name, make: impl FnOnce(&Kinds) -> Option<Value>) -> Option<Document> {
        self.get_bytes(name, |kinds| {
            make(kinds).map(|value| Bytes::from(value.to_string()))
        })
    }

    fn get_bytes(&self, name: Name, make: impl FnOnce(&Kinds) -> Option<Bytes>) -> Option<Document> {
        let kinds = self.catalog.now();
        {
            let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            if made.number < kinds.number {
                made.catch_up(&kinds);
            }
            if let Some(found) = made.documents.get(&name).filter(|_| made.number == kinds.number) {
                return Some(found.clone());
            }
        }
        // Made outside the lock: two may make the same, which is harmless.
        let body = make(&kinds)?;
        let document = Document {
            etag: format!("\"{}\"", digest(&[&body])),
            body,
        };
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.number == kinds.number {
            made.documents.insert(name, document.clone());
        }
        Some(document)
    }

    /// What names a document of OpenAPI in its URL.
    fn hash_of(&self, kinds: &Kinds, group: &str, version: &str) -> String {
        match kinds.fingerprint(group, version) {
            none if none.is_empty() => self.hash.clone(),
            custom => digest(&[self.hash.as_bytes(), custom.as_bytes()]),
        }
    }

    /// `/api` and `/apis`.
    pub(super) fn groups(&self, root: Root, headers: &HeaderMap, address: &str) -> Response<Body> {
        let accept = headers.get(http::header::ACCEPT).and_then(|v| v.to_str().ok());
        let (name, content_type) = match negotiate::aggregated(accept) {
            Some("v2") => (
                Name::Aggregated(root, "v2"),
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            ),
            Some(_) => (
                Name::Aggregated(root, "v2beta1"),
                "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
            ),
            None => (Name::Groups(root), "application/json"),
        };
        let make = |kinds: &Kinds| {
            Some(match &name {
                Name::Aggregated(root, version) => discovery::aggregated(&kinds.resources(), *root, version),
                _ if root == Root::Core => discovery::core_versions(address),
                _ => discovery::group_list(&kinds.resources()),
            })
        };
        match self.get(name.clone(), make) {
            Some(document) => tagged(document, content_type, headers),
            None => respond::error(&StatusError::no_such_path()),
        }
    }

    /// `/apis/GROUP`.
    pub(super) fn group(&self, group: &str, headers: &HeaderMap) -> Response<Body> {
        let found = self.get(Name::Group(group.to_owned()), |kinds| {
            discovery::group(&kinds.resources(), group)
        });
        found.map_or_else(respond::no_page, |d| tagged(d, "application/json", headers))
    }

    /// `/api/v1` and `/apis/GROUP/VERSION`.
    pub(super) fn resources(&self, group: &str, version: &str, headers: &HeaderMap) -> Response<Body> {
        let name = Name::Resources(group.to_owned(), version.to_owned());
        let found = self.get(name, |kinds| {
            discovery::resource_list(&kinds.resources(), group, version)
        });
        found.map_or_else(respond::no_page, |d| tagged(d, "application/json", headers))
    }

    /// `/openapi/v2`: JSON, or the protobuf that old kubectl and Argo CD ask for.
    pub(super) fn openapi_v2(&self, headers: &HeaderMap) -> Response<Body> {
        let accept = headers.get(http::header::ACCEPT).and_then(|v| v.to_str().ok());
        let document = |kinds: &Kinds| openapi::v2::document(self.table, &kinds.resources());
        if accept.is_some_and(|a| a.contains("proto-openapi.spec.v2")) {
            let make = |kinds: &Kinds| Some(Bytes::from(openapi::v2::encode(&document(kinds))));
            let found = self.get_bytes(Name::OpenApiV2Protobuf, make);
            // With a dot where clients ask with an @, which Go's parser of media types does not take.
            let content_type = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
            return found.map_or_else(missing, |d| tagged(d, content_type, headers));
        }
        let found = self.get(Name::OpenApiV2, |kinds| Some(document(kinds)));
        found.map_or_else(missing, |d| tagged(d, "application/json", headers))
    }

    /// `/openapi/v3`.
    pub(super) fn openapi_index(&self, headers: &HeaderMap) -> Response<Body> {
        let make = |kinds: &Kinds| {
            let mut paths = serde_json::Map::new();
            for (group, versions) in groups(kinds.resources().into_iter()) {
                for version in versions {
                    let name = openapi_name(group, version);
                    let url = format!("/openapi/v3/{name}?hash={}", self.hash_of(kinds, group, version));
                    paths.insert(name, json!({"serverRelativeURL": url}));
                }
            }
            Some(json!({"paths": paths}))
        };
        self.get(Name::OpenApi, make)
            .map_or_else(missing, |d| tagged(d, "application/json", headers))
    }

    /// `/openapi/v3/...`: immutable under its right hash, redirected from a wrong one.
    pub(super) fn openapi(
        &self,
        group: &str,
        version: &str,
        query: &Query,
        headers: &HeaderMap,
    ) -> Response<Body> {
        let name = Name::OpenApiOf(group.to_owned(), version.to_owned());
        let make = |kinds: &Kinds| openapi::document(self.table, &kinds.resources(), group, version);
        let Some(document) = self.get(name, make) else {
            return missing();
        };
        let right = self.hash_of(&self.catalog.now(), group, version);
        match query.get("hash") {
            None => tagged(document, "application/json", headers),
            Some(hash) if hash == right => {
                let mut answer = tagged(document, "application/json", headers);
                let forever = HeaderValue::from_static("public, immutable, max-age=31536000");
                answer.headers_mut().insert(CACHE_CONTROL, forever);
                answer
            }
            Some(_) => {
                let url = format!("/openapi/v3/{}?hash={right}", openapi_name(group, version));
                let mut answer = Response::new(Body::empty());
                *answer.status_mut() = StatusCode::MOVED_PERMANENTLY;
                if let Ok(url) = HeaderValue::from_str(&url) {
                    answer.headers_mut().insert(LOCATION, url);
                }
                answer
            }
        }
    }
}

fn openapi_name(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

fn missing() -> Response<Body> {
    respond::error(&StatusError::no_such_path())
}

/// The document, or 304 if the client has it.
fn tagged(document: Document, content_type: &'static str, headers: &HeaderMap) -> Response<Body> {
    let known = headers.get(IF_NONE_MATCH).and_then(|v| v.to_str().ok());
    let mut answer = if known == Some(&document.etag) {
        let mut answer = respond::bytes(StatusCode::NOT_MODIFIED, content_type, Bytes::new());
        answer.headers_mut().remove(http::header::CONTENT_TYPE);
        answer
    } else {
        respond::bytes(StatusCode::OK, content_type, document.body)
    };
    answer
        .headers_mut()
        .insert(VARY, HeaderValue::from_static("Accept"));
    if let Ok(etag) = HeaderValue::from_str(&document.etag) {
        answer.headers_mut().insert(ETAG, etag);
    }
    answer
}
