//! Keys of the hub and the files they live in, all 0600 in the data directory.
//!
//! | file | what |
//! |---|---|
//! | `root.key` | Ed25519, pinned by agents; needed only to sign key statements, may be kept offline |
//! | `set-signing-N.key` | Ed25519, signs set heads, contents, receipts and exchanges |
//! | `key-statements.json` | the root's word for each set-signing key |
//! | `api-ca.pem` | certificate and key of the API's CA (ECDSA P-256, 10 years) |
//! | `tls.pem` | certificate and key of the TLS leaf; the hub renews it |
//! | `service-account.key` | ECDSA P-256, signs ServiceAccount tokens |
//! | `hub.json` | names and addresses given at `init` |
//! | `admin.kubeconfig` | a client certificate of `system:masters` |
//!
//! The storage key and the fleet id belong to the store.

mod authority;
mod certificates;
mod client_certificate;
mod files;
mod kubeconfig;
mod settings;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use ring::rand::SystemRandom;
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject;
use serde::{Deserialize, Serialize};
use shared::ids::{FleetId, IdError, KeyNumber, PublicKey, Signature, from_hex};
use shared::keys::{HubKeys, KeyError, KeyStatement, RootPin, SigningKey};
use shared::time::UnixSeconds;

pub use authority::{Authority, Signed, SigningRequest, fingerprint};
pub(crate) use certificates::{certificate_der, key_der};
pub(crate) use files::{create as create_file, replace as replace_file};
pub use settings::Settings;

use certificates::Pair;

const ROOT: &str = "root.key";
const STATEMENTS: &str = "key-statements.json";
const CA: &str = "api-ca.pem";
const LEAF: &str = "tls.pem";
const KUBECONFIG: &str = "admin.kubeconfig";
/// Group that may do everything.
const ADMIN_GROUP: &str = "system:masters";
/// User of `admin.kubeconfig`.
pub const ADMIN_USER: &str = "pinnace-admin";

/// What can go wrong with keys and their files.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// `init` overwrites nothing.
    #[error("{} exists already; a hub is never overwritten (choose another --data directory)", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A file that `init` makes is not there.
    #[error("{} is missing; run `pinnace-hub init --data DIR` in an empty directory, or restore the file", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// A file holds something else.
    #[error("{} cannot be used: {cause}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// The operating system refused.
    #[error("cannot {verb} {}: {cause}", path.display())]
    File {
        /// What was tried.
        verb: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's words.
        cause: String,
    },
    /// A name that no certificate can carry.
    #[error("{name:?} is neither a host name nor an IP address (give it without scheme and port)")]
    Name {
        /// As given.
        name: String,
    },
    /// A certificate could not be made or read.
    #[error("certificate: {cause}")]
    Certificate {
        /// What the library says.
        cause: String,
    },
    /// Signing keys and statements.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Hex in a statement.
    #[error(transparent)]
    Id(#[from] IdError),
}

/// A statement as it is kept: hex, so that a person can compare it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredStatement {
    fleet: String,
    number: u32,
    key: String,
    signature: String,
}

/// Everything the hub signs and shows.
#[derive(Debug)]
pub struct Keys {
    dir: PathBuf,
    hub: Arc<HubKeys>,
    ca: Pair,
    settings: Settings,
}

impl Keys {
    /// Makes all keys of a new hub in `dir`, which the store has made.
    ///
    /// # Errors
    /// [`KeysError::Exists`] if any of the files is there.
    pub fn create(
        dir: &Path,
        fleet: FleetId,
        settings: &Settings,
        now: UnixSeconds,
    ) -> Result<(), KeysError> {
        settings.check()?;
        let random = SystemRandom::new();
        let (root, root_pkcs8) = SigningKey::generate(&random)?;
        let (signer, signer_pkcs8) = SigningKey::generate(&random)?;
        let number = KeyNumber(1);
        let statement = KeyStatement::issue(&root, fleet, number, signer.public());
        files::create(&dir.join(ROOT), pem(&root_pkcs8).as_bytes())?;
        files::create(&dir.join(signing_file(number)), pem(&signer_pkcs8).as_bytes())?;
        files::create(&dir.join(STATEMENTS), &encode_statements(&[statement]))?;
        let ca = certificates::make_ca(now)?;
        files::create(&dir.join(CA), join(&ca).as_bytes())?;
        let leaf = certificates::make_leaf(&ca, &settings.leaf_names(), now)?;
        files::create(&dir.join(LEAF), join(&leaf).as_bytes())?;
        let admin = certificates::make_client(&ca, ADMIN_USER, ADMIN_GROUP, now)?;
        let config = kubeconfig::render(&settings.server, &ca.certificate, ADMIN_USER, &admin);
        authority::create(dir)?;
        files::create(&dir.join(KUBECONFIG), config.as_bytes())?;
        settings.create(dir)
    }

    /// Refuses a directory that holds any file of a hub's keys.
    ///
    /// # Errors
    /// [`KeysError::Exists`].
    pub fn refuse_existing(dir: &Path) -> Result<(), KeysError> {
        let names = [
            ROOT,
            STATEMENTS,
            CA,
            LEAF,
            KUBECONFIG,
            authority::FILE,
            settings::FILE,
        ];
        match names.iter().map(|name| dir.join(name)).find(|path| path.exists()) {
            Some(path) => Err(KeysError::Exists { path }),
            None => Ok(()),
        }
    }

    /// Reads the keys of a hub.
    ///
    /// # Errors
    /// A file is missing or does not fit the others.
    pub fn load(dir: &Path, fleet: FleetId) -> Result<Self, KeysError> {
        let statements_path = dir.join(STATEMENTS);
        let statements = decode_statements(&statements_path)?;
        let newest = statements.into_iter().max_by_key(|statement| statement.number);
        let statement = newest.ok_or_else(|| KeysError::Corrupt {
            path: statements_path.clone(),
            cause: "no statement".to_owned(),
        })?;
        if statement.fleet != fleet {
            let cause = format!(
                "it is of fleet {}, the database of fleet {fleet}",
                statement.fleet
            );
            return Err(KeysError::Corrupt {
                path: statements_path,
                cause,
            });
        }
        let signer = signing_key(&dir.join(signing_file(statement.number)))?;
        // The public half is enough to serve; the secret may be kept offline.
        let root = root_public(dir)?;
        let hub = Arc::new(HubKeys::new(root, statement, signer)?);
        let ca = split(&dir.join(CA))?;
        Ok(Self {
            dir: dir.to_owned(),
            hub,
            ca,
            settings: Settings::load(dir)?,
        })
    }

    /// Name and content of every file that cannot be made anew, for `keys export`. The root key may be kept offline.
    ///
    /// # Errors
    /// A file is missing or not readable.
    pub fn files(dir: &Path) -> Result<BTreeMap<String, Vec<u8>>, KeysError> {
        let mut names = vec![STATEMENTS.to_owned(), CA.to_owned(), KUBECONFIG.to_owned()];
        names.push(settings::FILE.to_owned());
        for optional in [ROOT, authority::FILE] {
            if dir.join(optional).exists() {
                names.push(optional.to_owned());
            }
        }
        for statement in decode_statements(&dir.join(STATEMENTS))? {
            names.push(signing_file(statement.number));
        }
        names
            .into_iter()
            .map(|name| Ok((name.clone(), files::read(&dir.join(name))?)))
            .collect()
    }

    /// Keys of exchanges, sets and contents.
    #[must_use]
    pub fn hub(&self) -> Arc<HubKeys> {
        self.hub.clone()
    }

    /// What agents pin.
    #[must_use]
    pub fn pin(&self) -> RootPin {
        RootPin::of(&self.hub.root)
    }

    /// What was given at `init`.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// This process listens on another address than the one of `init`: the TLS leaf names it.
    pub fn listen_on(&mut self, address: std::net::IpAddr) {
        self.settings.listens_on = Some(address);
    }

    /// What signs for users and ServiceAccounts, with the address that clients use now.
    ///
    /// # Errors
    /// The token key cannot be read or made.
    pub fn authority(&self) -> Result<Arc<Authority>, KeysError> {
        Authority::load(&self.dir, self.ca.clone(), &self.settings.server)
    }

    /// PEM of the API CA's certificate.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.ca.certificate
    }

    /// The TLS leaf, made anew if it is missing, ends soon or the names changed. The flag says whether it is new.
    ///
    /// # Errors
    /// It cannot be made or written.
    pub fn leaf(&self, now: UnixSeconds) -> Result<(LeafPem, bool), KeysError> {
        let path = self.dir.join(LEAF);
        let names = self.settings.leaf_names();
        if let Ok(leaf) = split(&path)
            && !certificates::leaf_is_stale(&leaf.certificate, &names, now)
        {
            return Ok((LeafPem(leaf), false));
        }
        let leaf = certificates::make_leaf(&self.ca, &names, now)?;
        files::replace(&path, join(&leaf).as_bytes())?;
        Ok((LeafPem(leaf), true))
    }

    /// Points `admin.kubeconfig` and later join lines at the address the hub listens on, unless a person changed
    /// the file.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn adopt_address(&mut self, address: std::net::SocketAddr) -> Result<(), KeysError> {
        let server = self.settings.server_for(address);
        if server == self.settings.server {
            return Ok(());
        }
        let path = self.dir.join(KUBECONFIG);
        if let Ok(text) = files::read_text(&path)
            && let Some(changed) = kubeconfig::with_server(&text, &self.settings.server, &server)
        {
            files::replace(&path, changed.as_bytes())?;
        }
        self.settings.server = server;
        self.settings.replace(&self.dir)
    }
}

/// Certificate and key of the TLS leaf.
#[derive(Debug)]
pub struct LeafPem(Pair);

impl LeafPem {
    /// PEM of the certificate.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.0.certificate
    }

    /// PEM of the key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.0.key
    }
}

fn signing_file(number: KeyNumber) -> String {
    format!("set-signing-{number}.key")
}

fn root_public(dir: &Path) -> Result<PublicKey, KeysError> {
    Ok(signing_key(&dir.join(ROOT))?.public())
}

fn signing_key(path: &Path) -> Result<SigningKey, KeysError> {
    let text = files::read(path)?;
    let der = PrivatePkcs8KeyDer::from_pem_slice(&text).map_err(|error| KeysError::Corrupt {
        path: path.to_owned(),
        cause: error.to_string(),
    })?;
    SigningKey::from_pkcs8(der.secret_pkcs8_der()).map_err(|error| KeysError::Corrupt {
        path: path.to_owned(),
        cause: error.to_string(),
    })
}

/// PKCS#8 in PEM.
fn pem(pkcs8: &[u8]) -> String {
    let body = base64::engine::general_purpose::STANDARD.encode(pkcs8);
    let mut text = String::from("-----BEGIN PRIVATE KEY-----\n");
    let mut rest = body.as_str();
    while !rest.is_empty() {
        let (line, tail) = rest.split_at(rest.len().min(64));
        text.push_str(line);
        text.push('\n');
        rest = tail;
    }
    text.push_str("-----END PRIVATE KEY-----\n");
    text
}

/// Certificate and key in one file, so that they change together.
fn join(pair: &Pair) -> String {
    format!("{}{}", pair.certificate, pair.key)
}

fn split(path: &Path) -> Result<Pair, KeysError> {
    let text = files::read_text(path)?;
    let corrupt = |cause: &str| KeysError::Corrupt {
        path: path.to_owned(),
        cause: cause.to_owned(),
    };
    let at = text
        .find("-----BEGIN PRIVATE KEY-----")
        .ok_or_else(|| corrupt("it holds no private key"))?;
    let (certificate, key) = text.split_at(at);
    certificate_der(certificate).map_err(|_| corrupt("it holds no certificate"))?;
    Ok(Pair {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
    })
}

fn encode_statements(statements: &[KeyStatement]) -> Vec<u8> {
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let stored: Vec<StoredStatement> = statements
        .iter()
        .map(|statement| StoredStatement {
            fleet: statement.fleet.to_string(),
            number: statement.number.0,
            key: statement.key.to_string(),
            signature: hex(&statement.signature.0),
        })
        .collect();
    serde_json::to_vec_pretty(&stored).expect("strings and numbers always serialise")
}

fn decode_statements(path: &Path) -> Result<Vec<KeyStatement>, KeysError> {
    let corrupt = |cause: String| KeysError::Corrupt {
        path: path.to_owned(),
        cause,
    };
    let stored: Vec<StoredStatement> =
        serde_json::from_slice(&files::read(path)?).map_err(|error| corrupt(error.to_string()))?;
    stored
        .into_iter()
        .map(|statement| {
            let signature = from_hex(&statement.signature)
                .and_then(|bytes| bytes.try_into().ok())
                .ok_or_else(|| corrupt("a signature is not 64 bytes in hex".to_owned()))?;
            Ok(KeyStatement {
                fleet: statement.fleet.parse()?,
                number: KeyNumber(statement.number),
                key: statement.key.parse()?,
                signature: Signature(signature),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const NOW: UnixSeconds = UnixSeconds(1_800_000_000);
    const FLEET: FleetId = FleetId([7; 16]);

    fn made() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings::new(
            vec!["hub.example.com".to_owned()],
            "127.0.0.1:6443".parse().unwrap(),
        );
        Keys::create(dir.path(), FLEET, &settings, NOW).unwrap();
        dir
    }

    #[test]
    fn init_makes_private_files_once() {
        let dir = made();
        for entry in fs::read_dir(dir.path()).unwrap() {
            let entry = entry.unwrap();
            assert_eq!(
                entry.metadata().unwrap().permissions().mode() & 0o777,
                0o600,
                "{:?}",
                entry.path()
            );
        }
        assert!(matches!(
            Keys::refuse_existing(dir.path()),
            Err(KeysError::Exists { .. })
        ));
        let again = Keys::create(
            dir.path(),
            FLEET,
            &Settings::new(vec![], "127.0.0.1:1".parse().unwrap()),
            NOW,
        );
        assert!(matches!(again, Err(KeysError::Exists { .. })));
        let keys = Keys::load(dir.path(), FLEET).unwrap();
        assert_eq!(keys.hub().number(), KeyNumber(1));
        assert_eq!(keys.pin(), RootPin::of(&keys.hub().root));
    }

    #[test]
    fn files_that_do_not_fit_are_refused() {
        let dir = made();
        assert!(matches!(
            Keys::load(dir.path(), FleetId([8; 16])),
            Err(KeysError::Corrupt { .. })
        ));
        fs::copy(dir.path().join(ROOT), dir.path().join(signing_file(KeyNumber(1)))).unwrap();
        assert!(matches!(Keys::load(dir.path(), FLEET), Err(KeysError::Key(_))));
        fs::remove_file(dir.path().join(CA)).unwrap();
        let other = made();
        fs::remove_file(other.path().join(CA)).unwrap();
        assert!(matches!(
            Keys::load(other.path(), FLEET),
            Err(KeysError::Missing { .. })
        ));
    }

    #[test]
    fn the_leaf_is_renewed_when_due() {
        let dir = made();
        let keys = Keys::load(dir.path(), FLEET).unwrap();
        let (first, renewed) = keys.leaf(NOW).unwrap();
        assert!(!renewed);
        let later = NOW.plus(300 * 86_400);
        let (second, renewed) = keys.leaf(later).unwrap();
        assert!(renewed && first.certificate() != second.certificate());
        assert!(!keys.leaf(later).unwrap().1);
        let mut keys = keys;
        keys.listen_on("192.0.2.9".parse().unwrap());
        assert!(keys.leaf(later).unwrap().1, "another address is another name");
    }

    #[test]
    fn the_kubeconfig_follows_the_address_unless_a_person_changed_it() {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings::new(vec![], "127.0.0.1:0".parse().unwrap());
        Keys::create(dir.path(), FLEET, &settings, NOW).unwrap();
        let path = dir.path().join(KUBECONFIG);
        let mut keys = Keys::load(dir.path(), FLEET).unwrap();
        keys.adopt_address("127.0.0.1:4001".parse().unwrap()).unwrap();
        assert!(
            fs::read_to_string(&path)
                .unwrap()
                .contains("server: https://127.0.0.1:4001\n")
        );
        let mut keys = Keys::load(dir.path(), FLEET).unwrap();
        assert_eq!(keys.settings().server, "https://127.0.0.1:4001");
        let edited = fs::read_to_string(&path)
            .unwrap()
            .replace("127.0.0.1:4001", "nat.example.com:443");
        fs::write(&path, edited).unwrap();
        keys.adopt_address("127.0.0.1:4002".parse().unwrap()).unwrap();
        assert!(
            fs::read_to_string(&path)
                .unwrap()
                .contains("https://nat.example.com:443\n")
        );
    }
}
