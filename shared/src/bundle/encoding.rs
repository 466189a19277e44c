//! Encodings of content and sets on their way: raw, zstd, or zstd with a prefix that the receiver has.

use std::io::{Read, Write};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ids::Digest;
use crate::limits;

/// How bytes are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Encoding {
    /// As they are.
    Raw,
    /// A zstd frame.
    Zstd,
    /// A zstd frame whose window begins with another content, named by its digest.
    ZstdPrefix(Digest),
}

/// Encoded bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// How.
    pub encoding: Encoding,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Why bytes cannot be encoded or decoded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EncodeError {
    /// Inflates to more than the expected length.
    #[error("inflates to more than the {0} bytes announced")]
    TooLong(usize),
    /// No zstd frame, a window over the limit, or cut.
    #[error("no zstd frame within the limits: {0}")]
    Zstd(String),
    /// The base of the prefix is not the one named.
    #[error("the prefix {0} is not at hand")]
    NoBase(Digest),
    /// What came out is not what the digest names.
    #[error("decodes to other bytes than {0}")]
    Mismatch(Digest),
}

/// Compression level for bytes that are sent: contents are small and sent often, so more effort pays.
const LEVEL: i32 = 9;
/// Compression level for what is sent once to one receiver: most of a large message is contents that are compressed already.
const LIGHT_LEVEL: i32 = 1;

fn zstd_error(error: &std::io::Error) -> EncodeError {
    EncodeError::Zstd(error.to_string())
}

/// Encodes content, with a prefix if `base` is given, and keeps the smaller of result and raw bytes.
///
/// # Errors
/// [`EncodeError::Zstd`] if zstd has no memory.
pub fn encode(content: &[u8], base: Option<(&Digest, &[u8])>) -> Result<Encoded, EncodeError> {
    let (encoding, bytes) = match base {
        Some((digest, base)) => (Encoding::ZstdPrefix(*digest), compress(content, base)?),
        None => (Encoding::Zstd, compress(content, &[])?),
    };
    if bytes.len() < content.len() {
        Ok(Encoded { encoding, bytes })
    } else {
        Ok(Encoded {
            encoding: Encoding::Raw,
            bytes: content.to_vec(),
        })
    }
}

/// A zstd frame of `content` with `prefix` (may be empty) before it. No content size, checksum or dictionary id:
/// length and digest are known from elsewhere.
///
/// # Errors
/// [`EncodeError::Zstd`] if zstd has no memory.
pub fn compress(content: &[u8], prefix: &[u8]) -> Result<Vec<u8>, EncodeError> {
    frame(content, prefix, LEVEL)
}

/// As [`compress`] without a prefix and with little effort.
///
/// # Errors
/// [`EncodeError::Zstd`] if zstd has no memory.
pub fn compress_lightly(content: &[u8]) -> Result<Vec<u8>, EncodeError> {
    frame(content, &[], LIGHT_LEVEL)
}

fn frame(content: &[u8], prefix: &[u8], level: i32) -> Result<Vec<u8>, EncodeError> {
    let run = || -> std::io::Result<Vec<u8>> {
        let out = Vec::with_capacity(content.len() / 4 + 64);
        let mut encoder = if prefix.is_empty() {
            zstd::stream::write::Encoder::new(out, level)?
        } else {
            zstd::stream::write::Encoder::with_ref_prefix(out, level, prefix)?
        };
        let reach = (content.len() + prefix.len()).max(1 << 10);
        let log = reach
            .next_power_of_two()
            .trailing_zeros()
            .min(limits::WINDOW_LOG_MAX);
        encoder.window_log(log)?;
        encoder.include_contentsize(false)?;
        encoder.include_checksum(false)?;
        encoder.include_dictid(false)?;
        encoder.set_pledged_src_size(Some(content.len() as u64))?;
        encoder.write_all(content)?;
        encoder.finish()
    };
    run().map_err(|e| zstd_error(&e))
}

/// Inflates a zstd frame to at most `max` bytes, with a window of at most 4 MiB.
///
/// # Errors
/// [`EncodeError::TooLong`], [`EncodeError::Zstd`].
pub fn inflate(frame: &[u8], prefix: &[u8], max: usize) -> Result<Vec<u8>, EncodeError> {
    fn read<R: std::io::BufRead>(
        mut decoder: zstd::stream::read::Decoder<'_, R>,
        max: usize,
    ) -> std::io::Result<Vec<u8>> {
        decoder.window_log_max(limits::WINDOW_LOG_MAX)?;
        let mut out = Vec::with_capacity(max.min(64 << 10));
        decoder
            .single_frame()
            .take(max as u64 + 1)
            .read_to_end(&mut out)?;
        Ok(out)
    }
    let out = if prefix.is_empty() {
        zstd::stream::read::Decoder::with_buffer(frame).and_then(|d| read(d, max))
    } else {
        zstd::stream::read::Decoder::with_ref_prefix(frame, prefix).and_then(|d| read(d, max))
    };
    let out = out.map_err(|e| zstd_error(&e))?;
    if out.len() > max {
        Err(EncodeError::TooLong(max))
    } else {
        Ok(out)
    }
}

/// Decodes and compares with digest and length. `base` gives the content of a digest, for a prefix.
///
/// # Errors
/// [`EncodeError`]; nothing of unmatched bytes is returned.
pub fn decode(
    encoding: &Encoding,
    bytes: &[u8],
    base: impl FnOnce(&Digest) -> Option<Vec<u8>>,
    digest: &Digest,
    length: usize,
) -> Result<Vec<u8>, EncodeError> {
    let max = length.min(limits::SET_BYTES_MAX);
    let content = match encoding {
        Encoding::Raw if bytes.len() > max => return Err(EncodeError::TooLong(max)),
        Encoding::Raw => bytes.to_vec(),
        Encoding::Zstd => inflate(bytes, &[], max)?,
        Encoding::ZstdPrefix(named) => {
            let base = base(named).ok_or(EncodeError::NoBase(*named))?;
            inflate(bytes, &base, max)?
        }
    };
    if content.len() == length && Digest::of(&content) == *digest {
        Ok(content)
    } else {
        Err(EncodeError::Mismatch(*digest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip(content: &[u8], base: Option<&[u8]>) -> Encoded {
        let base_digest = base.map(Digest::of);
        let encoded = encode(content, base_digest.as_ref().zip(base)).unwrap();
        let back = decode(
            &encoded.encoding,
            &encoded.bytes,
            |d| base.filter(|b| Digest::of(b) == *d).map(<[u8]>::to_vec),
            &Digest::of(content),
            content.len(),
        );
        assert_eq!(back.unwrap(), content);
        encoded
    }

    fn manifest(lines: usize, image: &str) -> Vec<u8> {
        let mut text = String::from("{");
        for i in 0..lines {
            let word = Digest::of(&i.to_be_bytes()).to_string();
            text += &format!("\"key{i}\":\"{}\",", if i == lines / 2 { image } else { &word });
        }
        text.into_bytes()
    }

    #[test]
    fn a_one_line_change_of_64_kib_is_small() {
        let (old, new) = (manifest(850, "app:1"), manifest(850, "app:2"));
        assert!(old.len() > 64_000);
        let encoded = round_trip(&new, Some(&old));
        assert!(encoded.bytes.len() < 80, "{} bytes", encoded.bytes.len());
        assert!(matches!(encoded.encoding, Encoding::ZstdPrefix(_)));
        round_trip(&new, None);
    }

    #[test]
    fn the_largest_content_with_the_largest_prefix() {
        let mut old = manifest(38_000, "app:1");
        old.resize(limits::CONTENT_BYTES_MAX, b'x');
        let mut new = old.clone();
        new[100] ^= 1;
        let encoded = round_trip(&new, Some(&old));
        assert!(encoded.bytes.len() < limits::CONTENT_BYTES_MAX);
        round_trip(&new, None);
    }

    #[test]
    fn bounds_hold_and_wrong_bases_are_refused() {
        let zeros = vec![0; 1 << 20];
        let bomb = compress(&zeros, &[]).unwrap();
        assert!(bomb.len() < 200);
        assert_eq!(inflate(&bomb, &[], 1000), Err(EncodeError::TooLong(1000)));
        // A frame that wants a window over 4 MiB.
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(24).unwrap();
        encoder.write_all(&[7; 100]).unwrap();
        let wide = encoder.finish().unwrap();
        assert!(matches!(inflate(&wide, &[], 1000), Err(EncodeError::Zstd(_))));
        let old = manifest(100, "app:1");
        let new = manifest(100, "app:2");
        let base = Digest::of(&old);
        let encoded = encode(&new, Some((&base, &old))).unwrap();
        let digest = Digest::of(&new);
        let none = decode(&encoded.encoding, &encoded.bytes, |_| None, &digest, new.len());
        assert_eq!(none, Err(EncodeError::NoBase(base)));
        // Whether a wrong base inflates or not, the digest refuses the result.
        let other = vec![b'x'; old.len()];
        assert!(
            decode(
                &encoded.encoding,
                &encoded.bytes,
                |_| Some(other),
                &digest,
                new.len()
            )
            .is_err()
        );
    }

    proptest! {
        #[test]
        fn anything_round_trips(content in prop::collection::vec(any::<u8>(), 0..600),
                                base in prop::collection::vec(any::<u8>(), 0..600)) {
            round_trip(&content, None);
            round_trip(&content, Some(&base));
        }

        #[test]
        fn damaged_frames_never_panic_or_exceed_the_bound(
            at in 0usize..2000, bit in 0u8..8, cut in 0usize..2000, max in 0usize..3000
        ) {
            let content = manifest(40, "app:1");
            let mut frame = compress(&content, &[]).unwrap();
            frame.truncate(cut.max(1));
            let at = at % frame.len();
            frame[at] ^= 1 << bit;
            if let Ok(out) = inflate(&frame, &[], max) {
                prop_assert!(out.len() <= max);
            }
            let digest = Digest::of(&content);
            if let Ok(out) = decode(&Encoding::Zstd, &frame, |_| None, &digest, content.len()) {
                prop_assert_eq!(out, content);
            }
        }
    }
}
