//! JSON bodies whose `metadata.resourceVersion` is filled in late.
//!
//! A revision is known only inside the writer, and serialising there would make every writer wait. So a body is
//! serialised by the caller with an empty resourceVersion whose place is remembered; writer and loader only
//! insert digits.

use std::collections::BTreeMap;

use bytes::Bytes;
use hub_core::limits::MAX_OBJECT_DEPTH;
use serde::Deserialize;
use serde_json::Value;

use super::object::Revision;

/// A serialised object without its revision.
#[derive(Debug, Clone)]
pub(super) struct Body {
    /// JSON with `"resourceVersion":""`.
    pub(super) json: Vec<u8>,
    /// Offset in `json` where the digits belong.
    pub(super) revision_at: usize,
    pub(super) uid: String,
    pub(super) labels: BTreeMap<String, String>,
}

/// Why a value cannot be a body.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum BodyError {
    /// Not a JSON object.
    #[error("the value is not a JSON object")]
    NotAnObject,
    /// `metadata` is missing or not an object.
    #[error("metadata is missing or is not an object")]
    NoMetadata,
    /// Nested so deeply that no reader would take it back.
    #[error("arrays and objects are nested deeper than {MAX_OBJECT_DEPTH}")]
    TooDeep,
    /// Stored bytes that do not parse.
    #[error("the stored JSON does not parse: {0}")]
    Unreadable(String),
}

#[derive(Deserialize)]
struct Head {
    metadata: HeadMetadata,
}

#[derive(Deserialize)]
struct HeadMetadata {
    #[serde(default)]
    uid: Option<String>,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
}

impl Body {
    /// Serialises a value; its own resourceVersion is dropped.
    pub(super) fn of_value(value: &Value) -> Result<Body, BodyError> {
        let object = value.as_object().ok_or(BodyError::NotAnObject)?;
        let metadata = object
            .get("metadata")
            .and_then(Value::as_object)
            .ok_or(BodyError::NoMetadata)?;
        if hub_core::patch::depth(value) > MAX_OBJECT_DEPTH {
            return Err(BodyError::TooDeep);
        }
        let mut json = Vec::with_capacity(1024);
        let mut revision_at = 0;
        json.push(b'{');
        // What an object is comes first, so that a list can leave it out of its items.
        let is_head = |key: &&str| matches!(*key, "apiVersion" | "kind");
        let head = ["apiVersion", "kind"]
            .into_iter()
            .filter_map(|key| Some((key, object.get(key)?)));
        let rest = object.iter().map(|(key, field)| (key.as_str(), field));
        let members = head.chain(rest.filter(|(key, _)| !is_head(key)));
        for (index, (key, field)) in members.enumerate() {
            separate(&mut json, index, key);
            if key != "metadata" {
                write_value(&mut json, field);
                continue;
            }
            json.extend_from_slice(b"{\"resourceVersion\":\"");
            revision_at = json.len();
            json.push(b'"');
            for (key, field) in metadata.iter().filter(|(key, _)| *key != "resourceVersion") {
                separate(&mut json, 1, key);
                write_value(&mut json, field);
            }
            json.push(b'}');
        }
        json.push(b'}');
        let uid = metadata
            .get("uid")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let labels = metadata
            .get("labels")
            .and_then(Value::as_object)
            .map(|labels| {
                labels
                    .iter()
                    .filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())))
                    .collect()
            })
            .unwrap_or_default();
        Ok(Body {
            json,
            revision_at,
            uid,
            labels,
        })
    }

    /// Reads back bytes that [`Body::of_value`] once made.
    pub(super) fn of_stored(json: Vec<u8>, revision_at: usize) -> Result<Body, BodyError> {
        if revision_at > json.len() {
            return Err(BodyError::Unreadable(
                "the place of the revision lies behind the end".to_owned(),
            ));
        }
        let head: Head =
            serde_json::from_slice(&json).map_err(|error| BodyError::Unreadable(error.to_string()))?;
        Ok(Body {
            json,
            revision_at,
            uid: head.metadata.uid.unwrap_or_default(),
            labels: head.metadata.labels.unwrap_or_default(),
        })
    }

    /// The final JSON at a revision.
    pub(super) fn at(&self, revision: Revision) -> Bytes {
        let digits = revision.to_string();
        let mut bytes = Vec::with_capacity(self.json.len() + digits.len());
        bytes.extend_from_slice(&self.json[..self.revision_at]);
        bytes.extend_from_slice(digits.as_bytes());
        bytes.extend_from_slice(&self.json[self.revision_at..]);
        bytes.into()
    }
}

fn separate(json: &mut Vec<u8>, index: usize, key: &str) {
    if index > 0 {
        json.push(b',');
    }
    write_value(json, &Value::String(key.to_owned()));
    json.push(b':');
}

fn write_value(json: &mut Vec<u8>, value: &Value) {
    serde_json::to_writer(json, value).expect("a JSON value serialises and a vector takes all bytes");
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_revision_lands_in_the_metadata_and_nothing_else_changes() {
        let value = json!({"kind": "ConfigMap", "metadata": {"name": "a\"b", "resourceVersion": "7",
            "uid": "u", "labels": {"x": "y"}}, "data": {"metadata": "{\"resourceVersion\":\"1\"}"}});
        let body = Body::of_value(&value).unwrap();
        let mut expected = value.clone();
        expected["metadata"]["resourceVersion"] = json!("4711");
        assert_eq!(
            serde_json::from_slice::<Value>(&body.at(Revision(4711))).unwrap(),
            expected
        );
        let again = Body::of_stored(body.json.clone(), body.revision_at).unwrap();
        assert_eq!(again.at(Revision(4711)), body.at(Revision(4711)));
        assert_eq!((again.uid.as_str(), again.labels["x"].as_str()), ("u", "y"));
    }

    #[test]
    fn empty_metadata_and_wrong_shapes() {
        let body = Body::of_value(&json!({"metadata": {}})).unwrap();
        assert_eq!(
            &body.at(Revision(1))[..],
            br#"{"metadata":{"resourceVersion":"1"}}"#
        );
        assert_eq!(Body::of_value(&json!([])).unwrap_err(), BodyError::NotAnObject);
        let nested = |depth: usize| {
            let inner = (2..depth).fold(json!({}), |inner, _| json!([inner]));
            json!({"metadata": {}, "a": inner})
        };
        assert_eq!(
            Body::of_value(&nested(MAX_OBJECT_DEPTH + 1)).unwrap_err(),
            BodyError::TooDeep
        );
        assert!(Body::of_value(&nested(MAX_OBJECT_DEPTH)).is_ok());
        assert_eq!(
            Body::of_value(&json!({"metadata": 1})).unwrap_err(),
            BodyError::NoMetadata
        );
    }
}
