//! The two sides of an exchange.

use ring::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use ring::hkdf;
use ring::rand::SecureRandom;
use thiserror::Error;

use super::channel::Channel;
use crate::ids::{ClusterName, Digest, Epoch, ExchangeId, FleetId, Incarnation, KeyNumber, PublicKey};
use crate::keys::{HubKeys, KeyError, KeyRing, RootPin, SigningKey, verifies};
use crate::layout::Layout;
use crate::reason::Reason;
use crate::topics::Direction;
use crate::wire::{X1, X2, X3};

/// Why an exchange fails. The other end is not told.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExchangeError {
    /// The random source failed.
    #[error("the system's random source failed")]
    NoRandomness,
    /// An ephemeral key that gives no shared secret.
    #[error("the other end's ephemeral key is not usable")]
    BadEphemeral,
    /// An answer to another exchange.
    #[error("the answer belongs to another exchange")]
    OtherExchange,
    /// The signing key is older than one already seen.
    #[error("the hub signs with key {found}, but key {seen} was seen before")]
    OldKey {
        /// Number shown now.
        found: KeyNumber,
        /// Highest seen.
        seen: KeyNumber,
    },
    /// Root, statement or signature.
    #[error(transparent)]
    Key(#[from] KeyError),
}

impl ExchangeError {
    /// The stable code.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::NoRandomness | Self::BadEphemeral | Self::OtherExchange => Reason::Malformed,
            Self::OldKey { .. } => Reason::UnknownKey,
            Self::Key(error) => error.reason(),
        }
    }
}

/// What both ends derive from the shared secret.
pub(crate) struct Secrets {
    pub(crate) epoch: Epoch,
    pub(crate) up: [u8; 32],
    pub(crate) down: [u8; 32],
    /// Proves knowledge of the secret inside the agent's signature.
    pub(crate) confirm: [u8; 32],
}

struct Bytes32;

impl hkdf::KeyType for Bytes32 {
    fn len(&self) -> usize {
        32
    }
}

pub(crate) fn derive(transcript: &Digest, shared: &[u8]) -> Secrets {
    let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, &transcript.0).extract(shared);
    let expand = |label: &str| {
        let mut out = [0; 32];
        prk.expand(&[label.as_bytes()], Bytes32)
            .and_then(|okm| okm.fill(&mut out))
            .expect("32 bytes are within what HKDF-SHA256 gives");
        out
    };
    let mut epoch = [0; 8];
    epoch.copy_from_slice(&transcript.0[..8]);
    Secrets {
        epoch: Epoch(epoch),
        up: expand("pinnace/1 key up"),
        down: expand("pinnace/1 key down"),
        confirm: expand("pinnace/1 confirm"),
    }
}

/// Everything of X1 and X2 but the signature.
pub(crate) fn transcript(cluster: &ClusterName, x1: &X1, x2: &X2) -> Digest {
    let mut layout = Layout::new("pinnace/1 exchange");
    layout
        .bytes(cluster.as_str().as_bytes())
        .bytes(&x1.exchange.0)
        .number(u64::from(x1.join))
        .bytes(x1.incarnation.as_ref().map_or(&[][..], |i| &i.0))
        .number(u64::from(x1.highest_key_number.0))
        .bytes(&x2.ephemeral.0)
        .bytes(&x2.root.0)
        .number(x2.statements.len() as u64);
    for s in &x2.statements {
        layout
            .bytes(&s.fleet.0)
            .number(u64::from(s.number.0))
            .bytes(&s.key.0)
            .bytes(&s.signature.0);
    }
    Digest::of(layout.as_slice())
}

pub(crate) fn hub_signs(transcript: &Digest) -> Layout {
    let mut layout = Layout::new("pinnace/1 exchange, hub");
    layout.bytes(&transcript.0);
    layout
}

pub(crate) fn agent_signs(transcript: &Digest, identity: &PublicKey, confirm: &[u8; 32]) -> Layout {
    let mut layout = Layout::new("pinnace/1 exchange, agent");
    layout.bytes(&transcript.0).bytes(&identity.0).bytes(confirm);
    layout
}

fn new_ephemeral(random: &dyn SecureRandom) -> Result<(EphemeralPrivateKey, PublicKey), ExchangeError> {
    let private = EphemeralPrivateKey::generate(&X25519, random).map_err(|_| ExchangeError::NoRandomness)?;
    let public = private
        .compute_public_key()
        .map_err(|_| ExchangeError::NoRandomness)?;
    let mut bytes = [0; 32];
    bytes.copy_from_slice(public.as_ref());
    Ok((private, PublicKey(bytes)))
}

/// The agent's side between X1 and X2. A new exchange needs a new one; an unanswered X1 may be repeated as it is.
pub struct AgentExchange {
    cluster: ClusterName,
    x1: X1,
    private: EphemeralPrivateKey,
}

impl std::fmt::Debug for AgentExchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AgentExchange({}, {:?})", self.cluster, self.x1)
    }
}

impl AgentExchange {
    /// Starts an exchange: returns the state and the X1 to send. `incarnation` is `None` to join.
    ///
    /// # Errors
    /// [`ExchangeError::NoRandomness`].
    pub fn start(
        random: &dyn SecureRandom,
        cluster: ClusterName,
        incarnation: Option<Incarnation>,
        highest_key_number: KeyNumber,
    ) -> Result<(Self, X1), ExchangeError> {
        let (private, public) = new_ephemeral(random)?;
        let exchange = ExchangeId(public.0);
        let x1 = X1 {
            exchange,
            join: incarnation.is_none(),
            incarnation,
            highest_key_number,
        };
        Ok((
            Self {
                cluster,
                x1: x1.clone(),
                private,
            },
            x1,
        ))
    }

    /// The exchange's id.
    #[must_use]
    pub const fn id(&self) -> ExchangeId {
        self.x1.exchange
    }

    /// Checks X2 against the pin and gives X3, the channel, and a ring with the statements shown. The caller
    /// merges the ring into its own by [`KeyRing::learn`]; `fleet` is `None` while joining.
    ///
    /// X3 has no answer of its own: it is repeated, identical, with the first frame until a frame opens.
    ///
    /// # Errors
    /// [`ExchangeError`]. The exchange is used up either way.
    pub fn finish(
        self,
        x2: &X2,
        pin: &RootPin,
        fleet: Option<FleetId>,
        identity: &SigningKey,
    ) -> Result<(X3, Channel, KeyRing), ExchangeError> {
        if x2.exchange != self.x1.exchange {
            return Err(ExchangeError::OtherExchange);
        }
        pin.check(&x2.root)?;
        let last = x2
            .statements
            .last()
            .ok_or(KeyError::UnknownNumber(KeyNumber(0)))?;
        let mut ring = KeyRing::new(fleet.unwrap_or(last.fleet), x2.root);
        for statement in &x2.statements {
            ring.learn(statement)?;
        }
        if last.number < self.x1.highest_key_number {
            return Err(ExchangeError::OldKey {
                found: last.number,
                seen: self.x1.highest_key_number,
            });
        }
        let transcript = transcript(&self.cluster, &self.x1, x2);
        ring.verify(
            last.number,
            hub_signs(&transcript).as_slice(),
            &x2.signature,
            "exchange",
        )?;
        let peer = UnparsedPublicKey::new(&X25519, x2.ephemeral.0);
        let secrets = agree_ephemeral(self.private, &peer, |shared| derive(&transcript, shared))
            .map_err(|_| ExchangeError::BadEphemeral)?;
        let public = identity.public();
        let signature = identity.sign(agent_signs(&transcript, &public, &secrets.confirm).as_slice());
        let x3 = X3 {
            exchange: x2.exchange,
            identity: public,
            signature,
        };
        let channel = Channel::new(
            &self.cluster,
            secrets.epoch,
            Direction::Up,
            &secrets.up,
            &secrets.down,
        );
        Ok((x3, channel, ring))
    }
}

/// The hub's side between X2 and X3: about 200 bytes, kept for each half-open exchange.
pub struct HubExchange {
    cluster: ClusterName,
    exchange: ExchangeId,
    join: bool,
    incarnation: Option<Incarnation>,
    transcript: Digest,
    secrets: Secrets,
}

impl std::fmt::Debug for HubExchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "HubExchange({}, {}, epoch {})",
            self.cluster, self.exchange, self.secrets.epoch
        )
    }
}

impl HubExchange {
    /// Answers an X1 that came on the topic of `cluster`. A repeated X1 is answered with the X2 of before, which
    /// the caller keeps or drops; never with a second ephemeral key for the same exchange.
    ///
    /// # Errors
    /// [`ExchangeError`].
    pub fn answer(
        random: &dyn SecureRandom,
        cluster: ClusterName,
        x1: &X1,
        keys: &HubKeys,
    ) -> Result<(Self, X2), ExchangeError> {
        let (private, ephemeral) = new_ephemeral(random)?;
        let mut x2 = X2 {
            exchange: x1.exchange,
            ephemeral,
            root: keys.root,
            statements: vec![keys.statement.clone()],
            signature: keys.statement.signature,
        };
        let transcript = transcript(&cluster, x1, &x2);
        x2.signature = keys.signer.sign(hub_signs(&transcript).as_slice());
        let peer = UnparsedPublicKey::new(&X25519, x1.exchange.0);
        let secrets = agree_ephemeral(private, &peer, |shared| derive(&transcript, shared))
            .map_err(|_| ExchangeError::BadEphemeral)?;
        let state = Self {
            cluster,
            exchange: x1.exchange,
            join: x1.join,
            incarnation: x1.incarnation,
            transcript,
            secrets,
        };
        Ok((state, x2))
    }

    /// The exchange's id.
    #[must_use]
    pub const fn id(&self) -> ExchangeId {
        self.exchange
    }

    /// The epoch that its channel will have; frames of it may arrive before X3 and can be dropped.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.secrets.epoch
    }

    /// The claimed cluster.
    #[must_use]
    pub const fn cluster(&self) -> &ClusterName {
        &self.cluster
    }

    /// Whether the agent wants to join.
    #[must_use]
    pub const fn is_join(&self) -> bool {
        self.join
    }

    /// The claimed incarnation.
    #[must_use]
    pub const fn incarnation(&self) -> Option<Incarnation> {
        self.incarnation
    }

    /// Checks X3 and gives the channel and the identity key it proves. Whether that key is the one enrolled for
    /// the cluster is the caller's to check before anything is opened; while joining, any key may come.
    ///
    /// # Errors
    /// [`ExchangeError`]. The exchange may go on with another X3: a forged one must not end it.
    pub fn accept(&self, x3: &X3) -> Result<(Channel, PublicKey), ExchangeError> {
        if x3.exchange != self.exchange {
            return Err(ExchangeError::OtherExchange);
        }
        let layout = agent_signs(&self.transcript, &x3.identity, &self.secrets.confirm);
        if !verifies(&x3.identity, layout.as_slice(), &x3.signature) {
            return Err(KeyError::BadSignature("exchange").into());
        }
        let s = &self.secrets;
        Ok((
            Channel::new(&self.cluster, s.epoch, Direction::Down, &s.up, &s.down),
            x3.identity,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Signature;
    use crate::keys::tests::{hub_keys, seed};
    use proptest::prelude::*;
    use ring::rand::SystemRandom;

    fn cluster() -> ClusterName {
        ClusterName::new("shop").unwrap()
    }

    fn halfway(keys: &HubKeys, seen: u32) -> (AgentExchange, HubExchange, X2) {
        let random = SystemRandom::new();
        let (agent, x1) =
            AgentExchange::start(&random, cluster(), Some(Incarnation([4; 16])), KeyNumber(seen)).unwrap();
        let x1 = X1::decode(&x1.encode()).unwrap();
        let (hub, x2) = HubExchange::answer(&random, cluster(), &x1, keys).unwrap();
        (agent, hub, X2::decode(&x2.encode()).unwrap())
    }

    #[test]
    fn both_ends_prove_themselves_and_talk() {
        let keys = hub_keys(1, 3);
        let (agent, hub, x2) = halfway(&keys, 2);
        let (x3, mut up, ring) = agent
            .finish(&x2, &RootPin::of(&keys.root), Some(keys.fleet()), &seed(7))
            .unwrap();
        assert_eq!(ring.newest(), KeyNumber(3));
        let (mut down, identity) = hub.accept(&X3::decode(&x3.encode()).unwrap()).unwrap();
        assert_eq!(identity, seed(7).public());
        assert_eq!(up.epoch(), hub.epoch());
        assert_eq!(down.open(&up.seal(b"hello").unwrap()).unwrap(), b"hello");
        assert_eq!(up.open(&down.seal(b"welcome").unwrap()).unwrap(), b"welcome");
        assert!(std::mem::size_of::<HubExchange>() <= 256);
    }

    #[test]
    fn an_identity_cannot_be_put_on_somebody_elses_exchange() {
        let keys = hub_keys(1, 1);
        let (agent, hub, x2) = halfway(&keys, 0);
        let (x3, ..) = agent
            .finish(&x2, &RootPin::of(&keys.root), None, &seed(7))
            .unwrap();
        // The thief sees everything on the wire and signs the transcript, but cannot know `confirm`.
        let thief = seed(8);
        let guess = agent_signs(&hub.transcript, &thief.public(), &[0; 32]);
        let forged = X3 {
            exchange: x3.exchange,
            identity: thief.public(),
            signature: thief.sign(guess.as_slice()),
        };
        assert!(matches!(hub.accept(&forged), Err(ExchangeError::Key(_))));
        let swapped = X3 {
            identity: thief.public(),
            ..x3.clone()
        };
        assert!(hub.accept(&swapped).is_err());
        assert!(hub.accept(&x3).is_ok(), "a forged X3 does not end the exchange");
    }

    #[test]
    fn wrong_hubs_are_refused() {
        let (good, other_root, old) = (hub_keys(1, 2), hub_keys(2, 2), hub_keys(1, 1));
        let pin = RootPin::of(&good.root);
        let finish = |keys: &HubKeys, seen, fleet| {
            let (agent, _, x2) = halfway(keys, seen);
            agent.finish(&x2, &pin, fleet, &seed(7)).map(|_| ()).unwrap_err()
        };
        assert!(matches!(
            finish(&other_root, 2, None),
            ExchangeError::Key(KeyError::OtherRoot { .. })
        ));
        assert!(matches!(finish(&old, 2, None), ExchangeError::OldKey { .. }));
        let fleet = Some(FleetId([9; 16]));
        assert!(matches!(
            finish(&good, 2, fleet),
            ExchangeError::Key(KeyError::OtherFleet { .. })
        ));
        let (agent, _, _) = halfway(&good, 2);
        let (_, _, x2) = halfway(&good, 2);
        assert_eq!(
            agent.finish(&x2, &pin, None, &seed(7)).unwrap_err(),
            ExchangeError::OtherExchange
        );
    }

    #[test]
    fn the_cluster_and_every_field_are_under_the_signature() {
        let keys = hub_keys(1, 1);
        let pin = RootPin::of(&keys.root);
        let changes: [fn(&mut AgentExchange, &mut X2); 6] = [
            |a, _| a.cluster = ClusterName::new("shop-2").unwrap(),
            |a, _| a.x1.join = !a.x1.join,
            |a, _| a.x1.incarnation = Some(Incarnation([5; 16])),
            |_, x| x.ephemeral.0[1] ^= 1,
            |_, x| x.signature = Signature([0; 64]),
            |_, x| x.statements.insert(0, hub_keys(1, 9).statement),
        ];
        for (i, change) in changes.into_iter().enumerate() {
            let (mut agent, _, mut x2) = halfway(&keys, 0);
            change(&mut agent, &mut x2);
            assert!(agent.finish(&x2, &pin, None, &seed(7)).is_err(), "change {i}");
        }
        let (agent, _, mut x2) = halfway(&keys, 0);
        x2.ephemeral = PublicKey([0; 32]);
        assert!(agent.finish(&x2, &pin, None, &seed(7)).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn damaged_messages_are_refused(at in 0usize..400, bit in 0u8..8) {
            let keys = hub_keys(1, 1);
            let (agent, hub, x2) = halfway(&keys, 0);
            let mut bytes = x2.encode();
            let place = at % bytes.len();
            bytes[place] ^= 1 << bit;
            if let Ok(bad) = X2::decode(&bytes) {
                let (other, ..) = halfway(&keys, 0);
                prop_assert!(other.finish(&bad, &RootPin::of(&keys.root), None, &seed(7)).is_err());
            }
            let (x3, ..) = agent.finish(&x2, &RootPin::of(&keys.root), None, &seed(7)).unwrap();
            let mut bytes = x3.encode();
            let place = at % bytes.len();
            bytes[place] ^= 1 << bit;
            if let Ok(bad) = X3::decode(&bytes) {
                prop_assert!(hub.accept(&bad).is_err());
            }
        }
    }
}
