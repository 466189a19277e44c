//! The sealed channel: ChaCha20-Poly1305, one key and one rising counter per direction.

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use thiserror::Error;

use crate::ids::{ClusterName, Epoch};
use crate::limits;
use crate::topics::{self, Direction};
use crate::wire::{Kind, WireError};

/// Why a frame is dropped. None of these is ever answered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// The envelope.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// Of another channel.
    #[error("the frame belongs to epoch {found}, not {current}")]
    OtherEpoch {
        /// Epoch of the frame.
        found: Epoch,
        /// Epoch of this channel.
        current: Epoch,
    },
    /// Seen before, or further behind than the window.
    #[error("frame {0} was seen before or is too old")]
    Replay(u64),
    /// The tag does not match.
    #[error("the frame does not open")]
    Forged,
    /// The counter is used up; a new exchange is needed.
    #[error("the channel is used up")]
    Exhausted,
}

/// One end of a sealed channel.
pub struct Channel {
    epoch: Epoch,
    sends: Direction,
    topic_out: String,
    topic_in: String,
    key_out: LessSafeKey,
    key_in: LessSafeKey,
    next_out: u64,
    /// Highest counter opened, plus one.
    next_in: u64,
    /// Bit `i`: counter `next_in - 1 - i` was opened.
    seen: u64,
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Channel(epoch {}, sends {:?}, next {}/{})",
            self.epoch, self.sends, self.next_out, self.next_in
        )
    }
}

fn direction_byte(direction: Direction) -> u8 {
    match direction {
        Direction::Up => b'u',
        Direction::Down => b'd',
    }
}

fn nonce(counter: u64) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[4..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// Associated data: topic, epoch, counter, direction, with the length of the topic in front.
fn associated(topic: &str, epoch: &Epoch, counter: u64, direction: Direction) -> Vec<u8> {
    let mut data = Vec::with_capacity(topic.len() + 24);
    data.push(u8::try_from(topic.len()).unwrap_or(u8::MAX));
    data.extend_from_slice(topic.as_bytes());
    data.extend_from_slice(&epoch.0);
    data.extend_from_slice(&counter.to_be_bytes());
    data.push(direction_byte(direction));
    data
}

impl Channel {
    /// The end that sends in direction `sends`.
    pub(crate) fn new(
        cluster: &ClusterName,
        epoch: Epoch,
        sends: Direction,
        up: &[u8; 32],
        down: &[u8; 32],
    ) -> Self {
        let key = |direction| {
            let bytes = match direction {
                Direction::Up => up,
                Direction::Down => down,
            };
            let unbound = UnboundKey::new(&CHACHA20_POLY1305, bytes);
            LessSafeKey::new(unbound.expect("a ChaCha20-Poly1305 key is 32 bytes"))
        };
        Self {
            epoch,
            sends,
            topic_out: topics::topic(cluster, sends),
            topic_in: topics::topic(cluster, sends.reverse()),
            key_out: key(sends),
            key_in: key(sends.reverse()),
            next_out: 0,
            next_in: 0,
            seen: 0,
        }
    }

    /// The epoch, by which the gateway routes.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Seals a plaintext into a payload. The transport may send the payload any number of times.
    ///
    /// # Errors
    /// [`OpenError::Exhausted`], [`WireError::TooLarge`].
    pub fn seal(&mut self, plain: &[u8]) -> Result<Vec<u8>, OpenError> {
        let counter = self.next_out;
        if counter >= limits::EPOCH_FRAMES_MAX {
            return Err(OpenError::Exhausted);
        }
        let mut out = Vec::with_capacity(plain.len() + 40);
        out.extend_from_slice(&crate::wire::header(Kind::Frame));
        let header = out.len();
        out.extend_from_slice(&self.epoch.0);
        put_varint(&mut out, counter);
        let start = out.len();
        out.extend_from_slice(plain);
        let aad = Aad::from(associated(&self.topic_out, &self.epoch, counter, self.sends));
        let (head, body) = out.split_at_mut(start);
        debug_assert_eq!(head.len(), start);
        let tag = self.key_out.seal_in_place_separate_tag(nonce(counter), aad, body);
        let tag = tag.map_err(|_| WireError::TooLarge(plain.len()))?;
        out.extend_from_slice(tag.as_ref());
        if out.len() - header > limits::PAYLOAD_BYTES_MAX {
            return Err(WireError::TooLarge(out.len()).into());
        }
        self.next_out += 1;
        Ok(out)
    }

    /// Opens a payload once.
    ///
    /// # Errors
    /// [`OpenError`]; the channel is unchanged then.
    pub fn open(&mut self, payload: &[u8]) -> Result<Vec<u8>, OpenError> {
        let body = crate::wire::expect(payload, Kind::Frame)?;
        let (epoch, rest) = body
            .split_first_chunk::<8>()
            .ok_or(WireError::Malformed("frame"))?;
        let found = Epoch(*epoch);
        if found != self.epoch {
            return Err(OpenError::OtherEpoch {
                found,
                current: self.epoch,
            });
        }
        let (counter, sealed) = take_varint(rest).ok_or(WireError::Malformed("frame counter"))?;
        let position = self.check(counter)?;
        let aad = Aad::from(associated(
            &self.topic_in,
            &self.epoch,
            counter,
            self.sends.reverse(),
        ));
        let mut buffer = sealed.to_vec();
        let plain = self.key_in.open_in_place(nonce(counter), aad, &mut buffer);
        let length = plain.map_err(|_| OpenError::Forged)?.len();
        buffer.truncate(length);
        self.mark(counter, position);
        Ok(buffer)
    }

    /// Where a counter lies: `None` if it is new, else its distance behind the newest.
    fn check(&self, counter: u64) -> Result<Option<u32>, OpenError> {
        if counter >= limits::EPOCH_FRAMES_MAX {
            return Err(OpenError::Exhausted);
        }
        if counter >= self.next_in {
            return Ok(None);
        }
        let behind = self.next_in - 1 - counter;
        let bit = u32::try_from(behind)
            .ok()
            .filter(|b| u64::from(*b) < limits::SEAL_WINDOW);
        match bit {
            Some(bit) if self.seen >> bit & 1 == 0 => Ok(Some(bit)),
            _ => Err(OpenError::Replay(counter)),
        }
    }

    fn mark(&mut self, counter: u64, position: Option<u32>) {
        match position {
            Some(bit) => self.seen |= 1 << bit,
            None => {
                let shift = u32::try_from(counter + 1 - self.next_in).unwrap_or(u32::MAX);
                self.seen = self.seen.checked_shl(shift).unwrap_or(0) | 1;
                self.next_in = counter + 1;
            }
        }
    }
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A little-endian base-128 number in its shortest form.
fn take_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    for (i, byte) in bytes.iter().take(9).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return (i == 0 || *byte != 0).then(|| (value, &bytes[i + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pair(cluster: &str) -> (Channel, Channel) {
        let cluster = ClusterName::new(cluster).unwrap();
        let make = |d| Channel::new(&cluster, Epoch([9; 8]), d, &[1; 32], &[2; 32]);
        (make(Direction::Up), make(Direction::Down))
    }

    #[test]
    fn opens_once_in_any_order_within_the_window() {
        let (mut agent, mut hub) = pair("shop");
        let frames: Vec<_> = (0..100u8).map(|i| agent.seal(&[i]).unwrap()).collect();
        assert_eq!(hub.open(&frames[70]).unwrap(), [70]);
        assert_eq!(hub.open(&frames[7]).unwrap(), [7]);
        assert_eq!(hub.open(&frames[7]), Err(OpenError::Replay(7)));
        assert_eq!(hub.open(&frames[6]), Err(OpenError::Replay(6)));
        assert_eq!(hub.open(&frames[70]), Err(OpenError::Replay(70)));
        assert_eq!(hub.open(&frames[71]).unwrap(), [71]);
        assert_eq!(hub.open(&frames[99]).unwrap(), [99]);
        assert_eq!(hub.open(&frames[71]), Err(OpenError::Replay(71)));
        assert_eq!(hub.open(&frames[72]).unwrap(), [72]);
        assert_eq!(hub.open(&frames[35]), Err(OpenError::Replay(35)));
        let reply = hub.seal(b"down").unwrap();
        assert_eq!(agent.open(&reply).unwrap(), b"down");
    }

    #[test]
    fn bound_to_cluster_direction_and_epoch() {
        let (mut agent, mut hub) = pair("shop");
        let (_, mut other) = pair("shop-2");
        let frame = agent.seal(b"x").unwrap();
        assert_eq!(other.open(&frame), Err(OpenError::Forged));
        let (mut agent_again, _) = pair("shop");
        assert_eq!(agent_again.open(&frame), Err(OpenError::Forged));
        let mut moved = frame.clone();
        moved[5] ^= 1;
        assert!(matches!(hub.open(&moved), Err(OpenError::OtherEpoch { .. })));
        assert_eq!(hub.open(&frame).unwrap(), b"x");
    }

    #[test]
    fn shortest_numbers_only() {
        for value in [0, 1, 127, 128, 300, u64::MAX >> 1] {
            let mut bytes = vec![];
            put_varint(&mut bytes, value);
            assert_eq!(take_varint(&bytes), Some((value, &[][..])));
        }
        assert_eq!(take_varint(&[0x80, 0]), None);
        assert_eq!(take_varint(&[0x80]), None);
    }

    proptest! {
        #[test]
        fn any_flip_or_cut_is_refused(plain in prop::collection::vec(any::<u8>(), 0..80), at in 0usize..200, bit in 0u8..8) {
            let (mut agent, mut hub) = pair("shop");
            let frame = agent.seal(&plain).unwrap();
            let at = at % frame.len();
            let mut bad = frame.clone();
            bad[at] ^= 1 << bit;
            prop_assert!(hub.open(&bad).is_err());
            prop_assert!(hub.open(&frame[..at]).is_err());
            prop_assert_eq!(hub.open(&frame).unwrap(), plain);
        }
    }
}
