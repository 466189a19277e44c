//! Seeded randomness for tests, and mutations of texts, bytes and JSON. Everything repeats from one seed: the same on
//! every machine.
//!
//! A mutation test goes through [`seeds`]: `PINNACE_SEED=N` begins with seed N, and `PINNACE_MUTATION_SECONDS=S` goes on for
//! S seconds (per test) instead of stopping after the number of seeds that a usual run has time for.

mod bytes;
mod json;
mod random;
mod seeds;

pub use bytes::{mutate_bytes, mutate_text};
pub use json::{depth, mutate_json, odd, size};
pub use random::Random;
pub use seeds::{Seeds, first_seed, seeds};
