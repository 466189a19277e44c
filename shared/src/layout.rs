//! The byte layout under every digest and signature: a domain tag, then length-prefixed fields.
//!
//! Digests and signatures never cover serde output, so that a change of serialiser cannot change them.

/// Collects fields into unambiguous bytes.
pub(crate) struct Layout(Vec<u8>);

impl Layout {
    /// Starts with a domain tag such as `pinnace/1 set head`, so that bytes of one purpose never verify for
    /// another.
    pub(crate) fn new(domain: &str) -> Self {
        let mut layout = Self(Vec::with_capacity(192));
        layout.bytes(domain.as_bytes());
        layout
    }

    /// A field of any length: four bytes of length, big endian, then the bytes.
    pub(crate) fn bytes(&mut self, field: &[u8]) -> &mut Self {
        // Fields are bounded by `limits` far below 4 GiB; a longer one is cut in its length only, and the
        // total then differs from every honest layout.
        let length = u32::try_from(field.len()).unwrap_or(u32::MAX);
        self.0.extend_from_slice(&length.to_be_bytes());
        self.0.extend_from_slice(field);
        self
    }

    /// A number: eight bytes, big endian.
    pub(crate) fn number(&mut self, field: u64) -> &mut Self {
        self.0.extend_from_slice(&field.to_be_bytes());
        self
    }

    /// The bytes so far.
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.0
    }
}
