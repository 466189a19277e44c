//! Encoded contents and sets, shared by all ships: the same edit of one content is encoded once for 1,000 clusters.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use shared::bundle::{self, Descriptor, Encoding};
use shared::ids::{Digest, KeyNumber, Signature};
use shared::keys::HubKeys;
use shared::limits;

/// What is encoded: a content or set by digest, with a base or none, or raw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Want {
    Plain(Digest),
    Prefixed { to: Digest, from: Digest },
    Raw(Digest),
}

/// An encoding with its SHA-256.
#[derive(Clone, Debug)]
pub(super) struct Ready {
    pub(super) encoding: Encoding,
    pub(super) bytes: Arc<[u8]>,
    pub(super) sha256: Digest,
    /// Length of what was encoded.
    pub(super) length: u32,
}

/// Signatures kept; beyond, all are made again when they are needed.
const SIGNATURES_KEPT: usize = 8_192;

/// At most 16 MiB of encodings, oldest out first.
#[derive(Debug, Default)]
pub struct Encodings {
    ready: HashMap<Want, Ready>,
    order: VecDeque<Want>,
    bytes: usize,
    /// Signed descriptors: once per content, however many clusters it goes to.
    signed: HashMap<(Digest, KeyNumber), Signature>,
}

impl Encodings {
    /// The encoding of a wish, made from `content` if it is not there. `None` only if zstd has no memory.
    pub(super) fn get(&mut self, want: Want, content: &[u8], base: Option<&[u8]>) -> Option<Ready> {
        if let Some(ready) = self.ready.get(&want) {
            return Some(ready.clone());
        }
        let encoded = match (want, base) {
            (Want::Prefixed { from, .. }, Some(base)) => bundle::encode(content, Some((&from, base))).ok()?,
            (Want::Raw(_), _) => bundle::Encoded {
                encoding: Encoding::Raw,
                bytes: content.to_vec(),
            },
            _ => bundle::encode(content, None).ok()?,
        };
        let ready = Ready {
            encoding: encoded.encoding,
            sha256: Digest::of(&encoded.bytes),
            bytes: encoded.bytes.into(),
            length: u32::try_from(content.len()).ok()?,
        };
        self.keep(want, ready.clone());
        Some(ready)
    }

    /// Key number and signature of a content's descriptor. `None` only if it is over the limit of a content.
    pub(super) fn sign(
        &mut self,
        digest: Digest,
        length: usize,
        keys: &HubKeys,
    ) -> Option<(KeyNumber, Signature)> {
        let newest = keys.number();
        if let Some(signature) = self.signed.get(&(digest, newest)) {
            return Some((newest, *signature));
        }
        let signed = Descriptor::sign_digest(digest, length, keys).ok()?;
        if self.signed.len() >= SIGNATURES_KEPT {
            self.signed.clear();
        }
        let number = signed.descriptor.key_number;
        self.signed.insert((digest, number), signed.signature);
        Some((number, signed.signature))
    }

    /// As [`Self::get`], only if it is there already.
    pub(super) fn peek(&self, want: &Want) -> Option<Ready> {
        self.ready.get(want).cloned()
    }

    fn keep(&mut self, want: Want, ready: Ready) {
        if ready.bytes.len() > limits::ENCODING_CACHE_BYTES_MAX / 2 {
            return;
        }
        self.bytes += ready.bytes.len();
        self.order.push_back(want);
        self.ready.insert(want, ready);
        while self.bytes > limits::ENCODING_CACHE_BYTES_MAX {
            let Some(oldest) = self.order.pop_front() else {
                return;
            };
            if let Some(gone) = self.ready.remove(&oldest) {
                self.bytes -= gone.bytes.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_within_its_bytes() {
        let mut cache = Encodings::default();
        let mut content: Vec<u8> = (0..1u32 << 20)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        for i in 0..40u8 {
            content[0] = i;
            assert!(cache.get(Want::Raw(Digest([i; 32])), &content, None).is_some());
        }
        assert!(cache.bytes <= limits::ENCODING_CACHE_BYTES_MAX);
        assert_eq!(
            cache.bytes,
            cache.ready.values().map(|r| r.bytes.len()).sum::<usize>()
        );
        assert!(cache.peek(&Want::Raw(Digest([39; 32]))).is_some());
        assert!(cache.peek(&Want::Raw(Digest([0; 32]))).is_none());
    }
}
