//! Content negotiation: in which shape an answer is wanted, and which bodies are understood.

use hub_core::status_error::{Reason, StatusError};

/// Shape of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// The objects themselves.
    Json,
    /// A Table; the version of meta.k8s.io.
    Table(&'static str),
    /// PartialObjectMetadata.
    Partial,
}

/// One media range of an Accept header.
struct Range<'a> {
    media: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

fn ranges(accept: &str) -> impl Iterator<Item = Range<'_>> {
    accept.split(',').map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let parameters = parts.filter_map(|p| p.split_once('=')).collect();
        Range { media, parameters }
    })
}

impl Range<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.parameters
            .iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| *value)
    }

    fn is_json(&self) -> bool {
        matches!(self.media, "application/json" | "application/*" | "*/*")
    }
}

const TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// Chooses the shape of an answer of objects; the first acceptable range wins, as clients list them in their order.
///
/// # Errors
/// 406 if the client takes nothing that can be made.
pub(super) fn form(accept: Option<&str>) -> Result<Form, StatusError> {
    let Some(accept) = accept.filter(|a| !a.trim().is_empty()) else {
        return Ok(Form::Json);
    };
    let mut is_known = false;
    for range in ranges(accept) {
        if !range.is_json() {
            continue;
        }
        is_known = true;
        let is_meta = range.get("g").is_none_or(|g| g == "meta.k8s.io");
        match (range.get("as"), range.get("v")) {
            (None, _) => return Ok(Form::Json),
            (Some("Table"), Some("v1beta1")) if is_meta => return Ok(Form::Table("v1beta1")),
            (Some("Table"), Some("v1")) if is_meta => return Ok(Form::Table("v1")),
            (Some("PartialObjectMetadata" | "PartialObjectMetadataList"), Some("v1")) if is_meta => {
                return Ok(Form::Partial);
            }
            _ => {}
        }
    }
    if is_known {
        return Err(not_acceptable(TYPES));
    }
    let text = format!("406: Not Acceptable\n\nAvailable representations: {TYPES}");
    Err(StatusError::new(Reason::NotAcceptable, text).with_empty_details())
}

/// 406.
pub(super) fn not_acceptable(types: &str) -> StatusError {
    StatusError::new(
        Reason::NotAcceptable,
        format!("only the following media types are accepted: {types}"),
    )
}

/// Whether discovery is wanted aggregated, and in which version.
pub(super) fn aggregated(accept: Option<&str>) -> Option<&'static str> {
    ranges(accept?).find_map(|range| {
        let is_list =
            range.get("g") == Some("apidiscovery.k8s.io") && range.get("as") == Some("APIGroupDiscoveryList");
        match range.get("v") {
            Some("v2") if is_list => Some(Some("v2")),
            Some("v2beta1") if is_list => Some(Some("v2beta1")),
            _ if range.is_json() && range.get("as").is_none() => Some(None),
            _ => None,
        }
    })?
}

/// How a request body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyKind {
    /// JSON; also when nothing is said.
    Json,
    /// YAML.
    Yaml,
    /// Protobuf of Kubernetes.
    Protobuf,
}

/// Chooses the reader of a body.
///
/// # Errors
/// 415 for CBOR and everything else.
pub(super) fn body_kind(content_type: Option<&str>) -> Result<BodyKind, StatusError> {
    let media = content_type
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim();
    match media {
        "" | "application/json" | "*/*" => Ok(BodyKind::Json),
        "application/yaml" | "application/x-yaml" | "text/yaml" => Ok(BodyKind::Yaml),
        "application/vnd.kubernetes.protobuf" => Ok(BodyKind::Protobuf),
        _ => Err(unsupported(TYPES)),
    }
}

/// 415.
pub(super) fn unsupported(known: &str) -> StatusError {
    let text =
        format!("the body of the request was in an unknown format - accepted media types include: {known}");
    StatusError::new(Reason::UnsupportedMediaType, text)
}

/// Whether the client takes gzip.
pub(super) fn takes_gzip(accept_encoding: Option<&str>) -> bool {
    ranges(accept_encoding.unwrap_or_default()).any(|range| {
        range.media == "gzip"
            && range
                .get("q")
                .is_none_or(|q| q.parse::<f32>().is_ok_and(|q| q > 0.0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_possible_form_wins() {
        let table = [
            (None, Some(Form::Json)),
            (Some("*/*"), Some(Form::Json)),
            (
                Some("application/vnd.kubernetes.protobuf,application/json"),
                Some(Form::Json),
            ),
            (
                Some(
                    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,\
                     application/json",
                ),
                Some(Form::Table("v1")),
            ),
            (
                Some(
                    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
                     application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
                ),
                Some(Form::Partial),
            ),
            (Some("application/vnd.kubernetes.protobuf"), None),
            (Some("application/json;as=Table;v=v9;g=meta.k8s.io"), None),
        ];
        for (accept, expected) in table {
            assert_eq!(form(accept).ok(), expected, "{accept:?}");
        }
    }

    #[test]
    fn discovery_is_aggregated_on_request() {
        let v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        assert_eq!(aggregated(Some(v2)), Some("v2"));
        assert_eq!(aggregated(Some("application/json")), None);
        assert_eq!(aggregated(None), None);
        let beta = "application/json;v=v2beta1;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList";
        assert_eq!(aggregated(Some(beta)), Some("v2beta1"));
    }

    #[test]
    fn bodies_are_json_yaml_or_protobuf() {
        assert_eq!(
            body_kind(Some("application/json; charset=utf-8")),
            Ok(BodyKind::Json)
        );
        assert_eq!(body_kind(Some("application/yaml")), Ok(BodyKind::Yaml));
        let protobuf = body_kind(Some("application/vnd.kubernetes.protobuf"));
        assert_eq!(protobuf, Ok(BodyKind::Protobuf));
        for other in ["application/cbor", "text/plain"] {
            assert_eq!(body_kind(Some(other)).expect_err("unknown").code(), 415);
        }
    }

    #[test]
    fn gzip_is_offered_or_not() {
        assert!(takes_gzip(Some("deflate, gzip;q=0.5")));
        assert!(!takes_gzip(Some("gzip;q=0")));
        assert!(!takes_gzip(None));
    }
}
