//! Bundles: the content of a work, addressed by digest, and its encodings on the way.
//!
//! A bundle's identity is the SHA-256 of its canonical bytes; the descriptor is signed once per content, so a
//! bundle verifies alone, offline. Encodings are not signed: whatever arrives is inflated within a bound and
//! compared with the digest.

mod encoding;

pub use encoding::{EncodeError, Encoded, Encoding, compress, compress_lightly, decode, encode, inflate};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ids::{Digest, FleetId, KeyNumber, Signature};
use crate::keys::{HubKeys, KeyError, KeyRing};
use crate::layout::Layout;
use crate::limits;
use crate::reason::Reason;

/// What is signed about a content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    /// The fleet.
    pub fleet: FleetId,
    /// SHA-256 of the canonical bytes.
    pub digest: Digest,
    /// Length of the canonical bytes.
    pub length: u32,
    /// Number of the signing key.
    pub key_number: KeyNumber,
}

/// A descriptor with its signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedDescriptor {
    /// What is signed.
    pub descriptor: Descriptor,
    /// By set-signing key `descriptor.key_number`.
    pub signature: Signature,
}

/// Why content is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BundleError {
    /// Canonical bytes over the limit.
    #[error("canonical content of {0} bytes is larger than {max}", max = limits::CONTENT_BYTES_MAX)]
    TooLarge(usize),
    /// Digest or length is not that of the bytes.
    #[error("the bytes are not the content that the descriptor names")]
    Mismatch,
    /// The signature.
    #[error(transparent)]
    Key(#[from] KeyError),
}

impl BundleError {
    /// The stable code.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::TooLarge(_) => Reason::ContentTooLarge,
            Self::Mismatch => Reason::DigestMismatch,
            Self::Key(error) => error.reason(),
        }
    }
}

impl Descriptor {
    fn layout(&self) -> Layout {
        let mut layout = Layout::new("pinnace/1 content");
        layout
            .bytes(&self.fleet.0)
            .bytes(&self.digest.0)
            .number(u64::from(self.length))
            .number(u64::from(self.key_number.0));
        layout
    }

    /// Describes and signs canonical bytes with the newest key.
    ///
    /// # Errors
    /// [`BundleError::TooLarge`].
    pub fn sign(content: &[u8], keys: &HubKeys) -> Result<SignedDescriptor, BundleError> {
        Self::sign_digest(Digest::of(content), content.len(), keys)
    }

    /// As [`Self::sign`], for content whose digest is known to be right.
    ///
    /// # Errors
    /// [`BundleError::TooLarge`].
    pub fn sign_digest(
        digest: Digest,
        length: usize,
        keys: &HubKeys,
    ) -> Result<SignedDescriptor, BundleError> {
        let checked = u32::try_from(length)
            .ok()
            .filter(|_| length <= limits::CONTENT_BYTES_MAX);
        let length = checked.ok_or(BundleError::TooLarge(length))?;
        let descriptor = Self {
            fleet: keys.fleet(),
            digest,
            length,
            key_number: keys.number(),
        };
        let signature = keys.signer.sign(descriptor.layout().as_slice());
        Ok(SignedDescriptor {
            descriptor,
            signature,
        })
    }
}

impl SignedDescriptor {
    /// Checks fleet, limit and signature.
    ///
    /// # Errors
    /// [`BundleError`].
    pub fn verify(&self, ring: &KeyRing) -> Result<(), BundleError> {
        let d = &self.descriptor;
        if d.length as usize > limits::CONTENT_BYTES_MAX {
            return Err(BundleError::TooLarge(d.length as usize));
        }
        if d.fleet != ring.fleet() {
            return Err(KeyError::OtherFleet {
                found: d.fleet,
                wanted: ring.fleet(),
            }
            .into());
        }
        Ok(ring.verify(d.key_number, d.layout().as_slice(), &self.signature, "content")?)
    }

    /// Checks that `content` is what the descriptor names. Call [`Self::verify`] first.
    ///
    /// # Errors
    /// [`BundleError::Mismatch`].
    pub fn check(&self, content: &[u8]) -> Result<(), BundleError> {
        let d = &self.descriptor;
        if content.len() == d.length as usize && Digest::of(content) == d.digest {
            Ok(())
        } else {
            Err(BundleError::Mismatch)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::tests::hub_keys;

    #[test]
    fn descriptors_bind_fleet_digest_and_length() {
        let keys = hub_keys(1, 1);
        let signed = Descriptor::sign(b"{}", &keys).unwrap();
        assert_eq!(signed.verify(&keys.ring()), Ok(()));
        assert_eq!(signed.check(b"{}"), Ok(()));
        assert_eq!(signed.check(b"{ }"), Err(BundleError::Mismatch));
        let mut other = signed.clone();
        other.descriptor.length = 3;
        assert_eq!(
            other.verify(&keys.ring()).unwrap_err().reason(),
            Reason::BadSignature
        );
        assert_eq!(
            signed.verify(&hub_keys(2, 1).ring()).unwrap_err().reason(),
            Reason::ForeignCluster
        );
        let large = Descriptor::sign_digest(Digest([0; 32]), limits::CONTENT_BYTES_MAX + 1, &keys);
        assert_eq!(large.unwrap_err().reason(), Reason::ContentTooLarge);
    }
}
