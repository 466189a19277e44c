//! Answers: JSON, errors as Status, warnings, compression.

use super::limits;
use axum::body::Body;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER, VARY, WARNING, WWW_AUTHENTICATE,
};
use http::{HeaderValue, Response, StatusCode};
use hub_core::status_error::{Reason, StatusError};
use serde_json::Value;
use std::io::Write as _;

/// What a path without a handler is answered with, as upstream.
pub(super) fn no_page() -> Response<Body> {
    let text = Bytes::from_static(b"404 page not found\n");
    bytes(StatusCode::NOT_FOUND, "text/plain; charset=utf-8", text)
}

/// An answer of JSON bytes.
pub(super) fn bytes(code: StatusCode, content_type: &'static str, body: Bytes) -> Response<Body> {
    let mut answer = Response::new(Body::from(body));
    *answer.status_mut() = code;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    answer
}

/// An answer of a JSON value.
pub(super) fn json(code: StatusCode, value: &Value) -> Response<Body> {
    bytes(code, "application/json", Bytes::from(value.to_string()))
}

/// A refusal.
pub(super) fn error(error: &StatusError) -> Response<Body> {
    let code = StatusCode::from_u16(error.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = json(code, &error.to_value());
    if error.reason == Reason::Unauthorized {
        answer
            .headers_mut()
            .insert(WWW_AUTHENTICATE, HeaderValue::from_static("Certificate"));
    }
    let seconds = error.details.as_ref().map_or(0, |d| d.retry_after_seconds);
    if seconds > 0 {
        answer
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    answer
}

/// Adds `Warning` headers: code 299, text quoted, within the limits that clients have.
pub(super) fn warn(answer: &mut Response<Body>, warnings: &[String]) {
    let mut room = limits::WARNINGS_BYTES;
    for warning in warnings {
        let mut text = String::new();
        for c in warning.chars().filter(|c| !c.is_control() && c.is_ascii()) {
            if matches!(c, '"' | '\\') {
                text.push('\\');
            }
            text.push(c);
            if text.len() >= limits::WARNING_BYTES {
                break;
            }
        }
        let Some(left) = room.checked_sub(text.len()) else {
            return;
        };
        room = left;
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{text}\"")) {
            answer.headers_mut().append(WARNING, value);
        }
    }
}

/// Compresses a large answer for a client that takes gzip. Runs off the async threads: a list may have megabytes.
pub(super) async fn compress(answer: Response<Body>, body: Bytes) -> Response<Body> {
    let (mut head, _) = answer.into_parts();
    let packed = tokio::task::spawn_blocking(move || gzip(&body).unwrap_or_default())
        .await
        .unwrap_or_default();
    if packed.is_empty() {
        return error(&StatusError::internal("the answer could not be compressed"));
    }
    head.headers
        .insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    head.headers
        .insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    Response::from_parts(head, Body::from(packed))
}

fn gzip(body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 8), Compression::fast());
    encoder.write_all(body)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_quoted_and_bounded() {
        let mut answer = json(StatusCode::OK, &Value::Null);
        let many: Vec<String> = (0..100).map(|_| "x".repeat(1000)).collect();
        warn(&mut answer, &["unknown field \"spec.x\"".to_owned()]);
        warn(&mut answer, &many);
        let texts: Vec<&str> = answer
            .headers()
            .get_all(WARNING)
            .iter()
            .filter_map(|v| v.to_str().ok())
            .collect();
        assert_eq!(texts[0], "299 - \"unknown field \\\"spec.x\\\"\"");
        assert_eq!(texts.len(), 1 + limits::WARNINGS_BYTES / limits::WARNING_BYTES);
        assert!(texts.iter().all(|t| t.len() <= limits::WARNING_BYTES + 10));
    }

    #[test]
    fn errors_say_when_to_come_back() {
        let mut busy = StatusError::new(Reason::TooManyRequests, "busy");
        busy.details = Some(Box::new(hub_core::status_error::Details {
            retry_after_seconds: 1,
            ..Default::default()
        }));
        let answer = error(&busy);
        assert_eq!(answer.status(), 429);
        assert_eq!(answer.headers().get(RETRY_AFTER), Some(&HeaderValue::from(1)));
    }
}
