//! Names and counts that differ from run to run, from one printed seed.

use std::time::{SystemTime, UNIX_EPOCH};

/// A small generator (SplitMix64); good enough to vary names and counts.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// From `PINNACE_SEED` if it is set, else from the clock; the seed is printed, so that a run can be repeated.
    pub fn from_environment() -> Self {
        let seed = std::env::var("PINNACE_SEED")
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or_else(|| {
                SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .map_or(1, |since| since.as_nanos() as u64)
            });
        println!("seed {seed} (repeat with PINNACE_SEED={seed})");
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next_u64() % (high - low + 1)
    }

    /// A DNS label: `prefix`, a dash and five letters.
    pub fn name(&mut self, prefix: &str) -> String {
        let letters: String = (0..5)
            .map(|_| char::from(b'a' + (self.next_u64() % 26) as u8))
            .collect();
        format!("{prefix}-{letters}")
    }
}
