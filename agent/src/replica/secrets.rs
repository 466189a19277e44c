//! Secrets in the agent's own namespace, each holding one document or a part of one.

use std::collections::BTreeMap;

use agent_core::limits::{MIRROR_DOCUMENT_BYTES_MAX, MIRROR_PART_BYTES};
use agent_core::mirror::{MirrorError, parts};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use shared::ids::Digest;

use super::Trouble;
use crate::limits::PAGE;
use crate::member::api::{Api, escape};

const KEY: &str = "document";
/// Label on all that agents of one cluster share.
const MIRROR: &str = "fleet.pinnace.dev/mirror";
/// Who wrote last: the number of a term.
const WRITER: &str = "fleet.pinnace.dev/writer";
/// How many parts the document has.
const PARTS: &str = "fleet.pinnace.dev/parts";
/// SHA-256 of the whole document.
const SHA256: &str = "fleet.pinnace.dev/sha256";
/// Bytes of this part.
const BYTES: &str = "fleet.pinnace.dev/bytes";
const LIST_METADATA: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
/// Secrets of one mirror: documents of contents in parts, the set, rows and the anchor.
const SECRETS_MAX: usize = 4_096;

/// The Secrets of one namespace.
#[derive(Clone)]
pub(super) struct Secrets {
    api: Api,
    namespace: String,
}

/// What a list tells of a Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) version: String,
    pub(super) bytes: usize,
}

/// A Secret that was read.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) version: String,
    pub(super) writer: u64,
    pub(super) bytes: Vec<u8>,
    parts: usize,
    sha256: String,
}

#[derive(Deserialize)]
struct Item {
    metadata: Meta,
}

#[derive(Deserialize)]
struct Meta {
    name: String,
    #[serde(default, rename = "resourceVersion")]
    version: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

impl Secrets {
    pub(super) fn new(api: Api, namespace: &str) -> Self {
        Self {
            api,
            namespace: namespace.to_owned(),
        }
    }

    /// The same Secrets through another way to the API.
    pub(super) fn through(&self, api: Api) -> Self {
        Self::new(api, &self.namespace)
    }

    /// All that is shared, by name.
    pub(super) async fn list(&self) -> Result<BTreeMap<String, Listed>, Trouble> {
        let query = format!("labelSelector={}&limit={PAGE}", escape(MIRROR));
        let mut all = BTreeMap::new();
        let mut next: Option<String> = None;
        loop {
            let page = self
                .api
                .page::<Item>(&self.collection(), &query, next.as_deref(), Some(LIST_METADATA))
                .await?;
            for item in page.items {
                let bytes = item.metadata.annotations.get(BYTES);
                let listed = Listed {
                    version: item.metadata.version,
                    bytes: bytes.and_then(|b| b.parse().ok()).unwrap_or(MIRROR_PART_BYTES),
                };
                all.insert(item.metadata.name, listed);
            }
            if all.len() > SECRETS_MAX {
                return Err(Trouble::Full(format!("more than {SECRETS_MAX} Secrets")));
            }
            next = page.metadata.next.filter(|n| !n.is_empty());
            if next.is_none() {
                return Ok(all);
            }
        }
    }

    /// One Secret; none if it is not there.
    pub(super) async fn read(&self, name: &str) -> Result<Option<Found>, Trouble> {
        self.api
            .find(&self.path(name))
            .await?
            .map(|object| found(name, &object))
            .transpose()
    }

    /// A whole document, put together from its parts; none if one of them is not there.
    pub(super) async fn document(&self, name: &str) -> Result<Option<Vec<u8>>, Trouble> {
        let Some(first) = self.read(&part_name(name, 0)).await? else {
            return Ok(None);
        };
        let (count, sha256) = (first.parts, first.sha256);
        let mut document = first.bytes;
        for part in 1..count {
            let Some(next) = self.read(&part_name(name, part)).await? else {
                return Ok(None);
            };
            document.extend_from_slice(&next.bytes);
            if document.len() > MIRROR_DOCUMENT_BYTES_MAX {
                return Err(damaged(name, "it has too many parts"));
            }
        }
        if Digest::of(&document).to_string() != sha256 {
            return Err(damaged(name, "it does not have its digest"));
        }
        Ok(Some(document))
    }

    /// Writes a document that never changes, part by part; parts that are there already are the same. Gives names and sizes.
    pub(super) async fn add(
        &self,
        name: &str,
        document: &[u8],
        writer: u64,
    ) -> Result<Vec<(String, usize)>, Trouble> {
        let sha256 = Digest::of(document).to_string();
        let cut = parts(document);
        let mut made = Vec::new();
        for (index, part) in cut.iter().enumerate() {
            let name = part_name(name, index);
            let object = self.object(&name, part, writer, cut.len(), &sha256);
            match self.api.create(&self.collection(), &object).await {
                Err(e) if !e.is_conflict() => return Err(e.into()),
                _ => made.push((name, part.len())),
            }
        }
        Ok(made)
    }

    /// Creates a Secret of one part; none if there is one of this name.
    pub(super) async fn create(
        &self,
        name: &str,
        bytes: &[u8],
        writer: u64,
    ) -> Result<Option<String>, Trouble> {
        let object = self.object(name, bytes, writer, 1, &Digest::of(bytes).to_string());
        match self.api.create(&self.collection(), &object).await {
            Ok(made) => Ok(Some(version(&made))),
            Err(e) if e.is_conflict() => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Replaces exactly this version of a Secret of one part; none if it has another version now.
    pub(super) async fn replace(
        &self,
        name: &str,
        before: &str,
        bytes: &[u8],
        writer: u64,
    ) -> Result<Option<String>, Trouble> {
        let mut object = self.object(name, bytes, writer, 1, &Digest::of(bytes).to_string());
        object["metadata"]["resourceVersion"] = before.into();
        match self.api.replace(&self.path(name), &object).await {
            Ok(made) => Ok(Some(version(&made))),
            Err(e) if e.is_conflict() || e.is_object_absent() => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    pub(super) async fn remove(&self, name: &str) -> Result<(), Trouble> {
        Ok(self.api.remove(&self.path(name)).await?)
    }

    fn object(&self, name: &str, bytes: &[u8], writer: u64, parts: usize, sha256: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"name": name, "namespace": self.namespace, "labels": {MIRROR: "true"},
                "annotations": {WRITER: writer.to_string(), PARTS: parts.to_string(), SHA256: sha256,
                    BYTES: bytes.len().to_string()}},
            "data": {KEY: STANDARD.encode(bytes)}})
    }

    fn collection(&self) -> String {
        format!("/api/v1/namespaces/{}/secrets", self.namespace)
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.collection())
    }
}

/// The Secret with one part of a document that never changes.
pub(super) fn part_name(document: &str, part: usize) -> String {
    format!("{document}-{part}")
}

fn damaged(name: &str, why: &str) -> Trouble {
    Trouble::Damaged(MirrorError::Damaged {
        document: name.to_owned(),
        why: why.to_owned(),
    })
}

fn version(object: &Value) -> String {
    let version = object
        .pointer("/metadata/resourceVersion")
        .and_then(Value::as_str);
    version.unwrap_or_default().to_owned()
}

fn found(name: &str, object: &Value) -> Result<Found, Trouble> {
    let annotation = |name: &str| {
        let all = object.pointer("/metadata/annotations");
        all.and_then(|a| a.get(name))
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let text = object
        .pointer("/data")
        .and_then(|d| d.get(KEY))
        .and_then(Value::as_str);
    let bytes = text
        .and_then(|t| STANDARD.decode(t).ok())
        .ok_or_else(|| damaged(name, "it holds no document"))?;
    Ok(Found {
        version: version(object),
        writer: annotation(WRITER).parse().unwrap_or(0),
        parts: annotation(PARTS).parse().unwrap_or(1),
        sha256: annotation(SHA256).to_owned(),
        bytes,
    })
}
