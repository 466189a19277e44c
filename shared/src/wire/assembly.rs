//! Putting chunks together again: bounded, resumable, never mixing two encodings.

use thiserror::Error;

use super::message::{Chunk, What};
use crate::bundle::{EncodeError, Encoding, decode};
use crate::ids::Digest;
use crate::limits;

/// An encoding on its way in.
#[derive(Clone, Debug)]
pub struct Assembly {
    what: What,
    parts: Option<Parts>,
}

#[derive(Clone, Debug)]
struct Parts {
    sha256: Digest,
    total: u32,
    length: u32,
    encoding: Encoding,
    bytes: Vec<u8>,
}

/// What a chunk did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More is needed, from this offset.
    More(u32),
    /// All bytes are there; call [`Assembly::finish`].
    Complete,
    /// The chunk did not fit what is needed next (repeated, out of order, of another thing); ask from this offset.
    Ignored(u32),
}

/// Why complete bytes are refused; the caller begins anew, asking for raw.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AssemblyError {
    /// Not all there.
    #[error("not complete")]
    Incomplete,
    /// SHA-256 of the encoding.
    #[error("the encoding arrived damaged")]
    Damaged,
    /// Decoding.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

impl Assembly {
    /// An empty one.
    #[must_use]
    pub const fn new(what: What) -> Self {
        Self { what, parts: None }
    }

    /// What is being put together.
    #[must_use]
    pub const fn what(&self) -> What {
        self.what
    }

    /// The offset to ask for next.
    #[must_use]
    pub fn offset(&self) -> u32 {
        self.parts
            .as_ref()
            .map_or(0, |p| u32::try_from(p.bytes.len()).unwrap_or(u32::MAX))
    }

    /// Takes a chunk in. A chunk at offset 0 of another encoding begins anew.
    pub fn add(&mut self, chunk: &Chunk) -> Progress {
        let total_ok = chunk.total as usize <= limits::ENCODING_BYTES_MAX;
        if chunk.what != self.what || !total_ok {
            return Progress::Ignored(self.offset());
        }
        let same = self
            .parts
            .as_ref()
            .is_some_and(|p| p.sha256 == chunk.sha256 && p.total == chunk.total);
        if !same {
            if chunk.offset != 0 {
                // The other side encodes differently now (restarted, another base): what we have is useless.
                self.parts = None;
                return Progress::Ignored(0);
            }
            self.parts = Some(Parts {
                sha256: chunk.sha256,
                total: chunk.total,
                length: chunk.length,
                encoding: chunk.encoding,
                bytes: Vec::new(),
            });
        }
        let at = self.offset();
        let Some(parts) = &mut self.parts else {
            return Progress::Ignored(at);
        };
        let end = u64::from(at) + chunk.bytes.len() as u64;
        if chunk.offset != at || end > u64::from(parts.total) {
            return if at == parts.total {
                Progress::Complete
            } else {
                Progress::Ignored(at)
            };
        }
        parts.bytes.extend_from_slice(&chunk.bytes);
        let at = self.offset();
        if at == chunk.total {
            Progress::Complete
        } else {
            Progress::More(at)
        }
    }

    /// The decoded bytes of a content: checked against its digest and length.
    ///
    /// # Errors
    /// [`AssemblyError`].
    pub fn finish(
        &self,
        digest: &Digest,
        length: usize,
        base: impl FnOnce(&Digest) -> Option<Vec<u8>>,
    ) -> Result<Vec<u8>, AssemblyError> {
        let parts = self.checked()?;
        Ok(decode(&parts.encoding, &parts.bytes, base, digest, length)?)
    }

    /// The decoded bytes of a set: bounded by the announced length; the caller compares the set digest.
    ///
    /// # Errors
    /// [`AssemblyError`].
    pub fn finish_set(&self) -> Result<Vec<u8>, AssemblyError> {
        let parts = self.checked()?;
        let max = (parts.length as usize).min(limits::SET_BYTES_MAX);
        match parts.encoding {
            Encoding::Raw => Ok(parts.bytes.clone()),
            Encoding::Zstd => Ok(crate::bundle::inflate(&parts.bytes, &[], max)?),
            Encoding::ZstdPrefix(base) => Err(EncodeError::NoBase(base).into()),
        }
    }

    fn checked(&self) -> Result<&Parts, AssemblyError> {
        let parts = self.parts.as_ref().ok_or(AssemblyError::Incomplete)?;
        if parts.bytes.len() != parts.total as usize {
            return Err(AssemblyError::Incomplete);
        }
        if Digest::of(&parts.bytes) != parts.sha256 {
            return Err(AssemblyError::Damaged);
        }
        Ok(parts)
    }
}

/// Cuts the chunk at `offset` out of an encoding. `None` if the offset is beyond its end.
#[must_use]
pub fn cut(
    what: What,
    encoding: Encoding,
    encoded: &[u8],
    sha256: Digest,
    length: u32,
    offset: u32,
) -> Option<Chunk> {
    let at = offset as usize;
    if at > encoded.len() || (at == encoded.len() && at > 0) {
        return None;
    }
    let end = encoded.len().min(at + limits::CHUNK_BYTES_MAX);
    Some(Chunk {
        what,
        offset,
        total: u32::try_from(encoded.len()).ok()?,
        sha256,
        encoding,
        length,
        descriptor: None,
        bytes: encoded.get(at..end)?.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_order_with_repeats_ends_complete(order in prop::collection::vec(0u32..4, 0..40)) {
            let content: Vec<u8> = (0..800_000u32).flat_map(|i| (i.wrapping_mul(2_654_435_761) >> 24).to_be_bytes()).collect();
            let content = &content[..limits::CHUNK_BYTES_MAX * 3 + 5];
            let (digest, sha) = (Digest::of(content), Digest::of(content));
            let what = What::Content(digest);
            let mut assembly = Assembly::new(what);
            let length = content.len() as u32;
            for which in order {
                let offset = which * limits::CHUNK_BYTES_MAX as u32;
                assembly.add(&cut(what, Encoding::Raw, content, sha, length, offset).unwrap());
            }
            for _ in 0..4 {
                if let Some(chunk) = cut(what, Encoding::Raw, content, sha, length, assembly.offset()) {
                    assembly.add(&chunk);
                }
            }
            prop_assert_eq!(assembly.finish(&digest, content.len(), |_| None).unwrap(), content);
        }
    }

    #[test]
    fn another_encoding_begins_anew_and_damage_is_told() {
        let (a, b) = (
            vec![1; limits::CHUNK_BYTES_MAX + 1],
            vec![2; limits::CHUNK_BYTES_MAX + 1],
        );
        let what = What::Content(Digest::of(&b));
        let part =
            |bytes: &[u8], offset| cut(what, Encoding::Raw, bytes, Digest::of(bytes), 9, offset).unwrap();
        let second = limits::CHUNK_BYTES_MAX as u32;
        let mut assembly = Assembly::new(what);
        assert_eq!(assembly.add(&part(&a, 0)), Progress::More(second));
        assert_eq!(assembly.add(&part(&b, second)), Progress::Ignored(0));
        assert_eq!(assembly.add(&part(&b, 0)), Progress::More(second));
        assert_eq!(assembly.add(&part(&b, 0)), Progress::Ignored(second));
        let mut bad = part(&b, second);
        bad.bytes[0] ^= 1;
        assert_eq!(assembly.add(&bad), Progress::Complete);
        assert_eq!(assembly.finish_set(), Err(AssemblyError::Damaged));
        assert_eq!(Assembly::new(what).finish_set(), Err(AssemblyError::Incomplete));
        assert!(cut(what, Encoding::Raw, &a, Digest::of(&a), 9, a.len() as u32).is_none());
        assert!(cut(what, Encoding::Raw, &[], Digest::of(&[]), 0, 0).is_some());
    }
}
