//! What intake and session may look up in the ledger while they decide. Looking up changes nothing.

use shared::bundle::SignedDescriptor;
use shared::ids::Digest;

/// A verified content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Its signed descriptor.
    pub descriptor: SignedDescriptor,
    /// Its canonical bytes.
    pub bytes: Vec<u8>,
}

impl Content {
    /// Digest of the bytes.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.descriptor.descriptor.digest
    }
}

/// The contents that the ledger holds, of the accepted set or kept for a coming one.
pub trait Holdings {
    /// Whether a content is held.
    fn has(&self, digest: &Digest) -> bool;

    /// A held content; none if it is not held or is damaged.
    fn content(&self, digest: &Digest) -> Option<Content>;
}
