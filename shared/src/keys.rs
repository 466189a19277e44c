//! Keys: root pin, key statements, enrolment receipts, Ed25519 signing and verifying.
//!
//! The *root* key is pinned by agents. It signs numbered *statements* that name a set-signing key. The
//! set-signing key signs set heads, content descriptors, receipts and the hub's half of an exchange. A higher
//! statement number that reaches the pinned root is newer; any number of rotations may have happened in between.

use std::collections::BTreeMap;

use ring::rand::SecureRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ids::{ClusterName, Digest, FleetId, Incarnation, KeyNumber, PublicKey, Signature};
use crate::layout::Layout;
use crate::reason::Reason;

/// What can be wrong with keys, statements and receipts.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// The bytes are no Ed25519 key in PKCS#8.
    #[error("the key file holds no Ed25519 key in PKCS#8")]
    NotAKey,
    /// The random source failed.
    #[error("the system's random source failed")]
    NoRandomness,
    /// A signature does not verify.
    #[error("the signature on the {0} does not verify")]
    BadSignature(&'static str),
    /// The root key's hash is not the pinned one.
    #[error("the hub's root key {found} is not the one of the join line ({pinned})")]
    OtherRoot {
        /// SHA-256 of the key that was shown.
        found: Digest,
        /// SHA-256 that is pinned.
        pinned: Digest,
    },
    /// A statement of another fleet.
    #[error("the key statement is of fleet {found}, not of {wanted}")]
    OtherFleet {
        /// Fleet in the statement.
        found: FleetId,
        /// Fleet of this agent.
        wanted: FleetId,
    },
    /// Same number, other key.
    #[error("key number {0} was shown before with another key")]
    NumberReused(KeyNumber),
    /// No statement for a number.
    #[error("no statement for key number {0}")]
    UnknownNumber(KeyNumber),
}

impl KeyError {
    /// The stable code.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::BadSignature(_) => Reason::BadSignature,
            Self::OtherFleet { .. } => Reason::ForeignCluster,
            _ => Reason::UnknownKey,
        }
    }
}

/// An Ed25519 key pair: root, set-signing or agent identity.
pub struct SigningKey(Ed25519KeyPair);

impl SigningKey {
    /// Makes a key; returns it with its PKCS#8 form for a 0600 file.
    ///
    /// # Errors
    /// [`KeyError::NoRandomness`].
    pub fn generate(random: &dyn SecureRandom) -> Result<(Self, Vec<u8>), KeyError> {
        let document = Ed25519KeyPair::generate_pkcs8(random).map_err(|_| KeyError::NoRandomness)?;
        Ok((Self::from_pkcs8(document.as_ref())?, document.as_ref().to_vec()))
    }

    /// Reads PKCS#8 as [`Self::generate`] returned it.
    ///
    /// # Errors
    /// [`KeyError::NotAKey`].
    pub fn from_pkcs8(bytes: &[u8]) -> Result<Self, KeyError> {
        Ed25519KeyPair::from_pkcs8(bytes)
            .map(Self)
            .map_err(|_| KeyError::NotAKey)
    }

    /// A key from 32 secret bytes; for keys that are derived, and for frozen vectors.
    ///
    /// # Errors
    /// [`KeyError::NotAKey`] if the length is not 32.
    pub fn from_seed(seed: &[u8]) -> Result<Self, KeyError> {
        Ed25519KeyPair::from_seed_unchecked(seed)
            .map(Self)
            .map_err(|_| KeyError::NotAKey)
    }

    /// The public half.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        let mut out = [0; 32];
        out.copy_from_slice(self.0.public_key().as_ref());
        PublicKey(out)
    }

    /// Signs bytes. Deterministic.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> Signature {
        let mut out = [0; 64];
        out.copy_from_slice(self.0.sign(message).as_ref());
        Signature(out)
    }
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SigningKey(public {})", self.public())
    }
}

/// Whether `signature` of `message` verifies under `key`.
#[must_use]
pub fn verifies(key: &PublicKey, message: &[u8], signature: &Signature) -> bool {
    UnparsedPublicKey::new(&ED25519, &key.0)
        .verify(message, &signature.0)
        .is_ok()
}

/// What an agent trusts at first: the SHA-256 of the root public key, from the join line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootPin(pub Digest);

impl RootPin {
    /// The pin of a root key.
    #[must_use]
    pub fn of(root: &PublicKey) -> Self {
        Self(Digest::of(&root.0))
    }

    /// Checks a shown root key against the pin.
    ///
    /// # Errors
    /// [`KeyError::OtherRoot`].
    pub fn check(&self, root: &PublicKey) -> Result<(), KeyError> {
        let found = Self::of(root);
        if found == *self {
            Ok(())
        } else {
            Err(KeyError::OtherRoot {
                found: found.0,
                pinned: self.0,
            })
        }
    }
}

/// The root's word that a public key is set-signing key number `number` of a fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyStatement {
    /// The fleet.
    pub fleet: FleetId,
    /// The key's number, from 1.
    pub number: KeyNumber,
    /// The set-signing key.
    pub key: PublicKey,
    /// By the root.
    pub signature: Signature,
}

fn statement_layout(fleet: &FleetId, number: KeyNumber, key: &PublicKey) -> Layout {
    let mut layout = Layout::new("pinnace/1 key statement");
    layout.bytes(&fleet.0).number(u64::from(number.0)).bytes(&key.0);
    layout
}

impl KeyStatement {
    /// Makes a statement with the root key.
    #[must_use]
    pub fn issue(root: &SigningKey, fleet: FleetId, number: KeyNumber, key: PublicKey) -> Self {
        let signature = root.sign(statement_layout(&fleet, number, &key).as_slice());
        Self {
            fleet,
            number,
            key,
            signature,
        }
    }

    /// Checks the root's signature.
    ///
    /// # Errors
    /// [`KeyError::BadSignature`].
    pub fn verify(&self, root: &PublicKey) -> Result<(), KeyError> {
        let layout = statement_layout(&self.fleet, self.number, &self.key);
        if verifies(root, layout.as_slice(), &self.signature) {
            Ok(())
        } else {
            Err(KeyError::BadSignature("key statement"))
        }
    }
}

/// The public keys by which signed things of one fleet are checked: the root and every statement seen. Agents
/// keep it in the ledger; held sets stay valid under an older key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRing {
    fleet: FleetId,
    root: PublicKey,
    statements: BTreeMap<KeyNumber, KeyStatement>,
}

impl KeyRing {
    /// A ring that knows only the root, which the caller has checked against its [`RootPin`].
    #[must_use]
    pub const fn new(fleet: FleetId, root: PublicKey) -> Self {
        Self {
            fleet,
            root,
            statements: BTreeMap::new(),
        }
    }

    /// Takes a statement in, of any number.
    ///
    /// # Errors
    /// [`KeyError`] if it is of another fleet, does not reach the root, or reuses a number for another key.
    pub fn learn(&mut self, statement: &KeyStatement) -> Result<(), KeyError> {
        if statement.fleet != self.fleet {
            return Err(KeyError::OtherFleet {
                found: statement.fleet,
                wanted: self.fleet,
            });
        }
        if let Some(known) = self.statements.get(&statement.number) {
            if known.key != statement.key {
                return Err(KeyError::NumberReused(statement.number));
            }
            return Ok(());
        }
        statement.verify(&self.root)?;
        self.statements.insert(statement.number, statement.clone());
        Ok(())
    }

    /// The fleet.
    #[must_use]
    pub const fn fleet(&self) -> FleetId {
        self.fleet
    }

    /// The root key.
    #[must_use]
    pub const fn root(&self) -> PublicKey {
        self.root
    }

    /// The highest number seen; zero if none.
    #[must_use]
    pub fn newest(&self) -> KeyNumber {
        self.statements
            .last_key_value()
            .map(|(n, _)| *n)
            .unwrap_or_default()
    }

    /// Every statement, by number.
    pub fn statements(&self) -> impl Iterator<Item = &KeyStatement> {
        self.statements.values()
    }

    /// The key of a number.
    ///
    /// # Errors
    /// [`KeyError::UnknownNumber`].
    pub fn key(&self, number: KeyNumber) -> Result<PublicKey, KeyError> {
        self.statements
            .get(&number)
            .map(|s| s.key)
            .ok_or(KeyError::UnknownNumber(number))
    }

    /// Checks a signature by the key of a number. `what` names the signed thing in the error.
    ///
    /// # Errors
    /// [`KeyError::UnknownNumber`], [`KeyError::BadSignature`].
    pub fn verify(
        &self,
        number: KeyNumber,
        message: &[u8],
        signature: &Signature,
        what: &'static str,
    ) -> Result<(), KeyError> {
        if verifies(&self.key(number)?, message, signature) {
            Ok(())
        } else {
            Err(KeyError::BadSignature(what))
        }
    }
}

/// The hub's set-signing key with its statement and the root's public key: all that signing and exchanges need.
/// The root's secret is not among it.
#[derive(Debug)]
pub struct HubKeys {
    /// Public half of the root.
    pub root: PublicKey,
    /// Statement of the newest set-signing key.
    pub statement: KeyStatement,
    /// The newest set-signing key.
    pub signer: SigningKey,
}

impl HubKeys {
    /// Puts the parts together.
    ///
    /// # Errors
    /// [`KeyError`] if the statement does not reach the root or names another key than `signer`.
    pub fn new(root: PublicKey, statement: KeyStatement, signer: SigningKey) -> Result<Self, KeyError> {
        statement.verify(&root)?;
        if statement.key != signer.public() {
            return Err(KeyError::UnknownNumber(statement.number));
        }
        Ok(Self {
            root,
            statement,
            signer,
        })
    }

    /// The fleet.
    #[must_use]
    pub const fn fleet(&self) -> FleetId {
        self.statement.fleet
    }

    /// Number of the signing key.
    #[must_use]
    pub const fn number(&self) -> KeyNumber {
        self.statement.number
    }

    /// A ring that checks what these keys sign.
    #[must_use]
    pub fn ring(&self) -> KeyRing {
        let mut ring = KeyRing::new(self.fleet(), self.root);
        ring.statements
            .insert(self.statement.number, self.statement.clone());
        ring
    }
}

/// What the hub promised at enrolment. The agent shows it in every hello, so that a hub that lost the enrolment
/// can list the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The fleet.
    pub fleet: FleetId,
    /// The cluster's name.
    pub cluster: ClusterName,
    /// This enrolment.
    pub incarnation: Incarnation,
    /// The agent's identity key.
    pub identity: PublicKey,
    /// `metadata.uid` of the member's `kube-system` namespace.
    pub kube_system_uid: String,
    /// Labels of the Cluster object, from the token.
    pub labels: BTreeMap<String, String>,
    /// Cloud provider, from the token; empty if none.
    pub provider: String,
    /// Region, from the token; empty if none.
    pub region: String,
    /// Zones, from the token.
    pub zones: Vec<String>,
}

/// A receipt with the signature of a set-signing key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedReceipt {
    /// What is signed.
    pub receipt: Receipt,
    /// Number of the signing key.
    pub key_number: KeyNumber,
    /// The signature.
    pub signature: Signature,
}

impl Receipt {
    fn layout(&self, number: KeyNumber) -> Layout {
        let mut layout = Layout::new("pinnace/1 enrolment receipt");
        layout
            .bytes(&self.fleet.0)
            .bytes(self.cluster.as_str().as_bytes())
            .bytes(&self.incarnation.0)
            .bytes(&self.identity.0)
            .bytes(self.kube_system_uid.as_bytes())
            .number(self.labels.len() as u64);
        for (key, value) in &self.labels {
            layout.bytes(key.as_bytes()).bytes(value.as_bytes());
        }
        layout
            .bytes(self.provider.as_bytes())
            .bytes(self.region.as_bytes())
            .number(self.zones.len() as u64);
        for zone in &self.zones {
            layout.bytes(zone.as_bytes());
        }
        layout.number(u64::from(number.0));
        layout
    }

    /// Signs it.
    #[must_use]
    pub fn sign(self, keys: &HubKeys) -> SignedReceipt {
        let key_number = keys.number();
        let signature = keys.signer.sign(self.layout(key_number).as_slice());
        SignedReceipt {
            receipt: self,
            key_number,
            signature,
        }
    }
}

impl SignedReceipt {
    /// Checks fleet and signature.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn verify(&self, ring: &KeyRing) -> Result<(), KeyError> {
        if self.receipt.fleet != ring.fleet() {
            return Err(KeyError::OtherFleet {
                found: self.receipt.fleet,
                wanted: ring.fleet(),
            });
        }
        ring.verify(
            self.key_number,
            self.receipt.layout(self.key_number).as_slice(),
            &self.signature,
            "receipt",
        )
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn seed(n: u8) -> SigningKey {
        SigningKey::from_seed(&[n; 32]).unwrap()
    }

    /// Keys of fleet `[fleet; 16]` with signing key `number`.
    pub(crate) fn hub_keys(fleet: u8, number: u32) -> HubKeys {
        let root = seed(fleet);
        let signer = seed(fleet.wrapping_add(100).wrapping_add(number as u8));
        let statement = KeyStatement::issue(&root, FleetId([fleet; 16]), KeyNumber(number), signer.public());
        HubKeys::new(root.public(), statement, signer).unwrap()
    }

    #[test]
    fn rotations_reach_the_pin_and_numbers_are_never_reused() {
        let (first, ninth) = (hub_keys(1, 1), hub_keys(1, 9));
        assert!(RootPin::of(&first.root).check(&first.root).is_ok());
        assert!(matches!(
            RootPin::of(&first.root).check(&seed(2).public()),
            Err(KeyError::OtherRoot { .. })
        ));
        let mut ring = first.ring();
        ring.learn(&ninth.statement).unwrap();
        assert_eq!(ring.newest(), KeyNumber(9));
        let other = KeyStatement::issue(&seed(1), FleetId([1; 16]), KeyNumber(9), seed(5).public());
        assert_eq!(ring.learn(&other), Err(KeyError::NumberReused(KeyNumber(9))));
        let forged = KeyStatement::issue(&seed(3), FleetId([1; 16]), KeyNumber(10), seed(5).public());
        assert_eq!(ring.learn(&forged), Err(KeyError::BadSignature("key statement")));
        assert!(matches!(
            ring.learn(&hub_keys(2, 1).statement),
            Err(KeyError::OtherFleet { .. })
        ));
        assert_eq!(ring.key(KeyNumber(2)), Err(KeyError::UnknownNumber(KeyNumber(2))));
    }

    #[test]
    fn receipts_verify_and_every_field_counts() {
        let keys = hub_keys(1, 1);
        let receipt = Receipt {
            fleet: keys.fleet(),
            cluster: ClusterName::new("shop").unwrap(),
            incarnation: Incarnation([3; 16]),
            identity: seed(7).public(),
            kube_system_uid: "uid".into(),
            labels: [("a".to_string(), "b".to_string())].into(),
            provider: "p".into(),
            region: "r".into(),
            zones: vec!["z".into()],
        };
        let signed = receipt.sign(&keys);
        assert_eq!(signed.verify(&keys.ring()), Ok(()));
        let changes: [fn(&mut Receipt); 7] = [
            |r| r.cluster = ClusterName::new("shop-2").unwrap(),
            |r| r.incarnation.0[0] ^= 1,
            |r| r.identity.0[0] ^= 1,
            |r| r.kube_system_uid.push('x'),
            |r| {
                r.labels.clear();
            },
            |r| std::mem::swap(&mut r.provider, &mut r.region),
            |r| r.zones.clear(),
        ];
        for change in changes {
            let mut other = signed.clone();
            change(&mut other.receipt);
            assert_eq!(other.verify(&keys.ring()), Err(KeyError::BadSignature("receipt")));
        }
    }

    #[test]
    fn keys_survive_pkcs8() {
        let (key, pkcs8) = SigningKey::generate(&ring::rand::SystemRandom::new()).unwrap();
        assert_eq!(SigningKey::from_pkcs8(&pkcs8).unwrap().public(), key.public());
        assert!(SigningKey::from_pkcs8(&pkcs8[1..]).is_err());
        assert!(verifies(&key.public(), b"x", &key.sign(b"x")));
        assert!(!verifies(&key.public(), b"y", &key.sign(b"x")));
    }
}
