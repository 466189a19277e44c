//! The file of `pinnace-hub keys export`: every key of a hub under a passphrase.
//!
//! Format 1: `PNKX1\n`, rounds (u32, little endian), salt (16 bytes), nonce (12 bytes), then ChaCha20-Poly1305 over a
//! JSON map of file names to base64; the key comes from the passphrase by PBKDF2-HMAC-SHA256; what stands before is
//! authenticated.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::pbkdf2::{PBKDF2_HMAC_SHA256, derive};
use ring::rand::{SecureRandom, SystemRandom};

use super::OpsError;
use crate::keys::{Keys, create_file};
use crate::store::Store;

const MAGIC: &[u8] = b"PNKX1\n";
const SALT: usize = 16;
const HEADER: usize = MAGIC.len() + 4 + SALT + NONCE_LEN;
/// Rounds of the passphrase's derivation (OWASP's number for PBKDF2-HMAC-SHA256).
const ROUNDS: u32 = 600_000;
/// No file asks for more: it would keep the machine busy for minutes.
const MAX_ROUNDS: u32 = 10_000_000;
/// Shortest passphrase.
const MIN_PASSPHRASE: usize = 12;
/// No file of keys is larger.
const MAX_BYTES: u64 = 1024 * 1024;

/// Why a file of keys cannot be made or read.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// Too short to protect anything.
    #[error("the passphrase has fewer than {MIN_PASSPHRASE} characters")]
    Passphrase,
    /// Wrong passphrase, or the file was changed: they look the same.
    #[error("the file of keys does not open: the passphrase is wrong or the file is damaged")]
    Closed,
    /// Not such a file.
    #[error("it is not a file that `pinnace-hub keys export` made")]
    Foreign,
    /// The system.
    #[error("no randomness from the system")]
    Randomness,
}

fn cipher(passphrase: &str, rounds: u32, salt: &[u8]) -> Result<LessSafeKey, KeyFileError> {
    let rounds = NonZeroU32::new(rounds).ok_or(KeyFileError::Foreign)?;
    let mut secret = [0; 32];
    derive(
        PBKDF2_HMAC_SHA256,
        rounds,
        salt,
        passphrase.as_bytes(),
        &mut secret,
    );
    let key = UnboundKey::new(&CHACHA20_POLY1305, &secret).map_err(|_| KeyFileError::Foreign)?;
    Ok(LessSafeKey::new(key))
}

fn seal(files: &BTreeMap<String, Vec<u8>>, passphrase: &str) -> Result<Vec<u8>, KeyFileError> {
    if passphrase.chars().count() < MIN_PASSPHRASE {
        return Err(KeyFileError::Passphrase);
    }
    let encoded: BTreeMap<&str, String> = files
        .iter()
        .map(|(n, b)| (n.as_str(), BASE64.encode(b)))
        .collect();
    let mut content = serde_json::to_vec(&encoded).expect("a map of texts always serialises");
    let mut random = [0; SALT + NONCE_LEN];
    SystemRandom::new()
        .fill(&mut random)
        .map_err(|_| KeyFileError::Randomness)?;
    let (salt, nonce) = random.split_at(SALT);
    let key = cipher(passphrase, ROUNDS, salt)?;
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&ROUNDS.to_le_bytes());
    out.extend_from_slice(&random);
    let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| KeyFileError::Randomness)?;
    key.seal_in_place_append_tag(nonce, Aad::from(&out), &mut content)
        .map_err(|_| KeyFileError::Randomness)?;
    out.extend_from_slice(&content);
    Ok(out)
}

/// The files in a file of keys.
pub(super) fn open(bytes: &[u8], passphrase: &str) -> Result<BTreeMap<String, Vec<u8>>, KeyFileError> {
    let (header, sealed) = bytes.split_at_checked(HEADER).ok_or(KeyFileError::Foreign)?;
    let rest = header.strip_prefix(MAGIC).ok_or(KeyFileError::Foreign)?;
    let (rounds, random) = rest.split_at(4);
    let rounds = u32::from_le_bytes(rounds.try_into().map_err(|_| KeyFileError::Foreign)?);
    if rounds > MAX_ROUNDS {
        return Err(KeyFileError::Foreign);
    }
    let (salt, nonce) = random.split_at(SALT);
    let key = cipher(passphrase, rounds, salt)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| KeyFileError::Foreign)?;
    let mut content = sealed.to_vec();
    let plain = key
        .open_in_place(nonce, Aad::from(header), &mut content)
        .map_err(|_| KeyFileError::Closed)?;
    let encoded: BTreeMap<String, String> =
        serde_json::from_slice(plain).map_err(|_| KeyFileError::Foreign)?;
    encoded
        .into_iter()
        .map(|(name, text)| {
            let is_name = !name.is_empty() && !name.contains(['/', '\\']) && !name.starts_with('.');
            let bytes = BASE64.decode(text).ok().filter(|_| is_name);
            bytes.map(|bytes| (name, bytes)).ok_or(KeyFileError::Foreign)
        })
        .collect()
}

/// Reads a file of keys from disk.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, OpsError> {
    let failed = |cause| OpsError::File {
        verb: "read",
        path: path.to_owned(),
        cause,
    };
    if std::fs::metadata(path).map_err(failed)?.len() > MAX_BYTES {
        return Err(KeyFileError::Foreign.into());
    }
    std::fs::read(path).map_err(failed)
}

/// Writes every key of a hub, under a passphrase, to a new file that only its owner may read. The hub may be serving.
///
/// # Errors
/// No hub there, a passphrase too short, or the file exists.
pub fn export(data: &Path, to: &Path, passphrase: &str) -> Result<usize, OpsError> {
    let mut files = Keys::files(data)?;
    let (name, key) = Store::key_file(data)?;
    files.insert(name, key);
    create_file(to, &seal(&files, passphrase)?)?;
    Ok(files.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_with_the_passphrase_alone() {
        let files = BTreeMap::from([
            ("a.key".to_owned(), b"one".to_vec()),
            ("b".to_owned(), vec![0, 255]),
        ]);
        let passphrase = "correct horse";
        let sealed = seal(&files, passphrase).unwrap();
        assert_eq!(open(&sealed, passphrase).unwrap(), files);
        assert!(matches!(open(&sealed, "wrong horse!"), Err(KeyFileError::Closed)));
        assert!(matches!(seal(&files, "short"), Err(KeyFileError::Passphrase)));
        for at in [MAGIC.len() + 4, HEADER, sealed.len() - 1] {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(
                matches!(open(&changed, passphrase), Err(KeyFileError::Closed)),
                "{at}"
            );
        }
        let mut greedy = sealed.clone();
        greedy[MAGIC.len()..MAGIC.len() + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        for foreign in [
            &b""[..],
            b"PNKX1\n",
            b"something else that is long enough to be a header",
            &greedy,
        ] {
            assert!(matches!(open(foreign, passphrase), Err(KeyFileError::Foreign)));
        }
        let escape = BTreeMap::from([("../x".to_owned(), vec![1])]);
        assert!(matches!(
            open(&seal(&escape, passphrase).unwrap(), passphrase),
            Err(KeyFileError::Foreign)
        ));
    }
}
