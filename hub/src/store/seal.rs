//! The form of bodies on disk: compressed, and encrypted where they hold secrets.
//!
//! Record: format byte 1, flags (bit 0: encrypted), place of the revision and plain length (u32, little endian),
//! then a zstd frame; encrypted: a 12-byte nonce and ChaCha20-Poly1305 over that frame. The storage key lives in
//! its own 0600 file, so a copy of the database alone leaks nothing.

use std::cell::RefCell;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf;
use ring::rand::{SecureRandom, SystemRandom};

use super::error::StoreError;

const FORMAT: u8 = 1;
const ENCRYPTED: u8 = 1;
const HEADER: usize = 10;
const KEY_MAGIC: &[u8] = b"PNSK1\n";
const KEY_BYTES: usize = 32;
/// Fast and small enough; the bodies are JSON of a few KiB.
const LEVEL: i32 = 1;

/// Encrypts and decrypts what may not lie on disk in the clear.
pub(super) struct StorageKey {
    key: LessSafeKey,
    /// What other keys are derived from.
    origin: hkdf::Prk,
    random: SystemRandom,
}

impl std::fmt::Debug for StorageKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StorageKey")
    }
}

/// Plain bytes read back from a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plain {
    pub(super) bytes: Vec<u8>,
    pub(super) mark: usize,
}

/// Length of derived keys.
struct Length;

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        KEY_BYTES
    }
}

impl StorageKey {
    /// Makes a new key file. Fails if there is one.
    pub(super) fn create(path: &Path) -> Result<(), StoreError> {
        let random = SystemRandom::new();
        let mut secret = [0; KEY_BYTES];
        random
            .fill(&mut secret)
            .map_err(|_| key_error(path, "no randomness from the system"))?;
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(|error| key_error(path, error))?;
        file.write_all(KEY_MAGIC)
            .and_then(|()| file.write_all(&secret))
            .and_then(|()| file.sync_all())
            .map_err(|error| key_error(path, error))
    }

    /// Reads the key file.
    pub(super) fn open(path: &Path) -> Result<StorageKey, StoreError> {
        let bytes = std::fs::read(path).map_err(|error| key_error(path, error))?;
        let secret = bytes
            .strip_prefix(KEY_MAGIC)
            .filter(|secret| secret.len() == KEY_BYTES)
            .ok_or_else(|| key_error(path, "not a storage key file"))?;
        let key = UnboundKey::new(&CHACHA20_POLY1305, secret)
            .map_err(|_| key_error(path, "the key has the wrong length"))?;
        Ok(StorageKey {
            key: LessSafeKey::new(key),
            origin: hkdf::Salt::new(hkdf::HKDF_SHA256, b"pinnace/1 derived keys").extract(secret),
            random: SystemRandom::new(),
        })
    }

    /// Another key, the same whenever it is asked for with the same words.
    pub(super) fn derive(&self, words: &[&[u8]]) -> [u8; KEY_BYTES] {
        let mut key = [0; KEY_BYTES];
        self.origin
            .expand(words, Length)
            .and_then(|okm| okm.fill(&mut key))
            .expect("32 bytes are within what HKDF gives");
        key
    }

    /// Compresses, and encrypts under `aad` if asked to. `mark` is a number kept beside (the place of the revision).
    pub(super) fn seal(
        &self,
        plain: &[u8],
        mark: usize,
        secret: bool,
        aad: &[u8],
    ) -> Result<Vec<u8>, StoreError> {
        let frame = compress(plain).map_err(|error| corrupt(error.to_string()))?;
        let mut record = Vec::with_capacity(HEADER + frame.len() + NONCE_LEN + 16);
        record.extend_from_slice(&[FORMAT, if secret { ENCRYPTED } else { 0 }]);
        for number in [mark, plain.len()] {
            let number = u32::try_from(number).map_err(|_| corrupt("body beyond 4 GiB".to_owned()))?;
            record.extend_from_slice(&number.to_le_bytes());
        }
        if !secret {
            record.extend_from_slice(&frame);
            return Ok(record);
        }
        let mut nonce = [0; NONCE_LEN];
        self.random
            .fill(&mut nonce)
            .map_err(|_| corrupt("no randomness from the system".to_owned()))?;
        let mut sealed = frame;
        self.key
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(aad), &mut sealed)
            .map_err(|_| corrupt("encryption failed".to_owned()))?;
        record.extend_from_slice(&nonce);
        record.extend_from_slice(&sealed);
        Ok(record)
    }

    /// The inverse; `limit` bounds what is inflated.
    pub(super) fn open_record(&self, record: &[u8], aad: &[u8], limit: usize) -> Result<Plain, StoreError> {
        let (header, rest) = record
            .split_at_checked(HEADER)
            .ok_or_else(|| corrupt("record too short".to_owned()))?;
        let [FORMAT, flags, numbers @ ..] = header else {
            return Err(corrupt("unknown record format".to_owned()));
        };
        let number = |at: usize| {
            numbers
                .get(at..at + 4)
                .and_then(|bytes| bytes.try_into().ok())
                .map_or(usize::MAX, |bytes| u32::from_le_bytes(bytes) as usize)
        };
        let (mark, length) = (number(0), number(4));
        if length > limit || mark > length {
            return Err(corrupt(format!(
                "record claims {length} bytes, the limit is {limit}"
            )));
        }
        let bytes = if flags & ENCRYPTED == 0 {
            inflate(rest, length)
        } else {
            let (nonce, sealed) = rest
                .split_at_checked(NONCE_LEN)
                .ok_or_else(|| corrupt("record too short".to_owned()))?;
            let nonce = Nonce::try_assume_unique_for_key(nonce)
                .map_err(|_| corrupt("nonce of the wrong length".to_owned()))?;
            let mut sealed = sealed.to_vec();
            let frame = self
                .key
                .open_in_place(nonce, Aad::from(aad), &mut sealed)
                .map_err(|_| {
                    corrupt("does not decrypt: changed, or the storage key is of another store".to_owned())
                })?;
            inflate(frame, length)
        }
        .map_err(|error| corrupt(error.to_string()))?;
        if bytes.len() != length {
            return Err(corrupt("record has another length than it says".to_owned()));
        }
        Ok(Plain { bytes, mark })
    }
}

thread_local! {
    /// Making a context costs more than a body of a few KiB; one of each kind stays with every thread.
    static CONTEXTS: RefCell<Contexts> = RefCell::default();
}

#[derive(Default)]
struct Contexts {
    compress: Option<zstd::bulk::Compressor<'static>>,
    inflate: Option<zstd::bulk::Decompressor<'static>>,
}

fn compress(plain: &[u8]) -> std::io::Result<Vec<u8>> {
    CONTEXTS.with_borrow_mut(|contexts| {
        let context = match &mut contexts.compress {
            Some(known) => known,
            none => none.insert(zstd::bulk::Compressor::new(LEVEL)?),
        };
        context.compress(plain)
    })
}

/// At most `length` bytes.
fn inflate(frame: &[u8], length: usize) -> std::io::Result<Vec<u8>> {
    CONTEXTS.with_borrow_mut(|contexts| {
        let context = match &mut contexts.inflate {
            Some(known) => known,
            none => none.insert(zstd::bulk::Decompressor::new()?),
        };
        context.decompress(frame, length)
    })
}

fn key_error(path: &Path, cause: impl ToString) -> StoreError {
    StoreError::StorageKey {
        path: path.display().to_string(),
        cause: cause.to_string(),
    }
}

fn corrupt(cause: String) -> StoreError {
    StoreError::Corrupt {
        what: "body".to_owned(),
        cause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn key() -> (tempfile::TempDir, StorageKey) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("storage.key");
        StorageKey::create(&path).unwrap();
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let key = StorageKey::open(&path).unwrap();
        (dir, key)
    }

    #[test]
    fn records_round_trip_and_flips_are_noticed() {
        let (_dir, key) = key();
        let plain = br#"{"data":{"password":"hunter2hunter2hunter2hunter2"}}"#;
        let open = key.seal(plain, 7, false, b"").unwrap();
        assert_eq!(
            key.open_record(&open, b"", 1000).unwrap(),
            Plain {
                bytes: plain.to_vec(),
                mark: 7
            }
        );
        let mut sealed = key.seal(plain, 7, true, b"here").unwrap();
        assert!(!sealed.windows(7).any(|window| window == b"hunter2"));
        assert_eq!(key.open_record(&sealed, b"here", 1000).unwrap().bytes, plain);
        assert!(key.open_record(&sealed, b"there", 1000).is_err());
        assert!(key.open_record(&sealed, b"here", 10).is_err(), "the limit binds");
        let last = sealed.len() - 1;
        sealed[last] ^= 1;
        assert!(key.open_record(&sealed, b"here", 1000).is_err());
        for cut in 0..open.len() {
            assert!(key.open_record(&open[..cut], b"", 1000).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn a_key_file_is_never_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("storage.key");
        assert!(StorageKey::open(&path).is_err());
        StorageKey::create(&path).unwrap();
        assert!(StorageKey::create(&path).is_err());
        std::fs::write(&path, b"short").unwrap();
        assert!(StorageKey::open(&path).is_err());
    }
}
