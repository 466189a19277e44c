//! Newtypes for every identity and number that crosses a module edge.
//!
//! The serde form of these types is part of wire format 1 (frozen by `tests/vectors`).

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// Why a text or number is not a valid id.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IdError {
    /// A cluster name that breaks the rule of [`ClusterName`].
    #[error(
        "cluster name {0:?} must be 1 to 48 characters of a-z, 0-9 and '-', beginning and ending with a letter or digit"
    )]
    ClusterName(String),
    /// Text that is not lower-case or upper-case hex of the wanted length.
    #[error("{what} must be {bytes} bytes in hex ({} characters)", bytes * 2)]
    Hex {
        /// Which id was read.
        what: &'static str,
        /// Bytes wanted.
        bytes: usize,
    },
}

/// Name of a cluster: an RFC 1123 label of at most 48 characters (the reference's limit), so that it is
/// also one MQTT topic level.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterName(Arc<str>);

impl ClusterName {
    /// Checks and wraps a name.
    ///
    /// # Errors
    /// [`IdError::ClusterName`] if the rule is broken.
    pub fn new(name: &str) -> Result<Self, IdError> {
        let b = name.as_bytes();
        let alnum = |c: &u8| c.is_ascii_lowercase() || c.is_ascii_digit();
        let ok = (1..=48).contains(&b.len())
            && b.iter().all(|c| alnum(c) || *c == b'-')
            && b.first().is_some_and(alnum)
            && b.last().is_some_and(alnum);
        if ok {
            Ok(Self(name.into()))
        } else {
            Err(IdError::ClusterName(name.chars().take(64).collect()))
        }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl FromStr for ClusterName {
    type Err = IdError;
    fn from_str(s: &str) -> Result<Self, IdError> {
        Self::new(s)
    }
}

impl Serialize for ClusterName {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ClusterName {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        Self::new(&text).map_err(D::Error::custom)
    }
}

macro_rules! bytes_id {
    ($(#[$doc:meta])* $name:ident, $len:expr, $what:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub [u8; $len]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(s: &str) -> Result<Self, IdError> {
                let error = IdError::Hex { what: $what, bytes: $len };
                let bytes = from_hex(s).ok_or(error.clone())?;
                bytes.try_into().map(Self).map_err(|_| error)
            }
        }
    };
}

bytes_id!(
    /// Identity of one hub and its fleet, made at `init`.
    FleetId, 16, "fleet id");
bytes_id!(
    /// Identity of one enrolment of one cluster; a `replace` gives a new one.
    Incarnation, 16, "incarnation");
bytes_id!(
    /// Made anew by every start of an agent process.
    BootId, 16, "boot id");
bytes_id!(
    /// A SHA-256. Of canonical content, of a whole set, of an encoding or of a key, as the field says.
    Digest, 32, "digest");
bytes_id!(
    /// Ed25519 public key.
    PublicKey, 32, "public key");
bytes_id!(
    /// Identity of one exchange: the agent's ephemeral X25519 public key.
    ExchangeId, 32, "exchange id");
bytes_id!(
    /// Names a sealed channel: the first eight bytes of the SHA-256 of its exchange's transcript.
    Epoch, 8, "epoch");
bytes_id!(
    /// Put on a member object with our create, so that a lost answer can be told from a foreign object.
    Nonce, 16, "nonce");

impl Digest {
    /// SHA-256 of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
        let mut out = [0; 32];
        out.copy_from_slice(digest.as_ref());
        Self(out)
    }
}

impl Incarnation {
    /// The first ten hex characters: short enough for a label value, long enough to tell enrolments apart.
    #[must_use]
    pub fn short(&self) -> String {
        self.to_string().chars().take(10).collect()
    }
}

/// Ed25519 signature.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature(pub [u8; 64]);

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(4).try_for_each(|b| write!(f, "{b:02x}"))?;
        f.write_str("…")
    }
}

impl Serialize for Signature {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let (mut low, mut high) = ([0; 32], [0; 32]);
        low.copy_from_slice(&self.0[..32]);
        high.copy_from_slice(&self.0[32..]);
        (low, high).serialize(s)
    }
}

impl<'de> Deserialize<'de> for Signature {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let (low, high) = <([u8; 32], [u8; 32])>::deserialize(d)?;
        let mut out = [0; 64];
        out[..32].copy_from_slice(&low);
        out[32..].copy_from_slice(&high);
        Ok(Self(out))
    }
}

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub $inner);

        impl $name {
            /// The next number, stopping at the end of the range.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number_id!(
    /// Number of a set, per cluster and incarnation. Never goes back. Zero: no set yet.
    Sequence, u64);
number_id!(
    /// Number of an agent's process life, agreed by hello and welcome. Never goes back.
    Session, u64);
number_id!(
    /// Number of a report within a session, from 1.
    ReportSeq, u64);
number_id!(
    /// Number of a set-signing key under one root. A higher number that reaches the pinned root is newer.
    KeyNumber, u32);

/// What one object is in a member, without its version. Ordered by group, kind, namespace, name; sets are
/// sorted by it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectKey {
    /// API group; empty for the core group.
    pub group: String,
    /// Kind, for example `Deployment`.
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl ObjectKey {
    /// Builds a key.
    #[must_use]
    pub fn new(group: &str, kind: &str, namespace: &str, name: &str) -> Self {
        Self {
            group: group.into(),
            kind: kind.into(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for ObjectKey {
    /// `Deployment.apps default/web`, `Namespace prod`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        f.write_str(" ")?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Bytes of hex text of any case; `None` if a character is no hex digit or the length is odd.
#[must_use]
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let b = text.as_bytes();
    if !b.len().is_multiple_of(2) {
        return None;
    }
    let digit = |c: u8| (c as char).to_digit(16).and_then(|d| u8::try_from(d).ok());
    b.chunks_exact(2)
        .map(|p| Some(digit(p[0])? << 4 | digit(p[1])?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_names() {
        for good in ["a", "shop-1", "0", &"x".repeat(48)] {
            assert!(ClusterName::new(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a.b", "a/b", "a+", "#", "ä", &"x".repeat(49)] {
            assert!(ClusterName::new(bad).is_err(), "{bad}");
        }
        assert!(postcard::from_bytes::<ClusterName>(&postcard::to_stdvec("a/b").unwrap()).is_err());
    }

    #[test]
    fn hex_ids_round_trip() {
        let digest = Digest::of(b"");
        assert_eq!(
            digest.to_string(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        assert_eq!(digest.to_string().parse(), Ok(digest));
        assert!("e3".parse::<Digest>().is_err());
        assert!("zz".repeat(32).parse::<Digest>().is_err());
        assert_eq!(Incarnation([0xab; 16]).short(), "ababababab");
    }

    #[test]
    fn object_keys_sort_and_print() {
        let ns = ObjectKey::new("", "Namespace", "", "prod");
        let deployment = ObjectKey::new("apps", "Deployment", "prod", "web");
        assert!(ns < deployment);
        assert_eq!(ns.to_string(), "Namespace prod");
        assert_eq!(deployment.to_string(), "Deployment.apps prod/web");
    }
}
