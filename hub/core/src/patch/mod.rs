//! The patch kinds of the API: JSON patch (RFC 6902), JSON merge patch (RFC 7386), strategic merge patch. Server-side
//! apply is in [`crate::ownership`].

pub mod json;
pub mod merge;
pub mod strategic;

use serde_json::Value;

/// How deep arrays and objects are nested in a document.
pub fn depth(document: &Value) -> usize {
    match document {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Why a patch cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch itself is broken: 400.
    #[error("{0}")]
    Malformed(String),
    /// It is well-formed but does not fit the object (failed test, missing path): 422.
    #[error("{0}")]
    DoesNotFit(String),
    /// An operation of a JSON patch that fails or is none: 422 without a word about it, as upstream.
    #[error("an operation of the patch fails")]
    Refused,
    /// What upstream answers with 500: a list item without its key, a directive that is none.
    #[error("{0}")]
    Internal(String),
    /// More operations than allowed: 413.
    #[error("{0}")]
    TooLarge(String),
}
