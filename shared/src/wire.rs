//! What travels: the envelope, the clear messages of the exchange, and the messages inside sealed frames.
//!
//! ```text
//! envelope   "PN" | version | kind | flags | body          every MQTT payload and every file that leaves the ledger
//! frame body epoch (8) | counter | ciphertext and tag      kind Frame, see `seal`
//! plaintext  version | encoding | postcard of Up or Down   zstd if that is smaller; inflated only after the tag
//! ```
//!
//! **The serde shapes in `ids`, `set`, `bundle`, `keys` and here are format version 1 and frozen by
//! `tests/vectors/wire/v1`.** A new variant at the end of an enum is allowed: an older peer refuses it with
//! [`WireError::Malformed`] and keeps what it holds. Anything else is version 2, beside this one.

pub(crate) use envelope::{expect, header};

mod assembly;
mod at_rest;
mod carried;
mod envelope;
mod exchange;
mod message;
mod report;
mod room;

pub use assembly::{Assembly, AssemblyError, Progress, cut};
pub use at_rest::{decode_set, encode_set};
pub use carried::{
    Carried, CarriedError, Export, SealingKey, decode_carried, decode_export, encode_carried, encode_export,
};
pub use envelope::{
    Kind, VERSION, WireError, encoded_len, open_envelope, peek_epoch, peek_exchange, write_envelope,
};
pub use exchange::{X1, X2, X3};
pub use message::{
    Ack, Ask, Beat, BeatAck, Chunk, Down, Hello, InlineContent, InlineEncoding, Join, JoinRefused, Joined,
    Offer, Refused, ReportAck, Revoked, Up, Want, Welcome, What, decode_down, decode_up, descriptor,
    encode_down, encode_up,
};
pub use report::{
    ApiEnablement, ApplyState, Capacity, Health, ModelCount, ObjectReport, Report, TombstoneDone,
    TombstoneOutcome,
};
pub use room::{Addon, MemberApi, MemberNote, NodeRoom, Room, Taint};

/// Bytes as bytes instead of a sequence of numbers: the same form in postcard, without a call per byte.
mod as_bytes {
    use serde::de::{Error, Visitor};
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], s: S) -> Result<S::Ok, S::Error> {
        s.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u8>, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Vec<u8>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("bytes")
            }
            fn visit_bytes<E: Error>(self, v: &[u8]) -> Result<Vec<u8>, E> {
                Ok(v.to_vec())
            }
        }
        d.deserialize_bytes(Bytes)
    }
}
