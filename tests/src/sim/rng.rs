//! Reproducible dice: one seed, independent child streams, so that a new roll in one place does not reshuffle the
//! others.

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// From a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// An independent stream named `name`.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        let mut child = Self(name.bytes().fold(self.0 ^ 0xcbf2_9ce4_8422_2325, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
        }));
        child.next_u64();
        child
    }

    /// 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`, which must not be zero.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next_u64() % n
    }

    /// From `low` up to and without `high`.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low)
    }

    /// True `per_mille` times out of 1,000.
    pub fn chance(&mut self, per_mille: u32) -> bool {
        self.below(1000) < u64::from(per_mille)
    }

    /// 16 bytes.
    pub fn bytes16(&mut self) -> [u8; 16] {
        (u128::from(self.next_u64()) << 64 | u128::from(self.next_u64())).to_be_bytes()
    }
}
