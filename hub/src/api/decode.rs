//! Reading of request bodies into checked objects.

use super::negotiate::{self, BodyKind};
use super::{limits, yaml};
use axum::body::Body;
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hub_core::admission;
use hub_core::protobuf::{self, ProtobufError};
use hub_core::schema;
use hub_core::status_error::{Reason, StatusError};
use hub_core::strict::{self, Findings};
use hub_core::types::{Resource, TypeId, TypeTable};
use serde_json::Value;

/// What to do about unknown and duplicate fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Validation {
    Strict,
    Warn,
    Ignore,
}

impl Validation {
    /// Reads `fieldValidation`; the default of the server is Warn.
    ///
    /// # Errors
    /// 422 for another word.
    pub(super) fn parse(text: Option<&str>, options_kind: &str) -> Result<Validation, StatusError> {
        match text {
            None | Some("" | "Warn") => Ok(Validation::Warn),
            Some("Strict") => Ok(Validation::Strict),
            Some("Ignore") => Ok(Validation::Ignore),
            Some(other) => {
                let known = ["", "Ignore", "Strict", "Warn"];
                let cause = hub_core::status_error::Cause::not_supported(
                    "fieldValidation",
                    &Value::from(other),
                    &known,
                );
                Err(StatusError::invalid("meta.k8s.io", options_kind, "", vec![cause]))
            }
        }
    }
}

/// Reads a body within the limits of size and time.
///
/// # Errors
/// 413 if it is larger, 504 if it does not arrive, 400 if the connection breaks.
pub(super) async fn read(body: Body) -> Result<Bytes, StatusError> {
    let collecting = Limited::new(body, limits::BODY_BYTES).collect();
    match tokio::time::timeout(limits::BODY_TIMEOUT, collecting).await {
        Err(_elapsed) => {
            let text = "Timeout: the body of the request did not arrive in time";
            Err(StatusError::new(Reason::Timeout, text))
        }
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(StatusError::new(
            Reason::RequestEntityTooLarge,
            format!("Request entity too large: limit is {}", limits::BODY_BYTES),
        )),
        Ok(Err(error)) => Err(StatusError::bad_request(format!(
            "the body could not be read: {error}"
        ))),
    }
}

/// What Go's parser says about broken JSON where both say the same.
pub(super) fn go_json(error: &serde_json::Error) -> String {
    if error.is_eof() {
        "unexpected end of JSON input".to_owned()
    } else {
        error.to_string()
    }
}

/// Parses a body of the given content type into JSON.
///
/// # Errors
/// 415 for a format that is not understood, 400 for text that is not of its format.
pub(super) fn parse(headers: &HeaderMap, body: &[u8], findings: &mut Findings) -> Result<Value, StatusError> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
    match negotiate::body_kind(content_type)? {
        BodyKind::Json => strict::parse(body, findings)
            .map_err(|why| StatusError::bad_request(format!("the body of the request is not JSON: {why}"))),
        BodyKind::Yaml => {
            let text = std::str::from_utf8(body).map_err(|why| {
                StatusError::bad_request(format!("the body of the request is not text: {why}"))
            })?;
            let read = yaml::read(text).map_err(|why| {
                StatusError::bad_request(format!("the body of the request is not YAML: {why}"))
            })?;
            findings.duplicate.extend(read.duplicate);
            Ok(read.value)
        }
        BodyKind::Protobuf => protobuf::decode(TypeTable::built_in(), body).map_err(|error| match error {
            ProtobufError::UnknownKind { .. } => {
                StatusError::new(Reason::UnsupportedMediaType, error.to_string())
            }
            error => StatusError::bad_request(format!("the body of the request is not protobuf: {error}")),
        }),
    }
}

/// Parses a body that must be of a kind.
///
/// # Errors
/// As [`parse`].
pub(super) fn parse_as(
    kind: &str,
    headers: &HeaderMap,
    body: &[u8],
    findings: &mut Findings,
) -> Result<Value, StatusError> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
    if negotiate::body_kind(content_type) != Ok(BodyKind::Json) {
        return parse(headers, body, findings);
    }
    strict::parse(body, findings).map_err(|why| {
        StatusError::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: {} \
             ({})",
            go_json(&why),
            summary(body)
        ))
    })
}

/// The beginning of a body for a message.
fn summary(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    let more = if body.len() > SHOWN { " ..." } else { "" };
    let start = &body[..body.len().min(SHOWN)];
    match start.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(start)),
        Some(_) => {
            let hex: String = start.iter().map(|b| format!("{b:02x}")).collect();
            format!("{hex}{more}")
        }
    }
}

/// Checks an object of a resource: kind, types, unknown fields, schema. Gives the warnings for the answer.
///
/// # Errors
/// 400 or 422, as the API server words them.
pub(super) fn check(
    table: &TypeTable,
    resource: &Resource,
    object: &mut Value,
    findings: Findings,
    validation: Validation,
) -> Result<Vec<String>, StatusError> {
    admission::check_kind(resource, object)?;
    if let Some(custom) = &resource.custom {
        let mut findings = findings;
        custom
            .take(table, resource.of_type, object, &mut findings)
            .map_err(|why| misfit(&resource.kind, &resource.version, &why))?;
        return judge(&resource.kind, &resource.version, &findings, validation);
    }
    let warnings = check_type(
        table,
        resource.of_type,
        &resource.kind,
        &resource.version,
        object,
        findings,
        validation,
    )?;
    let causes = schema::check(table, resource.of_type, object);
    if causes.is_empty() {
        return Ok(warnings);
    }
    let name = admission::name_of(object);
    Err(StatusError::invalid(
        &resource.group,
        &resource.kind,
        name,
        causes,
    ))
}

/// Checks an object of a type: types and unknown fields.
///
/// # Errors
/// 400, as the API server words it.
pub(super) fn check_type(
    table: &TypeTable,
    of: TypeId,
    kind: &str,
    version: &str,
    object: &mut Value,
    mut findings: Findings,
    validation: Validation,
) -> Result<Vec<String>, StatusError> {
    strict::check(table, of, object, &mut findings).map_err(|why| misfit(kind, version, &why))?;
    judge(kind, version, &findings, validation)
}

/// 400: a body that is none of its kind.
fn misfit(kind: &str, version: &str, why: &str) -> StatusError {
    StatusError::bad_request(format!(
        "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
    ))
}

/// What unknown and duplicate fields come to: warnings, a refusal or nothing.
fn judge(
    kind: &str,
    version: &str,
    findings: &Findings,
    validation: Validation,
) -> Result<Vec<String>, StatusError> {
    match validation {
        Validation::Strict if !findings.is_empty() => {
            let all: Vec<&str> = findings.all().map(String::as_str).collect();
            let why = format!("strict decoding error: {}", all.join(", "));
            Err(misfit(kind, version, &why))
        }
        Validation::Warn => Ok(findings.all().cloned().collect()),
        Validation::Strict | Validation::Ignore => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn decoded(
        content_type: &str,
        body: &str,
        validation: Validation,
    ) -> Result<(Value, Vec<String>), StatusError> {
        let table = TypeTable::built_in();
        let resource = table.resource("", "v1", "configmaps").expect("configmaps");
        let mut headers = HeaderMap::new();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_str(content_type).expect("a header"),
        );
        let mut findings = Findings::default();
        let mut object = parse(&headers, body.as_bytes(), &mut findings)?;
        let warnings = check(table, resource, &mut object, findings, validation)?;
        Ok((object, warnings))
    }

    #[test]
    fn json_and_yaml_are_read() {
        let expected = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}});
        let json = decoded("application/json", "{\"data\":{\"a\":\"1\"}}", Validation::Strict).expect("JSON");
        let yaml = decoded("application/yaml", "data:\n  a: \"1\"\n", Validation::Strict).expect("YAML");
        assert_eq!((json.0, yaml.0), (expected.clone(), expected));
        assert_eq!(
            decoded("application/vnd.kubernetes.protobuf", "k8s", Validation::Warn)
                .expect_err("no")
                .code(),
            400
        );
        assert_eq!(
            decoded("application/json", "{", Validation::Warn)
                .expect_err("no")
                .code(),
            400
        );
    }

    #[test]
    fn unknown_and_duplicate_fields_follow_the_validation() {
        let body = "{\"dat\":{},\"kind\":\"ConfigMap\",\"kind\":\"ConfigMap\"}";
        let error = decoded("application/json", body, Validation::Strict).expect_err("strict");
        assert_eq!(
            error.message,
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \
             \"dat\", duplicate field \"kind\""
        );
        let (_, warnings) = decoded("application/json", body, Validation::Warn).expect("warned");
        assert_eq!(warnings, ["unknown field \"dat\"", "duplicate field \"kind\""]);
        assert_eq!(
            decoded("application/json", body, Validation::Ignore)
                .expect("ignored")
                .1,
            Vec::<String>::new()
        );
        assert_eq!(
            Validation::parse(Some("Maybe"), "CreateOptions")
                .expect_err("unknown")
                .code(),
            422
        );
    }
}
