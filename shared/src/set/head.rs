//! The head of a set: what is signed.

use serde::{Deserialize, Serialize};

use super::Set;
use crate::ids::{ClusterName, Digest, FleetId, Incarnation, KeyNumber, Sequence, Signature};
use crate::keys::{HubKeys, KeyError, KeyRing};
use crate::layout::Layout;

/// Binds a set digest to who it is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The fleet.
    pub fleet: FleetId,
    /// The cluster.
    pub cluster: ClusterName,
    /// The enrolment.
    pub incarnation: Incarnation,
    /// Number of the set.
    pub sequence: Sequence,
    /// [`Set::digest`].
    pub digest: Digest,
    /// Number of the key that signs.
    pub key_number: KeyNumber,
}

/// A head with its signature. Verifies offline, years later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedHead {
    /// What is signed.
    pub head: Head,
    /// By set-signing key `head.key_number`.
    pub signature: Signature,
}

impl Head {
    fn layout(&self) -> Layout {
        let mut layout = Layout::new("pinnace/1 set head");
        layout
            .bytes(&self.fleet.0)
            .bytes(self.cluster.as_str().as_bytes())
            .bytes(&self.incarnation.0)
            .number(self.sequence.0)
            .bytes(&self.digest.0)
            .number(u64::from(self.key_number.0));
        layout
    }

    /// Signs with the newest key; sets `key_number`.
    #[must_use]
    pub fn sign(mut self, keys: &HubKeys) -> SignedHead {
        self.key_number = keys.number();
        let signature = keys.signer.sign(self.layout().as_slice());
        SignedHead {
            head: self,
            signature,
        }
    }
}

impl SignedHead {
    /// Checks fleet and signature. Cluster, incarnation and sequence are the caller's to compare.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn verify(&self, ring: &KeyRing) -> Result<(), KeyError> {
        if self.head.fleet != ring.fleet() {
            return Err(KeyError::OtherFleet {
                found: self.head.fleet,
                wanted: ring.fleet(),
            });
        }
        ring.verify(
            self.head.key_number,
            self.head.layout().as_slice(),
            &self.signature,
            "set head",
        )
    }

    /// Whether the digest is that of `set`.
    #[must_use]
    pub fn is_of(&self, set: &Set) -> bool {
        self.head.digest == set.digest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::tests::hub_keys;

    #[test]
    fn every_field_is_signed() {
        let keys = hub_keys(1, 1);
        let head = Head {
            fleet: keys.fleet(),
            cluster: ClusterName::new("shop").unwrap(),
            incarnation: Incarnation([2; 16]),
            sequence: Sequence(7),
            digest: Set::default().digest(),
            key_number: KeyNumber(0),
        };
        let signed = head.sign(&keys);
        assert_eq!(signed.verify(&keys.ring()), Ok(()));
        assert!(signed.is_of(&Set::default()));
        let changes: [fn(&mut Head); 4] = [
            |h| h.cluster = ClusterName::new("shop-2").unwrap(),
            |h| h.incarnation.0[3] ^= 1,
            |h| h.sequence = Sequence(8),
            |h| h.digest.0[0] ^= 1,
        ];
        for change in changes {
            let mut other = signed.clone();
            change(&mut other.head);
            assert_eq!(
                other.verify(&keys.ring()),
                Err(KeyError::BadSignature("set head"))
            );
        }
        assert!(matches!(
            signed.verify(&hub_keys(2, 1).ring()),
            Err(KeyError::OtherFleet { .. })
        ));
        assert!(matches!(
            signed.verify(&hub_keys(1, 2).ring()),
            Err(KeyError::UnknownNumber(_))
        ));
    }
}
