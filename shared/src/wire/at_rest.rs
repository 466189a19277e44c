//! A whole set as bytes: inside chunks, in the agent's ledger, in exports.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::envelope::{Kind, WireError, expect, from_postcard, to_postcard, write_envelope};
use crate::set::{Entry, Set, Tombstone};

/// The bytes of a set: an envelope of kind `Set`. Not compressed; senders compress what they send.
#[must_use]
pub fn encode_set(set: &Set) -> Vec<u8> {
    #[derive(Serialize)]
    struct Shape<'a> {
        entries: Vec<&'a Entry>,
        tombstones: &'a [Tombstone],
    }
    let shape = Shape {
        entries: set.entries().iter().map(AsRef::as_ref).collect(),
        tombstones: set.tombstones(),
    };
    write_envelope(Kind::Set, &to_postcard(&shape))
}

/// Reads what [`encode_set`] wrote, checking order and limits. The digest is the caller's to compare with a head.
///
/// # Errors
/// [`WireError`].
pub fn decode_set(bytes: &[u8]) -> Result<Set, WireError> {
    #[derive(Deserialize)]
    struct Shape {
        entries: Vec<Entry>,
        tombstones: Vec<Tombstone>,
    }
    let shape: Shape = from_postcard(expect(bytes, Kind::Set)?, "set")?;
    Set::from_sorted(
        shape.entries.into_iter().map(Arc::new).collect(),
        shape.tombstones,
    )
    .map_err(|_| WireError::Malformed("set: order or limits"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::tests::any_set;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sets_round_trip_and_damage_never_passes(set in any_set(), at in 0usize..4000, bit in 0u8..8) {
            let bytes = encode_set(&set);
            prop_assert_eq!(decode_set(&bytes).unwrap(), set.clone());
            prop_assert!(decode_set(&bytes[..at % bytes.len()]).is_err());
            let mut flipped = bytes.clone();
            let at = at % bytes.len();
            flipped[at] ^= 1 << bit;
            if let Ok(other) = decode_set(&flipped) {
                prop_assert!(other.digest() != set.digest());
            }
        }
    }
}
