//! The envelope: magic, version, kind and flags before everything that leaves a process.

use thiserror::Error;

use crate::ids::{Epoch, ExchangeId};
use crate::limits;
use crate::reason::Reason;

/// The version this program writes, and the newest it reads.
pub const VERSION: u8 = 1;
const MAGIC: [u8; 2] = *b"PN";
/// Bytes before the body.
const HEADER: usize = 5;

/// What an envelope holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// First message of an exchange, agent to hub, clear.
    X1,
    /// Second, hub to agent, clear.
    X2,
    /// Third, agent to hub, clear.
    X3,
    /// A sealed frame.
    Frame,
    /// A whole set, at rest or inside chunks.
    Set,
    /// A set with its contents in a file, for a cluster without a link.
    Export,
    /// What such a cluster's agent says, in a file on its way back.
    Carried,
}

impl Kind {
    const fn byte(self) -> u8 {
        match self {
            Self::X1 => 1,
            Self::X2 => 2,
            Self::X3 => 3,
            Self::Frame => 4,
            Self::Set => 5,
            Self::Export => 6,
            Self::Carried => 7,
        }
    }

    const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::X1,
            2 => Self::X2,
            3 => Self::X3,
            4 => Self::Frame,
            5 => Self::Set,
            6 => Self::Export,
            7 => Self::Carried,
            _ => return None,
        })
    }

    /// The largest body of this kind.
    const fn body_max(self) -> usize {
        match self {
            Self::X1 | Self::X2 | Self::X3 => limits::EXCHANGE_BYTES_MAX,
            Self::Frame => limits::PAYLOAD_BYTES_MAX,
            Self::Set => limits::SET_BYTES_MAX,
            Self::Export => limits::EXPORT_BYTES_MAX,
            Self::Carried => limits::CARRIED_BYTES_MAX,
        }
    }
}

/// Why bytes are refused before anything else is looked at.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// Not our magic, or shorter than a header.
    #[error("these bytes are no Pinnace message")]
    NotOurs,
    /// A newer format: refuse, keep what is held, say so.
    #[error("format version {found} is newer than {VERSION}, which this program reads; update it")]
    UnknownVersion {
        /// The version found.
        found: u8,
    },
    /// Flags of a newer format.
    #[error("unknown flags {0:#04x}")]
    UnknownFlags(u8),
    /// A kind this version does not know.
    #[error("unknown kind {0}")]
    UnknownKind(u8),
    /// Another kind than expected here.
    #[error("a message of kind {found:?} where {wanted:?} belongs")]
    WrongKind {
        /// What it is.
        found: Kind,
        /// What was expected.
        wanted: Kind,
    },
    /// Over the limit of its kind.
    #[error("{0} bytes are over the limit of this kind")]
    TooLarge(usize),
    /// The body does not follow its format. The text says where.
    #[error("malformed {0}")]
    Malformed(&'static str),
}

impl WireError {
    /// The stable code.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::UnknownVersion { .. } | Self::UnknownFlags(_) | Self::UnknownKind(_) => {
                Reason::UnknownVersion
            }
            Self::TooLarge(_) => Reason::OverLimit,
            Self::NotOurs | Self::WrongKind { .. } | Self::Malformed(_) => Reason::Malformed,
        }
    }
}

/// Puts the header before a body.
#[must_use]
pub fn write_envelope(kind: Kind, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + body.len());
    out.extend_from_slice(&header(kind));
    out.extend_from_slice(body);
    out
}

pub(crate) const fn header(kind: Kind) -> [u8; HEADER] {
    [MAGIC[0], MAGIC[1], VERSION, kind.byte(), 0]
}

/// Checks the header and returns kind and body.
///
/// # Errors
/// [`WireError`]; a newer version is told apart from damage.
pub fn open_envelope(bytes: &[u8]) -> Result<(Kind, &[u8]), WireError> {
    let (head, body) = bytes.split_at_checked(HEADER).ok_or(WireError::NotOurs)?;
    let &[m0, m1, version, kind, flags] = head else {
        return Err(WireError::NotOurs);
    };
    if [m0, m1] != MAGIC || version == 0 {
        return Err(WireError::NotOurs);
    }
    if version > VERSION {
        return Err(WireError::UnknownVersion { found: version });
    }
    if flags != 0 {
        return Err(WireError::UnknownFlags(flags));
    }
    let kind = Kind::from_byte(kind).ok_or(WireError::UnknownKind(kind))?;
    if body.len() > kind.body_max() {
        return Err(WireError::TooLarge(body.len()));
    }
    Ok((kind, body))
}

pub(crate) fn expect(bytes: &[u8], wanted: Kind) -> Result<&[u8], WireError> {
    match open_envelope(bytes)? {
        (found, body) if found == wanted => Ok(body),
        (found, _) => Err(WireError::WrongKind { found, wanted }),
    }
}

/// For the gateway: the epoch of a frame, without opening it. `None` for anything else.
#[must_use]
pub fn peek_epoch(bytes: &[u8]) -> Option<Epoch> {
    expect(bytes, Kind::Frame)
        .ok()?
        .first_chunk::<8>()
        .map(|e| Epoch(*e))
}

/// For the gateway: the exchange id of an `X1`, `X2` or `X3`. `None` for anything else.
#[must_use]
pub fn peek_exchange(bytes: &[u8]) -> Option<ExchangeId> {
    match open_envelope(bytes).ok()? {
        (Kind::X1 | Kind::X2 | Kind::X3, body) => body.first_chunk::<32>().map(|e| ExchangeId(*e)),
        _ => None,
    }
}

/// Reads a postcard value that must use up all bytes.
pub(crate) fn from_postcard<'a, T: serde::Deserialize<'a>>(
    bytes: &'a [u8],
    what: &'static str,
) -> Result<T, WireError> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        _ => Err(WireError::Malformed(what)),
    }
}

/// Bytes that a value takes on the wire before compression.
#[must_use]
pub fn encoded_len<T: serde::Serialize + ?Sized>(value: &T) -> usize {
    to_postcard(value).len()
}

/// Writes a postcard value.
pub(crate) fn to_postcard<T: serde::Serialize + ?Sized>(value: &T) -> Vec<u8> {
    postcard::to_stdvec(value)
        .expect("our shapes have no sequence of unknown length, all that postcard refuses")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn verdicts() {
        let good = write_envelope(Kind::Frame, &[7; 40]);
        assert_eq!(open_envelope(&good), Ok((Kind::Frame, &[7u8; 40][..])));
        assert_eq!(peek_epoch(&good), Some(Epoch([7; 8])));
        assert_eq!(peek_exchange(&good), None);
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            open_envelope(&bytes).map(|(k, _)| k)
        };
        assert_eq!(with(0, b'X'), Err(WireError::NotOurs));
        assert_eq!(with(2, 0), Err(WireError::NotOurs));
        assert_eq!(with(2, 2), Err(WireError::UnknownVersion { found: 2 }));
        assert_eq!(with(3, 99), Err(WireError::UnknownKind(99)));
        assert_eq!(with(4, 1), Err(WireError::UnknownFlags(1)));
        let long = write_envelope(Kind::X1, &vec![0; limits::EXCHANGE_BYTES_MAX + 1]);
        assert_eq!(
            open_envelope(&long),
            Err(WireError::TooLarge(limits::EXCHANGE_BYTES_MAX + 1))
        );
        assert_eq!(
            peek_exchange(&write_envelope(Kind::X2, &[3; 40])),
            Some(ExchangeId([3; 32]))
        );
        assert_eq!(peek_exchange(&write_envelope(Kind::X2, &[3; 31])), None);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = open_envelope(&bytes);
            let _ = peek_epoch(&bytes);
            let _ = peek_exchange(&bytes);
            let mut ours = b"PN\x01".to_vec();
            ours.extend(&bytes);
            let _ = open_envelope(&ours);
        }
    }
}
