//! Files for a cluster without a link: a set on its way there, and the receipt on its way back.
//!
//! A set is sealed under a key that hub and agent share since they talked last, because contents hold secrets; whoever
//! holds the file verifies it as if it came by wire: signed head, digest of the set, signed contents. The receipt is
//! signed by the agent's identity key.

use std::sync::Arc;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::as_bytes;
use super::at_rest::{decode_set, encode_set};
use super::envelope::{Kind, WireError, expect, from_postcard, to_postcard, write_envelope};
use super::message::descriptor;
use super::report::{ObjectReport, TombstoneDone};
use crate::bundle::{EncodeError, SignedDescriptor, compress, inflate};
use crate::ids::{ClusterName, Digest, Incarnation, KeyNumber, PublicKey, Sequence, Session, Signature};
use crate::keys::{KeyStatement, SigningKey, verifies};
use crate::layout::Layout;
use crate::limits::{EXPORT_BYTES_MAX, EXPORT_PLAIN_BYTES_MAX};
use crate::reason::Reason;
use crate::set::{Set, SignedHead};

/// The key under which sets are sealed in files, of one enrolment. Hub and agent both keep it.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealingKey(pub [u8; 32]);

impl std::fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealingKey")
    }
}

/// A set with all its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The signed head.
    pub head: SignedHead,
    /// Statements about the keys that signed.
    pub statements: Vec<KeyStatement>,
    /// The set.
    pub set: Arc<Set>,
    /// Its contents.
    pub contents: Vec<(SignedDescriptor, Vec<u8>)>,
}

/// Why a file is not made or not taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CarriedError {
    /// The bytes.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// It is for another cluster or enrolment.
    #[error("the file is for cluster {0}, or for another enrolment of it")]
    OtherCluster(ClusterName),
    /// It was not sealed with the key that we share, or was changed since.
    #[error("the file does not open: it was changed, or made by another hub")]
    Sealed,
    /// The signature of a receipt.
    #[error("the receipt is not signed by the agent of this cluster")]
    Unsigned,
    /// More than a file may hold.
    #[error(
        "the set and its contents are more than {EXPORT_BYTES_MAX} bytes compressed, or {EXPORT_PLAIN_BYTES_MAX} unpacked"
    )]
    TooLarge,
    /// What was sealed cannot be unpacked.
    #[error("the file cannot be unpacked: {0}")]
    Encoding(String),
}

impl CarriedError {
    /// The stable code.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Wire(e) => e.reason(),
            Self::OtherCluster(_) => Reason::ForeignCluster,
            Self::Sealed | Self::Unsigned => Reason::BadSignature,
            Self::TooLarge => Reason::OverLimit,
            Self::Encoding(_) => Reason::Malformed,
        }
    }
}

impl From<EncodeError> for CarriedError {
    fn from(e: EncodeError) -> Self {
        match e {
            EncodeError::TooLong(_) => Self::TooLarge,
            other => Self::Encoding(other.to_string()),
        }
    }
}

/// What stands before the sealed part, readable by everybody and bound to it.
#[derive(Serialize, Deserialize)]
struct Outside {
    cluster: ClusterName,
    incarnation: Incarnation,
    sequence: Sequence,
    nonce: [u8; NONCE_LEN],
    #[serde(with = "as_bytes")]
    sealed: Vec<u8>,
}

impl Outside {
    fn bound(&self) -> Layout {
        let mut layout = Layout::new("pinnace/1 export");
        layout
            .bytes(self.cluster.as_str().as_bytes())
            .bytes(&self.incarnation.0)
            .number(self.sequence.0);
        layout
    }
}

#[derive(Serialize, Deserialize)]
struct Inside {
    head: SignedHead,
    statements: Vec<KeyStatement>,
    #[serde(with = "as_bytes")]
    set: Vec<u8>,
    contents: Vec<Content>,
}

#[derive(Serialize, Deserialize)]
struct Content {
    key_number: KeyNumber,
    signature: Signature,
    #[serde(with = "as_bytes")]
    bytes: Vec<u8>,
}

fn cipher(key: &SealingKey) -> LessSafeKey {
    LessSafeKey::new(
        UnboundKey::new(&CHACHA20_POLY1305, &key.0)
            .expect("the cipher takes keys of 32 bytes, which this is"),
    )
}

/// The bytes of a file; `nonce` is random and never used twice.
///
/// # Errors
/// [`CarriedError::TooLarge`].
pub fn encode_export(export: &Export, key: &SealingKey, nonce: [u8; 12]) -> Result<Vec<u8>, CarriedError> {
    let inside = to_postcard(&Inside {
        head: export.head.clone(),
        statements: export.statements.clone(),
        set: encode_set(&export.set),
        contents: export
            .contents
            .iter()
            .map(|(signed, bytes)| Content {
                key_number: signed.descriptor.key_number,
                signature: signed.signature,
                bytes: bytes.clone(),
            })
            .collect(),
    });
    if inside.len() > EXPORT_PLAIN_BYTES_MAX {
        return Err(CarriedError::TooLarge);
    }
    let head = &export.head.head;
    let mut outside = Outside {
        cluster: head.cluster.clone(),
        incarnation: head.incarnation,
        sequence: head.sequence,
        nonce,
        sealed: compress(&inside, &[])?,
    };
    let bound = outside.bound();
    cipher(key)
        .seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(bound.as_slice()),
            &mut outside.sealed,
        )
        .map_err(|_| CarriedError::TooLarge)?;
    let body = to_postcard(&outside);
    if body.len() > EXPORT_BYTES_MAX {
        return Err(CarriedError::TooLarge);
    }
    Ok(write_envelope(Kind::Export, &body))
}

/// Opens a file. Nothing of it is verified but that the hub sealed it for this enrolment.
///
/// # Errors
/// [`CarriedError`].
pub fn decode_export(
    bytes: &[u8],
    cluster: &ClusterName,
    incarnation: Incarnation,
    key: &SealingKey,
) -> Result<Export, CarriedError> {
    let mut outside: Outside = from_postcard(expect(bytes, Kind::Export)?, "export")?;
    if outside.cluster != *cluster || outside.incarnation != incarnation {
        return Err(CarriedError::OtherCluster(outside.cluster));
    }
    let bound = outside.bound();
    let nonce = Nonce::assume_unique_for_key(outside.nonce);
    let opened = cipher(key)
        .open_in_place(nonce, Aad::from(bound.as_slice()), &mut outside.sealed)
        .map_err(|_| CarriedError::Sealed)?;
    let inside: Inside = {
        let plain = inflate(opened, &[], EXPORT_PLAIN_BYTES_MAX)?;
        from_postcard(&plain, "inside of an export")?
    };
    let set = Arc::new(decode_set(&inside.set)?);
    let fleet = inside.head.head.fleet;
    let contents = inside.contents.into_iter().map(|c| {
        let length = u32::try_from(c.bytes.len()).map_err(|_| CarriedError::TooLarge)?;
        let signed = descriptor(fleet, Digest::of(&c.bytes), length, c.key_number, c.signature);
        Ok((signed, c.bytes))
    });
    Ok(Export {
        contents: contents.collect::<Result<_, CarriedError>>()?,
        head: inside.head,
        statements: inside.statements,
        set,
    })
}

/// What an agent has to say of the set it holds, on its way back by hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    /// The cluster.
    pub cluster: ClusterName,
    /// The enrolment.
    pub incarnation: Incarnation,
    /// The set that the agent has in its ledger.
    pub sequence: Sequence,
    /// Its digest.
    pub digest: Digest,
    /// The highest session that the agent knows.
    pub session: Session,
    /// Rises with everything the agent does: of two receipts about one set the higher one is newer.
    pub journal: u64,
    /// State of every object.
    pub objects: Vec<ObjectReport>,
    /// Tombstones of the set that are carried out.
    pub tombstones_done: Vec<TombstoneDone>,
}

#[derive(Serialize, Deserialize)]
struct SignedCarried {
    #[serde(with = "as_bytes")]
    body: Vec<u8>,
    signature: Signature,
}

fn receipt_layout(body: &[u8]) -> Layout {
    let mut layout = Layout::new("pinnace/1 carried receipt");
    layout.bytes(body);
    layout
}

/// The bytes of a receipt, signed by the agent.
///
/// # Errors
/// [`CarriedError::TooLarge`].
pub fn encode_carried(carried: &Carried, identity: &SigningKey) -> Result<Vec<u8>, CarriedError> {
    let body = to_postcard(carried);
    let signature = identity.sign(receipt_layout(&body).as_slice());
    let bytes = write_envelope(Kind::Carried, &to_postcard(&SignedCarried { body, signature }));
    // The limit of its kind is checked where it is read; a file that nobody takes is not made.
    expect(&bytes, Kind::Carried)?;
    Ok(bytes)
}

/// Reads a receipt of the agent with this identity.
///
/// # Errors
/// [`CarriedError`].
pub fn decode_carried(
    bytes: &[u8],
    cluster: &ClusterName,
    incarnation: Incarnation,
    identity: &PublicKey,
) -> Result<Carried, CarriedError> {
    let signed: SignedCarried = from_postcard(expect(bytes, Kind::Carried)?, "receipt")?;
    if !verifies(
        identity,
        receipt_layout(&signed.body).as_slice(),
        &signed.signature,
    ) {
        return Err(CarriedError::Unsigned);
    }
    let carried: Carried = from_postcard(&signed.body, "inside of a receipt")?;
    if carried.cluster != *cluster || carried.incarnation != incarnation {
        return Err(CarriedError::OtherCluster(carried.cluster));
    }
    Ok(carried)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::Descriptor;
    use crate::ids::KeyNumber;
    use crate::keys::tests::hub_keys;
    use crate::set::Head;
    use crate::set::tests::any_set;
    use proptest::prelude::*;

    fn shop() -> ClusterName {
        ClusterName::new("shop").unwrap()
    }

    fn export(set: Set) -> Export {
        let keys = hub_keys(1, 1);
        let head = Head {
            fleet: keys.fleet(),
            cluster: shop(),
            incarnation: Incarnation([2; 16]),
            sequence: Sequence(7),
            digest: set.digest(),
            key_number: KeyNumber(0),
        };
        let bytes = b"{\"kind\":\"Secret\"}".to_vec();
        Export {
            head: head.sign(&keys),
            statements: keys.ring().statements().cloned().collect(),
            set: Arc::new(set),
            contents: vec![(Descriptor::sign(&bytes, &keys).unwrap(), bytes)],
        }
    }

    proptest! {
        #[test]
        fn exports_round_trip_and_no_bit_may_change(set in any_set(), at in 0usize..4000, bit in 0u8..8) {
            let (key, export) = (SealingKey([9; 32]), export(set));
            let bytes = encode_export(&export, &key, [3; 12]).unwrap();
            prop_assert!(!bytes.windows(6).any(|w| w == b"Secret"), "a secret lies open");
            let read = |bytes: &[u8]| decode_export(bytes, &shop(), Incarnation([2; 16]), &key);
            prop_assert_eq!(read(&bytes).unwrap(), export);
            let mut flipped = bytes.clone();
            let at = at % bytes.len();
            flipped[at] ^= 1 << bit;
            prop_assert!(read(&flipped).is_err());
            prop_assert!(read(&bytes[..at]).is_err());
        }
    }

    #[test]
    fn only_its_own_enrolment_and_key_open_it() {
        let key = SealingKey([9; 32]);
        let bytes = encode_export(&export(Set::default()), &key, [3; 12]).unwrap();
        let reason = |cluster: &ClusterName, incarnation: u8, key: SealingKey| {
            let read = decode_export(&bytes, cluster, Incarnation([incarnation; 16]), &key);
            read.unwrap_err().reason()
        };
        let other = ClusterName::new("till").unwrap();
        assert_eq!(reason(&other, 2, key), Reason::ForeignCluster);
        assert_eq!(reason(&shop(), 3, key), Reason::ForeignCluster);
        assert_eq!(reason(&shop(), 2, SealingKey([8; 32])), Reason::BadSignature);
    }

    #[test]
    fn receipts_are_signed_by_the_agent_for_its_cluster() {
        let (ours, theirs) = (
            SigningKey::from_seed(&[5; 32]).unwrap(),
            SigningKey::from_seed(&[6; 32]).unwrap(),
        );
        let carried = Carried {
            cluster: shop(),
            incarnation: Incarnation([2; 16]),
            sequence: Sequence(7),
            digest: Digest([1; 32]),
            session: Session(3),
            journal: 40,
            objects: vec![],
            tombstones_done: vec![],
        };
        let bytes = encode_carried(&carried, &ours).unwrap();
        let read = |key: &SigningKey, incarnation: u8| {
            decode_carried(&bytes, &shop(), Incarnation([incarnation; 16]), &key.public())
        };
        assert_eq!(read(&ours, 2).unwrap(), carried);
        assert_eq!(read(&theirs, 2).unwrap_err().reason(), Reason::BadSignature);
        assert_eq!(read(&ours, 3).unwrap_err().reason(), Reason::ForeignCluster);
        let mut changed = bytes.clone();
        changed[20] ^= 1;
        assert!(decode_carried(&changed, &shop(), Incarnation([2; 16]), &ours.public()).is_err());
    }
}
