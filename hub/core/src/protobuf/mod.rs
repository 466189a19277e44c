//! Protobuf bodies of built-in kinds (`application/vnd.kubernetes.protobuf`), read and written by the type table: field
//! numbers and pointers come from the Go struct tags in it. Reading takes untrusted bytes: depth and number of values
//! are bounded, and nothing panics.

mod read;
mod special;
pub(crate) mod wire;
mod write;

pub use read::decode;
pub use write::encode;

use crate::limits::{MAX_PROTOBUF_DEPTH, MAX_PROTOBUF_VALUES};

/// What every body begins with.
const MAGIC: [u8; 4] = *b"k8s\0";

/// Why a body cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// It does not begin as one.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoMagic,
    /// It ends within a field.
    #[error("unexpected EOF")]
    CutShort,
    /// A number of more than 64 bits.
    #[error("proto: integer overflow")]
    Varint,
    /// Groups and what is no wire type.
    #[error("proto: illegal wireType {0}")]
    WireType(u64),
    /// A field that is written in another way than its type says.
    #[error("proto: wrong wireType for field {0}")]
    Field(String),
    /// Text that is not UTF-8, or JSON that is none.
    #[error("proto: field {0} is malformed")]
    Malformed(String),
    /// The content is encoded once more.
    #[error("content encoding {0:?} is not understood")]
    Encoding(String),
    /// A kind without protobuf.
    #[error("the body is a {kind} of {api_version:?}, which has no protobuf here")]
    UnknownKind {
        /// Its version.
        api_version: String,
        /// Its kind.
        kind: String,
    },
    /// Nested too deeply.
    #[error("nested deeper than {MAX_PROTOBUF_DEPTH}")]
    TooDeep,
    /// More values than a body may have.
    #[error("more than {MAX_PROTOBUF_VALUES} values")]
    TooMany,
}

#[cfg(test)]
mod tests;
