//! The three clear messages of an exchange. Each body begins with the exchange id, so that a gateway can route
//! without understanding the rest. What they mean and how they are checked is in `seal`.

use serde::{Deserialize, Serialize};

use super::envelope::{Kind, WireError, expect, from_postcard, to_postcard, write_envelope};
use crate::ids::{ExchangeId, Incarnation, KeyNumber, PublicKey, Signature};
use crate::keys::KeyStatement;
use crate::limits;

/// Agent to hub: a claim, proven only by [`X3`]. The claimed cluster is in the topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct X1 {
    /// The agent's ephemeral X25519 public key.
    pub exchange: ExchangeId,
    /// Whether a `Join` will follow instead of a `Hello`.
    pub join: bool,
    /// The enrolment, if there is one.
    pub incarnation: Option<Incarnation>,
    /// Highest key number that the agent has seen.
    pub highest_key_number: KeyNumber,
}

/// Hub to agent: proves the hub.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct X2 {
    /// Which exchange this answers.
    pub exchange: ExchangeId,
    /// The hub's ephemeral X25519 public key.
    pub ephemeral: PublicKey,
    /// The root public key; the agent compares its hash with the pin.
    pub root: PublicKey,
    /// Key statements; the last is of the key that signs.
    pub statements: Vec<KeyStatement>,
    /// By the set-signing key, over the transcript.
    pub signature: Signature,
}

/// Agent to hub: proves the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct X3 {
    /// Which exchange this ends.
    pub exchange: ExchangeId,
    /// The agent's identity key.
    pub identity: PublicKey,
    /// By the identity key, over the transcript and a value that only the two ends can compute.
    pub signature: Signature,
}

impl X1 {
    /// The payload.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        write_envelope(Kind::X1, &to_postcard(self))
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// [`WireError`].
    pub fn decode(payload: &[u8]) -> Result<Self, WireError> {
        from_postcard(expect(payload, Kind::X1)?, "X1")
    }
}

impl X2 {
    /// The payload.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        write_envelope(Kind::X2, &to_postcard(self))
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// [`WireError`].
    pub fn decode(payload: &[u8]) -> Result<Self, WireError> {
        let x2: Self = from_postcard(expect(payload, Kind::X2)?, "X2")?;
        if (1..=limits::KEY_STATEMENTS_MAX).contains(&x2.statements.len()) {
            Ok(x2)
        } else {
            Err(WireError::Malformed("X2: number of key statements"))
        }
    }
}

impl X3 {
    /// The payload.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        write_envelope(Kind::X3, &to_postcard(self))
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// [`WireError`].
    pub fn decode(payload: &[u8]) -> Result<Self, WireError> {
        from_postcard(expect(payload, Kind::X3)?, "X3")
    }
}
