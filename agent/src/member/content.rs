//! Looking around an object before it is touched: what a Namespace or CRD contains, and who scales a workload.

use serde::Deserialize;
use serde_json::Value;

use agent_core::order;
use shared::ids::ObjectKey;

use super::api::Api;
use super::errors::ApiError;
use super::kinds::{self, Kinds, Resource};
use crate::limits::PAGE;

/// Accept header for lists that carry metadata alone.
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

/// An object found inside another.
#[derive(Debug)]
pub struct Inside {
    /// Its uid.
    pub uid: String,
    /// Kind, namespace and name for people.
    pub text: String,
}

#[derive(Deserialize)]
struct Item {
    metadata: ItemMeta,
}

#[derive(Deserialize)]
struct ItemMeta {
    name: String,
    #[serde(default)]
    namespace: String,
    uid: String,
    #[serde(default, rename = "ownerReferences")]
    owners: Vec<Owner>,
}

#[derive(Deserialize)]
struct Owner {
    #[serde(default)]
    controller: bool,
}

/// The first object inside the Namespace or under the CRD `key` that is neither ours nor made by a controller;
/// none for any other kind of object, or when all of its content is accounted for.
///
/// # Errors
/// When any list fails: what cannot be looked at must not pass as empty.
pub async fn foreign_content(
    api: &Api,
    key: &ObjectKey,
    kinds: &Kinds,
    is_ours: impl Fn(&Inside) -> bool,
) -> Result<Option<String>, ApiError> {
    let (resources, namespace) = if order::is_namespace(key) {
        (
            kinds::all(api)
                .await?
                .into_iter()
                .filter(|r| r.namespaced)
                .collect(),
            key.name.as_str(),
        )
    } else if order::is_definition(key) {
        (defined(api, key, kinds).await?, "")
    } else {
        return Ok(None);
    };
    for resource in resources {
        if is_derived(&resource) {
            continue;
        }
        let found = first_foreign(api, &resource, namespace, &is_ours).await;
        match found {
            Err(e) if e.is_kind_absent() || e.status == Some(405) => {}
            Ok(None) => {}
            Ok(found) => return Ok(found),
            Err(e) => return Err(e),
        }
    }
    Ok(None)
}

/// Kinds whose objects the system makes and that nobody would miss.
fn is_derived(resource: &Resource) -> bool {
    matches!(
        (resource.group(), resource.kind.as_str()),
        ("", "Event" | "Endpoints") | ("events.k8s.io", "Event") | ("metrics.k8s.io", _)
    )
}

/// Objects that every namespace gets by itself.
fn is_standard(resource: &Resource, name: &str) -> bool {
    matches!(
        (resource.group(), resource.kind.as_str(), name),
        ("", "ServiceAccount", "default")
            | ("", "ConfigMap", "kube-root-ca.crt" | "openshift-service-ca.crt")
    )
}

async fn first_foreign(
    api: &Api,
    resource: &Resource,
    namespace: &str,
    is_ours: &impl Fn(&Inside) -> bool,
) -> Result<Option<String>, ApiError> {
    let mut next = None;
    loop {
        let query = format!("limit={PAGE}");
        let page = api
            .page::<Item>(
                &resource.path(namespace),
                &query,
                next.as_deref(),
                Some(METADATA_ONLY),
            )
            .await?;
        for Item { metadata } in page.items {
            let text = format!("{} {}/{}", resource.kind, metadata.namespace, metadata.name);
            let made = metadata.owners.iter().any(|o| o.controller) || is_standard(resource, &metadata.name);
            let inside = Inside {
                uid: metadata.uid,
                text,
            };
            if !made && !is_ours(&inside) {
                return Ok(Some(inside.text));
            }
        }
        next = page.metadata.next.filter(|n| !n.is_empty());
        if next.is_none() {
            return Ok(None);
        }
    }
}

/// The resource that a CRD defines, in its storage version.
async fn defined(api: &Api, key: &ObjectKey, kinds: &Kinds) -> Result<Vec<Resource>, ApiError> {
    let definition = kinds
        .find(api, "apiextensions.k8s.io/v1", "CustomResourceDefinition")
        .await?;
    let path = format!("{}/{}", definition.path(""), super::api::escape(&key.name));
    let object: Value = match api.document(&path).await {
        Err(e) if e.is_object_absent() => return Ok(Vec::new()),
        other => other?,
    };
    let text =
        |value: &Value, pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let versions = object
        .pointer("/spec/versions")
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    let served = versions
        .iter()
        .find(|v| v.get("served") == Some(&Value::Bool(true)));
    let (Some(group), Some(plural), Some(version)) = (
        text(&object, "/spec/group"),
        text(&object, "/spec/names/plural"),
        served.and_then(|v| text(v, "/name")),
    ) else {
        return Ok(Vec::new());
    };
    Ok(vec![Resource {
        api_version: format!("{group}/{version}"),
        kind: text(&object, "/spec/names/kind").unwrap_or_default(),
        plural,
        namespaced: text(&object, "/spec/scope").as_deref() == Some("Namespaced"),
    }])
}

#[derive(Deserialize)]
struct Autoscaler {
    spec: AutoscalerSpec,
}

#[derive(Deserialize)]
struct AutoscalerSpec {
    #[serde(rename = "scaleTargetRef")]
    target: ScaleTarget,
}

#[derive(Deserialize)]
struct ScaleTarget {
    kind: String,
    name: String,
}

/// Whether a HorizontalPodAutoscaler in the namespace targets this object.
///
/// # Errors
/// When the list fails for another reason than the kind being absent.
pub async fn autoscaler_targets(
    api: &Api,
    namespace: &str,
    kind: &str,
    name: &str,
) -> Result<bool, ApiError> {
    let path = format!(
        "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers",
        super::api::escape(namespace)
    );
    let mut next = None;
    loop {
        let page = match api
            .page::<Autoscaler>(&path, &format!("limit={PAGE}"), next.as_deref(), None)
            .await
        {
            Err(e) if e.is_kind_absent() => return Ok(false),
            other => other?,
        };
        if page
            .items
            .iter()
            .any(|a| a.spec.target.kind == kind && a.spec.target.name == name)
        {
            return Ok(true);
        }
        next = page.metadata.next.filter(|n| !n.is_empty());
        if next.is_none() {
            return Ok(false);
        }
    }
}
