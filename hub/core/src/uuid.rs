//! UUIDs as text (RFC 9562): from random bytes for uids that Kubernetes makes at random, or derived from a seed for
//! rows whose uid must be the same whenever it is computed.

use shared::ids::Digest;

/// Version 4: sixteen random bytes, of which six bits become version and variant.
pub fn random(bytes: [u8; 16]) -> String {
    text(bytes, 0x40)
}

/// Version 8 (made by a rule of our own): the first sixteen bytes of the seed's SHA-256.
pub fn derived(seed: &[u8]) -> String {
    let Digest(hash) = Digest::of(seed);
    let mut bytes = [0_u8; 16];
    bytes.copy_from_slice(&hash[..16]);
    text(bytes, 0x80)
}

fn text(mut bytes: [u8; 16], version: u8) -> String {
    bytes[6] = bytes[6] & 0x0f | version;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let number = u128::from_be_bytes(bytes);
    let part = |shift: u32, mask: u128| number >> shift & mask;
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        part(96, 0xffff_ffff),
        part(80, 0xffff),
        part(64, 0xffff),
        part(48, 0xffff),
        part(0, 0xffff_ffff_ffff)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_and_variant_are_set_and_nothing_else_changes() {
        assert_eq!(random([0xff; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(random([0; 16]), "00000000-0000-4000-8000-000000000000");
    }

    #[test]
    fn a_derived_uuid_depends_on_its_seed_alone() {
        assert_eq!(derived(b"a"), derived(b"a"));
        assert_ne!(derived(b"a"), derived(b"b"));
        assert_eq!(derived(b"a").as_bytes()[14], b'8');
    }
}
