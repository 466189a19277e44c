//! OverridePolicy and ClusterOverridePolicy: differences between the clusters.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fields::or_default;
use super::propagation::{ClusterAffinity, PolicyRef, ResourceSelector};

/// An override policy of either kind, read from its stored object.
#[derive(Clone, Debug, PartialEq)]
pub struct AnyOverridePolicy {
    /// Namespace (empty: a ClusterOverridePolicy) and name.
    pub reference: PolicyRef,
    /// The specification.
    pub spec: OverrideSpec,
}

impl AnyOverridePolicy {
    /// Reads a stored policy of either kind.
    ///
    /// # Errors
    /// The specification does not have the shape of the API; admission keeps such an object out of the store.
    pub fn read(object: &Value) -> Result<Self, serde_json::Error> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        Ok(Self {
            reference: PolicyRef {
                namespace: text(&metadata["namespace"]),
                name: text(&metadata["name"]),
            },
            spec: OverrideSpec::deserialize(&object["spec"])?,
        })
    }
}

/// Specification of an override policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OverrideSpec {
    /// What is overridden; empty: everything (of the namespace).
    #[serde(default, deserialize_with = "or_default")]
    pub resource_selectors: Vec<ResourceSelector>,
    /// The rules, applied in this order.
    #[serde(default)]
    pub override_rules: Option<Vec<RuleWithCluster>>,
    /// The older form of one rule: its clusters.
    #[serde(default)]
    pub target_cluster: Option<ClusterAffinity>,
    /// The older form of one rule: its changes.
    #[serde(default, deserialize_with = "or_default")]
    pub overriders: Overriders,
}

/// Changes for some clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleWithCluster {
    /// The clusters; absent: all.
    #[serde(default)]
    pub target_cluster: Option<ClusterAffinity>,
    /// The changes.
    #[serde(default, deserialize_with = "or_default")]
    pub overriders: Overriders,
}

/// Changes of one rule. They are applied in a fixed order: image, command, args, labels, annotations, field, plaintext.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Overriders {
    /// JSON patch operations on the object.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub plaintext: Vec<PlaintextOverrider>,
    /// Parts of image references.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub image_overrider: Vec<ImageOverrider>,
    /// Commands of containers.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub command_overrider: Vec<ArgsOverrider>,
    /// Arguments of containers.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub args_overrider: Vec<ArgsOverrider>,
    /// Labels of the object.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub labels_overrider: Vec<LabelOverrider>,
    /// Annotations of the object.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub annotations_overrider: Vec<LabelOverrider>,
    /// JSON or YAML documents inside string fields.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub field_overrider: Vec<FieldOverrider>,
}

/// Add, remove or replace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OverrideOperator {
    /// Create or extend.
    Add,
    /// Take away.
    Remove,
    /// Set what exists.
    Replace,
    /// Nothing was given; the change does nothing.
    #[default]
    #[serde(rename = "")]
    None,
}

/// One operation of a JSON patch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlaintextOverrider {
    /// JSON pointer into the object.
    #[serde(default, deserialize_with = "or_default")]
    pub path: String,
    /// The operation.
    #[serde(default, deserialize_with = "or_default")]
    pub operator: OverrideOperator,
    /// The value of add and replace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// A change of one part of image references.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageOverrider {
    /// Where the image is; absent: every container of the known workload kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicate: Option<ImagePredicate>,
    /// The part.
    pub component: ImageComponent,
    /// The operation.
    pub operator: OverrideOperator,
    /// Its value.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub value: String,
}

/// Where an image is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImagePredicate {
    /// Path from the root of the object, led by `/`.
    #[serde(default, deserialize_with = "or_default")]
    pub path: String,
}

/// Part of an image reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImageComponent {
    /// The host.
    Registry,
    /// The path.
    Repository,
    /// The tag, or the digest if there is no tag.
    Tag,
}

/// A change of a container's command or arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArgsOverrider {
    /// Name of the container.
    #[serde(default, deserialize_with = "or_default")]
    pub container_name: String,
    /// Add or remove.
    #[serde(default, deserialize_with = "or_default")]
    pub operator: OverrideOperator,
    /// What is added or removed.
    #[serde(default, deserialize_with = "or_default")]
    pub value: Vec<String>,
}

/// A change of labels or annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelOverrider {
    /// The operation.
    #[serde(default, deserialize_with = "or_default")]
    pub operator: OverrideOperator,
    /// Keys and values; only the keys matter for remove.
    #[serde(default, deserialize_with = "or_default")]
    pub value: BTreeMap<String, String>,
}

/// A change of a document inside a string field.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldOverrider {
    /// JSON pointer to the string.
    #[serde(default, deserialize_with = "or_default")]
    pub field_path: String,
    /// Operations on a JSON document.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub json: Vec<FieldPatch>,
    /// Operations on a YAML document.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub yaml: Vec<FieldPatch>,
}

/// One operation on a document inside a string.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldPatch {
    /// JSON pointer inside the document.
    #[serde(default, deserialize_with = "or_default")]
    pub sub_path: String,
    /// The operation.
    #[serde(default, deserialize_with = "or_default")]
    pub operator: OverrideOperator,
    /// The value of add and replace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}
