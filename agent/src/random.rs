//! The system's random source.

use ring::rand::{SecureRandom, SystemRandom};
use shared::ids::{BootId, Nonce};

/// Random numbers and nonces.
#[derive(Debug, Clone)]
pub struct Random {
    system: SystemRandom,
}

impl Default for Random {
    fn default() -> Self {
        Self::new()
    }
}

impl Random {
    /// A source.
    #[must_use]
    pub fn new() -> Self {
        Self {
            system: SystemRandom::new(),
        }
    }

    fn fill<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.system
            .fill(&mut bytes)
            .expect("the system's random source works, or no key could have been made");
        bytes
    }

    /// A nonce for an intent.
    #[must_use]
    pub fn nonce(&self) -> Nonce {
        Nonce(self.fill())
    }

    /// The id of this start.
    #[must_use]
    pub fn boot(&self) -> BootId {
        BootId(self.fill())
    }

    /// Jitter.
    #[must_use]
    pub fn number(&self) -> u64 {
        u64::from_be_bytes(self.fill())
    }

    /// For what makes keys.
    #[must_use]
    pub fn source(&self) -> &SystemRandom {
        &self.system
    }
}
