//! Mutations of bytes and texts.

use super::Random;

/// Changes bytes in one place: a bit, a byte, a piece that goes, comes or is there again, or the end is cut off.
pub fn mutate_bytes(bytes: &mut Vec<u8>, pieces: &[&[u8]], random: &mut Random) {
    let at = random.index(bytes.len() + 1);
    let end = (at + 1 + random.index(24)).min(bytes.len());
    match random.index(8) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.index(8),
        1 if at < bytes.len() => bytes[at] = *random.of(&[0, 1, 0x7f, 0x80, 0xff]),
        2 if at < end => drop(bytes.drain(at..end)),
        3 if at < end => {
            let part = bytes[at..end].to_vec();
            for _ in 0..1 + random.index(20) {
                drop(bytes.splice(at..at, part.iter().copied()));
            }
        }
        4 if random.index(4) == 0 => bytes.truncate(at),
        5 if at < end => {
            let part = bytes[at..end].to_vec();
            let to = random.index(bytes.len() + 1);
            drop(bytes.splice(to..to, part));
        }
        _ if !pieces.is_empty() => {
            let piece = random.of(pieces).iter().copied();
            drop(bytes.splice(at..at, piece));
        }
        _ => bytes.insert(at, b' '),
    }
}

/// Changes a text in up to `most` places. It stays text.
pub fn mutate_text(text: &str, pieces: &[&str], most: usize, random: &mut Random) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let pieces: Vec<&[u8]> = pieces.iter().map(|piece| piece.as_bytes()).collect();
    for _ in 0..random.index(most + 1) {
        mutate_bytes(&mut bytes, &pieces, random);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
