//! Reproducible dice: one seed, independent child streams, so that a new roll in one place does not reshuffle the others.

use std::time::{SystemTime, UNIX_EPOCH};

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// From `PINNACE_SEED` if it is set, else from the clock; the seed is printed, so that a run can be repeated.
    #[must_use]
    pub fn from_environment() -> Self {
        let seed = std::env::var("PINNACE_SEED")
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or_else(|| {
                let since = SystemTime::now().duration_since(UNIX_EPOCH);
                since.map_or(1, |since| since.as_secs() << 20 ^ u64::from(since.subsec_nanos()))
            });
        println!("seed {seed} (repeat with PINNACE_SEED={seed})");
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

    /// A place in something of that length; 0 if it is empty.
    pub fn index(&mut self, length: usize) -> usize {
        // What is below a usize is one.
        usize::try_from(self.next_u64() % length.max(1) as u64).unwrap_or_default()
    }

    /// One of them. There must be one.
    pub fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.index(all.len())]
    }

    /// From `low` up to and without `high`.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low)
    }

    /// From `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True `per_mille` times out of 1,000.
    pub fn chance(&mut self, per_mille: u32) -> bool {
        self.below(1000) < u64::from(per_mille)
    }

    /// 16 bytes.
    pub fn bytes16(&mut self) -> [u8; 16] {
        (u128::from(self.next_u64()) << 64 | u128::from(self.next_u64())).to_be_bytes()
    }

    /// A DNS label: `prefix`, a dash and five letters.
    pub fn name(&mut self, prefix: &str) -> String {
        let letters: String = (0..5)
            .map(|_| char::from(*self.of(b"abcdefghijklmnopqrstuvwxyz")))
            .collect();
        format!("{prefix}-{letters}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seeds of failures that were found once are worth something only as long as they mean the same.
    #[test]
    fn a_seed_means_the_same_for_ever() {
        let mut random = Random::new(1);
        assert_eq!(
            [random.next_u64(), random.next_u64()],
            [10_451_216_379_200_822_465, 13_757_245_211_066_428_519]
        );
        assert_ne!(
            random.child("a").next_u64(),
            random.child("b").next_u64(),
            "streams are independent"
        );
    }
}
