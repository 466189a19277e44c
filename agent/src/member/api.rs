//! Requests to the member's API server with untyped objects: read, apply, patch, delete, list in pages.
//!
//! Built on `kube::Client` for kubeconfigs, TLS and authentication; everything above it is here, because the
//! typed layers hide the status code (201 or 200 tells who created an object).

use futures::StreamExt;
use http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use std::rc::Rc;
use std::time::Duration;
use tokio::time::timeout;

use super::errors::ApiError;
use super::fence::Fence;
use super::kinds::Resource;
use crate::limits::{ANSWER_BYTES_MAX, REQUEST_TIMEOUT};
use shared::owned::FIELD_MANAGER;

/// What an object request is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Where the kind lives in the API.
    pub resource: Resource,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl Target {
    /// Path of the object.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}/{}", self.resource.path(&self.namespace), escape(&self.name))
    }
}

/// How an apply is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApplyMode {
    /// Take over fields that other managers own.
    pub force: bool,
    /// Only ask what would happen.
    pub dry_run: bool,
}

/// An applied object.
#[derive(Debug)]
pub struct Applied {
    /// 201: the apply created it.
    pub created: bool,
    /// The object as stored.
    pub object: Value,
}

/// One page of a list.
#[derive(Debug, Deserialize)]
#[serde(bound = "T: Deserialize<'de>")]
pub struct Page<T> {
    /// Continue token and resourceVersion.
    #[serde(default)]
    pub metadata: PageMeta,
    /// The items.
    #[serde(default = "Vec::new", deserialize_with = "null_is_empty")]
    pub items: Vec<T>,
}

/// Go prints an empty list as null.
fn null_is_empty<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    Option::<Vec<T>>::deserialize(from).map(Option::unwrap_or_default)
}

/// Metadata of a list.
#[derive(Debug, Default, Deserialize)]
pub struct PageMeta {
    /// Where the next page begins; empty on the last.
    #[serde(default, rename = "continue")]
    pub next: Option<String>,
    /// Revision of the list.
    #[serde(default, rename = "resourceVersion")]
    pub resource_version: String,
}

/// The member's API.
#[derive(Clone)]
pub struct Api {
    client: Client,
    fence: Option<Rc<Fence>>,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Api")
    }
}

impl Api {
    /// Wraps a client.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, fence: None }
    }

    /// The same API, for writing only within a fence.
    #[must_use]
    pub fn within(&self, fence: Rc<Fence>) -> Self {
        Self {
            client: self.client.clone(),
            fence: Some(fence),
        }
    }

    /// The client, for watches.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Reads an object; none when it is not there.
    ///
    /// # Errors
    /// Any answer but 200 and 404.
    pub async fn read(&self, target: &Target) -> Result<Option<Value>, ApiError> {
        match self.send(Method::GET, &target.path(), None, None).await {
            Ok((_, body)) => parse(&body).map(Some),
            Err(e) if e.is_object_absent() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Server-side apply as our field manager.
    ///
    /// # Errors
    /// Any answer but 200 and 201.
    pub async fn apply(&self, target: &Target, object: &Value, mode: ApplyMode) -> Result<Applied, ApiError> {
        let path = format!(
            "{}?fieldManager={FIELD_MANAGER}&force={}{}",
            target.path(),
            mode.force,
            if mode.dry_run { "&dryRun=All" } else { "" }
        );
        // JSON is YAML, and the body has no protobuf form.
        let (status, body) = self
            .send(
                Method::PATCH,
                &path,
                Some("application/apply-patch+yaml"),
                Some(to_vec(object)),
            )
            .await?;
        Ok(Applied {
            created: status == StatusCode::CREATED,
            object: parse(&body)?,
        })
    }

    /// JSON patch (RFC 6902).
    ///
    /// # Errors
    /// Any answer but 200.
    pub async fn json_patch(&self, target: &Target, patch: &Value) -> Result<Value, ApiError> {
        let path = format!("{}?fieldManager={FIELD_MANAGER}", target.path());
        let (_, body) = self
            .send(
                Method::PATCH,
                &path,
                Some("application/json-patch+json"),
                Some(to_vec(patch)),
            )
            .await?;
        parse(&body)
    }

    /// Deletes exactly this uid, its dependents in the background. True: accepted; false: it is gone already
    /// or the name belongs to another object now, which counts as done.
    ///
    /// # Errors
    /// Any other answer.
    pub async fn delete(&self, target: &Target, uid: &str) -> Result<bool, ApiError> {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
            "preconditions": {"uid": uid}});
        match self
            .send(
                Method::DELETE,
                &target.path(),
                Some("application/json"),
                Some(to_vec(&options)),
            )
            .await
        {
            Ok(_) => Ok(true),
            Err(e) if e.is_object_absent() || e.is_conflict() => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// One page of a list, decoded into `T` without keeping what `T` does not name.
    ///
    /// # Errors
    /// Any answer but 200.
    pub async fn page<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &str,
        next: Option<&str>,
        accept: Option<&'static str>,
    ) -> Result<Page<T>, ApiError> {
        let next = next
            .map(|n| format!("&continue={}", escape(n)))
            .unwrap_or_default();
        let path = format!("{path}?{query}{next}");
        let body = self.get_bytes(&path, accept).await?;
        serde_json::from_slice(&body).map_err(|e| ApiError::malformed(&e))
    }

    /// A document of the API that is not an object, such as `/version` or a discovery document.
    ///
    /// # Errors
    /// Any answer but 200.
    pub async fn document<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        let body = self.get_bytes(path, None).await?;
        serde_json::from_slice(&body).map_err(|e| ApiError::malformed(&e))
    }

    /// A plain text of the API, such as `/readyz`.
    ///
    /// # Errors
    /// Any answer but 200; the message is the text then.
    pub async fn text(&self, path: &str) -> Result<String, ApiError> {
        let body = self.get_bytes(path, None).await?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    async fn get_bytes(&self, path: &str, accept: Option<&'static str>) -> Result<Vec<u8>, ApiError> {
        let mut request = Request::builder().method(Method::GET).uri(path);
        if let Some(accept) = accept {
            request = request.header(header::ACCEPT, accept);
        }
        let request = request
            .body(Body::empty())
            .map_err(|e| ApiError::unreachable(&e))?;
        self.answer(request, REQUEST_TIMEOUT).await.map(|(_, body)| body)
    }

    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: Option<&'static str>,
        body: Option<Vec<u8>>,
    ) -> Result<(StatusCode, Vec<u8>), ApiError> {
        let mut limit = REQUEST_TIMEOUT;
        let mut path = std::borrow::Cow::Borrowed(path);
        if let Some(fence) = self.fence.as_ref().filter(|_| method != Method::GET) {
            let left = fence.left().ok_or_else(ApiError::fenced)?;
            limit = limit.min(left);
            let sign = if path.contains('?') { '&' } else { '?' };
            path = format!("{path}{sign}timeout={}s", limit.as_secs()).into();
        }
        let mut request = Request::builder()
            .method(method)
            .uri(path.as_ref())
            .header(header::ACCEPT, "application/json");
        if let Some(content_type) = content_type {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        let request = request
            .body(body.map_or_else(Body::empty, Body::from))
            .map_err(|e| ApiError::unreachable(&e))?;
        self.answer(request, limit).await
    }

    async fn answer(
        &self,
        request: Request<Body>,
        limit: Duration,
    ) -> Result<(StatusCode, Vec<u8>), ApiError> {
        let exchange = async {
            let response = self
                .client
                .send(request)
                .await
                .map_err(|e| ApiError::of_client(&e))?;
            let status = response.status();
            let pause = pause_of(response.headers());
            let body = collect(response.into_body()).await?;
            Ok((status, pause, body))
        };
        let (status, pause, body) = timeout(limit, exchange)
            .await
            .map_err(|_| ApiError::slow(limit.as_secs()))??;
        if status.is_success() {
            Ok((status, body))
        } else {
            Err(ApiError::of_answer(status, &body).after(pause))
        }
    }
}

/// How long the API server asks to be left alone: `Retry-After` in seconds, which is the form that API servers send.
fn pause_of(headers: &http::HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

/// Collects a body up to the limit.
async fn collect(body: Body) -> Result<Vec<u8>, ApiError> {
    let mut stream = body.into_data_stream();
    let mut bytes = Vec::new();
    while let Some(frame) = stream.next().await {
        let frame = frame.map_err(|e| ApiError::of_client(&e))?;
        if bytes.len() + frame.len() > ANSWER_BYTES_MAX {
            return Err(ApiError::too_large());
        }
        bytes.extend_from_slice(&frame);
    }
    Ok(bytes)
}

fn parse(body: &[u8]) -> Result<Value, ApiError> {
    serde_json::from_slice(body).map_err(|e| ApiError::malformed(&e))
}

fn to_vec(value: &Value) -> Vec<u8> {
    // A `Value` has string keys only, so this cannot fail.
    serde_json::to_vec(value).unwrap_or_default()
}

/// Percent-encodes a path segment or query value.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
