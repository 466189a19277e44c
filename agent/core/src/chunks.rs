//! Puts an encoding together from chunks: in order, within its bounds, never mixing two encodings, and going on
//! after a break where it stopped.

use shared::bundle::Encoding;
use shared::ids::{Digest, KeyNumber, Signature};
use shared::limits::ENCODING_BYTES_MAX;
use shared::wire::Chunk;

/// How a chunk fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// It was the next one; there is more.
    More,
    /// It was the last one and the hash is right.
    Whole,
    /// It is not the next one, or goes over a bound.
    Ignored,
    /// It belongs to another encoding, or the hash is wrong: begin anew.
    Restart,
}

/// An encoding on its way.
#[derive(Debug, Default)]
pub struct Assembly {
    of: Option<(Digest, u32)>,
    encoding: Option<Encoding>,
    length: u32,
    descriptor: Option<(KeyNumber, Signature)>,
    bytes: Vec<u8>,
}

impl Assembly {
    /// Where the next chunk begins.
    #[must_use]
    pub fn offset(&self) -> u32 {
        u32::try_from(self.bytes.len()).unwrap_or(u32::MAX)
    }

    /// Adds a chunk. `decoded_max` bounds what the whole may decode to; no encoding is longer than that plus a
    /// little, so the total is bounded before a byte is kept.
    pub fn add(&mut self, chunk: &Chunk, decoded_max: usize) -> Fit {
        let total = chunk.total as usize;
        if total > ENCODING_BYTES_MAX || total > decoded_max + 64 || chunk.length as usize > decoded_max {
            return Fit::Ignored;
        }
        if self.of.is_some_and(|of| of != (chunk.sha256, chunk.total)) {
            *self = Self::default();
            if chunk.offset != 0 {
                return Fit::Restart;
            }
        }
        if chunk.offset != self.offset() || self.bytes.len() + chunk.bytes.len() > total {
            return Fit::Ignored;
        }
        if chunk.offset == 0 {
            self.of = Some((chunk.sha256, chunk.total));
            self.encoding = Some(chunk.encoding);
            self.length = chunk.length;
            self.descriptor = chunk.descriptor;
        }
        self.bytes.extend_from_slice(&chunk.bytes);
        if self.bytes.len() < total {
            return Fit::More;
        }
        if Digest::of(&self.bytes) == chunk.sha256 {
            return Fit::Whole;
        }
        *self = Self::default();
        Fit::Restart
    }

    /// Takes the whole out: encoding, bytes, decoded length, descriptor.
    pub fn take(&mut self) -> (Encoding, Vec<u8>, u32, Option<(KeyNumber, Signature)>) {
        let whole = std::mem::take(self);
        (
            whole.encoding.unwrap_or(Encoding::Raw),
            whole.bytes,
            whole.length,
            whole.descriptor,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::wire::What;

    fn chunks(bytes: &[u8], size: usize) -> Vec<Chunk> {
        let total = u32::try_from(bytes.len()).unwrap();
        bytes
            .chunks(size)
            .enumerate()
            .map(|(i, part)| Chunk {
                what: What::Content(Digest([0; 32])),
                offset: u32::try_from(i * size).unwrap(),
                total,
                sha256: Digest::of(bytes),
                encoding: Encoding::Raw,
                length: total,
                descriptor: None,
                bytes: part.to_vec(),
            })
            .collect()
    }

    #[test]
    fn in_order_with_repeats_and_after_a_change_of_encoding() {
        let (a, b) = (chunks(b"abcdefg", 3), chunks(b"xyzxyzx", 3));
        let mut whole = Assembly::default();
        assert_eq!(whole.add(&a[0], 7), Fit::More);
        assert_eq!(whole.add(&a[0], 7), Fit::Ignored);
        assert_eq!(whole.add(&a[2], 7), Fit::Ignored);
        assert_eq!(whole.add(&b[1], 7), Fit::Restart);
        assert_eq!(whole.offset(), 0);
        for (chunk, fit) in b.iter().zip([Fit::More, Fit::More, Fit::Whole]) {
            assert_eq!(whole.add(chunk, 7), fit);
        }
        assert_eq!(whole.take().1, b"xyzxyzx");
    }

    #[test]
    fn bounds_and_hash() {
        let a = chunks(b"abcdefg", 7);
        assert_eq!(
            Assembly::default().add(&a[0], 6),
            Fit::Ignored,
            "decodes to more than announced"
        );
        let mut wrong = a[0].clone();
        wrong.bytes[0] = b'x';
        assert_eq!(Assembly::default().add(&wrong, 7), Fit::Restart);
    }
}
